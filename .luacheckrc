-- What luacheck holds the Lua side to: luacheck lua filters spec
std = "luajit"
max_line_length = 120
read_globals = {
  "moongate_embedded", "moongate_kit", "moongate_list", "moongate_load_limit", "moongate_progress",
}

files["filters"] = { read_globals = { "moongate" } }
files["lua/compat_kong.lua"] = { read_globals = { "moongate" } } -- runs in a filter's sandbox
files["spec"] = { std = "+busted" }
files["spec/lua/fixtures"] = { read_globals = { "moongate" } }
