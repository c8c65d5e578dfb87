-- workloads.lua - the requests of bench/workloads: the right answer to each, and the script that makes wrk send it.
local process = require "bench.lib.process"

local FOLDER = "bench/workloads/"

local workloads = {
  -- status and body size of the right answer
  answers = {
    browser = { 200, 8192 }, get = { 200, 2000 }, post = { 201, 18 }, routes = { 200, 2000 }, hello = { 200, 13 },
  },
}


local function base_name(name) return (name:gsub("%-vary$", "")) end


-- The right answer to a workload: status, size.
function workloads.answer(name) return unpack(workloads.answers[base_name(name)]) end


-- The template of a workload: method, path, headers as a list of { name, value }, body.
function workloads.read(name)
  local text = assert(process.read_file(FOLDER .. name .. ".http"), "there is no workload " .. name)
  local head, body = text:match("^(.-)\n\n(.*)$")
  head = head or text
  local method, path = head:match("^(%S+) (%S+)")
  local headers = {}
  for header, value in head:gmatch("\n([^:\n]+): ([^\n]*)") do headers[#headers + 1] = { header, value } end
  return { method = method, path = path, headers = headers, body = (body or ""):gsub("\n$", "") }
end


local HELPERS = [[
local n, seed = 0, 88172645463325252 % 2^32
local function hex()
  seed = (seed * 1664525 + 1013904223) % 2^32
  local high = seed
  seed = (seed * 1664525 + 1013904223) % 2^32
  return string.format("%08x%08x", high, seed)
end
local function fill(text)
  text = text:gsub("{n%%(%d+)}", function(m) return string.format("%d", n * 7 % m) end)
  return (text:gsub("{n}", function() return string.format("%010d", n) end):gsub("{x}", hex))
end
]]


-- A wrk script that sends a workload.
function workloads.wrk_script(name)
  local w = workloads.read(name)
  local lines = { ("wrk.method = %q\nwrk.path = %q\n"):format(w.method, w.path) }
  local function add(...) lines[#lines + 1] = string.format(...) end
  for _, line in ipairs(w.headers) do add("wrk.headers[%q] = %q\n", line[1], line[2]) end
  if w.body ~= "" then add("wrk.body = %q\n", w.body) end
  local text = table.concat(lines)
  if not text:find("{[nx]") then return text end
  return text .. HELPERS .. [[
local path, body, headers = wrk.path, wrk.body, {}
for k, v in pairs(wrk.headers) do if v:find("{", 1, true) then headers[k] = v end end
request = function()
  n = n + 1
  for k, v in pairs(headers) do wrk.headers[k] = fill(v) end
  return wrk.format(nil, fill(path), nil, body and fill(body))
end
]]
end


-- Sends one request of a workload to a port: status, body size, headers by lower-case name; or nil and why.
function workloads.exchange(port, name)
  local w = workloads.read(name)
  local function fill(text)
    return (text:gsub("{n%%%d+}", "0"):gsub("{n}", "0000000001"):gsub("{x}", "0123456789abcdef"))
  end
  local lines = { ("%s %s HTTP/1.1"):format(w.method, fill(w.path)), "Host: 127.0.0.1:" .. port, "Connection: close" }
  for _, line in ipairs(w.headers) do lines[#lines + 1] = line[1] .. ": " .. fill(line[2]) end
  local body = fill(w.body)
  if body ~= "" then lines[#lines + 1] = "Content-Length: " .. #body end
  local socket = require("socket").tcp()
  socket:settimeout(5)
  local ok, why = socket:connect("127.0.0.1", port)
  if not ok then return nil, why end
  socket:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. body)
  local answer, err, part = socket:receive("*a")
  socket:close()
  answer = answer or part or ""
  local head, rest = answer:match("^(.-\r\n)\r\n(.*)$")
  if not head then return nil, "no answer: " .. tostring(err or answer:sub(1, 80)) end
  local headers = {}
  for header, value in head:gmatch("\n([^:\r\n]+):%s*([^\r\n]*)") do headers[header:lower()] = value end
  if (headers["transfer-encoding"] or ""):find("chunked") then
    rest = rest:gsub("^%x+\r\n", ""):gsub("\r\n0\r\n\r\n$", "")
  end
  return tonumber(head:match("^HTTP/1%.%d (%d+)")), #rest, headers
end

return workloads
