-- spec/filters/RequireAuthorizationHeader_spec.lua - Authorization of a known kind.
local h = require "spec.helper"

-- { lines of the client, refused }
local ROWS = {
  { "", true }, { "Authorization: Bearer abc\r\n", false }, { "Authorization: Basic YTpi\r\n", false },
  { "Authorization: bearer abc\r\n", true }, { "Authorization: Digest x\r\n", true },
  { "Authorization: Bearer\r\n", true },
  { "Authorization: Digest x\r\nAuthorization: Basic YTpi\r\n", true },
}


describe("RequireAuthorizationHeader", function()
  after_each(h.cleanup)

  it("refuses with 401, without a challenge", function()
    local gateway = h.gateway { routes = h.route_to(h.origin().port, "    filters: [ RequireAuthorizationHeader ]\n") }
    for _, row in ipairs(ROWS) do
      local response = gateway:get("/", row[1])
      assert.equal(row[2] and 401 or 200, response.status, row[1])
      assert.is_nil(response:header("www-authenticate"))
    end
  end)
end)
