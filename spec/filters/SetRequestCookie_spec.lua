-- spec/filters/SetRequestCookie_spec.lua - one value for a cookie, whatever the client sent.
local h = require "spec.helper"


-- { lines of the client, Cookie lines upstream }
local ROWS = {
  { "", { "id=new" } },
  { "Cookie: a=1\r\n", { "a=1; id=new" } },
  { "Cookie: a=1; id=old; b=2; id=older\r\n", { "a=1; id=new; b=2" } },
  { "Cookie: id=old\r\nCookie: id=older\r\n", { "id=new" } },
}


describe("SetRequestCookie", function()
  after_each(h.cleanup)

  it("replaces the pair of that name and leaves the others", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { SetRequestCookie: { name: id, value: new } } ]\n") }
    for i, row in ipairs(ROWS) do
      assert.equal(200, gateway:get("/", row[1]).status)
      assert.same(row[2], origin.requests[i]:values("cookie"))
    end
  end)

  it("is one edit among others, in their order", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port, [[
    filters:
      - SetRequestHeader: { name: Cookie, value: "a=1" }
      - SetRequestCookie: { name: b, value: "2" }
      - RemoveRequestCookie: { name: a }
]]) }
    gateway:get("/", "Cookie: c=3\r\n")
    assert.same({ "b=2" }, origin.requests[1]:values("cookie"))
  end)

  it("refuses what cannot stand in a Cookie line, without showing it", function()
    local gateway = h.gateway(h.origin().port)
    for _, options in ipairs { "{ name: 'a b', value: x }", "{ name: a, value: 'hunter2; b=1' }", "{ name: a }" } do
      gateway:write_routes(h.route_to(1, ("    filters: [ { SetRequestCookie: %s } ]\n"):format(options)))
      local refused = gateway:control("reload")
      assert.equal(1, refused.code, options)
      assert.is_nil(refused.err:find("hunter2", 1, true), refused.err)
    end
  end)
end)
