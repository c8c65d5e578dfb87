-- spec/e2e/processes_spec.lua - the master and what it does for its workers: replacing, asking, refusing, telling.
local cjson = require "cjson"
local h = require "spec.helper"

local executable = h.process.absolute(os.getenv("MOONGATE") or "build/moongate")

local ROUTES = [[
routes:
  - id: stub
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: "%s" } } ]
]]


local function stub(body) return ROUTES:format(body) end


local function status(gateway)
  local result = gateway:control("status", "--json")
  assert.equal(0, result.code, result.err)
  return cjson.decode(result.out)
end


local function signal_worker(gateway, pid, number)
  assert.is_true(h.process.signal_descendant(gateway.child.pid, pid, number))
end


describe("a worker", function()
  after_each(h.cleanup)

  it("that stands still is killed and replaced on its socket", function()
    local gateway = h.gateway { routes = stub("alive"), workers = 2, server = "scripts: { stuck_after: 500ms }\n" }
    local stuck = gateway:workers()[1]
    signal_worker(gateway, stuck, h.process.STOP)
    h.eventually(function() return not h.process.alive(stuck) and #gateway:workers() == 2 end, 10, "the replacement")
    h.eventually(function() return status(gateway).workers[1].generation == 1 end, 10, "its generation")
    for _ = 1, 20 do assert.equal("alive", gateway:get("/").body) end
    assert.truthy(gateway:log():find("has not been heard of for %d+ ms"))
    assert.equal(1, status(gateway).workers[1].deaths)
  end)

  it("gets the generation in force, not the one of the start", function()
    local gateway = h.gateway { routes = stub("one") }
    gateway:write_routes(stub("two"))
    assert.equal(0, gateway:control("reload").code)
    gateway:kill_worker(gateway:workers()[1])
    h.eventually(function() return status(gateway).workers[1].generation == 2 end, 10, "the replacement")
    assert.equal("two", gateway:get("/").body)
  end)

  it("that keeps dying is started more slowly", function()
    local gateway = h.gateway { routes = stub("alive") }
    for death = 1, 7 do
      local pid = h.eventually(function() return gateway:workers()[1] end, 5, "a worker")
      gateway:kill_worker(pid)
      h.eventually(function() return status(gateway).workers[1].deaths == death end, 5, "the death")
    end
    assert.truthy(gateway:log():find("keeps dying", 1, true))
    h.eventually(function() return status(gateway).workers[1].generation == 1 end, 10, "a worker after all")
    assert.equal("alive", gateway:get("/").body)
  end)

  it("does not act on the terminal's signals", function()
    local gateway = h.gateway { routes = stub("alive") }
    local pid = gateway:workers()[1]
    for _, number in ipairs { h.process.INT, h.process.TERM, h.process.HUP } do signal_worker(gateway, pid, number) end
    h.sleep(0.3)
    assert.same({ pid }, gateway:workers())
    assert.equal("alive", gateway:get("/").body)
  end)

  it("is not started by hand", function()
    local result = h.moongate { "worker" }
    assert.equal(2, result.code)
    assert.truthy(result.err:find("started by the master alone", 1, true))
  end)
end)


describe("status", function()
  after_each(h.cleanup)

  it("tells a person and a program the same", function()
    local gateway = h.gateway { routes = stub("alive"), workers = 2 }
    for _ = 1, 5 do gateway:get("/") end
    local facts = status(gateway)
    assert.equal("127.0.0.1:" .. gateway.port, facts.listening)
    assert.equal(gateway.child.pid, facts.pid)
    assert.equal(1, facts.generation)
    assert.equal("done", facts.last_load.outcome)
    assert.equal(2, #facts.workers)
    assert.equal(5, facts.workers[1].requests + facts.workers[2].requests)
    assert.equal(5, facts.totals.requests)
    local page = gateway:control("status").out
    for _, text in ipairs { "pid " .. gateway.child.pid, ":" .. gateway.port, "generation   1", "worker 1" } do
      assert.truthy(page:find(text), text .. " in\n" .. page)
    end
  end)

  it("keeps the reason of a refusal until a reload succeeds", function()
    local gateway = h.gateway { routes = stub("one") }
    gateway:write_routes("routes: [ { id: broken, mach: [] } ]\n")
    assert.equal(1, gateway:control("reload").code)
    local facts = status(gateway)
    assert.equal("refused", facts.last_load.outcome)
    assert.truthy(facts.last_load.text:find("mach", 1, true), facts.last_load.text)
    assert.equal(1, facts.generation)
    gateway:write_routes(stub("two"))
    assert.equal(0, gateway:control("reload").code)
    assert.equal("done", status(gateway).last_load.outcome)
    assert.equal("two", gateway:get("/").body)
  end)
end)


describe("a reload", function()
  after_each(h.cleanup)

  it("of the same files changes nothing and says so", function()
    local gateway = h.gateway { routes = stub("one") }
    local result = gateway:control("reload")
    assert.equal(0, result.code)
    assert.truthy(result.out:find("nothing has changed", 1, true))
    assert.equal(1, status(gateway).generation)
  end)

  it("asked for by many at once answers each", function()
    local gateway = h.gateway { routes = stub("one") }
    gateway:write_routes(stub("two"))
    local asked = {}
    for i = 1, 8 do
      asked[i] = h.spawn({ executable, "reload", "--control", gateway.folder .. "/control.sock" },
        { name = "reload" .. i })
    end
    for _, child in ipairs(asked) do
      assert.equal(0, h.eventually(function() return child:poll() end, 15, "the answer"))
      assert.truthy(child:output():find("every worker runs generation 2", 1, true), child:output())
    end
    assert.equal("two", gateway:get("/").body)
  end)

  it("does not apply server settings, and says so once", function()
    local gateway = h.gateway { routes = stub("one"), server = "server: { backlog: 100 }\n" }
    h.write(gateway.folder .. "/server.yaml", "server: { backlog: 200 }\n")
    for _ = 1, 2 do assert.equal(0, gateway:control("reload").code) end
    local _, count = gateway:log():gsub("applied at the next start", "")
    assert.equal(1, count)
  end)

  it("whose script does not end is given up, with the line that ran", function()
    local gateway = h.gateway { routes = stub("one"), server = "scripts: { max_load_time: 500ms }\n" }
    gateway:write_filter("spin", "while true do end\n")
    gateway:write_routes((stub("two"):gsub("filters: %[ ", "%0spin, ")))
    local result = gateway:control("reload")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("longer than 500 ms", 1, true), result.err)
    assert.truthy(result.err:find("spin.lua:1", 1, true), result.err)
    assert.equal("one", gateway:get("/").body)
  end)

  it("while the gateway stops is refused", function()
    local origin = h.origin(function(stream)
      h.sleep(1.5)
      stream:send(h.answer(200, "done"))
    end)
    local gateway = h.gateway { routes = origin.port }
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.eventually(function() return #origin.requests == 1 end, 5, "the request")
    gateway.child:signal(h.process.TERM)
    gateway.stopped = true
    h.eventually(function() return gateway:log():find("stopping", 1, true) end, 5, "the stop")
    local result = gateway:control("reload")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("is stopping", 1, true), result.err)
    assert.equal("done", client:response().body)
    assert.equal(0, h.eventually(function() return gateway.child:poll() end, 10, "the end"))
  end)
end)


describe("the control socket", function()
  after_each(h.cleanup)

  local function start(folder, control)
    h.write(folder .. "/routes.yaml", stub("alive"))
    local argv = { executable, "run", "--routes", folder .. "/routes.yaml", "--host", "127.0.0.1", "--port", "0",
      "--workers", "1", "--control", control }
    return h.spawn(argv, { folder = folder, name = "run" })
  end

  it("of a gateway that was killed is taken over; a live one's is not", function()
    local first = h.gateway { routes = stub("one") }
    local control = first.folder .. "/control.sock"
    local folder = h.folder()
    local second = start(folder, control)
    assert.equal(1, h.eventually(function() return second:poll() end, 10, "the refusal"))
    assert.truthy(second:errors():find("another gateway answers", 1, true), second:errors())
    assert.equal(0, first:control("status").code)
    first.stopped = true
    first.child:signal(h.process.KILL)
    h.eventually(function() return first.child:poll() end, 5, "the kill")
    local third = start(folder, control)
    h.eventually(function() return third:output():find("listening on", 1, true) end, 10, "the third")
    assert.equal(0, h.moongate({ "stop", "--control", control }).code)
    assert.equal(0, h.eventually(function() return third:poll() end, 5, "the end"))
    assert.is_nil((io.open(control)))
  end)

  it("is no other file", function()
    local folder = h.folder()
    h.write(folder .. "/precious", "text")
    local child = start(folder, folder .. "/precious")
    assert.equal(1, h.eventually(function() return child:poll() end, 10, "the refusal"))
    assert.truthy(child:errors():find("is no socket", 1, true), child:errors())
    assert.equal("text", h.process.read_file(folder .. "/precious"))
  end)

  it("lies in XDG_RUNTIME_DIR by port, for its user alone", function()
    local runtime, folder = h.folder(), h.folder()
    h.write(folder .. "/routes.yaml", stub("alive"))
    local env = { XDG_RUNTIME_DIR = runtime }
    local child = h.spawn({ executable, "run", "--routes", folder .. "/routes.yaml",
      "--host", "127.0.0.1", "--port", "0", "--workers", "1" }, { folder = folder, name = "run", env = env })
    local function listening() return child:output():match("listening on 127%.0%.0%.1:(%d+)") end
    local port = h.eventually(listening, 10, "the start")
    local lfs = require "lfs"
    assert.equal("rwx------", lfs.attributes(runtime .. "/moongate", "permissions"))
    assert.equal("rw-------", lfs.attributes(("%s/moongate/%s.sock"):format(runtime, port), "permissions"))
    local nobody = h.moongate({ "status", "--port", "1" }, { env = env })
    assert.equal(1, nobody.code)
    assert.truthy(nobody.err:find("--port " .. port, 1, true), nobody.err)
    assert.equal(0, h.moongate({ "stop", "--port", port }, { env = env }).code)
    assert.equal(0, h.eventually(function() return child:poll() end, 5, "the end"))
  end)
end)


describe("the command line", function()
  after_each(h.cleanup)

  it("finds its files in the working directory and in the environment", function()
    local folder = h.folder()
    h.write(folder .. "/routes.yaml", stub("here"))
    assert.truthy(h.moongate({ "check" }, { cwd = folder }).out:find("stub", 1, true))
    h.write(folder .. "/other.yaml", (stub("there"):gsub("id: stub", "id: elsewhere")))
    local env = { MOONGATE_ROUTES_CONFIG = folder .. "/other.yaml" }
    assert.truthy(h.moongate({ "check" }, { cwd = folder, env = env }).out:find("elsewhere", 1, true))
    env.MOONGATE_SERVER_CONFIG = folder .. "/nowhere.yaml"
    local result = h.moongate({ "check" }, { cwd = folder, env = env })
    assert.equal(1, result.code)
    assert.truthy(result.err:find("nowhere.yaml", 1, true))
  end)

  it("picks a free management port when only a port is given, and keeps it to itself", function()
    local gateway = h.gateway { routes = stub("alive") }
    local port = gateway.child:output():match("management on 127%.0%.0%.1:(%d+)")
    assert.truthy(port, gateway.child:output())
    local folder = h.folder()
    local second = h.moongate { "run", "--routes", gateway.folder .. "/routes.yaml", "--host", "127.0.0.1",
      "--port", "0", "--management-port", port, "--control", folder .. "/c.sock" }
    assert.equal(1, second.code)
    assert.truthy(second.err:find("port " .. port .. " is in use", 1, true), second.err)
  end)

  for _, case in ipairs {
    { { "run", "--workers", "0" }, "from 1 to 256" },
    { { "run", "--workers", "many" }, "from 1 to 256" },
    { { "run", "--port", "65536" }, "from 0 to 65535" },
    { { "run", "--prot", "80" }, "did you mean --port?" },
    { { "stop", "--workers", "2" }, "unknown option --workers" },
    { { "relaod" }, "did you mean reload?" },
    { { "run", "routes.yaml" }, "is not an option" },
    { {}, "usage:" },
  } do
    it("refuses " .. (#case[1] > 0 and table.concat(case[1], " ") or "nothing at all"), function()
      local result = h.moongate(case[1])
      assert.equal(2, result.code)
      assert.equal("", result.out)
      assert.truthy(result.err:find(case[2], 1, true), result.err)
    end)
  end
end)
