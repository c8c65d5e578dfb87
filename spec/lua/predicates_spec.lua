-- predicates_spec.lua - what conditions become, how they are refused, how they are said in words.
local support = require "spec.lua.support"
local predicates = require "moongate.predicates"


local function route_with(match)
  return ("routes:\n  - id: a\n    upstream: { targets: { url: 'http://h' } }\n    match: %s\n"):format(match)
end


local function tree_of(match)
  local loaded, lines = support.routes(route_with(match))
  assert(loaded, lines and table.concat(lines, "\n"))
  return loaded.config.routes[1].match, loaded
end


local function leaf(predicate, kind, value, name)
  return { predicate = predicate, kind = kind, value = value, name = name }
end

-- A leaf of the list of those that C tests one by one, the first in it.
local function tested(predicate, test, value, name)
  return { predicate = predicate, kind = "opaque", test = test, value = value, name = name, index = 0 }
end

local PATH = leaf("Path", "path", "/x")

-- { match in YAML, tree, words }
local TREES = {
  { "[]", nil, "never" }, { "~", nil, "never" }, { "{}", nil, "never" },
  { "[ { Path: { path: /x } } ]", PATH, "path is /x" },
  { "{ Path: { path: /x } }", PATH, "path is /x" },
  { "[ { PathPrefix: { prefix: /a } } ]", leaf("PathPrefix", "prefix", "/a"), "path begins with /a" },
  { "[ { PathPrefix: { prefix: /a, segments: true } } ]", leaf("PathPrefix", "segments", "/a"), "path is under /a" },
  { "[ { Host: { hosts: A.Example } } ]", leaf("Host", "host", "a.example"), "host is a.example" },
  { "[ { Method: { include: [ GET, PUT ] } } ]",
    { op = "or", leaf("Method", "method", "GET"), leaf("Method", "method", "PUT") }, "method is GET or method is PUT" },
  { "[ { RequestHeader: { name: X-Key, value: v1 } } ]", leaf("RequestHeader", "header", "v1", "x-key"),
    "header x-key is ******" },
  { "[ { HasRequestHeader: { name: X-Key } } ]", leaf("HasRequestHeader", "has_header", nil, "x-key"),
    "header x-key is there" },
  { "[ { MatchPath: { regexp: '/a|/b' } } ]", tested("MatchPath", "path_matches", "/a|/b"), "path matches /a|/b" },
  { "[ { MatchRequestHeader: { name: X-Key, regexp: 'v[12]' } } ]",
    tested("MatchRequestHeader", "header_matches", "v[12]", "x-key"), "header x-key matches ******" },
  { "[ { QueryParameter: { name: Key, value: v1 } } ]", tested("QueryParameter", "query", "v1", "Key"),
    "parameter Key is ******" },
  { "[ { HasQueryParameter: { name: a b } } ]", tested("HasQueryParameter", "has_query", nil, "a b"),
    "parameter a b is there" },
  { "[ { MatchQueryParameter: { name: a, regexp: '%d' } } ]",
    tested("MatchQueryParameter", "query_matches", "%d", "a"), "parameter a matches ******" },
  { "[ { Cookie: { name: Key, value: v1 } } ]", tested("Cookie", "cookie", "v1", "Key"), "cookie Key is ******" },
  { "[ { HasCookie: { name: a } } ]", tested("HasCookie", "has_cookie", nil, "a"), "cookie a is there" },
  { "[ { MatchCookie: { name: a, regexp: b } } ]", tested("MatchCookie", "cookie_matches", "b", "a"),
    "cookie a matches ******" },
  { "[ { RemoteAddr: { source: 'fd00::/8' } } ]", tested("RemoteAddr", "client_in", "fd00::/8"),
    "client is in fd00::/8" },
  { "[ { Path: { path: /x } }, { Host: { hosts: [ h ] } } ]", { op = "and", PATH, leaf("Host", "host", "h") },
    "path is /x and host is h" },
  { "{ Path: { path: /x }, Host: { hosts: [ h ] } }", { op = "and", PATH, leaf("Host", "host", "h") },
    "path is /x and host is h" },
  { "[ { not: { Path: { path: /x } } } ]", { op = "not", PATH }, "not (path is /x)" },
  { "[ { not: [ { Path: { path: /x } } ] } ]", { op = "not", PATH }, "not (path is /x)" },
  { "[ { or: [ { Path: { path: /x } } ] } ]", PATH, "path is /x" },
  { "[ { and: [ { or: [ { Path: { path: /x } }, { Host: { hosts: h } } ] }, { Path: { path: /x } } ] } ]",
    { op = "and", { op = "or", PATH, leaf("Host", "host", "h") }, PATH }, "(path is /x or host is h) and path is /x" },
  { "[ { not: { Method: { include: [ GET, PUT ] } } } ]",
    { op = "not", { op = "or", leaf("Method", "method", "GET"), leaf("Method", "method", "PUT") } },
    "not (method is GET or method is PUT)" },
}

