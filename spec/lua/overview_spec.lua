-- overview_spec.lua - a configuration as the dashboard gets it: in words, and without what could be a secret.
local support = require "spec.lua.support"
local overview = require "moongate.overview"

local TENANT = [[
return { api = 1, version = "1", request = function() end, schema = {
  header = { type = "string", default = "x-tenant" },
  allow = { type = "array", items = "string", default = {} },
  credentials = { type = "map", default = {}, secret = true },
  password = { type = "string", default = "" },
  limits = { type = "object", keys = { burst = { type = "integer" }, token = { type = "string" } } },
} }
]]


local function describe_routes(text)
  local loaded = assert(support.routes(text, { ["filters/tenant.lua"] = TENANT }))
  local function schema_of(filter) return loaded.loader:module(filter).schema end
  return overview.describe(loaded.config, schema_of), loaded.config
end


local function options_of(filter)
  local texts = {}
  for _, option in ipairs(filter.options) do texts[option.name] = option.text end
  return texts
end


describe("an overview", function()
  it("has routes in file order with their match, targets and limits", function()
    local got = describe_routes [[
version: v3
routes:
  - id: a
    match: [ { Method: { include: [ GET, PUT ] } }, { not: { Host: { hosts: h } } } ]
    upstream:
      strategy: LEAST_REQUESTS
      targets: [ { url: "http://one:81/v1", weight: 3 }, { url: "unix:/run/x" } ]
      health_check: { interval: 2s }
      fallback: { route_id: b }
    journal: { request: { level: HEADERS } }
  - id: b
    match: [ { PathPrefix: { prefix: / } } ]
    upstream: { targets: { url: "http://two" } }
]]
    assert.equal("v3", got.version)
    assert.equal("a", got.routes[1].id)
    assert.equal("b", got.routes[2].id)
    assert.equal("(method is GET or method is PUT) and not (host is h)", got.routes[1].match)
    local upstream = got.routes[1].upstream
    assert.same({ url = "http://one:81/v1", key = "one:81", weight = 3 }, upstream.targets[1])
    assert.equal("LEAST_REQUESTS", upstream.strategy)
    assert.equal("b", upstream.fallback)
    assert.same({ path = "/health", interval = 2000, override = "NONE" }, upstream.health_check)
    assert.is_nil(got.routes[2].upstream.health_check)
    assert.same({ request = "HEADERS", response = "NONE" }, got.routes[1].journal)
  end)

  it("masks what a header is set to, whatever is called a secret, and what is named like one", function()
    local got = describe_routes [[
global_filters: [ AddResponseHeader: { name: X-A, value: swordfish } ]
routes:
  - id: a
    match: [ { RequestHeader: { name: X-Key, value: swordfish } } ]
    filters:
      - tenant:
          allow: [ acme, initech ]
          credentials: { me: swordfish }
          password: swordfish
          limits: { burst: 5, token: swordfish }
    upstream: { targets: { url: "http://a" } }
]]
    assert.same({ name = "X-A", value = "******" }, options_of(got.global_filters[1]))
    assert.same({
      header = "x-tenant", allow = "acme, initech", credentials = "******", password = "******",
      limits = "burst: 5, token: ******",
    }, options_of(got.routes[1].filters[1]))
    assert.is_nil(require("moongate.bundle").encode_config(got):find("swordfish", 1, true))
  end)

  it("shows no option of a filter whose schema is not known", function()
    local _, config = describe_routes [[
routes:
  - id: a
    match: [ { Path: { path: / } } ]
    filters: [ tenant: { header: x-other } ]
    upstream: { targets: { url: "http://a" } }
]]
    local options = options_of(overview.describe(config).routes[1].filters[1])
    for name, text in pairs(options) do assert.equal("******", text, name) end
    assert.truthy(options.header)
  end)

  it("cuts long options between characters", function()
    local got = describe_routes(([[
routes:
  - id: a
    match: [ { Path: { path: / } } ]
    filters: [ tenant: { header: "%s" } ]
    upstream: { targets: { url: "http://a" } }
]]):format(("é"):rep(100) .. "x"))
    assert.equal(("é"):rep(60) .. "...", options_of(got.routes[1].filters[1]).header)
  end)
end)
