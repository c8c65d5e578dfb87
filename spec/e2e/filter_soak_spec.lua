-- filter_soak_spec.lua - many exchanges at once, each with another shape, other timing and other filters: what arrives
-- is what their filters make of it, whoever is slow, breaks off or answers early, and the journal is whole.
local h = require "spec.helper"

local CLIENTS, EXCHANGES = 12, 60
local seed = tonumber(os.getenv("MOONGATE_SPEC_SEED") or os.time())

-- Modes: the filter, what it makes of a request's body and of an answer's.
local MODES = {
  alone = { "local f = { api = 1 }\nfunction f.request() end\nreturn f\n", "%s", "%s" },
  held = { [[
local f = { api = 1, body = { request = "buffer", response = "buffer" } }
function f.request(req) moongate.sleep(0.002) req:set_body("<" .. req:body() .. ">") end
function f.response(res) moongate.sleep(0.002) res:set_body("[" .. res:body() .. "]") end
return f
]], "<%s>", "[%s]" },
  streamed = { [[
local f = { api = 1, body = { request = "stream", response = "stream" } }
function f.chunk(message, bytes, last)
  if #bytes % 3 > 0 then moongate.sleep(0.002) end
  if last then return bytes .. "!" end
end
function f.response() moongate.sleep(0.001) end
return f
]], "%s!", "%s!" },
  crossed = { [[
local f = { api = 1, body = { request = "stream", response = "buffer" } }
function f.chunk(message, bytes, last)
  if #bytes % 2 > 0 then moongate.sleep(0.002) end
  return bytes .. (last and "!" or "")
end
function f.response(res) res:set_body("[" .. res:body() .. "]") end
return f
]], "%s!", "[%s]" },
}
local NAMES = { "alone", "held", "streamed", "crossed" }


