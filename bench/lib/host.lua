-- host.lua - the machine: which processor does what, what is tuned for a run and put back, what readers must know.
-- Owns: the settings it changed, until host.restore.
local process = require "bench.lib.process"

local host = {}
local changed = {} -- path -> the value before
local CPU = "/sys/devices/system/cpu/"


local function first_line(path)
  local text = process.read_file(path)
  return text and text:match("^[^\n]*")
end


-- "0-2,5" as a list.
local function core_list(text)
  local list = {}
  for first, last in (text or ""):gmatch("(%d+)%-?(%d*)") do
    for core = tonumber(first), tonumber(last ~= "" and last or first) do list[#list + 1] = core end
  end
  return list
end


-- One processor of each physical core that this process may use.
local function usable_cores()
  local allowed = core_list(process.read_file("/proc/self/status"):match("Cpus_allowed_list:%s*(%S+)"))
  local seen, list = {}, {}
  for _, core in ipairs(allowed) do
    local siblings = first_line(CPU .. "cpu" .. core .. "/topology/thread_siblings_list") or tostring(core)
    if not seen[siblings] then list[#list + 1] = core end
    seen[siblings] = true
  end
  return list
end


-- Who runs where: { proxy, origin, load = lists of processors, note = what is shared, or nil }.
function host.layout(proxy_max)
  local cores = usable_cores()
  local function cut(first, last) return { unpack(cores, first, last) } end
  if #cores == 1 then
    return { proxy = cores, origin = cores, load = cores, note = "proxy, origin and load share one processor" }
  elseif #cores == 2 then
    return { proxy = cut(2, 2), origin = cut(1, 1), load = cut(1, 1), note = "origin and load share a processor" }
  elseif #cores == 3 then
    return { proxy = cut(3, 3), origin = cut(2, 2), load = cut(1, 1), note = "no processor is left for the system" }
  end
  local loads = math.max(1, math.floor((#cores - 2) / 2)) -- the first is the system's, the second the origin's
  local first_proxy = 3 + loads
  local last_proxy = math.min(#cores, first_proxy + (proxy_max or #cores) - 1)
  return { proxy = cut(first_proxy, last_proxy), origin = cut(2, 2), load = cut(3, 2 + loads) }
end


-- What a run would like to have: path, value, what it is for.
local function wanted()
  local list = {
    { "/proc/sys/net/ipv4/ip_local_port_range", "1024\t65535", "ports for many connections" },
    { "/proc/sys/net/ipv4/tcp_tw_reuse", "1", "ports that are used again" },
    { "/proc/sys/net/core/somaxconn", "4096", "queue of a listening socket" },
    { CPU .. "intel_pstate/no_turbo", "1", "a steady clock" },
    { CPU .. "cpufreq/boost", "0", "a steady clock" },
    { CPU .. "smt/control", "off", "cores of their own" },
  }
  for _, core in ipairs(core_list(first_line(CPU .. "online"))) do
    list[#list + 1] = { ("%scpu%d/cpufreq/scaling_governor"):format(CPU, core), "performance", "a steady clock" }
  end
  return list
end


-- Writes a setting; sysfs and procfs refuse at the write or at the close.
local function set(path, value)
  local file = io.open(path, "wb")
  if not file then return false end
  local ok = file:write(value)
  return file:close() and ok and true or false
end


-- Every setting as { path, value, before, state, what }. state: "as wanted", "absent" (this machine has no such thing),
-- "differs"; with apply, which changes what differs, "applied" or "refused".
function host.tuning(apply)
  local list = {}
  for _, item in ipairs(wanted()) do
    local path, value, what = unpack(item)
    local before = first_line(path)
    local state = before == nil and "absent" or before == value and "as wanted" or "differs"
    if value == "off" and (before == "notsupported" or before == "notimplemented" or before == "forceoff") then
      state = "as wanted"
    end
    if apply and state == "differs" then
      state = set(path, value) and "applied" or "refused"
      if state == "applied" then changed[path] = before end
    end
    list[#list + 1] = { path = path, value = value, before = before, state = state, what = what }
  end
  return list
end


function host.restore()
  for path, before in pairs(changed) do set(path, before) end
  changed = {}
end


local function output_of(argv, folder)
  local code, out, err = process.run(argv, { out = folder .. "/fact.out", log = folder .. "/fact.err", seconds = 10 })
  os.remove(folder .. "/fact.out")
  os.remove(folder .. "/fact.err")
  if not code then return nil end
  local text = out ~= "" and out or err
  return (text:gsub("%s+$", ""))
end
host.output_of = output_of


-- The state of the working tree: { commit, dirty }; commit nil outside a repository.
function host.git(folder)
  local commit = output_of({ "git", "rev-parse", "HEAD" }, folder)
  local status = output_of({ "git", "--no-optional-locks", "status", "--porcelain" }, folder)
  if not commit or not commit:find("^%x+$") then return { dirty = true } end
  return { commit = commit, dirty = status ~= "" }
end


-- Everything a reader must know about the machine: a list of { name, value }.
function host.facts(folder)
  local cpu = process.read_file("/proc/cpuinfo") or ""
  local facts = {}
  local function add(name, value) facts[#facts + 1] = { name, value or "not known" } end
  add("date", os.date("!%Y-%m-%dT%H:%M:%SZ"))
  add("processor", cpu:match("model name%s*:%s*([^\n]*)"))
  add("processors", first_line(CPU .. "online"))
  add("may use", process.read_file("/proc/self/status"):match("Cpus_allowed_list:%s*(%S+)"))
  add("virtual", cpu:find("hypervisor", 1, true) and "yes: other guests may take time" or "no sign of it")
  add("kernel", first_line("/proc/version"))
  add("kernel command line", first_line("/proc/cmdline"))
  add("memory", (process.read_file("/proc/meminfo") or ""):match("MemTotal:%s*([^\n]*)"))
  add("system", (process.read_file("/etc/os-release") or ""):match('PRETTY_NAME="([^"]*)"'))
  add("clock source", first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
  add("load average before", first_line("/proc/loadavg"))
  add("mitigations", first_line(CPU .. "vulnerabilities/spectre_v2"))
  add("compiler", (output_of({ "cc", "--version" }, folder) or ""):match("^[^\n]*"))
  add("luajit", output_of({ "luajit", "-v" }, folder))
  return facts
end

return host
