-- spec/e2e/explain_spec.lua - `moongate explain`: the route of a request that nobody sent, and that traffic agrees.
local helper = require "spec.helper"

local ROUTES = [[
global_filters: [ AddCorrelationId ]
routes:
  - id: admin
    match:
      - PathPrefix: { prefix: /api }
      - or: [ { RequestHeader: { name: X-Admin, value: "yes" } }, { RemoteAddr: { source: 10.0.0.0/8 } } ]
      - not: { MatchPath: { regexp: "/api/public.*" } }
    filters: [ { ReturnResponse: { status: 200, body: admin } } ]
  - id: never
    match: []
    filters: [ { ReturnResponse: { status: 200, body: never } } ]
  - id: api
    match: [ { PathPrefix: { prefix: /api } }, { Host: { hosts: [ api.test ] } } ]
    filters: [ { SetResponseHeader: { name: x-a, value: b }, on_error: continue }, { StripPathPrefix: { parts: 1 } } ]
    upstream: { targets: [ { url: "http://127.0.0.1:1" }, { url: "http://127.0.0.1:2", weight: 3 } ] }
]]


describe("moongate explain", function()
  local folder

  before_each(function()
    folder = helper.folder()
    helper.write(folder .. "/routes.yaml", ROUTES)
  end)

  after_each(helper.cleanup)

  local function explain(...)
    return helper.moongate({ "explain", ... }, { cwd = folder })
  end

  it("says of every route before the one that matches what did not hold", function()
    local run = explain("GET", "http://api.test/api/users?a=1#there")
    assert.equal("", run.err)
    assert.equal(0, run.code)
    assert.equal([[
GET /api/users?a=1
  host    api.test
  path    /api/users
  client  127.0.0.1
routes of routes.yaml, first match wins
  no  admin
      yes path begins with /api
      no  any of
        no  header x-admin is ******
        no  client is in 10.0.0.0/8
      yes not
        no  path matches /api/public.*
  no  never
      no  never: a route without match
  yes api
      yes path begins with /api
      yes host is api.test
route api (routes.yaml:12)
filters, in this order; on the answer in reverse
  AddCorrelationId           request, response, global
  SetResponseHeader          response, on_error continue
  StripPathPrefix            request
targets
  http://127.0.0.1:1
  http://127.0.0.1:2, weight 3
  one of them by ROUND_ROBIN
]], run.out)
  end)

  it("reads headers and the client's address", function()
    assert.truthy(explain("GET", "/api", "-H", "X-Admin: yes").out:find("\nroute admin (routes.yaml:3)\n", 1, true))
    assert.truthy(explain("GET", "/api", "--client", "10.9.8.7").out:find("\nroute admin ", 1, true))
    assert.truthy(explain("GET", "/api", "-H", "host: api.test").out:find("\nroute api ", 1, true))
  end)

  it("believes forwarding headers of trusted proxies alone", function()
    local asked = { "GET", "/api", "-H", "X-Forwarded-For: 10.1.1.1" }
    assert.truthy(explain(unpack(asked)).out:find("\n  client  127.0.0.1\n", 1, true))
    helper.write(folder .. "/server.yaml", "limits: { trusted_proxies: [ 127.0.0.0/8 ] }\n")
    local run = explain(unpack(asked))
    assert.truthy(run.out:find("\n  client  10.1.1.1\n", 1, true), run.out)
    assert.truthy(run.out:find("\nroute admin ", 1, true))
  end)

  it("names the rule that refuses a request before any route", function()
    for target, rule in pairs {
      ["/a/../b"] = "400 (ambiguous_path)", ["/a%252e"] = "400 (ambiguous_path)", ["/a b"] = "400 (bad_request_line)",
    } do
      local run = explain("GET", target)
      assert.equal(1, run.code)
      assert.truthy(run.out:find("\nrefused before any route with " .. rule, 1, true), run.out)
    end
    local run = explain("POST", "/", "-H", "Content-Length: 1", "-H", "Transfer-Encoding: chunked")
    assert.truthy(run.out:find("refused before any route with 400 (length_and_chunked)", 1, true), run.out)
  end)

  it("exits with 1 where no route matches", function()
    local run = explain("GET", "/elsewhere")
    assert.equal(1, run.code)
    assert.truthy(run.out:find("no route: 404 (no_route)", 1, true), run.out)
  end)

  it("does not guess what a function would say", function()
    os.remove(folder .. "/routes.yaml")
    helper.write(folder .. "/routes.lua", [[
      local answer = { { ReturnResponse = { status = 200, body = "x" } } }
      return { routes = {
        { id = "beta", match = { { PathPrefix = { prefix = "/b" } }, function(req) return req:has("beta") end },
          filters = answer },
        { id = "rest", match = { { PathPrefix = { prefix = "/" } } }, filters = answer },
      } }]])
    local run = explain("GET", "/b")
    assert.truthy(run.out:find("  ?   beta\n      yes path begins with /b\n      ?   a function says so\n", 1, true),
      run.out)
    assert.truthy(run.out:find("\nroute, if none above it takes the request, rest (routes.lua)\n", 1, true), run.out)
    assert.truthy(explain("GET", "/c").out:find("\nroute rest ", 1, true)) -- the literal before it has decided
  end)

  it("says what was wrong with its arguments, and what with the configuration", function()
    for _, words in ipairs { {}, { "GET" }, { "GET", "/", "/" }, { "GET", "/", "-H", "x" }, { "GET", "ftp://x/" },
      { "GET", "/", "--client", "localhost" }, { "GET", "/", "--clent", "::1" } } do
      local run = explain(unpack(words))
      assert.equal(2, run.code)
      assert.truthy(run.err:find("^moongate explain: [^\n]+\n$"), run.err)
    end
    helper.write(folder .. "/routes.yaml", "routes: []\n")
    local run = explain("GET", "/")
    assert.equal(1, run.code)
    assert.truthy(run.err:find("^routes.yaml:1:9: routes: "), run.err)
  end)

  it("agrees with the gateway", function()
    local gateway = helper.gateway { routes = ROUTES }
    for _, asked in ipairs { { "/api/x", "X-Admin: yes\r\n", "admin" }, { "/api/public", "X-Admin: yes\r\n", nil } } do
      local run = explain("GET", asked[1], "-H", (asked[2]:gsub("\r\n", "")))
      local response = gateway:get(asked[1], asked[2])
      assert.equal(asked[3] and 200 or 404, response.status)
      assert.equal(asked[3], run.out:match("\nroute (%S+)"))
    end
  end)
end)
