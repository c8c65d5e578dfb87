-- spec/filters/RequireMatchCookie_spec.lua - a cookie whose every value must match.
local h = require "spec.helper"

-- { what the client sends, refused }
local ROWS = {
  { "", true },
  { "Cookie: key=ab\r\n", false },
  { "Cookie: a=1; key=ab1\r\n", true },
  { "Cookie: key=ab; key=cd\r\n", false },
  { "Cookie: key=ab\r\nCookie: key=1\r\n", true },
  { "Cookie: key=\"ab\"\r\n", true },
}


describe("RequireMatchCookie", function()
  after_each(h.cleanup)

  it("refuses what is not there or does not match as a whole, once for all its values", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { RequireMatchCookie: { name: key, regexp: 'ab|[a-z]+' } } ]\n") }
    for _, row in ipairs(ROWS) do
      local response = gateway:get("/", row[1])
      assert.equal(row[2] and 400 or 200, response.status, row[1])
    end
  end)

  it("answers 500 and regex_budget where a value costs too much, and goes on", function()
    local gateway = h.gateway { routes = h.route_to(h.origin().port, [[
    filters:
      - AddResponseHeader: { name: X-After, value: "1" }
      - RequireMatchCookie: { name: key, regexp: '(a+)+[bc]', reject_status_code: 403 }
]]) }
    local response = gateway:get("/", "Cookie: key=" .. ("a"):rep(60) .. "!\r\n")
    assert.equal(500, response.status)
    assert.truthy(response.body:find("regex_budget", 1, true), response.body)
    assert.equal("1", response:header("x-after"))
    assert.equal(403, gateway:get("/").status)
    assert.equal(200, gateway:get("/", "Cookie: key=aab\r\n").status)
  end)

  it("never shows its pattern when that is wrong", function()
    local gateway = h.gateway(h.origin().port)
    gateway:write_routes(h.route_to(1,
      "    filters: [ { RequireMatchCookie: { name: key, regexp: 'hunter2(' } } ]\n"))
    local refused = gateway:control("reload")
    assert.equal(1, refused.code)
    assert.truthy(refused.err:find("missing closing parenthesis", 1, true), refused.err)
    assert.truthy(refused.err:find("routes.yaml:6:", 1, true), refused.err)
    assert.is_nil(refused.err:find("hunter2", 1, true), refused.err)
  end)
end)
