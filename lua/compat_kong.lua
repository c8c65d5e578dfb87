--- compat_kong.lua - `require "moongate.compat.kong"`: the part of Kong's PDK that plugins without I/O use, on handles.
--
--   local kong = require "moongate.compat.kong"             -- filters/my-plugin.lua
--   return kong.filter(require "my-plugin.handler", require "my-plugin.schema")
--
-- The global `kong` is there for the handler. What a plugin asks for and this cannot give raises an error that says so:
-- a security plugin must not pass requests because half of it is missing.
-- Runs in a filter's sandbox, as any module that it requires. Owns: which handle is the current one of each coroutine.

local PHASES = { rewrite = true, access = true, header_filter = true, log = true, init_worker = true }
local REFUSED = { "certificate", "body_filter", "response", "preread", "ws_handshake", "ws_client_frame", "ws_close" }
local LEVELS = {
  debug = "debug", info = "info", notice = "info", warn = "warn", err = "error", crit = "error", alert = "error",
  emerg = "error",
}
local EXIT = {} -- raised by kong.response.exit, so that the handler ends there
local MAIN = {} -- stands for the main coroutine

local calls = setmetatable({}, { __mode = "k" }) -- coroutine → the call that runs in it


local function current(what)
  local call = calls[coroutine.running() or MAIN]
  if not call then error(("kong.%s outside of a request"):format(what), 3) end
  return call
end


--- The request of the current call, in any phase.
local function request(what)
  return current(what).request
end


--- The handle that changes the request; only before it is sent.
local function outgoing(what)
  local call = current(what)
  if call.phase ~= "access" then error(("kong.%s is for the phases rewrite and access"):format(what), 3) end
  return call.request
end


--- What is missing reads as an error at the place that asks for it.
local function closed(name, functions)
  return setmetatable(functions, {
    __index = function(_, key)
      error(("%s.%s is not offered by moongate.compat.kong"):format(name, tostring(key)), 2)
    end,
  })
end


