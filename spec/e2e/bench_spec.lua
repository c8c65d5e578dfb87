-- bench_spec.lua - the benchmark suite: its load generator counts what happened, its rules find what was seeded, an
-- interrupted run leaves nothing behind. Tiny runs: what is measured here is the suite, not the gateway.
local cjson = require "cjson"
local helper = require "spec.helper"
local process = helper.process

local build = process.absolute(os.getenv("MOONGATE") or "build/moongate"):match("^(.*)/")


local function load(port, template, ...)
  local folder = helper.folder()
  helper.write(folder .. "/request.http", template)
  local argv = { build .. "/moongate-load", "--request", folder .. "/request.http", ... }
  argv[#argv + 1] = "127.0.0.1:" .. port
  local result = helper.execute(argv)
  return result.code == 0 and cjson.decode(result.out) or nil, result
end


local function suite(...)
  local output = helper.folder() .. "/results"
  local result = helper.execute(
    { "bench/bench.sh", "--quick", "--no-tuning", "--build", build, "--output", output, ... }, { seconds = 120 })
  local text = process.read_file(output .. "/report.json")
  result.report = text ~= "" and cjson.decode(text) or nil
  result.folder = output
  return result
end


setup(function()
  if process.read_file(build .. "/moongate-load") ~= "" then return end
  local made = helper.execute({ "cmake", "--build", build, "--target", "bench" }, { seconds = 300 })
  assert(made.code == 0, made.out .. made.err)
end)

after_each(helper.cleanup)


describe("moongate-load", function()
  it("keeps the rate it was asked for and counts every answer", function()
    local origin = helper.builtin_origin()
    local run = assert(load(origin.port, "GET /bytes/100 HTTP/1.1\n", "--rate", "500", "--duration", "1.2",
      "--warmup", "0.2", "--connections", "8"))
    assert.equal(500, run.due)
    assert.equal(500, run.answered)
    assert.equal(50000, run.body_bytes)
    assert.equal(0, run.errors)
    assert.equal(600, run.sent)
    assert.is_true(math.abs(run.achieved_rate - 500) < 25)
    local latency = run.latency_us
    assert.is_true(latency.min <= latency.p50 and latency.p50 <= latency.p99 and latency.p99 <= latency.max)
  end)

  it("counts the wait of requests that were due while the server stood still", function()
    local origin = helper.origin(function(stream, _, n)
      if n == 100 then helper.sleep(0.5) end
      stream:send(helper.answer(200, "ok"))
    end)
    local run = assert(load(origin.port, "GET / HTTP/1.1\n", "--rate", "200", "--duration", "1.5", "--warmup", "0",
      "--connections", "1"))
    assert.equal(0, run.errors)
    assert.is_true(run.latency_us.p90 > 200000, "a third of the requests was due in the pause or right behind it")
    assert.is_true(run.service_us.p90 < 100000, "only one request waited on the wire")
  end)

  it("tells errors apart", function()
    local origin = helper.builtin_origin()
    local run = assert(load(origin.port, "GET /status/500 HTTP/1.1\n", "--rate", "100", "--duration", "1",
      "--warmup", "0"))
    assert.equal(100, run.errors_by_kind.status)
    assert.equal(100, run.statuses["5xx"])

    run = assert(load(origin.port, "GET /delay/5000 HTTP/1.1\n", "--rate", "20", "--duration", "1", "--warmup", "0",
      "--timeout", "0.2", "--connections", "4"))
    assert.is_true(run.errors_by_kind.timeout > 0)
    assert.equal(0, run.answered)
    assert.is_true(run.errors_by_kind.unsent > 0, "with four connections that wait, not all could be sent")
    assert.equal(20, run.errors_by_kind.timeout + run.errors_by_kind.unsent)

    local liar = helper.origin("HTTP/9.9 what\r\n\r\n")
    run = assert(load(liar.port, "GET / HTTP/1.1\n", "--rate", "20", "--duration", "1", "--warmup", "0"))
    assert.equal(20, run.errors_by_kind.malformed)

    local quitter = helper.origin(function() return false end)
    run = assert(load(quitter.port, "GET / HTTP/1.1\n", "--rate", "20", "--duration", "1", "--warmup", "0"))
    assert.equal(20, run.errors_by_kind.closed)
  end)

  it("says why it cannot run", function()
    local origin = helper.builtin_origin()
    local _, result = load(origin.port, "no request\n")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("is no request", 1, true))
    result = helper.execute { build .. "/moongate-load", "--rate", "fast", "127.0.0.1:1" }
    assert.equal(2, result.code)
    assert.truthy(result.err:find("rate: fast", 1, true))
  end)
end)


