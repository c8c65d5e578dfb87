-- spec/filters/TemplateRedirect_spec.lua - redirects that only the template can lead astray.
local h = require "spec.helper"

-- { source, target, target of the client, location }; location 400: refused, false: no match, goes upstream
local ROWS = {
  { "^/old/(.*)$", "/new/$1", "/old/a/b", "/new/a/b" },
  { "^/old", "/new", "/old/a?x=1", "/new/a" },
  { "^/old", "/new", "/older", "/newer" },
  { "old", "new", "/x/old/y", "/x/new/y" },
  { "^/none$", "/new", "/old", false },
  { "^/(?<year>\\d+)/(?<name>.*)$", "/posts/$${name}?year=$${year}", "/2024/a%20b", "/posts/a%20b?year=2024" },
  { "^/q/(.*)$", "/find?q=$1&all=1", "/q/a&b=c+d;e", "/find?q=a%26b%3Dc%2Bd%3Be&all=1" },
  { "^/q/(.*)$", "/find#$1", "/q/a=b", "/find#a%3Db" },
  { "^/p/(.*)$", "/x/$1", "/p/a&b=c;d", "/x/a&b=c;d" },
  { "^/p/(.*)$", "/x/$1", "/p/%3F%23", "/x/%3F%23" },
  { "^/p/(.*)$", "/x/$1", "/p/a%2Fb", "/x/a%2Fb" },
  { "^/cost$", "/5\\$", "/cost", "/5$" },
  { "^/a$", "/b c", "/a", "/b%20c" },
  { "^/go/(.*)$", "https://new.example/$1", "/go/a", "https://new.example/a" },
  { "^/go", "https://new.example", "/go/a", "https://new.example/a" },
  { "^/go", "https://new.example", "/go.evil.example", 400 },
  { "^/go", "https://new.example:81", "/go80", 400 },
  { "/go", "//new.example/", "/x/go", "//new.example/x/" },
  { "^/(.*)$", "$1", "/https:%2F%2Fevil.example", 400 },
  { "^/r(.*)$", "$1", "/r//evil.example", 400 },
  { "^/r(.*)$", "/$1", "/r/evil.example", 400 },
  { "^/r(.*)$", "$1", "/rhttp:evil", 400 },
  { "^/r(.*)$", "$1", "/r/fine", "/fine" },
}

-- { options, part of the refusal }
local REFUSED = {
  { "{ source: a, target: 'ftp://h/' }", "begins with http://, https:// or //" },
  { "{ source: a, target: 'javascript:x' }", "begins with http://" },
  { "{ source: a, target: 'http:h' }", "begins with" },
  { "{ source: a, target: 'https:///x' }", "a host" }, { "{ source: a, target: '//' }", "a host" },
  { "{ source: '(a)', target: 'https://$1/' }", "a host" },
  { "{ source: '(a)', target: 'https://h$1/' }", "a group in the host" },
  { "{ source: '(a)', target: 'https://u@h/' }", "a host" }, { "{ source: a, target: ' /x' }", "blanks" },
  { "{ source: a, target: /x, status: 200 }", "from 300 to 399" }, { "{ source: a, target: /$1 }", "no group 1" },
  { "{ source: '[', target: /x }", "TemplateRedirect.source" },
}


describe("TemplateRedirect", function()
  after_each(h.cleanup)

  it("makes a location of what it finds, and stays on the template's site", function()
    local origin, routes = h.origin(), { "routes:\n" }
    for i, row in ipairs(ROWS) do
      routes[#routes + 1] = ([[
  - id: r%d
    match: [ { RequestHeader: { name: X-Row, value: "%d" } } ]
    filters: [ { TemplateRedirect: { source: '%s', target: '%s' } } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
]]):format(i, i, row[1], row[2], origin.port)
    end
    local gateway = h.gateway { routes = table.concat(routes) }
    for i, row in ipairs(ROWS) do
      local response, wanted = gateway:get(row[3], ("X-Row: %d\r\n"):format(i)), row[4]
      assert.equal(wanted == 400 and 400 or wanted and 302 or 200, response.status, row[3] .. " to " .. row[2])
      assert.equal(type(wanted) == "string" and wanted or nil, response:header("location"))
    end
    assert.equal(1, #origin.requests)
  end)

  it("has the status that it is given", function()
    local gateway = h.gateway { routes = h.route_to(h.origin().port,
      "    filters: [ { TemplateRedirect: { source: '^/a$', target: /b, status: 308 } } ]\n") }
    assert.equal(308, gateway:get("/a").status)
  end)

  it("is refused where it could lead anywhere", function()
    local gateway = h.gateway(h.origin().port)
    for _, row in ipairs(REFUSED) do
      gateway:write_routes(h.route_to(1, ("    filters: [ { TemplateRedirect: %s } ]\n"):format(row[1])))
      local refused = gateway:control("reload")
      assert.equal(1, refused.code, row[1])
      assert.truthy(refused.err:find(row[2], 1, true), refused.err)
      assert.truthy(refused.err:find("routes.yaml:6:", 1, true), refused.err)
    end
  end)
end)
