-- conf_spec.lua - whole routes files: the canonical configuration, and every way to be refused.
local support = require "spec.lua.support"

local TENANT = [[
local tenant = { api = 1 }
tenant.schema = { allow = { type = "array", items = "string", required = true },
  wait = { type = "duration", default = "10s" } }
function tenant.request(req) end
return tenant
]]

local FILES = { ["filters/tenant.lua"] = TENANT }

local HEAD = "routes:\n  - id: a\n    match: [ { Path: { path: / } } ]\n"


-- The upstream of a route whose keys are given, or the faults.
local function upstream_of(text)
  local loaded, lines = support.routes(HEAD .. "    upstream: " .. text .. "\n")
  return loaded and loaded.config.routes[1].upstream, lines and table.concat(lines, "\n")
end


local function load(text, files, variables, name)
  local loaded, lines = support.routes(text, files or FILES, variables, name)
  return assert(loaded, lines and table.concat(lines, "\n")).config, loaded
end


describe("a routes file", function()
  it("becomes the canonical configuration, defaults filled in", function()
    local config = load(HEAD .. [[
    filters:
      - tenant: { allow: acme }
        on_error: continue
        id: first
    upstream: { targets: [ { url: "http://H.example:81/v1/" } ] }
]])
    assert.same({
      id = "a", path = "routes[0]", line = 2, column = 5,
      match = { predicate = "Path", kind = "path", value = "/" },
      filters = { { name = "tenant", id = "first", on_error = "continue", conf = { allow = { "acme" }, wait = 10000 },
        path = "routes[0].filters[0]", line = 5, column = 9 } },
      upstream = {
        strategy = "ROUND_ROBIN", host = "client", retries = 1, slow_start = 0,
        timeouts = { connect = 5000, read = 30000 },
        targets = { { url = "http://H.example:81/v1/", key = "h.example:81", authority = "h.example:81",
          path_prefix = "/v1", weight = 1 } },
      },
      journal = { request = { level = "NONE", overrides = {} }, response = { level = "NONE", overrides = {} } },
    }, config.routes[1])
    assert.same({ tenant = "filters/tenant.lua" }, config.filter_files)
    assert.equal("routes.yaml", config.file)
  end)

  it("means the same by an empty passive_health as by none", function() -- PASSIVE in lua/upstreams.lua
    local upstream = upstream_of('{ targets: { url: "http://a" }, passive_health: {} }')
    assert.same({ failures = 5, within = 10000, down_for = 5000 }, upstream.passive_health)
  end)

  it("may name a filter without options, and global filters", function()
    local config = load("global_filters: plain\nversion: 7\n" .. HEAD .. "    filters: [ plain, { plain: ~ } ]\n",
      { ["filters/plain.lua"] = "return { api = 1, log = function() end }" })
    assert.same({ {}, {}, {} }, { config.routes[1].filters[1].conf, config.routes[1].filters[2].conf,
      config.global_filters[1].conf })
    assert.equal("global_filters", config.global_filters[1].path)
    assert.equal("7", config.version)
  end)

  it("keeps journal levels with statuses as ranges", function()
    local config = load(HEAD .. "    filters: [ { tenant: { allow: x } } ]\n    journal:\n"
      .. "      response: { level: FULL, status_overrides: { 2XX: NONE, '401,403': HEADERS } }\n"
      .. "unrouted: { journal: { request: { level: METADATA } } }\n")
    assert.same({ level = "FULL", overrides = { { first = 200, last = 299, level = "NONE" },
      { first = 401, last = 401, level = "HEADERS" }, { first = 403, last = 403, level = "HEADERS" } } },
      config.routes[1].journal.response)
    assert.equal("METADATA", config.unrouted.journal.request.level)
  end)

  it("takes targets in every form", function()
    local rows = {
      ["http://h"] = { "h:80", "h", "" }, ["HTTP://H:80"] = { "h:80", "h", "" },
      ["http://[::1]"] = { "[::1]:80", "[::1]", "" },
      ["http://127.0.0.1:9/a/b"] = { "127.0.0.1:9", "127.0.0.1:9", "/a/b" },
      ["unix:/run/x.sock"] = { "unix:/run/x.sock", "localhost", "" },
    }
    for url, expected in pairs(rows) do
      local target = assert(upstream_of(("{ targets: [ { url: '%s', weight: 2 } ] }"):format(url))).targets[1]
      assert.same(expected, { target.key, target.authority, target.path_prefix }, url)
      assert.equal(2, target.weight)
    end
  end)

  it("refuses targets that mean nothing", function()
    local rows = {
      ["https://h"] = "https:// targets are not supported yet", ["ftp://h"] = "no target address",
      ["h:80"] = "no target address", ["http://"] = "not a host name", ["http://h:0"] = "port",
      ["http://h:99999"] = "port", ["http://h:x"] = "port",
      ["http://u:p@h"] = "no user", ["http://h/?q"] = "no query", ["http://h/a b"] = "encoded",
      ["http://a..b"] = "not a host name", ["unix:x.sock"] = "absolute", ["http://[::1"] = "not a host name",
    }
    for url, words in pairs(rows) do
      local upstream, lines = upstream_of(("{ targets: [ { url: '%s' } ] }"):format(url))
      assert.is_nil(upstream, url)
      assert.truthy(lines:find(words, 1, true), lines)
      assert.truthy(lines:find("routes.yaml:4:35: routes[0].upstream.targets[0].url", 1, true), lines)
    end
  end)

  it("replaces variables, the file's structure stays", function()
    local config = load(HEAD .. "    upstream: { targets: [ { url: 'http://${H}:${P:81}' } ], retries: '${R}' }\n", nil,
      { H = "x", R = "3" })
    assert.equal("x:81", config.routes[1].upstream.targets[1].key)
    assert.equal(3, config.routes[1].upstream.retries)
  end)

  it("gives filters with the same options options of their own", function()
    local filters = "filters: [ { SetStatus: { status: 201 } } ], upstream: { targets: [ { url: 'http://a' } ] }"
    local loaded = assert(support.routes(("routes: [ { id: a, match: [], %s }, { id: b, match: [], %s } ]\n"):format(
      filters, filters)))
    local first, second = loaded.config.routes[1].filters[1].conf, loaded.config.routes[2].filters[1].conf
    assert.same(first, second)
    assert.are_not.equal(first, second)
  end)

  it("may have no upstream where a filter can answer", function()
    assert.is_nil(load(HEAD .. "    upstream: ~\n    filters: [ { tenant: { allow: x } } ]\n").routes[1].upstream)
  end)
end)


