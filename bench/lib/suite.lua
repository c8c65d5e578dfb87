-- suite.lua - bench/bench.sh: reads the options, runs the scenarios, writes the report, puts everything back.
-- Owns: the output folder, the host's settings while it runs.   Ends: always through clean_up, interrupted or not.
local lfs = require "lfs"
local host = require "bench.lib.host"
local process = require "bench.lib.process"
local proxies = require "bench.lib.proxies"
local report = require "bench.lib.report"
local scenarios = require "bench.lib.scenarios"
local session = require "bench.lib.session"
local verdict = require "bench.lib.verdict"

local USAGE = [[
usage: bench/bench.sh [options]
  --quick              everything in three minutes, for looking; never publishable
  --check              show processors, tuning, tools and the plan; measure nothing
  --only A,B           these scenarios: %s
  --workload A,B       these workloads (default browser,get,post; with --quick get)
  --peers A,B|none     these peers (default: all that are installed of %s)
  --origin nginx|cheap the origin (default nginx where it has a processor of its own, else cheap)
  --proxy-cores N      at most so many processors for the proxy (default all that the layout gives)
  --seconds S, --repeats N   length and number of saturation runs
  --build DIR          where the executables are (default build)
  --output DIR         where the results go (default DIR of the executables/bench-results/DATE)
  --no-tuning          leave the host as it is
  --seeded slow|failing   give the gateway a fault of known size, to see that it is seen: 2 us a request, 1 %% of 500s
]]


local function usage(message)
  io.stderr:write("bench: ", message, "\n", USAGE:format(table.concat(scenarios.order, ", "),
    table.concat(proxies.peers, ", ")))
  os.exit(2)
end


