-- spec/filters/RequireQueryParameter_spec.lua - a parameter that must be there.
local h = require "spec.helper"

-- { what the client sends, refused }
local ROWS = {
  { "/", true },
  { "/?keys=1", true },
  { "/?key", false },
  { "/?a&k%65y=1", false },
}


describe("RequireQueryParameter", function()
  after_each(h.cleanup)

  it("refuses with 400 what lacks it, before anything goes upstream", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { RequireQueryParameter: { name: key } } ]\n") }
    local passed = 0
    for _, row in ipairs(ROWS) do
      local response = gateway:get(row[1])
      assert.equal(row[2] and 400 or 200, response.status, row[1])
      if row[2] then
        assert.equal("The query parameter key is missing.\n", response.body)
        assert.equal("text/plain; charset=utf-8", response:header("content-type"))
        assert.equal("nosniff", response:header("x-content-type-options"))
      else
        passed = passed + 1
      end
      assert.equal(passed, #origin.requests)
    end
  end)

  it("refuses with the status that it is given", function()
    local gateway = h.gateway { routes = h.route_to(h.origin().port,
      "    filters: [ { RequireQueryParameter: { name: key, reject_status_code: 403 } } ]\n") }
    assert.equal(403, gateway:get("/").status)
  end)
end)
