--- output_combined.lua - `combined`: the access log of Apache httpd in its "combined" form, for tools that read it.
--
-- Escaped as httpd does it; times in UTC. Exchanges without an end are left out, as they are from an access log. Where
-- the headers were not recorded, Referer and User-Agent are "-".

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"

local C = ffi.C

local combined = {}

combined.options = {
  output = { type = "string", default = "stdout", description = "stdout, or a file, which is added to" },
}

local found = ffi.new("struct mg_out_text")


function combined.bodies() return false end


function combined.open(options)
  local out, why = files.stream(options.output)
  if not out then return nil, why end
  return { out = out, second = 0, stamp = "" }
end


local function put(buf, bytes) C.mg_out_put(buf, bytes, #bytes) end


local function header(buf, leg, name)
  C.mg_out_header(leg, name, #name, 0, found)
  put(buf, ' "')
  if found.ptr ~= nil and found.len > 0 then
    C.mg_out_escaped(buf, found.ptr, found.len)
  else
    put(buf, "-")
  end
  put(buf, '"')
end


--- "[30/Nov/2026:21:00:00 +0000]"; made once a second.
local function stamp(state, us)
  local second = math.floor(us / 1e6)
  if second ~= state.second then
    state.second, state.stamp = second, os.date("!%d/%b/%Y:%H:%M:%S", second)
  end
  return state.stamp
end


function combined.write(state, exchange)
  local buf, why = state.out:ready()
  if not buf then return nil, why end
  local raw = exchange.raw
  if not raw.ended then return true end
  local request, response = raw.legs[C.MG_OUT_CLIENT_REQUEST], raw.legs[C.MG_OUT_CLIENT_RESPONSE]
  if raw.client.len > 0 then C.mg_out_escaped(buf, raw.client.ptr, raw.client.len) else put(buf, "-") end
  put(buf, " - - [")
  put(buf, stamp(state, raw.start))
  put(buf, ' +0000] "')
  if request.line.len > 0 then C.mg_out_escaped(buf, request.line.ptr, request.line.len) else put(buf, "-") end
  put(buf, '" ')
  if raw.status > 0 then C.mg_out_integer(buf, raw.status) else put(buf, "-") end
  put(buf, " ")
  if response.body_bytes > 0 then C.mg_out_integer(buf, response.body_bytes) else put(buf, "-") end
  header(buf, request, "referer")
  header(buf, request, "user-agent")
  put(buf, "\n")
  return true
end


function combined.undo(state) return state.out:undo() end
function combined.flush(state, durable) return state.out:flush(durable) end
function combined.close(state) return state.out:close() end


return combined
