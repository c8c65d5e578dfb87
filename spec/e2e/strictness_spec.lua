-- spec/e2e/strictness_spec.lua - the HTTP rules that two readers could read differently.
-- Requests: what has to be refused never reaches the upstream, and the connection closes; the rest arrives clean.
-- Answers: what an upstream may not say becomes a 502 or a connection that is visibly cut.
local h = require "spec.helper"
local odd = require "spec.helper.odd"

local GET, CHUNKED, post = odd.GET, odd.CHUNKED, odd.post


local function one_of(wanted, got)
  if type(wanted) == "number" then return wanted == got end
  for _, status in ipairs(wanted) do
    if status == got then return true end
  end
  return false
end


describe("strictness", function()
  local origin, gateway, answer

  setup(function()
    origin = h.origin(function(stream)
      stream:send(answer or h.answer(200, "ok"))
      return answer == nil
    end)
    gateway = h.gateway { routes = origin.port,
      server = "http: { request_parse_timeout: 1500ms }\nserver: { idle_timeout: 2s }\n" }
  end)
  teardown(h.cleanup)
  before_each(function() origin.requests, answer = {}, nil end)

  describe("refuses a request with", function()
    for _, row in ipairs(odd.REFUSED) do
      local what, bytes, status = unpack(row)
      it(what, function()
        local response, client, err, rest = gateway:raw(bytes .. "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        assert(response, ("no answer: %s %q"):format(tostring(err), rest or ""))
        assert.is_true(one_of(status, response.status), "status " .. response.status)
        if response.status ~= 200 then
          assert.is_true((client:is_closed()), "the connection stays open")
          assert.equal(0, #origin.requests)
          assert.equal("nosniff", response:header("x-content-type-options"))
          assert.truthy(response.body:find("%a"), "the body says nothing")
        end
        client:close()
        assert.equal(200, gateway:get("/probe").status)
      end)
    end
  end)

  describe("never completes a chunked body with", function()
    for _, row in ipairs(odd.BAD_CHUNKS) do
      local what, bytes = unpack(row)
      it(what, function()
        local response, client = gateway:raw(CHUNKED .. bytes .. "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        if response then assert.equal(400, response.status) end
        assert.is_true((client:is_closed()), "the connection stays open")
        client:close()
        assert.equal(200, gateway:get("/probe").status)
        for _, request in ipairs(origin.requests) do
          assert.not_equal("/smuggled", request.target)
          assert.is_true(request.method == "GET" or not request.complete)
        end
      end)
    end
  end)

  describe("passes on", function()
    for _, row in ipairs(odd.PASSED) do
      local what, bytes, line = unpack(row)
      it(what, function()
        local response, client = gateway:raw(bytes)
        assert(response, "no answer")
        assert.equal(200, response.status)
        client:close()
        assert.equal(1, #origin.requests)
        local request = origin.requests[1]
        assert.equal(line, request.line)
        assert.equal(1, #request:values("host"))
        if row.host then assert.equal(row.host, request:header("host")) end
        if row.body then assert.equal(row.body, request.body) end
        if row.header then assert.same({ row.header[2] }, request:values(row.header[1])) end
      end)
    end
  end)

  describe("turns into a 502 an answer with", function()
    for _, row in ipairs(odd.BAD_ANSWERS) do
      local what, bytes = unpack(row)
      it(what, function()
        answer = bytes
        local response, client = gateway:raw(GET .. "\r\n")
        assert(response, "no answer")
        assert.equal(502, response.status)
        assert.is_nil(response:header("x-a"))
        client:close()
        answer = nil
        assert.equal("ok", gateway:get("/probe").body)
      end)
    end
  end)

  describe("shows the client that an answer is cut after", function()
    for _, row in ipairs(odd.CUT_ANSWERS) do
      local what, bytes = unpack(row)
      it(what, function()
        answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" .. bytes
        local response, client = gateway:raw(GET .. "\r\n")
        assert(response, "no answer")
        assert.is_true(response.status == 502 or not response.complete)
        client:close()
        answer = nil
        assert.equal("ok", gateway:get("/probe").body)
      end)
    end
  end)

  it("never rewrites OPTIONS *: no route is meant by it, or it goes upstream as it is", function()
    local response = gateway:raw("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
    if response.status == 404 then return assert.equal(0, #origin.requests) end
    assert.equal(200, response.status)
    assert.equal("OPTIONS * HTTP/1.1", origin.requests[1].line)
  end)

  it("joins no path of a target to OPTIONS *, and no query", function()
    local based = h.gateway { routes = ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { SetQueryParameter: { name: a, value: b } } ]
    upstream:
      targets: [ { url: "http://127.0.0.1:%d/base" } ]
]]):format(origin.port) }
    assert.equal(200, based:raw("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status)
    assert.equal("OPTIONS * HTTP/1.1", origin.requests[1].line)
    assert.equal(200, based:raw("OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n").status)
    assert.equal("OPTIONS /base/x?a=b HTTP/1.1", origin.requests[2].line)
  end)

  it("takes empty lines behind a body for no head: they are not answered when nothing follows", function()
    local response, client = gateway:raw(post("Content-Length: 1", "x") .. "\r\n\r\n")
    assert.equal(200, response.status)
    h.sleep(1.7) -- longer than a head may take, shorter than a connection may be idle
    assert.equal(200, client:get("/after").status)
    local second
    response, second = gateway:raw(post("Content-Length: 1", "x") .. "\r")
    assert.equal(200, response.status)
    local closed, rest = second:is_closed(5)
    assert.equal("", rest)
    assert.is_true(closed)
  end)

  it("answers 408 to a head that stops and closes silently where none began", function()
    local client = gateway:connect()
    client:send("GET / HT")
    assert.equal(408, client:response().status)
    assert.is_true((client:is_closed()))
    local silent = gateway:connect()
    local closed, rest = silent:is_closed(5)
    assert.equal("", rest)
    assert.is_true(closed)
    assert.equal(0, #origin.requests)
  end)
end)


describe("limits", function()
  after_each(h.cleanup)

  it("refuse a body over limits.max_entity_size, declared or counted", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = origin.port, server = "limits: { max_entity_size: 1KB }\n" }
    local response, client = gateway:raw(post("Content-Length: 1025"))
    assert.equal(413, response.status)
    assert.is_true((client:is_closed()))
    local chunk = h.chunk(("x"):rep(600))
    local counted, second = gateway:raw(CHUNKED .. chunk .. chunk .. "0\r\n\r\n")
    assert.is_true(counted == nil or counted.status == 413)
    assert.is_true((second:is_closed()))
    for _, request in ipairs(origin.requests) do assert.is_false(request.complete) end
    assert.equal(200, (gateway:raw(post("Content-Length: 1024", ("x"):rep(1024)))).status)
  end)

  it("end a body that stops with 408", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = origin.port, server = "http: { request_body_timeout: 300ms }\n" }
    local response, client = gateway:raw(post("Content-Length: 10", "abc"))
    assert.equal(408, response.status)
    assert.is_true((client:is_closed()))
    h.sleep(0.1)
    for _, request in ipairs(origin.requests) do assert.is_false(request.complete) end
  end)

  it("leave a body that pauses to the client's clock: no target is blamed for it", function()
    local origin = h.origin()
    local gateway = h.gateway { server = "http: { request_body_timeout: 1s }\n", routes = h.route_to(origin.port,
      "      timeouts: { read: 200ms }\n      passive_health: { failures: 1, within: 10s, down_for: 10s }\n") }
    local client = gateway:connect()
    client:send(post("Content-Length: 2", "a"))
    h.sleep(0.6)
    client:send("b")
    assert.equal(200, client:response().status)
    assert.equal(408, (gateway:raw(post("Content-Length: 2", "a"))).status)
    assert.equal(200, gateway:get("/").status)
  end)

  it("stop reading new connections at server.max_connections and go on afterwards", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = origin.port, server = "server: { max_connections: 3 }\n" }
    local held = {}
    for i = 1, 3 do
      held[i] = gateway:connect()
      assert.equal(200, held[i]:get("/").status)
    end
    local waiting = gateway:connect()
    waiting:send(GET .. "\r\n")
    local response = waiting:response("GET", 0.5)
    assert.is_true(response == nil or response.status == 503)
    for i = 1, 3 do held[i]:close() end
    h.sleep(0.2)
    assert.equal(200, gateway:get("/").status)
  end)

  it("hold a hundred slow heads without keeping others out", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    for _ = 1, 100 do gateway:connect():send("GET / HTTP/1.1\r\nHost") end
    assert.equal(200, gateway:get("/").status)
  end)
end)
