-- spec/e2e/kit_spec.lua - `moongate test`, and the specs of spec/kit, which it runs.
local lfs = require "lfs"
local h = require "spec.helper"


describe("moongate test", function()
  after_each(h.cleanup)

  for name in lfs.dir("spec/kit") do
    if name:find("%.lua$") then
      it("runs spec/kit/" .. name, function()
        local run = h.moongate({ "test", "--output=plainTerminal", "spec/kit/" .. name }, { seconds = 300 })
        assert(run.code == 0, run.out .. run.err)
        assert.truthy(run.out:find("[1-9]%d* success"), run.out)
        assert.truthy(run.out:find("0 failures / 0 errors", 1, true), run.out)
      end)
    end
  end

  it("finds the filters around a spec, wherever it is started", function()
    local filter = "return { api = 1, request = function(req) req:set_header('x-mine', 'yes') end }"
    local spec = [[
      it("runs", function()
        local result = require("moongate.test").run { filter = "mine" }
        assert.equal("yes", result.upstream:header("x-mine"))
      end)]]
    for _, place in ipairs { "/filters/mine.lua", "/spec/mine.lua", "/spec/filters/mine.lua" } do
      local folder = h.folder()
      for _, name in ipairs { "/filters", "/spec", "/spec/filters" } do h.make_folder(folder .. name) end
      h.write(folder .. place, filter)
      h.write(folder .. "/spec/mine_spec.lua", spec)
      local run = h.moongate { "test", folder .. "/spec/mine_spec.lua" }
      assert.equal(0, run.code, place .. run.out .. run.err)
    end
  end)

  it("ends with 1 when a spec fails, and passes busted's arguments on", function()
    local folder = h.folder()
    h.write(folder .. "/a_spec.lua", [[
      it("holds", function() assert.equal(1, 1) end)
      it("does not hold", function() assert.equal(1, 2) end)]])
    local run = h.moongate { "test", folder .. "/a_spec.lua" }
    assert.equal(1, run.code)
    assert.truthy(run.out:find("1 success / 1 failure", 1, true), run.out)
    assert.equal(0, h.moongate({ "test", "--filter=^holds", folder .. "/a_spec.lua" }).code)
  end)
end)


describe("a message of the test kit", function()
  after_each(h.cleanup)

  it("says how to ask it for a header when it is asked with a dot", function()
    local path = h.folder() .. "/dot_spec.lua"
    h.write(path, [[
      it("asks", function() require("moongate.test").run { filter = "SetStatus", conf = { status = 201 } }
        .response.header("server") end)]])
    local run = h.moongate { "test", path }
    assert.equal(1, run.code)
    assert.truthy(run.out:find("write message:header(name) or message:values(name), with a colon", 1, true), run.out)
  end)
end)


describe("a pattern that would take seconds", function()
  after_each(h.cleanup)

  it("fails its request at once, also through methods of strings", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: [ slow ]\n"), filters = { slow = [[
local f = { api = 1 }
function f.request(req)
  local text = ("a"):rep(200)
  if req:path() == "/method" then text:find(("a*"):rep(20) .. "b") end
  if req:path() == "/function" then string.gsub(text, (".-"):rep(12) .. "b", "") end
end
return f
]] } }
    local client = gateway:connect()
    for _, path in ipairs { "/method", "/function" } do
      assert.equal(500, client:get(path).status)
      assert.equal(200, client:get("/").status)
    end
    assert.truthy(gateway:log():find("slow.lua:4: the pattern takes too much work on this subject", 1, true))
  end)
end)