local TO = "    upstream: { targets: { url: 'http://h' } }\n"

-- { what, file, words of the one message }
local REFUSED = {
  { "nothing but a list", "- a\n", "routes.yaml:1:1: found a list, accepted: a map with global_filters" },
  { "a file without routes",
    "version: 1\n", "routes.yaml:1:1: routes: is required; accepted: a list of at least one" },
  { "an empty list of routes", "routes: []\n",
    "routes.yaml:1:9: routes: found a list, accepted: a list of at least one" },
  { "an unknown key",
    HEAD .. TO .. "    jurnal: {}\n",
    "routes.yaml:5:5: routes[0]: unknown option jurnal (did you mean journal?)" },
  { "a route without id", "routes: [ { match: [] , upstream: { targets: { url: 'http://h' } } } ]\n",
    "routes[0].id: is required" },
  { "the reserved id", "routes:\n  - id: <unrouted>\n    match: []\n" .. TO, "<unrouted> is reserved" },
  { "an id outside of ISO-8859-1", "routes:\n  - id: \"\\u4e16\"\n    match: []\n" .. TO, "outside ISO-8859-1" },
  { "an id twice", HEAD .. TO .. HEAD:gsub("routes:\n", "") .. TO,
    "routes.yaml:5:5: routes[1].id: route id a is used twice, first in line 2" },
  { "a route without match and filters", "routes:\n  - id: a\n" .. TO,
    "routes.yaml:2:5: routes[0]: route a has neither match nor filters" },
  { "a route that cannot answer", HEAD, "route a has neither an upstream nor a filter that could answer" },
  { "an upstream without targets", HEAD .. "    upstream: {}\n", "routes[0].upstream.targets: is required" },
  { "no target in the list", HEAD .. "    upstream: { targets: [] }\n", "a list of at least one target" },
  { "a strategy that there is not", HEAD .. "    upstream: { strategy: ROUND_ROBBIN, targets: { url: 'http://h' } }\n",
    "(did you mean ROUND_ROBIN?)" },
  { "hashing without a key", HEAD .. "    upstream: { strategy: CONSISTENT_HASH, targets: { url: 'http://h' } }\n",
    "hash_on: is required with strategy CONSISTENT_HASH" },
  { "a key without hashing", HEAD .. "    upstream: { hash_on: { header: x }, targets: { url: 'http://h' } }\n",
    "hash_on: has no effect" },
  { "two keys to hash on", HEAD .. "    upstream: { strategy: CONSISTENT_HASH, hash_on: { header: x, cookie: y }, "
    .. "targets: { url: 'http://h' } }\n", "exactly one of" },
  { "a timeout of nothing", HEAD .. "    upstream: { timeouts: { read: 0ms }, targets: { url: 'http://h' } }\n",
    'routes[0].upstream.timeouts.read: found "0ms"' },
  { "a fallback to nowhere", HEAD .. "    upstream: { targets: { url: 'http://h' }, fallback: { route_id: aa } }\n",
    "no route has the id aa (did you mean a?)" },
  { "a fallback to itself", HEAD .. "    upstream: { targets: { url: 'http://h' }, fallback: { route_id: a } }\n",
    "route a falls back to itself" },
  { "an override that raises to FULL",
    HEAD .. TO .. "    journal: { response: { status_overrides: { 5xx: FULL } } }\n",
    "raises this direction from NONE to FULL" },
  { "an override that lowers a FULL request", HEAD .. TO
    .. "    journal: { request: { level: FULL, status_overrides: { 5xx: NONE } } }\n",
    "lowers a FULL request to NONE" },
  { "a status that is none", HEAD .. TO .. "    journal: { request: { status_overrides: { 6xx: NONE } } }\n",
    "found the key 6xx, accepted: a class such as 5xx" },
  { "FULL without a route", HEAD .. TO .. "unrouted: { journal: { request: { level: FULL } } }\n",
    "unrouted.journal.request.level: found FULL" },
  { "unrouted without journal", HEAD .. TO .. "unrouted: {}\n", "unrouted.journal: is required" },
  { "an unknown filter", HEAD .. TO .. "    filters: [ tennant ]\n", "routes[0].filters[0]: unknown filter tennant" },
  { "an option that a filter does not have", HEAD .. "    filters: [ { tenant: { alow: x, allow: x } } ]\n",
    "routes.yaml:4:28: routes[0].filters[0].tenant: unknown option alow (did you mean allow?)" },
  { "a missing option of a filter", HEAD .. "    filters: [ tenant ]\n",
    "routes.yaml:4:16: routes[0].filters[0].tenant.allow: is required" },
  { "two filters in one item", HEAD .. "    filters: [ { tenant: { allow: x }, other: {} } ]\n",
    "other stands beside filter tenant" },
  { "a misspelt sibling", HEAD .. "    filters: [ { tenant: { allow: x }, on_eror: fail } ]\n",
    "(did you mean on_error?)" },
  { "no filter's name in an item", HEAD .. "    filters: [ { id: x } ]\n", "accepted: a filter's name or a map" },
  { "a filter with a path for a name", HEAD .. "    filters: [ ../evil ]\n", "../evil is not a name of a filter" },
  { "a variable that is not set", HEAD .. "    upstream: { targets: { url: '${NOPE}' } }\n",
    "routes.yaml:4:33: routes[0].upstream.targets.url: environment variable NOPE is not set" },
}


