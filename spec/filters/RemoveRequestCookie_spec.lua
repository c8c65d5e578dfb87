-- spec/filters/RemoveRequestCookie_spec.lua - a cookie that does not go upstream.
local h = require "spec.helper"


-- { lines of the client, Cookie lines upstream }
local ROWS = {
  { "", {} },
  { "Cookie: id=1\r\n", {} },
  { "Cookie: a=1; id=2; ID=3\r\n", { "a=1; ID=3" } },
  { "Cookie: id=1\r\nCookie: a=1\r\n", { "a=1" } },
}


describe("RemoveRequestCookie", function()
  after_each(h.cleanup)

  it("drops that pair, and the line with the last", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { RemoveRequestCookie: { name: id } } ]\n") }
    for i, row in ipairs(ROWS) do
      assert.equal(200, gateway:get("/", row[1]).status)
      assert.same(row[2], origin.requests[i]:values("cookie"))
    end
  end)
end)
