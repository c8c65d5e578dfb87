--- handles.lua - what filters hold in their hands: the request, the answer, the finished exchange.
--
-- Handles are numbers dressed as pointers to structs that nobody can look into. Each method is one call of C, which
-- checks that the exchange still runs; a handle that was kept too long raises instead of reading what is not its own.
-- Owns: the methods of the three handles.   May call: ffi, suggest.   Never: keep anything between calls.

local ffi = require "moongate.ffi"
local suggest = require "moongate.suggest"

local C = ffi.C
local length = ffi.length
local to_string = ffi.string
local exchange_of = ffi.exchange_of

local REASONS = {
  [C.MG_LUA_GONE] = "the exchange has ended; a handle may not be kept",
  [C.MG_LUA_PHASE] = "not possible in this phase",
  [C.MG_LUA_NAME] = "not a name that can be sent",
  [C.MG_LUA_VALUE] = "a value with control characters, or with what ends it",
  [C.MG_LUA_NOMEM] = "this exchange may not use more memory",
  [C.MG_LUA_ANSWERED] = "respond was called before",
  [C.MG_LUA_STATUS] = "a status is a number from 200 to 599",
  [C.MG_LUA_FRAMING] = "the gateway alone sets this header",
  [C.MG_LUA_TARGET] = "not a path, query, host or target that can be sent",
  [C.MG_LUA_REGEX] = "the regular expression took too long",
  [C.MG_LUA_BUSY] = "too much else is being computed",
  [C.MG_LUA_BODY] = 'the body is not held; declare body = { request = "buffer" }, or response',
}
local SOURCES = {
  [C.MG_SOURCE_UPSTREAM] = "upstream", [C.MG_SOURCE_FILTER] = "filter", [C.MG_SOURCE_GATEWAY] = "gateway",
}


local function fail(code, method, name)
  local reason = REASONS[code] or "failed"
  error(name and ("%s(%q): %s"):format(method, tostring(name), reason) or ("%s: %s"):format(method, reason), 3)
end


--- What went wrong in a filter, as text, with a word about what a sandbox does not have if that is it.
local function hinted(why)
  local text = tostring(why)
  return text .. to_string(C.mg_failure_hint(text))
end


--- Text for a header value: strings as they are, numbers and booleans spelt out.
local function as_text(value, method, name)
  local kind = type(value)
  if kind == "number" or kind == "boolean" then return tostring(value) end
  error(("%s(%q): the value is a %s, not a string"):format(method, tostring(name), kind), 3)
end


