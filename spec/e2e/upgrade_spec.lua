-- upgrade_spec.lua - SIGUSR2: another process takes over the sockets; or does not, and nothing has changed.
local cjson = require "cjson"
local helper = require "spec.helper"
local process = helper.process

local executable = process.absolute(os.getenv("MOONGATE") or "build/moongate")
local build = executable:match("^(.*)/")


local function status(gateway)
  local result = gateway:control("status", "--json")
  return result.code == 0 and cjson.decode(result.out) or nil
end


-- One whose idle connections do not keep an old process for long.
local function start(options)
  options.server = options.server or "server: { drain_timeout: 4s }\n"
  return helper.gateway(options)
end


-- Asks for an upgrade and waits until the old process has ended; the gateway is the new one from then on.
local function upgrade(gateway)
  local old = gateway.child
  old:signal(process.USR2)
  local now = helper.eventually(function()
    local found = status(gateway)
    return found and found.pid ~= old.pid and found
  end, 20, "the successor to answer")
  gateway.child = process.adopt(now.pid, old)
  assert.equal(0, helper.eventually(function() return old:poll() end, 20, "the old process to end"), gateway:log())
  gateway.baseline = gateway:descriptors()
  return now
end


-- An upgrade that is to fail: waits until the status says why.
local function upgrade_refused(gateway)
  local pid = gateway.child.pid
  gateway.child:signal(process.USR2)
  local found = helper.eventually(function()
    local now = status(gateway)
    return now and now.upgrade ~= cjson.null and now.upgrade:find("failed", 1, true) and now
  end, 20, "the upgrade to be refused")
  assert.equal(pid, found.pid)
  return found.upgrade
end


-- Starts moongate-load: :finish() gives its result.
local function open_loop(gateway, rate, seconds, connections)
  local child = helper.spawn({ build .. "/moongate-load", "--request", "get", "--rate", tostring(rate), "--duration",
    tostring(seconds), "--warmup", "0", "--connections", tostring(connections), "127.0.0.1:" .. gateway.port })
  local load = {}
  function load.finish()
    helper.eventually(function() return child:poll() end, seconds + 20, "the load to end")
    return assert(cjson.decode(child:output()), child:errors())
  end
  return load
end


setup(function()
  process.adopt_orphans()
  if process.read_file(build .. "/moongate-load") ~= "" then return end
  local made = helper.execute({ "cmake", "--build", build, "--target", "bench" }, { seconds = 300 })
  assert(made.code == 0, made.out .. made.err)
end)

after_each(helper.cleanup)


