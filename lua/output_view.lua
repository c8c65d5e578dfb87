--- output_view.lua - an exchange of the journal as an output sees it.
--
-- Owns: the names of its fields, which journal/README.md lists. Nothing becomes a Lua string before it is asked for.
-- One object for all exchanges: what it says is true until the output returns. `raw` is the struct itself, for outputs
-- that build their texts without Lua strings.
-- May call: C's output functions.   Never: hold on to a text.

local ffi = require "moongate.ffi"

ffi.declare "output_ffi.h"
local C, cast, text_of = ffi.C, ffi.cast, ffi.string

local view = {}

local INCOMPLETE = { "NO_START_EVENT", "NO_END", "TIMED_OUT", "CAPACITY_EVICTED", "SHUTDOWN" }
local ANSWERED_BY = { [0] = "UPSTREAM", "FILTER", "GATEWAY" }
local LEVELS = { [0] = "NONE", "METADATA", "HEADERS", "FULL" }
local TEXTS = { "route", "filters", "generation", "client", "client_source", "error", "upstream" }
local LEG_TEXTS = { "line", "method", "target", "path", "query", "protocol", "reason" }

local found = ffi.new("struct mg_out_text")
local name_length = ffi.new("size_t[1]")


--- A borrowed text as a string; nil when it is empty.
local function string_of(text)
  if text.len > 0 then return text_of(text.ptr, text.len) end
end


local function known(number)
  if number > 0 then return tonumber(number) end
end


--- Why an exchange is not whole, as a word; nil when it is.
function view.incomplete(raw)
  local word = INCOMPLETE[tonumber(raw.incomplete)]
  if word then return word end
  if raw.status == 0 then return "NO_STATUS" end
end


view.LEVELS, view.ANSWERED_BY = LEVELS, ANSWERED_BY


-- ---- one of the four messages ----

local leg_fields = {
  present = function(raw) return raw.present end,
  whole = function(raw) return raw.whole end,
  damaged = function(raw) return raw.damaged end,
  level = function(raw) return LEVELS[raw.level] end,
  status = function(raw) return known(raw.status) end,
  header_bytes = function(raw) return tonumber(raw.header_bytes) end,
  body_bytes = function(raw) return tonumber(raw.body_bytes) end,
  body = function(raw)
    if raw.has_body then return text_of(raw.body.ptr, raw.body.len) end
  end,
  checksum = function(raw)
    if raw.has_crc then return tonumber(raw.crc) end
  end,
}
for _, name in ipairs(LEG_TEXTS) do
  leg_fields[name] = function(raw) return string_of(raw[name]) end
end

local Leg = {}


--- The value of the first header line of that name, in any case; nil when there is none.
function Leg:header(name)
  C.mg_out_header(self.raw, name, #name, 0, found)
  if found.ptr ~= nil then return text_of(found.ptr, found.len) end
end


--- All values of that name, in order.
function Leg:header_values(name)
  local values = {}
  repeat
    C.mg_out_header(self.raw, name, #name, #values, found)
    if found.ptr ~= nil then values[#values + 1] = text_of(found.ptr, found.len) end
  until found.ptr == nil
  return values
end


--- Name and value of line i, from 1; nil behind the last.
function Leg:header_at(i)
  if i < 1 or i > self.raw.header_count then return nil end
  local line = self.raw.headers[i - 1]
  local from = C.mg_out_split_line(line, name_length)
  return text_of(line.ptr, name_length[0]), text_of(line.ptr + from, line.len - from)
end


--- for name, value in leg:headers() do
function Leg:headers()
  local i = 0
  return function()
    i = i + 1
    return self:header_at(i)
  end
end


local leg_metatable = {
  __index = function(self, key)
    local read = leg_fields[key]
    if read then return read(self.raw) end
    return Leg[key]
  end,
}


-- ---- the exchange ----

local fields = {
  id = function(raw) return text_of(raw.id.ptr, raw.id.len) end,
  shard = function(raw) return raw.shard end,
  epoch = function(raw) return tonumber(raw.epoch) end,
  number = function(raw) return tonumber(raw.number) end,
  tunnel = function(raw) return raw.tunnel end,
  incomplete = view.incomplete,
  answered_by = function(raw) return raw.ended and ANSWERED_BY[raw.answered_by] or nil end,
  status = function(raw) return known(raw.status) end,
  start_us = function(raw) return known(raw.start) end,
  end_us = function(raw) return known(raw["end"]) end,
  sent_us = function(raw) return known(raw.sent) end,
  first_byte_us = function(raw) return known(raw.first_byte) end,
  duration = function(raw) return raw.ended and (raw["end"] - raw.start) / 1e6 or nil end,
  tries = function(raw) return tonumber(raw.tries) end,
  attributes = function(raw)
    local values = {}
    for i = 0, raw.attribute_count - 2, 2 do
      values[string_of(raw.attributes[i]) or ""] = string_of(raw.attributes[i + 1]) or ""
    end
    return values
  end,
}
for _, name in ipairs(TEXTS) do
  fields[name] = function(raw) return string_of(raw[name]) end
end

local Exchange = {}


--- "2026-11-30T21:00:00.123456Z" of microseconds.
function Exchange.time(us)
  local buf = C.mg_out_buffer()
  C.mg_out_time(buf, us)
  local text = text_of(C.mg_out_bytes(buf), C.mg_out_size(buf))
  C.mg_out_buffer_free(buf)
  return text
end


local metatable = {
  __index = function(self, key)
    local read = fields[key]
    if read then return read(self.raw) end
    return Exchange[key]
  end,
}


--- The object over a struct that is filled anew for each exchange. @param pointer a light userdata
function view.new(pointer)
  local raw = cast("const struct mg_out_exchange *", pointer)
  local function leg(which) return setmetatable({ raw = raw.legs[which] }, leg_metatable) end
  return setmetatable({
    raw = raw,
    archive = false, -- where an archiving output has put it: { file, offset, length }
    settle = false, -- to be called before lines that name an archive are written, where there is one
    request = leg(C.MG_OUT_CLIENT_REQUEST),
    upstream_request = leg(C.MG_OUT_UPSTREAM_REQUEST),
    upstream_response = leg(C.MG_OUT_UPSTREAM_RESPONSE),
    response = leg(C.MG_OUT_CLIENT_RESPONSE),
  }, metatable)
end


return view