local function decode(word)
  return (word:gsub("%+", " "):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end


local function encode(text)
  return (tostring(text):gsub("[^%w%-._~]", function(c) return ("%%%02X"):format(c:byte()) end))
end


--- All parameters: name → value, true without "=", a list where there are several.
local function parse_query(text)
  local parameters = {}
  for pair in (text or ""):gmatch("[^&]+") do
    local name, value = pair:match("^([^=]*)=(.*)$")
    name, value = decode(name or pair), value and decode(value) or true
    local before = parameters[name]
    if type(before) == "table" then
      before[#before + 1] = value
    else
      parameters[name] = before ~= nil and { before, value } or value
    end
  end
  return parameters
end


local function render_query(parameters)
  local names, parts = {}, {}
  for name in pairs(parameters) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local values = type(parameters[name]) == "table" and parameters[name] or { parameters[name] }
    for _, value in ipairs(values) do
      parts[#parts + 1] = value == true and encode(name) or encode(name) .. "=" .. encode(value)
    end
  end
  return table.concat(parts, "&")
end


-- kong.request ----------------------------------------------------------------------------------------------------


local kong_request = {}


function kong_request.get_scheme() return "http" end


function kong_request.get_host() return request("request.get_host"):host() end


function kong_request.get_port()
  local host = request("request.get_port"):header("host") or ""
  return tonumber(host:match(":(%d+)$")) or 80
end


function kong_request.get_method() return request("request.get_method"):method() end


function kong_request.get_path() return request("request.get_path"):path() end


function kong_request.get_raw_path()
  return (request("request.get_raw_path"):raw_target():gsub("%?.*$", ""))
end


function kong_request.get_path_with_query() return request("request.get_path_with_query"):raw_target() end


function kong_request.get_raw_query() return request("request.get_raw_query"):query_string() or "" end


function kong_request.get_query() return parse_query(request("request.get_query"):query_string()) end


--- As in Kong: true for a parameter without "=", the first value where there are several.
function kong_request.get_query_arg(name)
  local value = parse_query(request("request.get_query_arg"):query_string())[name]
  return type(value) == "table" and value[1] or value
end


function kong_request.get_header(name) return request("request.get_header"):header(name) end


function kong_request.get_raw_body() return request("request.get_raw_body"):body() end


-- kong.service ----------------------------------------------------------------------------------------------------


local service_request = {}


function service_request.set_header(name, value) outgoing("service.request.set_header"):set_header(name, value) end


function service_request.add_header(name, value) outgoing("service.request.add_header"):add_header(name, value) end


function service_request.clear_header(name) outgoing("service.request.clear_header"):remove_header(name) end


--- Sets several headers; a list is several lines.
local function set_headers(message, headers)
  for name, value in pairs(headers) do
    local values = type(value) == "table" and value or { value }
    message:remove_header(name)
    for _, item in ipairs(values) do message:add_header(name, item) end
  end
end


function service_request.set_headers(headers) set_headers(outgoing("service.request.set_headers"), headers) end


function service_request.set_path(path) outgoing("service.request.set_path"):set_path(path) end


function service_request.set_raw_query(query)
  outgoing("service.request.set_raw_query"):set_query_string(query)
end


function service_request.set_query(parameters)
  outgoing("service.request.set_query"):set_query_string(render_query(parameters))
end


function service_request.set_raw_body(body) outgoing("service.request.set_raw_body"):set_body(body) end


-- kong.response ---------------------------------------------------------------------------------------------------


local kong_response = {}
local SOURCES = { upstream = "service", filter = "exit", gateway = "error" }


--- The answer that is being made. In access there is none yet: what is set there is kept until there is one.
local function change_answer(what, method, ...)
  local call = current(what)
  if call.response then return call.response[method](call.response, ...) end
  if call.phase ~= "access" then error(("kong.%s is not possible in the phase %s"):format(what, call.phase), 3) end
  local later = call.context.later
  later[#later + 1] = { method, ... }
end


local function answer(what)
  local response = current(what).response or current(what).finished
  if not response then error(("kong.%s: there is no answer yet"):format(what), 3) end
  return response
end


function kong_response.get_status() return answer("response.get_status"):status() end


function kong_response.get_header(name) return answer("response.get_header"):header(name) end


function kong_response.get_source() return SOURCES[answer("response.get_source"):source()] end


function kong_response.set_status(status) change_answer("response.set_status", "set_status", status) end


function kong_response.set_header(name, value) change_answer("response.set_header", "set_header", name, value) end


function kong_response.add_header(name, value) change_answer("response.add_header", "add_header", name, value) end


function kong_response.clear_header(name) change_answer("response.clear_header", "remove_header", name) end


function kong_response.set_headers(headers)
  for name, value in pairs(headers) do
    local values = type(value) == "table" and value or { value }
    change_answer("response.set_headers", "remove_header", name)
    for _, item in ipairs(values) do change_answer("response.set_headers", "add_header", name, item) end
  end
end


--- Answers and ends the handler. A table becomes JSON.
function kong_response.exit(status, body, headers)
  local req = outgoing("response.exit")
  local own = {}
  for name, value in pairs(headers or {}) do own[name:lower()] = value end
  if type(body) == "table" then
    body = moongate.json.encode(body)
    own["content-type"] = own["content-type"] or "application/json; charset=utf-8"
  end
  req:respond(status, body or "", own)
  error(EXIT, 0)
end


function kong_response.error(status, message, headers)
  return kong_response.exit(status, { message = message or "error" }, headers)
end


-- kong.log, kong.ctx, kong.client ---------------------------------------------------------------------------------


local function write(level, ...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = tostring((select(i, ...))) end
  local call, text = calls[coroutine.running() or MAIN], table.concat(parts)
  if call then call.handle:log(level, text) else moongate.log(level, text) end
end


local kong_log = setmetatable({}, { __call = function(_, ...) write("info", ...) end })
for name, level in pairs(LEVELS) do kong_log[name] = function(...) write(level, ...) end end


local context = setmetatable({}, {
  __index = function(_, name)
    if name ~= "plugin" then
      error(("kong.ctx.%s is not offered; there is kong.ctx.plugin"):format(tostring(name)), 2)
    end
    return current("ctx.plugin").context.plugin
  end,
})

local kong = closed("kong", {
  request = closed("kong.request", kong_request),
  service = closed("kong.service", { request = closed("kong.service.request", service_request) }),
  response = closed("kong.response", kong_response),
  client = closed("kong.client", { get_ip = function() return request("client.get_ip"):client_ip() end }),
  log = kong_log,
  ctx = context,
})


-- Schemas ---------------------------------------------------------------------------------------------------------


local translate


--- A record's fields, a list of maps with one name each, as a schema's keys.
local function keys_of(fields, place)
  local keys = {}
  for _, field in ipairs(fields) do
    for name, spec in pairs(field) do keys[name] = translate(spec, place .. "." .. name) end
  end
  return keys
end


local function bounds(spec)
  if spec.between then return spec.between[1], spec.between[2] end
  return spec.len_min or spec.gt and spec.gt + 1, spec.len_max
end


local TYPES = {
  string = "string", integer = "integer", number = "number", boolean = "boolean", array = "array", set = "array",
  map = "map", record = "object",
}
local CHECKS = { "custom_validator", "match_all", "match_any", "match_none", "not_one_of", "entity_checks", "uuid" }


--- One field of a Kong schema in the words of ours.
function translate(spec, place)
  local kind = TYPES[spec.type]
  if not kind then error(("%s: type %s is not translated"):format(place, tostring(spec.type)), 0) end
  for _, word in ipairs(CHECKS) do
    if spec[word] then error(("%s: %s is not translated"):format(place, word), 0) end
  end
  local min, max = bounds(spec)
  local items = spec.elements or (kind == "map" and spec.values)
  return {
    type = spec.one_of and "enum" or kind, enum = spec.one_of, required = spec.required and spec.default == nil,
    default = spec.default, min = min, max = max, pattern = kind == "string" and spec.match or nil,
    secret = spec.encrypted, description = spec.description, items = items and translate(items, place .. "[]") or nil,
    keys = kind == "object" and keys_of(spec.fields, place) or nil,
  }
end


--- The keys of a plugin's `config`; its other fields are about Kong's own entities.
local function schema_of(schema)
  for _, field in ipairs(schema and schema.fields or {}) do
    if field.config then return keys_of(field.config.fields, "schema.config") end
  end
  return nil
end


-- The filter ------------------------------------------------------------------------------------------------------


--- Runs one method of the handler with its call as the current one.
local function run(handler, method, call, conf)
  local thread = coroutine.running() or MAIN
  local outer = calls[thread]
  calls[thread] = call
  local ok, why = pcall(handler[method], handler, conf)
  calls[thread] = outer
  if not ok and why ~= EXIT then error(why, 0) end
  return ok
end


--- What is kept of an exchange from phase to phase. @param state of this filter in this route: the key
local function context_of(handle, state)
  return handle:local_value(state) or { plugin = {}, later = {} }
end


local function check_handler(handler)
  if type(handler) ~= "table" then error("kong.filter: the handler is a table", 3) end
  for _, name in ipairs(REFUSED) do
    if handler[name] then error(("kong.filter: the phase %s is not offered"):format(name), 3) end
  end
  for name in pairs(PHASES) do
    if handler[name] ~= nil and type(handler[name]) ~= "function" then
      error(("kong.filter: %s is not a function"):format(name), 3)
    end
  end
end


local function request_function(handler)
  if not (handler.rewrite or handler.access) then return nil end
  return function(req, conf, state)
    local kept = context_of(req, state)
    req:set_local(state, kept)
    local call = { phase = "access", handle = req, request = req, context = kept }
    for _, method in ipairs { "rewrite", "access" } do
      if handler[method] and not run(handler, method, call, conf) then return end
    end
  end
end


--- Headers that access has set for the answer are written by the filter's response function.
local function response_function(handler)
  if not (handler.access or handler.rewrite or handler.header_filter) then return nil end
  return function(res, conf, state)
    local kept = context_of(res, state)
    for _, edit in ipairs(kept.later) do res[edit[1]](res, edit[2], edit[3]) end
    kept.later = {}
    if not handler.header_filter then return end
    res:set_local(state, kept)
    run(handler, "header_filter",
      { phase = "header_filter", handle = res, request = res:request(), response = res, context = kept }, conf)
  end
end


local function log_function(handler)
  if not handler.log then return nil end
  return function(ex, conf, state)
    run(handler, "log", { phase = "log", handle = ex, request = ex:request(), finished = ex:response(),
      context = context_of(ex, state) }, conf)
  end
end


--- Makes a filter of a Kong plugin.
-- @param handler the table of its handler.lua; @param schema of its schema.lua, or nil
local function filter(handler, schema)
  check_handler(handler)
  return {
    api = 1, version = handler.VERSION, schema = schema_of(schema),
    init = function(conf)
      if handler.init_worker then handler:init_worker(conf) end
      return {}
    end,
    request = request_function(handler), response = response_function(handler), log = log_function(handler),
  }
end


_G.kong = kong
rawset(kong, "filter", filter)
return kong
