-- spec/helper/http.lua - reads requests and answers off a raw stream, strictly enough to notice what is wrong in them.
-- Owns: nothing.   Never: repair a message; a body that ended early says complete = false.
local http = {}

local Message = {}
Message.__index = Message


-- The first value of a header; nil if there is none.
function Message:header(name)
  return self:values(name)[1]
end


-- All values of a header, in order.
function Message:values(name)
  local found = {}
  for _, line in ipairs(self.headers) do
    if line[1]:lower() == name:lower() then found[#found + 1] = line[2] end
  end
  return found
end


local function parse_lines(text)
  local headers = {}
  for line in text:gmatch("(.-)\r\n") do
    local name, value = line:match("^([^:%s]+):[ \t]*(.-)[ \t]*$")
    if not name then error("malformed header line: " .. ("%q"):format(line)) end
    headers[#headers + 1] = { name, value }
  end
  return headers
end


local function read_head(stream, seconds)
  local raw, err, rest = stream:take_until("\r\n\r\n", seconds)
  if not raw then return nil, err, rest end
  local line, lines = raw:match("^(.-)\r\n(.*)\r\n$")
  return setmetatable({ raw = raw, line = line, headers = parse_lines(lines), body = "", complete = false }, Message)
end


local function read_chunked(stream, message, seconds)
  local pieces = {}
  message.chunks = 0
  local function stop(err)
    message.body, message.ended = table.concat(pieces), err
    return message
  end
  while true do
    local line, err = stream:take_until("\r\n", seconds)
    if not line then return stop(err) end
    local size = tonumber(line:match("^(%x+)[;\r]") or error("malformed chunk line: " .. ("%q"):format(line)), 16)
    if size == 0 then break end
    local data, why, rest = stream:take(size + 2, seconds)
    pieces[#pieces + 1] = (data or rest):sub(1, size)
    if not data then return stop(why) end
    if data:sub(-2) ~= "\r\n" then error("no CR LF after chunk data") end
    message.chunks = message.chunks + 1
  end
  local trailers = ""
  repeat
    local line, err = stream:take_until("\r\n", seconds)
    if not line then return stop(err) end
    trailers = trailers .. (line == "\r\n" and "" or line)
  until line == "\r\n"
  message.trailers, message.complete = parse_lines(trailers), true
  return stop()
end


local function read_length(stream, message, length, seconds)
  local body, err, rest = stream:take(length, seconds)
  message.body, message.complete, message.ended = body or rest, body ~= nil, err
  return message
end


-- Reads the body that goes with a message whose head was read.
function http.read_body(stream, message, seconds)
  local coding = message:header("transfer-encoding")
  if coding then
    message.framing = "chunked"
    return read_chunked(stream, message, seconds)
  end
  local length = message:header("content-length")
  if length then
    message.framing = "length"
    return read_length(stream, message, tonumber(length), seconds)
  end
  message.framing = "none"
  if message.status then
    message.framing = "close"
    message.body, message.ended = stream:take_all(seconds)
    message.complete = message.ended == "closed"
    return message
  end
  message.complete = true
  return message
end


-- Reads a request head: method, target, version, headers. nil when the peer closed or said nothing.
function http.read_request(stream, seconds)
  local request, err, rest = read_head(stream, seconds)
  if not request then return nil, err, rest end
  request.method, request.target, request.version = request.line:match("^(%S+) (%S+) (HTTP/1%.[01])$")
  if not request.method then error("malformed request line: " .. ("%q"):format(request.line)) end
  return request
end


-- Reads an answer head, the interim ones included.
function http.read_response_head(stream, seconds)
  local response, err, rest = read_head(stream, seconds)
  if not response then return nil, err, rest end
  local version, status, reason = response.line:match("^(HTTP/1%.[01]) (%d%d%d) ?(.*)$")
  if not version then error("malformed status line: " .. ("%q"):format(response.line)) end
  response.version, response.status, response.reason = version, tonumber(status), reason
  return response
end


-- Reads one whole answer to a request with method (GET unless given); interim answers are listed in .interim.
function http.read_response(stream, method, seconds)
  local interim = {}
  while true do
    local response, err, rest = http.read_response_head(stream, seconds)
    if not response then return nil, err, rest end
    response.interim = interim
    if response.status == 101 then return response end
    if response.status >= 200 then
      if method == "HEAD" or response.status == 204 or response.status == 304 then
        response.framing, response.complete = "none", true
        return response
      end
      return http.read_body(stream, response, seconds)
    end
    interim[#interim + 1] = response
  end
end


-- An answer with a length, for scripted upstreams. headers: extra lines without line ends.
function http.answer(status, body, headers)
  local lines = { ("HTTP/1.1 %s"):format(type(status) == "number" and status .. " Reason" or status) }
  for _, line in ipairs(headers or {}) do lines[#lines + 1] = line end
  lines[#lines + 1] = ("Content-Length: %d"):format(#(body or ""))
  return table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
end


-- bytes as one chunk.
function http.chunk(bytes) return ("%x\r\n%s\r\n"):format(#bytes, bytes) end

return http