--- Every line of that name, as a list.
local function all_values(read, handle, name)
  local values = {}
  repeat
    local text = read(handle, name, #name, #values, length)
    if text == nil then
      if length[0] < 0 then fail(length[0], "header_values", name) end
      return values
    end
    values[#values + 1] = to_string(text, length[0])
  until false
end


local request = {}
local response = {}
local exchange = {}


--- The first value of a header as the client sent it, or nil. Names are compared without case.
-- @phases request, response, log
function request:header(name)
  local text = C.mg_request_header(self, name, #name, length)
  if text ~= nil then return to_string(text, length[0]) end
  if length[0] < 0 then fail(length[0], "header", name) end
  return nil
end


--- All values of a header, one for each line, in order.
-- @phases request, response, log
function request:header_values(name)
  return all_values(C.mg_request_header_at, self, name)
end


--- The value that goes upstream: with the edits made so far.
-- @phases request
function request:upstream_header(name)
  local text = C.mg_request_upstream_header(self, name, #name, length)
  if text ~= nil then return to_string(text, length[0]) end
  if length[0] < 0 then fail(length[0], "upstream_header", name) end
  return nil
end


--- True if the header is there.
-- @phases request, response, log
function request:has(name)
  local found = C.mg_request_has(self, name, #name)
  if found < 0 then fail(found, "has", name) end
  return found == 1
end


--- True if the first value of the header is exactly value; makes no string.
-- @phases request, response, log
function request:header_is(name, value)
  local found = C.mg_request_header_is(self, name, #name, value, #value)
  if found < 0 then fail(found, "header_is", name) end
  return found == 1
end


--- Replaces all lines of a header on the way upstream. `Host` may be set too.
-- @phases request
function request:set_header(name, value)
  if type(value) ~= "string" then value = as_text(value, "set_header", name) end
  local code = C.mg_request_set_header(self, name, #name, value, #value)
  if code < 0 then fail(code, "set_header", name) end
end


--- Adds a line to a header on the way upstream.
-- @phases request
function request:add_header(name, value)
  if type(value) ~= "string" then value = as_text(value, "add_header", name) end
  local code = C.mg_request_add_header(self, name, #name, value, #value)
  if code < 0 then fail(code, "add_header", name) end
end


--- Removes all lines of a header on the way upstream.
-- @phases request
function request:remove_header(name)
  local code = C.mg_request_remove_header(self, name, #name)
  if code < 0 then fail(code, "remove_header", name) end
end


--- Sets a header to the exchange's id without making a string of it.
-- @phases request
function request:set_id_header(name)
  local code = C.mg_request_set_id_header(self, name, #name)
  if code < 0 then fail(code, "set_id_header", name) end
end


local function text_reader(name, read)
  return function(self)
    local text = read(self, length)
    if text ~= nil then return to_string(text, length[0]) end
    if length[0] < 0 then fail(length[0], name) end
    return nil
  end
end


--- method, path (decoded), raw_target (as sent), query_string (nil without a `?`), host (without port), client_ip, id.
-- @phases request, response, log
request.method = text_reader("method", function(self, len) return C.mg_request_method(self, len) end)
request.path = text_reader("path", function(self, len) return C.mg_request_path(self, len) end)
request.raw_target = text_reader("raw_target", function(self, len) return C.mg_request_raw_target(self, len) end)
request.query_string = text_reader("query_string", function(self, len) return C.mg_request_query_string(self, len) end)
request.host = text_reader("host", function(self, len) return C.mg_request_host(self, len) end)
request.client_ip = text_reader("client_ip", function(self, len) return C.mg_request_client_ip(self, len) end)
request.id = text_reader("id", function(self, len) return C.mg_request_id(self, len) end)


--- The first value of a query parameter, decoded; "" for one without `=`, nil when it is not there.
-- @phases request, response, log
function request:query(name)
  local text = C.mg_request_query(self, name, #name, length)
  if text ~= nil then return to_string(text, length[0]) end
  if length[0] < 0 then fail(length[0], "query", name) end
  return nil
end


--- Replaces the query string, given as it is to be sent, without `?`; "" sends none.
-- @phases request
function request:set_query_string(query)
  local code = C.mg_request_set_query_string(self, query, #query)
  if code < 0 then fail(code, "set_query_string", query) end
end


--- A cookie's value, or nil.
-- @phases request, response, log
function request:cookie(name)
  local text = C.mg_request_cookie(self, name, #name, length)
  if text ~= nil then return to_string(text, length[0]) end
  if length[0] < 0 then fail(length[0], "cookie", name) end
  return nil
end


--- Replaces the path that goes upstream, given decoded; it is encoded on the way out.
-- @phases request
function request:set_path(path)
  local code = C.mg_request_set_path(self, path, #path)
  if code < 0 then fail(code, "set_path", path) end
end


local function add_answer_header(self, name, value)
  if type(value) ~= "string" then value = as_text(value, "respond", name) end
  local code = C.mg_request_respond_header(self, name, #name, value, #value)
  if code < 0 then fail(code, "respond", name) end
end


--- The headers of an answer: name → text, or a list of texts for several lines.
local function add_answer_headers(self, headers)
  for name, value in pairs(headers or {}) do
    if type(value) == "table" then
      for _, item in ipairs(value) do add_answer_header(self, name, item) end
    else
      add_answer_header(self, name, value)
    end
  end
end


--- Answers without an upstream: `return req:respond(403, "no\n", { ["content-type"] = "text/plain" })`.
-- A header's value may be a list. Later request filters do not run, response filters do.
-- @phases request
function request:respond(status, body, headers)
  body = body or ""
  local code = C.mg_request_respond(self, status, body, #body)
  if code < 0 then fail(code, "respond") end
  add_answer_headers(self, headers)
  return true
end


local function set_attribute(self, name, value)
  value = tostring(value)
  local code = C.mg_exchange_set_attribute(exchange_of(self, "set_attribute"), name, #name, value, #value)
  if code < 0 then fail(code, "set_attribute", name) end
end


local function get_attribute(self, name)
  local text = C.mg_exchange_attribute(exchange_of(self, "attribute"), name, #name, length)
  if text ~= nil then return to_string(text, length[0]) end
  if length[0] < 0 then fail(length[0], "attribute", name) end
  return nil
end


--- A note on the exchange, readable by later filters and kept in the journal.
-- @phases set: request, response; read: all
request.set_attribute = set_attribute
request.attribute = get_attribute
response.set_attribute = set_attribute
response.attribute = get_attribute
exchange.attribute = get_attribute


--- All notes: name → value.
-- @phases log
function exchange:attributes()
  local notes, nth = {}, 0
  while true do
    local name = C.mg_exchange_attribute_name(self, nth, length)
    if name == nil then
      if length[0] < 0 then fail(length[0], "attributes") end
      return notes
    end
    name = to_string(name, length[0])
    notes[name] = notes[name] or get_attribute(self, name)
    nth = nth + 1
  end
end


--- The first value of one of the answer's headers, as earlier response filters have left it, or nil.
-- @phases response, log
function response:header(name)
  local text = C.mg_response_header(self, name, #name, length)
  if text ~= nil then return to_string(text, length[0]) end
  if length[0] < 0 then fail(length[0], "header", name) end
  return nil
end


--- All values of a header, one for each line, in order.
-- @phases response, log
function response:header_values(name)
  return all_values(C.mg_response_header_at, self, name)
end


--- True if the header is there.
-- @phases response, log
function response:has(name)
  local found = C.mg_response_has(self, name, #name)
  if found < 0 then fail(found, "has", name) end
  return found == 1
end


--- True if the first value of the header is exactly value; makes no string.
-- @phases response, log
function response:header_is(name, value)
  local found = C.mg_response_header_is(self, name, #name, value, #value)
  if found < 0 then fail(found, "header_is", name) end
  return found == 1
end


--- Replaces all lines of a header.
-- @phases response
function response:set_header(name, value)
  if type(value) ~= "string" then value = as_text(value, "set_header", name) end
  local code = C.mg_response_set_header(self, name, #name, value, #value)
  if code < 0 then fail(code, "set_header", name) end
end


--- Adds a line to a header.
-- @phases response
function response:add_header(name, value)
  if type(value) ~= "string" then value = as_text(value, "add_header", name) end
  local code = C.mg_response_add_header(self, name, #name, value, #value)
  if code < 0 then fail(code, "add_header", name) end
end


--- Removes all lines of a header.
-- @phases response
function response:remove_header(name)
  local code = C.mg_response_remove_header(self, name, #name)
  if code < 0 then fail(code, "remove_header", name) end
end


--- Sets a header to the exchange's id without making a string of it.
-- @phases response
function response:set_id_header(name)
  local code = C.mg_response_set_id_header(self, name, #name)
  if code < 0 then fail(code, "set_id_header", name) end
end


--- Sets a header of the answer to what the client sent under that name; false if it sent none.
-- @phases response
function response:copy_request_header(name)
  local code = C.mg_response_copy_request_header(self, name, #name)
  if code < 0 then fail(code, "copy_request_header", name) end
  return code == 1
end


--- The status that goes to the client.
-- @phases response, log
function response:status()
  local status = C.mg_response_status(self)
  if status < 0 then fail(status, "status") end
  return status
end


--- Changes the status; the reason phrase becomes the standard one.
-- @phases response
function response:set_status(status)
  local code = C.mg_response_set_status(self, status)
  if code < 0 then fail(code, "set_status", status) end
end


--- Who made the answer: "upstream", "filter" or "gateway".
-- @phases response, log
function response:source()
  local source = C.mg_response_source(self)
  if source < 0 then fail(source, "source") end
  return SOURCES[source]
end


--- The request that this answers, for reading.
-- @phases response, log
function response:request()
  return ffi.cast("struct mg_request *", exchange_of(self, "request"))
end


exchange.id = text_reader("id", function(self, len) return C.mg_exchange_id(self, len) end)
exchange.route = text_reader("route", function(self, len) return C.mg_exchange_route(self, len) end)
--- Why the gateway answered itself or the exchange broke ("upstream_timeout"), or nil.
exchange.error = text_reader("error", function(self, len) return C.mg_exchange_error(self, len) end)


local function number_reader(name, which)
  return function(self)
    local value = C.mg_exchange_number(self, which)
    if value < 0 then fail(tonumber(value), name) end
    return value
  end
end


--- Numbers of a finished exchange: times in microseconds, sizes of the bodies in bytes.
-- @phases log
exchange.status = number_reader("status", C.MG_NUMBER_STATUS)
exchange.duration_us = number_reader("duration_us", C.MG_NUMBER_DURATION_US)
exchange.upstream_us = number_reader("upstream_us", C.MG_NUMBER_UPSTREAM_US)
exchange.request_bytes = number_reader("request_bytes", C.MG_NUMBER_REQUEST_BYTES)
exchange.response_bytes = number_reader("response_bytes", C.MG_NUMBER_RESPONSE_BYTES)
exchange.tries = number_reader("tries", C.MG_NUMBER_TRIES)


--- True for one that became a tunnel (a WebSocket); log then runs when that begins.
-- @phases log
function exchange:tunnel()
  local tunnel = C.mg_exchange_number(self, C.MG_NUMBER_TUNNEL)
  if tunnel < 0 then fail(tonumber(tunnel), "tunnel") end
  return tunnel == 1
end


--- The exchange's request and answer, for reading.
-- @phases log
function exchange:request()
  return ffi.cast("struct mg_request *", exchange_of(self, "request"))
end


function exchange:response()
  return ffi.cast("struct mg_response *", exchange_of(self, "response"))
end


local LEVELS = { debug = 0, info = 1, warn = 2, error = 3 }


--- Writes a line to the log: req:log("warn", "text"). C adds the ids of the exchange that runs.
local function write_log(self, level, text)
  local number = LEVELS[level] or error(("log: no level %q"):format(tostring(level)), 2)
  exchange_of(self, "log")
  text = tostring(text)
  C.mg_script_log(number, text, #text)
end


request.log = write_log
response.log = write_log
exchange.log = write_log

--- A misspelt verb is told apart from the others by its nearest; FFI alone would speak of the members of a struct.
local function name_missing(what, verbs)
  local function refuse(_, name)
    error(("%s has no verb %s%s"):format(what, tostring(name), suggest.hint(tostring(name), suggest.names(verbs))), 2)
  end
  setmetatable(verbs, { __index = refuse })
end


name_missing("the request", request)
name_missing("the response", response)
name_missing("the exchange", exchange)
ffi.metatype("struct mg_request", { __index = request, __metatable = false })
ffi.metatype("struct mg_response", { __index = response, __metatable = false })
ffi.metatype("struct mg_exchange", { __index = exchange, __metatable = false })

return {
  request = request, response = response, exchange = exchange, LEVELS = LEVELS, fail = fail, as_text = as_text,
  add_answer_headers = add_answer_headers, hinted = hinted,
}
