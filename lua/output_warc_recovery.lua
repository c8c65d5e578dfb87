--- output_warc_recovery.lua - how much of a WARC file that was left open is whole, and its index made anew.
--
-- Record by record, each with its own checksum; whole is what ends with the last record of an exchange. What is cut off
-- is given out again by who reads the journal, as it had not been acknowledged.
-- May call: C's output functions.   Never: change the file.

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"
local index = require "moongate.output_warc_index"

local C = ffi.C

local recovery = {}


--- "text/html; charset=utf-8" → "text/html"; "unk", as CDX files have it, when it is not known.
function recovery.mime(content_type)
  return content_type and content_type:match("^%s*([^;%s]+)") or "unk"
end


local function field(head, name)
  return head:match("\r\n" .. name:gsub("%-", "%%-") .. ": ([^\r]*)")
end


--- What the index needs to know of the response to a client; nil for other records.
local function indexed(text, state)
  local head = text:match("^(WARC/1%.1.-\r\n)\r\n")
  local kind = head and field(head, "WARC-Type")
  if not head then return nil, false end
  local ends = field(head, "WARC-Moongate-Group-End") ~= nil
  if kind == "warcinfo" then return nil, true end
  local block = text:sub(#head + 3)
  local leg = field(head, "WARC-Moongate-Leg")
  if leg == "CLIENT_REQUEST" then state.method = block:match("^(%S+)") or "GET" end
  if leg ~= "CLIENT_RESPONSE" then return nil, ends end
  local http = block:match("^(.-\r\n)\r\n") or block
  return {
    url = field(head, "WARC-Target-URI"), date = field(head, "WARC-Date"), digest = field(head, "WARC-Payload-Digest"),
    revisit = kind == "revisit", status = http:match("^%S+ (%d+)") or "-", method = state.method or "GET",
    mime = recovery.mime(http:match("\r\n[Cc][Oo][Nn][Tt][Ee][Nn][Tt]%-[Tt][Yy][Pp][Ee]:%s*([^\r]*)")),
  }, ends
end


--- @param state of the output: its packer, its options; @param path the file's final name
-- @return how many bytes are whole, 0 when no exchange is
function recovery.scan(state, bytes, len, path)
  local plain, at, whole, records = files.buffer(), 0, 0, 0
  local lines, lines_whole = files.buffer(), 0
  local reading = {}
  while at < len do
    local taken = tonumber(C.mg_out_unpack(state.packer, bytes + at, len - at, plain))
    if taken == 0 then break end
    local record, ends = indexed(files.text(plain), reading)
    if record and state.options.cdxj_index then
      record.offset, record.length, record.file = at, taken, path:match("[^/]+$")
      index.add(lines, record)
    end
    at, records = at + taken, records + 1
    if ends then whole, lines_whole = at, C.mg_out_size(lines) end
    if records == 1 then whole = 0 end -- a file with nothing but what describes it
  end
  if whole > 0 and state.options.cdxj_index then
    C.mg_out_shorten(lines, lines_whole)
    local written, why = index.write(lines, path:gsub("%.warc%.%a+$", "") .. ".cdxj")
    if not written then error(why, 0) end
  end
  return whole
end


return recovery
