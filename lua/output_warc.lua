--- output_warc.lua - `warc`: WARC 1.1 files (ISO 28500:2017), which archives and their replay tools read.
--
-- An exchange is up to four records: the client's request, the request to the upstream, its response, the response to
-- the client. They name the first as WARC-Concurrent-To, stand in one file one behind the other, and the last is marked
-- as the end of its group, so that a torn file can be cut between exchanges. Exchanges that did not end get none.
-- Bodies are stored once, with the client's messages, without the framing of chunks.

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"
local index = require "moongate.output_warc_index"
local raw_output = require "moongate.output_raw"
local recovery = require "moongate.output_warc_recovery"

local C = ffi.C

local warc = { archives = true }

warc.options = {
  exchanges = { type = "enum", enum = { "with_body", "all" }, default = "with_body",
    description = "those of which a body was recorded, or every one" },
  output_dir = { type = "string", default = "/warc", description = "folder of the files" },
  file_prefix = { type = "string", default = "moongate", pattern = "^[%w_%-%.]+$", max = 100,
    description = "what their names begin with" },
  max_file_size = { type = "size", default = "1gb", min = "64kb", description = "a new file begins beyond it" },
  max_file_age = { type = "duration", default = "15m", min = "1s", description = "or beyond this" },
  compression = { type = "enum", enum = { "zstd", "gzip" }, default = "zstd", description = "of each record" },
  zstd_level = { type = "integer", default = 9, min = 1, max = 22, description = "of zstd" },
  dedup_cache_entries = { type = "integer", default = 100000, min = 0, max = 10000000,
    description = "how many payloads are remembered, so that a repeated one is stored once" },
  cdxj_index = { type = "boolean", default = false, description = "a sorted CDXJ index beside each file" },
  bodies = { type = "boolean", default = true, description = "false: heads alone" },
}

local FULL, GZIP_LEVEL = 3, 6
local LEGS = { [0] = "CLIENT_REQUEST", "UPSTREAM_REQUEST", "UPSTREAM_RESPONSE", "CLIENT_RESPONSE" }
local KINDS = { [0] = "request", "request", "response", "response" }
local REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


function warc.to(folder)
  return { output_dir = folder, exchanges = "all" }
end


function warc.in_folder()
  return true
end


function warc.bodies(options)
  return options.bodies
end


