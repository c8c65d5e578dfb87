-- proxies.lua - what can stand between load and origin: how it is configured, started and asked for its version.
-- Each entry of proxies.kinds: available() -> true, or nil and why; prepare(context) -> argv, options. A context has
-- folder, port, backend (the origin's port), cores, workers, build (the folder with the executables) and what the kind
-- itself reads.
local lfs = require "lfs"
local process = require "bench.lib.process"

local proxies = { kinds = {} }
local kinds = proxies.kinds

local ROUTE = [[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
%s    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
]]

-- The same five edits are asked of nginx with Lua below.
local FIVE_FILTERS = [[
    filters:
      - AddCorrelationId
      - SetRequestHeader: { name: X-Gateway, value: g }
      - RemoveRequestHeader: { name: X-Debug }
      - SetResponseHeader: { name: X-Gateway, value: g }
      - RemoveResponseHeader: { name: Server }
]]

local USER_FILTER = [[
-- tenant.lua - what a user of the gateway would write: looks at a header, sets two, remembers one.
local tenant = { api = 1, version = "1.0.0" }

tenant.schema = { header = { type = "string", default = "x-tenant-id" } }

function tenant.request(req, conf)
  local name = req:header(conf.header) or "none"
  req:set_header("x-tenant-checked", name)
  req:remove_header("x-debug")
end

function tenant.response(res) res:set_header("x-gateway", "g") end

return tenant
]]

-- Busy for so many microseconds: a slowdown of known size, for checking the suite itself.
local SLOW_FILTER = [[
-- slow.lua - spins for a number of turns that was measured once to take the wanted time.
local slow = { api = 1, version = "1.0.0" }
slow.schema = { turns = { type = "integer", required = true } }
function slow.request(_, conf)
  local x = 1
  for i = 1, conf.turns do x = (x * 48271 + i) % 2147483647 end
  if x < 0 then error("a remainder is never negative") end
end
return slow
]]

-- Every hundredth request fails: an error rate of known size.
local FAILING_FILTER = [[
-- failing.lua - answers one request in a hundred with 500.
local failing = { api = 1, version = "1.0.0" }
local count = 0
function failing.request(req)
  count = count + 1
  if count % 100 == 0 then return req:respond(500, "seeded\n") end
end
return failing
]]


-- Turns of slow.lua's loop that take so many microseconds here, compiled.
local function turns_for(microseconds)
  local function spin(turns)
    local x = 1
    for i = 1, turns do x = (x * 48271 + i) % 2147483647 end
    return x
  end
  local turns, best = 200000, math.huge
  for _ = 1, 20 do -- the shortest is the one that nothing came between
    local before = process.now()
    spin(turns)
    best = math.min(best, process.now() - before)
  end
  return math.max(1, math.floor(turns * microseconds / (best * 1e6)))
end


local function literal_routes(count, backend)
  local lines = { "routes:\n" }
  for i = 0, count - 1 do
    lines[#lines + 1] = ("  - id: r%d\n    match: [ { PathPrefix: { prefix: /api/get/r%d/ } } ]\n"
      .. "    upstream: { targets: [ { url: \"http://127.0.0.1:%d\" } ] }\n"):format(i, i, backend)
  end
  return table.concat(lines)
end


local function user_filter(folder, name, source)
  lfs.mkdir(folder .. "/filters")
  process.write_file(("%s/filters/%s.lua"):format(folder, name), source)
end


local routes_of = {}

function routes_of.passthrough(context) return ROUTE:format("", context.backend) end

function routes_of.filtered(context) return ROUTE:format(FIVE_FILTERS, context.backend) end

function routes_of.scripted(context)
  user_filter(context.folder, "tenant", USER_FILTER)
  return ROUTE:format("    filters: [ tenant ]\n", context.backend)
end

function routes_of.slow(context)
  user_filter(context.folder, "slow", SLOW_FILTER)
  local turns = turns_for(context.microseconds or 2)
  return ROUTE:format(("    filters: [ { slow: { turns: %d } } ]\n"):format(turns), context.backend)
end

function routes_of.failing(context)
  user_filter(context.folder, "failing", FAILING_FILTER)
  return ROUTE:format("    filters: [ failing ]\n", context.backend)
end

function routes_of.journal(context)
  local level = "    journal: { request: { level: LEVEL }, response: { level: LEVEL } }\n"
  level = level:gsub("LEVEL", context.level)
  return ROUTE:format(level, context.backend)
end

function routes_of.routes(context) return literal_routes(context.count, context.backend) end

-- A few literal routes, the last of which takes what the others do not.
function routes_of.some_routes(context)
  return literal_routes(context.count - 1, context.backend) .. ROUTE:format("", context.backend):gsub("^routes:\n", "")
end


-- A gateway of ours on a routes file; context.routes names one of routes_of. With context.count_allocations its heap
-- allocations are counted in the file "allocations" of its folder (bench/allocations.c).
kinds.moongate = {
  available = function() return true end,
  version = function(build) return { build .. "/moongate", "version" } end,
  prepare = function(context)
    local path = context.folder .. "/routes.yaml"
    process.write_file(path, routes_of[context.routes](context))
    local argv = { context.build .. "/moongate", "run", "--routes", path, "--port", context.port,
      "--workers", context.workers, "--control", context.folder .. "/control.sock" }
    if context.routes == "journal" then
      argv[#argv + 1] = "--journal"
      argv[#argv + 1] = context.folder .. "/journal"
    end
    local env = context.count_allocations and { LD_PRELOAD = context.build .. "/libmoongate-allocations.so",
      MOONGATE_ALLOCATIONS = context.folder .. "/allocations" }
    return argv, { cwd = context.folder, env = env }
  end,
}


local NGINX = [[
worker_processes %d; pid %s/nginx.pid; daemon off; error_log %s/error.log;
%sevents { worker_connections 16384; }
http {
  access_log off; keepalive_requests 100000000; keepalive_timeout 3600; client_body_buffer_size 64k;
  default_type text/plain;
  client_body_temp_path %s/t1; proxy_temp_path %s/t2; fastcgi_temp_path %s/t3; uwsgi_temp_path %s/t4;
  scgi_temp_path %s/t5;
%s
}
]]

local NGINX_PROXY = [[
  upstream origin { server 127.0.0.1:%d; keepalive 512; keepalive_requests 100000000; }
  server { listen 127.0.0.1:%d backlog=4096 reuseport; location / { %s
    proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; } }
]]

local NGINX_LUA = [[
    access_by_lua_block {
      ngx.req.set_header("X-Correlation-Id", ngx.var.request_id)
      ngx.req.set_header("X-Gateway", "g")
      ngx.req.clear_header("X-Debug")
    }
    header_filter_by_lua_block {
      ngx.header["X-Gateway"] = "g"
      ngx.header["Server"] = nil
      ngx.header["X-Correlation-Id"] = ngx.var.request_id
    }]]


local function nginx(context, modules, servers)
  local f = context.folder
  process.write_file(f .. "/nginx.conf", NGINX:format(context.workers, f, f, modules, f, f, f, f, f, servers))
  return { "nginx", "-e", f .. "/error.log", "-p", f, "-c", f .. "/nginx.conf" }, { cwd = f }
end


local function installed(program)
  return function()
    if process.find_program(program) then return true end
    return nil, program .. " is not installed"
  end
end


kinds.nginx = {
  available = installed "nginx",
  version = function() return { "nginx", "-v" } end,
  prepare = function(context) return nginx(context, "", NGINX_PROXY:format(context.backend, context.port, "")) end,
}


local function lua_modules()
  for _, folder in ipairs { "/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/local/lib/nginx/modules" } do
    local lua, kit = folder .. "/ngx_http_lua_module.so", folder .. "/ndk_http_module.so"
    if lfs.attributes(lua) and lfs.attributes(kit) then
      return ("load_module %s;\nload_module %s;\n"):format(kit, lua)
    end
  end
end


-- nginx with its Lua module, making the edits of FIVE_FILTERS.
kinds["nginx-lua"] = {
  available = function()
    local ok, why = kinds.nginx.available()
    if ok and not lua_modules() then ok, why = nil, "nginx's Lua module is not installed" end
    return ok, why
  end,
  version = kinds.nginx.version,
  prepare = function(context)
    return nginx(context, lua_modules(), NGINX_PROXY:format(context.backend, context.port, NGINX_LUA))
  end,
}


kinds.haproxy = {
  available = installed "haproxy",
  version = function() return { "haproxy", "-v" } end,
  prepare = function(context)
    local path = context.folder .. "/haproxy.cfg"
    process.write_file(path, ([[
global
  nbthread %d
  maxconn 8000
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  option http-keep-alive
  http-reuse always
frontend f
  bind 127.0.0.1:%d
  default_backend b
backend b
  server s 127.0.0.1:%d
]]):format(context.workers, context.port, context.backend))
    return { "haproxy", "-db", "-f", path }, {}
  end,
}


kinds.caddy = {
  available = installed "caddy",
  version = function() return { "caddy", "version" } end,
  prepare = function(context)
    local path = context.folder .. "/Caddyfile"
    process.write_file(path, ("{\n admin off\n auto_https off\n}\n"
      .. "http://127.0.0.1:%d {\n reverse_proxy 127.0.0.1:%d\n}\n"):format(context.port, context.backend))
    return { "caddy", "run", "--config", path, "--adapter", "caddyfile" }, {}
  end,
}


kinds.varnish = {
  available = installed "varnishd",
  version = function() return { "varnishd", "-V" } end,
  prepare = function(context)
    local path = context.folder .. "/pass.vcl"
    process.write_file(path, ("vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .port = \"%d\"; }\n"
      .. "sub vcl_recv { return (pass); }\n"):format(context.backend))
    local state = context.folder .. "/varnish"
    return { "varnishd", "-F", "-a", "127.0.0.1:" .. context.port, "-f", path, "-n", state }, {}
  end,
}


local TRAFFICSERVER = {
  ["runroot.yaml"] = "prefix: FOLDER\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nsysconfdir: FOLDER/etc\n"
    .. "datadir: FOLDER/cache\nlibexecdir: FOLDER/etc\nlocalstatedir: FOLDER/run\nruntimedir: FOLDER/run\n"
    .. "logdir: FOLDER/log\ncachedir: FOLDER/cache\n",
  ["etc/records.config"] = "CONFIG proxy.config.http.server_ports STRING PORT\n"
    .. "CONFIG proxy.config.exec_thread.autoconfig INT 0\nCONFIG proxy.config.exec_thread.limit INT WORKERS\n"
    .. "CONFIG proxy.config.http.cache.http INT 0\nCONFIG proxy.config.log.logging_enabled INT 0\n"
    .. "CONFIG proxy.config.http.server_session_sharing.pool STRING thread\n"
    .. "CONFIG proxy.config.crash_log_helper STRING NULL\nCONFIG proxy.config.admin.user_id STRING USER\n",
  ["etc/remap.config"] = "map / http://127.0.0.1:BACKEND/\n",
  ["etc/storage.config"] = "FOLDER/cache 16M\n", -- it does not start without one
  ["etc/ip_allow.yaml"] = "ip_allow: [ { apply: in, ip_addrs: 127.0.0.1, action: allow, methods: ALL } ]\n",
}

-- Apache Traffic Server as a plain proxy. It does not serve as root: then everything belongs to nobody.
kinds.trafficserver = {
  available = installed "traffic_server",
  version = function() return { "traffic_server", "--version" } end,
  prepare = function(context)
    local root = context.folder .. "/ts"
    local is_root = lfs.attributes("/proc/self", "uid") == 0
    local values = { FOLDER = root, PORT = context.port, WORKERS = context.workers, BACKEND = context.backend,
      USER = is_root and "nobody" or os.getenv("USER") }
    for _, folder in ipairs { "", "/etc", "/cache", "/log", "/run" } do lfs.mkdir(root .. folder) end
    for name, text in pairs(TRAFFICSERVER) do
      process.write_file(root .. "/" .. name, (text:gsub("%u%u+", values)))
    end
    if is_root then os.execute(("chown -R nobody '%s' && chmod a+x '%s'"):format(root, context.folder)) end
    return { "traffic_server", "--run-root=" .. root .. "/runroot.yaml" }, { cwd = root }
  end,
}


-- What the kernel alone charges: bytes copied from one socket to the other, nothing read.
kinds.floor = {
  available = function() return true end,
  prepare = function(context) return { context.build .. "/moongate-floor", context.port, context.backend }, {} end,
}


-- ---- origins: the same contract; context.vary asks for bodies that differ ----

kinds["cheap origin"] = {
  available = function() return true end,
  prepare = function(context)
    return { context.build .. "/moongate-bench-origin", context.port, context.vary and "vary" or nil }, {}
  end,
}


local NGINX_ORIGIN = [[
  open_file_cache max=100; sendfile on; tcp_nopush on; etag off;
  server {
    listen 127.0.0.1:%d backlog=4096 reuseport; root %s/www;
    location /api/get { try_files /items.json =404; default_type application/json; }
    location /api/post { return 201 '{"id":1,"ok":true}'; default_type application/json; }
  }
]]

kinds["nginx origin"] = {
  available = kinds.nginx.available,
  version = kinds.nginx.version,
  prepare = function(context)
    local www = context.folder .. "/www"
    lfs.mkdir(www)
    process.write_file(www .. "/index.html", ("<p>lorem ipsum dolor sit amet consectetur</p>"):rep(200):sub(1, 8192))
    process.write_file(www .. "/items.json", ('{"id":1,"name":"item number","price":7},'):rep(50):sub(1, 2000))
    process.write_file(www .. "/hello.txt", "hello, world\n")
    return nginx(context, "", NGINX_ORIGIN:format(context.port, context.folder))
  end,
}


proxies.peers = { "nginx", "haproxy", "nginx-lua", "caddy", "varnish", "trafficserver" }


-- Starts a kind and waits until it listens: { name, kind, child, port, folder }, or nil and why.
function proxies.start(name, kind, context)
  local ok, why = kinds[kind].available()
  if not ok then return nil, why end
  lfs.mkdir(context.folder)
  context.port = process.free_port()
  local argv, options = kinds[kind].prepare(context)
  options.cores = context.cores
  options.out, options.log = context.folder .. "/out.log", context.folder .. "/err.log"
  local child
  child, why = process.spawn(argv, options)
  if not child then return nil, why end
  local up = process.wait_for(function() return child:poll() or process.listens(context.port) end, 20)
  if not up or child:poll() then
    local words = child:last_words()
    child:stop()
    return nil, ("%s did not start: %s"):format(name, words ~= "" and words or "it did not listen")
  end
  return { name = name, kind = kind, child = child, port = context.port, folder = context.folder, context = context }
end

return proxies