local function pick(list) return list[math.random(#list)] end


-- A body in pieces of random length.
local function pieces_of(body)
  local pieces = {}
  while #body > 0 do
    local size = math.random(9)
    pieces[#pieces + 1], body = body:sub(1, size), body:sub(size + 1)
  end
  return pieces
end


local function in_chunks(pieces)
  local chunks = {}
  for i, piece in ipairs(pieces) do chunks[i] = ("%x\r\n%s\r\n"):format(#piece, piece) end
  chunks[#chunks + 1] = "0\r\n\r\n"
  return chunks
end


-- Answers as the target says: /MODE?status,bytes,chunked,slow,early,breaks. The request's body comes back in X-Got.
local function serve(stream, request)
  local status, size, chunked, slow, early, breaks = request.target:match("%?(%d+),(%d+),(%d),(%d),(%d),(%d)")
  if early == "0" then h.http.read_body(stream, request, 5) end
  if breaks == "1" then return false end
  local pieces = pieces_of(("x"):rep(tonumber(size)))
  local head = ("HTTP/1.1 %s X\r\nX-Got: %s\r\n"):format(status, request.body or "")
  if status == "204" or request.method == "HEAD" then pieces, head = {}, head .. "\r\n"
  elseif chunked == "1" then pieces, head = in_chunks(pieces), head .. "Transfer-Encoding: chunked\r\n\r\n"
  else head = ("%sContent-Length: %s\r\n\r\n"):format(head, size)
  end
  stream:send(slow == "1" and head or head .. table.concat(pieces))
  for _, piece in ipairs(slow == "1" and pieces or {}) do
    h.sleep(0.001)
    stream:send(piece)
  end
  if early == "1" then h.http.read_body(stream, request, 5) end
end


local function random_exchange()
  local one = { mode = pick(NAMES), method = pick { "GET", "POST", "POST", "PUT", "HEAD" }, version = pick { 0, 1, 1 },
    status = pick { 200, 200, 404, 204 }, size = pick { 0, 1, 5, 40 }, slow = math.random() < 0.4 }
  one.has_body = one.method == "POST" or one.method == "PUT"
  one.body = one.has_body and ("abc"):rep(math.random(0, 9)):sub(1, math.random(0, 20)) or ""
  one.early, one.breaks = one.has_body and pick { 0, 0, 0, 1 } or 0, pick { 0, 0, 0, 0, 0, 0, 0, 1 }
  one.leaves = math.random() < 0.08
  local pieces = pieces_of(one.body)
  local framing = ("Content-Length: %d\r\n"):format(#one.body)
  if one.version == 1 and math.random() < 0.5 then
    pieces, framing = in_chunks(pieces), "Transfer-Encoding: chunked\r\n"
  end
  if not one.has_body then pieces, framing = {}, "" end
  one.head = ("%s /%s?%d,%d,%d,%d,%d,%d HTTP/1.%d\r\nHost: a\r\n%s%s\r\n"):format(one.method, one.mode, one.status,
    one.size, math.random(0, 1), math.random(0, 1), one.early, one.breaks, one.version,
    one.version == 0 and "Connection: keep-alive\r\n" or "", framing)
  one.pieces = pieces
  return one
end


-- Sends it; nil when the client left in the middle of it, else the answer.
local function run(stream, one)
  local whole = one.head .. table.concat(one.pieces)
  if one.leaves then
    stream:send(whole:sub(1, math.random(#whole)))
    h.sleep(0.002)
    return nil
  end
  stream:send(one.slow and one.head or whole)
  for _, piece in ipairs(one.slow and one.pieces or {}) do
    h.sleep(0.001)
    stream:send(piece)
  end
  return h.http.read_response(stream, one.method, 10) or {}
end


local function check(one, response)
  local name = one.head:match("^[^\r]*")
  if one.breaks == 1 then
    assert.equal(502, response.status, name)
    return
  end
  local mode = MODES[one.mode]
  local sent = one.has_body and mode[2]:format(one.body) or one.mode == "held" and "<>" or ""
  assert.equal(one.status, response.status, name)
  assert.equal(one.early == 1 and "" or sent, response:header("x-got"), name)
  if one.method ~= "HEAD" and one.status ~= 204 then
    assert.equal(mode[3]:format(("x"):rep(one.size)), response.body, name)
  end
end


describe("filters that hold, stream and wait, under many clients", function()
  after_each(h.cleanup)

  it(("keep every exchange apart (MOONGATE_SPEC_SEED=%d)"):format(seed), function()
    math.randomseed(seed)
    local origin, folder = h.origin(serve, { body = false }), h.folder() .. "/journal"
    local lines, filters = { "routes:" }, {}
    for _, name in ipairs(NAMES) do
      filters[name] = MODES[name][1]
      lines[#lines + 1] = ([[
  - id: %s
    match: [ { PathPrefix: { prefix: /%s } } ]
    filters: [ %s ]
    journal: { request: { level: FULL }, response: { level: FULL } }
    upstream: { retries: 0, targets: [ { url: "http://127.0.0.1:%d" } ], passive_health: { failures: 1000000 } }]])
        :format(name, name, name, origin.port)
    end
    local gateway = h.gateway { routes = table.concat(lines, "\n") .. "\n", filters = filters, workers = 1,
      args = { "--journal", folder } }
    local left, asked = CLIENTS, 0
    for _ = 1, CLIENTS do
      h.net.spawn(function()
        local stream
        for _ = 1, EXCHANGES do
          stream = stream or assert(h.net.connect(gateway.port))
          local one = random_exchange()
          local response = run(stream, one)
          asked = asked + 1
          if response then check(one, response) end
          local ends = not response or not response.header or response:header("connection") == "close"
          if ends or one.early == 1 or one.breaks == 1 then
            stream:close()
            stream = nil
          end
        end
        if stream then stream:close() end
        left = left - 1
      end)
    end
    h.eventually(function() return left == 0 end, 60, "the clients")
    assert.equal(CLIENTS * EXCHANGES, asked)
    gateway:stop()
    local verified = h.moongate { "journal", "verify", folder }
    assert.equal(0, verified.code, verified.out)
  end)
end)