-- { match in YAML, words of the message }
local REFUSED = {
  { "[ { Path: { path: x } } ]", 'routes[0].match[0].Path.path: found "x", accepted: a path that begins with /' },
  { "[ { Path: {} } ]", "routes[0].match[0].Path.path: is required" },
  { "[ { Path: { pth: /x } } ]", "unknown option pth (did you mean path?)" },
  { "[ Path ]", "Path takes options: write Path: { ... }" },
  { "[ { Paht: { path: /x } } ]", "unknown predicate Paht (did you mean Path?); available: Cookie, HasCookie" },
  { "[ { ro: [ { Path: { path: /x } } ] } ]", "unknown predicate ro (did you mean or?)" },
  { "[ { MatchPath: { regexp: [ a, b ] } } ]", "MatchPath.regexp: found a list, accepted: a regular expression" },
  { "[ { MatchPath: { regexp: '[a-z&&[^b]]' } } ]", "accepted: a regular expression (PCRE2) (intersection of classes" },
  { "[ { MatchCookie: { name: a, regexp: '\\p{javaLowerCase}' } } ]", "\\p{javaLowerCase} is Java's; write \\p{Ll})" },
  { "[ { QueryParameter: { name: '', value: a } } ]", "QueryParameter.name: found \"\", accepted: text of at least 1" },
  { "[ { Cookie: { name: 'a b', value: c } } ]", 'Cookie.name: found "a b", accepted: a name of letters' },
  { "[ { RemoteAddr: { source: 10.0.0.0/33 } } ]",
    'RemoteAddr.source: found "10.0.0.0/33", accepted: an address or a network' },
  { "[ { Host: { hosts: [] } } ]", "found a list, accepted: a list of at least 1 items" },
  { "[ { Host: { hosts: 'h:80' } } ]", 'found "h:80", accepted: a host name without port' },
  { "[ { Host: { hosts: 'a.*.b' } } ]", "accepted: a host name without port" },
  { "[ { Method: { include: get } } ]", 'found "get", which no client sends (did you mean GET?)' },
  { "[ { Method: { include: 'GE T' } } ]", 'found "GE T", accepted: a method such as GET' },
  { "[ { RequestHeader: { name: 'a b', value: c } } ]", 'found "a b", accepted: a name of letters' },
  { "[ { RequestHeader: { name: a } } ]", "RequestHeader.value: is required" },
  { "[ { not: [ { Path: { path: /x } }, { Path: { path: /y } } ] } ]", "not takes one condition, found 2" },
  { "[ { and: [] } ]", "routes[0].match[0].and: and needs at least one condition" },
  { "[ { or: ~ } ]", "or needs at least one condition" },
  { "[ {} ]", "found an empty map, accepted: a condition" },
  { "5", 'found "5", accepted: a condition' },
}


