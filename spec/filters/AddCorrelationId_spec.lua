-- spec/filters/AddCorrelationId_spec.lua - one id for a request, upstream and back.
local h = require "spec.helper"


local function with(options)
  local origin = h.origin()
  local filter = "    filters: [ " .. (options or "AddCorrelationId") .. " ]\n"
  return h.gateway { routes = h.route_to(origin.port, filter) }, origin
end


describe("AddCorrelationId", function()
  after_each(h.cleanup)

  it("sends a new id upstream and back, whatever the client sent", function()
    local gateway, origin = with()
    local seen = {}
    for i = 1, 20 do
      local response = gateway:get("/", "X-Correlation-Id: mine\r\n")
      local id = origin.requests[i]:header("x-correlation-id")
      assert.matches("^[0-9A-HJKMNP-TV-Z]+$", id)
      assert.equal(26, #id)
      assert.equal(1, #origin.requests[i]:values("x-correlation-id"))
      assert.same({ id }, response:values("x-correlation-id"))
      assert.is_nil(seen[id])
      seen[id] = true
    end
  end)

  it("keeps and echoes the client's with trust_incoming", function()
    local gateway, origin = with("{ AddCorrelationId: { trust_incoming: true } }")
    local response = gateway:get("/", "X-Correlation-Id: mine\r\n")
    assert.same({ "mine" }, origin.requests[1]:values("x-correlation-id"))
    assert.same({ "mine" }, response:values("x-correlation-id"))
    local without = gateway:get("/")
    assert.equal(26, #without:header("x-correlation-id"))
    assert.equal(without:header("x-correlation-id"), origin.requests[2]:header("x-correlation-id"))
  end)
end)
