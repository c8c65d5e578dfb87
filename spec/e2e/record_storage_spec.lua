-- spec/e2e/record_storage_spec.lua - the storage settings of a journal, each with real traffic; whatever is set, every
-- exchange is there, once.
local h = require "spec.helper"
local socket = require "socket"

local COUNT = 60
local LEVELS = [[
    journal:
      request: { level: HEADERS }
      response: { level: HEADERS }
]]


-- A gateway that records, with storage settings as lines of YAML.
local function recording(storage, workers)
  local folder = h.folder() .. "/journal"
  local gateway = h.gateway {
    routes = h.route_to(h.builtin_origin().port, LEVELS), workers = workers, args = { "--journal", folder },
    server = "storage:\n" .. storage,
  }
  gateway.journal = folder
  return gateway
end


local function ask(gateway, count)
  local client = gateway:connect()
  for i = 1, count do
    client:send(("GET /echo?number=%d HTTP/1.1\r\nHost: a\r\nX-Request-Id: %d\r\n\r\n"):format(i, i))
    assert.equal(200, client:response().status)
  end
  client:close()
end


-- Stops it; exchanges found, bytes of segments.
local function stopped(gateway)
  gateway:stop()
  local verified = h.moongate { "journal", "verify", gateway.journal }
  assert.equal(0, verified.code, verified.out .. verified.err)
  local exchanges, bytes = 0, 0
  for size, count in h.moongate({ "journal", "ls", gateway.journal }).out:gmatch("(%d+) bytes.-(%d+) exchanges") do
    exchanges, bytes = exchanges + tonumber(count), bytes + tonumber(size)
  end
  return exchanges, bytes
end


local function number_at(bytes, offset)
  local value = 0
  for i = 7, 0, -1 do value = value * 256 + bytes:byte(offset + 1 + i) end
  return value
end


-- The last LSN that shard 0 has placed, as its doorbell says.
local function placed(gateway)
  local file = assert(io.open(gateway.journal .. "/journal.doorbell", "rb"))
  local bytes = file:read("*a")
  file:close()
  return number_at(bytes, 144)
end


describe("a journal's storage", function()
  after_each(h.cleanup)

  it("compresses, at every level there is, or does not", function()
    local sizes = {}
    local settings = { "compression: none", "compression_level: -7", "compression_level: 1", "compression_level: 19" }
    for _, storage in ipairs(settings) do
      local gateway = recording("  " .. storage .. "\n")
      ask(gateway, COUNT)
      local exchanges, bytes = stopped(gateway)
      assert.equal(COUNT, exchanges, storage)
      sizes[storage] = bytes
    end
    for i = 2, #settings do -- how they compare with one another is up to how busy the machine was: it shapes batches
      assert.is_true(sizes[settings[i]] < sizes["compression: none"], settings[i])
    end
  end)

  it("makes a whole segment present at once with pre_fault", function()
    local gateway = recording("  pre_fault: true\n  shard_size: 1mb\n")
    ask(gateway, COUNT)
    local present
    for line in io.lines(("/proc/%d/smaps"):format(gateway:workers()[1])) do
      if line:find("%.open$") then present = 0 end
      local rss = present and line:match("^Rss:%s+(%d+) kB")
      if rss then
        present = tonumber(rss)
        break
      end
    end
    assert.equal(1024, present)
    assert.equal(COUNT, (stopped(gateway)))
  end)

  for _, sync in ipairs { "20ms", "group", "process" } do
    it("records with sync: " .. sync, function()
      local gateway = recording("  sync: " .. sync .. "\n")
      ask(gateway, COUNT)
      assert.equal(COUNT, (stopped(gateway)))
    end)
  end

  it("says that a worker has one shard", function()
    local gateway = recording("  shard_count: 8\n", 2)
    ask(gateway, COUNT)
    local message = "shard_count 8: there is one shard for each worker, so there are 2"
    h.eventually(function() return gateway:log():find(message, 1, true) end)
    assert.equal(COUNT, (stopped(gateway)))
    gateway = recording("  shard_count: 1\n", 1)
    assert.is_nil(gateway:log():find("shard_count", 1, true))
  end)

  it("places what is at rest within milliseconds, and tells readers", function()
    local gateway = recording("  sync: process\n")
    ask(gateway, 1)
    h.eventually(function() return placed(gateway) == 2 end, 5, "the first batch")
    local took = {}
    local client = gateway:connect()
    for i = 1, 21 do
      client:send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n")
      assert.equal(200, client:response().status)
      local answered = socket.gettime()
      while placed(gateway) < 2 + 2 * i and socket.gettime() < answered + 2 do socket.sleep(0.0005) end
      took[i] = socket.gettime() - answered
    end
    client:close()
    table.sort(took)
    assert.is_true(took[11] < 0.025, ("half of them took %.1f ms"):format(took[11] * 1000))
  end)
end)
