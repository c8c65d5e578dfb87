-- spec/e2e/script_memory_spec.lua - scripts that take memory without end cost their own request, and no more.
local h = require "spec.helper"

local MAX_MB = 32
local SERVER = ("scripts:\n  max_memory: %dmb\n  max_call_time: 10s\n  stuck_after: 30s\n"):format(MAX_MB)


local function gateway_with(source)
  local origin = h.origin()
  return h.gateway { routes = h.route_to(origin.port, "    filters: [ greedy ]\n"), server = SERVER,
    filters = { greedy = source } }
end


local function resident_kb(pid)
  for line in io.lines(("/proc/%d/status"):format(pid)) do
    local size = line:match("^VmRSS:%s+(%d+)")
    if size then return tonumber(size) end
  end
end


describe("scripts.max_memory", function()
  after_each(h.cleanup)

  it("ends a script that takes more, whatever it takes it for, and the worker is as before", function()
    local gateway = gateway_with [[
local f = { api = 1 }
local grow = {}
grow["/table"] = function() local t = {} for i = 1, 1e12 do t[i] = i end end
grow["/strings"] = function() local t = {} while true do t[#t + 1] = ("x"):rep(1000) .. #t end end
grow["/concat"] = function() local s = "x" while true do s = s .. s end end
grow["/closures"] = function() local t = {} while true do local i = #t t[i + 1] = function() return i end end end
grow["/coroutines"] = function() local t = {} while true do t[#t + 1] = coroutine.create(function() end) end end
grow["/caught"] = function()
  local t = {}
  for _ = 1, 20 do pcall(function() while true do t[#t + 1] = ("y"):rep(5000) .. #t end end) end
  error("gave up")
end
grow["/gsub"] = function() local s = "x" while true do s = s:gsub(".", "%0%0") end end
function f.request(req)
  local one = grow[req:path()]
  if one then one() end
end
return f
]]
    local client = gateway:connect()
    local paths = { "/table", "/strings", "/concat", "/closures", "/coroutines", "/caught", "/gsub" }
    local function round()
      for _, path in ipairs(paths) do
        local response = client:get(path)
        assert(response and response.status == 500, path .. "\n" .. gateway:log():sub(-2000))
        assert.equal(200, client:get("/").status)
      end
    end
    local pid = gateway:workers()[1]
    for _ = 1, 2 do round() end
    local before = resident_kb(pid)
    for _ = 1, 4 do round() end
    local after = resident_kb(pid)
    assert(after < before + MAX_MB * 1024, ("%d KB, then %d KB"):format(before, after))
    assert.equal(pid, gateway:workers()[1])
    assert.truthy(gateway:log():find("not enough memory", 1, true))
    assert.falsy(gateway:log():find("fresh state", 1, true))
  end)

  it("does not hold what filters pile up for one exchange: that is bounded too, and answered for", function()
    local gateway = gateway_with [[
local f = { api = 1 }
function f.request(req)
  local path = req:path()
  for i = 1, path == "/edits" and 1e5 or 0 do req:add_header("x-" .. i, "y") end
  for i = 1, path == "/attributes" and 1e5 or 0 do req:set_attribute("a" .. i, "v") end
end
function f.response(res)
  for i = 1, res:request():path() == "/lines" and 1e5 or 0 do res:add_header("x-" .. i, "y") end
end
return f
]]
    local client = gateway:connect()
    for _, path in ipairs { "/edits", "/attributes", "/lines" } do
      local response = client:get(path)
      assert(response and response.status == 500, path .. "\n" .. gateway:log():sub(-2000))
      assert.equal(200, client:get("/").status)
    end
  end)

  it("replaces the state of scripts that keep what they take", function()
    local gateway = gateway_with [[
local f = { api = 1 }
local kept = {}
function f.request(req)
  if req:path() == "/keep" then for _ = 1, 100 do kept[#kept + 1] = ("x"):rep(10000) .. #kept end end
  req:set_header("x-kept", tostring(#kept))
end
return f
]]
    local client, pid = gateway:connect(), gateway:workers()[1]
    local statuses = {}
    for _ = 1, 60 do
      local status = client:get("/keep").status
      statuses[status] = (statuses[status] or 0) + 1
    end
    h.eventually(function()
      client:get("/")
      return gateway:log():find("has ended", 1, true)
    end, 10, "the full state's end")
    h.eventually(function() return client:get("/keep").status == 200 end, 10, "a state that is not full")
    assert.truthy(statuses[200] >= 20)
    assert.truthy(gateway:log():find("making a fresh state", 1, true))
    assert.equal(pid, gateway:workers()[1])
    assert(resident_kb(pid) < 4 * MAX_MB * 1024)
  end)

  it("refuses a generation that needs more to start", function()
    local gateway = gateway_with "return { api = 1, request = function() end }\n"
    gateway:write_filter("greedy", [[
local f = { api = 1 }
function f.init() local t = {} for i = 1, 1e7 do t[i] = i end return t end
function f.request() end
return f
]])
    local run = gateway:control("reload")
    assert.equal(1, run.code)
    assert.truthy(run.err:find("more than .-scripts%.max_memory"), run.err)
    assert.equal(200, gateway:get("/").status)
  end)
end)
