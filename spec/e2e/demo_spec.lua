-- spec/e2e/demo_spec.lua - `moongate demo`: what it promises on the screen is what one gets, and it leaves no process.
local socket = require "socket"
local h = require "spec.helper"

local executable = h.process.absolute(os.getenv("MOONGATE") or "build/moongate")

describe("moongate demo", function()
  local folder, demo

  -- Starts a demonstration and waits until it has said all; fails with what it said instead.
  local function start(port)
    folder = h.folder()
    demo = h.spawn({ executable, "demo", "--port", tostring(port) }, { folder = folder, env = { TMPDIR = folder } })
    local said = h.eventually(function()
      return demo:output():find("Ctrl-C ends", 1, true) or demo:poll() and "ended"
    end, 10, "the demonstration to be ready")
    if said == "ended" then error(demo:output() .. demo:errors(), 2) end
    demo.port = tonumber(demo:output():match("listening on 127%.0%.0%.1:(%d+)"))
    demo.files = demo:output():match("\n  (/%S+/moongate%-demo%-%w+)\n")
  end

  local function ask(target, headers)
    local client = assert(h.connect(demo.port))
    local response = assert(client:get(target, headers))
    client:close()
    return response
  end

  after_each(h.cleanup)

  it("is ready within a second and does what its three lines say", function()
    local began = socket.gettime()
    start(0)
    if not h.sanitized then assert.is_true(socket.gettime() - began < 1) end
    local lines = {}
    assert.truthy(demo:output():find("\n  http://127%.0%.0%.1:%d+/   what it does"))
    for line in demo:output():gmatch("\n  (curl [^\n]-)   ") do lines[#lines + 1] = line end
    assert.equal(3, #lines)
    local answers = {}
    for i, line in ipairs(lines) do answers[i] = h.execute { "sh", "-c", line .. " -s" }.out end
    assert.matches("^HTTP/1.1 200 OK", answers[1])
    assert.matches("\n\r?\nGET /hello HTTP/1.1\r\n", answers[1])
    local id = answers[1]:match("\n[Xx]%-[Cc]orrelation%-[Ii]d: ([^\r]+)")
    assert.is_truthy(id)
    assert.is_truthy(answers[1]:lower():find("\r\n\r\n.*x%-correlation%-id: " .. id:lower()))
    assert.matches("X-Served-By: moongate\r\n", answers[1], 1, true)
    assert.matches("^HTTP/1.1 200 OK", answers[2])
    assert.is_truthy(answers[2]:lower():find("x-greeting: hello, ada\r\n", 1, true))
    assert.matches("^HTTP/1.1 403 ", answers[3])
    assert.matches("Mallory is not welcome here.\n$", answers[3])
    local recorded = h.execute { "sh", "-c", assert(demo:output():match("\n  (/%S+ journal find %S+)   what was")) }
    for _, found in ipairs { " 200 .* echo GET /echo/hello ", " 200 .* greeted GET /hello ", " 403 .* GET /hello " } do
      assert.matches(found, recorded.out)
    end
  end)

  it("takes its children with it when it is killed", function()
    start(0)
    local pids = h.process.children_of(demo.pid)
    assert.equal(2, #pids)
    for _, child in ipairs(h.process.children_of(pids[2])) do pids[#pids + 1] = child end
    assert.is_true(#pids >= 3) -- a worker
    demo:signal(h.process.KILL)
    h.eventually(function()
      for _, pid in ipairs(pids) do
        if h.process.alive(pid) then return false end
      end
      return true
    end, 10, "all of them to end")
  end)

  it("runs an edited filter, and goes on with the old one when the edit is broken", function()
    start(0)
    local path = demo.files .. "/filters/greet.lua"
    local source = h.process.read_file(path)
    assert.matches("return greet\n$", source)
    h.write(path, (source:gsub('", " %.%. name', '" and welcome, " .. name')))
    h.eventually(function()
      return ask("/x", "X-Name: Ada\r\n").body:lower():find("hello and welcome, ada", 1, true)
    end, 5, "the new greeting")
    h.write(path, source .. "oops(")
    h.eventually(function() return demo:errors():find("greet.lua", 1, true) end, 5, "the fault to be reported")
    assert.is_truthy(ask("/x", "X-Name: Ada\r\n").body:lower():find("hello and welcome, ada", 1, true))
  end)

  it("takes a free port when its own is busy, and says so", function()
    local origin = h.origin()
    start(origin.port)
    assert.matches(("port %d is busy, taking a free one\n"):format(origin.port), demo:output(), 1, true)
    assert.are_not.equal(origin.port, demo.port)
    assert.equal(200, ask("/x").status)
  end)

  it("ends with its children and keeps the files", function()
    start(0)
    local children = h.process.children_of(demo.pid)
    assert.equal(2, #children)
    demo:signal(h.process.TERM)
    assert.equal(0, h.eventually(function() return demo:poll() end, 10, "the demonstration to end"))
    for _, pid in ipairs(children) do assert.is_false(h.process.alive(pid)) end
    assert.matches("what you edited is still in " .. demo.files, demo:output(), 1, true)
    assert.matches("greet.request", h.process.read_file(demo.files .. "/filters/greet.lua"), 1, true)
    assert.matches("routes:", h.process.read_file(demo.files .. "/routes.yaml"), 1, true)
  end)

  it("ends with code 1 when one of them ends by itself", function()
    start(0)
    for _, pid in ipairs(h.process.children_of(demo.pid)) do
      if h.process.command_line(pid):find(" origin", 1, true) then
        h.process.signal_descendant(demo.pid, pid, h.process.KILL)
      end
    end
    assert.equal(1, h.eventually(function() return demo:poll() end, 10, "the demonstration to end"))
    assert.matches("the origin ended by itself (signal 9)", demo:errors(), 1, true)
  end)

  it("says why it cannot start", function()
    local result = h.moongate({ "demo" }, { env = { TMPDIR = "/nowhere/at/all" } })
    assert.equal(1, result.code)
    assert.matches("cannot make a folder in /nowhere/at/all: No such file or directory", result.err, 1, true)
    assert.equal(2, h.moongate({ "demo", "--prot", "1" }).code)
  end)
end)
