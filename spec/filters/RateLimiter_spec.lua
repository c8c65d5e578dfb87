-- spec/filters/RateLimiter_spec.lua - tokens by client, counted once for all workers, kept across reloads and deaths.
local h = require "spec.helper"


local function routes(options, more)
  return ([[
global_filters: [ %s ]
routes:
  - id: limited
    match: [ { PathPrefix: { prefix: /limited } } ]
    filters: [ { RateLimiter: { %s } }, { ReturnResponse: { status: 200, body: ok } } ]
  - id: free
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: free } } ]
]]):format(more or "", options)
end


local function gateway(options, more, server)
  return h.gateway { routes = routes(options, more), workers = 2, server = server }
end


-- How many of count requests passed, each on a connection of its own, so that both workers see some.
local function passed(gw, count, headers, path)
  local good = 0
  for _ = 1, count do
    if gw:get(path or "/limited", headers).status == 200 then good = good + 1 end
  end
  return good
end


local SLOW = "capacity: 5, refill_tokens: 1, refill_period: 1h"
local TRUST = "limits: { trusted_proxies: [ 127.0.0.1 ] }\n"

describe("RateLimiter", function()
  after_each(h.cleanup)

  it("gives the capacity once, whichever worker is asked, and says what is left", function()
    local gw = gateway(SLOW)
    for left = 4, 0, -1 do
      local answer = gw:get("/limited")
      assert.equal(200, answer.status)
      assert.equal("5", answer:header("x-ratelimit-limit"))
      assert.equal(tostring(left), answer:header("x-ratelimit-remaining"))
    end
    local refused = gw:get("/limited")
    assert.equal(429, refused.status)
    assert.equal("5", refused:header("x-ratelimit-limit"))
    assert.equal("0", refused:header("x-ratelimit-remaining"))
    assert.truthy(refused:header("content-type"):find("text/plain", 1, true))
    local wait = tonumber(refused:header("retry-after"))
    assert.is_true(wait > 3500 and wait <= 3600, tostring(wait))
    local free = gw:get("/")
    assert.equal(200, free.status)
    assert.is_nil(free:header("x-ratelimit-limit"))
  end)

  it("says floor of the wait plus one, and gives a token then", function()
    local gw = gateway("capacity: 1, refill_tokens: 1, refill_period: 700ms")
    assert.equal(1, passed(gw, 1))
    local refused = gw:get("/limited")
    assert.equal(429, refused.status)
    assert.equal("1", refused:header("retry-after"))
    h.sleep(0.75)
    assert.equal(1, passed(gw, 2))
  end)

  it("is exact under load on both workers", function()
    local gw = gateway("capacity: 500, refill_tokens: 1, refill_period: 1h")
    local result = h.load(gw:url("/limited"), 2).finish()
    assert.is_true(result.requests > 1000, result.text)
    assert.equal(500, result.requests - result.bad)
    assert.equal(0, result.errors)
  end)

  it("keeps its count across a reload that does not change it, and a worker's death", function()
    local gw = gateway(SLOW)
    assert.equal(3, passed(gw, 3))
    gw:write_routes(routes(SLOW) .. "  - id: more\n    filters: [ { ReturnResponse: { status: 204, body: x } } ]\n")
    assert.equal(0, gw:control("reload").code)
    assert.equal(1, passed(gw, 1))
    local pid = gw:workers()[1]
    gw:kill_worker(pid)
    h.eventually(function() return #gw:workers() == 2 and gw:workers()[1] ~= pid and gw:workers()[2] ~= pid end, 10)
    h.eventually(function() return gw:get("/") end, 5)
    assert.equal(1, passed(gw, 4))
    gw:write_routes(routes("capacity: 6, refill_tokens: 1, refill_period: 1h"))
    assert.equal(0, gw:control("reload").code)
    assert.equal(6, passed(gw, 8)) -- other settings, another bucket
  end)

  it("counts a global one once for all routes, and two of one route each for itself", function()
    local gw = gateway("capacity: 3, refill_tokens: 1, refill_period: 1h", "{ RateLimiter: { " .. SLOW .. " } }")
    assert.equal(3, passed(gw, 4))
    assert.equal(1, passed(gw, 3, nil, "/"))
  end)

  it("tells IPv6 clients apart by their prefix and IPv4 ones whole", function()
    local gw = gateway("capacity: 1, refill_tokens: 1, refill_period: 1h, ipv6_prefix_length: 62", nil, TRUST)
    local function from(address) return passed(gw, 1, ("X-Forwarded-For: %s\r\n"):format(address)) end
    assert.equal(1, from("2001:db8:0:4::1"))
    assert.equal(0, from("2001:db8:0:7:ffff::2"))
    assert.equal(1, from("2001:db8:0:8::1"))
    assert.equal(1, from("192.0.2.1"))
    assert.equal(1, from("192.0.2.2"))
    assert.equal(0, from("192.0.2.1"))
  end)

  it("takes its key from a header, a cookie or a parameter; without one, from the address", function()
    local by = ", capacity: 1, refill_tokens: 1, refill_period: 1h"
    local gw = gateway("key: { header: X-User }" .. by)
    assert.equal(1, passed(gw, 2, "X-User: a\r\n"))
    assert.equal(1, passed(gw, 2, "x-user: b\r\n"))
    assert.equal(1, passed(gw, 2))
    gw:write_routes(routes("key: { cookie: session }" .. by))
    assert.equal(0, gw:control("reload").code)
    assert.equal(1, passed(gw, 2, "Cookie: x=1; session=a\r\n"))
    assert.equal(1, passed(gw, 2, "Cookie: session=b\r\n"))
    gw:write_routes(routes("key: { query: user }" .. by))
    assert.equal(0, gw:control("reload").code)
    assert.equal(1, passed(gw, 2, nil, "/limited?user=a%62"))
    assert.equal(0, passed(gw, 1, nil, "/limited?x=1&user=ab"))
    assert.equal(1, passed(gw, 1, nil, "/limited?user=c"))
  end)

  it("goes by rate_limit_key where a filter before has set it, or by an attribute it is told", function()
    local set = "local f = { api = 1 }\nfunction f.request(req)\n"
      .. "  if req:header('x-key') then req:set_attribute('%s', req:header('x-key')) end\nend\nreturn f\n"
    for attribute, key in pairs { rate_limit_key = "header: X-User", plan = "attribute: plan" } do
      local gw = h.gateway {
        routes = routes(("key: { %s }, capacity: 1, refill_tokens: 1, refill_period: 1h"):format(key), "set"),
        workers = 2, filters = { set = set:format(attribute) },
      }
      assert.equal(1, passed(gw, 2, "X-Key: a\r\n"))
      assert.equal(1, passed(gw, 2, "X-Key: b\r\n"))
      assert.equal(1, passed(gw, 2))
    end
  end)

  it("refuses what cannot be counted, with its place", function()
    for options, why in pairs {
      ["capacity: 5, refill_tokens: 2000001, refill_period: 2ms"] = "once in a nanosecond",
      ["capacity: 100000000000000, refill_tokens: 1, refill_period: 10d"] = "some years",
      ["capacity: 0, refill_tokens: 1, refill_period: 1s"] = "capacity",
      ["capacity: 5, refill_tokens: 1, refill_period: 1s, key: { header: a, cookie: b }"] = "only one of",
      ["capacity: 5, refill_tokens: 1, refill_period: 1s, ipv6_prefix_length: 129"] = "from 1 to 128",
      ["capacity: 5, refill_tokens: 1"] = "refill_period",
    } do
      local folder = h.folder()
      h.write(folder .. "/routes.yaml", routes(options))
      local checked = h.moongate { "check", "--routes", folder .. "/routes.yaml" }
      assert.equal(1, checked.code, options)
      assert.truthy(checked.err:find(why, 1, true), checked.err)
      assert.truthy(checked.err:find("routes.yaml:5:", 1, true), checked.err)
    end
  end)
end)


describe("moongate.limiter and moongate.breaker", function()
  after_each(h.cleanup)

  local function check(init)
    local folder = h.folder()
    h.make_folder(folder .. "/filters")
    h.write(folder .. "/filters/mine.lua", ("local f = { api = 1 }\nfunction f.init()\n  local made = %s\n" ..
      "  return made\nend\nfunction f.request() end\nreturn f\n"):format(init))
    h.write(folder .. "/routes.yaml", h.route_to(1, "    filters: [ mine ]\n"))
    return h.moongate { "check", "--routes", folder .. "/routes.yaml" }
  end

  it("need few numbers, and say of a wrong one which line has it", function()
    for _, init in ipairs { "moongate.limiter { capacity = 3 }", "moongate.breaker {}",
      "moongate.limiter { capacity = 3, period = 50, ipv6_prefix = 48 }", "moongate.breaker { cooldown = 0 }" } do
      local result = check(init)
      assert.equal(0, result.code, init .. result.err)
    end
    for init, why in pairs {
      ["moongate.limiter {}"] = "moongate.limiter: capacity must be a number above 0",
      ["moongate.limiter()"] = "moongate.limiter: takes a table of options",
      ["moongate.limiter { capacity = 0 }"] = "capacity must be a number above 0",
      ["moongate.limiter { capacity = 1, refill_tokens = 0 }"] = "refill_tokens must be a number above 0",
      ["moongate.limiter { capacity = 1, perod = 5 }"] = "unknown option perod (did you mean period?)",
      ["moongate.limiter { capacity = 1/0 }"] = "capacity must be a number above 0",
      ["moongate.breaker { failures = '3' }"] = "failures must be a number above 0",
    } do
      local result = check(init)
      assert.equal(1, result.code, init)
      assert.truthy(result.err:find(why, 1, true), result.err)
      assert.truthy(result.err:find("filters/mine.lua:3:", 1, true), result.err)
    end
  end)

  it("count a second's worth by default", function()
    local source = [[
      local f = { api = 1 }
      function f.init() return moongate.limiter { capacity = 2 } end
      function f.request(req, _, limiter)
        if limiter:take(req) > 0 then return req:respond(429) end
      end
      return f]]
    local to_origin = h.route_to(h.origin().port, "    filters: [ mine ]\n")
    local gw = h.gateway { routes = to_origin, filters = { mine = source } }
    local codes = {}
    for i = 1, 4 do codes[i] = gw:get("/").status end
    assert.same({ 200, 200, 429 }, { codes[1], codes[2], codes[3] })
    h.sleep(1.1)
    assert.equal(200, gw:get("/").status)
  end)
end)
