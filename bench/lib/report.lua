-- report.lua - what a session leaves for readers: REPORT.md, summary.tsv, report.json, environment.txt and pictures.
local cjson = require "cjson"
local plot = require "bench.lib.plot"
local process = require "bench.lib.process"

local report = {}

-- Column, field, format.
local COLUMNS = {
  { "scenario", "scenario", "%s" }, { "workload", "workload", "%s" }, { "what", "target", "%s" },
  { "tool", "tool", "%s" }, { "share", "share", "%s" },
  { "asked", "asked", "%.0f" }, { "n", "n", "%d" }, { "req/s", "rps", "%.0f" },
  { "± %", "spread", "%.1f" }, { "vs origin %", "against_baseline", "%.0f" },
  { "vs passthrough %", "against_passthrough", "%.0f" }, { "p50 us", "p50_us", "%.0f" }, { "p99 us", "p99_us", "%.0f" },
  { "p99.9 us", "p999_us", "%.0f" }, { "max us", "max_us", "%.0f" }, { "us/request", "cpu_us", "%.2f" },
  { "user", "user_us", "%.2f" }, { "kernel", "kernel_us", "%.2f" }, { "busy %", "busy_percent", "%.0f" },
  { "KiB", "memory_kib", "%.0f" }, { "bad", "bad", "%d" }, { "faults", "faults", "%d" }, { "marks", "mark_text", "%s" },
}


-- Adds to each row what is computed from others.
local function complete(session)
  for _, row in ipairs(session.rows) do
    local base = not row.asked and session:row("baseline", session.baseline_name, row.workload)
    local pass = not row.asked and session:row("passthrough", "moongate passthrough", row.workload)
    row.against_baseline = base and row.rps and row.rps / base.rps * 100 or nil
    row.against_passthrough = pass and row.rps and row.rps / pass.rps * 100 or nil
    row.busy_percent = row.busy and row.busy * 100
    row.mark_text = #row.marks > 0 and table.concat(row.marks, ", ") or nil
  end
end


local function cells(row, empty)
  local list = {}
  for i, column in ipairs(COLUMNS) do
    local value = row[column[2]]
    list[i] = value == nil and empty or column[3]:format(value)
  end
  return list
end


local function names()
  local list = {}
  for i, column in ipairs(COLUMNS) do list[i] = column[1] end
  return list
end


