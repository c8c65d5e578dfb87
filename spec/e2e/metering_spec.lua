-- spec/e2e/metering_spec.lua - what `status` tells of each filter of each route: calls, errors, kills, busy time.
local cjson = require "cjson"
local h = require "spec.helper"

local SOURCES = {
  quick = [[
local f = { api = 1 }
function f.request(req) req:set_header("x-quick", "1") end
function f.response(res) res:set_header("x-quick", "1") end
return f
]],
  busy = [[
local f = { api = 1 }
function f.request(req)
  local until_then = os.clock() + 0.02
  while os.clock() < until_then do end
end
return f
]],
  waits = [[
local f = { api = 1 }
function f.request(req) moongate.sleep(0.1) end
return f
]],
  asks = [[
local f = { api = 1, needs = { http = { "all" } } }
function f.request() error("the answer was " .. moongate.http("all", { path = "/" }).status) end
return f
]],
  fails = [[
local f = { api = 1 }
function f.request(req)
  if req:path():find("error", 1, true) then error("on purpose") end
  if req:path():find("loop", 1, true) then while true do end end
  if req:path():find("answer", 1, true) then return req:respond(200, "x") end
end
return f
]],
}


-- route/filter -> what was counted, once the workers' clocks have been read after it.
local function filters_of(gateway)
  h.sleep(1.2)
  local status = cjson.decode(gateway:control("status", "--json").out)
  local by_name = {}
  for _, filter in ipairs(status.filters) do by_name[filter.route .. "/" .. filter.filter] = filter end
  return by_name, status
end


describe("the meters of filters", function()
  after_each(h.cleanup)

  local function start(filters)
    local origin = h.origin()
    return h.gateway { routes = h.route_to(origin.port, "    filters: " .. filters .. "\n"), filters = SOURCES,
      server = "scripts: { max_call_time: 200ms }\n" }
  end

  it("are told in the order of routes and filters", function()
    local routes, origin = { "routes:" }, h.origin()
    for i = 1, 9 do
      local id = tostring(i * 7 % 10)
      routes[#routes + 1] = ("  - id: r%s\n    match: [ { Path: { path: /%s } } ]"):format(id, id)
      routes[#routes + 1] = "    filters: [ waits, quick, busy ]"
      routes[#routes + 1] = ("    upstream: { targets: [ { url: 'http://127.0.0.1:%d' } ] }"):format(origin.port)
    end
    local gateway = h.gateway { routes = table.concat(routes, "\n") .. "\n", filters = SOURCES }
    for i = 9, 1, -1 do assert.equal(200, gateway:get("/" .. i).status) end
    local list, expected = select(2, filters_of(gateway)).filters, {}
    for i = 1, 9 do
      for _, filter in ipairs { "busy", "quick", "waits" } do expected[#expected + 1] = ("r%d/%s"):format(i, filter) end
    end
    local told, lines = {}, {}
    for i, filter in ipairs(list) do told[i] = filter.route .. "/" .. filter.filter end
    assert.same(expected, told)
    for filter, route in gateway:control("status").out:gmatch("\nfilter +(%S+) of route (%S+):") do
      lines[#lines + 1] = route .. "/" .. filter
    end
    assert.same(expected, lines)
  end)

  it("count calls and time, but not the time that a filter waits", function()
    local gateway = start("[ quick, busy, waits ]")
    local client = gateway:connect()
    for _ = 1, 5 do assert.equal(200, client:get("/").status) end
    local filters = filters_of(gateway)
    assert.equal(10, filters["all/quick"].calls)
    assert.equal(5, filters["all/busy"].calls)
    assert.equal(5, filters["all/waits"].calls)
    assert.truthy(filters["all/busy"].busy_us >= 100000, filters["all/busy"].busy_us)
    assert.truthy(filters["all/quick"].busy_us < 50000, filters["all/quick"].busy_us)
    assert.truthy(filters["all/waits"].busy_us < 50000, filters["all/waits"].busy_us)
    assert.equal(0, filters["all/busy"].errors + filters["all/busy"].kills)
  end)

  it("count errors and kills of the filter that made them", function()
    for _, on_error in ipairs { "fail", "continue" } do
      local gateway = start(("[ quick, { fails: {}, on_error: %s }, busy ]"):format(on_error))
      local client = gateway:connect()
      for _, path in ipairs { "/error", "/loop", "/answer", "/" } do
        local failed = on_error == "fail" and (path == "/error" or path == "/loop")
        assert.equal(failed and 500 or 200, client:get(path).status)
      end
      local filters, status = filters_of(gateway)
      assert.same({ 4, 2, 1 }, { filters["all/fails"].calls, filters["all/fails"].errors, filters["all/fails"].kills })
      assert.equal(on_error == "fail" and 1 or 3, filters["all/busy"].calls)
      assert.equal(0, filters["all/quick"].errors + filters["all/busy"].errors)
      assert.equal(2, status.totals.script_errors)
      assert.equal(1, status.totals.script_kills)
      assert.truthy(gateway:log():find("filter 2 (fails) of route all failed", 1, true))
      assert.truthy(gateway:control("status").out:find("fails of route all: 4 calls, 2 errors, 1 kills", 1, true))
    end
  end)

  it("count what a filter does after it has waited for an upstream", function()
    local gateway = start("[ quick, asks ]")
    assert.equal(500, gateway:get("/").status)
    assert.equal(1, filters_of(gateway)["all/asks"].errors)
    assert.truthy(gateway:log():find("filter 2 (asks) of route all failed: filters/asks.lua:2: the answer was 200", 1,
      true))
  end)

  it("go on across reloads, and name what is new", function()
    local gateway = start("[ quick ]")
    local client = gateway:connect()
    for _ = 1, 3 do client:get("/") end
    gateway:write_filter("quick", SOURCES.quick .. "\n")
    assert.equal(0, gateway:control("reload").code)
    for _ = 1, 3 do client:get("/") end
    assert.equal(12, filters_of(gateway)["all/quick"].calls)
  end)
end)
