-- spec/e2e/predicates_spec.lua - every predicate, decided by a running gateway. Each row is a route of its own that
-- answers with its number; a request says by X-Row which route it is about.
local h = require "spec.helper"

-- { match, { what the client sends, holds }, ... }; what it sends: { target, header lines } or a target
local ROWS = {
  { "MatchPath: { regexp: '/items/\\d+' }", { "/items/12", true }, { "/items/", false }, { "/items/12/x", false },
    { "/items/%31", true }, { "/items/12?x", true } },
  { "MatchPath: { regexp: '(?i)/a.b' }", { "/A%20B", true }, { "/a%C3%A9b", true }, { "/a%FFb", false } },
  { "PathPrefix: { prefix: /api }", { "/api", true }, { "/apix", true }, { "/ap", false } },
  { "PathPrefix: { prefix: /api, segments: true }", { "/api", true }, { "/api/x", true }, { "/apix", false } },
  { "MatchRequestHeader: { name: X-A, regexp: 'v[12]' }", { { "/", "x-a: v1\r\n" }, true },
    { { "/", "X-A: v12\r\n" }, false }, { "/", false }, { { "/", "X-A: v1\r\nX-A: v2\r\n" }, true },
    { { "/", "X-A: v1\r\nX-A: w\r\n" }, false }, { { "/", "X-A: v1, v2\r\n" }, false } },
  { "RequestHeader: { name: X-A, value: one }", { { "/", "X-A: one\r\nx-a: one\r\n" }, true },
    { { "/", "X-A: one\r\nX-A: two\r\n" }, false } },
  { "HasRequestHeader: { name: X-A }", { { "/", "x-a:\r\n" }, true }, { "/", false } },
  { "QueryParameter: { name: 'a b', value: '1&2' }", { "/?a+b=1%262", true }, { "/?a%20b=1&2", false },
    { "/?a%20b=1%262&a+b=3", false }, { "/", false } },
  { "HasQueryParameter: { name: debug }", { "/?debug", true }, { "/?debug=", true }, { "/?Debug", false },
    { "/?x=debug", false } },
  { "MatchQueryParameter: { name: n, regexp: '\\d+' }", { "/?n=1&n=22", true }, { "/?n=1&n=x", false },
    { "/?n", false } },
  { "Cookie: { name: id, value: abc }", { { "/", "Cookie: x=1; id=abc\r\n" }, true },
    { { "/", "Cookie: id=abc\r\nCookie: id=abd\r\n" }, false }, { "/", false } },
  { "HasCookie: { name: id }", { { "/", "Cookie: id=\r\n" }, true }, { { "/", "Cookie: ids=1\r\n" }, false } },
  { "MatchCookie: { name: id, regexp: '[a-c]+' }", { { "/", "Cookie: id=abc\r\n" }, true },
    { { "/", "Cookie: id=abcd\r\n" }, false } },
  { "RemoteAddr: { source: 127.0.0.0/8 }", { "/", true } },
  { "RemoteAddr: { source: 127.0.0.1 }", { "/", true } },
  { "RemoteAddr: { source: '::/0' }", { "/", true } },
  { "RemoteAddr: { source: 10.0.0.0/8 }", { "/", false } },
  { "not: { HasCookie: { name: id } }", { "/", true }, { { "/", "Cookie: id=1\r\n" }, false } },
  { "or: [ HasQueryParameter: { name: a }, HasQueryParameter: { name: b } ]", { "/?a", true }, { "/?b", true },
    { "/?c", false } },
  { "and: [ HasQueryParameter: { name: a }, not: { MatchQueryParameter: { name: a, regexp: 'x.*' } } ]",
    { "/?a=y", true }, { "/?a=xy", false }, { "/", false } },
}


local function routes_of(rows)
  local routes = { "routes:\n" }
  for i, row in ipairs(rows) do
    routes[#routes + 1] = ([[
  - id: r%d
    match:
      - RequestHeader: { name: X-Row, value: "%d" }
      - %s
    filters: [ { ReturnResponse: { status: 200, body: "r%d" } } ]
]]):format(i, i, row[1], i)
  end
  return table.concat(routes)
end


local function host_status(gateway, host)
  return (gateway:raw(("GET / HTTP/1.1\r\nHost: %s\r\n\r\n"):format(host))).status
