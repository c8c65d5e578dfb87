-- spec/filters/SetQueryParameter_spec.lua - one value for a parameter, whatever the client sent.
local h = require "spec.helper"


-- { target of the client, target upstream }
local ROWS = {
  { "/", "/?tag=new%3D" },
  { "/?tag=1&x=2&tag=3&%74ag", "/?tag=new%3D&x=2" },
  { "/?x=a+b&y", "/?x=a+b&y&tag=new%3D" },
  { "/?tags=1", "/?tags=1&tag=new%3D" },
}


describe("SetQueryParameter", function()
  after_each(h.cleanup)

  it("replaces every occurrence, however it is encoded", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { SetQueryParameter: { name: tag, value: 'new=' } } ]\n") }
    for i, row in ipairs(ROWS) do
      assert.equal(200, gateway:get(row[1]).status)
      assert.equal(row[2], origin.requests[i].target)
    end
  end)
end)
