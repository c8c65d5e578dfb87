-- spec/e2e/outputs_tail_spec.lua - an archive and lines that point into it, written by tailers that are killed.
-- MOONGATE_TEST_KILLS: how many (8).
local h = require "spec.helper"
local tailing = require "spec.helper.tailing"

local KILLS = math.min(tonumber(os.getenv("MOONGATE_TEST_KILLS") or 8), 500)


local function config(folder, journal)
  h.make_folder(folder .. "/out")
  h.write(folder .. "/tailer.yaml", ([[
journal_dir: %s
checkpoint_dir: %s/checkpoint
poll_interval: 20ms
warc: { output_dir: %s/out, exchanges: all, compression: gzip, max_file_size: 100kb, cdxj_index: true }
json: { output: file, output_dir: %s/out, max_file_size: 100kb }
]]):format(journal, folder, folder, folder))
  return { "--config", folder .. "/tailer.yaml" }
end


--- What stands in a gzip file from offset on.
local function unpacked(path, offset, length)
  local part = h.folder() .. "/part"
  h.write(part, h.process.read_file(path):sub(offset + 1, offset + length))
  return h.execute({ "gzip", "-dc", part }).out
end


describe("a tailer with an output that is whole only when it is closed", function()
  after_each(h.cleanup)

  it("refuses it before anything is written", function()
    local gateway = tailing.gateway()
    tailing.request(gateway, 3)
    local folder = h.folder()
    h.write(folder .. "/tailer.yaml", ([[
journal_dir: %s
checkpoint_dir: %s/checkpoint
warc: { output_dir: %s/warc }
json: { output: file, output_dir: %s/json }
outputs: [ { output: combined, options: { output: %s/x.log } }, { output: har, options: { output: %s/x.har } } ]
]]):format(gateway.journal, folder, folder, folder, folder, folder))
    h.make_folder(folder .. "/outputs")
    h.write(folder .. "/outputs/late.lua", [[
return { whole = true, open = function() assert(io.open("x.har", "w")):close() return {} end, write = function() end }
]])
    for _, args in ipairs {
      { gateway.journal, "--format", "har" },
      { gateway.journal, "--format", "har", "--follow" },
      { gateway.journal, "--format", "har", "--output", folder .. "/x.har" },
      { gateway.journal, "--format", "late" },
      { "--config", folder .. "/tailer.yaml" },
    } do
      local result = h.moongate({ "tail", unpack(args) }, { cwd = folder })
      assert.equal(1, result.code, result.err)
      assert.equal("", result.out)
      assert.truthy(result.err:find("is whole only when it is closed", 1, true), result.err)
      assert.equal(1, select(2, result.err:gsub("\n", "")), result.err)
      for _, pattern in ipairs { "%.har", "%.log$", "^warc$", "^json$" } do
        assert.same({}, tailing.files(folder, pattern), pattern)
      end
    end
  end)
end)


describe("a tailer with an archive and lines", function()
  after_each(h.cleanup)

  it("has every exchange in both, and each line leads to its records, however often it is killed", function()
    local gateway = tailing.gateway { server = "storage: { shard_size: 64kb }\n" }
    local folder = h.folder()
    local args = config(folder, gateway.journal)
    math.randomseed(os.time())
    local load = h.load(gateway:url(), KILLS, 20)
    for _ = 1, KILLS do
      local tailer = tailing.start(args)
      h.sleep(0.02 + math.random() * 0.2)
      assert.is_falsy(tailer.child:poll(), tailer.child:errors())
      tailer.child:signal(h.process.KILL)
      h.eventually(function() return tailer.child:poll() end, 5, "the tailer to be gone")
    end
    load.stop()
    local last = tailing.run(args, { seconds = 120 })
    assert.equal(0, last.code, last.err)
    assert.same({}, tailing.files(folder .. "/out", "%.open$"))
    local list = tailing.delivered(folder .. "/out")
    local again = tailing.complete(list, gateway.journal)
    io.stderr:write(("outputs: %d kills, %d exchanges, %d delivered again\n"):format(KILLS, #list - again, again))
    for i = 1, #list, math.ceil(#list / 50) do
      local line = list[i]
      local text = unpacked(folder .. "/out/" .. line.warc.file, line.warc.offset, line.warc.length)
      local _, records = text:gsub("WARC%-Moongate%-Request%-Id: " .. line.request_id, "")
      assert.equal(4, records, line.warc.file)
    end
    local sizes = {}
    for _, name in ipairs(tailing.files(folder .. "/out", "%.warc%.gz$")) do
      sizes[name] = #h.process.read_file(folder .. "/out/" .. name)
    end
    for _, line in ipairs(list) do
      local size = sizes[line.warc.file]
      assert.truthy(size and line.warc.offset + line.warc.length <= size, "a line leads nowhere")
    end
    assert.equal(#tailing.files(folder .. "/out", "%.warc%.gz$"), #tailing.files(folder .. "/out", "%.cdxj$"))
  end)
end)
