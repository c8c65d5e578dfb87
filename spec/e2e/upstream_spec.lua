-- spec/e2e/upstream_spec.lua - upstreams that refuse, die, stall or lie, and the connections that are kept to them.
local h = require "spec.helper"

local POST = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"


-- An upstream that answers the first request of each connection and treats the later ones with fn.
local function stale_after_first(fn)
  return h.origin(function(stream, request, n)
    if n == 1 then return stream:send(h.answer(200, "first")) and nil end
    return fn(stream, request, n)
  end)
end


describe("an upstream that fails", function()
  after_each(h.cleanup)

  it("refuses: 502", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    origin.close()
    assert.equal(502, gateway:get("/").status)
    local response, client = gateway:raw(POST)
    assert.equal(502, response.status)
    assert.equal("nosniff", response:header("x-content-type-options"))
    client:close()
  end)

  it("refuses on one target: the next one answers", function()
    local dead, alive = h.origin(), h.origin()
    local gateway = h.gateway { routes = ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    upstream:
      targets: [ { url: "http://127.0.0.1:%d" }, { url: "http://127.0.0.1:%d" } ]
]]):format(dead.port, alive.port) }
    dead.close()
    for _ = 1, 6 do assert.equal(200, gateway:get("/").status) end
    local response = gateway:raw(POST)
    assert.equal(200, response.status)
  end)

  it("takes turns between targets", function()
    local one, two = h.origin(h.answer(200, "one")), h.origin(h.answer(200, "two"))
    local gateway = h.gateway { routes = ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    upstream:
      targets: [ { url: "http://127.0.0.1:%d" }, { url: "http://127.0.0.1:%d" } ]
]]):format(one.port, two.port) }
    local client, counts = gateway:connect(), { one = 0, two = 0 }
    for _ = 1, 20 do
      local body = client:get("/").body
      counts[body] = counts[body] + 1
    end
    assert.same({ one = 10, two = 10 }, counts)
  end)

  it("closes without an answer: 502, and a POST is sent once", function()
    local origin = h.origin(function() return false end)
    local gateway = h.gateway(origin.port)
    local response = gateway:raw(POST)
    assert.equal(502, response.status)
    assert.equal(1, #origin.requests)
  end)

  it("stays silent: 504 after the read timeout", function()
    local origin = h.origin(function() h.sleep(5) return false end)
    local gateway = h.gateway { routes = h.route_to(origin.port, "      timeouts: { read: 300ms }\n") }
    local begin = require("socket").gettime()
    assert.equal(504, gateway:get("/").status)
    local took = require("socket").gettime() - begin
    assert.is_true(took > 0.25 and took < 2, "took " .. took)
  end)

  it("stops inside a body: the client's connection is cut, not completed", function()
    local origin = h.origin(function(stream)
      stream:send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
      h.sleep(5)
      return false
    end)
    local gateway = h.gateway { routes = h.route_to(origin.port, "      timeouts: { read: 300ms }\n") }
    local response = gateway:get("/")
    assert.equal("abc", response.body)
    assert.is_false(response.complete)
    assert.equal("closed", response.ended)
  end)

  it("answers after its 504: nobody gets that answer", function()
    local origin = h.origin(function(stream, _, n)
      if n == 1 then h.sleep(0.6) end
      stream:send(h.answer(200, "answer " .. n))
    end)
    local gateway = h.gateway { routes = h.route_to(origin.port, "      timeouts: { read: 300ms }\n") }
    local client = gateway:connect()
    assert.equal(504, client:get("/1").status)
    h.sleep(0.5)
    local again = gateway:get("/2")
    assert.equal("answer 2", again.body)
  end)
end)


