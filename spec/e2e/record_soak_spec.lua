-- spec/e2e/record_soak_spec.lua - a journal at saturation whose old segments are deleted: memory and disk stay as they
-- are, and every request that the load generator counted was recorded once. MOONGATE_SOAK=600 for ten minutes.
local h = require "spec.helper"
local lfs = require "lfs"
local socket = require "socket"

local SECONDS = tonumber(os.getenv("MOONGATE_SOAK") or "6")
local CONNECTIONS = 16
local ROUND = 0.25
local MB = 1024 * 1024
-- AddressSanitizer holds freed memory back, 256 MB of it unless told otherwise: that would look like growth.
local SMALL_QUARANTINE = h.sanitized and { ASAN_OPTIONS = "quarantine_size_mb=1" } or nil
local LEVELS = [[
    journal:
      request: { level: HEADERS }
      response: { level: HEADERS }
]]
local VARY = [[
local n, headers = 0, wrk.headers
function request()
  n = n + 1
  headers["X-Request-Id"] = "0d9c2b1a-" .. n
  headers["Authorization"] = "Bearer token-" .. n * 7919 % 1000
  return wrk.format(nil, "/echo?n=" .. n)
end
]]


local function start_load(gateway)
  local script = h.folder() .. "/vary.lua"
  h.write(script, VARY)
  return h.spawn { "wrk", "-t1", "-c" .. CONNECTIONS, "-d" .. SECONDS .. "s", "--timeout", "5s", "-s", script,
    gateway:url "/" }
end


-- Megabytes of a folder's files that are on the disk.
local function disk_of(folder)
  local blocks = 0
  for name in lfs.dir(folder) do blocks = blocks + (lfs.attributes(folder .. "/" .. name, "blocks") or 0) end
  return blocks * 512 / MB
end


-- Megabytes of a process that are no file's.
local function memory_of(pid)
  for line in io.lines(("/proc/%d/status"):format(pid)) do
    local kilobytes = line:match("^RssAnon:%s+(%d+)")
    if kilobytes then return tonumber(kilobytes) / 1024 end
  end
end


-- Puts every sealed segment into seen: name -> { exchanges, first LSN, last LSN }.
local function note_segments(folder, seen)
  local listed = h.moongate { "journal", "ls", folder }
  for line in listed.out:gmatch("[^\n]+") do
    local name, exchanges, first, last = line:match("^(%S+%.mgj)%s.-(%d+) exchanges%s+LSN (%d+) to (%d+)")
    if name then
      seen[name] = { name = name, exchanges = tonumber(exchanges), first = tonumber(first), last = tonumber(last) }
    end
  end
end


-- Deletes what is older than a second; how many segments that were. Each must have been seen.
local function reap(folder, seen)
  local result = h.moongate { "reap", folder, "--ttl", "1s" }
  assert.equal(0, result.code, result.err)
  local deleted = 0
  for name in result.out:gmatch("deleted (%S+%.mgj)") do
    assert.truthy(seen[name], name .. " was deleted before it was counted")
    deleted = deleted + 1
  end
  return deleted
end


-- Exchanges of all segments, which must follow one another without a gap.
local function total(seen)
  local list, exchanges, expected = {}, 0, 1
  for _, segment in pairs(seen) do list[#list + 1] = segment end
  table.sort(list, function(a, b) return a.name < b.name end)
  for _, segment in ipairs(list) do
    assert.equal(expected, segment.first, segment.name)
    expected = segment.last + 1
    exchanges = exchanges + segment.exchanges
  end
  return exchanges
end


-- The largest of values from one index to another.
local function largest(values, from, to)
  local found = 0
  for i = from, to do found = math.max(found, values[i]) end
  return found
end


describe("a journal under load whose segments are deleted", function()
  after_each(h.cleanup)

  it("keeps to its memory and disk and holds every request once", function()
    local folder = h.folder() .. "/journal"
    local gateway = h.gateway {
      routes = h.route_to(h.builtin_origin().port, LEVELS), args = { "--journal", folder },
      server = "storage: { shard_size: 1mb }\n", env = SMALL_QUARANTINE,
    }
    local load, seen, deleted, disk, memory = start_load(gateway), {}, 0, {}, {}
    local began = socket.gettime()
    while not load:poll() do
      assert.is_true(socket.gettime() < began + SECONDS + 30, "wrk does not end")
      note_segments(folder, seen)
      deleted = deleted + reap(folder, seen)
      disk[#disk + 1], memory[#memory + 1] = disk_of(folder), memory_of(gateway:workers()[1])
      socket.sleep(ROUND)
    end
    gateway:stop()
    note_segments(folder, seen)
    local verified = h.moongate { "journal", "verify", folder }
    assert.equal(0, verified.code, verified.out .. verified.err)

    local text = load:output()
    local counted = tonumber(text:match("(%d+) requests in"))
    local recorded = total(seen)
    assert.is_nil(text:find("Non-2xx", 1, true), text)
    assert.is_true(recorded >= counted and recorded <= counted + CONNECTIONS,
      ("%d recorded, %d counted"):format(recorded, counted))
    assert.is_true(deleted > 0)
    local half = math.floor(#disk / 2)
    local disk_before, disk_after = largest(disk, 1, half), largest(disk, half + 1, #disk)
    local memory_before, memory_after = largest(memory, 1, half), largest(memory, half + 1, #memory)
    local figures = ("%d exchanges, %d segments deleted; disk %.1f, then %.1f MB; memory %.1f, then %.1f MB"):format(
      recorded, deleted, disk_before, disk_after, memory_before, memory_after)
    if os.getenv("MOONGATE_SOAK") then print(figures) end
    assert.is_true(disk_after < 1.5 * disk_before + 8, figures)
    assert.is_true(memory_after < memory_before + 2, figures)
  end)
end)
