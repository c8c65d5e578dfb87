-- cost.lua - bench/cost: what one proxied request costs in processor time, gateway by gateway, on one processor.
-- Everything that is compared is measured in turn within a round and compared by ratios taken round by round, so that
-- what drifts drops out. The gateway runs twice under two names: how far the two are apart is the noise.
local cjson = require "cjson"
local bounds = require "bench.lib.bounds"
local host = require "bench.lib.host"
local process = require "bench.lib.process"
local session = require "bench.lib.session"
local stats = require "bench.lib.stats"
local tools = require "bench.lib.tools"

local USAGE = [[
usage: bench/cost [options]
  --workload A,B   of browser, get, post, routes (default browser,get,post)
  --vary           ids, tokens and bodies differ from request to request
  --with A,B       what is measured beside passthrough and the floor: filtered, METADATA, HEADERS, FULL, routes1000,
                   nginx, haproxy, nginx-lua, idle, p99, calls, allocations (default all but the journal's levels;
                   routes1000 comes with the workload routes)
  --rounds N       (default 9)        --seconds S   length of one run (default 3)
  --build DIR      (default build)    --json FILE   the figures of every round
Exit code: 0 every bound met or inside the noise, 1 one missed or a run void, 2 wrong usage.
]]

local DEFAULT_WITH = { "filtered", "nginx", "haproxy", "nginx-lua", "idle", "p99", "calls", "allocations" }
local TARGETS = {
  passthrough = { "moongate", { routes = "passthrough" } }, again = { "moongate", { routes = "passthrough" } },
  filtered = { "moongate", { routes = "filtered" } },
  METADATA = { "moongate", { routes = "journal", level = "METADATA" } },
  HEADERS = { "moongate", { routes = "journal", level = "HEADERS" } },
  FULL = { "moongate", { routes = "journal", level = "FULL" } },
  routes1000 = { "moongate", { routes = "routes", count = 1000 } },
  nginx = { "nginx", {} }, haproxy = { "haproxy", {} }, ["nginx-lua"] = { "nginx-lua", {} }, floor = { "floor", {} },
}
local CONNECTION_CALLS = 64 * 20 -- about what making and ending the connections of a run takes, both sides
local WHOLE = { idle = true, p99 = true, calls = true, allocations = true } -- measured apart from the rounds


local function fail(message)
  io.stderr:write("cost: ", message, "\n", USAGE)
  os.exit(2)
end


