rockspec_format = "3.0"
package = "moongate"
version = "dev-1"

source = { url = "git+file://." }

description = {
  summary = "A programmable HTTP gateway: a C core that moves bytes, Lua that decides",
  license = "MIT",
}

dependencies = {
  "lua == 5.1",
  "lyaml >= 6.2",
  "lua-cjson >= 2.1",
}

test_dependencies = { "busted >= 2.0", "luasocket >= 3.0", "luafilesystem >= 1.8" }

build = {
  type = "cmake",
  variables = {
    CMAKE_BUILD_TYPE = "Release",
    CMAKE_INSTALL_PREFIX = "$(PREFIX)",
  },
  copy_directories = { "lua", "filters" },
}

test = { type = "busted" }
