-- process.lua - child processes pinned to processors, what they cost, and the one place where the suite waits.
-- Owns: every child it started, until it was waited for.   Never: signal a process that it did not start.
-- SIGINT, SIGTERM and SIGHUP are blocked and looked at wherever the suite waits, so an interruption is an ordinary
-- error that unwinds through the same clean-up as any other. Children have process groups of their own and end with
-- their parent.
local ffi = require "ffi"
local lfs = require "lfs"

ffi.cdef [[
  struct bench_sigset { unsigned long bits[16]; };
  struct bench_timespec { long seconds, nanoseconds; };
  int sigemptyset(struct bench_sigset *set);
  int sigaddset(struct bench_sigset *set, int signal);
  int sigprocmask(int how, const struct bench_sigset *set, struct bench_sigset *old);
  int sigtimedwait(const struct bench_sigset *set, void *info, const struct bench_timespec *timeout);
  int clock_gettime(int clock, struct bench_timespec *time);
  int sched_setaffinity(int pid, size_t size, const void *mask);
  long sysconf(int name);
  int fork(void);
  int execv(const char *path, char *const argv[]);
  void _exit(int code);
  int kill(int pid, int signal);
  int waitpid(int pid, int *status, int options);
  int setpgid(int pid, int group);
  int chdir(const char *path);
  int dup2(int from, int to);
  int open(const char *path, int flags, ...);
  int close_range(unsigned first, unsigned last, int flags);
  int setenv(const char *name, const char *value, int overwrite);
  int prctl(int option, ...);
  char *mkdtemp(char *template);
  char *realpath(const char *path, char *resolved);
]]

local C = ffi.C
local INT, TERM, HUP, KILL = 2, 15, 1, 9
local SIG_BLOCK, SIG_UNBLOCK = 0, 1
local CLOCK_MONOTONIC, WNOHANG, PR_SET_PDEATHSIG, SC_CLK_TCK = 1, 1, 1, 2
local O_RDONLY, O_WRITE_NEW = 0, 1 + 64 + 512 -- O_WRONLY | O_CREAT | O_TRUNC
local TICK = tonumber(C.sysconf(SC_CLK_TCK))

local process = {}
local children = {}
local watched = ffi.new("struct bench_sigset")
C.sigemptyset(watched)
for _, signal in ipairs { INT, TERM, HUP } do C.sigaddset(watched, signal) end

local Child = {}
Child.__index = Child


-- From now on an interruption is an error thrown by process.sleep.
function process.catch_signals() C.sigprocmask(SIG_BLOCK, watched, nil) end


