-- check_spec.lua - the route table as a person reads it, from real files. The command itself is in spec/e2e.
local support = require "spec.lua.support"
local check = require "moongate.check"
local conf = require "moongate.conf"

local ROUTES = [[
version: "2024-05"
global_filters: [ audit ]
routes:
  - id: api
    match: [ { PathPrefix: { prefix: /api } }, { Host: { hosts: [ a.example, b.example ] } } ]
    filters: [ { audit: {}, id: second, on_error: continue }, audit ]
    upstream:
      strategy: LEAST_REQUESTS
      targets: [ { url: "http://a" }, { url: "http://b:81", weight: 3 } ]
      timeouts: { read: 1500ms }
      fallback: { route_id: rest }
  - id: rest
    filters: [ audit ]
]]


local function described(server, workers)
  local options = support.options({
    ["routes.yaml"] = ROUTES, ["server.yaml"] = server,
    ["filters/audit.lua"] = "return { api = 1, log = function() end }",
  })
  local loaded = assert(conf.load_routes("routes.yaml", options))
  local settings = assert(conf.load_server(server and "server.yaml", options))
  return check.describe(loaded.config, settings, workers)
end


describe("the route table", function()
  it("names routes, conditions, filters, targets and limits", function()
    local text = described()
    assert.equal([[
routes of routes.yaml, first match wins, version 2024-05
  global filters, before each route's: audit
  api
    match    path begins with /api and (host is a.example or host is b.example)
    filters  audit (id second, on_error continue), audit
    targets  http://a, http://b:81 (weight 3)
    limits   LEAST_REQUESTS, connect 5s, read 1500ms, retries 1, fallback rest
  rest
    match    never
    filters  audit
    targets  none
limits
]], text:match("^(.-\nlimits\n)"))
    assert.truthy(text:find("\n  limits.max_entity_size +none\n"), text)
  end)

  it("shows what is recorded, and a route that another keeps everything from", function()
    local options = support.options({ ["routes.yaml"] = [[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: /a } } ]
    journal:
      request: { level: METADATA }
      response: { level: METADATA, status_overrides: { 5xx: HEADERS, 404: NONE } }
    upstream: { targets: [ { url: "http://a" } ] }
  - id: hidden
    match: [ { PathPrefix: { prefix: /abc } }, { Method: { include: GET } } ]
    upstream: { targets: [ { url: "http://a" } ] }
  - id: seen
    match: [ { PathPrefix: { prefix: / } } ]
    upstream: { targets: [ { url: "http://a" } ] }
]] })
    local loaded = assert(conf.load_routes("routes.yaml", options))
    local settings = assert(conf.load_server(nil, options))
    local text = check.describe(loaded.config, settings)
    assert.truthy(text:find("\n    journal  request METADATA, response METADATA (", 1, true), text)
    assert.truthy(text:find("5xx HEADERS", 1, true) and text:find("404 NONE", 1, true), text)
    local shadowed = "method is GET\n             never comes to it: route all takes all of that before\n"
    assert.truthy(text:find(shadowed, 1, true), text)
    assert.equal(1, select(2, text:gsub("never comes to it", "")))
  end)

  it("prints the share of each worker", function()
    local text = described("server: { max_connections: 1001 }\n", 4)
    assert.truthy(text:find("\n  server.max_connections +1001 %(251 in each of 4 workers%)\n"), text)
    assert.truthy(text:find("\n  limits.max_header_count +100\n"), text)
    assert.is_nil(described("server: { max_connections: 1001 }\n", 1):find("in each of", 1, true))
  end)
end)
