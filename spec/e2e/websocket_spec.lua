-- spec/e2e/websocket_spec.lua - upgrades: tunnelled when the upstream agrees, ordinary answers when it does not.
local h = require "spec.helper"

local OFFER = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
  .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
local AGREED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


-- An upstream that agrees and then hands the stream to fn.
local function agreeing(fn)
  return h.origin(function(stream, request)
    stream:send(AGREED)
    fn(stream, request)
    return false
  end)
end


local function echo(stream)
  while true do
    if #stream.buffer > 0 then
      local bytes = stream.buffer
      stream.buffer = ""
      if not stream:send(bytes) then return end
    end
    if not stream:fill(10) then return end
  end
end


describe("an upgrade", function()
  after_each(h.cleanup)

  it("becomes a tunnel both ways after the upstream's 101", function()
    local origin = agreeing(echo)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send(OFFER)
    local response = client:response()
    assert.equal(101, response.status)
    assert.equal("websocket", response:header("upgrade"))
    assert.equal("upgrade", response:header("connection"):lower())
    assert.equal("websocket", origin.requests[1]:header("upgrade"))
    assert.equal("dGhlIHNhbXBsZSBub25jZQ==", origin.requests[1]:header("sec-websocket-key"))
    for i = 1, 200 do
      local frame = ("\129\5hello%d"):format(i)
      client:send(frame)
      assert.equal(frame, client:take(#frame))
    end
    local big = ("\130\127"):rep(300000)
    h.net.spawn(function() client:send(big) end)
    assert.equal(#big, #(client:take(#big) or ""))
  end)

  it("is what log functions are told when it begins", function()
    local routes = h.route_to(agreeing(echo).port, "    filters: [ note ]\n")
    local gateway = h.gateway { routes = routes, filters = { note = [[
return { api = 1, log = function(ex) ex:log("info", ex:status() .. ", tunnel: " .. tostring(ex:tunnel())) end }
]] } }
    local client = gateway:connect()
    client:send(OFFER)
    assert.equal(101, client:response().status)
    h.eventually(function() return gateway:log():find("101, tunnel: true", 1, true) end, 5, "log to run")
    assert.equal(502, gateway:get("/").status) -- an upgrade that nobody asked for
    h.eventually(function() return gateway:log():find("502, tunnel: false", 1, true) end, 5, "log to run again")
  end)

  it("carries bytes that were sent before the 101 came", function()
    local gateway = h.gateway(agreeing(echo).port)
    local client = gateway:connect()
    client:send(OFFER .. "early")
    assert.equal(101, client:response().status)
    assert.equal("early", client:take(5))
  end)

  it("ends on one side when the other side does", function()
    local ended
    local gateway = h.gateway(agreeing(function(stream) ended = select(2, stream:take_all(5)) end).port)
    local client = gateway:connect()
    client:send(OFFER)
    assert.equal(101, client:response().status)
    client:close()
    h.eventually(function() return ended == "closed" end, 5, "the upstream's side to end")
    local other = h.gateway(agreeing(function(stream) stream:send("bye") end).port)
    local second = other:connect()
    second:send(OFFER)
    assert.equal(101, second:response().status)
    assert.equal("bye", (second:take_all(5)))
  end)

  it("that is refused is an ordinary answer on a connection that goes on", function()
    local origin = h.origin(h.answer(403, "no chat"))
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send(OFFER)
    local response = client:response()
    assert.equal(403, response.status)
    assert.equal("no chat", response.body)
    assert.equal(403, client:get("/").status)
  end)

  it("to anything but websocket is not passed on", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    for _, protocol in ipairs { "h2c", "TLS/1.0", "websocket, h2c", "foo" } do
      local response = gateway:get("/", "Connection: Upgrade\r\nUpgrade: " .. protocol .. "\r\n")
      assert.equal(200, response.status)
      local request = origin.requests[#origin.requests]
      assert.is_nil(request:header("upgrade"))
      assert.is_nil((request:header("connection") or ""):lower():find("upgrade", 1, true))
    end
  end)
end)
