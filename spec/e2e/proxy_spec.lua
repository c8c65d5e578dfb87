-- spec/e2e/proxy_spec.lua - ordinary traffic: one request in, one request out, one answer back.
local h = require "spec.helper"

describe("a proxied exchange", function()
  after_each(h.cleanup)

  it("passes method, target, headers and body of a request on and relays the answer", function()
    local lines = { "X-Origin: yes", "Set-Cookie: a=1", "Set-Cookie: b=2" }
    local origin = h.origin(h.answer("201 Made It", "made\n", lines))
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send("POST /things?x=%201 HTTP/1.1\r\nHost: shop.test:81\r\nX-One: 1\r\nX-One: 2\r\n"
      .. "Content-Length: 4\r\n\r\nbody")
    local response = client:response()
    local request = origin.requests[1]
    assert.equal("POST /things?x=%201 HTTP/1.1", request.line)
    assert.equal("body", request.body)
    assert.same({ "1", "2" }, request:values("x-one"))
    assert.same({ "shop.test:81" }, request:values("host"))
    assert.equal(201, response.status)
    assert.equal("Made It", response.reason)
    assert.equal("HTTP/1.1", response.version)
    assert.equal("made\n", response.body)
    assert.equal("yes", response:header("x-origin"))
    assert.same({ "a=1", "b=2" }, response:values("set-cookie"))
  end)

  it("tells the upstream who asked, and believes no client's claim about that", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    gateway:get("/", "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nForwarded: for=6.6.6.6\r\n"
      .. "X-Real-IP: 6.6.6.6\r\n"
      .. "X_Forwarded_Host: evil\r\nX-Original-URL: /admin\r\n")
    local request = origin.requests[1]
    assert.same({ "127.0.0.1" }, request:values("x-forwarded-for"))
    assert.same({ "http" }, request:values("x-forwarded-proto"))
    assert.same({ "gateway.test" }, request:values("x-forwarded-host"))
    for _, name in ipairs { "forwarded", "x-real-ip", "x_forwarded_host", "x-original-url", "via" } do
      assert.same({}, request:values(name))
    end
  end)

  it("keeps a trusted proxy's chain and adds to it", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = origin.port, server = "limits:\n  trusted_proxies: [ 127.0.0.0/8 ]\n" }
    gateway:get("/", "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n")
    local request = origin.requests[1]
    assert.equal("203.0.113.9, 127.0.0.1", table.concat(request:values("x-forwarded-for"), ", "))
    assert.same({ "https" }, request:values("x-forwarded-proto"))
  end)

  it("removes hop-by-hop headers in both directions", function()
    local lines = { "Connection: X-Private", "X-Private: 1", "Keep-Alive: timeout=9", "X-Public: 1" }
    local origin = h.origin(h.answer(200, "x", lines))
    local gateway = h.gateway(origin.port)
    local response = gateway:get("/", "Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nTE: gzip\r\n"
      .. "Proxy-Connection: x\r\n"
      .. "Upgrade: h2c\r\nKeep-Alive: 3\r\n")
    local request = origin.requests[1]
    for _, name in ipairs { "x-secret", "te", "proxy-connection", "upgrade", "keep-alive" } do
      assert.same({}, request:values(name), name)
    end
    assert.same({}, response:values("x-private"))
    assert.same({}, response:values("keep-alive"))
    assert.equal("1", response:header("x-public"))
  end)

  it("serves many requests on one client connection over one upstream connection", function()
    local origin = h.origin(function(stream, request) stream:send(h.answer(200, request.target)) end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    for i = 1, 1100 do
      local response = client:get("/n/" .. i)
      assert.equal("/n/" .. i, response.body)
    end
    assert.equal(1, origin.connections)
  end)

  it("answers pipelined requests in order, each with its own answer", function()
    local origin = h.origin(function(stream, request, n)
      if n == 1 then h.sleep(0.1) end
      stream:send(h.answer(200, request.target .. request.body))
    end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    local bytes = {}
    for i = 1, 10 do
      bytes[#bytes + 1] = ("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"):format(i)
      bytes[#bytes + 1] = ("POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n:%d"):format(i, i % 10)
    end
    client:send(table.concat(bytes))
    for i = 1, 10 do
      assert.equal("/" .. i, client:response().body)
      assert.equal(("/%d:%d"):format(i, i % 10), client:response().body)
    end
  end)

  it("closes after an answer when the client asks for it", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n")
    local response = client:response()
    assert.equal("close", response:header("connection"):lower())
    assert.is_true((client:is_closed()))
    assert.equal(1, #origin.requests)
  end)

  it("relays answers without a body: HEAD, 204 and 304", function()
    local origin = h.origin(function(stream, request)
      if request.method == "HEAD" then
        stream:send("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
      elseif request.target == "/204" then
        stream:send("HTTP/1.1 204 No Content\r\n\r\n")
      elseif request.target == "/304" then
        stream:send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 77\r\n\r\n")
      else
        stream:send(h.answer(200, "end"))
      end
    end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send("HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n")
    assert.equal("1234", client:response("HEAD"):header("content-length"))
    local no_content = client:get("/204")
    assert.equal(204, no_content.status)
    assert.is_nil(no_content:header("content-length"))
    assert.is_nil(no_content:header("transfer-encoding"))
    local not_modified = client:get("/304")
    assert.equal(304, not_modified.status)
    assert.equal('"x"', not_modified:header("etag"))
    assert.equal("end", client:get("/").body)
    assert.equal(1, origin.connections)
  end)

  it("speaks HTTP/1.0 with clients that do", function()
    local origin = h.origin(function(stream)
      stream:send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        .. h.chunk("hello ") .. h.chunk("you") .. "0\r\n\r\n")
    end)
    local gateway = h.gateway(origin.port)
    local response, client = gateway:raw("GET / HTTP/1.0\r\nHost: a\r\n\r\n")
    assert.equal("hello you", response.body)
    assert.equal("close", response.framing)
    assert.is_nil(response:header("transfer-encoding"))
    assert.is_true((client:is_closed()))
    assert.equal("HTTP/1.1", origin.requests[1].version)
  end)

  it("keeps an HTTP/1.0 connection open on request", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    for _ = 1, 3 do
      client:send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
      local response = client:response()
      assert.equal("keep-alive", response:header("connection"):lower())
      assert.equal("length", response.framing)
    end
  end)

  it("relays a close-delimited answer of an HTTP/1.0 upstream", function()
    local origin = h.origin(function(stream)
      stream:send("HTTP/1.0 200 OK\r\n\r\nuntil the end")
      return false
    end)
    local gateway = h.gateway(origin.port)
    for _ = 1, 2 do
      local response = gateway:get("/")
      assert.equal("until the end", response.body)
      assert.is_true(response.complete)
    end
    assert.equal(2, origin.connections)
  end)

  it("answers 404 where no route matches, without asking anybody", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = (h.route_to(origin.port):gsub("prefix: /", "prefix: /api")) }
    local response = gateway:get("/other")
    assert.equal(404, response.status)
    assert.equal("nosniff", response:header("x-content-type-options"))
    assert.equal(200, gateway:get("/api/x").status)
    assert.equal(1, #origin.requests)
  end)

  it("prepends a target's path and can send its host", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    upstream:
      host: target
      targets: [ { url: "http://127.0.0.1:%d/base" } ]
]]):format(origin.port) }
    gateway:get("/x?y")
    assert.equal("/base/x?y", origin.requests[1].target)
    assert.equal("127.0.0.1:" .. origin.port, origin.requests[1]:header("host"))
  end)
end)


describe("interim answers and Expect", function()
  after_each(h.cleanup)

  it("forwards Expect and relays the upstream's 100", function()
    local origin = h.origin(function(stream, request)
      stream:send("HTTP/1.1 100 Continue\r\n\r\n")
      h.http.read_body(stream, request)
      stream:send(h.answer(200, request.body))
    end, { body = false })
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    local interim = h.http.read_response_head(client)
    assert.equal(100, interim.status)
    client:send("hello")
    assert.equal("hello", client:response().body)
    assert.equal("100-continue", origin.requests[1]:header("expect"))
  end)

  it("relays a refusal instead of a 100, and the client need not send the body", function()
    local origin = h.origin(function(stream)
      stream:send("HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
      return false
    end, { body = false })
    local gateway = h.gateway(origin.port)
    local response = gateway:raw("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert.equal(403, response.status)
    assert.equal("no", response.body)
  end)

  it("relays 103 before the final answer, but not to HTTP/1.0", function()
    local early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    local origin = h.origin(early .. h.answer(200, "x"))
    local gateway = h.gateway(origin.port)
    local response = gateway:get("/")
    assert.equal(1, #response.interim)
    assert.equal("</a.css>", response.interim[1]:header("link"))
    local old = gateway:raw("GET / HTTP/1.0\r\nHost: a\r\n\r\n")
    assert.equal(200, old.status)
    assert.equal(0, #old.interim)
  end)

  it("dates an answer of its own by the second it is", function()
    local gettime = require("socket").gettime
    local gateway = h.gateway { routes = (h.route_to(1):gsub("prefix: /", "prefix: /api")) }
    local function date(time) return os.date("!%a, %d %b %Y %H:%M:%S GMT", math.floor(time)) end
    for _ = 1, 60 do
      local before = gettime()
      local said = gateway:get("/"):header("date")
      local after = gettime()
      assert.is_true(said == date(before - 0.02) or said == date(after), ("%s at %.3f"):format(said, after))
      h.sleep(0.037)
    end
  end)

  it("relays an answer that comes before the request body has", function()
    local origin = h.origin(function(stream)
      stream:send("HTTP/1.1 413 Too Big\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
      h.sleep(0.2)
      return false
    end, { body = false })
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" .. ("x"):rep(1000))
    local response = client:response()
    assert.equal(413, response.status)
    assert.equal("much", response.body)
    assert.is_true((client:is_closed()))
  end)
end)
