rockspec_format = "3.0"
package = "moongate"
version = "dev-1"

source = { url = "git+file://." }

description = {
  summary = "A programmable HTTP gateway: a C core that moves bytes, Lua that decides",
  license = "MIT",
}

-- For checkouts that `sh rockspec/setup build` has prepared: lyaml and lua-cjson are the distribution's there, as libuv
-- and LuaJIT are, and LuaRocks knows nothing of them.
dependencies = { "lua == 5.1" }

test_dependencies = { "busted >= 2.0", "luasocket >= 3.0", "luafilesystem >= 1.8" }

build = {
  type = "cmake",
  variables = {
    CMAKE_BUILD_TYPE = "Release",
    CMAKE_INSTALL_PREFIX = "$(PREFIX)",
    MG_LUA_DIR = "$(LUADIR)",
  },
}

test = { type = "busted" }
