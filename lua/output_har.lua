--- output_har.lua - `har`: HTTP Archive 1.2 (http://www.softwareishard.com/blog/har-12-spec/) of a selection.
--
-- One document, valid once it is closed: made as FILE.open and renamed then. So it can be the form of what
-- `moongate journal` finds, and nothing that is followed. Fields of ours begin with "_", as HAR wants it.

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"

local C = ffi.C

local har = { whole = true }

har.options = {
  output = { type = "string", default = "stdout", description = "stdout, or a file, which is made anew" },
}

local NO_HOST = "host-not-recorded.invalid"


function har.open(options)
  local path = options.output ~= "stdout" and options.output or nil
  local out, why
  if path then
    out, why = files.fresh(path .. ".open")
  else
    out, why = files.stream()
  end
  if not out then return nil, why end
  return { out = out, path = path, count = 0, before = 0 }
end


local function put(buf, ...)
  for i = 1, select("#", ...) do
    local text = select(i, ...)
    C.mg_out_put(buf, text, #text)
  end
end


local function json(buf, text) C.mg_out_json(buf, text, #text, false) end


--- `"name":"text",`
local function field(buf, name, text)
  put(buf, '"', name, '":')
  json(buf, text)
  put(buf, ",")
end


--- A list of objects with a name and a value.
local function pairs_list(buf, name, list)
  put(buf, '"', name, '":[')
  for i, pair in ipairs(list) do
    put(buf, i > 1 and "," or "", '{"name":')
    json(buf, pair[1])
    put(buf, ',"value":')
    json(buf, pair[2])
    put(buf, "}")
  end
  put(buf, "],")
end


local function unescape(text)
  return (text:gsub("+", " "):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end


local function query_of(query)
  local list = {}
  for part in (query or ""):gmatch("[^&]+") do
    local name, value = part:match("^([^=]*)=(.*)$")
    list[#list + 1] = { unescape(name or part), unescape(value or "") }
  end
  return list
end


local function request_cookies(leg)
  local list = {}
  for _, line in ipairs(leg:header_values("cookie")) do
    for part in line:gmatch("[^;]+") do
      local name, value = part:match("^%s*([^=]-)%s*=%s*(.-)%s*$")
      if name then list[#list + 1] = { name, value } end
    end
  end
  return list
end


local function response_cookies(leg)
  local list = {}
  for _, line in ipairs(leg:header_values("set-cookie")) do
    local name, value = line:match("^%s*([^=;]-)%s*=%s*([^;]-)%s*%f[;%z]")
    if name then list[#list + 1] = { name, value } end
  end
  return list
end


local function header_list(leg)
  local list = {}
  for name, value in leg:headers() do list[#list + 1] = { name, value } end
  return list
end


--- `"text":...,` and, when the bytes are no UTF-8, that they are in base64.
local function body_text(buf, body, encoding)
  if C.mg_out_is_utf8(body, #body) then return field(buf, "text", body) end
  put(buf, '"text":"')
  C.mg_out_base64(buf, body, #body)
  put(buf, '","', encoding, '":"base64",')
end


local function close(buf, bracket)
  C.mg_out_shorten(buf, C.mg_out_size(buf) - 1)
  put(buf, bracket)
end


local function sizes(buf, leg)
  put(buf, ('"headersSize":%.0f,"bodySize":%.0f,'):format(leg.header_bytes > 0 and leg.header_bytes or -1,
    leg.body_bytes))
end


local function request_of(buf, exchange)
  local leg = exchange.request
  local host, target = leg:header("host") or NO_HOST, leg.target or "/"
  put(buf, '"request":{')
  field(buf, "method", leg.method or "")
  field(buf, "url", target:find("^/") and ("http://%s%s"):format(host, target) or target)
  field(buf, "httpVersion", leg.protocol or "")
  pairs_list(buf, "cookies", request_cookies(leg))
  pairs_list(buf, "headers", header_list(leg))
  pairs_list(buf, "queryString", query_of(leg.query))
  local body = leg.body
  if body and #body > 0 then
    put(buf, '"postData":{')
    field(buf, "mimeType", leg:header("content-type") or "")
    body_text(buf, body, "_encoding")
    close(buf, "},")
  end
  sizes(buf, leg)
  close(buf, "},")
end


local function response_of(buf, exchange)
  local leg = exchange.response
  put(buf, ('"response":{"status":%d,'):format(exchange.status or 0))
  field(buf, "statusText", leg.reason or "")
  field(buf, "httpVersion", leg.protocol or "")
  pairs_list(buf, "cookies", response_cookies(leg))
  pairs_list(buf, "headers", header_list(leg))
  put(buf, ('"content":{"size":%.0f,'):format(leg.body_bytes))
  field(buf, "mimeType", leg:header("content-type") or "")
  local body = leg.body
  if body and #body > 0 then body_text(buf, body, "encoding") end
  close(buf, "},")
  field(buf, "redirectURL", leg:header("location") or "")
  sizes(buf, leg)
  close(buf, "},")
end


--- Milliseconds: until it was sent on, until the first byte came, until all had been passed on. Their sum is the time.
local function timings_of(buf, exchange)
  local start, finish = exchange.start_us or 0, exchange.end_us or exchange.start_us or 0
  local sent = exchange.sent_us or start
  local first = exchange.first_byte_us or finish
  put(buf, ('"timings":{"blocked":%.3f,"dns":-1,"connect":-1,"send":0,"wait":%.3f,"receive":%.3f,"ssl":-1},'):format(
    (sent - start) / 1000, (first - sent) / 1000, (finish - first) / 1000))
end


local function entry(buf, exchange)
  put(buf, "{")
  field(buf, "startedDateTime", exchange.time(exchange.start_us or 0))
  put(buf, ('"time":%.3f,'):format((exchange.duration or 0) * 1000))
  request_of(buf, exchange)
  response_of(buf, exchange)
  put(buf, '"cache":{},')
  timings_of(buf, exchange)
  field(buf, "_id", exchange.id)
  for _, name in ipairs { "route", "client", "upstream", "answered_by", "error", "incomplete" } do
    local value = exchange[name]
    if value then field(buf, "_" .. name, value) end
  end
  close(buf, "}")
end


local function begin(buf)
  put(buf, '{"log":{"version":"1.2","creator":{"name":"moongate","version":"', ffi.string(C.mg_out_version()),
    '"},"entries":[\n')
end


function har.write(state, exchange)
  state.before = state.count
  local buf, why = state.out:ready()
  if not buf then return nil, why end
  if state.count == 0 then begin(buf) else put(buf, ",\n") end
  entry(buf, exchange)
  state.count = state.count + 1
  return true
end


function har.undo(state)
  state.count = state.before
  return state.out:undo()
end


function har.flush(state, durable)
  if durable then return nil, "a HAR is whole only when it is closed" end
  return state.out:flush(false)
end


function har.close(state)
  local buf, why = state.out:ready()
  if not buf then return nil, why end
  if state.count == 0 then begin(buf) end
  put(buf, "\n]}}\n")
  return state.out:close(state.path)
end


return har