local function tsv(session)
  local lines = { table.concat(names(), "\t") }
  for _, row in ipairs(session.rows) do lines[#lines + 1] = table.concat(cells(row, ""), "\t") end
  return table.concat(lines, "\n") .. "\n"
end


-- Leaves out columns that say nothing in this table.
local function markdown_table(rows)
  local keep = {}
  for i, column in ipairs(COLUMNS) do
    for _, row in ipairs(rows) do
      local value = row[column[2]]
      if value ~= nil and value ~= 0 and i > 1 then keep[i] = true end
    end
  end
  local function line(list)
    local kept = {}
    for i in ipairs(COLUMNS) do if keep[i] then kept[#kept + 1] = list[i] end end
    return "| " .. table.concat(kept, " | ") .. " |"
  end
  local rule = {}
  for i in ipairs(COLUMNS) do rule[i] = i <= 5 and "---" or "--:" end
  local lines = { line(names()), line(rule) }
  for _, row in ipairs(rows) do lines[#lines + 1] = line(cells(row, "")) end
  return table.concat(lines, "\n") .. "\n"
end


local function rows_where(session, test)
  local found = {}
  for _, row in ipairs(session.rows) do if row.n > 0 and test(row) then found[#found + 1] = row end end
  return found
end


-- Writes the pictures; a list of their file names.
local function pictures(session, folder)
  local list, seen = {}, {}
  local function write(name, svg)
    process.write_file(folder .. "/" .. name, svg)
    list[#list + 1] = name
  end
  for _, row in ipairs(session.rows) do
    if not row.asked and not seen[row.workload] then
      seen[row.workload] = true
      local rows, shown = {}, {}
      for _, other in ipairs(rows_where(session, function(r) return not r.asked and r.workload == row.workload end)) do
        if not shown[other.target] then rows[#rows + 1] = other end
        shown[other.target] = true
      end
      if #rows > 0 then
        write("throughput-" .. row.workload .. ".svg", plot.throughput("Requests per second: " .. row.workload, rows))
        write("cost-" .. row.workload .. ".svg", plot.cost("Processor time per request: " .. row.workload, rows))
      end
    end
  end
  for _, scenario in ipairs { "sweep", "ladder" } do
    local rows = rows_where(session, function(r)
      return r.scenario == scenario and r.asked and r.p99_us and r.p99_us > 0 and r.target:find("^moongate")
    end)
    if #rows > 1 then
      write("latency-" .. scenario .. ".svg", plot.latency("Latency against load: " .. scenario, rows))
    end
  end
  return list
end


local function environment(facts)
  local lines = {}
  for _, fact in ipairs(facts.host) do lines[#lines + 1] = fact[1] .. ": " .. fact[2] end
  lines[#lines + 1] = "commit: " .. (facts.git.commit or "none") .. (facts.git.dirty and " with changes" or "")
  for _, version in ipairs(facts.versions) do lines[#lines + 1] = version[1] .. ": " .. version[2] end
  for _, role in ipairs { "proxy", "origin", "load" } do
    lines[#lines + 1] = ("processors of %s: %s"):format(role, table.concat(facts.layout[role], ","))
  end
  for _, item in ipairs(facts.tuning) do
    lines[#lines + 1] = ("tuning %s = %s: %s"):format(item.path, item.value:gsub("\t", " "), item.state)
  end
  lines[#lines + 1] = "command: " .. facts.command
  return table.concat(lines, "\n") .. "\n"
end


local function opening(session, publishable)
  local lines = { publishable and "# PUBLISHABLE" or "# NOT PUBLISHABLE", "" }
  for _, reason in ipairs(session.reasons) do lines[#lines + 1] = "- " .. reason end
  if #session.notes > 0 then lines[#lines + 1] = "\nNotes:\n" end
  for _, note in ipairs(session.notes) do lines[#lines + 1] = "- " .. note end
  return table.concat(lines, "\n") .. "\n"
end


local READING = [[

Medians of n runs; ± is peak to peak in per cent of the median. `us/request` is processor time of the whole process
group of what was measured, per request, user and kernel. Latencies of wrk rows are those of a closed loop; rows with a
rate that was asked for count from the moment each request was due. "past the knee" marks rates that were not reached
where that is the result.
]]


-- Writes everything into the session's folder.
function report.write(session, facts, publishable)
  local folder = session.folder
  complete(session)
  local parts = { opening(session, publishable), READING }
  local scenario_rows, order = {}, {}
  for _, row in ipairs(session.rows) do
    if not scenario_rows[row.scenario] then
      scenario_rows[row.scenario] = {}
      order[#order + 1] = row.scenario
    end
    table.insert(scenario_rows[row.scenario], row)
  end
  for _, scenario in ipairs(order) do
    parts[#parts + 1] = ("\n## %s\n\n%s"):format(scenario, markdown_table(scenario_rows[scenario]))
  end
  for _, name in ipairs(pictures(session, folder)) do parts[#parts + 1] = ("\n![%s](%s)\n"):format(name, name) end
  parts[#parts + 1] = "\n## Environment\n\n```\n" .. environment(facts) .. "```\n"
  process.write_file(folder .. "/REPORT.md", table.concat(parts))
  process.write_file(folder .. "/environment.txt", environment(facts))
  process.write_file(folder .. "/summary.tsv", tsv(session))
  process.write_file(folder .. "/report.json", cjson.encode {
    publishable = publishable, reasons = session.reasons, notes = session.notes, rows = session.rows,
    host = facts.host, git = facts.git, tuning = facts.tuning, layout = facts.layout, command = facts.command,
    versions = facts.versions,
  } .. "\n")
end

return report
