-- spec/filters/InjectBasicAuth_spec.lua - user and password for the upstream.
local h = require "spec.helper"

-- { user, password, credentials }
local ROWS = {
  { "Aladdin", "open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ==" }, { "a", "b", "YTpi" }, { "", "", "Og==" },
  { "user", "p:\195\169", "dXNlcjpwOsOp" },
}


describe("InjectBasicAuth", function()
  after_each(h.cleanup)

  it("replaces what the client sent", function()
    local origin, routes = h.origin(), { "routes:\n" }
    for i, row in ipairs(ROWS) do
      routes[#routes + 1] = ([[
  - id: r%d
    match: [ { Path: { path: /%d } } ]
    filters: [ { InjectBasicAuth: { username: "%s", password: "%s" } } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
]]):format(i, i, row[1], row[2], origin.port)
    end
    local gateway = h.gateway { routes = table.concat(routes) }
    for i, row in ipairs(ROWS) do
      gateway:get("/" .. i, "Authorization: Bearer mine\r\n")
      assert.same({ "Basic " .. row[3] }, origin.requests[i]:values("authorization"))
    end
  end)

  it("never shows the password", function()
    local gateway = h.gateway(h.origin().port)
    gateway:write_routes(h.route_to(1,
      "    filters: [ { InjectBasicAuth: { username: a, password: [ hunter2 ] } } ]\n"))
    local refused = gateway:control("reload")
    assert.equal(1, refused.code)
    assert.is_nil(refused.err:find("hunter2", 1, true), refused.err)
  end)
end)
