-- bounds.lua - what the gateway's processor time per request is held to, as data; and how a bound is judged.
-- Own cost is what a proxy takes beyond the floor, a relay that reads no HTTP, in the same round.
local stats = require "bench.lib.stats"

local bounds = {}

-- kind: "own" compares own costs, "ratio" whole costs, "difference" microseconds. workloads: nil for all.
bounds.list = {
  { what = "own cost / nginx's", kind = "own", of = "passthrough", to = "nginx",
    must = 0.50, aim = 0.30, workloads = { "browser", "get", "post" } },
  { what = "own cost / haproxy's", kind = "own", of = "passthrough", to = "haproxy",
    must = 0.65, aim = 0.45, workloads = { "browser", "get", "post" } },
  { what = "filtered - passthrough, us", kind = "difference", of = "filtered", to = "passthrough",
    must = 0.65, aim = 0.35 },
  { what = "filtered / nginx-lua", kind = "ratio", of = "filtered", to = "nginx-lua",
    must = 0.60, aim = 0.55 },
  { what = "journal METADATA / passthrough", kind = "ratio", of = "METADATA", to = "passthrough",
    must = 1.06, aim = 1.03 },
  { what = "journal HEADERS / passthrough", kind = "ratio", of = "HEADERS", to = "passthrough",
    must = 1.20, aim = 1.10 },
  { what = "journal FULL / passthrough", kind = "ratio", of = "FULL", to = "passthrough",
    must = 1.45, aim = 1.20, workloads = { "get", "post" } },
  { what = "journal FULL / passthrough", kind = "ratio", of = "FULL", to = "passthrough",
    must = 1.75, aim = 1.35, workloads = { "browser" } },
  { what = "1,000 routes / 1", kind = "ratio", of = "routes1000", to = "passthrough",
    must = 1.05, aim = 1.01, workloads = { "routes" } },
}

-- Of whole runs, in one place with the others: judged by cost.lua's own measurements.
bounds.idle_connection_kib = { must = 2, aim = 0.5 }
bounds.p99_above_nginx_us = { must = 300, aim = 0 }
bounds.p99_of_metadata_above_nginx_us = { must = 500, aim = 0 }
bounds.allocations = { must = 0.001, aim = 0 } -- per request; what a run makes once does not count
bounds.system_calls = { must = 4.0 } -- per request, without epoll_wait


local function applies(bound, workload)
  local base = workload:gsub("%-vary$", "")
  for _, name in ipairs(bound.workloads or { base }) do
    if name == base then return true end
  end
  return false
end


local function value_of(bound, us)
  local a, b = us[bound.of], us[bound.to]
  if bound.kind == "ratio" then return stats.median_ratio(a, b) end
  if bound.kind == "difference" then return stats.median_difference(a, b) end
  local own_a, own_b = {}, {}
  for i, floor in ipairs(us.floor) do own_a[i], own_b[i] = a[i] - floor, b[i] - floor end
  return stats.median_ratio(own_a, own_b)
end


function bounds.word(seen, slack, must, aim)
  if aim and seen <= aim then return "met, aim too" end
  if seen <= must then return "met" end
  return seen - slack <= must and "inside the noise" or "MISSED"
end


-- us: name -> microseconds per request, a value per round; noise: how far the same gateway, started twice, is apart
-- (0.01 for one per cent). A list of { what, seen, must, aim, verdict }.
function bounds.judge(us, workload, noise)
  local list = {}
  for _, bound in ipairs(bounds.list) do
    local there = us[bound.of] and us[bound.to] and (bound.kind ~= "own" or us.floor)
    local seen = there and applies(bound, workload) and value_of(bound, us)
    if seen then
      local slack = noise * (bound.kind == "difference" and stats.median(us.passthrough) or math.abs(seen))
      list[#list + 1] = { what = bound.what, seen = seen, must = bound.must, aim = bound.aim,
        verdict = bounds.word(seen, slack, bound.must, bound.aim) }
    end
  end
  return list
end

return bounds