local function split(text)
  local list = {}
  for word in text:gmatch("[^,]+") do list[#list + 1] = word end
  return list
end


local function read_options(argv)
  local options = { workload = { "browser", "get", "post" }, with = DEFAULT_WITH, rounds = 9, seconds = 3,
    build = "build" }
  local read = { workload = split, with = split, rounds = tonumber, seconds = tonumber, build = tostring,
    json = tostring }
  local i = 1
  while i <= #argv do
    local name = argv[i]:match("^%-%-(.+)$")
    if name == "vary" then
      options.vary = true
    elseif name == "help" then
      io.write(USAGE)
      os.exit(0)
    elseif name and read[name] then
      i = i + 1
      options[name] = argv[i] and read[name](argv[i]) or fail(name .. " wants a value")
    else
      fail("unknown option " .. argv[i])
    end
    i = i + 1
  end
  for _, name in ipairs(options.with) do
    if not TARGETS[name] and not WHOLE[name] then fail("there is nothing called " .. name) end
  end
  return options
end


-- ---- rounds ----

local function start_targets(s, options, workload)
  local names = { "passthrough", "again" }
  for _, name in ipairs(options.with) do
    if TARGETS[name] and name ~= "routes1000" then names[#names + 1] = name end
  end
  if workload == "routes" then names = { "passthrough", "again", "routes1000" } end
  names[#names + 1] = "floor"
  local targets = {}
  for _, name in ipairs(names) do targets[#targets + 1] = s:target(name, unpack(TARGETS[name])) end
  return targets
end


local function print_rows(workload, rows)
  local first = rows[1] and rows[1].cpu_us
  print(("\n%-14s %10s %7s %7s %7s %7s %9s %5s %6s %8s"):format(workload, "us/request", "user", "kernel", "min", "max",
    "req/s", "busy", "ratio", "PSS KiB"))
  for _, row in ipairs(rows) do
    if row.n > 0 then
      local low, high = math.huge, 0
      for _, run in ipairs(row.runs) do low, high = math.min(low, run.cpu_us), math.max(high, run.cpu_us) end
      print(("%-14s %10.2f %7.2f %7.2f %7.2f %7.2f %9.0f %4.0f%%%s %5.2f %8d"):format(row.target, row.cpu_us,
        row.user_us, row.kernel_us, low, high, row.rps, row.busy * 100, row.busy < 0.95 and "~" or " ",
        row.cpu_us / first, row.memory_kib))
    end
  end
end


local function say_bound(list, workload, bound)
  print(("  %-34s %7.3f   must %5.2f  aim %5s   %s"):format(bound.what, bound.seen, bound.must,
    bound.aim and ("%.2f"):format(bound.aim) or "-", bound.verdict))
  bound.workload = workload
  list[#list + 1] = bound
end


local function measure_rounds(s, options, workload, judged)
  local targets = start_targets(s, options, workload)
  local sent = options.vary and workload ~= "routes" and workload .. "-vary" or workload
  local rows = s:rounds {
    scenario = "cost", targets = targets, workload = sent, repeats = options.rounds, warmup = 1,
    run = function(target, raw)
      return tools.saturate(target, { workload = sent, connections = 64, seconds = options.seconds,
        cores = s.layout.load, raw = raw })
    end,
  }
  print_rows(sent, rows)
  local us = {}
  for _, row in ipairs(rows) do
    if row.n == options.rounds then
      us[row.target] = {}
      for i, run in ipairs(row.runs) do us[row.target][i] = run.cpu_us end
    end
  end
  local noise = us.again and us.passthrough and math.abs(stats.median_ratio(us.again, us.passthrough) - 1) or 0
  for _, bound in ipairs(bounds.judge(us, workload, noise)) do say_bound(judged, sent, bound) end
  print(("  noise: the same gateway twice is %.1f %% apart"):format(noise * 100))
  return rows, us
end


-- ---- measured apart ----

-- Memory that one of 10,000 idle connections takes.
local function measure_idle(s, judged)
  local target, count, seconds = s:target("passthrough", unpack(TARGETS.passthrough)), 10000, 8
  if not target then return end
  tools.pace(target, { workload = "get", rate = 1000, connections = 16, seconds = 2, cores = s.layout.load,
    raw = s.folder .. "/raw/idle-warm", build = s.build, own = true })
  local before = target.child:memory_kib()
  local load = assert(process.spawn({ s.build .. "/moongate-load", "--idle", count, "--connections", 1, "--rate", 10,
    "--duration", seconds, "127.0.0.1:" .. target.port },
    { out = s.folder .. "/raw/idle.txt", log = s.folder .. "/raw/idle.err", cores = s.layout.load }))
  local most = 0
  process.wait_for(function()
    most = math.max(most, target.child:memory_kib())
    return load:poll()
  end, seconds + 20)
  if load:poll() ~= 0 then return s:reason("idle connections: " .. load:last_words()) end
  local seen = (most - before) / count
  local limit = bounds.idle_connection_kib
  say_bound(judged, "idle", { what = "KiB per idle connection", seen = seen, must = limit.must, aim = limit.aim,
    verdict = bounds.word(seen, 0, limit.must, limit.aim) })
end


-- 99th percentile at half of what nginx and the gateway both can, beside nginx's in the same minutes: plain, and with
-- METADATA in the journal.
local function measure_p99(s, options, rates, judged)
  local ours, theirs = s.targets.passthrough, s.targets.nginx
  if not ours or not theirs or not rates.passthrough or not rates.nginx then return end
  local journal = s:target("METADATA", unpack(TARGETS.METADATA))
  local rate = math.floor(math.min(rates.passthrough, rates.nginx) / 200) * 100
  local p99 = { [ours] = {}, [theirs] = {}, [journal] = {} }
  for round = 1, math.min(5, options.rounds) do
    for _, target in ipairs { ours, theirs, journal } do
      local result = tools.pace(target, { workload = "get", rate = rate, connections = 64, seconds = options.seconds,
        cores = s.layout.load, raw = ("%s/raw/p99-%s-%d"):format(s.folder, target.name, round), build = s.build })
      if result.failed then return s:reason("p99: " .. result.failed) end
      table.insert(p99[target], result.p99_us)
    end
  end
  local other = stats.median(p99[theirs])
  print(("\np99 at %d requests per second, medians of %d: passthrough %.0f us, METADATA %.0f us, nginx %.0f us"):format(
    rate, #p99[ours], stats.median(p99[ours]), stats.median(p99[journal]), other))
  for _, row in ipairs { { "p99 above nginx's, us", ours, bounds.p99_above_nginx_us },
    { "p99 of METADATA above nginx's, us", journal, bounds.p99_of_metadata_above_nginx_us } } do
    local seen, limit = stats.median(p99[row[2]]) - other, row[3]
    say_bound(judged, "get", { what = row[1], seen = seen, must = limit.must, aim = limit.aim,
      verdict = bounds.word(seen, 0, limit.must, limit.aim) })
  end
end


-- System calls per request, counted by perf over one run.
local function count_calls(s, target, seconds)
  local out = ("%s/raw/calls-%s"):format(s.folder, target.name)
  local events = "raw_syscalls:sys_enter,syscalls:sys_enter_epoll_wait,syscalls:sys_enter_epoll_pwait"
  local members = table.concat(target.child:members(), ",")
  local perf = process.spawn(
    { "perf", "stat", "-x", ";", "-e", events, "-p", members, "-o", out .. ".perf", "sleep", seconds + 3 },
    { out = "/dev/null", log = out .. ".log", cores = s.layout.load })
  if not perf then return nil, "perf is not installed" end
  process.sleep(0.7)
  local result = tools.saturate(target, { workload = "get", connections = 64, seconds = seconds, cores = s.layout.load,
    raw = out })
  process.wait_for(function() return perf:poll() end, seconds + 10)
  local counts = {}
  for line in (process.read_file(out .. ".perf") or ""):gmatch("[^\n]+") do
    local count, event = line:match("^(%d+);[^;]*;([%w_:]+)")
    if count then counts[event:match("[%w_]+$")] = tonumber(count) end
  end
  if result.failed or not counts.sys_enter then return nil, result.failed or "perf may not count system calls here" end
  local polls = (counts.sys_enter_epoll_wait or 0) + (counts.sys_enter_epoll_pwait or 0)
  return (counts.sys_enter - polls) / result.requests, polls / result.requests, CONNECTION_CALLS / result.requests
end


local function measure_calls(s, options, judged)
  local ours, floor = s.targets.passthrough, s.targets.floor
  if not ours or not floor then return end
  local calls, polls, slack = count_calls(s, ours, options.seconds)
  local _, floor_polls = count_calls(s, floor, options.seconds)
  if not calls or type(floor_polls) ~= "number" then
    print("  system calls were not counted: " .. tostring(calls and floor_polls or polls))
    return
  end
  local limit = bounds.system_calls
  say_bound(judged, "get", { what = "system calls but epoll_wait", seen = calls, must = limit.must,
    verdict = bounds.word(calls, slack, limit.must) })
  say_bound(judged, "get", { what = "epoll_wait, beside the floor's", seen = polls, must = floor_polls,
    verdict = bounds.word(polls, floor_polls * 0.05, floor_polls) })
end


-- Heap allocations per request of a gateway with header filters that has had time to get warm.
local function measure_allocations(s, options, judged)
  local target = s:target("counted", "moongate", { routes = "filtered", count_allocations = true })
  if not target then return end
  local function count()
    local total = 0
    local bytes = process.read_file(target.folder .. "/allocations") or ""
    for i = 8, 1, -1 do total = total * 256 + (bytes:byte(i) or 0) end
    return total
  end
  local function run(seconds)
    return tools.saturate(target, { workload = "get", connections = 64, seconds = seconds, cores = s.layout.load,
      raw = s.folder .. "/raw/allocations" })
  end
  run(2)
  local before = count()
  local result = run(options.seconds)
  if before == 0 or result.failed then
    s:reason("allocations: " .. (result.failed or "nothing was counted"))
  else
    local seen, limit = (count() - before) / result.requests, bounds.allocations
    say_bound(judged, "get", { what = "heap allocations per request", seen = seen, must = limit.must, aim = limit.aim,
      verdict = bounds.word(seen, 0, limit.must, limit.aim) })
  end
  s:stop("counted")
end


-- ---- the whole ----

local function measure(s, options, result)
  s:start_origin(options.vary)
  for _, workload in ipairs(options.workload) do
    local rows, us = measure_rounds(s, options, workload, result.bounds)
    result.rounds[workload] = us
    for _, row in ipairs(rows) do
      if workload ~= "routes" then result.rates[row.target] = row.rps end
    end
  end
  local with = {}
  for _, name in ipairs(options.with) do with[name] = true end
  if with.p99 then measure_p99(s, options, result.rates, result.bounds) end
  if with.calls then measure_calls(s, options, result.bounds) end
  if with.allocations then measure_allocations(s, options, result.bounds) end
  if with.idle then measure_idle(s, result.bounds) end
end


local function main(argv)
  local options = read_options(argv)
  process.catch_signals()
  local folder = process.temporary_folder()
  local s = session.new { build = process.absolute(options.build) or options.build, folder = folder,
    layout = host.layout(1), scale = session.QUICK, origin = "cheap", workloads = options.workload,
    say = function(text) if not text:find("^  ") then print("# " .. text) end end }
  local result = { bounds = {}, rounds = {}, rates = {} }
  local ok, fault = xpcall(measure, function(fault)
    return type(fault) == "table" and fault or { failed = debug.traceback(tostring(fault)) }
  end, s, options, result)
  process.stop_all()
  os.execute("rm -rf '" .. folder .. "'")
  if not ok then s:reason(fault.interrupted and "interrupted" or fault.failed) end
  local missed = 0
  for _, bound in ipairs(result.bounds) do missed = missed + (bound.verdict == "MISSED" and 1 or 0) end
  print(("\n%d bounds met, %d missed, %d faults"):format(#result.bounds - missed, missed, #s.reasons))
  result.faults = s.reasons
  if options.json then process.write_file(options.json, cjson.encode(result) .. "\n") end
  os.exit(not ok and fault.interrupted and 130 or (missed > 0 or #s.reasons > 0) and 1 or 0)
end

main(arg)
