-- spec/helper/process.lua - child processes and the few system calls that specs need.
-- Owns: every child it started, until it was waited for.   Never: signal a process that it did not start.
-- A child is in a process group of its own and ends with its parent, so that a broken run leaves nothing behind.
local ffi = require "ffi"
local lfs = require "lfs"

ffi.cdef [[
  int fork(void);
  int execv(const char *path, char *const argv[]);
  void _exit(int code);
  int kill(int pid, int signal);
  int waitpid(int pid, int *status, int options);
  int setpgid(int pid, int group);
  int setuid(unsigned uid);
  int setgid(unsigned gid);
  unsigned getuid(void);
  int getpid(void);
  int chdir(const char *path);
  int chmod(const char *path, unsigned mode);
  int dup2(int from, int to);
  int open(const char *path, int flags, ...);
  int close_range(unsigned first, unsigned last, int flags);
  int setenv(const char *name, const char *value, int overwrite);
  int prctl(int option, ...);
  char *mkdtemp(char *template);
  char *realpath(const char *path, char *resolved);
]]

local C = ffi.C
local process = {
  TERM = 15, KILL = 9, INT = 2, HUP = 1, USR1 = 10, USR2 = 12, STOP = 19, CONT = 18,
}
local children = {}

local Child = {}
Child.__index = Child

local O_RDONLY, O_WRITE_NEW = 0, 1 + 64 + 512 -- O_WRONLY | O_CREAT | O_TRUNC
local PR_SET_PDEATHSIG = 1
local PR_SET_CHILD_SUBREAPER = 36
local WNOHANG = 1


local function redirect(path, flags, descriptor)
  local opened = C.open(path, flags, ffi.cast("int", 420)) -- 0644
  if opened < 0 then C._exit(126) end
  C.dup2(opened, descriptor)
end


-- Runs in the forked child; does not return.
local function become(argv, options)
  C.setpgid(0, 0)
  C.prctl(PR_SET_PDEATHSIG, ffi.cast("unsigned long", process.KILL))
  redirect("/dev/null", O_RDONLY, 0)
  redirect(options.out, O_WRITE_NEW, 1)
  redirect(options.log, O_WRITE_NEW, 2)
  C.close_range(3, 0xffffffff, 0)
  for name, value in pairs(options.env or {}) do C.setenv(name, value, 1) end
  if options.cwd then C.chdir(options.cwd) end
  if options.uid then
    C.setgid(options.uid)
    C.setuid(options.uid)
  end
  local vector = ffi.new("const char *[?]", #argv + 1)
  for i, text in ipairs(argv) do vector[i - 1] = text end
  C.execv(argv[1], ffi.cast("char *const *", vector))
  C._exit(127)
end


local function find_program(name)
  if name:find("/", 1, true) then return name end
  for folder in (os.getenv("PATH") or "/usr/bin:/bin"):gmatch("[^:]+") do
    local path = folder .. "/" .. name
    if lfs.attributes(path, "mode") == "file" then return path end
  end
  return nil, name .. " is not installed"
end
process.find_program = find_program


-- Starts argv with its output in the files options.out and options.log. options: env, cwd, uid.
function process.spawn(argv, options)
  local program = assert(find_program(argv[1]))
  local vector = { program, unpack(argv, 2) }
  local pid = C.fork()
  if pid == 0 then become(vector, options) end
  assert(pid > 0, "fork failed")
  local child = setmetatable({ pid = pid, out = options.out, log = options.log }, Child)
  children[child] = true
  return child
end


-- From now on processes whose parents end become children of this one. adopt takes such a process for a child that was
-- spawned like another one; :poll answers once its parent has gone.
function process.adopt_orphans() C.prctl(PR_SET_CHILD_SUBREAPER, ffi.cast("unsigned long", 1)) end


function process.adopt(pid, like)
  local child = setmetatable({ pid = pid, out = like.out, log = like.log }, Child)
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


function Child:signal(number)
  if not self:poll() then C.kill(self.pid, number) end
end


-- Ends the child and whatever it started in its group, without asking.
function Child:destroy()
  if self:poll() then return end
  C.kill(-self.pid, process.KILL)
  C.kill(self.pid, process.KILL)
  while not self:poll() do process.sleep(0.005) end
end


function process.read_file(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local text = file:read("*a")
  file:close()
  return text or ""
end


function Child:output() return process.read_file(self.out) end
function Child:errors() return process.read_file(self.log) end


function process.sleep(seconds) require("socket").sleep(seconds) end


-- The children of pid, oldest first.
function process.children_of(pid)
  local pids = {}
  for child in process.read_file(("/proc/%d/task/%d/children"):format(pid, pid)):gmatch("%d+") do
    pids[#pids + 1] = tonumber(child)
  end
  return pids
end


function process.command_line(pid)
  return (process.read_file(("/proc/%d/cmdline"):format(pid)):gsub("%z", " "))
end


function process.alive(pid)
  local state = process.read_file(("/proc/%d/stat"):format(pid)):match("^%d+ %b() (%a)")
  return state ~= nil and state ~= "Z"
end


-- Signals a process below a child of ours (a worker of our gateway).
function process.signal_descendant(parent, pid, number)
  for _, known in ipairs(process.children_of(parent)) do
    if known == pid then return C.kill(pid, number) == 0 end
  end
  error(("process %d is no child of %d"):format(pid, parent), 2)
end


-- How many descriptors pid has open; nil when it has gone.
function process.descriptors(pid)
  local path = ("/proc/%d/fd"):format(pid)
  if lfs.attributes(path, "mode") ~= "directory" then return nil end
  local ok, count = pcall(function()
    local n = 0
    for name in lfs.dir(path) do
      if name ~= "." and name ~= ".." then n = n + 1 end
    end
    return n
  end)
  return ok and count or nil
end


-- Private memory of pid in bytes: what it would give back if it ended.
function process.private_bytes(pid)
  local text = process.read_file(("/proc/%d/smaps_rollup"):format(pid))
  local dirty, clean = text:match("Private_Dirty:%s+(%d+)"), text:match("Private_Clean:%s+(%d+)")
  return dirty and (tonumber(dirty) + tonumber(clean)) * 1024 or nil
end


function process.temporary_folder()
  local template = (os.getenv("TMPDIR") or "/tmp") .. "/moongate-spec.XXXXXX"
  local buffer = ffi.new("char[?]", #template + 1, template)
  assert(C.mkdtemp(buffer) ~= nil, "cannot make a temporary folder")
  return ffi.string(buffer)
end


function process.is_root() return C.getuid() == 0 end
function process.chmod(path, mode) return C.chmod(path, mode) == 0 end


function process.absolute(path)
  local found = C.realpath(path, nil)
  return found ~= nil and ffi.string(found) or nil
end


function process.destroy_all()
  for child in pairs(children) do child:destroy() end
end

return process