describe("a pooled upstream connection", function()
  after_each(h.cleanup)

  it("that was closed while idle is not used for the next request", function()
    local origin = h.origin(function(stream, _, n)
      stream:send(h.answer(200, "n" .. n))
      return false -- closes without having said so
    end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    for i = 1, 10 do
      client:send(POST)
      assert.equal("n" .. i, client:response().body)
      h.sleep(0.05)
    end
    assert.equal(10, #origin.requests)
  end)

  it("that breaks under a GET: the GET is tried again on a fresh one", function()
    local origin = stale_after_first(function(stream, request, n)
      if n == 2 then return false end
      stream:send(h.answer(200, request.target))
    end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    assert.equal("first", client:get("/1").body)
    local response = client:get("/2")
    assert.equal(200, response.status)
    assert.equal("/2", response.body)
    assert.equal(3, #origin.requests)
  end)

  it("that breaks under a POST: 502, and the POST is not sent again", function()
    local origin = stale_after_first(function() return false end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    assert.equal("first", client:get("/1").body)
    client:send(POST)
    assert.equal(502, client:response().status)
    assert.equal(2, #origin.requests)
  end)

  it("that broke a GET twice: the client gets one 502", function()
    local origin = stale_after_first(function() return false end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:get("/1")
    assert.equal(502, client:get("/2").status)
    assert.equal(3, #origin.requests)
  end)

  it("that holds stray bytes is thrown away", function()
    local origin = h.origin(function(stream, request, n)
      stream:send(h.answer(200, request.target) .. (n == 1 and h.answer(200, "evil") or ""))
    end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    assert.equal("/1", client:get("/1").body)
    h.sleep(0.1)
    for i = 2, 5 do assert.equal("/" .. i, client:get("/" .. i).body) end
    assert.equal(2, origin.connections)
  end)

  it("is not kept when the upstream says close", function()
    local origin = h.origin(h.answer(200, "x", { "Connection: close" }))
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    for _ = 1, 3 do assert.equal("x", client:get("/").body) end
    assert.equal(3, origin.connections)
  end)

  it("is closed by the gateway before the time the upstream announced", function()
    local ended = false
    local origin = h.origin(function(stream)
      stream:send(h.answer(200, "x", { "Keep-Alive: timeout=3" }))
      h.net.spawn(function()
        h.net.wait_for(function() return stream.eof end, 4)
        ended = stream.eof
      end)
    end)
    local gateway = h.gateway(origin.port)
    gateway:get("/")
    local begin = require("socket").gettime()
    h.eventually(function() return ended end, 3, "the gateway to close the idle connection")
    assert.is_true(require("socket").gettime() - begin < 2.9)
  end)
end)


describe("a client that leaves", function()
  after_each(h.cleanup)

  it("with a reset while the upstream thinks, ends the upstream request", function()
    local ended = 0
    local origin = h.origin(function(stream, request)
      if request.target ~= "/slow" then return stream:send(h.answer(200, request.target)) and nil end
      local _, err = stream:fill(5)
      if err == "closed" then ended = ended + 1 end
      return false
    end)
    local gateway = h.gateway(origin.port)
    for i = 1, 3 do
      local client = gateway:connect()
      client:send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
      h.eventually(function() return #origin.requests == i end, 5, "the request upstream")
      client:reset()
      h.eventually(function() return ended == i end, 5, "the upstream connection to be closed")
    end
    assert.equal("/after", gateway:get("/after").body)
  end)

  it("without a word while the upstream thinks: nobody else gets that answer", function()
    local origin = h.origin(function(stream, request)
      if request.target == "/slow" then h.sleep(0.2) end
      stream:send(h.answer(200, request.target))
    end)
    local gateway = h.gateway(origin.port)
    for i = 1, 5 do
      local client = gateway:connect()
      client:send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
      h.eventually(function() return #origin.requests > 2 * (i - 1) end, 5, "the request upstream")
      client:close()
      assert.equal("/after", gateway:get("/after").body)
    end
  end)

  it("in the middle of an answer, harms nobody else", function()
    local origin = h.origin(function(stream, request)
      if request.target == "/ok" then return stream:send(h.answer(200, "ok")) and nil end
      stream:send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
      for _ = 1, 100 do
        if not stream:send(h.chunk("tick"), 1) then return false end
        h.sleep(0.01)
      end
      stream:send("0\r\n\r\n")
    end)
    local gateway = h.gateway(origin.port)
    for _ = 1, 5 do
      local client = gateway:connect()
      client:send("GET /ticks HTTP/1.1\r\nHost: a\r\n\r\n")
      assert.equal(200, h.http.read_response_head(client).status)
      client:reset()
      assert.equal("ok", gateway:get("/ok").body)
    end
  end)

  it("half-closed after its request, is still answered", function()
    local origin = h.origin(function(stream)
      h.sleep(0.2)
      stream:send(h.answer(200, "late"))
    end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    client:half_close()
    assert.equal("late", client:response().body)
    assert.is_true((client:is_closed()))
  end)

  it("half-closed after several requests, gets every answer; a cut one behind them gets none", function()
    local origin = h.origin(function(stream, request)
      h.sleep(0.05)
      stream:send(h.answer(200, request.line))
    end)
    local gateway = h.gateway(origin.port)
    local get = "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
    local cut = "POST /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\ncut"
    for _, last in ipairs { "", "GET /4 HT", cut } do
      local client = gateway:connect()
      client:send(get:format(1) .. get:format(2) .. get:format(3) .. last)
      client:half_close()
      for i = 1, 3 do assert.equal(("GET /%d HTTP/1.1"):format(i), client:response().body) end
      if last == cut then assert.equal(400, client:response().status) end
      assert.is_true((client:is_closed(1)))
    end
    for _, request in ipairs(origin.requests) do
      assert.equal(not request.line:find("/4 ", 1, true), request.complete)
    end
  end)
end)
