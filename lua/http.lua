--- http.lua - moongate.http: a filter's own request to an upstream of the configuration.
--
-- A filter names the routes whose upstreams it may call: `needs = { http = { "authz" } }`. Nothing else is reachable.
-- Owns: the form of a call and its answer.   May call: ffi.   Never: keep a connection.

local ffi = require "moongate.ffi"
local handles = require "moongate.handles"

local C = ffi.C
local http = {}

local TIMEOUT_SECONDS = 5
local FIELDS = { method = "string", path = "string", headers = "table", body = "string", timeout = "number" }


local function check_request(request)
  if type(request) ~= "table" then error("moongate.http: the request is a table { path = \"/\" }", 3) end
  for name, value in pairs(request) do
    local wanted = FIELDS[name]
    if not wanted then error(("moongate.http: unknown field %s"):format(tostring(name)), 3) end
    if type(value) ~= wanted then
      error(("moongate.http: %s is a %s, accepted: a %s"):format(name, type(value), wanted), 3)
    end
  end
end


local function check(code, what)
  if code < 0 then handles.fail(code, "moongate.http", what) end
end


local function add_headers(headers)
  for name, value in pairs(headers or {}) do
    for _, item in ipairs(type(value) == "table" and value or { value }) do
      local text = tostring(item)
      check(C.mg_call_header(name, #name, text, #text), name)
    end
  end
end


--- Header lines of the answer: lower-case names; the values of several lines are joined by ", ".
local function answer_headers()
  local headers, length, value, value_length = {}, ffi.length, ffi.new("const char *[1]"), ffi.new("int[1]")
  for nth = 0, math.huge do
    local name = C.mg_call_answer_line(nth, length, value, value_length)
    if name == nil then return headers end
    name = ffi.string(name, length[0]):lower()
    local text = ffi.string(value[0], value_length[0])
    headers[name] = headers[name] and headers[name] .. ", " .. text or text
  end
end


--- Makes the function that one filter gets.
-- @param filter its name, for messages; @param granted set of the route ids it may call
-- @param index_of route id → index, nil for a route without an upstream
function http.maker(filter, granted, index_of)
  --- @param route the id of the route whose upstream is called
  -- @param request { path = "/", method = "GET", headers = {}, body = "", timeout = 5 (seconds) }
  -- @return { status, headers, body }, or nil and why ("upstream_timeout")
  return function(route, request)
    if not granted[route] then
      error(("moongate.http: %s may not call %s; declare needs = { http = { %q } }"):format(filter, tostring(route),
        tostring(route)), 2)
    end
    check_request(request)
    local method, path = request.method or "GET", request.path or "/"
    local seconds = request.timeout or TIMEOUT_SECONDS
    check(C.mg_call_prepare(index_of[route], method, #method, path, #path, seconds * 1000), path)
    add_headers(request.headers)
    if request.body then check(C.mg_call_body(request.body, #request.body)) end
    coroutine.yield("call")
    local status = C.mg_call_status()
    if status <= 0 then return nil, ffi.string(C.mg_call_error(ffi.length), ffi.length[0]) end
    local body = C.mg_call_answer(ffi.length)
    return { status = status, body = ffi.string(body, ffi.length[0]), headers = answer_headers() }
  end
end


return http
