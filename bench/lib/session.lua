-- session.lua - one measurement session: what runs, what came of it, what speaks against publishing it.
-- Owns: the targets it started and the folder with the raw output.
local lfs = require "lfs"
local proxies = require "bench.lib.proxies"
local stats = require "bench.lib.stats"
local tools = require "bench.lib.tools"

local Session = {}
Session.__index = Session

local session = {}

-- Lengths in seconds, repeats, and how far scenarios go.
session.FULL = {
  seconds = 10, warmup = 5, repeats = 3, paced_seconds = 15, soak_seconds = 300, hello_seconds = 30, connections = 64,
  route_counts = { 1, 100, 1000, 10000 }, connection_counts = { 10, 100, 1000, 10000 },
  ladder = { 50, 100, 500, 1000, 5000, 10000 }, ladder_seconds = 10, sweep = { 50, 75, 90, 100 }, cost_rounds = 9,
}
session.QUICK = {
  seconds = 1, warmup = 0.5, repeats = 1, paced_seconds = 1.5, soak_seconds = 4, hello_seconds = 2, connections = 64,
  route_counts = { 1, 1000 }, connection_counts = { 10, 1000 }, ladder = { 100, 5000 }, ladder_seconds = 1.5,
  sweep = { 50, 90 }, cost_rounds = 3,
}


-- options: build, layout, folder (exists), scale (FULL or QUICK), origin ("nginx" or "cheap"), say (a function).
function session.new(options)
  local self = setmetatable(options, Session)
  self.rows, self.reasons, self.notes, self.targets, self.numbers = {}, {}, {}, {}, { raw = 0, target = 0 }
  for _, name in ipairs { "raw", "targets" } do lfs.mkdir(self.folder .. "/" .. name) end
  return self
end


