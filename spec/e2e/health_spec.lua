-- health_spec.lua - active health checks: a target that fails them is left alone until it is well again.
local h = require "spec.helper"
local json = require "cjson"


-- An origin whose checks answer what state.status says ("silence": nothing) and which counts what else it is asked.
local function checked_origin(state)
  return h.origin(function(stream, request)
    if request.target ~= "/health" then
      state.served = (state.served or 0) + 1
      return stream:send(h.answer(200, state.name))
    end
    state.checks = (state.checks or 0) + 1
    state.last_check = request
    if state.status == "silence" then return false end
    return stream:send(h.answer(state.status, ""))
  end)
end


local function two_targets(first, second, check)
  return ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    upstream:
      targets: [ { url: "http://127.0.0.1:%d" }, { url: "http://127.0.0.1:%d" } ]
      health_check: %s
]]):format(first, second, check)
end


local function health_of(gateway) return json.decode(gateway:manage("/health").body) end


-- Waits until /health says level.
local function wait_for_level(gateway, level)
  return h.eventually(function()
    local health = health_of(gateway)
    return health.health == level and health
  end, 10, "health to be " .. level)
end


local function names(gateway, count)
  local seen = {}
  for _ = 1, count do
    local response = gateway:get("/")
    local name = response.status == 200 and response.body or tostring(response.status)
    seen[name] = (seen[name] or 0) + 1
  end
  return seen
end


local QUICK = "{ interval: 100ms, rise: 2, fall: 2 }"


describe("active health checks", function()
  after_each(h.cleanup)

  it("take a target out and bring it back", function()
    local a, b = { name = "a", status = 200 }, { name = "b", status = 200 }
    local first, second = checked_origin(a), checked_origin(b)
    local gateway = h.gateway { routes = two_targets(first.port, second.port, QUICK), workers = 2 }
    h.eventually(function() return a.checks and b.checks end, 5, "the first checks")
    assert.equal("GET", a.last_check.method)
    assert.equal("127.0.0.1:" .. first.port, a.last_check:header("host"))
    a.status = 503
    local warned = wait_for_level(gateway, "WARN")
    assert.equal("all", warned.problems[1].route)
    assert.equal(("1 of 2 targets down: 127.0.0.1:%d was answered with status 503"):format(first.port),
      warned.problems[1].detail)
    assert.same({ b = 8 }, names(gateway, 8))
    assert.equal(200, gateway:manage("/ready").status)
    b.status = "silence"
    wait_for_level(gateway, "ERROR")
    assert.same({ ["503"] = 2 }, names(gateway, 2))
    assert.equal(503, gateway:manage("/ready").status)
    assert.equal(200, gateway:manage("/health").status)
    local metrics = gateway:manage("/metrics").body
    assert.truthy(metrics:find(("moongate_target_up{target=\"127.0.0.1:%d\"} 0\n"):format(first.port), 1, true))
    assert.truthy(metrics:find('moongate_component_health{route="all",component="upstream",position="0"} 2\n', 1, true))
    a.status, b.status = 200, 200
    wait_for_level(gateway, "OK")
    local seen = names(gateway, 10)
    assert.truthy(seen.a and seen.b)
  end)

  it("see a target that nobody listens for any more", function()
    local a, b = { name = "a", status = 200 }, { name = "b", status = 200 }
    local first, second = checked_origin(a), checked_origin(b)
    local gateway = h.gateway { routes = two_targets(first.port, second.port, QUICK) }
    first.close()
    local warned = wait_for_level(gateway, "WARN")
    assert.truthy(warned.problems[1].detail:find("connection refused", 1, true), warned.problems[1].detail)
    assert.same({ b = 4 }, names(gateway, 4))
  end)

  it("take nothing but 200 for well, and count to rise and fall", function()
    local a, b = { name = "a", status = 204 }, { name = "b", status = 200 }
    local first, second = checked_origin(a), checked_origin(b)
    local check = "{ interval: 150ms, rise: 3, fall: 3 }"
    local gateway = h.gateway { routes = two_targets(first.port, second.port, check) }
    h.eventually(function() return a.checks == 2 end, 5, "two checks")
    assert.equal("OK", health_of(gateway).health)
    wait_for_level(gateway, "WARN")
    assert.truthy(a.checks >= 3)
    a.status, a.checks = 200, 0
    wait_for_level(gateway, "OK")
    assert.truthy(a.checks >= 3, a.checks)
  end)

  it("ask nobody who is forced up or down", function()
    local a, b = { name = "a", status = 500 }, { name = "b", status = 200 }
    local first, second = checked_origin(a), checked_origin(b)
    local gateway = h.gateway {
      routes = two_targets(first.port, second.port, "{ interval: 50ms, fall: 1, override: FORCE_UP }"),
    }
    h.sleep(0.4)
    assert.is_nil(a.checks)
    assert.equal("OK", health_of(gateway).health)
    gateway:write_routes(two_targets(first.port, second.port, "{ interval: 50ms, fall: 1, override: FORCE_DOWN }"))
    assert.equal(0, gateway:control("reload").code)
    assert.truthy(wait_for_level(gateway, "ERROR").problems[1].detail:find("is set down", 1, true))
    assert.same({ ["503"] = 1 }, names(gateway, 1))
    assert.is_nil(b.checks)
  end)

  it("keep what they know across a reload, and let go of a target that is checked no more", function()
    local a, b = { name = "a", status = 500 }, { name = "b", status = 200 }
    local first, second = checked_origin(a), checked_origin(b)
    local gateway = h.gateway { routes = two_targets(first.port, second.port, QUICK) }
    wait_for_level(gateway, "WARN")
    gateway:write_routes("version: '2'\n" .. two_targets(first.port, second.port, QUICK))
    assert.equal(0, gateway:control("reload").code)
    assert.equal("WARN", health_of(gateway).health)
    assert.same({ b = 4 }, names(gateway, 4))
    local unchecked = two_targets(first.port, second.port, QUICK):gsub("      health_check: [^\n]*\n", "")
    gateway:write_routes(unchecked)
    assert.equal(0, gateway:control("reload").code)
    assert.equal("OK", health_of(gateway).health)
    assert.truthy(names(gateway, 8).a)
  end)
end)
