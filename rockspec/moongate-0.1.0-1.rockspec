rockspec_format = "3.0"
package = "moongate"
version = "0.1.0-1"

-- The archive lies beside this file: git archive --prefix=moongate-0.1.0/ -o moongate-0.1.0.tar.gz v0.1.0
source = { url = "moongate-0.1.0.tar.gz", dir = "moongate-0.1.0" }

description = {
  summary = "A programmable HTTP gateway: a C core that moves bytes, Lua that decides",
  license = "MIT",
}

dependencies = { "lua == 5.1", "lyaml >= 6.2", "lua-cjson >= 2.1" }

build = {
  type = "cmake",
  variables = {
    CMAKE_BUILD_TYPE = "Release",
    CMAKE_INSTALL_PREFIX = "$(PREFIX)",
    MG_LUA_DIR = "$(LUADIR)",
  },
}
