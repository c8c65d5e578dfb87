-- spec/helper/net.lua - raw TCP for specs: a client in the foreground, scripted peers as coroutines beside it.
-- Owns: a list of tasks and the sockets they wait for.   Never: block without a deadline, reuse a fixed port.
-- Whenever the foreground waits, the tasks run; so client, gateway and upstream move together in one process.
local socket = require "socket"

local net = { timeout = 10 }
local tasks = {} -- coroutine -> { sock, mode, deadline }
local faults = {}

local Stream = {}
Stream.__index = Stream
net.Stream = Stream


local function resume(task, ...)
  local ok, wait = coroutine.resume(task, ...)
  if not ok then faults[#faults + 1] = debug.traceback(task, tostring(wait)) end
  if coroutine.status(task) == "dead" then tasks[task] = nil else tasks[task] = wait end
end


-- Starts fn as a task; it runs up to its first wait.
function net.spawn(fn, ...)
  local task = coroutine.create(fn)
  tasks[task] = {}
  resume(task, ...)
end


local function is_in(list, sock)
  for i = 1, #list do
    if list[i] == sock then return true end
  end
  return false
end


-- Waits once for what the tasks or the foreground (its wait, may be nil) need, then runs the tasks that may go on.
local function step(foreground, longest)
  local reads, writes, until_time = {}, {}, socket.gettime() + longest
  local function add(wait)
    if wait.sock then
      local list = wait.mode == "w" and writes or reads
      list[#list + 1] = wait.sock
    end
    if wait.deadline and wait.deadline < until_time then until_time = wait.deadline end
  end
  for _, wait in pairs(tasks) do add(wait) end
  if foreground then add(foreground) end
  local readable, writable = socket.select(reads, writes, math.max(0, until_time - socket.gettime()))
  local now, ready = socket.gettime(), {}
  for task, wait in pairs(tasks) do
    local list = wait.mode == "w" and writable or readable
    if wait.sock and is_in(list, wait.sock) then ready[task] = "ready"
    elseif wait.deadline and wait.deadline <= now then ready[task] = "timeout"
    end
  end
  for task, why in pairs(ready) do
    if tasks[task] then resume(task, why) end
  end
  if not foreground then return "tick" end
  if is_in(foreground.mode == "w" and writable or readable, foreground.sock) then return "ready" end
  return socket.gettime() >= foreground.deadline and "timeout" or "tick"
end


local function wait_socket(sock, mode, deadline)
  local running = coroutine.running()
  local wait = { sock = sock, mode = mode, deadline = deadline }
  if running and tasks[running] then return coroutine.yield(wait) end
  while true do
    local outcome = step(wait, 0.5)
    if outcome ~= "tick" then return outcome end
  end
end


-- Lets time pass while the tasks run.
function net.sleep(seconds)
  local deadline = socket.gettime() + seconds
  local running = coroutine.running()
  if running and tasks[running] then return coroutine.yield { deadline = deadline } end
  repeat step(nil, math.max(0, deadline - socket.gettime())) until socket.gettime() >= deadline
end


-- Waits until fn returns a true value, which it returns; nil and a message after seconds.
function net.wait_for(fn, seconds, what)
  local deadline = socket.gettime() + (seconds or net.timeout)
  repeat
    local value = fn()
    if value then return value end
    net.sleep(0.01)
  until socket.gettime() >= deadline
  return nil, ("waited %g s for %s"):format(seconds or net.timeout, what or "a condition")
end


function net.stream(sock)
  sock:settimeout(0)
  sock:setoption("tcp-nodelay", true)
  return setmetatable({ sock = sock, buffer = "", received = 0 }, Stream)
end


function net.connect(port, options)
  local sock = assert(socket.tcp())
  if options and options.receive_buffer then sock:setoption("recv-buffer-size", options.receive_buffer) end
  sock:settimeout(5)
  local ok, err = sock:connect(options and options.host or "127.0.0.1", port)
  if not ok then
    sock:close()
    return nil, err
  end
  return net.stream(sock)
end


-- Listens on a free port and hands each accepted stream to on_stream in a task of its own.
function net.listen(on_stream, port)
  local listener = assert(socket.bind("127.0.0.1", port or 0, 128))
  listener:settimeout(0)
  local _, bound = listener:getsockname()
  local server = { sock = listener, port = tonumber(bound), streams = {} }
  net.spawn(function()
    while not server.closed do
      local sock = listener:accept()
      if sock then
        local stream = net.stream(sock)
        server.streams[#server.streams + 1] = stream
        net.spawn(on_stream, stream)
      else
        wait_socket(listener, "r")
      end
    end
  end)
  function server.close()
    if server.closed then return end
    server.closed = true
    net.forget(listener)
    listener:close()
    for _, stream in ipairs(server.streams) do stream:close() end
  end
  return server
end


-- Drops the tasks that wait for sock; it is about to be closed.
function net.forget(sock)
  for task, wait in pairs(tasks) do
    if wait.sock == sock then tasks[task] = nil end
  end
end


-- Reads what is there into the buffer. True, or nil and "timeout" or "closed".
function Stream:fill(seconds)
  if self.eof then return nil, "closed" end
  local deadline = socket.gettime() + (seconds or net.timeout)
  while true do
    local data, err, partial = self.sock:receive(65536)
    data = data or partial
    if data and #data > 0 then
      self.buffer = self.buffer .. data
      self.received = self.received + #data
      if err == "closed" then self.eof = true end
      return true
    end
    if err ~= "timeout" then
      self.eof = true
      return nil, "closed"
    end
    if wait_socket(self.sock, "r", deadline) == "timeout" then return nil, "timeout" end
  end
end


-- Sends all of bytes. True, or nil and why, and how many bytes went out.
function Stream:send(bytes, seconds)
  local deadline, sent = socket.gettime() + (seconds or net.timeout), 0
  while sent < #bytes do
    local last, err, partial = self.sock:send(bytes, sent + 1)
    sent = last or partial or sent
    if not last then
      if err ~= "timeout" then return nil, err, sent end
      if wait_socket(self.sock, "w", deadline) == "timeout" then return nil, "timeout", sent end
    end
  end
  return true
end


-- Takes the next n bytes; nil, why and what there was.
function Stream:take(n, seconds)
  while #self.buffer < n do
    local ok, err = self:fill(seconds)
    if not ok then return nil, err, self.buffer end
  end
  local bytes = self.buffer:sub(1, n)
  self.buffer = self.buffer:sub(n + 1)
  return bytes
end


-- Takes up to and with mark; nil, why and what there was.
function Stream:take_until(mark, seconds)
  local from = 1
  while true do
    local _, last = self.buffer:find(mark, from, true)
    if last then return self:take(last) end
    from = math.max(1, #self.buffer - #mark + 2)
    local ok, err = self:fill(seconds)
    if not ok then return nil, err, self.buffer end
  end
end


-- Takes everything until the peer closes; the bytes, and "closed" or "timeout".
function Stream:take_all(seconds)
  local pieces, deadline = {}, socket.gettime() + (seconds or net.timeout)
  while true do
    pieces[#pieces + 1], self.buffer = self.buffer, ""
    local ok, err = self:fill(math.max(0, deadline - socket.gettime()))
    if not ok then return table.concat(pieces), err end
  end
end


-- True when the peer closes within seconds and sent nothing more.
function Stream:is_closed(seconds)
  local rest, outcome = self:take_all(seconds or 3)
  return outcome == "closed" and rest == "", rest
end


function Stream:half_close() self.sock:shutdown("send") end


function Stream:close()
  if self.gone then return end
  self.gone, self.eof = true, true
  net.forget(self.sock)
  self.sock:close()
end


-- Ends the connection with a reset.
function Stream:reset()
  if self.gone then return end
  self.sock:setoption("linger", { on = true, timeout = 0 })
  self:close()
end


-- What went wrong inside tasks since the last call.
function net.take_faults()
  local list = faults
  faults = {}
  return list
end


function net.drop_tasks() tasks = {} end

return net
