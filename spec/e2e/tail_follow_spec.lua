-- spec/e2e/tail_follow_spec.lua - a tailer beside a gateway: what it delivers, where it goes on, what it survives.
local h = require "spec.helper"
local tailing = require "spec.helper.tailing"


local function exists(path) return require("lfs").attributes(path, "mode") ~= nil end


-- A tailer's run that must succeed; its list.
local function run(...)
  local result = tailing.run({ ... }, { seconds = 60 })
  assert.equal(0, result.code, result.err)
  return result.list
end


local function refused(args, what)
  local result = tailing.run(args)
  assert.equal(1, result.code)
  assert.truthy(result.err:find(what, 1, true), result.err)
end


describe("moongate tail", function()
  after_each(h.cleanup)

  it("tells every exchange of a running gateway and ends at the journal's end", function()
    local gateway = tailing.gateway()
    tailing.request(gateway, 50)
    local list = run(gateway.journal)
    assert.equal(50, #list)
    for i, exchange in ipairs(list) do assert.equal("/" .. i, exchange.client_request.path) end
    assert.equal(0, tailing.complete(list, gateway.journal))
  end)

  it("follows: a line is there as soon as the answer is", function()
    local gateway = tailing.gateway()
    local tailer = tailing.start { gateway.journal }
    for i = 1, 5 do
      tailing.request(gateway, 1)
      h.eventually(function() return #tailer.list() == i end, 5, "line " .. i)
    end
    assert.equal(0, tailer.stop())
    assert.equal("", tailer.child:errors())
  end)

  it("says how soon a line follows an answer while the gateway is at rest", function()
    local gateway, now = tailing.gateway(), require("socket").gettime
    local tailer = tailing.start { gateway.journal }
    local client, waits, size = gateway:connect(), {}, 0
    h.sleep(0.3)
    for i = 1, 100 do
      client:get("/")
      local answered = now()
      while require("lfs").attributes(tailer.child.out, "size") == size and now() < answered + 5 do h.sleep(0) end
      waits[i] = (now() - answered) * 1000
      h.sleep(0.01)
      size = require("lfs").attributes(tailer.child.out, "size")
    end
    table.sort(waits)
    io.stderr:write(("tail: a line after %.2f ms, p99 %.2f ms\n"):format(waits[50], waits[99]))
    assert.truthy(waits[50] < 1000, "the tailer is not woken") -- it would sleep for a second
    assert.equal(100, #tailer.list())
    assert.equal(0, tailer.stop())
  end)

  it("ends with success when nobody reads any more", function()
    local gateway = tailing.gateway()
    local load = h.load(gateway:url(), 5, 5)
    local script = ("'%s' tail --format json --follow --from end '%s' 2>&1; echo code $? >&2"):format(h.executable,
      gateway.journal)
    local result = h.execute({ "sh", "-c", ("(%s) | head -1"):format(script) }, { seconds = 10 })
    load.stop()
    assert.equal(0, result.code)
    assert.truthy(result.out:find('^{"request_id":'), result.out)
    assert.equal("code 0\n", result.err)
  end)

  it("goes on from its checkpoint, and begins at the end when asked to", function()
    local gateway, folder = tailing.gateway(), h.folder()
    local checkpoint = folder .. "/checkpoint"
    tailing.request(gateway, 20)
    assert.equal(20, #run(gateway.journal, "--checkpoint", checkpoint))
    assert.equal(0, #run(gateway.journal, "--checkpoint", checkpoint))
    tailing.request(gateway, 3)
    assert.equal(3, #run(gateway.journal, "--checkpoint", checkpoint))
    assert.equal(23, #run(gateway.journal, "--checkpoint", checkpoint, "--from", "start"))
    assert.equal(0, #run(gateway.journal, "--from", "end"))
    local status = h.process.read_file(checkpoint .. "/status.json")
    assert.truthy(status:find('"lag_entries":0', 1, true), status)
  end)

  it("leaves an exchange under way to the next run, which delivers it once and whole", function()
    local release = false
    local origin = h.origin(function(stream, request)
      if request.target == "/slow" then h.eventually(function() return release end, 20, "the release") end
      stream:send(h.answer(200, "x"))
    end)
    local gateway, folder = tailing.gateway { port = origin.port }, h.folder()
    local slow = gateway:connect()
    slow:send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n")
    h.eventually(function() return #origin.requests == 1 end, 5, "the slow request")
    tailing.request(gateway, 10)
    assert.equal(10, #run(gateway.journal, "--checkpoint", folder .. "/c"))
    assert.equal(0, #run(gateway.journal, "--checkpoint", folder .. "/c"))
    release = true
    assert.equal(200, slow:response().status)
    local list = run(gateway.journal, "--checkpoint", folder .. "/c")
    assert.equal(1, #list)
    assert.equal("/slow", list[1].client_request.path)
    assert.is_nil(list[1].incomplete)
  end)

  it("selects as `journal find` does", function()
    local gateway = tailing.gateway()
    tailing.request(gateway, 12)
    assert.equal(4, #run(gateway.journal, "--path", "/1"))
    assert.equal(12, #run(gateway.journal, "--since", "1h", "--route", "all"))
    assert.equal(0, #run(gateway.journal, "--status", "5xx"))
  end)

  it("has every exchange once while workers are killed and segments go round", function()
    local gateway = tailing.gateway { workers = 2, server = "storage: { shard_size: 64kb }\n" }
    local tailer = tailing.start { gateway.journal }
    local load = h.load(gateway:url(), 20, 10)
    for _ = 1, 4 do
      h.sleep(0.4)
      gateway:kill_worker(gateway:workers()[1])
      h.eventually(function() return #gateway:workers() == 2 end, 5, "a new worker")
    end
    load.stop()
    local ids, n = tailing.ids(gateway.journal)
    local counts
    h.eventually(function()
      local distinct
      counts, distinct = tailing.count(tailer.list())
      return distinct >= n - 40 -- what was under way when a worker died is told at the next sign of its successor
    end, 10, "the tailer to catch up")
    assert.equal(0, tailer.stop())
    assert.equal("", tailer.child:errors())
    local unfinished = 0
    for id in pairs(ids) do
      if counts[id] then assert.equal(1, counts[id]) else unfinished = unfinished + 1 end
    end
    assert.truthy(unfinished <= 40, unfinished .. " were not delivered")
    gateway.baseline = gateway:descriptors()
  end)

  it("waits for an output that fails, says so once, and loses nothing", function()
    local gateway, folder = tailing.gateway(), h.folder()
    h.make_folder(folder .. "/outputs")
    h.write(folder .. "/outputs/moody.lua", [[
return {
  options = { output = { type = "string", default = "" } },
  open = function() return {} end,
  write = function(_, exchange)
    local down = io.open("down")
    if down then down:close() return nil, "the other side is down" end
    local file = assert(io.open("delivered", "a"))
    file:write(exchange.id and tostring(exchange.id) or "one", "\n")
    file:close()
    return true
  end,
}
]])
    h.write(folder .. "/down", "")
    local tailer = tailing.start({ gateway.journal, "--format", "moody", "--checkpoint", folder .. "/c" },
      { cwd = folder })
    tailing.request(gateway, 30)
    h.eventually(function() return tailer.child:errors():find("is down", 1, true) end, 5, "the complaint")
    h.sleep(0.5)
    assert.equal(1, select(2, tailer.child:errors():gsub("is down", "")))
    assert.is_false(exists(folder .. "/delivered"))
    assert(os.remove(folder .. "/down"))
    h.eventually(function() return tailer.child:errors():find("goes on after", 1, true) end, 10, "the recovery")
    h.eventually(function()
      return select(2, h.process.read_file(folder .. "/delivered"):gsub("\n", "")) == 30
    end, 5, "all exchanges")
    assert.equal(0, tailer.stop(), tailer.child:errors())
  end)

  it("passes damage with its place", function()
    local gateway = tailing.gateway { server = "storage: { shard_size: 64kb, compression: none }\n" }
    for _ = 1, 6 do tailing.request(gateway, 300) end
    gateway:stop()
    local segment = tailing.files(gateway.journal, "%.mgj$")[1]
    local file = assert(io.open(gateway.journal .. "/" .. segment, "r+b"))
    file:seek("set", 5000)
    file:write("rot")
    file:close()
    local result = tailing.run { gateway.journal }
    assert.equal(0, result.code)
    assert.truthy(result.err:find(segment:sub(1, -5) .. ": damaged at offset", 1, true), result.err)
    assert.truthy(result.err:find("entries LSN %d+ to %d+ are in no file"), result.err)
    assert.truthy(#result.list > 500, #result.list .. " exchanges are left")
  end)

  it("says when the journal is deleted underneath, and delivers what it had read", function()
    local gateway = tailing.gateway()
    tailing.request(gateway, 10)
    local tailer = tailing.start { gateway.journal, "--format", "json" }
    h.eventually(function() return #tailer.list() == 10 end, 5, "ten lines")
    gateway:stop()
    os.execute(("rm -rf '%s'"):format(gateway.journal))
    assert.equal(1, h.eventually(function() return tailer.child:poll() end, 5, "the tailer to end"))
    assert.truthy(tailer.child:errors():find("is gone", 1, true), tailer.child:errors())
  end)

  it("needs to read, never to write", function()
    if not h.process.is_root() then return pending("needs root, to read as somebody else") end
    local gateway = tailing.gateway()
    tailing.request(gateway, 10)
    os.execute(("chmod a+rx '%s' '%s/..'; chmod a+r '%s'/*"):format(gateway.journal, gateway.journal, gateway.journal))
    local result = tailing.run({ gateway.journal }, { uid = 65534 })
    assert.equal(0, result.code, result.err)
    assert.equal(10, #result.list)
  end)

  it("keeps everything when the disk of its output is full, and goes on when there is room", function()
    local gateway, folder = tailing.gateway(), h.folder()
    local small = folder .. "/small"
    h.make_folder(small)
    if os.execute(("mount -t tmpfs -o size=64k tmpfs '%s' 2>/dev/null"):format(small)) ~= 0 then
      return pending("mounting a small file system is not allowed here")
    end
    local ok, why = pcall(function()
      h.write(folder .. "/tailer.yaml", ([[
journal_dir: %s
checkpoint_dir: %s/checkpoint
warc: { enabled: false }
json: { output: file, output_dir: %s, max_file_size: 16kb }
]]):format(gateway.journal, folder, small))
      tailing.request(gateway, 200)
      local tailer = tailing.start { "--config", folder .. "/tailer.yaml" }
      h.eventually(function() return tailer.child:errors():find("No space left", 1, true) end, 5, "the complaint")
      os.execute(("mount -o remount,size=4m '%s'"):format(small))
      h.eventually(function() return select(2, tailing.count(tailing.delivered(small))) == 200 end, 15, "the rest")
      assert.equal(0, tailer.stop(), tailer.child:errors())
      assert.equal(0, tailing.complete(tailing.delivered(small), gateway.journal))
    end)
    h.process.destroy_all()
    os.execute(("umount '%s'"):format(small))
    gateway.may_end = true
    if not ok then error(why, 0) end
  end)
end)


describe("moongate tail refuses", function()
  after_each(h.cleanup)

  it("a second tailer on one checkpoint", function()
    local gateway, folder = tailing.gateway(), h.folder()
    tailing.request(gateway, 1)
    local first = tailing.start { gateway.journal, "--checkpoint", folder .. "/c" }
    h.eventually(function() return #first.list() == 1 end, 5, "the first tailer")
    refused({ gateway.journal, "--checkpoint", folder .. "/c" }, "another tailer is using the checkpoint")
    assert.equal(0, first.stop())
  end)

  it("a checkpoint that is damaged, of another journal, or of a later version", function()
    local gateway, other, folder = tailing.gateway(), tailing.gateway(), h.folder()
    local checkpoint = folder .. "/c/checkpoint"
    tailing.request(gateway, 5)
    tailing.request(other, 5)
    run(gateway.journal, "--checkpoint", folder .. "/c")
    refused({ other.journal, "--checkpoint", folder .. "/c" }, "is of another journal")
    local text = h.process.read_file(checkpoint)
    h.write(checkpoint, (text:gsub("delivered 5", "delivered 6")))
    refused({ gateway.journal, "--checkpoint", folder .. "/c" }, "is damaged")
    h.write(checkpoint, "hello\n")
    refused({ gateway.journal, "--checkpoint", folder .. "/c" }, "is no checkpoint of moongate")
    h.write(checkpoint, (text:gsub("checkpoint 1", "checkpoint 2")))
    refused({ gateway.journal, "--checkpoint", folder .. "/c" }, "newer moongate")
    assert.equal(5, #run(gateway.journal, "--checkpoint", folder .. "/c", "--from", "start"))
  end)

  it("a journal that is not there, and wrong words", function()
    refused({ "/nowhere/at/all" }, "cannot read the journal /nowhere/at/all: No such file or directory")
    for _, case in ipairs {
      { { "--form", "json" }, "did you mean --format?" },
      { { "--from", "middle" }, "--from takes start, end or checkpoint" },
      { { "--since", "yesterday" }, "--since takes 10m" },
      { { "--format" }, "needs a value" },
      { { "--from", "checkpoint" }, "needs --checkpoint" },
      { { "a", "b" }, "one folder at a time" },
    } do
      local result = tailing.run(case[1])
      assert.equal(2, result.code, result.err)
      assert.truthy(result.err:find(case[2], 1, true), result.err)
    end
  end)

  it("a tailer.yaml that is wrong, with every fault's place", function()
    local folder = h.folder()
    local path = folder .. "/tailer.yaml"
    h.write(path, "jurnal_dir: /x\nwarc: { zstd_level: 99 }\njson: { enabled: maybe }\npoll_interval: 5\n")
    local result = tailing.run { "--config", path }
    assert.equal(1, result.code)
    assert.truthy(result.err:find("tailer.yaml:1:1: unknown option jurnal_dir (did you mean journal_dir?)", 1, true))
    assert.truthy(result.err:find('tailer.yaml:2:21: warc.zstd_level: found "99"', 1, true), result.err)
    assert.truthy(result.err:find("tailer.yaml:3:18: json.enabled:", 1, true), result.err)
    assert.truthy(result.err:find("tailer.yaml:4:16: poll_interval:", 1, true), result.err)
    h.write(path, "warc: { enabled: false }\njson: { enabled: false }\n")
    refused({ "--config", path }, "no output is enabled")
    h.write(path, "outputs: [ { output: josn } ]\n")
    refused({ "--config", path }, "did you mean json?")
  end)
end)
