-- metrics_components_spec.lua - how limiters and breakers are: in /metrics, /health, /ready and /status.json.
local cjson = require "cjson"
local h = require "spec.helper"

local ROUTES = [[
global_filters:
  - RateLimiter: { capacity: 3, refill_tokens: 1, refill_period: 1h, max_buckets: 1 }
routes:
  - id: one
    match: [ { PathPrefix: { prefix: /one } } ]
    filters:
      - AddRequestHeader: { name: X-A, value: b }
      - CircuitBreaker: { failure_threshold: 2, cooldown_period: %s }
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ], retries: 0 }
]]


local function start(answer, cooldown)
  return h.gateway { routes = ROUTES:format(cooldown or "1h", h.origin(answer).port), workers = 2 }
end


-- The value of one sample, named as it stands in the text.
local function sample(gateway, name)
  local text = gateway:manage("/metrics").body
  for line in text:gmatch("[^\n]+") do
    if line:sub(1, #name + 1) == name .. " " then return tonumber(line:sub(#name + 2)) end
  end
end


-- Waits until a sample has that value: a page may be a tenth of a second old.
local function becomes(wanted, gateway, name)
  local value
  h.eventually(function()
    value = sample(gateway, name)
    return value == wanted
  end, 3, ("%s to be %s, not %s"):format(name, wanted, tostring(value)))
end


local function health(gateway, path)
  local response = gateway:manage(path or "/health")
  return response.status, cjson.decode(response.body)
end


local PLACE = 'component="%s",position="%d"'
local BREAKER = 'route="one",' .. PLACE:format("CircuitBreaker", 3)
local LIMITER = 'route="",' .. PLACE:format("RateLimiter", 1)


describe("limiters and breakers", function()
  after_each(h.cleanup)

  it("are well at first, each told once, with its place", function()
    local gateway = start()
    becomes(0, gateway, ("moongate_component_health{%s}"):format(BREAKER))
    becomes(0, gateway, ("moongate_component_health{%s}"):format(LIMITER))
    becomes(0, gateway, ('moongate_component_value{%s,name="tracked_clients"}'):format(LIMITER))
    local components = cjson.decode(gateway:manage("/status.json").body).components
    assert.equal(2, #components)
    assert.equal("", components[1].route)
    assert.equal(3, components[2].position)
    local status, body = health(gateway)
    assert.equal(200, status)
    assert.same({}, body.problems)
  end)

  it("say what they have counted, and a limiter that is full warns", function()
    local gateway = start()
    for _ = 1, 3 do assert.equal(200, gateway:get("/one").status) end
    for _ = 1, 2 do assert.equal(429, gateway:get("/one").status) end
    becomes(2, gateway, ('moongate_component_value{%s,name="rejected_requests"}'):format(LIMITER))
    becomes(1, gateway, ('moongate_component_value{%s,name="tracked_clients"}'):format(LIMITER))
    becomes(1, gateway, ("moongate_component_health{%s}"):format(LIMITER))
    local status, body = health(gateway, "/ready")
    assert.equal(200, status)
    assert.equal("WARN", body.health)
    assert.equal("RateLimiter", body.problems[1].component)
    assert.equal(1, body.problems[1].position)
    assert.truthy(body.problems[1].detail:find("1 clients are tracked"))
  end)

  it("an open breaker is an error that names its route, and closes again", function()
    local failing = true
    local gateway = start(function(stream) stream:send(h.answer(failing and 500 or 200, "x")) end, "300ms")
    gateway:get("/one")
    becomes(1, gateway, ('moongate_component_value{%s,name="consecutive_failures"}'):format(BREAKER))
    gateway:get("/one")
    becomes(2, gateway, ("moongate_component_health{%s}"):format(BREAKER))
    local status, body = health(gateway)
    assert.equal(200, status)
    assert.equal("ERROR", body.health)
    local open = body.problems[2] -- after the global limiter, which is full
    assert.same({ "one", "CircuitBreaker", 3, "ERROR" }, { open.route, open.component, open.position, open.health })
    assert.truthy(open.detail:find("^the circuit is open since %d%d:%d%d:%d%dZ$"))
    assert.equal(503, (health(gateway, "/ready")))
    failing = false
    h.sleep(0.4)
    assert.equal(200, gateway:get("/one").status)
    becomes(0, gateway, ("moongate_component_health{%s}"):format(BREAKER))
    h.eventually(function() return health(gateway, "/ready") == 200 end, 2, "readiness")
  end)

  it("stay what they are over a reload that does not change them", function()
    local gateway = start()
    for _ = 1, 5 do gateway:get("/one") end
    assert.equal(0, gateway:control("reload").code)
    becomes(2, gateway, ('moongate_component_value{%s,name="rejected_requests"}'):format(LIMITER))
  end)
end)
