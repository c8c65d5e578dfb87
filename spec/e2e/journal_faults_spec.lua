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


describe("a gateway whose journal has no room", function()
  after_each(h.cleanup)

  local FULL = "    journal: { request: { level: FULL }, response: { level: METADATA } }\n"

  -- A folder that has the name of the space to be reserved keeps a segment from having a successor.
  it("says what it did not record, and has of a body what came before that", function()
    local folder = h.folder() .. "/journal"
    local blocked, pieces = folder .. "/shard-000.spare.new", {}
    local gateway = h.gateway {
      routes = h.route_to(h.builtin_origin().port, FULL), args = { "--journal", folder },
      server = "storage: { on_full: drop, stage_size: 64kb, shard_size: 64kb, compression: none }\n",
    }
    for i = 1, 100 do pieces[i] = ("%08d"):format(i):rep(1024) end
    local body = table.concat(pieces)
    local function is_full() return gateway:control("status").out:find("CANNOT BE WRITTEN", 1, true) end
    assert(lfs.mkdir(blocked))
    local client = gateway:connect()
    client:send(("POST /status/200 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"):format(#body))
    for i = 1, 80 do
      client:send(pieces[i])
      if i % 4 == 0 then assert.equal(200, gateway:get("/status/200").status) end
    end
    h.eventually(is_full, 5, "the journal to be full")
    for _ = 1, 5 do assert.equal(200, gateway:get("/status/200").status) end
    assert(lfs.rmdir(blocked))
    h.eventually(function() return not is_full() end, 5, "the journal to have room")
    for i = 81, 100 do client:send(pieces[i]) end
    assert.equal(200, client:response().status)
    assert.equal(200, gateway:get("/status/200").status)
    local verified = h.moongate { "journal", "verify", folder }
    assert.equal(0, verified.code, verified.out)
    assert.truthy(tonumber(verified.out:match("(%d+) dropped for want of space")) >= 5, verified.out)
    local recorded
    for line in h.moongate({ "journal", "cat", folder }).out:gmatch("[^\n]+") do
      local one = require("cjson").decode(line)
      if one.request.line:find("^POST") then recorded = one.request.body end
    end
    assert.truthy(#recorded > 0 and #recorded < #body)
    assert.truthy(body:sub(1, #recorded) == recorded, "a body with a part missing inside")
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

  it("has the shards sealed for which there is no worker any more", function()
    local folder = h.folder() .. "/journal"
    local function start(workers)
      return h.gateway { routes = h.route_to(h.builtin_origin().port, LEVEL), args = { "--journal", folder },
        workers = workers, server = "storage: { stage_size: 128kb, shard_size: 256kb }\n" }
    end
    local gateway = start(3)
    for _ = 1, 60 do assert.equal(200, gateway:get("/status/200").status) end
    gateway.may_end = true
    gateway.child:destroy()
    start(1)
    for name in lfs.dir(folder) do assert.is_nil(name:match("^shard%-00[12]%-.*%.open$")) end
    local result = h.moongate { "journal", "verify", folder }
    assert.equal(0, result.code, result.out)
    local accepted = 0
    for count in result.out:gmatch("(%d+) exchanges accepted") do accepted = accepted + tonumber(count) end
    assert.equal(60, accepted)
  end)
end)
