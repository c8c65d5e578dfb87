-- agree.lua - bench/agree: does moongate-load measure what an independent generator measures?
-- h2load releases its requests on a timer of 10 ms, all connections together, and counts from the moment it makes a
-- request ready. moongate-load can do the same (--arrival ticks, `service`), so the two can be held against each other;
-- everything else in the suite uses even gaps and counts from the moment a request was due. In a burst the generator's
-- own pace counts: it has a processor to itself here (the origin runs beside the gateway), and connections are few.
local host = require "bench.lib.host"
local process = require "bench.lib.process"
local session = require "bench.lib.session"
local stats = require "bench.lib.stats"
local tools = require "bench.lib.tools"

local SECONDS, ROUNDS = 4, 5
local TOLERANCE, TOLERANCE_US = 0.10, 100


-- 50th and 99th percentile of the third column of h2load's log: microseconds of each request.
local function read_log(path)
  local values = {}
  for line in io.lines(path) do values[#values + 1] = tonumber(line:match("^%S+%s+%S+%s+(%d+)")) end
  table.sort(values)
  local function at(share) return values[math.max(1, math.ceil(#values * share))] end
  return at(0.50), at(0.99)
end


local function run_h2load(s, target, rate, round)
  local log = ("%s/raw/h2load-%d.log"):format(s.folder, round)
  local code, _, errors = process.run({
    "h2load", "--h1", "--rps", math.floor(rate / s.connections), "-c", s.connections, "-D", SECONDS - 1,
    "--warm-up-time", 1, "--log-file", log, ("http://127.0.0.1:%d/api/get/items"):format(target.port),
  }, { out = log .. ".out", log = log .. ".err", cores = s.layout.load, seconds = SECONDS + 20 })
  if code ~= 0 then error({ failed = "h2load: " .. errors }, 0) end
  return read_log(log)
end


local function verdict(what, own, other)
  local apart = math.abs(own - other)
  local ok = apart <= TOLERANCE_US or apart <= TOLERANCE * other
  print(("%s: moongate-load %.0f us, h2load %.0f us: %s"):format(what, own, other, ok and "agree" or "DISAGREE"))
  return ok
end


local function measure(s)
  s.layout.origin = s.layout.proxy
  s:start_origin()
  local target = s:target("passthrough", "moongate", { routes = "passthrough" })
  if not target then error({ failed = "the gateway did not start" }, 0) end
  local options = { workload = "get", connections = s.connections, seconds = 3, cores = s.layout.load,
    raw = s.folder .. "/raw/most", build = s.build, own = true }
  local most = tools.saturate(target, options)
  if most.failed then error({ failed = most.failed }, 0) end
  local rate = math.floor(most.rps / 2 / s.connections) * s.connections
  print(("%d requests per second, half of what it can; %d connections; medians of %d"):format(rate, s.connections,
    ROUNDS))
  local own50, own99, other50, other99 = {}, {}, {}, {}
  process.write_file(s.folder .. "/get.http", "GET /api/get/items HTTP/1.1\nUser-Agent: h2load\n")
  for round = 1, ROUNDS do
    options.workload, options.rate, options.arrival = s.folder .. "/get.http", rate, "ticks"
    options.seconds, options.raw = SECONDS, ("%s/raw/own-%d"):format(s.folder, round)
    local own = tools.pace(target, options)
    if own.failed then error({ failed = own.failed }, 0) end
    own50[round], own99[round] = own.service_p50_us, own.service_p99_us
    other50[round], other99[round] = run_h2load(s, target, rate, round)
  end
  local first = verdict("p50", stats.median(own50), stats.median(other50))
  return verdict("p99", stats.median(own99), stats.median(other99)) and first
end


local function main(argv)
  local options = { build = "build", connections = 16 }
  for i = 1, #argv, 2 do
    local name = argv[i]:match("^%-%-(%a+)$")
    options[name or ""] = options[name or ""] and (tonumber(argv[i + 1]) or argv[i + 1]) or nil
    if not options[name or ""] then
      io.stderr:write "usage: bench/agree [--build DIR] [--connections N]\n"
      os.exit(2)
    end
  end
  local build = options.build
  process.catch_signals()
  local folder = process.temporary_folder()
  local s = session.new { build = process.absolute(build) or build, folder = folder, layout = host.layout(1),
    scale = session.QUICK, origin = "cheap", connections = options.connections, say = print }
  local ok, agreed = pcall(measure, s)
  process.stop_all()
  os.execute("rm -rf '" .. folder .. "'")
  if not ok then
    io.stderr:write("agree: ", type(agreed) == "table" and (agreed.failed or "interrupted") or tostring(agreed), "\n")
  end
  os.exit(ok and agreed and 0 or 1)
end

main(arg)
