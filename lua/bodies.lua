--- bodies.lua - bodies in the hands of filters: held whole, or passed through `chunk` piece by piece.
--
-- A filter declares what it does: `body = { request = "buffer" | "stream", response = "buffer" | "stream" }`, which the
-- loader checks. Buffered bodies are there when its request or response function runs; streamed ones go through its
-- chunk function.
-- Owns: the verbs of bodies, the chains of chunk functions.   May call: ffi, handles.   Never: keep a body.

local ffi = require "moongate.ffi"
local handles = require "moongate.handles"

local C = ffi.C
local bodies = {}


local function takes(entry, side, mode)
  local body = entry.module.body
  return body ~= nil and body[side] == mode
end


--- Tells a generation what the filters of a route do with bodies.
function bodies.declare(generation, index, entries)
  local holds_request, holds_answer, reads_answer = 0, 0, 0
  for _, entry in ipairs(entries) do
    if takes(entry, "request", "buffer") then holds_request = 1 end
    if takes(entry, "response", "buffer") then holds_answer, reads_answer = 1, 1 end
    if takes(entry, "response", "stream") then reads_answer = 1 end
  end
  C.mg_generation_bodies(generation, index, holds_request, holds_answer, reads_answer)
end


--- The function that takes the pieces of one side of a route through its chunk functions; nil when there are none.
-- @param entries the route's filters in order; @param side "request" or "response"
-- @param wrap entry, chunk function → the function as its on_error wants it
-- @param meters by entry, the numbers of their meters
function bodies.chain(entries, side, wrap, meters)
  local chain = {}
  for _, entry in ipairs(entries) do
    if takes(entry, side, "stream") then
      local link = {
        run = wrap(entry, entry.module.chunk), conf = entry.conf, state = entry.state, meter = meters[entry],
      }
      table.insert(chain, side == "response" and 1 or #chain + 1, link)
    end
  end
  if #chain == 0 then return nil end
  local handle_type = ffi.typeof(side == "request" and "struct mg_request *" or "struct mg_response *")
  local exchange_type, length = ffi.typeof("struct mg_exchange *"), ffi.length
  return function(number)
    local exchange, message = ffi.cast(exchange_type, number), ffi.cast(handle_type, number)
    local text = C.mg_piece_bytes(exchange, length)
    local bytes, last, changed = ffi.string(text, length[0]), C.mg_piece_last(exchange) == 1, false
    for _, link in ipairs(chain) do
      C.mg_filter_next(exchange, link.meter)
      local given = link.run(message, bytes, last, link.conf, link.state)
      if given ~= nil then
        if type(given) ~= "string" then error("chunk: gives a " .. type(given) .. ", accepted: a string or nil", 0) end
        bytes, changed = given, true
      end
    end
    if changed then C.mg_piece_give(exchange, bytes, #bytes) end
  end
end


local function body_reader(read)
  return function(self)
    local text = read(self, ffi.length)
    if text ~= nil then return ffi.string(text, ffi.length[0]) end
    handles.fail(ffi.length[0], "body")
  end
end


local function body_writer(write)
  return function(self, bytes)
    if type(bytes) ~= "string" then error("set_body: the body is a " .. type(bytes) .. ", not a string", 2) end
    local code = write(self, bytes, #bytes)
    if code < 0 then handles.fail(code, "set_body") end
  end
end


--- body, set_body: the whole body, where a filter of the route has declared that it is buffered. Of an answer that a
-- filter or the gateway made, the body is always there.
-- @phases request:body request, log; request:set_body request; response:body response, log; response:set_body response
handles.request.body = body_reader(function(self, len) return C.mg_request_body(self, len) end)
handles.request.set_body = body_writer(function(self, bytes, len) return C.mg_request_set_body(self, bytes, len) end)
handles.response.body = body_reader(function(self, len) return C.mg_response_body(self, len) end)
handles.response.set_body = body_writer(function(self, bytes, len) return C.mg_response_set_body(self, bytes, len) end)


return bodies
