-- spec/e2e/reap_spec.lua - `moongate reap` beside a gateway and its tailers. Which segments go: spec/c/journal_reap.c.
local h = require "spec.helper"
local tailing = require "spec.helper.tailing"

local SMALL = "storage: { shard_size: 64kb, compression: none }\n" -- a segment is full after some hundred exchanges


-- A gateway with a journal of several sealed segments that goes on recording.
local function recorded()
  local gateway = tailing.gateway { server = SMALL }
  h.load(gateway:url(), 1).finish()
  h.eventually(function() return #tailing.files(gateway.journal, "%.mgj$") >= 4 end, 5, "four sealed segments")
  return gateway
end


local function reap(gateway, ...)
  return h.moongate { "reap", gateway.journal, ... }
end


local function lines(text) return select(2, text:gsub("\n", "")) end


describe("moongate reap", function()
  after_each(h.cleanup)

  it("deletes what a tailer has delivered, says each deletion, and neither side notices", function()
    local gateway, folder = recorded(), h.folder()
    local checkpoint = folder .. "/c"
    local none = reap(gateway, "--tailer", checkpoint, "--min-age", "0s")
    assert.equal(0, none.code)
    assert.truthy(none.err:find("nothing counts as delivered", 1, true), none.err)
    assert.equal("", none.out)
    local first = tailing.run { gateway.journal, "--checkpoint", checkpoint }
    assert.equal(0, first.code, first.err)
    local before = #tailing.files(gateway.journal, "%.mgj$")
    assert.equal("", reap(gateway, "--tailer", checkpoint).out) -- younger than an hour
    local dry = reap(gateway, "--tailer", checkpoint, "--min-age", "0s", "--dry-run")
    local first_line = "^would delete shard%-000%-0000000001%.mgj, %d+ bytes, age 0h%d+m, epoch 1 LSN 1 to %d+: deliv"
    assert.truthy(dry.out:find(first_line), dry.out)
    assert.equal(before, #tailing.files(gateway.journal, "%.mgj$"))
    local wet = reap(gateway, "--tailer", checkpoint, "--min-age", "0s")
    assert.equal(0, wet.code, wet.err)
    assert.equal(lines(dry.out), lines(wet.out))
    assert.equal(before - lines(wet.out), #tailing.files(gateway.journal, "%.mgj$"))
    tailing.request(gateway, 5)
    local second = tailing.run { gateway.journal, "--checkpoint", checkpoint }
    assert.equal("", second.err)
    assert.equal(5, #second.list)
  end)

  it("waits for the slowest tailer, and for an exchange that is not done", function()
    local release = false
    local origin = h.origin(function(stream, request)
      if request.target == "/slow" then h.eventually(function() return release end, 30, "the release") end
      stream:send(h.answer(200, "x"))
    end)
    local gateway = tailing.gateway { port = origin.port, server = SMALL }
    local folder = h.folder()
    local slow = gateway:connect()
    slow:send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n")
    h.eventually(function() return #origin.requests == 1 end, 5, "the slow request")
    for _ = 1, 6 do tailing.request(gateway, 300) end
    for _, name in ipairs { "a", "b" } do
      assert.equal(0, tailing.run({ gateway.journal, "--checkpoint", folder .. "/" .. name }).code)
    end
    local function reaped()
      return reap(gateway, "--tailer", folder .. "/a", "--tailer", folder .. "/b", "--min-age", "0s", "--dry-run").out
    end
    assert.equal("", reaped()) -- its beginning is in the first segment
    release = true
    assert.equal(200, slow:response().status)
    assert.equal(0, tailing.run({ gateway.journal, "--checkpoint", folder .. "/a" }).code)
    assert.equal("", reaped()) -- b has not seen its end
    assert.equal(0, tailing.run({ gateway.journal, "--checkpoint", folder .. "/b" }).code)
    assert.truthy(reaped():find("0000000001.mgj", 1, true))
  end)

  it("says when something goes that was not delivered", function()
    local gateway, folder = recorded(), h.folder()
    assert.equal(0, tailing.run({ gateway.journal, "--checkpoint", folder .. "/c" }).code)
    h.load(gateway:url(), 1).finish()
    local result = reap(gateway, "--ttl", "1ms", "--tailer", folder .. "/c", "--dry-run")
    assert.truthy(result.out:find(": older than --ttl\n", 1, true), result.out)
    assert.truthy(result.out:find("NOT delivered by every tailer", 1, true), result.out)
    local large = reap(gateway, "--max-size", "64kb", "--dry-run")
    assert.equal("", large.out)
    assert.truthy(large.err:find("was not delivered or is too young", 1, true), large.err)
    assert.truthy(lines(reap(gateway, "--max-size", "64kb", "--drop-unread", "--dry-run").out) > 2)
  end)

  it("goes on with --poll until it is told to end", function()
    local gateway = recorded()
    local child = h.spawn { h.executable, "reap", gateway.journal, "--ttl", "1ms", "--poll", "50ms" }
    h.eventually(function() return #tailing.files(gateway.journal, "%.mgj$") <= 1 end, 5, "the first deletions")
    h.load(gateway:url(), 1).finish()
    h.eventually(function() return #tailing.files(gateway.journal, "%.mgj$") <= 1 end, 5, "the later ones")
    child:signal(h.process.TERM)
    assert.equal(0, h.eventually(function() return child:poll() end, 5, "its end"))
    tailing.request(gateway, 3)
    assert.truthy(#tailing.run({ gateway.journal }).list >= 3)
  end)

  it("refuses what it does not understand", function()
    for _, case in ipairs {
      { {}, "nothing says what may be deleted", 2 },
      { { "--ttl", "soon" }, "--ttl takes a duration such as 7d or 12h, not soon", 2 },
      { { "--max-size", "7d" }, "--max-size takes a size such as 50gb, not 7d", 2 },
      { { "--ttl", "0s" }, "--ttl takes a duration such as 7d or 12h, not 0s: more than 0 is needed", 2 },
      { { "--max-size=0" }, "--max-size takes a size such as 50gb, not 0: more than 0 is needed", 2 },
      { { "--ttl=soon" }, "--ttl takes a duration such as 7d or 12h, not soon", 2 },
      { { "--tll", "7d" }, "did you mean --ttl?", 2 },
      { { "a", "b", "--ttl", "7d" }, "one folder at a time", 2 },
      { { "/nowhere/at/all", "--ttl", "7d" }, "cannot read the journal /nowhere/at/all: No such file", 1 },
    } do
      local result = h.moongate { "reap", unpack(case[1]) }
      assert.equal(case[3], result.code, result.err)
      assert.truthy(result.err:find(case[2], 1, true), result.err)
    end
  end)
end)
