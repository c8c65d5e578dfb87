-- spec/filters/RequestSizeLimit_spec.lua - bodies that are too large, announced or not.
local h = require "spec.helper"


local function with_limit(handler, options)
  local origin = h.origin(handler, options)
  local gateway = h.gateway { routes = h.route_to(origin.port,
    "    filters: [ { RequestSizeLimit: { max_size: 1kb } } ]\n") }
  return gateway, origin
end


local function post(body)
  return ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"):format(#body, body)
end

local CHUNKED = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


describe("RequestSizeLimit", function()
  after_each(h.cleanup)

  it("lets bodies up to the limit through", function()
    local gateway, origin = with_limit()
    assert.equal(200, gateway:get("/").status)
    assert.equal(200, (gateway:raw(post(("x"):rep(1024)))).status)
    assert.equal(200, (gateway:raw(CHUNKED .. h.chunk(("x"):rep(1024)) .. "0\r\n\r\n")).status)
    assert.equal(1024, #origin.requests[3].body)
  end)

  it("refuses an announced length at once, nothing goes upstream", function()
    local gateway, origin = with_limit()
    local response = gateway:raw("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n")
    assert.equal(413, response.status)
    assert.equal("The request body is too large.\n", response.body)
    assert.equal(0, #origin.requests)
  end)

  it("counts a body without a length and breaks it off, upstream too", function()
    local whole
    local gateway = with_limit(function(stream, request)
      h.http.read_body(stream, request)
      whole = request.complete
      return false
    end, { body = false })
    local client = gateway:connect()
    client:send(CHUNKED .. h.chunk(("x"):rep(1000)))
    h.sleep(0.05)
    client:send(h.chunk(("x"):rep(25)))
    local response = client:response()
    assert.equal(413, response.status)
    assert.equal("close", response:header("connection"))
    h.eventually(function() return whole ~= nil end, 5, "the upstream to see the end")
    assert.is_false(whole)
  end)

  it("takes the lowest of several limits", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port, [[
    filters: [ RequestSizeLimit: { max_size: 10b }, RequestSizeLimit: { max_size: 1kb } ]
]]), server = "limits: { max_entity_size: 1kb }\n" }
    assert.equal(200, (gateway:raw(post("1234567890"))).status)
    assert.equal(413, (gateway:raw(post("12345678901"))).status)
    assert.equal(413, (gateway:raw(CHUNKED .. h.chunk("12345678901") .. "0\r\n\r\n")).status)
  end)
end)