describe("predicates", function()
  for _, row in ipairs(TREES) do
    it("compile " .. row[1], function()
      local match = tree_of(row[1])
      assert.same(row[2], match)
      assert.equal(row[3], predicates.words(match))
    end)
  end

  for _, row in ipairs(REFUSED) do
    it("refuse " .. row[1], function()
      local lines = support.faults(route_with(row[1]))
      assert.truthy(lines:find(row[2], 1, true), lines)
      assert.truthy(lines:find("^routes.yaml:4:%d+: routes%[0%].match"), lines)
    end)
  end

  it("number those that C tests one by one, in file order", function()
    local match, loaded = tree_of("[ { HasCookie: { name: a } }, { not: { HasCookie: { name: b } } } ]")
    assert.equal(0, match[1].index)
    assert.equal(1, match[2][1].index)
    assert.same({ match[1], match[2][1] }, loaded.config.opaques)
  end)

  it("never show the value that a header is compared with in a fault", function()
    local lines = support.faults(route_with("[ { RequestHeader: { name: a, value: [ hunter2 ] } } ]"))
    assert.is_nil(lines:find("hunter2", 1, true))
  end)

  it("warn where a literal looks like a pattern, quoting only that part", function()
    local rows = {
      { "[ { Path: { path: '/api/.*' } } ]", '".*"' }, { "[ { Path: { path: '/users/{id}' } } ]", '"{id}"' },
      { "[ { PathPrefix: { prefix: '/a*' } } ]", '"*"' }, { "[ { Path: { path: '/a/\\d+' } } ]", '"\\d"' },
      { "[ { RequestHeader: { name: a, value: '^v1' } } ]", '"^"' },
      { "[ { RequestHeader: { name: a, value: '(a|b)' } } ]", '"(a|b)"' },
      { "[ { QueryParameter: { name: a, value: 'v[12]' } } ]", '"[12]"' },
      { "[ { Cookie: { name: a, value: 'x{2}' } } ]", '"{2}"' },
    }
    for _, row in ipairs(rows) do
      local _, loaded = tree_of(row[1])
      assert.equal(1, #loaded.warnings, row[1])
      assert.truthy(loaded.warnings[1]:find(row[2] .. " looks like a pattern", 1, true), loaded.warnings[1])
      assert.truthy(loaded.warnings[1]:find("^routes.yaml:4:%d+: routes%[0%].match%[0%]"), loaded.warnings[1])
    end
  end)

  it("do not warn about ordinary literals", function()
    for _, match in ipairs { "[ { Path: { path: /a.b/c-d_e~f } } ]",
      "[ { Host: { hosts: [ '*.example.com', '[::1]' ] } } ]",
      "[ { RequestHeader: { name: a, value: 'x=1; y=$2 (z)' } } ]" } do
      local _, loaded = tree_of(match)
      assert.same({}, loaded.warnings)
    end
  end)
end)


describe("a condition", function()
  local function tree(text)
    local options = support.options({ ["routes.yaml"] = ("routes:\n  - id: a\n    match: %s\n" ..
      "    upstream: { targets: [ { url: 'http://a' } ] }\n"):format(text) })
    return require("moongate.conf").load_routes("routes.yaml", options).config.routes[1].match
  end

  it("covers another where that is plain, and only there", function()
    local prefix, under = "{ PathPrefix: { prefix: %s } }", "{ PathPrefix: { prefix: %s, segments: true } }"
    local path, get = "{ Path: { path: %s } }", "{ Method: { include: GET } }"
    local host = "{ Host: { hosts: [ a.b, c.d ] } }"
    for _, case in ipairs {
      { prefix:format "/a", prefix:format "/a", true }, { prefix:format "/a", path:format "/ab", true },
      { prefix:format "/a", under:format "/a/b", true }, { prefix:format "/ab", prefix:format "/a", false },
      { under:format "/a", under:format "/a", true }, { under:format "/a", path:format "/a", true },
      { under:format "/a", path:format "/ab", false }, { under:format "/a", prefix:format "/a", false },
      { under:format "/a", prefix:format "/a/", true }, { path:format "/a", prefix:format "/a", false },
      { prefix:format "/", prefix:format "/b" .. ", " .. get, true },
      { prefix:format "/" .. ", " .. get, prefix:format "/b", false },
      { prefix:format "/" .. ", " .. get, get .. ", " .. prefix:format "/b", true },
      { host, "{ Host: { hosts: c.d } }", true }, { "{ Host: { hosts: c.d } }", host, false },
      { "{ MatchPath: { regexp: a } }", "{ MatchPath: { regexp: a } }", false },
      { "{ HasRequestHeader: { name: a } }", "{ RequestHeader: { name: a, value: b } }", true },
      { "{ RequestHeader: { name: a, value: b } }", "{ RequestHeader: { name: a, value: c } }", false },
      { "{ not: { Path: { path: /x } } }", path:format "/y", false },
    } do
      assert.equal(case[3], predicates.covers(tree("[ " .. case[1] .. " ]"), tree("[ " .. case[2] .. " ]")),
        case[1] .. " over " .. case[2])
    end
    assert.is_false(predicates.covers(nil, tree("[ " .. get .. " ]")))
  end)
end)
