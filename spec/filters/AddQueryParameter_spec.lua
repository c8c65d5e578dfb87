-- spec/filters/AddQueryParameter_spec.lua - one more parameter at the end of the query.
local h = require "spec.helper"


-- { target of the client, target upstream }
local ROWS = {
  { "/", "/?tag=a%20b%26c" },
  { "/?", "/?tag=a%20b%26c" },
  { "/?tag=1&x=%7e", "/?tag=1&x=%7e&tag=a%20b%26c" },
}


describe("AddQueryParameter", function()
  after_each(h.cleanup)

  it("adds a parameter, encoded, and leaves the others as they are", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      '    filters: [ { AddQueryParameter: { name: tag, value: "a b&c" } } ]\n') }
    for i, row in ipairs(ROWS) do
      assert.equal(200, gateway:get(row[1]).status)
      assert.equal(row[2], origin.requests[i].target)
    end
  end)

  it("adds one for each time it is named", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ AddQueryParameter: { name: a, value: 1 }, AddQueryParameter: { name: a, value: 2 } ]\n") }
    gateway:get("/x?a=0")
    assert.equal("/x?a=0&a=1&a=2", origin.requests[1].target)
  end)
end)
