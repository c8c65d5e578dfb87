-- scenarios.lua - what the suite measures, in the order in which it does.
-- Each scenario is a function of the session (lib/session.lua); --only picks one, --workload narrows the workloads.
local proxies = require "bench.lib.proxies"
local tools = require "bench.lib.tools"

local scenarios = {
  order = { "baseline", "passthrough", "filtered", "scripted", "journal", "routes", "peers", "sweep", "hello", "ladder",
    "connections", "soak" },
}


-- With s.seeded (a fault of known size, for checking the suite itself) the plain gateway has that fault.
local function gateway(s, routes)
  return s:target("moongate " .. routes, "moongate", { routes = routes == "passthrough" and s.seeded or routes })
end


-- Drops the targets that could not be started.
local function present(...)
  local list = {}
  for i = 1, select("#", ...) do list[#list + 1] = (select(i, ...)) end
  return list
end


function scenarios.baseline(s) s:compare("baseline", { s.origin_target }, s.workloads, true) end


function scenarios.passthrough(s) s:compare("passthrough", present(gateway(s, "passthrough")), s.workloads, true) end


function scenarios.filtered(s) s:compare("filtered", present(gateway(s, "filtered")), s.workloads, true) end


function scenarios.scripted(s) s:compare("scripted", present(gateway(s, "scripted")), s.workloads, true) end


-- Every level in a process of its own; FULL also with bodies that all differ, since repeated ones flatter a compressor.
function scenarios.journal(s)
  local targets = {}
  for _, level in ipairs { "METADATA", "HEADERS", "FULL" } do
    targets[#targets + 1] = s:target("moongate journal " .. level, "moongate", { routes = "journal", level = level })
  end
  s:compare("journal", targets, s.workloads, true)
  local plain = s.origin_target
  local varying = s:start_origin(true)
  local full = s:target("moongate journal FULL, bodies differ", "moongate", { routes = "journal", level = "FULL" })
  local none = s:target("moongate passthrough, bodies differ", "moongate", { routes = "passthrough" })
  for _, workload in ipairs(s.workloads) do
    s:compare("journal", present(none, full), { workload .. "-vary" }, false)
  end
  s:stop(varying.name)
  s.origin_target = plain
end


function scenarios.routes(s)
  local targets = {}
  for _, count in ipairs(s.scale.route_counts) do
    local name = ("moongate with %d routes"):format(count)
    -- with fewer than 1,000 routes the workload's paths need one that takes the rest
    local fields = count >= 1000 and { routes = "routes", count = count } or { routes = "some_routes", count = count }
    targets[#targets + 1] = s:target(name, "moongate", fields)
  end
  s:compare("routes", targets, { "routes" }, false)
end


function scenarios.peers(s)
  local targets = present(gateway(s, "passthrough"), gateway(s, "filtered"))
  for _, kind in ipairs(s.peers or proxies.peers) do targets[#targets + 1] = s:target(kind, kind, {}) end
  targets[#targets + 1] = s:target("floor", "floor", {})
  s:compare("peers", targets, s.workloads, true)
end


-- 99th percentile against load, up to what was measured as the most.
function scenarios.sweep(s)
  local target, workload = gateway(s, "passthrough"), s.workloads[1]
  if not target then return end
  if not s:row("passthrough", target.name, workload) then s:compare("passthrough", { target }, { workload }, false) end
  local most = s:row("passthrough", target.name, workload)
  if not most then return s:reason("sweep: no throughput was measured to take shares of") end
  for _, share in ipairs(s.scale.sweep) do
    local rate = math.floor(most.rps * share / 10000) * 100
    local rows = s:pace("sweep", { target }, workload, { rate = math.max(100, rate), knee = true })
    rows[1].share = share
  end
end


-- The public comparison of Spring Cloud Gateway: a static text, 10 threads, 200 connections.
function scenarios.hello(s)
  s:rounds {
    scenario = "hello", targets = present(s.origin_target, gateway(s, "passthrough")), workload = "hello", repeats = 1,
    warmup = s.scale.warmup,
    run = function(target, raw)
      return tools.saturate(target, { workload = "hello", connections = 200, threads = 10,
        seconds = s.scale.hello_seconds, cores = s.layout.load, raw = raw })
    end,
  }
end


-- The public comparison of the light proxy: fixed rates with 128 connections, origin alone and through the proxy.
function scenarios.ladder(s)
  for _, rate in ipairs(s.scale.ladder) do
    s:pace("ladder", present(s.origin_target, gateway(s, "passthrough")), "get",
      { rate = rate, connections = 128, seconds = s.scale.ladder_seconds, knee = true })
  end
end


-- The same work beside more and more connections: idle ones, then all of them active.
function scenarios.connections(s)
  local target = gateway(s, "passthrough")
  if not target then return end
  for _, count in ipairs(s.scale.connection_counts) do
    for _, kind in ipairs { "idle", "active" } do
      local idle = kind == "idle"
      local rows = s:pace("connections", { target }, "get",
        { rate = 2000, idle = idle and count or nil, connections = idle and 16 or count, knee = true })
      rows[1].share = ("%d %s"):format(count, kind)
    end
  end
end


-- Half of the load for long: does memory stay?
function scenarios.soak(s)
  local target = gateway(s, "passthrough")
  if not target then return end
  local most = s:row("passthrough", target.name, s.workloads[1])
  local rate = most and math.floor(most.rps / 200) * 100 or 2000
  s:pace("soak", { target }, s.workloads[1], { rate = rate, seconds = s.scale.paced_seconds })
  local before = target.child:memory_kib()
  s:pace("soak", { target }, s.workloads[1], { rate = rate, seconds = s.scale.soak_seconds })
  local after = target.child:memory_kib()
  s:note(("soak: %d KiB before, %d KiB after %d s at %d requests per second"):format(before, after,
    s.scale.soak_seconds, rate))
  if after > before * 1.2 + 2048 then s:reason("soak: memory grew from " .. before .. " to " .. after .. " KiB") end
end

return scenarios
