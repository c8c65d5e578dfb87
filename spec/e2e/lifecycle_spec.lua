-- spec/e2e/lifecycle_spec.lua - start, stop, death and neighbours, as clients see them.
local h = require "spec.helper"
local now = require("socket").gettime


describe("stopping", function()
  after_each(h.cleanup)

  it("finishes running exchanges, accepts no more, exits 0", function()
    local go = false
    local origin = h.origin(function(stream, request)
      if request.target == "/slow" then h.eventually(function() return go end, 10, "the spec") end
      stream:send(h.answer(200, "done"))
    end)
    local gateway = h.gateway { routes = origin.port, workers = 2 }
    local idle, busy = gateway:connect(), gateway:connect()
    assert.equal(200, idle:get("/").status)
    busy:send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    h.eventually(function() return #origin.requests == 2 end, 5, "the slow request")
    gateway.child:signal(h.process.TERM)
    gateway.stopped = true
    assert.is_true((idle:is_closed(5)))
    h.eventually(function() return not h.connect(gateway.port) end, 5, "the port to close")
    assert.is_nil(gateway.child:poll())
    go = true
    local response = busy:response()
    assert.equal("done", response.body)
    assert.equal("close", (response:header("connection") or ""):lower())
    assert.is_true((busy:is_closed(5)))
    assert.equal(0, h.eventually(function() return gateway.child:poll() end, 10, "the end"))
  end)

  it("goes no further than server.drain_timeout", function()
    local origin = h.origin(function() h.sleep(30) return false end)
    local gateway = h.gateway { routes = origin.port, server = "server: { drain_timeout: 500ms }\n" }
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.eventually(function() return #origin.requests == 1 end, 5, "the request")
    local begin = now()
    gateway:stop(10)
    assert.is_true(now() - begin < 5)
    assert.is_nil((client:response()))
  end)

  it("stops at once on a second signal", function()
    local origin = h.origin(function() h.sleep(30) return false end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.eventually(function() return #origin.requests == 1 end, 5, "the request")
    gateway.stopped = true
    gateway.child:signal(h.process.TERM)
    h.sleep(0.3)
    assert.is_nil(gateway.child:poll())
    gateway.child:signal(h.process.TERM)
    h.eventually(function() return gateway.child:poll() end, 3, "the end")
  end)

  -- Enough routes for a build to take a while.
  local function many_routes()
    local lines = { "routes:" }
    for i = 1, 200 do
      lines[#lines + 1] = ("  - id: r%d\n    match: [ { PathPrefix: { prefix: /%d/ } } ]"):format(i, i)
      lines[#lines + 1] = "    filters: [ AddCorrelationId, { SetRequestHeader: { name: X-Route, value: r } } ]"
      lines[#lines + 1] = "    upstream: { targets: [ { url: http://127.0.0.1:1 } ] }"
    end
    return table.concat(lines, "\n") .. "\n"
  end

  local function assert_clean_end(child, when)
    local code = h.eventually(function() return child:poll() end, 10, "the end " .. when)
    local log = child:errors()
    assert.is_nil(log:find("signal %d+ %("), when .. ":\n" .. log)
    local unborn = log == "" and code == 128 + h.process.TERM -- not far enough to have a handler
    assert.equal(0, unborn and 0 or code, when .. ":\n" .. log)
  end

  it("is clean at any moment of the start", function()
    local folder = h.folder()
    h.write(folder .. "/routes.yaml", many_routes())
    for milliseconds = 20, 300, 7 do
      local child = h.spawn({ h.executable, "run", "--workers", "1", "--port", "0", "--routes",
        folder .. "/routes.yaml" })
      h.sleep(milliseconds / 1000)
      child:signal(h.process.TERM)
      assert_clean_end(child, milliseconds .. " ms after the start")
    end
  end)

  it("is clean at any moment of a reload", function()
    for milliseconds = 0, 120, 10 do
      local gateway = h.gateway { routes = many_routes(), workers = 1 }
      gateway.child:signal(h.process.HUP)
      h.sleep(milliseconds / 1000)
      gateway.stopped = true
      gateway.child:signal(h.process.TERM)
      assert_clean_end(gateway.child, milliseconds .. " ms after a reload began")
    end
  end)

  it("by command waits until the gateway has gone", function()
    local gateway = h.gateway { routes = h.origin().port }
    gateway.stopped = true
    assert.equal(0, gateway:control("stop").code)
    assert.equal(0, h.eventually(function() return gateway.child:poll() end, 5, "the end"))
  end)

  it("leaves no worker behind when the master is killed", function()
    local gateway = h.gateway { routes = h.origin().port, workers = 2 }
    local workers = gateway:workers()
    assert.equal(2, #workers)
    gateway.stopped = true
    gateway.child:signal(h.process.KILL)
    h.eventually(function() return gateway.child:poll() end, 5, "the master to end")
    h.eventually(function()
      return not h.process.alive(workers[1]) and not h.process.alive(workers[2])
    end, 10, "the workers to end")
  end)
end)


describe("a worker that dies", function()
  after_each(h.cleanup)

  it("is replaced on its socket; the others' clients notice nothing", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = origin.port, workers = 2 }
    local workers = gateway:workers()
    local clients = {}
    for i = 1, 16 do
      clients[i] = gateway:connect()
      assert.equal(200, clients[i]:get("/").status)
    end
    gateway:kill_worker(workers[1])
    h.eventually(function()
      local after = gateway:workers()
      return #after == 2 and (after[1] ~= workers[1] and after[2] ~= workers[1])
    end, 5, "the replacement")
    local alive = 0
    for _, client in ipairs(clients) do
      local response = client:get("/")
      if response and response.status == 200 then alive = alive + 1 end
    end
    assert.is_true(alive > 0 and alive < 16, alive .. " of 16 connections live")
    for _ = 1, 20 do assert.equal(200, gateway:get("/").status) end
  end)

  it("under load costs at most the requests that were in flight", function()
    local origin = h.builtin_origin()
    local gateway = h.gateway { routes = origin.port, workers = 2 }
    local load = h.load(gateway:url("/bytes/100"), 6)
    for _ = 1, 3 do
      h.sleep(1.2)
      gateway:kill_worker(gateway:workers()[1])
    end
    local result = load:finish()
    assert.is_true(result.errors <= 3 * 16, result.text)
    assert.equal(0, result.bad, result.text)
    assert.is_true(result.requests > 1000, result.text)
    assert.equal(2, #gateway:workers())
  end)
end)


describe("two gateways on one machine", function()
  after_each(h.cleanup)

  it("do not know of each other", function()
    local one = h.gateway { routes = h.origin(h.answer(200, "one")).port }
    local two = h.gateway { routes = h.origin(h.answer(200, "two")).port }
    assert.not_equal(one.port, two.port)
    assert.equal("one", one:get("/").body)
    assert.equal("two", two:get("/").body)
    assert.equal(0, one:control("reload").code)
    assert.equal(0, one:stop())
    assert.equal("two", two:get("/").body)
  end)

  it("cannot share a port: the second says so and the first goes on", function()
    local one = h.gateway { routes = h.origin(h.answer(200, "one")).port }
    local folder = h.folder()
    local second = h.moongate({ "run", "--routes", one.folder .. "/routes.yaml", "--host", "127.0.0.1",
      "--port", tostring(one.port), "--control", folder .. "/c.sock", "--workers", "1" })
    assert.equal(1, second.code)
    assert.truthy(second.err:find(tostring(one.port), 1, true), second.err)
    assert.truthy(second.err:find("in use", 1, true), second.err)
    assert.equal("one", one:get("/").body)
  end)
end)
