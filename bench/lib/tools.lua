-- tools.lua - one run of a load generator against one target: what it did, what it cost the target.
-- A result has tool, asked, rps, requests, seconds, p50_us, p99_us, p999_us, max_us, bad (answers other than 2xx and
-- 3xx), faults (everything else that went wrong), unsent, user_us, kernel_us, cpu_us (per request), busy (processors
-- that were busy), memory_kib, late_us (how long the generator itself stood still); or failed, a sentence.
local cjson = require "cjson"
local process = require "bench.lib.process"
local workloads = require "bench.lib.workloads"

local tools = {}
local UNITS = { us = 1, ms = 1e3, s = 1e6, m = 6e7, h = 3.6e9 }


local function microseconds(text)
  local number, unit = (text or ""):match("^([%d%.]+)(%a+)$")
  return number and tonumber(number) * UNITS[unit]
end


-- wrk's text, also wrk2's.
local function read_wrk(text)
  local requests = tonumber(text:match("(%d+) requests in"))
  if not requests or requests == 0 then return { failed = "no request was answered" } end
  local faults = 0
  for number in (text:match("Socket errors: ([^\n]*)") or ""):gmatch("%d+") do faults = faults + tonumber(number) end
  local result = {
    requests = requests, faults = faults, unsent = 0,
    bad = tonumber(text:match("Non%-2xx or 3xx responses: (%d+)") or 0),
    rps = tonumber(text:match("Requests/sec:%s*([%d%.]+)")),
    p50_us = microseconds(text:match("50%.?0*%%%s+(%S+)")),
    p99_us = microseconds(text:match("99%.?0*%%%s+(%S+)")),
    p999_us = microseconds(text:match("99%.90*%%%s+(%S+)")),
  }
  result.max_us = microseconds(text:match("Latency%s+%S+%s+%S+%s+(%S+)")) or result.p99_us
  return result
end


local function read_own(text)
  local ok, r = pcall(cjson.decode, text)
  if not ok then return { failed = "its result is no JSON" } end
  if r.answered == 0 then
    return { failed = ("no request was answered; the load generator stood still for up to %.0f ms")
      :format(r.generator_late_us / 1e3) }
  end
  local kinds, latency = r.errors_by_kind, r.latency_us
  return {
    requests = r.sent, rps = r.achieved_rate, asked = r.asked_rate, unsent = kinds.unsent, bad = kinds.status,
    faults = kinds.connect + kinds.closed + kinds.timeout + kinds.malformed + r.idle_lost,
    p50_us = latency.p50, p99_us = latency.p99, p999_us = latency.p999, max_us = latency.max,
    late_us = r.generator_late_us, service_p50_us = r.service_us.p50, service_p99_us = r.service_us.p99,
  }
end


-- Runs argv beside a target and says what the target paid. raw: where its output goes, without an ending.
local function run(target, argv, options, read)
  local out = options.raw .. ".txt"
  local user, kernel = target.child:processor_time()
  local before = process.now()
  local code, text, errors = process.run(argv, {
    out = out, log = options.raw .. ".err", cores = options.cores, seconds = options.seconds + 30,
  })
  local wall = process.now() - before
  local memory = target.child:memory_kib()
  local user_after, kernel_after = target.child:processor_time()
  if target.child:poll() then
    return { failed = ("%s ended during the run: %s"):format(target.name, target.child:last_words()) }
  end
  if code ~= 0 then
    return { failed = ("%s: exit code %s: %s"):format(argv[1]:match("[^/]+$"), tostring(code), errors:sub(1, 200)) }
  end
  local result = read(text)
  if result.failed then return result end
  user, kernel = user_after - user, kernel_after - kernel
  result.user_us, result.kernel_us = user * 1e6 / result.requests, kernel * 1e6 / result.requests
  result.cpu_us = result.user_us + result.kernel_us
  result.busy = (user + kernel) / wall
  result.memory_kib = memory
  result.seconds = options.seconds
  return result
end


-- As fast as it goes: wrk, with options workload, connections, threads, seconds, cores, raw.
function tools.saturate(target, options)
  local script = options.raw .. ".lua"
  process.write_file(script, workloads.wrk_script(options.workload))
  local result = run(target, {
    "wrk", "-t" .. (options.threads or math.max(1, #options.cores)), "-c" .. options.connections,
    "-d" .. math.max(1, math.floor(options.seconds)) .. "s", "--timeout", "5s", "--latency", "-s", script,
    "http://127.0.0.1:" .. target.port,
  }, options, read_wrk)
  result.tool = "wrk"
  return result
end


-- At a rate that does not depend on the answers: moongate-load, or wrk2 where it is installed and nothing is asked for
-- that it cannot do. Further options: rate, warmup, idle, arrival, own (never wrk2).
function tools.pace(target, options)
  local wrk2 = not options.own and not options.idle and process.find_program("wrk2")
  if wrk2 then
    local script = options.raw .. ".lua"
    process.write_file(script, workloads.wrk_script(options.workload))
    local result = run(target, {
      wrk2, "-t1", "-c" .. options.connections, "-d" .. math.ceil(options.seconds) .. "s", "-R" .. options.rate,
      "--timeout", "5s", "--latency", "-s", script, "http://127.0.0.1:" .. target.port,
    }, options, read_wrk)
    result.tool, result.asked = "wrk2", options.rate
    return result
  end
  local result = run(target, {
    options.build .. "/moongate-load", "--request", options.workload, "--rate", options.rate,
    "--connections", options.connections, "--idle", options.idle or 0, "--duration", options.seconds,
    "--warmup", options.warmup or math.min(1, options.seconds / 4), "--arrival", options.arrival or "even",
    "127.0.0.1:" .. target.port,
  }, options, read_own)
  result.tool, result.asked = "moongate-load", options.rate
  return result
end


-- Does the target answer a workload rightly, and, where it is to edit headers, does it? true, or nil and why.
function tools.check(target, workload)
  local status, size, headers = workloads.exchange(target.port, workload)
  if not status then return nil, ("%s, %s: %s"):format(target.name, workload, size) end
  local wanted_status, wanted_size = workloads.answer(workload)
  if status ~= wanted_status or size ~= wanted_size then
    return nil, ("%s, %s: answered %d with %d bytes, not %d with %d"):format(target.name, workload, status, size,
      wanted_status, wanted_size)
  end
  local edits = target.context.routes == "filtered" or target.kind == "nginx-lua"
  if edits and (headers["x-gateway"] ~= "g" or not headers["x-correlation-id"] or headers["server"]) then
    return nil, ("%s, %s: its filters have no effect"):format(target.name, workload)
  end
  return true
end

return tools
