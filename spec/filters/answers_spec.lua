-- spec/filters/answers_spec.lua - ReturnResponse and SetStatus.
local h = require "spec.helper"


describe("ReturnResponse", function()
  after_each(h.cleanup)

  it("answers without an upstream; response filters still run", function()
    local gateway = h.gateway { routes = [[
routes:
  - id: stub
    match: [ { PathPrefix: { prefix: /stub } } ]
    filters:
      - SetResponseHeader: { name: X-By, value: gateway }
      - ReturnResponse: { status: 418, body: "short and stout\n" }
      - AddResponseHeader: { name: X-After, value: "1" }
]] }
    local client = gateway:connect()
    for _ = 1, 3 do
      local response = client:get("/stub")
      assert.equal(418, response.status)
      assert.equal("short and stout\n", response.body)
      assert.equal("text/plain; charset=utf-8", response:header("content-type"))
      assert.equal("gateway", response:header("x-by"))
      assert.equal("1", response:header("x-after"))
      assert.equal("nosniff", response:header("x-content-type-options"))
    end
  end)

  it("answers HEAD with the head alone, and reads a body that comes with a request", function()
    local gateway = h.gateway { routes = [[
routes:
  - id: stub
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: "four" } } ]
]] }
    local client = gateway:connect()
    client:send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert.equal("4", client:response("HEAD"):header("content-length"))
    client:send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
    assert.equal("four", client:response().body)
    assert.equal("four", client:get("/").body)
  end)

  it("takes its content type from SetResponseHeader", function()
    local gateway = h.gateway { routes = [[
routes:
  - id: stub
    match: [ { PathPrefix: { prefix: / } } ]
    filters:
      - SetResponseHeader: { name: Content-Type, value: application/json }
      - ReturnResponse: { status: 200, body: "{}" }
]] }
    assert.same({ "application/json" }, gateway:get("/"):values("content-type"))
  end)
end)


describe("SetStatus", function()
  after_each(h.cleanup)

  it("overrides the status that the client gets", function()
    local origin = h.origin(h.answer("200 Fine", "x"))
    local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: [ { SetStatus: { status: 503 } } ]\n") }
    local response = gateway:get("/")
    assert.equal(503, response.status)
    assert.equal("x", response.body)
    assert.not_equal("Fine", response.reason)
  end)
end)
