--- sandbox.lua - the world that a filter or a Lua routes file sees.
--
-- Owns: which globals exist. Every chunk gets its own globals and its own copies of the libraries, so that nothing it
-- changes is seen by another. There is no ffi, jit, debug, io, package, os.execute, C module or bytecode.
-- May call: cjson.   Never: read files (sources are handed in).
-- This stops accidents and casual abuse; code that is out to do harm needs a process of its own.

local cjson = require "cjson".new()

local sandbox = {}

local REP_BYTES_MAX = 4 * 1024 * 1024 -- string.rep is one long C call that no watchdog can end
local RESULT_BYTES_MAX = 64 * 1024 * 1024 -- of table.concat and json.encode, for the same reason
local JSON_VALUES_MAX = 1000000 -- a table that holds itself twice, thirty times over, is a billion of them
local SORT_ITEMS_MAX = 10000 -- of a list that is sorted without a call into Lua, where the watchdog can end it
local DATE_BYTES_MAX = 1024
local SOURCE_BYTES_MAX = 128 * 1024 -- of load: the parser is C, too, and walks a long elseif again for each branch
local JSON_BYTES_MAX = 8 * 1024 * 1024 -- of a text to be decoded
local POSITION_MAX = 2 ^ 31 - 1
local LEVELS = { "debug", "info", "warn", "error" }
local COROUTINES_DEEP_MAX = 32 -- each that another has resumed takes some of the C stack
local WAITING = { sleep = true, http = true, password_matches = true } -- of what the host offers


local function copy(library, without)
  local result = {}
  for name, value in pairs(library) do
    if not (without and without[name]) then result[name] = value end
  end
  return result
end


