--- test.lua - `require "moongate.test"`: runs a filter inside a spec, in a real gateway on loopback sockets.
--
-- Owns: how a spec's words become a configuration, how what went over the wire becomes a result.
-- May call: check, conf, bundle, compile, moongate_kit (core/kit.c).   Never: pretend to be the gateway.
-- For specs under `moongate test` only.

local bundle = require "moongate.bundle"
local check = require "moongate.check"
local cjson = require "cjson".new()
local compile = require "moongate.compile"
local conf = require "moongate.conf"
local ffi = require "moongate.ffi"
local handles = require "moongate.handles"

local test = {}

local ROUTES = "routes.yaml" -- the folder filters/ beside it is the one in the working directory
local RESPONSE = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
local OPTIONS = {
  filter = true, filters = true, conf = true, on_error = true, request = true, response = true, bare = true,
  folder = true, http = true,
}
local CALL_PREFIX = "/moongate-call/" -- how the one upstream of the kit tells filters' calls apart

local seen = {} -- what the exchange that runs has left behind: logs, attributes, status, error


-- What went over the wire -----------------------------------------------------------------------------------------


local Message = {}
Message.__index = Message


--- Every value of a header, in order.
function Message:values(name)
  if getmetatable(self) ~= Message then error("write message:header(name) or message:values(name), with a colon", 2) end
  local values = {}
  for line in self.head:gmatch("\r\n([^\r\n]+)") do
    local key, value = line:match("^([^:]+):[ \t]*(.-)[ \t]*$")
    if key and key:lower() == name:lower() then values[#values + 1] = value end
  end
  return values
end


--- The first value of a header, or nil.
function Message:header(name)
  return Message.values(self, name)[1]
end


local function without_chunks(bytes)
  local parts, at = {}, 1
  while true do
    local size, after = bytes:match("^(%x+)[^\r\n]*\r\n()", at)
    size = size and tonumber(size, 16)
    if not size or size == 0 then return table.concat(parts) end
    parts[#parts + 1] = bytes:sub(after, after + size - 1)
    at = after + size + 2
  end
end


local function message(bytes)
  local head, body = bytes:match("^(.-\r\n)\r\n(.*)$")
  if not head then return nil end
  local result = setmetatable({ head = head }, Message)
  local coding = result:header("transfer-encoding")
  result.body = coding and coding:lower():find("chunked", 1, true) and without_chunks(body) or body
  return result
end


local function request_of(bytes)
  local result = bytes and message(bytes)
  if result then result.method, result.target = result.head:match("^(%S+) (%S+)") end
  return result
end


--- The final answer; interim ones before it are left out.
local function response_of(bytes)
  while bytes:find("^HTTP/1%.%d 1%d%d") do
    bytes = bytes:match("^.-\r\n\r\n(.*)$")
  end
  local result = message(bytes)
  if result then result.status = tonumber(result.head:match("^HTTP/1%.%d (%d%d%d)")) end
  return result
end


-- The configuration -----------------------------------------------------------------------------------------------


local function keep_log(level, text)
  seen.logs[#seen.logs + 1] = { level = level, text = text }
end


for _, kind in ipairs { "request", "response", "exchange" } do
  handles[kind].log = function(_, level, text)
    if not handles.LEVELS[level] then error(("log: no level %q"):format(tostring(level)), 2) end
    keep_log(level, tostring(text))
  end
end


--- Runs last and notes how the exchange ended.
local PROBE = { api = 1 }


function PROBE.log(ex)
  seen.attributes, seen.status, seen.error = ex:attributes(), ex:status(), ex:error()
end


--- The filters of options as routes.yaml has them; tables get names of their own in modules.
local function filter_entries(options, modules)
  local entries = {}
  local list = options.filters or { { filter = options.filter, conf = options.conf, on_error = options.on_error } }
  for i, one in ipairs(list) do
    local name = one.filter
    if type(name) == "table" then
      name = "filter-" .. i
      modules[name] = one.filter
    elseif type(name) ~= "string" then
      error("moongate.test: filter is a filter's name or its table", 4)
    end
    entries[i] = { [name] = one.conf or {}, on_error = one.on_error }
  end
  if not options.bare then
    modules["moongate-probe"] = PROBE
    entries[#entries + 1] = { ["moongate-probe"] = {} }
  end
  return entries
end


local NOTHING = {} -- a list


--- JSON, which is YAML; an empty table is a map.
local function encode(value)
  if value == NOTHING then return "[]" end
  if type(value) ~= "table" then return cjson.encode(value) end
  local parts = {}
  if #value > 0 then
    for i, item in ipairs(value) do parts[i] = encode(item) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key, item in pairs(value) do parts[#parts + 1] = cjson.encode(tostring(key)) .. ":" .. encode(item) end
  return "{" .. table.concat(parts, ",") .. "}"
end


--- What filters reach: the process's, and the tables of the spec.
local function with_modules(host, modules)
  host.log = keep_log
  host.moongate.spec_filter = function(name) return modules[name] end
  return host
end


--- Where the user's filters may be: what the spec says, or filters/ in the working directory, and then around the file
-- that calls: filters/ beside it, beside it, and filters/ beside its folder.
local function folders_of(options)
  if options.folder then return { options.folder } end
  local folders, level = { "filters" }, 2
  repeat
    level = level + 1
    local frame = debug.getinfo(level, "S")
    local path = frame and frame.source:match("^@(.*)$")
    if path and not path:find("^lua/") then
      local folder = path:match("^(.*)/[^/]*$") or "."
      folders[2], folders[3], folders[4] = folder .. "/filters", folder, folder .. "/../filters"
    end
  until not frame or folders[2]
  return folders
end


local function reader(text, modules, read, folders)
  return function(path)
    if path == ROUTES then return text end
    local name = path:match("^filters/(.*)%.lua$")
    if name and modules[name] then return ("return moongate.spec_filter(%q)"):format(name) end
    if not name then return read(path) end
    local bytes, why
    for _, folder in ipairs(folders) do
      bytes, why = read(("%s/%s.lua"):format(folder, name))
      if bytes and bytes == moongate_embedded(path) then return nil, "built in" end -- in this project's own folder
      if bytes then return bytes end
    end
    return nil, why
  end
end


--- Faults of a configuration that the spec's author never saw: places in it become the options' own names.
local function in_words_of_the_spec(lines)
  local said = {}
  for i, line in ipairs(lines) do
    said[i] = "moongate.test: " .. line:gsub("^routes%.yaml:%d+:%d+: ", ""):gsub("^routes%[0%]%.", "")
  end
  return table.concat(said, "\n")
end


--- Validates, compiles and runs init as `moongate check` does. Raises what it would print.
local function bundle_of(text, modules, folders)
  local read, sources = bundle.recorder(reader(text, modules, check.options().read, folders))
  local options = check.options(read)
  options.host = with_modules(compile.host(), modules)
  local settings = assert(conf.load_server(nil, options))
  local loaded, lines = conf.load_routes(ROUTES, options)
  if not loaded then error(in_words_of_the_spec(lines), 0) end
  local compiled, why = compile.build(bundle.decode_config(bundle.encode_config(loaded.config)), loaded.loader)
  if not compiled then error(why, 0) end
  return bundle.emit {
    settings = settings, config = loaded.config, digest = compiled.digest, states = compiled.states,
    guards = compiled.guards,
    sources = sources, schema_of = function(filter)
      local module = loaded.loader:module(filter)
      return module and module.schema or {}
    end,
  }
end


--- bytes without the first text in it.
local function without(bytes, text)
  local first, last = bytes:find(text, 1, true)
  return bytes:sub(1, first - 1) .. bytes:sub(last + 1)
end


-- The words of a spec ---------------------------------------------------------------------------------------------


local Session = {}
Session.__index = Session


--- Sends the request, count times on one connection (once unless given), and tells how the last one went.
-- @return { status, response = { status, head, body, header(), values() },
--   upstream = { method, target, head, body, header(), values() } or nil when it was not asked,
--   http = name → the last request of moongate.http to it, in the same form, or nil,
--   attributes = name → value, logs = list of { level, text }, error = why the gateway answered itself, or nil }
function Session:run(count)
  seen = { logs = {}, attributes = {} }
  local upstream, client, asked = moongate_kit.run(self.request, self.response, count or 1, false, self.calls)
  local response, calls = response_of(client), {}
  for i, name in ipairs(self.called) do
    calls[name] = asked[i] and request_of(without(asked[i], CALL_PREFIX .. name)) or nil
  end
  return {
    status = response and response.status, response = response, upstream = request_of(upstream),
    attributes = seen.attributes, logs = seen.logs, error = seen.error, http = calls,
  }
end


--- The routes that moongate.http may reach, one for each answer in options.http.
-- @return routes as in routes.yaml, their names in order, and what the kit answers them: list of { prefix, response }
local function callable_routes(options)
  local routes, names, calls = {}, {}, {}
  for name in pairs(options.http or {}) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    if not tostring(name):find("^[%w_]+$") then error("moongate.test: http takes names of letters, digits and _", 4) end
    local prefix = CALL_PREFIX .. name
    routes[i] = {
      id = name, match = NOTHING,
      upstream = { targets = { { url = ("http://127.0.0.1:%d%s"):format(moongate_kit.port(), prefix) } } },
    }
    calls[i] = { prefix, options.http[name] }
  end
  return routes, names, calls
end


--- Loads filters. The session can run many exchanges, until the next load.
-- @param options.filter    a filter's name, as in routes.yaml, or its table; options.conf its options, options.on_error
-- @param options.filters   or several: list of { filter =, conf =, on_error = }
-- @param options.request   the client's request, head and body; GET / unless given
-- @param options.response  what the upstream answers, head and body; 200 with the body "ok" unless given
-- @param options.http      what moongate.http gets: name of the route that a filter needs → answer, head and body
-- @param options.folder    where the user's filters are; unless given, filters/ in the working directory, then around
--   the spec: filters/ beside it, beside it, filters/ beside its folder
-- @param options.bare      true: nothing but the filters runs, so attributes and error stay empty
function test.load(options)
  for key in pairs(options) do
    if not OPTIONS[key] then error(("moongate.test: unknown option %s"):format(tostring(key)), 2) end
  end
  local modules = {}
  seen = { logs = {}, attributes = {} }
  local routes, called, calls = callable_routes(options)
  table.insert(routes, 1, {
    id = "test", match = { { PathPrefix = { prefix = "/" } } }, filters = filter_entries(options, modules),
    upstream = { targets = { { url = ("http://127.0.0.1:%d"):format(moongate_kit.port()) } } },
  })
  local text = encode { routes = routes }
  local bytes = bundle_of(text, modules, folders_of(options))
  local parts = assert(bundle.parse(bytes))
  moongate_kit.load(bytes, function(pointer)
    local generation = ffi.cast("struct mg_generation *", pointer)
    return compile.assemble(parts, generation, with_modules(compile.host(generation, parts.config), modules))
  end)
  return setmetatable({
    request = options.request or "GET / HTTP/1.1\r\nHost: test\r\n\r\n", response = options.response or RESPONSE,
    called = called, calls = calls,
  }, Session)
end


--- Loads and sends one request: run { filter = "SetStatus", conf = { status = 201 }, request = "GET / HTTP/1.1..." }
function test.run(options)
  return test.load(options):run()
end


return test
