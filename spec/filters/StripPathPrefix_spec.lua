-- spec/filters/StripPathPrefix_spec.lua - leading segments dropped on the way upstream.
local h = require "spec.helper"

-- { parts, target of the client, target upstream }
local ROWS = {
  { 1, "/api/users", "/users" },
  { 1, "/api/users?x=/a/b", "/users?x=/a/b" },
  { 2, "/api/v1/users/7", "/users/7" },
  { 1, "/api", "/" },
  { 3, "/api/v1", "/" },
  { 1, "/", "/" },
  { 1, "/api/", "/" },
  { 1, "/api/a%20b", "/a%20b" },
  { 1, "/api/a%3Fb", "/a%3Fb" },
  { 1, "/api/%41", "/A" },
  { 1, "/api/a%2Fb/c", "/a%2Fb/c" },
  { 1, "/a%2Fb/c", "/c" },
}


describe("StripPathPrefix", function()
  after_each(h.cleanup)

  it("drops segments of the decoded path and encodes the rest again", function()
    local gateways, origin = {}, h.origin()
    for _, row in ipairs(ROWS) do
      local parts, target, wanted = unpack(row)
      gateways[parts] = gateways[parts] or h.gateway { routes = h.route_to(origin.port,
        ("    filters: [ { StripPathPrefix: { parts: %d } } ]\n"):format(parts)) }
      assert.equal(200, gateways[parts]:get(target).status)
      assert.equal(wanted, origin.requests[#origin.requests].target, target)
    end
  end)
end)
