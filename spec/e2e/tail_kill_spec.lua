-- spec/e2e/tail_kill_spec.lua - a tailer killed at random moments: every exchange is delivered, and twice only what was
-- handed over after the last checkpoint. MOONGATE_TEST_KILLS=500 for a long run.
local h = require "spec.helper"
local tailing = require "spec.helper.tailing"

local KILLS = tonumber(os.getenv("MOONGATE_TEST_KILLS") or h.sanitized and 5 or 20)


local function config(folder, journal)
  h.make_folder(folder .. "/out")
  h.write(folder .. "/tailer.yaml", ([[
journal_dir: %s
checkpoint_dir: %s/checkpoint
poll_interval: 20ms
warc: { enabled: false }
json: { output: file, output_dir: %s/out, max_file_size: 100kb }
]]):format(journal, folder, folder))
  return { "--config", folder .. "/tailer.yaml" }
end


describe("a tailer that is killed", function()
  after_each(h.cleanup)

  it("delivers every exchange, again only what no checkpoint knew of", function()
    local gateway = tailing.gateway { server = "storage: { shard_size: 64kb }\n" }
    local folder = h.folder()
    local args = config(folder, gateway.journal)
    math.randomseed(os.time())
    local load = h.load(gateway:url(), KILLS, 20)
    local killed = 0
    for _ = 1, KILLS do
      local tailer = tailing.start(args)
      h.sleep(0.01 + math.random() * 0.15)
      if tailer.child:poll() then error("the tailer ended: " .. tailer.child:errors()) end
      tailer.child:signal(h.process.KILL)
      h.eventually(function() return tailer.child:poll() end, 5, "the tailer to be gone")
      killed = killed + 1
    end
    load.stop()
    local before = #tailing.delivered(folder .. "/out")
    local last = tailing.run(args, { seconds = 60 })
    assert.equal(0, last.code, last.err)
    local list = tailing.delivered(folder .. "/out")
    local again = tailing.complete(list, gateway.journal)
    io.stderr:write(("tail: %d kills, %d exchanges, %d delivered again\n"):format(killed, #list - again, again))
    assert.truthy(#list - before < (#list - again) / 2, "the checkpoint had not moved") -- the last run had little left
    local idle = tailing.run(args)
    assert.equal(0, idle.code, idle.err)
    assert.equal(#list, #tailing.delivered(folder .. "/out")) -- nothing is left to deliver
  end)

  it("goes on without a duplicate after SIGTERM", function()
    local gateway = tailing.gateway { server = "storage: { shard_size: 64kb }\n" }
    local folder = h.folder()
    local args = config(folder, gateway.journal)
    local load = h.load(gateway:url(), 10, 5)
    for _ = 1, 5 do
      local tailer = tailing.start(args)
      h.sleep(0.2)
      assert.equal(0, tailer.stop(), tailer.child:errors())
    end
    load.stop()
    local last = tailing.run(args, { seconds = 60 })
    assert.equal(0, last.code, last.err)
    assert.equal(0, tailing.complete(tailing.delivered(folder .. "/out"), gateway.journal))
  end)
end)