describe("an upgrade", function()
  it("fails no request and forgets no count", function()
    local origin = helper.builtin_origin()
    local gateway = start { routes = origin.port, workers = 2 }
    local load = open_loop(gateway, 500, 3, 16)
    helper.sleep(0.5)
    upgrade(gateway)
    helper.sleep(0.5)
    upgrade(gateway)
    local run = load.finish()
    assert.equal(0, run.errors, cjson.encode(run))
    assert.equal(1500, run.answered)
    local now = status(gateway)
    assert.equal(1500, now.totals.requests)
    assert.equal(1500, now.per_route[1].requests["200"])
    assert.matches("took over from process %d+", now.upgrade)
  end)

  it("answers on kept connections once more, and lets running exchanges finish", function()
    local answer_slowly
    local origin = helper.origin(function(stream, request)
      if request.target == "/slow" then helper.eventually(function() return answer_slowly end, 20, "the word") end
      stream:send(helper.answer(200, "from upstream"))
    end)
    local gateway = start { routes = origin.port }
    local idle, slow = gateway:connect(), gateway:connect()
    assert.is_nil(idle:get("/before"):header("connection"))
    slow:send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
    helper.eventually(function() return #origin.requests == 2 end, 5, "the slow request")
    gateway.child:signal(process.USR2)
    helper.eventually(function()
      local now = status(gateway)
      return now and now.pid ~= gateway.child.pid
    end, 20, "the successor")
    local response = idle:get("/after")
    assert.equal("close", response:header("connection"))
    assert.equal("from upstream", response.body)
    assert.equal("from upstream", gateway:get("/new").body)
    answer_slowly = true
    assert.equal("from upstream", slow:response().body)
    slow:close()
    idle:close()
    local old = gateway.child
    gateway.child = process.adopt(status(gateway).pid, old)
    assert.equal(0, helper.eventually(function() return old:poll() end, 20, "the old process to end"))
  end)

  it("keeps management port, control socket and recorded exchanges", function()
    local origin = helper.origin()
    local folder = helper.folder()
    local gateway = start {
      routes = helper.route_to(origin.port, [[
    journal: { request: { level: METADATA }, response: { level: METADATA } }
]]),
      args = { "--journal", folder .. "/journal" },
    }
    local port = gateway:management_port()
    gateway:get("/one")
    upgrade(gateway)
    gateway:get("/two")
    upgrade(gateway)
    gateway:get("/three")
    assert.equal(port, gateway:management_port())
    assert.matches('moongate_route_requests_total{route="all",code="200"} 3', gateway:manage("/metrics").body, 1, true)
    assert.equal(0, gateway:control("reload").code)
    assert.equal(0, gateway:stop())
    local verified = helper.moongate { "journal", "verify", folder .. "/journal" }
    assert.equal(0, verified.code, verified.out .. verified.err)
    local found = helper.moongate({ "journal", "find", folder .. "/journal" }).out
    for _, path in ipairs { "/one", "/two", "/three" } do assert.matches(path, found, 1, true) end
  end)

  it("changes nothing when the new process refuses its configuration", function()
    local origin = helper.origin()
    local gateway = start { routes = origin.port }
    gateway:write_routes("routes: [ { id: all, match: [ { PathPrefux: { prefix: / } } ] } ]\n")
    helper.eventually(function() return status(gateway).loads_refused > 0 end, 10, "the edit to be refused")
    assert.matches("PathPrefux", upgrade_refused(gateway))
    assert.equal(200, gateway:get("/").status)
    gateway:write_routes(helper.route_to(origin.port))
    upgrade(gateway)
    assert.equal(200, gateway:get("/").status)
  end)

  it("changes nothing when the executable cannot run, and takes the one that is there the next time", function()
    local origin = helper.origin()
    local folder = helper.folder()
    local copy = folder .. "/moongate"
    assert(os.execute(("cp '%s' '%s'"):format(executable, copy)) == 0)
    local gateway = start { routes = origin.port, executable = copy }
    helper.write(copy, "#!/bin/sh\nexit 3\n")
    assert(process.chmod(copy, 493)) -- 0755
    assert.matches("it ended with exit code 3", upgrade_refused(gateway), 1, true)
    assert(process.chmod(copy, 420)) -- 0644
    helper.sleep(1.1) -- so that what the status says now has another time
    gateway.child:signal(process.USR2)
    helper.eventually(function() return status(gateway).upgrade:find("cannot be started", 1, true) end, 10, "it")
    assert.equal(200, gateway:get("/").status)
    assert(os.execute(("cp '%s' '%s.new' && mv '%s.new' '%s'"):format(executable, copy, copy, copy)) == 0)
    upgrade(gateway)
    assert.equal(200, gateway:get("/").status)
  end)

  it("takes over though the old process is killed on the way", function()
    local origin = helper.origin()
    local gateway = start { routes = origin.port }
    local old = gateway.child
    old:signal(process.USR2)
    local pid = helper.eventually(function() return gateway:log():match("as process (%d+), which is to take over") end,
      10, "the successor")
    old:signal(process.KILL)
    gateway.child = process.adopt(tonumber(pid), old)
    helper.eventually(function() return old:poll() end, 10, "the old process to end")
    helper.eventually(function()
      local now = status(gateway)
      return now and now.pid == tonumber(pid) and now.state == "serving"
    end, 20, "the successor to serve")
    assert.equal(200, gateway:get("/").status)
  end)

  it("may change the number of workers", function()
    local origin = helper.origin()
    local gateway = start { routes = origin.port, workers = false, server = "server: { workers: 3 }\n" }
    assert.equal(3, #gateway:workers())
    for _, count in ipairs { 1, 2 } do
      helper.write(gateway.folder .. "/server.yaml", ("server: { workers: %d }\n"):format(count))
      upgrade(gateway)
      assert.equal(count, #gateway:workers())
      for _ = 1, 20 do assert.equal(200, gateway:get("/").status) end
    end
  end)

  it("keeps its sockets: another port is refused", function()
    local origin = helper.origin()
    local probe = helper.origin()
    local port = probe.port
    probe.close()
    local server = "server: { host: 127.0.0.1, port: %d, drain_timeout: 4s }\n"
    local gateway = start {
      routes = origin.port, port = false, server = server:format(port), args = { "--management-port", "0" },
    }
    assert.equal(port, gateway.port)
    helper.write(gateway.folder .. "/server.yaml", server:format(port + 1))
    assert.matches("server.port has changed", upgrade_refused(gateway), 1, true)
    helper.write(gateway.folder .. "/server.yaml", server:format(port))
    upgrade(gateway)
    assert.equal(200, gateway:get("/").status)
  end)
end)


describe("workers that are killed", function()
  it("cost the requests that they had, no others", function()
    local origin = helper.builtin_origin()
    local gateway = helper.gateway { routes = origin.port, workers = 4 }
    local load = open_loop(gateway, 500, 5, 8)
    for _ = 1, 20 do
      helper.sleep(0.1)
      local workers = helper.eventually(function()
        local found = gateway:workers()
        return #found == 4 and found
      end, 10, "four workers")
      gateway:kill_worker(workers[1]) -- the oldest: each slot in turn, none often enough to be held back
    end
    local run = load.finish()
    assert.is_true(run.errors <= 20 * 8, cjson.encode(run))
    assert.equal(2500, run.answered + run.errors)
    local deaths = 0
    for _, worker in ipairs(status(gateway).workers) do deaths = deaths + worker.deaths end
    assert.equal(20, deaths)
  end)
end)
