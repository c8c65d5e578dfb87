--- output_json.lua - `json`: one line of JSON for each exchange. output_json_schema.lua says what stands in it.
--
-- Built in C's buffers, without Lua strings: a line costs a few microseconds and no garbage.
-- A field that is not known is left out; there is no null.

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"
local view = require "moongate.output_view"

local C = ffi.C

local json = {}

json.options = {
  output = { type = "enum", enum = { "stdout", "file" }, default = "stdout",
    description = "the standard output, or rolling files in output_dir" },
  output_dir = { type = "string", default = "/json", description = "folder of the files" },
  file_prefix = { type = "string", default = "moongate", pattern = "^[%w_%-%.]+$", max = 100,
    description = "what their names begin with" },
  max_file_size = { type = "size", default = "256mb", min = "4kb", description = "a new file begins beyond it" },
  max_file_age = { type = "duration", default = "15m", min = "1s", description = "or beyond this" },
  bodies = { type = "boolean", default = false, description = "bodies in base64, where no archive holds them" },
}

local FULL, HEADERS = 3, 2
local TRIED = "gateway.target" -- the attribute of each target that was left for another
local SOURCES = { socket = "SOCKET", ["x-forwarded-for"] = "X_FORWARDED_FOR", ["x-real-ip"] = "X_REAL_IP" }


--- `moongate journal cat --format json --output FOLDER`
function json.to(folder)
  return { output = "file", output_dir = folder }
end


function json.in_folder(given)
  return given.output == "file"
end


function json.bodies(options)
  return options.bodies
end


function json.open(options)
  local out, why
  if options.output == "stdout" then
    out, why = files.stream()
  else
    out, why = files.rolling {
      folder = options.output_dir, prefix = options.file_prefix, suffix = ".jsonl", max_size = options.max_file_size,
      max_age = options.max_file_age, recover = files.last_line,
    }
  end
  if not out then return nil, why end
  return { out = out, bodies = options.bodies }
end


-- Every field ends with a comma; close() takes the last one off.

