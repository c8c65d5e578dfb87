-- spec/filters/RequireCookie_spec.lua - a cookie that must be there.
local h = require "spec.helper"

-- { what the client sends, refused }
local ROWS = {
  { "", true },
  { "Cookie: KEY=1\r\n", true },
  { "Cookie: key\r\n", true },
  { "Cookie: a=1; key=\r\n", false },
}


describe("RequireCookie", function()
  after_each(h.cleanup)

  it("refuses with 400 what lacks it, before anything goes upstream", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { RequireCookie: { name: key } } ]\n") }
    local passed = 0
    for _, row in ipairs(ROWS) do
      local response = gateway:get("/", row[1])
      assert.equal(row[2] and 400 or 200, response.status, row[1])
      if row[2] then
        assert.equal("The cookie key is missing.\n", response.body)
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
      "    filters: [ { RequireCookie: { name: key, reject_status_code: 403 } } ]\n") }
    assert.equal(403, gateway:get("/").status)
  end)
end)
