-- spec/filters/RemoveQueryParameter_spec.lua - a parameter that does not go upstream.
local h = require "spec.helper"


-- { target of the client, target upstream }
local ROWS = {
  { "/", "/" },
  { "/?tag=1", "/" },
  { "/?tag", "/" },
  { "/?x=1&tag=1&y=2&t%61g=3", "/?x=1&y=2" },
  { "/?tags=1", "/?tags=1" },
}


describe("RemoveQueryParameter", function()
  after_each(h.cleanup)

  it("removes every occurrence, and the question mark with the last", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { RemoveQueryParameter: { name: tag } } ]\n") }
    for i, row in ipairs(ROWS) do
      assert.equal(200, gateway:get(row[1]).status)
      assert.equal(row[2], origin.requests[i].target)
    end
  end)
end)
