-- spec/filters/SetResponseCookie_spec.lua - a Set-Cookie line on the answer.
local h = require "spec.helper"


-- { options, Set-Cookie }
local ROWS = {
  { "{ name: id, value: abc }", "id=abc; Secure; HttpOnly; SameSite=Lax" },
  { "{ name: id, value: abc, domain: a.example, path: /x, max_age: 90500ms, same_site: STRICT }",
    "id=abc; Domain=a.example; Path=/x; Max-Age=90; Secure; HttpOnly; SameSite=Strict" },
  { "{ name: id, value: '', secure: false, http_only: false }", "id=; SameSite=Lax" },
  { "{ name: id, value: abc, same_site: none }", "id=abc; Secure; HttpOnly; SameSite=None" },
}

-- { options, part of the refusal }
local REFUSED = {
  { "{ name: id, value: 'a;b' }", "SetResponseCookie.value" }, { "{ name: id, value: a, path: \"/\\t\" }", ".path" },
  { "{ name: 'a b', value: a }", ".name" },
  { "{ name: id, value: a, same_site: maybe }", "accepted: Strict, Lax, None" },
  { "{ name: id, value: a, same_site: None, secure: false }", "same_site None needs secure: true" },
  { "{ name: id, value: a, max_age: 10 }", "the unit is missing" },
}


describe("SetResponseCookie", function()
  after_each(h.cleanup)

  it("adds a line and never replaces the upstream's", function()
    local origin = h.origin(h.answer(200, "x", { "Set-Cookie: id=origin" }))
    local routes = { "routes:\n" }
    for i, row in ipairs(ROWS) do
      routes[#routes + 1] = ([[
  - id: r%d
    match: [ { Path: { path: /%d } } ]
    filters: [ { SetResponseCookie: %s } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
]]):format(i, i, row[1], origin.port)
    end
    local gateway = h.gateway { routes = table.concat(routes) }
    for i, row in ipairs(ROWS) do
      assert.same({ "id=origin", row[2] }, gateway:get("/" .. i):values("set-cookie"))
    end
  end)

  it("is refused where a browser would not take it", function()
    local gateway = h.gateway(h.origin().port)
    for _, row in ipairs(REFUSED) do
      gateway:write_routes(h.route_to(1, ("    filters: [ { SetResponseCookie: %s } ]\n"):format(row[1])))
      local refused = gateway:control("reload")
      assert.equal(1, refused.code, row[1])
      assert.truthy(refused.err:find(row[2], 1, true), refused.err)
      assert.truthy(refused.err:find("routes.yaml:6:", 1, true), refused.err)
    end
  end)
end)