local function split(text)
  local list = {}
  for word in text:gmatch("[^,]+") do list[#list + 1] = word end
  return list
end


-- ---- options ----

local WITH_VALUE = { only = split, workload = split, peers = split, origin = tostring, build = tostring,
  output = tostring, seeded = tostring, seconds = tonumber, repeats = tonumber, ["proxy-cores"] = tonumber }
local FLAGS = { quick = true, check = true, ["no-tuning"] = true }


local function read_options(argv)
  local options, i = { build = "build" }, 1
  while i <= #argv do
    local name = argv[i]:match("^%-%-(.+)$")
    if name == "help" then
      io.write(USAGE:format(table.concat(scenarios.order, ", "), table.concat(proxies.peers, ", ")))
      os.exit(0)
    elseif name and FLAGS[name] then
      options[name] = true
    elseif name and WITH_VALUE[name] then
      i = i + 1
      options[name] = argv[i] and WITH_VALUE[name](argv[i]) or usage(name .. " wants a value")
    else
      usage("unknown option " .. argv[i])
    end
    i = i + 1
  end
  for _, name in ipairs(options.only or {}) do
    if not scenarios[name] or name == "order" then usage("there is no scenario " .. name) end
  end
  for _, name in ipairs(options.workload or {}) do
    if name ~= "browser" and name ~= "get" and name ~= "post" then usage("there is no workload " .. name) end
  end
  for _, name in ipairs(options.peers or {}) do
    if name ~= "none" and not proxies.kinds[name] then usage("there is no peer " .. name) end
  end
  if options.origin and options.origin ~= "nginx" and options.origin ~= "cheap" then
    usage "the origin is nginx or cheap"
  end
  if options.seeded and options.seeded ~= "slow" and options.seeded ~= "failing" then
    usage "seeded is slow or failing"
  end
  if options.peers and options.peers[1] == "none" then options.peers = {} end
  return options
end


local function scale_of(options)
  local scale = {}
  for key, value in pairs(options.quick and session.QUICK or session.FULL) do scale[key] = value end
  scale.seconds = options.seconds or scale.seconds
  scale.repeats = options.repeats or scale.repeats
  return scale
end


local function missing_tools(build)
  local missing = {}
  for _, path in ipairs { build .. "/moongate", build .. "/moongate-load", build .. "/moongate-floor",
    build .. "/moongate-bench-origin", "wrk", "git", "tar" } do
    if not process.find_program(path) then missing[#missing + 1] = path end
  end
  return missing
end


-- ---- what is said before and after ----

local function versions(build, folder)
  local list = {}
  for _, name in ipairs { "moongate", "nginx", "haproxy", "caddy", "varnish", "trafficserver" } do
    local kind = proxies.kinds[name]
    if kind.available() then
      list[#list + 1] = { name, host.output_of(kind.version(build), folder) or "not known" }
    end
  end
  list[#list + 1] = { "wrk", (host.output_of({ "wrk", "-v" }, folder) or ""):match("^[^\n]*") }
  return list
end


local function show_plan(options, layout)
  for _, role in ipairs { "proxy", "origin", "load" } do
    print(("%-7s processor %s"):format(role, table.concat(layout[role], ", ")))
  end
  if layout.note then print("not publishable: " .. layout.note) end
  for _, item in ipairs(host.tuning(false)) do
    print(("%-9s %s = %s (%s)"):format(item.state, item.path, item.value:gsub("\t", " "), item.what))
  end
  for _, path in ipairs(missing_tools(options.build)) do print("missing   " .. path) end
  for _, name in ipairs(options.peers or proxies.peers) do
    local ok, why = proxies.kinds[name].available()
    print(("peer      %s: %s"):format(name, ok and "installed" or why))
  end
  print("scenarios " .. table.concat(options.only or scenarios.order, ", "))
end


-- ---- the run ----

local function run_scenarios(s, options)
  s.baseline_name = s:start_origin().name
  for _, name in ipairs(options.only or scenarios.order) do
    s.say(name)
    scenarios[name](s)
  end
end


local function pack(folder)
  local parent, name = folder:match("^(.*)/([^/]+)$")
  local tarball = folder .. ".tar.gz"
  local code, _, errors = process.run(
    { "tar", "-C", parent, "--exclude=journal", "--exclude=*.sock", "-czf", tarball, name },
    { out = "/dev/null", log = folder .. "/tar.err", seconds = 120 })
  os.remove(folder .. "/tar.err")
  return code == 0 and tarball or nil, errors
end


local function measure(options, s, facts)
  facts.host = host.facts(s.folder)
  facts.git = host.git(s.folder)
  facts.versions = versions(options.build, s.folder)
  facts.tuning = host.tuning(not options["no-tuning"])
  local ok, fault = xpcall(run_scenarios, function(fault)
    return type(fault) == "table" and fault or { failed = debug.traceback(tostring(fault)) }
  end, s, options)
  if not ok then
    s:reason(fault.interrupted and "the run was interrupted" or "the run broke off: " .. fault.failed)
  end
  s:stop_all()
  facts.git_after = host.git(s.folder)
  return ok and 0 or fault.interrupted and 130 or 1
end


local function clean_up()
  process.stop_all()
  host.restore()
end


local function open_session(options)
  local results = options.build .. "/bench-results"
  local folder = options.output or (results .. "/" .. os.date("!%Y%m%dT%H%M%SZ"))
  if not options.output then lfs.mkdir(results) end
  if not lfs.mkdir(folder) then usage(folder .. " is there already, or cannot be made") end
  local layout = host.layout(options["proxy-cores"])
  local own_core = layout.origin[1] ~= layout.load[1]
  return session.new {
    build = process.absolute(options.build), folder = process.absolute(folder), layout = layout,
    scale = scale_of(options),
    origin = options.origin or (own_core and proxies.kinds.nginx.available() and "nginx" or "cheap"),
    workloads = options.workload or (options.quick and { "get" } or { "browser", "get", "post" }),
    peers = options.peers, seeded = options.seeded,
    say = function(text) io.stderr:write(text, "\n") end,
  }
end


local function main(argv)
  local options = read_options(argv)
  if options.check then return show_plan(options, host.layout(options["proxy-cores"])) end
  local missing = missing_tools(options.build)
  if #missing > 0 then
    io.stderr:write("bench: missing: ", table.concat(missing, ", "), "\n")
    os.exit(1)
  end
  process.catch_signals()
  local s = open_session(options)
  if s.seeded then s:reason("the gateway has a seeded fault: " .. s.seeded) end
  local facts = { quick = options.quick, layout = s.layout, command = "bench/bench.sh " .. table.concat(argv, " ") }
  local ok, code = pcall(measure, options, s, facts)
  clean_up()
  if not ok then
    local interrupted = type(code) == "table" and code.interrupted
    io.stderr:write("bench: ", interrupted and "interrupted before anything was measured" or tostring(code), "\n")
    os.exit(interrupted and 130 or 1)
  end
  local publishable = verdict.judge(s, facts)
  report.write(s, facts, publishable)
  local tarball, why = pack(s.folder)
  print(publishable and "PUBLISHABLE" or ("NOT PUBLISHABLE (%d reasons)"):format(#s.reasons))
  print("report: " .. s.folder .. "/REPORT.md")
  print("tarball: " .. (tarball or "not made: " .. why))
  os.exit(code)
end

main(arg)
