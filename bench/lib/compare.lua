-- compare.lua - bench/compare A B: two reports side by side, with what is inside the noise.
-- A difference counts when the two ranges of repeats do not touch; where a row has one run only, its range is taken to
-- be 10 % to either side.
local cjson = require "cjson"
local process = require "bench.lib.process"

local ASSUMED = 0.10

-- Field, heading, format, +1 where more is better.
local FIELDS = {
  { "rps", "req/s", "%.0f", 1 }, { "cpu_us", "us/request", "%.2f", -1 }, { "user_us", "user us", "%.2f", -1 },
  { "p99_us", "p99 us", "%.0f", -1 },
}


local function load(path)
  local text = process.read_file(path) or process.read_file(path .. "/report.json")
  local ok, report = pcall(cjson.decode, text or "")
  if not ok or type(report) ~= "table" or not report.rows then
    io.stderr:write("compare: ", path, " holds no report\n")
    os.exit(1)
  end
  return report
end


-- What a row is found again by: rates that follow from another row are not part of it, those of a ladder are.
local function key_of(row)
  local rate = row.scenario == "ladder" and row.asked or row.asked and "paced" or "saturated"
  return table.concat({ row.scenario, row.workload, row.target, row.share or "", rate }, "|")
end


local function range_of(row, field)
  local low, high = math.huge, -math.huge
  for _, run in ipairs(row.runs) do
    if run[field] then low, high = math.min(low, run[field]), math.max(high, run[field]) end
  end
  if #row.runs < 2 then low, high = low * (1 - ASSUMED), high * (1 + ASSUMED) end
  return low, high
end


local function cell(a, b, field, format, direction)
  local before, after = a[field], b[field]
  if not before or not after or before == 0 then return "", false end
  local change = (after / before - 1) * 100
  local low_a, high_a = range_of(a, field)
  local low_b, high_b = range_of(b, field)
  local real = low_b > high_a or low_a > high_b
  local word = not real and "inside the noise" or change * direction > 0 and "better" or "WORSE"
  return (format .. " -> " .. format .. " (%+.1f %%, %s)"):format(before, after, change, word), word == "WORSE"
end


local function print_opening(name, path, report)
  print(("%s: %s, %s, commit %s"):format(name, path, report.publishable and "publishable" or "NOT publishable",
    report.git and report.git.commit and report.git.commit:sub(1, 12) or "unknown"))
end


local function main(paths)
  if #paths ~= 2 then
    io.stderr:write "usage: bench/compare A B   (folders of bench/bench.sh, or their report.json)\n"
    os.exit(2)
  end
  local a, b = load(paths[1]), load(paths[2])
  print_opening("A", paths[1], a)
  print_opening("B", paths[2], b)
  local of_b, worse, alone = {}, 0, {}
  for _, row in ipairs(b.rows) do of_b[key_of(row)] = row end
  local headings = { "scenario", "workload", "what" }
  for _, field in ipairs(FIELDS) do headings[#headings + 1] = field[2] end
  print("\n| " .. table.concat(headings, " | ") .. " |\n|" .. (" --- |"):rep(#headings))
  for _, row in ipairs(a.rows) do
    local other = of_b[key_of(row)]
    of_b[key_of(row)] = nil
    if other and #row.runs > 0 and #other.runs > 0 then
      local name = row.target .. (row.asked and " at a fixed rate" or "") .. (row.share and (", " .. row.share) or "")
      local cells = { row.scenario, row.workload, name }
      for _, field in ipairs(FIELDS) do
        local text, is_worse = cell(row, other, field[1], field[3], field[4])
        cells[#cells + 1] = text
        worse = worse + (is_worse and 1 or 0)
      end
      print("| " .. table.concat(cells, " | ") .. " |")
    else
      alone[#alone + 1] = "A only: " .. key_of(row)
    end
  end
  for key in pairs(of_b) do alone[#alone + 1] = "B only: " .. key end
  table.sort(alone)
  if #alone > 0 then print("\n" .. table.concat(alone, "\n")) end
  print(("\n%d figures are worse by more than the noise"):format(worse))
end

main(arg)
