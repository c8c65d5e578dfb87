-- spec/tidy_spec.lua - style and layering as a test.
-- What fails: a layer that reaches up, tabs, long files, a file without its contract, a folder without its README,
-- drawings that differ from the code. What only warns: long lines, functions and headers, a .c without a unit test.
local lfs = require "lfs"

local COLUMNS, FILE_LINES, HEADER_LINES, FUNCTION_LINES = 120, 500, 150, 70

-- Which nouns form a layer, which layers it may use, and which libraries. A file belongs to the layer that lists its
-- noun or the part of its name before the first '_'. Everything else in core/ is the top layer, free to use all.
local LAYERS = {
  base = { nouns = { "err", "mem", "log", "json", "embedded" }, uses = {}, libraries = {} },
  http = {
    nouns = { "headers", "digest", "fields", "http1", "body", "chunked", "response_head", "target", "address",
      "forward", "routes", "route_index", "query", "cookie", "trace" },
    uses = { "base" }, libraries = { "llhttp.h", "openssl/evp.h" },
  },
  match = { nouns = { "regex", "predicates" }, uses = { "base", "http" }, libraries = { "pcre2.h" } },
  shared = { nouns = { "settings", "shm", "bundle", "tally", "meter", "states", "limiter", "breaker" },
    uses = { "base", "http" }, libraries = {} },
  net = { nouns = { "timer", "conn", "upstream", "group" }, uses = { "base", "http", "shared" },
    libraries = { "uv.h" } },
  script = { nouns = { "script", "watchdog", "pattern" }, uses = { "base" },
    libraries = { "lua.h", "lauxlib.h", "lualib.h", "luajit.h" } },
  -- What the master is made of: it never holds a lua_State.
  process = {
    nouns = { "frame", "channel", "cli", "listen", "resolve", "inherit", "upgrade", "succession", "notify", "watch",
      "control", "command", "master", "workers",
      "supervise", "reload", "status", "search", "components", "tailers", "condition", "inventory", "probe", "health",
      "metrics", "management", "space", "process", "processors", "build" },
    uses = { "base", "shared", "http", "process", "worker" }, libraries = { "uv.h" },
  },
  worker = { nouns = { "worker" }, uses = { "base", "shared", "http", "process", "top" }, libraries = { "uv.h" } },
}

-- Headers of libraries that only a layer or file named here may include; others in angle brackets are the system's.
local LIBRARY = { ["uv.h"] = true, ["llhttp.h"] = true, ["lua.h"] = true, ["lauxlib.h"] = true, ["lualib.h"] = true,
  ["luajit.h"] = true, ["zstd.h"] = true, ["openssl/evp.h"] = true, ["pcre2.h"] = true }

-- Set once before anything else runs, constant from then on: a parser past its first line; the gateway of this worker,
-- for calls from Lua, which bring no context along; what a signal handler has to find or to say, which brings none.
local WRITTEN_ONCE = { parser_at_first_line = true, bound = true, handled_before = true, handler_once = true,
  stop_asked = true }

-- The step table's files keep the Lua C API out: they go through script.h's functions.
local NO_LUA = { "^core/exchange", "^core/client", "^core/inflow" }


local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("*a")
  file:close()
  return text
end