local function put(buf, text) C.mg_out_put(buf, text, #text) end


local function filled(buf, fill, ...)
  C.mg_out_shorten(buf, 0)
  fill(buf, ...)
  return files.text(buf)
end


local function uuid(state)
  return "<urn:uuid:" .. filled(state.small, C.mg_out_uuid) .. ">"
end


--- Appends one record, packed. @param fields list of header lines; the block is in state.block
local function append_record(state, out, fields)
  local record, block = state.record, state.block
  C.mg_out_shorten(record, 0)
  put(record, "WARC/1.1\r\n")
  put(record, table.concat(fields, "\r\n"))
  put(record, ("\r\nContent-Length: %d\r\n\r\n"):format(tonumber(C.mg_out_size(block))))
  C.mg_out_put(record, C.mg_out_bytes(block), C.mg_out_size(block))
  put(record, "\r\n\r\n")
  if not C.mg_out_pack(state.packer, out, C.mg_out_bytes(record), C.mg_out_size(record)) then
    error("a record could not be compressed", 0)
  end
end


local function begin_file(state, out, name)
  C.mg_out_shorten(state.block, 0)
  put(state.block, ("software: moongate/%s\r\nformat: WARC File Format 1.1\r\n"):format(ffi.string(C.mg_out_version())))
  put(state.block, "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n")
  put(state.block, "moongate-profile: 1\r\n")
  state.info = uuid(state)
  append_record(state, out, {
    "WARC-Type: warcinfo", "WARC-Record-ID: " .. state.info, "WARC-Filename: " .. name,
    "WARC-Date: " .. filled(state.small, C.mg_out_time, C.mg_out_now()), "Content-Type: application/warc-fields",
  })
  C.mg_out_shorten(state.lines, 0)
end


function warc.open(options)
  local zstd = options.compression == "zstd"
  local kind, level = zstd and C.MG_OUT_ZSTD or C.MG_OUT_GZIP, zstd and options.zstd_level or GZIP_LEVEL
  local state = {
    options = options, packer = ffi.gc(C.mg_out_packer_new(kind, level), C.mg_out_packer_free),
    record = files.buffer(), block = files.buffer(), small = files.buffer(), lines = files.buffer(), lines_mark = 0,
    seen = {}, order = {}, next = 1, added = false,
  }
  local why
  state.out, why = files.rolling {
    folder = options.output_dir, prefix = options.file_prefix, suffix = zstd and ".warc.zst" or ".warc.gz",
    max_size = options.max_file_size, max_age = options.max_file_age,
    begin = function(out, name) begin_file(state, out, name) end,
    recover = function(bytes, len, path) return recovery.scan(state, bytes, len, path) end,
    sealing = options.cdxj_index and function(path) return index.write(state.lines, warc.index_path(path)) end or nil,
  }
  if not state.out then return nil, why end
  return state
end


function warc.index_path(path)
  return (path:gsub("%.warc%.%a+$", "")) .. ".cdxj"
end


-- ---- payloads that were there before ----

--- The record that has this payload, or nil; then this one is remembered for the next.
local function known_payload(state, digest, record)
  local known = state.seen[digest]
  if known then return known end
  local capacity = state.options.dedup_cache_entries
  if capacity == 0 then return nil end
  local oldest = state.order[state.next]
  if oldest then state.seen[oldest] = nil end
  state.order[state.next], state.seen[digest], state.added = digest, record, digest
  state.next = state.next % capacity + 1
  return nil
end


-- ---- the records of an exchange ----

--- What of the body is stored, and why not all of it: nil, or a word for WARC-Truncated.
local function stored_body(state, leg, side)
  if not side then return nil, "unspecified" end
  if leg.level < FULL then return nil, (leg.body_bytes > 0 or leg.header_count == 0) and "unspecified" or nil end
  if leg.damaged then return nil, "unspecified" end
  if leg.body_bytes == 0 then return nil end
  if not state.options.bodies or not leg.has_body then return nil, "unspecified" end
  if not leg.whole then return leg.body, "disconnect" end
  if leg.body.len < leg.body_bytes then return leg.body, "unspecified" end
  return leg.body
end


local function length_of(leg)
  local found = ffi.new("struct mg_out_text")
  C.mg_out_header(leg, "content-length", 14, 0, found)
  return found.ptr ~= nil and tonumber(ffi.string(found.ptr, found.len)) or nil
end


--- The digest of a body that is stored with the other message of its side; nil when a filter may have changed it.
local function carried_digest(state, leg, other)
  if other.level < FULL or not other.has_body or other.damaged or not other.whole or other.body.len == 0 then return end
  if length_of(leg) ~= length_of(other) then return end
  return "sha256:" .. filled(state.small, C.mg_out_base32_sha256, other.body.ptr, other.body.len)
end


local function date_of(state, raw, which)
  local us = raw.start
  if which == 1 and raw.sent > 0 then us = raw.sent end
  if which == 2 and raw.first_byte > 0 then us = raw.first_byte end
  if which == 3 then us = raw.first_byte > 0 and raw.first_byte or raw["end"] end
  return filled(state.small, C.mg_out_time, us)
end


local function url_of(exchange)
  local request = exchange.request
  local host, target = request:header("host"), request.target
  if not host or not target then return "urn:moongate:request:" .. exchange.id end
  if target:find("^/") then return ("http://%s%s"):format(host, target) end
  return target:find("^%a+://") and target or ("http://%s/%s"):format(host, target)
end


--- The fields that depend on the body; fills state.block.
local function body_fields(state, raw, which, fields, record)
  local leg, side = raw.legs[which], (which == 0 or which == 3)
  local body, truncated = stored_body(state, leg, side)
  local digest
  if body then
    digest = "sha256:" .. filled(state.small, C.mg_out_base32_sha256, body.ptr, body.len)
  elseif not side then
    digest = carried_digest(state, leg, raw.legs[which == 1 and 0 or 3])
  end
  C.mg_out_shorten(state.block, 0)
  raw_output.head(state.block, leg, "transfer-encoding")
  local known = which == 3 and digest and not truncated and known_payload(state, digest, record)
  record.digest, record.revisit = digest, known and true or false
  if known then
    fields[1] = "WARC-Type: revisit"
    fields[#fields + 1] = "WARC-Profile: " .. REVISIT_PROFILE
    fields[#fields + 1] = "WARC-Refers-To: " .. known.id
    fields[#fields + 1] = "WARC-Refers-To-Target-URI: " .. known.url
    fields[#fields + 1] = "WARC-Refers-To-Date: " .. known.date
  elseif body then
    C.mg_out_put(state.block, body.ptr, body.len)
  end
  if truncated then fields[#fields + 1] = "WARC-Truncated: " .. truncated end
  if side and leg.damaged then fields[#fields + 1] = "WARC-Moongate-Checksum-Mismatch: true" end
  if digest then fields[#fields + 1] = "WARC-Payload-Digest: " .. digest end
  local block = state.block
  fields[#fields + 1] = "WARC-Block-Digest: sha256:" ..
    filled(state.small, C.mg_out_base32_sha256, C.mg_out_bytes(block), C.mg_out_size(block))
end


local function append_leg(state, out, exchange, which, group)
  local raw, date, id = exchange.raw, date_of(state, exchange.raw, which), uuid(state)
  local fields = {
    "WARC-Type: " .. KINDS[which], "WARC-Record-ID: " .. id, "WARC-Date: " .. date, "WARC-Target-URI: " .. group.url,
    "WARC-Warcinfo-ID: " .. state.info, "Content-Type: application/http;msgtype=" .. KINDS[which],
    "WARC-Moongate-Request-Id: " .. exchange.id, "WARC-Moongate-Sequence: " .. group.count,
    "WARC-Moongate-Leg: " .. LEGS[which],
  }
  if group.first then
    fields[#fields + 1] = "WARC-Concurrent-To: " .. group.first
  else
    group.first = id
  end
  local client = exchange.client
  if (which == 0 or which == 3) and client then fields[#fields + 1] = "WARC-Moongate-Client-IP: " .. client end
  local address = exchange.upstream and exchange.upstream:match("^([%d%.]+):%d+$")
  if which == 2 and address then fields[#fields + 1] = "WARC-IP-Address: " .. address end
  local record = { id = id, url = group.url, date = date }
  body_fields(state, raw, which, fields, record)
  if which == group.last then fields[#fields + 1] = "WARC-Moongate-Group-End: true" end
  local from = state.out:offset()
  append_record(state, out, fields)
  if which == 3 and state.options.cdxj_index then
    index.add(state.lines, {
      url = record.url, date = date, digest = record.digest, revisit = record.revisit, offset = from,
      method = exchange.request.method or "GET", status = tostring(exchange.response.status or "-"),
      mime = recovery.mime(exchange.response:header("content-type")),
      length = state.out:offset() - from, file = state.out.name,
    })
  end
  group.count = group.count + 1
end


local function is_wanted(state, raw)
  if not raw.ended or raw.legs[0].line.len == 0 then return false end
  if state.options.exchanges == "all" then return true end
  return (raw.legs[0].has_body and raw.legs[0].body_bytes > 0) or (raw.legs[3].has_body and raw.legs[3].body_bytes > 0)
end


function warc.write(state, exchange)
  local raw = exchange.raw
  state.added = false
  local out, why = state.out:ready()
  state.lines_mark = C.mg_out_size(state.lines)
  if not out then return nil, why end
  if not is_wanted(state, raw) then return true end
  local group = { url = url_of(exchange), count = 0, first = false, last = 0 }
  for which = 1, 3 do
    if raw.legs[which].present and raw.legs[which].line.len > 0 then group.last = which end
  end
  local from = state.out:offset()
  for which = 0, 3 do
    if raw.legs[which].present and raw.legs[which].line.len > 0 then append_leg(state, out, exchange, which, group) end
  end
  exchange.archive = { file = state.out.name, offset = from, length = state.out:offset() - from }
  return true
end


function warc.undo(state)
  if state.added then state.seen[state.added] = nil end
  C.mg_out_shorten(state.lines, state.lines_mark)
  return state.out:undo()
end


function warc.flush(state, durable) return state.out:flush(durable) end
function warc.close(state) return state.out:close() end


return warc