local function put(buf, bytes) C.mg_out_put(buf, bytes, #bytes) end


local function text(buf, label, value)
  if value.len > 0 then
    C.mg_out_put(buf, label, #label)
    C.mg_out_json(buf, value.ptr, value.len, false)
    C.mg_out_put(buf, ",", 1)
  end
end


local function time(buf, label, us)
  C.mg_out_put(buf, label, #label)
  C.mg_out_time(buf, us)
  C.mg_out_put(buf, '",', 2)
end


local function seconds(buf, label, us)
  C.mg_out_put(buf, label, #label)
  C.mg_out_seconds(buf, us)
  C.mg_out_put(buf, ",", 1)
end


local function number(buf, label, value)
  C.mg_out_put(buf, label, #label)
  C.mg_out_integer(buf, value)
  C.mg_out_put(buf, ",", 1)
end


local function close(buf)
  C.mg_out_shorten(buf, C.mg_out_size(buf) - 1)
  C.mg_out_put(buf, "},", 2)
end


local function checksum(buf, label, crc)
  C.mg_out_put(buf, label, #label)
  C.mg_out_put(buf, '"crc32c:', 8)
  C.mg_out_hex32(buf, crc)
  C.mg_out_put(buf, '",', 2)
end


local LEVEL_LABELS = {
  [0] = '{"level":"NONE",', '{"level":"METADATA",', '{"level":"HEADERS",', '{"level":"FULL",',
}


local function headers(buf, leg)
  if leg.level >= HEADERS and leg.header_count > 0 then
    put(buf, '"headers":')
    C.mg_out_json_headers(buf, leg.headers, leg.header_count)
    put(buf, ",")
  end
end


local function request_line(buf, leg)
  text(buf, '"method":', leg.method)
  text(buf, '"path":', leg.path)
  text(buf, '"query":', leg.query)
  text(buf, '"protocol":', leg.protocol)
end


local function status_line(buf, leg)
  text(buf, '"protocol":', leg.protocol)
  if leg.status > 0 then number(buf, '"status":', leg.status) end
  text(buf, '"reason":', leg.reason)
end


--- What only the two messages on the client's side have.
local function client_side(buf, raw, leg, with_body)
  if not raw.ended then return end
  number(buf, '"header_bytes":', leg.header_bytes)
  number(buf, '"body_bytes":', leg.body_bytes)
  if leg.body_bytes > 0 and not leg.whole then put(buf, '"truncated":true,') end
  if leg.has_crc then checksum(buf, '"checksum":', leg.crc) end
  if leg.damaged then checksum(buf, '"observed_checksum":', leg.observed) end
  if with_body and leg.level == FULL and leg.has_body and leg.body.len > 0 then
    put(buf, '"body":"')
    C.mg_out_base64(buf, leg.body.ptr, leg.body.len)
    put(buf, '",')
  end
end


--- Whether attribute i (of a name, then a value) names a target that was tried before the last.
local function is_target(raw, i)
  local name = raw.attributes[i]
  return name.len == #TRIED and ffi.string(name.ptr, name.len) == TRIED
end


--- All targets that were tried, in order.
local function targets(buf, raw)
  put(buf, '"targets":[')
  for i = 0, raw.attribute_count - 2, 2 do
    if is_target(raw, i) then
      C.mg_out_json(buf, raw.attributes[i + 1].ptr, raw.attributes[i + 1].len, false)
      put(buf, ",")
    end
  end
  C.mg_out_json(buf, raw.upstream.ptr, raw.upstream.len, false)
  put(buf, "],")
end


local function attributes(buf, raw)
  for i = 0, raw.attribute_count - 2, 2 do
    if not is_target(raw, i) then
      put(buf, '"attributes":')
      C.mg_out_json_pairs(buf, raw.attributes, raw.attribute_count, TRIED)
      return put(buf, ",")
    end
  end
end


local function upstream(buf, raw)
  local request, response = raw.legs[C.MG_OUT_UPSTREAM_REQUEST], raw.legs[C.MG_OUT_UPSTREAM_RESPONSE]
  if request.present then
    put(buf, '"upstream_request":')
    put(buf, LEVEL_LABELS[request.level])
    request_line(buf, request)
    targets(buf, raw)
    if raw.tries > 1 then number(buf, '"tries":', raw.tries) end
    headers(buf, request)
    close(buf)
  end
  if response.present then
    put(buf, '"upstream_response":')
    put(buf, LEVEL_LABELS[response.level])
    status_line(buf, response)
    if raw.sent > 0 then time(buf, '"start":"', raw.sent) end
    if raw.first_byte > 0 then time(buf, '"first_byte":"', raw.first_byte) end
    if raw.answered_by == 0 and raw.sent > 0 then
      time(buf, '"end":"', raw["end"])
      seconds(buf, '"duration":', raw["end"] - raw.sent)
    end
    headers(buf, response)
    close(buf)
  end
end


local function facts(buf, raw)
  text(buf, '"route_id":', raw.route)
  if raw.started then time(buf, '"start":"', raw.start) end
  if raw.ended then
    time(buf, '"end":"', raw["end"])
    if raw.started then seconds(buf, '"duration":', raw["end"] - raw.start) end
    put(buf, '"answered_by":"')
    put(buf, view.ANSWERED_BY[raw.answered_by] or "GATEWAY")
    put(buf, '",')
  end
  text(buf, '"error":', raw.error)
  if raw.tunnel then put(buf, '"tunnel":true,') end
  text(buf, '"remote_address":', raw.client)
  if raw.client_source.len > 0 then
    put(buf, '"remote_address_source":"')
    put(buf, SOURCES[ffi.string(raw.client_source.ptr, raw.client_source.len)] or "UNKNOWN")
    put(buf, '",')
  end
  attributes(buf, raw)
end


--- Appends an exchange as one line, its end included.
function json.line(buf, exchange, bodies)
  local raw, archive = exchange.raw, exchange.archive
  put(buf, "{")
  text(buf, '"request_id":', raw.id)
  local incomplete = view.incomplete(raw)
  if incomplete then
    put(buf, '"incomplete":"')
    put(buf, incomplete)
    put(buf, '",')
  end
  facts(buf, raw)
  local request, response = raw.legs[C.MG_OUT_CLIENT_REQUEST], raw.legs[C.MG_OUT_CLIENT_RESPONSE]
  local with_body = bodies and not archive
  put(buf, '"client_request":')
  put(buf, LEVEL_LABELS[request.level])
  request_line(buf, request)
  headers(buf, request)
  client_side(buf, raw, request, with_body)
  close(buf)
  upstream(buf, raw)
  put(buf, '"client_response":')
  put(buf, LEVEL_LABELS[response.level])
  status_line(buf, response)
  headers(buf, response)
  client_side(buf, raw, response, with_body)
  close(buf)
  if archive then
    put(buf, '"warc":{"file":')
    C.mg_out_json(buf, archive.file, #archive.file, false)
    number(buf, ',"offset":', archive.offset)
    number(buf, '"length":', archive.length)
    close(buf)
  end
  C.mg_out_shorten(buf, C.mg_out_size(buf) - 1)
  put(buf, "}\n")
end


function json.write(state, exchange)
  local buf, why = state.out:ready(exchange.settle)
  if not buf then return nil, why end
  json.line(buf, exchange, state.bodies)
  return true
end


function json.undo(state) return state.out:undo() end
function json.flush(state, durable) return state.out:flush(durable) end
function json.close(state) return state.out:close() end


return json