-- Something that speaks against publishing; said once.
function Session:reason(text)
  for _, known in ipairs(self.reasons) do
    if known == text then return end
  end
  self.reasons[#self.reasons + 1] = text
  self.say("not publishable: " .. text)
end


function Session:note(text)
  self.notes[#self.notes + 1] = text
  self.say(text)
end


local function raw_path(self, ...)
  self.numbers.raw = self.numbers.raw + 1
  local words = table.concat({ ... }, "-"):gsub("[^%w%-]+", "_")
  return ("%s/raw/%03d-%s"):format(self.folder, self.numbers.raw, words)
end


-- Starts a target, or gives the running one of that name: nil when it cannot run, which is a reason unless it is a peer
-- that is not installed.
function Session:target(name, kind, fields)
  if self.targets[name] then return self.targets[name] end
  local context = { build = self.build, backend = self.origin_target and self.origin_target.port }
  for key, value in pairs(fields or {}) do context[key] = value end
  context.cores = context.cores or self.layout.proxy
  context.workers = #context.cores
  self.numbers.target = self.numbers.target + 1
  context.folder = ("%s/targets/%02d-%s"):format(self.folder, self.numbers.target, name:gsub("%W+", "_"))
  local target, why = proxies.start(name, kind, context)
  if not target then
    if proxies.kinds[kind].available() then self:reason(why) else self:note(why) end
    return nil
  end
  self.targets[name] = target
  return target
end


-- The origin, and the same as a target that nothing stands before.
function Session:start_origin(vary)
  local kind = self.origin == "nginx" and not vary and "nginx origin" or "cheap origin"
  local name = kind .. (vary and " (bodies differ)" or "")
  local target = self:target(name, kind, { cores = self.layout.origin, vary = vary })
  if not target then error({ failed = "without an origin there is nothing to measure" }, 0) end
  self.origin_target = target
  return target
end


function Session:stop(name)
  local target = self.targets[name]
  if target then target.child:stop() end
  self.targets[name] = nil
end


function Session:stop_all()
  for name in pairs(self.targets) do self:stop(name) end
end


local LATE_US = 100000 -- a generator that stands still this long does not measure the target


-- A result that did not come, came with errors, or missed its rate.
local function judge(self, what, result, past_knee_is_a_result)
  if result.failed then return self:reason(what .. ": " .. result.failed) end
  local total = math.max(1, result.requests)
  if result.faults > 0 then self:reason(("%s: %d socket errors or time-outs"):format(what, result.faults)) end
  if result.bad / total > 0.001 then
    self:reason(("%s: %.2f %% of the answers are errors"):format(what, result.bad / total * 100))
  end
  if (result.late_us or 0) > LATE_US then
    self:reason(("%s: the load generator itself stood still for %.0f ms"):format(what, result.late_us / 1e3))
  end
  local short = result.asked and result.rps < 0.95 * result.asked
  if short and not past_knee_is_a_result then
    self:reason(("%s: %.0f of %.0f requests per second"):format(what, result.rps, result.asked))
  end
end


local FIELDS = { "rps", "p50_us", "p99_us", "p999_us", "max_us", "user_us", "kernel_us", "cpu_us", "busy",
  "memory_kib" }


local function make_row(scenario, workload, target, runs)
  local row = { scenario = scenario, workload = workload, target = target.name, runs = runs, n = #runs, marks = {},
    bad = 0, faults = 0, unsent = 0, requests = 0, tool = runs[1] and runs[1].tool, asked = runs[1] and runs[1].asked }
  for _, field in ipairs(FIELDS) do row[field] = stats.median_of(runs, field) end
  row.spread = stats.spread_of(runs, "rps")
  row.cpu_spread = stats.spread_of(runs, "cpu_us")
  for _, result in ipairs(runs) do
    for _, field in ipairs { "bad", "faults", "unsent", "requests" } do row[field] = row[field] + result[field] end
  end
  if row.bad > 0 and row.bad / row.requests <= 0.001 then row.marks[#row.marks + 1] = "a few bad answers" end
  if row.asked and row.rps and row.rps < 0.95 * row.asked then row.marks[#row.marks + 1] = "past the knee" end
  return row
end


local function add_row(self, row)
  self.rows[#self.rows + 1] = row
  if row.n == 0 then return end
  self.say(("  %-12s %-12s %-30s %9.0f req/s  %7.2f us of processor  p99 %8.0f us"):format(row.scenario, row.workload,
    row.target, row.rps, row.cpu_us, row.p99_us or 0))
end


-- Measures targets with one workload, turn by turn, so that what drifts meets all of them. options: scenario, targets,
-- workload, repeats, warmup, run (a function: target, raw path -> result), knee (a missed rate is a result).
function Session:rounds(options)
  local results, able = {}, {}
  for _, target in ipairs(options.targets) do
    results[target] = {}
    local ok, why = tools.check(target, options.workload)
    if ok then able[#able + 1] = target else self:reason(why) end
    if ok and (options.warmup or 0) > 0 then
      tools.saturate(target, { workload = options.workload, connections = 64, seconds = options.warmup,
        cores = self.layout.load, raw = raw_path(self, options.scenario, target.name, options.workload, "warm") })
    end
  end
  for round = 1, options.repeats do
    for _, target in ipairs(able) do
      local result = options.run(target, raw_path(self, options.scenario, target.name, options.workload, round))
      judge(self, ("%s, %s, %s"):format(options.scenario, target.name, options.workload), result, options.knee)
      if not result.failed then table.insert(results[target], result) end
    end
  end
  local rows = {}
  for _, target in ipairs(options.targets) do
    local row = make_row(options.scenario, options.workload, target, results[target])
    add_row(self, row)
    rows[#rows + 1] = row
  end
  return rows
end


-- Saturation of each target with each workload, and where paced is set the latency at half of what was measured.
function Session:compare(scenario, targets, workloads, paced)
  local scale = self.scale
  for _, workload in ipairs(workloads) do
    local rows = self:rounds {
      scenario = scenario, targets = targets, workload = workload, repeats = scale.repeats, warmup = scale.warmup,
      run = function(target, raw)
        return tools.saturate(target, { workload = workload, connections = scale.connections, seconds = scale.seconds,
          cores = self.layout.load, raw = raw })
      end,
    }
    for i, target in ipairs(paced and targets or {}) do
      local half = rows[i].rps and math.floor(rows[i].rps / 200) * 100
      if half and half > 0 then self:pace(scenario, { target }, workload, { rate = half }) end
    end
  end
end


-- Fixed rate. options: rate, and of tools.pace connections, idle, seconds; knee.
function Session:pace(scenario, targets, workload, options)
  return self:rounds {
    scenario = scenario, targets = targets, workload = workload, repeats = 1, knee = options.knee,
    run = function(target, raw)
      return tools.pace(target, { workload = workload, rate = options.rate, idle = options.idle,
        connections = options.connections or self.scale.connections, cores = self.layout.load, raw = raw,
        seconds = options.seconds or self.scale.paced_seconds, build = self.build })
    end,
  }
end


-- The saturation row of a target, or nil.
function Session:row(scenario, target, workload)
  for _, row in ipairs(self.rows) do
    if row.scenario == scenario and row.target == target and row.workload == workload and not row.asked and row.rps then
      return row
    end
  end
end

return session