local function capped_rep(text, count, separator)
  local size = (#tostring(text) + #tostring(separator or "")) * (tonumber(count) or 0)
  if size > REP_BYTES_MAX then
    error(("string.rep: the result would have %.0f bytes, at most %d are allowed"):format(size, REP_BYTES_MAX), 2)
  end
  return string.rep(text, count, separator)
end


local function capped_concat(list, separator, first, last)
  local size, between = 0, type(separator) == "string" and #separator or 0
  for i = first or 1, last or #list do
    local item = list[i]
    size = size + (type(item) == "string" and #item or 24) + between
    if size > RESULT_BYTES_MAX then error("table.concat: the result would be longer than 64 MB", 2) end
  end
  return table.concat(list, separator, first, last)
end


--- A position below the list would move everything from there up, one empty place after the other.
local function bounded_insert(list, ...)
  if select("#", ...) ~= 2 then return table.insert(list, ...) end
  local position = tonumber((...))
  if position and not (position >= 1 and position <= POSITION_MAX) then
    error(("table.insert: position %.0f, accepted: 1 to %d"):format(position, POSITION_MAX), 2)
  end
  return table.insert(list, ...)
end


local function less(a, b) return a < b end


--- Moves the item at `at` of a heap of the first `last` items down to where none below it is greater.
local function sink(list, at, last, before)
  local item = list[at]
  while 2 * at <= last do
    local child = 2 * at
    if child < last and before(list[child], list[child + 1]) then child = child + 1 end
    if not before(item, list[child]) then break end
    list[at], at = list[child], child
  end
  list[at] = item
end


--- True for a list of numbers or of texts alone, which C compares without calling anything.
local function is_plain(list)
  local kind = type(list[1])
  if kind ~= "number" and kind ~= "string" then return false end
  for i = 2, #list do
    if type(list[i]) ~= kind then return false end
  end
  return true
end


--- table.sort where comparing may run code: from C that code could not be ended, and sorts inside of sorts inside of
-- sorts would use up the C stack.
local function bounded_sort(list, before)
  local is_short = type(list) == "table" and before == nil and #list <= SORT_ITEMS_MAX
  if type(list) ~= "table" or is_short and is_plain(list) then return table.sort(list, before) end
  before = before or less
  for at = math.floor(#list / 2), 1, -1 do sink(list, at, #list, before) end
  for last = #list, 2, -1 do
    list[1], list[last] = list[last], list[1]
    sink(list, 1, last - 1, before)
  end
end


--- string.format calls __tostring from C, which the watchdog cannot end when that formats in turn; tostring does not.
local function shallow_format(format, ...)
  for i = 1, select("#", ...) do
    if type((select(i, ...))) == "table" then
      local values = { ... }
      for at = i, select("#", ...) do
        if type(values[at]) == "table" then values[at] = tostring(values[at]) end
      end
      return string.format(format, unpack(values, 1, select("#", ...)))
    end
  end
  return string.format(format, ...)
end


local function bounded_date(format, time)
  if type(format) == "string" and #format > DATE_BYTES_MAX then
    error(("os.date: the format has %d bytes, at most %d are allowed"):format(#format, DATE_BYTES_MAX), 2)
  end
  return os.date(format, time)
end


--- The fields of a date are looked up by C: as they stand, without what __index would run there.
local function plain_time(date)
  if type(date) ~= "table" then return os.time(date) end
  local fields = {}
  for _, name in ipairs { "year", "month", "day", "hour", "min", "sec", "isdst" } do
    fields[name] = rawget(date, name)
  end
  return os.time(fields)
end


local function handle_error(handler, ok, ...)
  if ok then return true, ... end
  return false, select(2, pcall(handler, ...))
end


--- xpcall, but for when the handler runs: not where the error was raised. That may be inside the watchdog's hook, which
-- cannot end what it has called itself.
local function late_xpcall(body, handler, ...)
  return handle_error(handler, pcall(body, ...))
end


--- Raises when a value has too much in it for one call of the encoder, which nothing could end.
local function bound_json(value, used)
  used.values = used.values + 1
  if type(value) == "string" then used.bytes = used.bytes + #value end
  if used.values > JSON_VALUES_MAX or used.bytes > RESULT_BYTES_MAX then error("too much for one text", 0) end
  if type(value) ~= "table" or used.depth > 1000 then return end
  used.depth = used.depth + 1
  for key, item in next, value do
    bound_json(key, used)
    bound_json(item, used)
  end
  used.depth = used.depth - 1
end


local function encode_json(value)
  bound_json(value, { values = 0, bytes = 0, depth = 0 })
  return cjson.encode(value)
end


--- The string library as filters see it; replacements come from the host (its bounded pattern matcher).
local function string_library(host)
  local library = copy(string, { dump = true })
  library.rep, library.format = capped_rep, shallow_format
  for name, value in pairs(host.strings or {}) do library[name] = value end
  return library
end


--- Makes methods of strings, which all code of a VM shares, safe: no dump, capped rep, out of reach of getmetatable.
-- Once per VM, before the first chunk runs. @param host see sandbox.new
function sandbox.seal(host)
  local metatable = debug.getmetatable("")
  metatable.__index = string_library(host or {})
  metatable.__metatable = false
end


local function json_library()
  local json = { null = cjson.null }
  function json.encode(value)
    local ok, result = pcall(encode_json, value)
    if not ok then return nil, "could not encode: " .. tostring(result) end
    return result
  end
  function json.decode(text)
    if type(text) == "string" and #text > JSON_BYTES_MAX then return nil, "could not decode: more than 8 MB" end
    local ok, result = pcall(cjson.decode, text)
    if not ok then return nil, "could not decode: " .. tostring(result) end
    return result
  end
  return json
end


local function log_to_stderr(level, text)
  io.stderr:write(level, " ", text, "\n")
end


--- moongate.log("warn", text) and moongate.log.warn(text) are the same.
local function log_library(host, name)
  local write = host.log or log_to_stderr
  local log = {}
  for _, level in ipairs(LEVELS) do
    log[level] = function(text) write(level, name .. ": " .. tostring(text)) end
  end
  local function call(_, level, text)
    local at = log[level]
    if not at then error(("moongate.log: no level %s; levels: %s"):format(level, table.concat(LEVELS, ", ")), 2) end
    at(text)
  end
  return setmetatable(log, { __call = call, __metatable = false })
end


--- Coroutines of a chunk's own. A yield outside of them would reach the gateway, which waits only for its own calls.
-- The gateway's are out of their reach: whoever could resume one would run another exchange.
-- @return the library, and a function that tells whether one of them is running
local function coroutine_library()
  local own = setmetatable({}, { __mode = "k" }) -- coroutine → how deep it runs
  local library = { status = coroutine.status }
  function library.running()
    local thread = coroutine.running()
    return own[thread] and thread or nil
  end
  function library.resume(thread, ...)
    if not own[thread] then error("resume: not a coroutine of this filter", 2) end
    local depth = (own[coroutine.running()] or 0) + 1
    if depth > COROUTINES_DEEP_MAX then error("resume: 32 coroutines wait for each other already", 2) end
    if coroutine.status(thread) == "suspended" then own[thread] = depth end
    return coroutine.resume(thread, ...)
  end
  function library.create(body)
    local thread = coroutine.create(body)
    own[thread] = 0
    return thread
  end
  function library.wrap(body)
    local thread = library.create(body)
    local function pass(ok, ...)
      if not ok then error((...), 0) end
      return ...
    end
    return function(...) return pass(library.resume(thread, ...)) end
  end
  function library.yield(...)
    local thread = coroutine.running()
    if not thread or not own[thread] then error("yield outside of a coroutine of this filter", 2) end
    return coroutine.yield(...)
  end
  return library, function() return library.running() ~= nil end
end


--- A function that waits, for use outside of the filter's own coroutines: from there its yield would end up with
-- whoever has resumed them.
local function outside_coroutines(name, wait, in_coroutine)
  return function(...)
    if in_coroutine() then error(("moongate.%s: a coroutine of the filter cannot wait"):format(name), 2) end
    return wait(...)
  end
end


local function add_loaders(env)
  --- load as in Lua 5.2, for text only. Names in parentheses are the gateway's own: its watchdog goes by them.
  local function load_text(chunk, name, _, chunk_env)
    if type(chunk) == "function" then
      local pieces = {}
      for piece in chunk do
        if piece == "" then break end
        pieces[#pieces + 1] = piece
      end
      chunk = capped_concat(pieces)
    end
    if type(chunk) == "string" and #chunk > SOURCE_BYTES_MAX then error("load: more than 128 KB of source", 2) end
    if not name or tostring(name):find("=(", 1, true) == 1 then name = "=(load)" end
    return load(chunk, name, "t", chunk_env or env)
  end
  env.load = load_text
  env.loadstring = function(text, name) return load_text(text, name) end
end


local function add_require(env, find_module)
  local LOADING = {}
  local loaded = { bit = env.bit, math = env.math, string = env.string, table = env.table, coroutine = env.coroutine }
  function env.require(name)
    if type(name) ~= "string" then error("require: a module name is a string", 2) end
    local value = loaded[name]
    if value == LOADING then error(("module %s requires itself"):format(name), 2) end
    if value ~= nil then return value end
    local source, chunk_name = find_module(name)
    if not source then error(chunk_name, 2) end
    local chunk, why = load(source, chunk_name, "t", env)
    if not chunk then error(why, 2) end
    loaded[name] = LOADING
    local ok, result = pcall(chunk, name)
    if not ok then
      loaded[name] = nil
      error(result, 0)
    end
    if result == nil then result = true end
    loaded[name] = result
    return result
  end
end


local BASE = {
  "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawset", "select",
  "setmetatable", "tonumber", "tostring", "type", "unpack",
}


--- A new set of globals.
-- @param options.name   what log lines begin with
-- @param options.host   what the process offers: log(level, text), time() → seconds since 1970 with fraction,
--                       strings = { find = ..., ... } replacing functions of string, moongate = { sleep = ..., ... }
-- @param options.find_module  name → source, chunk name; or nil, why: what `require` reaches
function sandbox.new(options)
  local host = options.host or {}
  local env = { _VERSION = _VERSION }
  for _, name in ipairs(BASE) do env[name] = _G[name] end
  env._G = env
  env.xpcall = late_xpcall
  env.string = string_library(host)
  env.table = copy(table)
  env.table.concat, env.table.insert, env.table.sort = capped_concat, bounded_insert, bounded_sort
  env.math = copy(math, { randomseed = true })
  env.bit = copy(require "bit")
  env.os = { time = plain_time, clock = os.clock, date = bounded_date, difftime = os.difftime }
  local in_coroutine
  env.coroutine, in_coroutine = coroutine_library()
  local log = log_library(host, options.name)
  env.moongate = { json = json_library(), log = log, time = host.time or os.time }
  for name, value in pairs(host.moongate or {}) do
    env.moongate[name] = WAITING[name] and outside_coroutines(name, value, in_coroutine) or value
  end
  function env.print(...)
    local parts = {}
    for i = 1, select("#", ...) do parts[i] = tostring((select(i, ...))) end
    log.info(table.concat(parts, "\t"))
  end
  add_loaders(env)
  add_require(env, options.find_module)
  return env
end


--- Loads and runs a chunk in a new sandbox.
-- @param source text; @param chunk_name as for load, "@filters/x.lua"; @param options of sandbox.new
-- @return what the chunk returns, or nil and a message with file and line
function sandbox.run(source, chunk_name, options)
  if source:byte() == 27 then return nil, ("%s: is bytecode, accepted: Lua as text"):format(chunk_name:sub(2)) end
  local chunk, why = load(source, chunk_name, "t", sandbox.new(options))
  if not chunk then return nil, why end
  local ok, result = pcall(chunk)
  if not ok then
    if type(result) ~= "string" then
      result = ("%s: raised a %s instead of a message"):format(chunk_name:sub(2), type(result))
    end
    return nil, result
  end
  return result
end


return sandbox
