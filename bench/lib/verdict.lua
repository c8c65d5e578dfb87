-- verdict.lua - whether a session may be published: the rules that need the whole of it. Single runs are judged as
-- they come.
local verdict = {}

local HEADROOM = 1.10 -- the origin alone against the fastest row through a proxy
local REPEATS = 3
local BASELINE_SCENARIOS = { passthrough = true, filtered = true, scripted = true, journal = true, peers = true }


local function saturated(row) return row.rps and not row.asked end


-- Where the origin alone is hardly faster than a proxy, the proxy was not what limited the rate.
local function check_headroom(session)
  local alone, best = {}, {}
  for _, row in ipairs(session.rows) do
    if saturated(row) then
      if row.scenario == "baseline" then
        alone[row.workload] = row.rps
      elseif BASELINE_SCENARIOS[row.scenario] and (not best[row.workload] or row.rps > best[row.workload].rps) then
        best[row.workload] = row
      end
    end
  end
  for workload, row in pairs(best) do
    if not workload:find("%-vary$") then
      if not alone[workload] then
        session:reason(("there is no baseline of the origin alone for %s"):format(workload))
      elseif alone[workload] < HEADROOM * row.rps then
        session:reason(("%s: the origin alone answers %.0f requests per second, less than %.2f times %s (%.0f)")
          :format(workload, alone[workload], HEADROOM, row.target, row.rps))
      end
    end
  end
end


local function check_repeats(session)
  local few, example = 0, nil
  for _, row in ipairs(session.rows) do
    local wanted = row.tool == "wrk" and BASELINE_SCENARIOS[row.scenario] and REPEATS or 1
    if row.n == 0 then
      session:reason(("%s, %s, %s: planned, but without a result"):format(row.scenario, row.target, row.workload))
    elseif row.n < wanted then
      few = few + 1
      example = example or ("%s, %s, %s: %d"):format(row.scenario, row.target, row.workload, row.n)
    end
  end
  if few > 0 then session:reason(("%d rows with fewer than %d repeats (%s)"):format(few, REPEATS, example)) end
end


-- facts: quick, git (before), git_after, tuning (a list of host.tuning), layout.
function verdict.judge(session, facts)
  if facts.quick then session:reason("a --quick run is for looking, not for publishing") end
  if not facts.git.commit then session:reason("the tree is no git checkout: what was measured cannot be named") end
  if facts.git.dirty then session:reason("the tree has changes that are not committed") end
  if facts.git_after.commit ~= facts.git.commit or facts.git_after.dirty ~= facts.git.dirty then
    session:reason("the tree changed during the run")
  end
  for _, item in ipairs(facts.tuning) do
    if item.state == "refused" or item.state == "differs" then
      session:reason(("%s is %s, not %s (%s)"):format(item.path, item.before, item.value:gsub("\t", " "), item.what))
    end
  end
  if facts.layout.note then session:reason(facts.layout.note) end
  check_repeats(session)
  check_headroom(session)
  if #session.rows == 0 then session:reason("nothing was measured") end
  return #session.reasons == 0
end

return verdict
