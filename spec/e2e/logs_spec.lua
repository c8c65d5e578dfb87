-- logs_spec.lua - what the processes say on standard error: levels, text or JSON, and nothing a thousand times.
local cjson = require "cjson"
local helper = require "spec.helper"

local FAILS = [[
return { api = 1, version = "1.0.0", request = function(req)
  req:log("info", "saw it")
  req:log("debug", "and more")
  if req:path() == "/fail" then error("broken on purpose") end
end }
]]


local function gateway_with(server)
  local origin = helper.origin()
  return helper.gateway {
    routes = helper.route_to(origin.port, "    filters: [ fails ]\n"), filters = { fails = FAILS }, server = server,
  }
end


local function count(text, words) return select(2, text:gsub(words, "")) end


after_each(helper.cleanup)


describe("the log", function()
  it("names the exchange that a message is about", function()
    local gateway = gateway_with("log: { level: debug }\n")
    gateway:get("/fail")
    local log = gateway:log()
    local id = log:match("info worker 0: [^\n]*saw it exchange=(%w+)\n")
    assert.is_true(id and #id == 26, log)
    assert.matches("error worker 0: filter 1 (fails) of route all failed: ", log, 1, true)
    assert.matches("broken on purpose[^\n]* exchange=" .. id .. "\n", log)
    assert.matches("debug worker 0: and more exchange=" .. id, log, 1, true)
  end)

  it("leaves out what is below its level", function()
    local gateway = gateway_with("log: { level: error }\n")
    gateway:get("/fail")
    helper.eventually(function() return gateway:log():find("broken on purpose", 1, true) end, 5, "the error")
    assert.equal(1, count(gateway:log(), "\n"))
  end)

  it("is JSON where that is asked for, refused edits included", function()
    local gateway = gateway_with("log: { format: json }\n")
    gateway:get("/fail?a=\"b\\c")
    gateway:write_routes("routes:\n  - id: \"a\\nb\"\n    matsch: []\n  - nonsense\n")
    helper.eventually(function() return gateway:log():find("refused", 1, true) end, 10, "the refusal")
    assert.equal(1, gateway:control("reload").code)
    local levels, refused = {}, {}
    for text in gateway:log():gmatch("[^\n]+") do
      local line = cjson.decode(text)
      levels[line.level] = true
      assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$", line.time)
      assert.is_true(line.process == "master" or line.process == "worker 0")
      assert.is_number(line.pid)
      if line.message:find("refused", 1, true) then refused[#refused + 1] = line.message end
    end
    assert.same({ info = true, warn = true, error = true }, levels)
    assert.equal(2, #refused)
    assert.matches("matsch", refused[1], 1, true)
    assert.matches("the reasons are those given before", refused[2], 1, true)
  end)

  it("gives the reasons of a refused edit once, and again when they have changed", function()
    local gateway = gateway_with()
    gateway:write_routes("routes: [ { id: a, matsch: [] } ]\n")
    helper.eventually(function() return gateway:log():find("matsch", 1, true) end, 10, "the refusal")
    local answer = gateway:control("reload")
    assert.equal(1, answer.code)
    assert.matches("matsch", answer.err, 1, true) -- who asks is told in full
    assert.equal(1, count(gateway:log(), "matsch"))
    gateway:write_routes("routes: [ { id: a, filtres: [] } ]\n")
    helper.eventually(function() return gateway:log():find("filtres", 1, true) end, 10, "the other refusal")
  end)

  it("counts a message that comes too often, and says so a little later", function()
    local gateway = gateway_with()
    local client = gateway:connect()
    for _ = 1, 40 do assert.equal(500, client:get("/fail").status) end
    client:close()
    local log = gateway:log()
    assert.equal(5, count(log, "broken on purpose"))
    assert.equal(5, count(log, "saw it"))
    local repeated = helper.eventually(function()
      local text = gateway:log()
      return count(text, "repeated 35 times") == 2 and text
    end, 10, "what was counted")
    assert.matches("broken on purpose[^\n]* exchange=%w+ %(repeated 35 times%)\n", repeated)
  end)

  it("refuses words that are none", function()
    local folder = helper.folder()
    helper.write(folder .. "/routes.yaml", helper.route_to(1))
    helper.write(folder .. "/server.yaml", "log: { level: warning }\n")
    local result = helper.moongate({ "check", "--routes", "routes.yaml", "--server", "server.yaml" }, { cwd = folder })
    assert.equal(1, result.code)
    assert.matches("log.level", result.err, 1, true)
  end)
end)
