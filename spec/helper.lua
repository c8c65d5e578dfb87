-- spec/helper.lua - what an end-to-end spec needs: a real gateway, a raw client, scripted upstreams, and no leftovers.
-- Owns: everything a test started; helper.cleanup (an after_each of every spec) ends it and fails the test on a leak, a
-- sanitizer report, an unclean exit or an error inside a scripted upstream.
local process = require "spec.helper.process"
local net = require "spec.helper.net"
local http = require "spec.helper.http"

local helper = { net = net, http = http, process = process, answer = http.answer, chunk = http.chunk }

local wanted = os.getenv("MOONGATE") or "build/moongate"
local executable = process.absolute(wanted) or error(wanted .. " is not there: sh rockspec/setup build", 0)
local live = { gateways = {}, origins = {}, clients = {}, folders = {}, children = {} }

helper.executable = executable
helper.sanitized = wanted:find("asan", 1, true) ~= nil
helper.wait_for = net.wait_for
helper.sleep = net.sleep


-- Waits for fn; fails the test when it stays false.
function helper.eventually(fn, seconds, what)
  local value, err = net.wait_for(fn, seconds, what)
  if not value then error(err, 2) end
  return value
end


function helper.folder()
  local path = process.temporary_folder()
  live.folders[#live.folders + 1] = path
  return path
end


-- Writes a file the way editors do: beside it, then renamed over it.
function helper.write(path, text)
  local temporary = path .. ".new"
  local file = assert(io.open(temporary, "wb"))
  file:write(text)
  file:close()
  assert(os.rename(temporary, path))
end


local function make_folder(path) assert(require("lfs").mkdir(path)) end
helper.make_folder = make_folder


-- Starts a program whose output goes to files; ended by cleanup. options: env, cwd, uid, folder.
function helper.spawn(argv, options)
  options = options or {}
  local folder = options.folder or helper.folder()
  local child = process.spawn(argv, {
    out = folder .. "/" .. (options.name or "child") .. ".out",
    log = folder .. "/" .. (options.name or "child") .. ".log",
    env = options.env, cwd = options.cwd, uid = options.uid,
  })
  live.children[#live.children + 1] = child
  return child
end


-- Runs a program to its end; { code, out, err }, code nil when it did not end in time (it is killed).
function helper.execute(argv, options)
  local child = helper.spawn(argv, options)
  local code = net.wait_for(function() return child:poll() end, options and options.seconds or 30)
  if not code then child:destroy() end
  return { code = code, out = child:output(), err = child:errors() }
end


-- Runs `moongate ...` to its end.
function helper.moongate(args, options)
  return helper.execute({ executable, unpack(args) }, options)
end


-- Waits for the line that names the port a child listens on.
local function port_of(child, what)
  local port = net.wait_for(function()
    return child:output():match("listening on [%d%.]+:(%d+)") or child:poll() and "ended"
  end, 20)
  if not port or port == "ended" then
    error(("%s did not start: %s%s"):format(what, child:output(), child:errors()), 3)
  end
  return tonumber(port)
end


-- `moongate origin` as a child: .port, .child.
function helper.builtin_origin()
  local child = helper.spawn({ executable, "origin", "--port", "0" }, { name = "origin" })
  return { port = port_of(child, "moongate origin"), child = child }
end


-- Runs wrk with 16 connections against url for seconds; :finish() waits for its end and gives { requests, bad, errors,
-- text }, :stop() ends it now and gives the same. pause_ms is between an answer and the connection's next request.
function helper.load(url, seconds, pause_ms)
  local words = { "wrk", "-t1", "-c16", "-d" .. seconds .. "s", "--timeout", "5s" }
  if pause_ms then
    local script = helper.folder() .. "/pause.lua"
    helper.write(script, ("function delay() return %d end\n"):format(pause_ms))
    words[#words + 1], words[#words + 2] = "-s", script
  end
  words[#words + 1] = url
  local child = helper.spawn(words)
  local load = {}
  function load.stop()
    child:signal(helper.process.INT)
    return load.finish()
  end
  function load.finish()
    helper.eventually(function() return child:poll() end, seconds + 20, "wrk to end")
    local text, errors = child:output(), 0
    for number in (text:match("Socket errors: ([^\n]*)") or ""):gmatch("%d+") do errors = errors + tonumber(number) end
    return {
      requests = tonumber(text:match("(%d+) requests in") or 0),
      bad = tonumber(text:match("Non%-2xx or 3xx responses: (%d+)") or 0),
      errors = errors, text = text,
    }
  end
  return load
end


-- ---- scripted upstreams ----

local function serve(origin, stream, handler, options)
  origin.connections = origin.connections + 1
  local connection = origin.connections
  while not stream.gone do
    local request = http.read_request(stream, options.idle or 60)
    if not request then break end
    request.connection = connection
    origin.requests[#origin.requests + 1] = request
    if options.body ~= false then http.read_body(stream, request) end
    if type(handler) == "string" then
      stream:send(handler)
    elseif handler(stream, request, #origin.requests) == false then
      break
    end
    if options.once then break end
  end
  stream:close()
end


-- An upstream that reads requests and answers each with handler: a raw answer, or fn(stream, request, n), which sends
-- what it likes; returning false closes. options: body = false leaves the body for the handler to read, once = true
-- closes after each answer, port, idle seconds. .requests and .connections say what came.
function helper.origin(handler, options)
  options = options or {}
  local origin = { requests = {}, connections = 0 }
  handler = handler or http.answer(200, "hello\n")
  origin.server = net.listen(function(stream) serve(origin, stream, handler, options) end, options.port)
  origin.port = origin.server.port
  function origin.close() origin.server.close() end
  live.origins[#live.origins + 1] = origin
  return origin
end


-- A raw upstream: fn(stream, n) gets each connection and does everything itself.
function helper.raw_origin(fn)
  local origin = { connections = 0 }
  origin.server = net.listen(function(stream)
    origin.connections = origin.connections + 1
    fn(stream, origin.connections)
  end)
  origin.port = origin.server.port
  function origin.close() origin.server.close() end
  live.origins[#live.origins + 1] = origin
  return origin
end


-- ---- clients ----

local Client = setmetatable({}, { __index = net.Stream })
Client.__index = Client


function Client:response(method, seconds) return http.read_response(self, method, seconds) end


-- Sends one request, reads its answer.
function Client:get(target, headers)
  assert(self:send(("GET %s HTTP/1.1\r\nHost: gateway.test\r\n%s\r\n"):format(target or "/", headers or "")))
  return self:response()
end


function helper.connect(port, options)
  local stream, err = net.connect(port, options)
  if not stream then return nil, err end
  live.clients[#live.clients + 1] = stream
  return setmetatable(stream, Client)
end


-- ---- gateways ----

local Gateway = {}
Gateway.__index = Gateway


-- A routes file with one route for everything to port. extra: lines for the route, indented by four blanks.
function helper.route_to(port, extra)
  return ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    upstream:
      targets: [ { url: "http://127.0.0.1:%d" } ]
]]):format(port) .. (extra or "")
end


local function write_files(folder, options)
  helper.write(folder .. "/" .. options.routes_name, options.routes)
  if options.server then helper.write(folder .. "/server.yaml", options.server) end
  make_folder(folder .. "/filters")
  for name, source in pairs(options.filters or {}) do
    helper.write(("%s/filters/%s.lua"):format(folder, name), source)
  end
end


-- Starts a gateway. options: routes (text; a port stands for route_to), routes_name, server (text), filters (name ->
-- source), workers (1), port (0), either false for what server says, args, env, executable.
function helper.gateway(options)
  if type(options) == "number" then options = { routes = options } end
  if type(options.routes) == "number" then options.routes = helper.route_to(options.routes) end
  options.routes_name = options.routes_name or "routes.yaml"
  local folder = helper.folder()
  write_files(folder, options)
  local argv = { options.executable or executable, "run", "--routes", folder .. "/" .. options.routes_name, "--host",
    "127.0.0.1", "--control", folder .. "/control.sock" }
  if options.port ~= false then
    argv[#argv + 1], argv[#argv + 2] = "--port", "0"
  end
  if options.workers ~= false then
    argv[#argv + 1], argv[#argv + 2] = "--workers", tostring(options.workers or 1)
  end
  if options.server then
    argv[#argv + 1], argv[#argv + 2] = "--server", folder .. "/server.yaml"
  end
  for _, arg in ipairs(options.args or {}) do argv[#argv + 1] = arg end
  local child = helper.spawn(argv, { folder = folder, name = "gateway", env = options.env })
  local gateway = setmetatable({ child = child, folder = folder, routes_name = options.routes_name }, Gateway)
  live.gateways[#live.gateways + 1] = gateway
  gateway.port = port_of(child, "the gateway")
  gateway.baseline = gateway:descriptors()
  return gateway
end


function Gateway:connect(options) return assert(helper.connect(self.port, options)) end
function Gateway:log() return self.child:errors() end
function Gateway:url(path) return ("http://127.0.0.1:%d%s"):format(self.port, path or "/") end


-- One request on a connection of its own, closed afterwards.
function Gateway:get(target, headers)
  local client = self:connect()
  local response, err, rest = client:get(target, headers)
  client:close()
  return response, err, rest
end


-- The management port, which a gateway that picked it prints before the other.
function Gateway:management_port()
  return tonumber(self.child:output():match("management on [%d%.]+:(%d+)"))
end


-- One request to the management port, on a connection of its own. options: method, headers (lines), body.
function Gateway:manage(target, options)
  options = options or {}
  local client, body = assert(helper.connect(self:management_port())), options.body or ""
  local length = body ~= "" and ("Content-Length: %d\r\n"):format(#body) or ""
  client:send(("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n%s"):format(options.method or "GET", target, length,
    options.headers or "", body))
  local response, err = client:response(options.method, options.seconds)
  client:close()
  return assert(response, err)
end


-- Sends raw bytes on a connection of its own; the answer (or nil, why) and the client.
function Gateway:raw(bytes, method)
  local client = self:connect()
  client:send(bytes)
  local response, err, rest = client:response(method)
  return response, client, err, rest
end


function Gateway:workers()
  local pids = {}
  for _, pid in ipairs(process.children_of(self.child.pid)) do
    if process.command_line(pid):find(" worker", 1, true) and process.alive(pid) then pids[#pids + 1] = pid end
  end
  return pids
end


function Gateway:descriptors()
  local counts = {}
  for _, pid in ipairs(self:workers()) do counts[pid] = process.descriptors(pid) end
  return counts
end


function Gateway:kill_worker(pid) return process.signal_descendant(self.child.pid, pid, process.KILL) end


function Gateway:control(command, ...)
  return helper.moongate { command, "--control", self.folder .. "/control.sock", ... }
end


function Gateway:write_routes(text) helper.write(self.folder .. "/" .. self.routes_name, text) end


function Gateway:write_filter(name, source)
  helper.write(("%s/filters/%s.lua"):format(self.folder, name), source)
end


-- Descriptors that a worker has more than when it started, once its peers have gone; nil if none.
function Gateway:leaked()
  local grown
  net.wait_for(function()
    grown = nil
    for pid, count in pairs(self:descriptors()) do
      local before = self.baseline[pid]
      if before and count > before then
        grown = ("worker %d: %d descriptors, %d at start"):format(pid, count, before)
      end
    end
    return not grown
  end, 5)
  return grown
end


-- Asks the gateway to end and waits; its exit code, nil when it had to be killed.
function Gateway:stop(seconds)
  if self.stopped then return self.child.code end
  self.stopped = true
  self.child:signal(process.TERM)
  local code = net.wait_for(function() return self.child:poll() end, seconds or 20)
  if not code then self.child:destroy() end
  return code
end


-- ---- the end of a test ----

local REPORTS = { "AddressSanitizer", "LeakSanitizer", "runtime error:", "ThreadSanitizer", "assertion" }

local function report_of(text)
  for _, mark in ipairs(REPORTS) do
    local at = text:find(mark, 1, true)
    if at then return text:sub(math.max(1, at - 200), at + 3000) end
  end
end


local function end_gateway(gateway, complain)
  local ended = gateway.child:poll()
  if ended and not gateway.stopped and not gateway.may_end then
    complain("the gateway ended by itself with " .. ended .. "\n" .. gateway:log():sub(-3000))
  elseif not ended then
    local leak = gateway:leaked()
    if leak then complain(leak) end
    local code = gateway:stop()
    if code ~= 0 then complain(("the gateway ended with %s\n%s"):format(tostring(code), gateway:log():sub(-3000))) end
  end
  local report = report_of(gateway:log())
  if report then complain(report) end
end


-- Ends whatever the test started. Raises when something was left or went wrong on the way.
function helper.cleanup()
  local complaints = {}
  local function complain(text) complaints[#complaints + 1] = text end
  for _, client in ipairs(live.clients) do client:close() end
  for _, origin in ipairs(live.origins) do origin.close() end
  for _, child in ipairs(live.children) do
    local is_gateway = false
    for _, gateway in ipairs(live.gateways) do is_gateway = is_gateway or gateway.child == child end
    if not is_gateway then child:destroy() end
  end
  for _, gateway in ipairs(live.gateways) do end_gateway(gateway, complain) end
  process.destroy_all()
  for _, text in ipairs(net.take_faults()) do complain("inside a scripted upstream: " .. text) end
  net.drop_tasks()
  for _, folder in ipairs(live.folders) do os.execute(("rm -rf '%s'"):format(folder)) end
  live = { gateways = {}, origins = {}, clients = {}, folders = {}, children = {} }
  if #complaints > 0 then error(table.concat(complaints, "\n\n"), 0) end
end

return helper