describe("a routes file with", function()
  for _, row in ipairs(REFUSED) do
    it(row[1] .. " is refused by place and name", function()
      local lines = support.faults(row[2], FILES)
      assert.truthy(lines:find(row[3], 1, true), lines)
      assert.is_nil(lines:find("\n", 1, true), lines)
    end)
  end

  it("a circle of fallbacks is refused once, with the circle", function()
    local route = "  - id: %s\n    match: []\n"
      .. "    upstream: { targets: { url: 'http://h' }, fallback: { route_id: %s } }\n"
    local routes = route:format("a", "b") .. route:format("b", "c") .. route:format("c", "b")
    local lines = support.faults("routes:\n" .. routes)
    local expected = "routes[1].upstream.fallback.route_id: fallbacks go round in a circle: b -> c -> b"
    assert.truthy(lines:find(expected, 1, true), lines)
    assert.is_nil(lines:find("\n", 1, true), lines)
  end)

  it("a broken filter on many routes names it once", function()
    local text = HEAD .. "    filters: [ bad ]\n  - id: b\n    filters: [ bad ]\n"
    local lines = support.faults(text, { ["filters/bad.lua"] = "return {\n" })
    assert.equal("routes.yaml:4:16: routes[0].filters[0]: filters/bad.lua:2: unexpected symbol near '<eof>'", lines)
  end)

  it("many faults names them all, in the order of the file", function()
    local lines = support.faults("routes:\n  - id: a\n    mtach: []\n    upstream: { targets: { url: 'ftp://h' } }\n"
      .. "  - match: [ { Pth: { path: / } } ]\n")
    local places = {}
    for place in (lines .. "\n"):gmatch("routes.yaml:(%d+:%d+): ") do places[#places + 1] = place end
    assert.same({ "2:5", "3:5", "4:33", "5:5", "5:16" }, places)
  end)

  it("a word where a list of maps belongs is told so", function()
    assert.truthy(support.faults("routes: 7\n"):find('found "7", accepted: a list', 1, true))
  end)

  it("YAML that cannot be parsed says where", function()
    assert.truthy(support.faults("routes: [\n  - }"):find("^routes.yaml:%d+:%d+: not valid YAML: "))
  end)

  it("the name of a built-in filter on a file beside it is refused", function()
    local options = support.options({ ["routes.yaml"] = HEAD .. TO, ["filters/SetStatus.lua"] = "return { api = 1 }" })
    options.is_built_in = function(name) return name == "SetStatus" end
    local loaded, lines = require("moongate.conf").load_routes("routes.yaml", options)
    assert.is_nil(loaded)
    assert.truthy(lines[1]:find("filters/SetStatus.lua has the name of a built-in filter", 1, true), lines[1])
  end)

  it("no file at all is refused by name", function()
    local loaded, lines = require("moongate.conf").load_routes("none.yaml", support.options({}))
    assert.is_nil(loaded)
    assert.same({ "none.yaml: cannot be read: No such file or directory" }, lines)
  end)
end)


describe("a Lua routes file", function()
  local SCRIPT = [[
local routes = {}
for i = 1, 2 do
  routes[i] = {
    id = "r" .. i,
    match = { { Path = { path = "/" .. i } }, function(req) return req:has("x") end },
    filters = { { tenant = { allow = "a" } }, function(req) req:set_header("x", tostring(i)) end },
    upstream = { targets = { { url = "http://${H:h}" } }, timeouts = { read = "1s" } },
    journal = { response = { level = "HEADERS", status_overrides = { [404] = "NONE" } } },
  }
end
return { routes = routes }
]]

  it("gives the same configuration as YAML, functions by number", function()
    local config, loaded = load(SCRIPT, nil, nil, "routes.lua")
    assert.equal("routes.lua", config.script)
    assert.same({ op = "and", { predicate = "Path", kind = "path", value = "/2" },
      { predicate = "<function>", kind = "opaque", index = 1, ["function"] = 4 } }, config.routes[2].match)
    assert.same(config.routes[2].match[2], config.opaques[2])
    assert.same({ "routes", 1, "filters", 2 }, config.functions[1])
    assert.equal(3, config.routes[2].filters[2]["function"])
    assert.equal("h:80", config.routes[1].upstream.targets[1].key)
    assert.same({ { first = 404, last = 404, level = "NONE" } }, config.routes[1].journal.response.overrides)
    local functions = assert(loaded.loader:route_functions(config))
    assert.equal(4, #functions)
    local seen
    functions[3]({ set_header = function(_, name, value) seen = name .. value end })
    assert.equal("x2", seen)
    assert.equal(functions[1], loaded.loader:module(config.routes[1].filters[2]).request)
  end)

  it("is refused by path, without lines", function()
    local text = "return { routes = { { id = 'a', filters = { { tenant = {} } }, upstrem = 1 } } }"
    assert.equal("routes.lua: routes[0].filters[0].tenant.allow: is required; accepted: a list\n"
      .. "routes.lua: routes[0]: unknown option upstrem (did you mean upstream?); known options: filters, id, journal, "
      .. "match, upstream", support.faults(text, FILES, nil, "routes.lua"))
  end)

  it("runs in the sandbox, may require a file beside it, and fails with file and line", function()
    local files = { ["./parts.lua"] = "return { id = 'p', match = {}, upstream = { targets = { url = 'http://h' } } }" }
    local config = load("return { routes = { require('parts') } }", files, nil, "routes.lua")
    assert.equal("p", config.routes[1].id)
    local rows = {
      { "local x\nreturn x.y", "routes.lua:2: attempt to index local 'x' (a nil value)" },
      { "return {", "routes.lua:1: unexpected symbol near '<eof>'" },
      { "return io.open('/etc/passwd')", "routes.lua:1: attempt to index global 'io' (a nil value)" },
      { "return 5", "returns a number, accepted: the table of the routes" },
      { "", "returns a nil, accepted: the table of the routes" },
      { "error({})", "raised a table instead of a message" },
      { "return { routes = { coroutine.create(print) } }", "holds a thread at routes.1" },
    }
    for _, row in ipairs(rows) do
      local lines = support.faults(row[1], {}, nil, "routes.lua")
      assert.truthy(lines:find(row[2], 1, true), lines)
    end
  end)
end)
