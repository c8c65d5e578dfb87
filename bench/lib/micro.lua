-- micro.lua - bench/micro: nanoseconds per operation, or instructions counted by callgrind and held against a baseline.
local lfs = require "lfs"
local process = require "bench.lib.process"

local USAGE = [[
usage: bench/micro [--build DIR]               nanoseconds per operation
       bench/micro --callgrind [--build DIR]   instructions per operation
       bench/micro --check [--build DIR]       the same against bench/baseline.tsv; exit 1 when one grew by over 10 %
       bench/micro --update [--build DIR]      writes bench/baseline.tsv
Exit code 77: it cannot be counted here, or the baseline is another compiler's.
]]
local BASELINE = "bench/baseline.tsv"
local GROWTH = 1.10
local SKIPPED = 77


local function skip(message)
  io.stderr:write("micro: skipped: ", message, "\n")
  return SKIPPED
end


local function compiler(folder)
  local _, text = process.run({ "cc", "--version" }, { out = folder .. "/cc.txt", log = folder .. "/cc.err" })
  local _, machine = process.run({ "uname", "-m" }, { out = folder .. "/cc.txt", log = folder .. "/cc.err" })
  return ((text:match("^[^\n]*") or "unknown") .. ", " .. (machine:match("%S+") or "unknown"))
end


-- Operation -> instructions per call, and the operations in order. Every dump of callgrind names its operation and
-- holds its total.
local function count(executable, folder)
  local code, text, errors = process.run(
    { "valgrind", "--tool=callgrind", "--callgrind-out-file=" .. folder .. "/profile", executable },
    { out = folder .. "/run.txt", log = folder .. "/run.err", seconds = 240 })
  if code ~= 0 then return nil, errors end
  local calls = tonumber(text:match("calls\t(%d+)"))
  if not calls then return nil, "the executable was built without valgrind's headers" end
  local counts, order, number = {}, {}, 1
  while true do
    local profile = process.read_file(("%s/profile.%d"):format(folder, number))
    if not profile then break end
    local name = profile:match("desc: Trigger: Client Request: ([%w_]+)")
    local total = profile:match("\ntotals: (%d+)") or profile:match("\nsummary: (%d+)")
    if name and total then
      counts[name] = tonumber(total) / calls
      order[#order + 1] = name
    end
    number = number + 1
  end
  if #order == 0 then return nil, "callgrind wrote no profile" end
  return counts, order
end


local function read_baseline()
  local text = process.read_file(BASELINE)
  if not text then return nil, "there is no " .. BASELINE end
  local counts = {}
  for name, number in text:gmatch("\n([%w_]+)\t(%d+)") do counts[name] = tonumber(number) end
  return counts, text:match("^# ([^\n]*)")
end


local function write_baseline(counts, order, made_by)
  local lines = { "# " .. made_by }
  for _, name in ipairs(order) do lines[#lines + 1] = ("%s\t%.0f"):format(name, counts[name]) end
  process.write_file(BASELINE, table.concat(lines, "\n") .. "\n")
end


-- 0, or 1 when an operation grew.
local function compare(counts, order, baseline)
  local grown = 0
  for _, name in ipairs(order) do
    local before = baseline and baseline[name]
    local verdict = ""
    if before then
      verdict = ("%+6.1f %%"):format((counts[name] / before - 1) * 100)
      if counts[name] > before * GROWTH then
        verdict = verdict .. "  GREW"
        grown = grown + 1
      end
    end
    print(("%-20s %10.0f instructions  %s"):format(name, counts[name], verdict))
  end
  for name in pairs(baseline or {}) do
    if not counts[name] then
      print(name .. " is in the baseline and was not counted")
      grown = grown + 1
    end
  end
  return grown == 0 and 0 or 1
end


local function measure(mode, build, folder)
  local executable = build .. "/moongate-micro"
  if not process.find_program(executable) then
    io.stderr:write("micro: ", executable, " is not built: cmake --build ", build, " --target bench\n")
    return 1
  end
  if not mode then
    local code, text, errors = process.run({ executable }, { out = folder .. "/run.txt", log = folder .. "/run.err",
      seconds = 120 })
    io.write(text, errors)
    return code or 1
  end
  if not process.find_program("valgrind") then return skip "valgrind is not installed" end
  local made_by = compiler(folder)
  local baseline, by = read_baseline()
  if mode == "check" and not baseline then return skip(by) end
  if mode == "check" and by ~= made_by then
    return skip(("the baseline was made with %s, this is %s"):format(by, made_by))
  end
  local counts, order = count(executable, folder)
  if not counts then
    io.stderr:write("micro: ", order, "\n")
    return 1
  end
  if mode == "update" then write_baseline(counts, order, made_by) end
  return compare(counts, order, mode == "check" and baseline or nil)
end


local function main(argv)
  local mode, build, i = nil, "build", 1
  while i <= #argv do
    local name = argv[i]:match("^%-%-(%a+)$")
    if name == "build" and argv[i + 1] then
      i = i + 1
      build = argv[i]
    elseif name == "callgrind" or name == "check" or name == "update" then
      mode = name
    else
      io.stderr:write(USAGE)
      os.exit(2)
    end
    i = i + 1
  end
  process.catch_signals()
  local folder = process.temporary_folder()
  local ok, code = pcall(measure, mode, build, folder)
  process.stop_all()
  for name in lfs.dir(folder) do os.remove(folder .. "/" .. name) end
  lfs.rmdir(folder)
  if not ok then
    io.stderr:write("micro: ", type(code) == "table" and "interrupted" or tostring(code), "\n")
    code = 1
  end
  os.exit(code)
end

main(arg)
