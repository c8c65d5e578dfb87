--- output_raw.lua - `raw`: the bytes of the messages as they were recorded, one behind the other.
--
-- Heads as they stand in the journal (redacted values stay redacted), bodies without the framing of chunks.

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"

local C = ffi.C

local raw_output = {}

raw_output.options = {
  output = { type = "string", default = "stdout", description = "stdout, or a file, which is added to" },
  messages = { type = "enum", enum = { "client", "upstream", "all" }, default = "client",
    description = "the two messages on the client's side, the two on the upstream's, or all in their order" },
}

local LEGS = { client = { 0, 3 }, upstream = { 1, 2 }, all = { 0, 1, 2, 3 } }


function raw_output.open(options)
  local out, why = files.stream(options.output)
  if not out then return nil, why end
  return { out = out, legs = LEGS[options.messages] }
end


--- Appends the head of a message, its empty line included. Shared with `warc`.
-- @param hidden name of a header whose lines get the prefix "X-Archive-Orig-", or nil
function raw_output.head(buf, leg, hidden)
  C.mg_out_put(buf, leg.line.ptr, leg.line.len)
  C.mg_out_put(buf, "\r\n", 2)
  for i = 0, leg.header_count - 1 do
    local line = leg.headers[i]
    if hidden and line.len > #hidden and line.ptr[#hidden] == 58
      and ffi.string(line.ptr, #hidden):lower() == hidden then
      C.mg_out_put(buf, "X-Archive-Orig-", 15)
    end
    C.mg_out_put(buf, line.ptr, line.len)
    C.mg_out_put(buf, "\r\n", 2)
  end
  C.mg_out_put(buf, "\r\n", 2)
end


function raw_output.write(state, exchange)
  local buf, why = state.out:ready()
  if not buf then return nil, why end
  for _, which in ipairs(state.legs) do
    local leg = exchange.raw.legs[which]
    if leg.present and leg.line.len > 0 then
      raw_output.head(buf, leg)
      C.mg_out_put(buf, leg.body.ptr, leg.body.len)
    end
  end
  return true
end


function raw_output.undo(state) return state.out:undo() end
function raw_output.flush(state, durable) return state.out:flush(durable) end
function raw_output.close(state) return state.out:close() end


return raw_output
