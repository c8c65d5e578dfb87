--- handles_edits.lua - more of what a request can be asked and told: parameters, cookies, targets, values kept in Lua.
--
-- Adds methods to the request of handles.lua; the rules at its top hold here too.
-- Owns: the values that filters keep with an exchange.   May call: ffi, handles.   Never: keep a handle.

local ffi = require "moongate.ffi"
local handles = require "moongate.handles"

local C = ffi.C
local length = ffi.length
local to_string = ffi.string
local fail, as_text = handles.fail, handles.as_text
local request, response, exchange = handles.request, handles.response, handles.exchange

local edits = {}


--- The path that goes upstream, decoded: as filters have set it, else the client's.
-- @phases request
function request:upstream_path()
  local text = C.mg_request_upstream_path(self, length)
  if text == nil then fail(length[0], "upstream_path") end
  return to_string(text, length[0])
end


--- Gives a query parameter one value on the way upstream, plain; the gateway encodes it.
-- @phases request
function request:set_query(name, value)
  if type(value) ~= "string" then value = as_text(value, "set_query", name) end
  local code = C.mg_request_edit_query(self, C.MG_QUERY_OP_SET, name, #name, value, #value)
  if code < 0 then fail(code, "set_query", name) end
end


--- Adds a query parameter at the end; those of the same name stay.
-- @phases request
function request:add_query(name, value)
  if type(value) ~= "string" then value = as_text(value, "add_query", name) end
  local code = C.mg_request_edit_query(self, C.MG_QUERY_OP_ADD, name, #name, value, #value)
  if code < 0 then fail(code, "add_query", name) end
end


--- Removes every query parameter of that name.
-- @phases request
function request:remove_query(name)
  local code = C.mg_request_edit_query(self, C.MG_QUERY_OP_REMOVE, name, #name, "", 0)
  if code < 0 then fail(code, "remove_query", name) end
end


--- Gives a cookie one value on the way upstream.
-- @phases request
function request:set_cookie(name, value)
  if type(value) ~= "string" then value = as_text(value, "set_cookie", name) end
  local code = C.mg_request_set_cookie(self, name, #name, value, #value)
  if code < 0 then fail(code, "set_cookie", name) end
end


--- Removes every cookie of that name on the way upstream.
-- @phases request
function request:remove_cookie(name)
  local code = C.mg_request_remove_cookie(self, name, #name)
  if code < 0 then fail(code, "remove_cookie", name) end
end


--- True if a query parameter is there, with or without a value.
-- @phases request, response, log
function request:has_query(name)
  local found = C.mg_request_has_query(self, name, #name)
  if found < 0 then fail(found, "has_query", name) end
  return found == 1
end


--- True if a cookie is there.
-- @phases request, response, log
function request:has_cookie(name)
  local found = C.mg_request_has_cookie(self, name, #name)
  if found < 0 then fail(found, "has_cookie", name) end
  return found == 1
end


--- Nothing at all in place of an expression would let every value pass.
local function no_expression(method, name)
  error(("%s(%q): an expression of moongate.regex is missing"):format(method, tostring(name)), 3)
end


--- True if the header is there and each of its lines passes an expression of moongate.regex.
-- @phases request, response, log
function request:header_matches(name, regex)
  if type(regex) ~= "cdata" then no_expression("header_matches", name) end
  local found = C.mg_request_header_matches(self, name, #name, regex)
  if found < 0 then fail(found, "header_matches", name) end
  return found == 1
end


--- True if the query parameter is there and each of its values, decoded, passes.
-- @phases request, response, log
function request:query_matches(name, regex)
  if type(regex) ~= "cdata" then no_expression("query_matches", name) end
  local found = C.mg_request_query_matches(self, name, #name, regex)
  if found < 0 then fail(found, "query_matches", name) end
  return found == 1
end


--- True if the cookie is there and each of its values passes.
-- @phases request, response, log
function request:cookie_matches(name, regex)
  if type(regex) ~= "cdata" then no_expression("cookie_matches", name) end
  local found = C.mg_request_cookie_matches(self, name, #name, regex)
  if found < 0 then fail(found, "cookie_matches", name) end
  return found == 1
end


--- Lets at most so many bytes of the request's body through; the exchange ends with 413 where there are more.
-- False if the client has announced more already: `return req:respond(413, "too large\n")`.
-- @phases request
function request:limit_body(bytes)
  if type(bytes) ~= "number" or bytes < 0 or bytes ~= bytes then error("limit_body: a number from 0", 2) end
  local within = C.mg_request_limit_body(self, bytes)
  if within < 0 then fail(within, "limit_body") end
  return within == 1
end


--- The targets of the route's upstream, "host:port" or "unix:/path", in file order.
-- @phases request, response, log
function request:targets()
  local targets = {}
  repeat
    local text = C.mg_request_target(self, #targets, length)
    if text == nil then
      if length[0] < 0 then fail(length[0], "targets") end
      return targets
    end
    targets[#targets + 1] = to_string(text, length[0])
  until false
end


--- Sends the next try to the n-th of targets(), if it is up; then the upstream's strategy goes on.
-- @phases request
function request:set_target(n)
  if type(n) ~= "number" or n < 1 or n ~= n then error("set_target: a number from 1", 2) end
  local code = C.mg_request_set_target(self, n - 1)
  if code < 0 then fail(code, "set_target", n) end
end


--- How often an upstream has been tried: 0 before the first time.
-- @phases request, response, log
function request:try()
  local tries = C.mg_request_try(self)
  if tries < 0 then fail(tries, "try") end
  return tries
end


-- Values of an exchange -------------------------------------------------------------------------------------------


local locals = {} -- by handle


local function set_local(self, name, value)
  local code = C.mg_exchange_keep_locals(ffi.exchange_of(self, "set_local"), 1)
  if code < 0 then fail(code, "set_local", name) end
  local key = tonumber(ffi.cast("uintptr_t", self))
  local values = locals[key]
  if not values then
    values = {}
    locals[key] = values
  end
  values[name] = value
end


local function local_value(self, name)
  local code = C.mg_exchange_keep_locals(ffi.exchange_of(self, "local_value"), 0)
  if code < 0 then fail(code, "local_value", name) end
  local values = locals[tonumber(ffi.cast("uintptr_t", self))]
  return values and values[name]
end


--- A value of any kind, private to the exchange and readable in every later phase; gone when it ends.
-- @phases set: request, response; read: all
request.set_local, request.local_value = set_local, local_value
response.set_local, response.local_value = set_local, local_value
exchange.local_value = local_value


--- Lets go of an exchange's values; called by the gateway when it has ended. @param number its handle's number
function edits.release(number)
  locals[number] = nil
end


return edits
