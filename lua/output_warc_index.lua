--- output_warc_index.lua - CDXJ: where in a WARC file the answer to a URL stands, one sorted line for each exchange.
--
-- Owns: the lines of the file that is being written, and the key they are sorted by (SURT: the host turned round).
-- May call: C's output functions.   Never: read the WARC file.

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"

local C = ffi.C

local index = {}


--- "www.example.com:8080" → "com,example:8080"; an address stays as it is.
local function turned(host)
  local name, port = host:lower():match("^(.-):?(%d*)$")
  if host:find("^%[") then name, port = host:lower():match("^(%[.-%]):?(%d*)$") end
  if not name then name, port = host:lower(), "" end
  port = (port ~= "" and port ~= "80") and ":" .. port or ""
  if name:find("^%[") or name:find("^[%d%.]+$") then return name .. port end
  local labels = {}
  for label in name:gsub("^www%d*%.", ""):gmatch("[^.]+") do table.insert(labels, 1, label) end
  return table.concat(labels, ",") .. port
end


local function sorted_query(query)
  local parts = {}
  for part in query:gmatch("[^&]+") do parts[#parts + 1] = part end
  table.sort(parts)
  return table.concat(parts, "&")
end


--- The key of a URL, in the form pywb looks for: "com,example)/path?a=1&b=2". A method other than GET is part of it.
function index.key(url, method)
  local host, target = url:match("^http://([^/?]*)(.*)$")
  if not host then return url:lower() end
  local path, query = target:lower():match("^([^?]*)%??(.*)$")
  if method ~= "GET" then
    query = (query ~= "" and query .. "&" or "") .. "__wb_method=" .. method:lower()
  end
  if #path > 1 then path = path:gsub("/$", "") end
  if path == "" then path = "/" end
  local key = turned(host) .. ")" .. path
  if query ~= "" then key = key .. "?" .. sorted_query(query) end
  return key
end


local function json(buf, label, value)
  C.mg_out_put(buf, label, #label)
  C.mg_out_json(buf, value, #value, false)
end


--- Adds a line.
-- @param record { url, method, date ("2026-11-30T21:00:00..."), status, mime, digest, length, offset, file, revisit }
function index.add(buf, record)
  local stamp = record.date:sub(1, 19):gsub("%D", "")
  local head = ("%s %s {"):format(index.key(record.url, record.method):gsub("[ \r\n]", "%%20"), stamp)
  C.mg_out_put(buf, head, #head)
  json(buf, '"url":', record.url)
  json(buf, ',"mime":', record.revisit and "warc/revisit" or record.mime)
  json(buf, ',"status":', record.status)
  if record.digest then json(buf, ',"digest":', record.digest) end
  if record.method ~= "GET" then json(buf, ',"method":', record.method) end
  json(buf, ',"length":', ("%.0f"):format(record.length))
  json(buf, ',"offset":', ("%.0f"):format(record.offset))
  json(buf, ',"filename":', record.file)
  C.mg_out_put(buf, "}\n", 2)
end


--- Writes the lines, in order, to path: whole or not at all.
function index.write(buf, path)
  C.mg_out_sort_lines(buf)
  local stream, why = files.fresh(path .. ".open")
  if not stream then return nil, why end
  local out
  out, why = stream:ready()
  if not out then return nil, why end
  C.mg_out_put(out, C.mg_out_bytes(buf), C.mg_out_size(buf))
  return stream:close(path)
end


return index
