-- systemd_spec.lua - what a service manager is told and what it gives: sd_notify, LISTEN_FDS, the unit files.
local unix = require "socket.unix"
local helper = require "spec.helper"
local process = helper.process

local executable = process.absolute(os.getenv("MOONGATE") or "build/moongate")


-- A manager that listens: :heard(pattern) waits for a datagram that matches, :forget drops what came.
local function manager()
  local path = helper.folder() .. "/notify"
  local receiver = assert(unix.dgram())
  assert(receiver:bind(path))
  receiver:settimeout(0)
  local messages = {}
  local self = { path = path }
  local function take()
    for text in function() return receiver:receive() end do messages[#messages + 1] = text end
  end
  function self.heard(pattern, seconds)
    return helper.eventually(function()
      take()
      for i, text in ipairs(messages) do
        local found = text:match(pattern)
        if found then return table.remove(messages, i), found end
      end
    end, seconds or 10, "the message " .. pattern)
  end
  function self.all()
    take()
    return table.concat(messages, "\n")
  end
  function self.close() receiver:close() end
  return self
end


setup(process.adopt_orphans)
after_each(helper.cleanup)


describe("a service manager", function()
  it("hears of readiness, reloads and the stop", function()
    local listener = manager()
    local origin = helper.origin()
    local gateway = helper.gateway { routes = origin.port, env = { NOTIFY_SOCKET = listener.path } }
    assert.matches("STATUS=serving on 127.0.0.1:" .. gateway.port, listener.heard("^READY=1\n"), 1, true)
    assert.equal(0, gateway:control("reload").code)
    assert.matches("\nMONOTONIC_USEC=%d+$", listener.heard("^RELOADING=1\n"))
    assert.matches("generation 1", listener.heard("^READY=1\n")) -- the same again
    gateway:write_routes("routes: 1\n")
    listener.heard("^RELOADING=1\n")
    listener.heard("^READY=1\n")
    assert.equal(0, gateway:stop())
    listener.heard("^STOPPING=1\n")
    assert.no.matches("WATCHDOG", listener.all())
    listener.close()
  end)

  it("is told that the master lives, as often as it wants", function()
    local listener = manager()
    helper.gateway { routes = helper.origin().port, env = { NOTIFY_SOCKET = listener.path, WATCHDOG_USEC = "200000" } }
    for _ = 1, 3 do listener.heard("^WATCHDOG=1$", 2) end
    listener.close()
  end)

  it("learns the new main process of an upgrade before that speaks", function()
    local listener = manager()
    local gateway = helper.gateway {
      routes = helper.origin().port, env = { NOTIFY_SOCKET = listener.path },
      server = "server: { drain_timeout: 2s }\n",
    }
    listener.heard("^READY=1\n")
    local old = gateway.child
    old:signal(process.USR2)
    local text = listener.heard("^MAINPID=%d+\n")
    gateway.child = process.adopt(tonumber(text:match("%d+")), old)
    listener.heard("^READY=1\n")
    assert.equal(0, helper.eventually(function() return old:poll() end, 10, "the old process to end"))
    assert.no.matches("STOPPING", listener.all())
    gateway.baseline = gateway:descriptors()
    assert.equal(200, gateway:get("/").status)
    listener.close()
  end)

  it("may be gone, or not a manager at all", function()
    local origin = helper.origin()
    for _, path in ipairs { "/nowhere/at/all", "@moongate-spec-nobody", "relative", ("/x"):rep(200) } do
      local gateway = helper.gateway { routes = origin.port, env = { NOTIFY_SOCKET = path } }
      assert.equal(200, gateway:get("/").status)
      assert.equal(0, gateway:stop())
    end
  end)
end)


describe("socket activation", function()
  local function start(names, workers)
    local origin = helper.origin()
    local folder = helper.folder()
    helper.write(folder .. "/routes.yaml", helper.route_to(origin.port))
    local control = folder .. "/control.sock"
    local child = helper.spawn({ "luajit", "spec/helper/activate.lua", names, executable, "run", "--routes",
      folder .. "/routes.yaml", "--control", control, "--workers", tostring(workers) })
    local pid, ports = helper.eventually(function()
      return child:output():match("started (%d+) on ([%d ]+)\n") and child:output():find("listening on", 1, true)
        and child:output()
    end, 20, "the gateway"):match("started (%d+) on ([%d ]+)\n")
    local numbers = {}
    for number in ports:gmatch("%d+") do numbers[#numbers + 1] = tonumber(number) end
    return { child = child, pid = tonumber(pid), ports = numbers, control = control }
  end

  local function get(port)
    local client = assert(helper.connect(port))
    client:send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    local response = client:response()
    client:close()
    return response
  end

  it("takes the sockets for its port and its management port, and leaves them open", function()
    local gateway = start("http:management", 2)
    for _ = 1, 20 do assert.equal(200, get(gateway.ports[1]).status) end
    assert.matches("<title>", get(gateway.ports[2]).body, 1, true) -- the dashboard
    local output = gateway.child:output()
    assert.matches("listening on 127.0.0.1:" .. gateway.ports[1], output, 1, true)
    assert.equal(0, helper.moongate({ "stop", "--control", gateway.control }).code)
    local client = assert(helper.connect(gateway.ports[1]))
    assert.equal("kept\n", client:take_all(10))
    client:close()
    assert.equal(0, helper.eventually(function() return gateway.child:poll() end, 10, "the end"))
  end)

  it("serves every address that it is given", function()
    local gateway = start("http:other", 1)
    assert.equal(200, get(gateway.ports[1]).status)
    assert.equal(200, get(gateway.ports[2]).status)
    assert.equal(0, helper.moongate({ "stop", "--control", gateway.control }).code)
  end)

  it("is for the process that it names", function()
    local gateway = helper.gateway {
      routes = helper.origin().port, env = { LISTEN_FDS = "1", LISTEN_PID = "1", LISTEN_FDNAMES = "http" },
    }
    assert.equal(200, gateway:get("/").status)
  end)

  it("refuses what is not there: the variable is not for people", function()
    for value, message in pairs {
      yes = "MOONGATE_UPGRADE is set by a gateway",
      ["pid=1 listeners=500 management=0 first_slot=0 activated=0"] = "which was passed to this process",
    } do
      local result = helper.moongate({ "run", "--routes", "rockspec/etc/routes.yaml", "--port", "0" },
        { env = { MOONGATE_UPGRADE = value } })
      assert.equal(1, result.code)
      assert.matches(message, result.err, 1, true)
    end
  end)
end)


describe("what is installed", function()
  local folder

  setup(function()
    local build = executable:match("^(.*)/")
    folder = process.temporary_folder()
    local made = helper.execute { "cmake", "--install", build, "--prefix", folder }
    assert(made.code == 0, made.out .. made.err)
  end)
  teardown(function() os.execute(("rm -rf '%s'"):format(folder)) end)

  it("has a unit that starts what was installed", function()
    local unit = process.read_file(folder .. "/lib/systemd/system/moongate.service")
    assert.matches("\nExecStart=" .. folder .. "/bin/moongate run ", unit, 1, true)
    assert.no.matches("@[A-Z_]+@", unit)
    assert.matches("\nType=notify\n", unit, 1, true)
  end)

  it("has units that systemd takes, with little exposed", function()
    if not process.find_program("systemd-analyze") then return pending("systemd is not installed") end
    for _, name in ipairs { "moongate.service", "moongate.socket" } do
      local verified = helper.execute { "systemd-analyze", "verify", folder .. "/lib/systemd/system/" .. name }
      assert.equal(0, verified.code, verified.err)
      assert.equal("", verified.err)
    end
    local result = helper.execute { "systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager",
      folder .. "/lib/systemd/system/moongate.service" }
    assert.equal(0, result.code, result.out)
  end)

  it("has every document that its documents link to", function()
    local documents = folder .. "/share/doc/moongate/"
    local function follow(path, seen)
      if seen[path] then return seen end
      seen[path] = true
      local text = process.read_file(documents .. path)
      assert.truthy(text ~= "", path .. " is not installed")
      for link in text:gmatch("%]%(([^)#]+)#?[^)]*%)") do
        if not link:find(":", 1, true) then follow((path:match("^(.*/)") or "") .. link, seen) end
      end
      return seen
    end
    local seen = follow("README.md", {})
    assert.truthy(seen["filters/README.md"] and seen["journal/README.md"])
  end)

  it("has files that moongate check takes", function()
    local etc = folder .. "/share/doc/moongate/etc/"
    local result = helper.moongate { "check", "--routes", etc .. "routes.yaml", "--server", etc .. "server.yaml" }
    assert.equal(0, result.code, result.err)
  end)
end)