end


describe("predicates", function()
  after_each(h.cleanup)

  it("hold and fail as they say", function()
    local gateway = h.gateway { routes = routes_of(ROWS) }
    local client = gateway:connect()
    for i, row in ipairs(ROWS) do
      for j = 2, #row do
        local sent, holds = row[j][1], row[j][2]
        local target, lines = sent, ""
        if type(sent) == "table" then target, lines = sent[1], sent[2] end
        local response = client:get(target, ("X-Row: %d\r\n"):format(i) .. lines)
        assert.equal(holds and 200 or 404, response.status, row[1] .. " with " .. target .. " " .. lines)
        if holds then assert.equal("r" .. i, response.body) end
      end
    end
  end)

  it("take the client's address from a trusted proxy", function()
    local gateway = h.gateway { routes = routes_of { { "RemoteAddr: { source: '10.0.0.0/8' }" } },
      server = "limits: { trusted_proxies: 127.0.0.1 }\n" }
    local client = gateway:connect()
    assert.equal(200, client:get("/", "X-Row: 1\r\nX-Forwarded-For: 10.1.2.3\r\n").status)
    assert.equal(404, client:get("/", "X-Row: 1\r\nX-Forwarded-For: 11.1.2.3\r\n").status)
    assert.equal(404, client:get("/", "X-Row: 1\r\n").status)
  end)

  it("know hosts by name, by wildcard and as IPv6 literals, whatever the port", function()
    local gateway = h.gateway { routes = [[
routes:
  - id: hosts
    match: [ { Host: { hosts: [ Example.com, "*.example.org", "[::1]" ] } } ]
    filters: [ { ReturnResponse: { status: 200, body: x } } ]
]] }
    for _, host in ipairs { "example.com", "EXAMPLE.COM:8080", "a.example.org", "a.b.Example.org:1", "[::1]",
      "[::1]:80" } do
      assert.equal(200, host_status(gateway, host), host)
    end
    for _, host in ipairs { "www.example.com", "example.org", "xexample.org", "[::2]", "example.com.evil" } do
      assert.equal(404, host_status(gateway, host), host)
    end
  end)

  it("answer 500 and regex_budget where an expression costs too much, and serve on", function()
    local gateway = h.gateway { routes = [[
routes:
  - id: first
    match: [ { MatchPath: { regexp: '/(a+)+[bc]' } } ]
    filters: [ { ReturnResponse: { status: 200, body: first } } ]
  - id: second
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: second } } ]
]] }
    local client = gateway:connect()
    local response = client:get("/" .. ("a"):rep(60) .. "!")
    assert.equal(500, response.status)
    assert.truthy(response.body:find("regex_budget", 1, true), response.body)
    assert.equal("first", client:get("/aab").body)
    assert.equal("second", client:get("/").body)
  end)

  it("refuse an expression that does not compile, with its place", function()
    local gateway = h.gateway(h.origin().port)
    for _, row in ipairs { { "MatchPath: { regexp: 'a(b' }", "missing closing parenthesis at character 4" },
      { "MatchCookie: { name: a, regexp: '*' }", "quantifier does not follow a repeatable item" } } do
      gateway:write_routes(routes_of { row })
      local refused = gateway:control("reload")
      assert.equal(1, refused.code)
      assert.truthy(refused.err:find(row[2], 1, true), refused.err)
      assert.truthy(refused.err:find("routes.yaml:5:%d+: routes%[0%]%.match%[1%]"), refused.err)
    end
    assert.equal("hello\n", gateway:get("/").body)
  end)

  it("stand beside functions of a Lua file", function()
    local gateway = h.gateway { routes_name = "routes.lua", routes = [[
return { routes = { {
  id = "a",
  match = {
    { HasQueryParameter = { name = "a" } },
    function(req) return req:query("a") == "1" end,
    { ["not"] = { MatchQueryParameter = { name = "b", regexp = "x+" } } },
  },
  filters = { { ReturnResponse = { status = 200, body = "a" } } },
} } }
]] }
    for target, status in pairs { ["/?a=1"] = 200, ["/?a=2"] = 404, ["/"] = 404, ["/?a=1&b=xx"] = 404,
      ["/?a=1&b=y"] = 200 } do
      assert.equal(status, gateway:get(target).status, target)
    end
  end)
end)