-- Files below folder whose names match pattern, sorted.
local function files_in(folder, pattern)
  local found = {}
  if lfs.attributes(folder, "mode") ~= "directory" then return found end
  for name in lfs.dir(folder) do
    local path = folder .. "/" .. name
    local mode = lfs.attributes(path, "mode")
    if mode == "directory" and not name:find("^%.") then
      for _, inner in ipairs(files_in(path, pattern)) do found[#found + 1] = inner end
    elseif mode == "file" and name:find(pattern) then
      found[#found + 1] = path
    end
  end
  table.sort(found)
  return found
end


local function all_files(pattern, ...)
  local found = {}
  for _, folder in ipairs { ... } do
    for _, path in ipairs(files_in(folder, pattern)) do found[#found + 1] = path end
  end
  return found
end


local function lines_of(text)
  local lines = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  return lines
end


local function check(faults)
  assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
end


local function warn(text) io.stderr:write("tidy: ", text, "\n") end


local C_FILES = all_files("%.[ch]$", "core", "journal")
local LUA_FILES = all_files("%.lua$", "lua", "filters", "spec", "bench")
local SOURCES = all_files("%.[ch]$", "core", "journal", "lua", "spec", "bench")
for _, path in ipairs(LUA_FILES) do SOURCES[#SOURCES + 1] = path end


local layer_of_noun = {}
for name, layer in pairs(LAYERS) do
  for _, noun in ipairs(layer.nouns) do layer_of_noun[noun] = name end
end


local function layer_of(path)
  local noun = path:match("([^/]+)%.[ch]$")
  return layer_of_noun[noun] or layer_of_noun[noun:match("^%a+")]
end


-- What a file includes: its own headers and the libraries' (the system's left out).
local function includes_of(path)
  local own, libraries = {}, {}
  for line in (read(path) or ""):gmatch("[^\n]+") do
    local name = line:match('^#include "([^"]+)"')
    if name then own[#own + 1] = name:match("[^/]+$") end
    name = line:match("^#include <([^>]+)>")
    if name and LIBRARY[name] then libraries[#libraries + 1] = name end
  end
  return own, libraries
end


-- Every library header that a file sees, through whatever it includes: header -> the way there.
local function libraries_reached(path, way, seen, reached)
  way, seen, reached = way or path, seen or {}, reached or {}
  if seen[path] then return reached end
  seen[path] = true
  local own, libraries = includes_of(path)
  for _, name in ipairs(libraries) do reached[name] = reached[name] or way end
  for _, name in ipairs(own) do libraries_reached("core/" .. name, way .. " > " .. name, seen, reached) end
  return reached
end


local function set_of(list)
  local set = {}
  for _, item in ipairs(list) do set[item] = true end
  return set
end


describe("layering", function()
  it("only goes down, as the table above says", function()
    local faults = {}
    for _, path in ipairs(C_FILES) do
      local name = layer_of(path)
      local layer = LAYERS[name]
      if layer then
        local uses = set_of(layer.uses)
        uses[name] = true
        for _, header in ipairs((includes_of(path))) do
          local other = layer_of(header)
          if not uses[other or "top"] then
            faults[#faults + 1] = ("%s (%s) may not include %s (%s)"):format(path, name, header, other or "top")
          end
        end
      end
    end
    check(faults)
  end)

  it("keeps each library in the layers made for it, also through other headers", function()
    local faults = {}
    for _, path in ipairs(C_FILES) do
      local name = layer_of(path)
      if LAYERS[name] then
        local allowed = set_of(LAYERS[name].libraries)
        for header, way in pairs(libraries_reached(path)) do
          if not allowed[header] then faults[#faults + 1] = ("%s: <%s> through %s"):format(path, header, way) end
        end
      end
    end
    check(faults)
  end)

  it("keeps the Lua C API out of the step table and what it drives", function()
    local faults = {}
    for _, path in ipairs(C_FILES) do
      for _, pattern in ipairs(NO_LUA) do
        local text = path:find(pattern) and read(path) or ""
        for _, what in ipairs { "lua_%a+%(", "luaL_%a+%(", "#include <lua" } do
          if text:find(what) then faults[#faults + 1] = path .. " uses the Lua C API: " .. text:match(what) end
        end
      end
    end
    check(faults)
  end)

  it("lets only lua/ffi.lua have the FFI, and filters nothing but their own kind", function()
    local faults = {}
    for _, path in ipairs(all_files("%.lua$", "lua", "filters")) do
      local text = read(path)
      if path ~= "lua/ffi.lua" and text:find("require%s*%(?%s*[\"']ffi[\"']") then
        faults[#faults + 1] = path .. " requires ffi"
      end
      if path:find("^filters/") and text:find("require%s*%(?%s*[\"']moongate") then
        faults[#faults + 1] = path .. " requires what a user's filter could not"
      end
    end
    check(faults)
  end)
end)


describe("every file", function()
  it("is indented by blanks, has no blanks at line ends, and ends with a newline", function()
    local faults = {}
    for _, path in ipairs(SOURCES) do
      local text = read(path)
      if text:sub(-1) ~= "\n" then faults[#faults + 1] = path .. " does not end with a newline" end
      for number, line in ipairs(lines_of(text)) do
        if line:find("\t") then faults[#faults + 1] = ("%s:%d: a tab"):format(path, number) end
        if line:find("[ \t\r]$") then faults[#faults + 1] = ("%s:%d: a blank at the end"):format(path, number) end
      end
    end
    check(faults)
  end)

  it(("has at most %d lines, and is warned of those over %d columns"):format(FILE_LINES, COLUMNS), function()
    local faults, long = {}, 0
    for _, path in ipairs(SOURCES) do
      local lines = lines_of(read(path))
      for number, line in ipairs(lines) do
        local columns = #line:gsub("[\128-\191]", "")
        if columns > COLUMNS then
          long = long + 1
          if long <= 5 then warn(("%s:%d: %d columns"):format(path, number, columns)) end
        end
      end
      if #lines > FILE_LINES then faults[#faults + 1] = ("%s has %d lines"):format(path, #lines) end
      if path:find("%.h$") and #lines > HEADER_LINES then warn(("%s has %d lines"):format(path, #lines)) end
    end
    if long > 5 then warn(("%d lines are longer than %d columns"):format(long, COLUMNS)) end
    check(faults)
  end)

  it("has a sentence for every code that C gives to Lua", function()
    local faults, said = {}, read("lua/handles.lua")
    for name in read("lua/moongate_ffi.h"):match("enum {(.-)}"):gmatch("MG_LUA_%u+") do
      if name ~= "MG_LUA_OK" and not said:find(("[C.%s] = "):format(name), 1, true) then faults[#faults + 1] = name end
    end
    check(faults)
  end)

  it("leaves nothing for later", function()
    local faults, words = {}, { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X:" }
    for _, path in ipairs(SOURCES) do
      local text = read(path)
      for _, word in ipairs(words) do
        if text:find(word, 1, true) then faults[#faults + 1] = path .. " says " .. word end
      end
    end
    check(faults)
  end)

  it("opens with its contract", function()
    local faults = {}
    for _, path in ipairs(C_FILES) do
      local name, text = path:match("[^/]+$"), read(path)
      local comment = text:match("^/%*.-%*/") or text:match("^#pragma once\n(/%*.-%*/)") or ""
      local function wants(what)
        if not comment:find(what, 1, true) then
          faults[#faults + 1] = ("%s: its first comment has no %q"):format(path, what)
        end
      end
      wants(name .. " - ")
      if path:find("%.c$") then
        for _, part in ipairs { "Owns:", "May call:", "Never:", "Thread:" } do wants(part) end
      end
    end
    for _, path in ipairs(all_files("%.lua$", "lua", "filters")) do
      local name, first = path:match("[^/]+$"), read(path):match("^[^\n]*")
      local says = path:find("^filters/") or first:find(name, 1, true) -- a filter's name is what it does
      if not (first:find("^%-%-") and says) then
        faults[#faults + 1] = path .. ": its first line does not say what it is"
      end
    end
    check(faults)
  end)
end)


describe("C", function()
  it("has no mutable variables at file scope", function()
    local faults = {}
    for _, path in ipairs(C_FILES) do
      for number, line in ipairs(lines_of(read(path))) do
        local declared = line:match("^static ([^(]*[;=])") or line:match("^static ([^(]*%[[^(]*)$")
        local name = declared and (declared:match("([%w_]+)%s*[;=%[]") or declared)
        if declared and not declared:find("const", 1, true) and not WRITTEN_ONCE[name] then
          faults[#faults + 1] = ("%s:%d: %s"):format(path, number, line)
        end
      end
    end
    check(faults)
  end)

  it("guards every header with #pragma once", function()
    local faults = {}
    for _, path in ipairs(all_files("%.h$", "core", "journal", "lua")) do
      if not read(path):find("#pragma once", 1, true) then faults[#faults + 1] = path end
    end
    check(faults)
  end)

  it("warns of long functions and of files without a unit test", function()
    for _, path in ipairs(C_FILES) do
      local start
      for number, line in ipairs(lines_of(read(path))) do
        if line == "{" then start = number end
        if line == "}" and start then
          if number - start > FUNCTION_LINES then
            warn(("%s:%d: a function of %d lines"):format(path, start, number - start))
          end
          start = nil
        end
      end
      local folder, noun = path:match("^(%a+)/([%w_]+)%.c$")
      local layer = noun and layer_of(path)
      if (layer == "base" or layer == "http" or layer == "shared")
        and not lfs.attributes(("spec/c/%s_%s.c"):format(folder, noun)) then
        warn(path .. " has no unit test of its own")
      end
    end
  end)
end)


local FOLDERS = set_of { "core", "lua", "spec", "rockspec", "bench", "journal" }


describe("documents", function()
  it("stand in every folder", function()
    local faults = {}
    for _, folder in ipairs { ".", "core", "journal", "lua", "filters", "spec", "bench", "rockspec" } do
      if lfs.attributes(folder, "mode") == "directory" and not read(folder .. "/README.md") then
        faults[#faults + 1] = folder .. "/README.md is missing"
      end
    end
    check(faults)
  end)

  it("name only files that exist", function()
    local faults = {}
    for _, path in ipairs { "README.md", "core/README.md", "lua/README.md", "filters/README.md", "spec/README.md" } do
      for name in (read(path) or ""):gmatch("`([%w_]+/[%w_/]+%.%w+)`") do
        local top = name:match("^%w+")
        local placeholder = name:find("NOUN", 1, true) or name:find("NAME", 1, true)
        if not placeholder and FOLDERS[top] and not read(name) then
          faults[#faults + 1] = ("%s names %s"):format(path, name)
        end
      end
    end
    check(faults)
  end)

  it("draw the steps as core/exchange.c has them", function()
    local text, code, drawn = assert(read("core/exchange.c")), {}, {}
    for name, next_steps in text:gmatch('%[MG_STEP_%u+%] = {"(%l+)", [%w_]+, ([^}]*)}') do
      local list = {}
      for step in next_steps:gmatch("TO%((%u+)%)") do list[#list + 1] = step:lower() end
      code[#code + 1] = name .. ": " .. table.concat(list, " ")
    end
    for name, next_steps in assert(read("core/README.md")):gmatch("\n| `(%l+)` |[^\n|]*|([^\n|]*)|") do
      local list = {}
      for step in next_steps:gmatch("%l+") do list[#list + 1] = step end
      drawn[#drawn + 1] = name .. ": " .. table.concat(list, " ")
    end
    assert.equal(11, #code)
    assert.same(code, drawn)
  end)
end)