-- Seconds on a clock that only goes forward.
function process.now()
  local time = ffi.new("struct bench_timespec")
  C.clock_gettime(CLOCK_MONOTONIC, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end


-- Waits; raises { interrupted = signal } when the suite is to end, unless deaf is true.
function process.sleep(seconds, deaf)
  local whole = math.floor(seconds)
  local nothing = ffi.new("struct bench_sigset")
  local timeout = ffi.new("struct bench_timespec", whole, math.floor((seconds - whole) * 1e9))
  local signal = C.sigtimedwait(deaf and nothing or watched, nil, timeout)
  if signal > 0 then error({ interrupted = signal }, 0) end
end


-- Calls fn until it returns something true, at most so many seconds. What it returned, or nil.
function process.wait_for(fn, seconds, deaf)
  local deadline = process.now() + seconds
  while true do
    local value = fn()
    if value then return value end
    if process.now() > deadline then return nil end
    process.sleep(0.01, deaf)
  end
end


function process.read_file(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("*a")
  file:close()
  return text
end


function process.write_file(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
end


function process.absolute(path)
  local found = C.realpath(path, nil)
  return found ~= nil and ffi.string(found) or nil
end


-- The path of a program on PATH (or in the sbin folders, where servers are), or nil.
function process.find_program(name)
  if name:find("/", 1, true) then return lfs.attributes(name, "mode") == "file" and name or nil end
  for folder in ((os.getenv("PATH") or "") .. ":/usr/sbin:/usr/local/sbin:/usr/bin:/bin"):gmatch("[^:]+") do
    local path = folder .. "/" .. name
    if lfs.attributes(path, "mode") == "file" then return path end
  end
  return nil
end


function process.temporary_folder()
  local template = (os.getenv("TMPDIR") or "/tmp") .. "/moongate-bench.XXXXXX"
  local buffer = ffi.new("char[?]", #template + 1, template)
  assert(C.mkdtemp(buffer) ~= nil, "cannot make a folder below " .. template)
  return ffi.string(buffer)
end


local function redirect(path, flags, descriptor)
  local opened = C.open(path, flags, ffi.cast("int", 420)) -- 0644
  if opened < 0 then C._exit(126) end
  C.dup2(opened, descriptor)
end


local function pin(cores)
  local mask = ffi.new("uint64_t[16]")
  for _, core in ipairs(cores) do
    local word = math.floor(core / 64)
    mask[word] = bit.bor(mask[word], bit.lshift(1ULL, core % 64))
  end
  C.sched_setaffinity(0, 128, mask)
end


-- Runs in the forked child; does not return.
local function become(argv, options)
  C.setpgid(0, 0)
  C.prctl(PR_SET_PDEATHSIG, ffi.cast("unsigned long", KILL))
  C.sigprocmask(SIG_UNBLOCK, watched, nil)
  redirect("/dev/null", O_RDONLY, 0)
  redirect(options.out, O_WRITE_NEW, 1)
  redirect(options.log, O_WRITE_NEW, 2)
  C.close_range(3, 0xffffffff, 0)
  if options.cores then pin(options.cores) end
  if options.cwd then C.chdir(options.cwd) end
  for name, value in pairs(options.env or {}) do C.setenv(name, value, 1) end
  local vector = ffi.new("const char *[?]", #argv + 1)
  for i, text in ipairs(argv) do vector[i - 1] = text end
  C.execv(argv[1], ffi.cast("char *const *", vector))
  C._exit(127)
end


-- Starts argv. options: out and log (files for its output), cores (a list), cwd, env (name -> value, added).
function process.spawn(argv, options)
  local program = process.find_program(argv[1])
  if not program then return nil, argv[1] .. " is not installed" end
  local vector = { program, unpack(argv, 2) }
  for i = 1, #vector do vector[i] = tostring(vector[i]) end
  local pid = C.fork()
  if pid == 0 then become(vector, options) end
  if pid < 0 then return nil, "no further process can be started" end
  local child = setmetatable({ pid = pid, out = options.out, log = options.log }, Child)
  children[child] = true
  return child
end


-- The exit code once the child has ended, 128 + signal if one ended it; nil while it runs.
function Child:poll()
  if self.code then return self.code end
  local status = ffi.new("int[1]")
  if C.waitpid(self.pid, status, WNOHANG) ~= self.pid then return nil end
  local low = status[0] % 128
  self.code = low == 0 and math.floor(status[0] / 256) % 256 or 128 + low
  children[self] = nil
  return self.code
end


-- Every live process of a group: pid -> the fields of its stat line after the name.
local function group_members(group)
  local found = {}
  for name in lfs.dir("/proc") do
    local text = name:find("^%d+$") and process.read_file("/proc/" .. name .. "/stat")
    local rest = text and text:match(".*%)(.*)")
    if rest then
      local fields = {}
      for field in rest:gmatch("%S+") do fields[#fields + 1] = field end
      if tonumber(fields[3]) == group and fields[1] ~= "Z" then found[tonumber(name)] = fields end
    end
  end
  return found
end


-- Ends the child and whatever it started in its group: asks first, insists after three seconds.
function Child:stop()
  C.kill(-self.pid, TERM)
  process.wait_for(function() return self:poll() and next(group_members(self.pid)) == nil end, 3, true)
  if self:poll() and next(group_members(self.pid)) == nil then return end
  C.kill(-self.pid, KILL)
  process.wait_for(function() return self:poll() and next(group_members(self.pid)) == nil end, 3, true)
end


-- Processor seconds that the child's group has used: user, kernel. Its threads count; kernel threads that write pages
-- back for it do not.
function Child:processor_time()
  local user, kernel = 0, 0
  for _, fields in pairs(group_members(self.pid)) do
    user = user + tonumber(fields[12])
    kernel = kernel + tonumber(fields[13])
  end
  return user / TICK, kernel / TICK
end


-- The live processes of the child's group.
function Child:members()
  local pids = {}
  for pid in pairs(group_members(self.pid)) do pids[#pids + 1] = pid end
  return pids
end


-- Memory of the child's group in KiB, shared pages shared out (PSS).
function Child:memory_kib()
  local total = 0
  for pid in pairs(group_members(self.pid)) do
    local text = process.read_file(("/proc/%d/smaps_rollup"):format(pid)) or ""
    total = total + tonumber(text:match("Pss:%s+(%d+)") or 0)
  end
  return total
end


function Child:output() return process.read_file(self.out) or "" end
function Child:errors() return process.read_file(self.log) or "" end


-- The last words of a child, for messages.
function Child:last_words()
  local text = self:errors() .. self:output()
  return (text:sub(-400):gsub("%s+$", ""):gsub("%s*\n%s*", " / "))
end


-- Runs argv to its end, at most so many seconds: exit code (nil: it was ended for its length), output, errors.
function process.run(argv, options)
  local child, why = process.spawn(argv, options)
  if not child then return nil, "", why end
  local code = process.wait_for(function() return child:poll() end, options.seconds or 30)
  if not code then child:stop() end
  return code, child:output(), child:errors()
end


function process.stop_all()
  for child in pairs(children) do child:stop() end
end


-- Is there something that listens on this port of 127.0.0.1?
function process.listens(port)
  local socket = require("socket").tcp()
  socket:settimeout(0.3)
  local ok = socket:connect("127.0.0.1", port)
  socket:close()
  return ok ~= nil
end


function process.free_port()
  local server = assert(require("socket").bind("127.0.0.1", 0))
  local _, port = server:getsockname()
  server:close()
  return tonumber(port)
end

return process