describe("bench.sh", function()
  it("shows its plan without measuring", function()
    local result = helper.execute { "bench/bench.sh", "--check", "--build", build }
    assert.equal(0, result.code, result.err)
    for _, word in ipairs { "proxy ", "origin ", "load ", "scenarios baseline, passthrough" } do
      assert.truthy(result.out:find(word, 1, true), word)
    end
    assert.equal(2, helper.execute({ "bench/bench.sh", "--build", build, "--only", "nonsense" }).code)
  end)

  it("sees a seeded slowdown in a comparison", function()
    local options = { "--only", "passthrough", "--seconds", "2", "--repeats", "3", "--workload", "get" }
    local plain = suite(unpack(options))
    local slow = suite("--seeded", "slow", unpack(options))
    assert.equal(0, plain.code, plain.err)
    assert.is_false(plain.report.publishable)
    assert.is_true(slow.report.rows[1].user_us > plain.report.rows[1].user_us + 0.5)
    local compared = helper.execute { "bench/compare", plain.folder, slow.folder }
    assert.equal(0, compared.code, compared.err)
    assert.truthy(compared.out:find("| passthrough | get | moongate passthrough |", 1, true))
    local slower = false
    for line in compared.out:gmatch("[^\n]+") do slower = slower or line:find("%(%+[%d%.]+ %%, WORSE%)") ~= nil end
    assert.is_true(slower, compared.out)
    local same = helper.execute { "bench/compare", plain.folder, plain.folder }
    assert.truthy(same.out:find("0 figures are worse", 1, true))
    assert.is_nil(same.out:find("WORSE", 1, true))
  end)

  it("does not let an error rate of 1 % be published", function()
    local result = suite("--seeded", "failing", "--only", "baseline,passthrough", "--workload", "get")
    assert.equal(0, result.code, result.err)
    assert.is_false(result.report.publishable)
    assert.truthy(result.out:find("NOT PUBLISHABLE", 1, true))
    local reasons = table.concat(result.report.reasons, "\n")
    assert.truthy(reasons:find("of the answers are errors", 1, true), reasons)
    local text = process.read_file(result.folder .. "/REPORT.md")
    assert.equal("# NOT PUBLISHABLE", text:match("^[^\n]*"))
    for _, name in ipairs { "summary.tsv", "environment.txt", "throughput-get.svg", "cost-get.svg" } do
      assert.is_true(#process.read_file(result.folder .. "/" .. name) > 0, name)
    end
    assert.is_true(#process.read_file(result.folder .. ".tar.gz") > 0)
  end)

  it("says when the gateway dies in the middle of a run", function()
    local folder = helper.folder()
    local child = helper.spawn({ "bench/bench.sh", "--quick", "--no-tuning", "--build", build, "--output",
      folder .. "/results", "--only", "passthrough", "--seconds", "3" }, { name = "suite" })
    local gateway = helper.eventually(function()
      for _, pid in ipairs(process.children_of(child.pid)) do
        if process.command_line(pid):find("moongate run", 1, true) then return pid end
      end
    end, 20, "the suite to start a gateway")
    helper.sleep(2)
    assert.is_true(process.signal_descendant(child.pid, gateway, process.KILL))
    helper.eventually(function() return child:poll() end, 60, "the suite to end")
    local report = cjson.decode(process.read_file(folder .. "/results/report.json"))
    assert.is_false(report.publishable)
    assert.truthy(table.concat(report.reasons, "\n"):find("moongate passthrough", 1, true))
  end)

  it("leaves nothing behind when it is interrupted, at any moment", function()
    for _, moment in ipairs { 0.1, 0.6, 1.3, 2.2 } do
      local folder = helper.folder()
      local child = helper.spawn({ "bench/bench.sh", "--quick", "--no-tuning", "--build", build, "--output",
        folder .. "/results", "--only", "passthrough,peers", "--seconds", "5" }, { name = "suite" })
      helper.sleep(moment)
      local below = process.children_of(child.pid)
      child:signal(process.INT)
      local code = helper.eventually(function() return child:poll() end, 20, "the suite to end")
      assert.equal(130, code, child:errors())
      for _, pid in ipairs(below) do assert.is_false(process.alive(pid), process.command_line(pid)) end
      local left = helper.execute { "pgrep", "-f", folder .. "/results" }
      assert.equal("", left.out)
    end
  end)
end)
