-- spec/helper/activate.lua - what a service manager does with a socket: luajit activate.lua NAMES PROGRAM ARGUMENTS...
-- Opens a socket per name on a free port of 127.0.0.1, prints the ports, runs the program with the sockets from
-- descriptor 3 on, waits for its end, and then takes one connection on the first socket and says "kept" there.
local ffi = require "ffi"
local socket = require "socket"

ffi.cdef [[
  int fork(void);
  int getpid(void);
  int dup2(int from, int to);
  int setenv(const char *name, const char *value, int overwrite);
  int execv(const char *path, char *const argv[]);
  int waitpid(int pid, int *status, int options);
  int prctl(int option, ...);
  void _exit(int code);
]]
local C = ffi.C
local PR_SET_PDEATHSIG, KILL = 1, 9

local names, words = arg[1], { unpack(arg, 2) }
local servers, ports = {}, {}
for _ in names:gmatch("[^:]+") do
  local server = assert(socket.bind("127.0.0.1", 0))
  servers[#servers + 1] = server
  ports[#ports + 1] = select(2, server:getsockname())
end

local pid = C.fork()
if pid == 0 then
  C.prctl(PR_SET_PDEATHSIG, ffi.cast("unsigned long", KILL))
  for i, server in ipairs(servers) do C.dup2(server:getfd(), 100 + i) end
  for i in ipairs(servers) do C.dup2(100 + i, 2 + i) end
  C.setenv("LISTEN_PID", tostring(C.getpid()), 1)
  C.setenv("LISTEN_FDS", tostring(#servers), 1)
  C.setenv("LISTEN_FDNAMES", names, 1)
  local vector = ffi.new("const char *[?]", #words + 1)
  for i, word in ipairs(words) do vector[i - 1] = word end
  C.execv(words[1], ffi.cast("char *const *", vector))
  C._exit(127)
end
print("started " .. pid .. " on " .. table.concat(ports, " "))
io.flush()
local status = ffi.new("int[1]")
C.waitpid(pid, status, 0)
servers[1]:settimeout(10)
local client = servers[1]:accept()
if client then client:send("kept\n") end
os.exit(status[0] == 0 and 0 or 1)
