-- spec/filters/RewritePath_spec.lua - what a regular expression finds in the path, replaced.
local h = require "spec.helper"


-- { regexp, replacement, target of the client, target upstream }
local ROWS = {
  { "^/api", "", "/api/users?x=/api", "/users?x=/api" },
  { "/v(\\d+)", "/version/$1", "/a/v12/b/v3", "/a/version/12/b/version/3" },
  { "^/(?<first>[^/]+)/(?<second>[^/]+)$", "/$${second}/$${first}", "/a/b", "/b/a" },
  { "x", "y", "/abc?x", "/abc?x" },
  { " ", "-", "/a%20b", "/a-b" },
  { "b", "%20", "/abc", "/a%2520c" },
  { "c", "\\$1", "/abc", "/ab$1" },
  { "^/a", "/b", "/a/%3Fx/%41", "/b/%3Fx/A" },
  { "^/a", "/b", "/a/x%2Fy", "/b/x%2Fy" },
  { "(z)?b", "<$1>", "/abc", "/a%3C%3Ec" },
}

-- { options, part of the refusal }
local REFUSED = {
  { "{ regexp: '(', replacement: x }", "RewritePath.regexp: found" },
  { "{ regexp: '(a)', replacement: $2 }", "the pattern has no group 2, it has 1" },
  { "{ regexp: '(a)', replacement: '$${b}' }", "the pattern has no group named b" },
  { "{ regexp: 'a', replacement: 'b$' }", "refers to no group" },
  { "{ regexp: '[a-z&&[b]]', replacement: b }", "(?=[a-z])" },
}


describe("RewritePath", function()
  after_each(h.cleanup)

  it("works on the decoded path and encodes the result", function()
    local origin, routes = h.origin(), { "routes:\n" }
    for i, row in ipairs(ROWS) do
      routes[#routes + 1] = ([[
  - id: r%d
    match: [ { RequestHeader: { name: X-Row, value: "%d" } } ]
    filters: [ { RewritePath: { regexp: '%s', replacement: '%s' } } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
]]):format(i, i, row[1], row[2], origin.port)
    end
    local gateway = h.gateway { routes = table.concat(routes) }
    for i, row in ipairs(ROWS) do
      assert.equal(200, gateway:get(row[3], ("X-Row: %d\r\n"):format(i)).status)
      assert.equal(row[4], origin.requests[i].target)
    end
  end)

  it("composes with StripPathPrefix and with itself, in their order", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port, [[
    filters:
      - RewritePath: { regexp: "^/old", replacement: "/new/api" }
      - StripPathPrefix: { parts: 1 }
      - RewritePath: { regexp: "api", replacement: "v1" }
]]) }
    gateway:get("/old/users")
    assert.equal("/v1/users", origin.requests[1].target)
  end)

  it("answers 400 where the result could be read in more than one way", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port,
      "    filters: [ { RewritePath: { regexp: '^/api', replacement: '/' } } ]\n") }
    for _, target in ipairs { "/api../secret", "/api..;x/secret", "/api.%2Fsecret" } do
      assert.equal(400, gateway:get(target).status, target)
    end
    assert.equal(0, #origin.requests)
  end)

  it("answers 500 and regex_budget where a path costs too much", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port, [[
    filters:
      - AddResponseHeader: { name: X-After, value: "1" }
      - RewritePath: { regexp: "(a+)+[bc]$", replacement: x }
]]) }
    local response = gateway:get("/" .. ("a"):rep(60))
    assert.equal(500, response.status)
    assert.truthy(response.body:find("regex_budget", 1, true), response.body)
    assert.equal("1", response:header("x-after"))
    assert.equal(200, gateway:get("/x").status)
  end)

  it("is refused with its place when it can never work", function()
    local gateway = h.gateway(h.origin().port)
    for _, row in ipairs(REFUSED) do
      gateway:write_routes(h.route_to(1, ("    filters: [ { RewritePath: %s } ]\n"):format(row[1])))
      local refused = gateway:control("reload")
      assert.equal(1, refused.code, row[1])
      assert.truthy(refused.err:find(row[2], 1, true), refused.err)
      assert.truthy(refused.err:find("routes.yaml:6:%d+: routes%[0%]%.filters%[0%]"), refused.err)
    end
  end)
end)
