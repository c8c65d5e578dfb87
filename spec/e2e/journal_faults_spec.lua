-- spec/e2e/journal_faults_spec.lua - files of the journal that somebody takes away while a gateway records.
local h = require "spec.helper"
local lfs = require "lfs"

local LEVEL = "    journal: { request: { level: METADATA }, response: { level: METADATA } }\n"


local function recording(folder)
  folder = folder or h.folder() .. "/journal"
  local gateway = h.gateway {
    routes = h.route_to(h.builtin_origin().port, LEVEL), args = { "--journal", folder, "--management-port", "0" },
    server = "storage: { stage_size: 128kb, shard_size: 256kb }\n",
  }
  gateway.journal = folder
  assert.equal(200, gateway:get("/status/200").status)
  return gateway
end


local function cut(path, bytes)
  assert(os.execute(("truncate -s %d %s"):format(bytes, path)) == 0)
end


local function repairs(gateway) return tonumber(gateway:control("status").out:match("journal_repairs%s+(%d+)")) end


-- Requests, without caring for their answers, until condition holds.
local function requests_until(gateway, condition, what)
  h.eventually(function()
    for _ = 1, 20 do gateway:get("/status/200") end
    return condition()
  end, 20, what)
end


describe("a gateway whose journal is taken away", function()
  after_each(h.cleanup)

  for _, name in ipairs { "shard-000.stage", "shard-000-0000000001.open" } do
    it("goes on when " .. name .. " is cut short", function()
      local gateway = recording()
      local worker = gateway:workers()[1]
      cut(gateway.journal .. "/" .. name, 0)
      requests_until(gateway, function() return repairs(gateway) > 0 end, "the file to be replaced")
      for _ = 1, 50 do assert.equal(200, gateway:get("/status/200").status) end
      assert.equal(worker, gateway:workers()[1])
      assert.is_nil(gateway:control("status").out:find("CANNOT BE WRITTEN", 1, true))
      local listed = h.moongate({ "journal", "find", gateway.journal }).out
      local _, lines = listed:gsub("\n", "")
      assert.truthy(lines >= 50, listed)
    end)
  end

  it("refuses while the folder is gone, says so, and goes on when it is there again", function()
    local gateway = recording()
    local worker = gateway:workers()[1]
    os.execute("rm -r " .. gateway.journal)
    requests_until(gateway, function()
      return gateway:control("status").out:find("CANNOT BE WRITTEN: No such file or directory", 1, true)
    end, "the status to tell it")
    assert.equal(503, gateway:get("/status/200").status)
    assert.truthy(gateway:manage("/health").body:find("cannot write the journal in", 1, true))
    assert(lfs.mkdir(gateway.journal))
    requests_until(gateway, function() return gateway:get("/status/200").status == 200 end, "the journal to be back")
    assert.equal(worker, gateway:workers()[1])
    for _ = 1, 20 do assert.equal(200, gateway:get("/status/200").status) end
    h.eventually(function()
      local _, lines = h.moongate({ "journal", "find", gateway.journal }).out:gsub("\n", "")
      return lines >= 20
    end, 5, "what was recorded since")
    gateway.baseline = gateway:descriptors() -- of files in the new folder
  end)
end)


describe("a gateway that is killed whole", function()
  after_each(h.cleanup)

  -- MOONGATE_TEST_GATEWAY_KILLS: how many times (4).
  it("has every exchange that a client saw answered, once", function()
    local folder, answered, kills = h.folder() .. "/journal", 0, tonumber(os.getenv("MOONGATE_TEST_GATEWAY_KILLS") or 4)
    for _ = 1, kills do
      local gateway = recording(folder)
      local load = h.load(gateway:url("/status/200"), 1)
      h.sleep(0.3 + math.random() * 0.4)
      gateway.may_end = true
      gateway.child:destroy()
      answered = answered + load.finish().requests + 1
    end
    recording(folder) -- recovers
    local result = h.moongate { "journal", "verify", folder }
    assert.equal(0, result.code, result.out)
    local accepted = tonumber(result.out:match("(%d+) exchanges accepted"))
    local open = tonumber(result.out:match("(%d+) without an end"))
    assert.truthy(accepted > answered, result.out .. answered) -- the last gateway's own request is one more
    assert.truthy(accepted <= answered + 1 + kills * 17, result.out .. answered) -- those under way at each kill
    assert.truthy(open <= kills * 17, result.out)
  end)
end)
