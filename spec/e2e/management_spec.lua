-- management_spec.lua - the management port: what it says, to whom, and what it bears.
local h = require "spec.helper"
local json = require "cjson"

local BROKEN = "routes:\n  - id: all\n    match: [ { PathPrefix: { prfix: / } } ]\n"

-- Headers of every answer, refusals included.
local GUARDS = {
  ["cache-control"] = "no-store", ["x-content-type-options"] = "nosniff", ["x-frame-options"] = "DENY",
  ["referrer-policy"] = "no-referrer",
}

-- { what, method, target, headers, status }
local ANSWERS = {
  { "the dashboard", "GET", "/", "", 200 },
  { "a query is not part of a path", "GET", "/health?x=1", "", 200 },
  { "HEAD", "HEAD", "/status.json", "", 200 },
  { "an unknown path", "GET", "/x", "", 404 },
  { "a method that writes", "PUT", "/", "", 405, "GET, HEAD" },
  { "POST elsewhere", "POST", "/health", "", 405, "GET, HEAD" },
  { "GET of an action", "GET", "/reload", "", 405, "POST" },
  { "another site's reload", "POST", "/reload", "Origin: http://evil.test\r\n", 403 },
  { "the own page's reload", "POST", "/reload", "Origin: http://localhost\r\n", 200 },
  { "a chunked body", "POST", "/reload", "Transfer-Encoding: chunked\r\n", 411 },
  { "a large body", "POST", "/reload", "Content-Length: 9000\r\n", 413 },
  { "TRACE", "TRACE", "/", "", 501 },
}

-- { Host, status }
local HOSTS = {
  { "localhost:18888", 200 }, { "LOCALHOST", 200 }, { "127.0.0.1", 200 }, { "10.1.2.3:80", 200 }, { "[::1]:1", 200 },
  { "gateway.internal", 200 }, { "evil.test", 421 }, { "localhost.evil.test", 421 }, { "127.0.0.1.evil.test", 421 },
}


local function raw(gateway, bytes)
  local client = assert(h.connect(gateway:management_port()))
  client:send(bytes)
  return client
end


describe("the management port", function()
  after_each(h.cleanup)

  it("is a free one beside a given port, and says so where other machines reach it without a token", function()
    for _, case in ipairs {
      { "host: 0.0.0.0", "0.0.0.0", true },
      { "host: '::'", "[::]", true },
      { "host: 0.0.0.0, token: 0123456789abcdef", "0.0.0.0", false },
      { "host: 127.0.0.2", "127.0.0.2", false },
      { "show_bodies: false", "127.0.0.1", false },
    } do
      local setting, address, open = unpack(case)
      local folder = h.folder()
      h.write(folder .. "/routes.yaml", h.route_to(1))
      h.write(folder .. "/server.yaml", ("management: { %s }\n"):format(setting))
      local child = h.spawn({ h.executable, "run", "--port", "0", "--workers", "1", "--control", folder .. "/control",
        "--routes", folder .. "/routes.yaml", "--server", folder .. "/server.yaml" })
      h.eventually(function() return child:output():find("listening on", 1, true) end, 10, "the start")
      local said = child:output():match("management on ([^\n]+)\n")
      assert.equal(address, said:match("^(.*):%d+$"))
      assert.is_nil(said:find(":18888", 1, true))
      local status = h.moongate { "status", "--control", folder .. "/control" }
      assert.truthy(status.out:find("\nmanagement   " .. said .. "\n", 1, true), status.out)
      assert.equal(open, child:errors():find("management.token is empty", 1, true) ~= nil, child:errors())
    end
  end)

  it("answers each path and method as it should, with the headers that keep browsers out", function()
    local gateway = h.gateway(h.origin().port)
    for _, case in ipairs(ANSWERS) do
      local what, method, target, headers, status, allow = unpack(case)
      local response = gateway:manage(target, { method = method, headers = headers })
      assert.equal(status, response.status, what)
      assert.equal(allow, response:header("allow"), what)
      for name, value in pairs(GUARDS) do assert.equal(value, response:header(name), what .. ": " .. name) end
      local policy = response:header("content-security-policy")
      assert.truthy(policy:find("default-src 'none'", 1, true), what)
      assert.is_nil(policy:find("unsafe", 1, true), what)
    end
  end)

  it("serves hosts that are its own, literal or named, and no other", function()
    local server = "management: { allowed_hosts: gateway.internal }\n"
    local gateway = h.gateway { routes = h.origin().port, server = server, args = { "--management-port", "0" } }
    for _, case in ipairs(HOSTS) do
      local client = raw(gateway, ("GET /health HTTP/1.1\r\nHost: %s\r\n\r\n"):format(case[1]))
      assert.equal(case[2], client:response().status, case[1])
      client:close()
    end
  end)

  it("reloads and says what came of it, both ways", function()
    local gateway = h.gateway(h.origin().port)
    gateway:write_routes(BROKEN)
    local refused = gateway:manage("/reload", { method = "POST" })
    assert.equal(409, refused.status)
    assert.truthy(json.decode(refused.body).text:find("prfix", 1, true))
    local health = json.decode(gateway:manage("/health").body)
    assert.equal("UP", health.status)
    assert.equal("WARN", health.health)
    assert.equal("configuration", health.problems[1].component)
    assert.truthy(health.problems[1].detail:find("did you mean prefix", 1, true))
    assert.equal(200, gateway:manage("/ready").status)
    gateway:write_routes(h.route_to(h.origin().port))
    local done = gateway:manage("/reload", { method = "POST" })
    assert.equal(200, done.status)
    assert.equal("done", json.decode(done.body).outcome)
    assert.equal("OK", json.decode(gateway:manage("/health").body).health)
  end)

  it("gives several requests of one connection their answers in order", function()
    local gateway = h.gateway(h.origin().port)
    local client = raw(gateway, ("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):rep(2)
      .. "POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab"
      .. "GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    for _, status in ipairs { 200, 200, 200, 404 } do assert.equal(status, client:response().status) end
    assert.is_true((client:is_closed(5)))
  end)

  it("ends what is slow, large or malformed", function()
    local server = "management: { request_parse_timeout: 300ms, idle_timeout: 500ms }\n"
    local gateway = h.gateway { routes = h.origin().port, server = server, args = { "--management-port", "0" } }
    local slow, idle = raw(gateway, "GET / HTTP/1.1\r\nHost: lo"), raw(gateway, "")
    assert.equal(408, slow:response().status)
    assert.is_true((slow:is_closed(5)))
    assert.is_true((idle:is_closed(5)))
    local large = raw(gateway, "GET / HTTP/1.1\r\nHost: localhost\r\nX: " .. ("a"):rep(9000))
    assert.equal(431, large:response().status)
    local many = raw(gateway, "GET / HTTP/1.1\r\nHost: localhost\r\n" .. ("A: b\r\n"):rep(120) .. "\r\n")
    assert.equal(431, many:response().status)
    local url = raw(gateway, "GET /" .. ("a"):rep(20000) .. " HTTP/1.1\r\n")
    assert.equal(414, url:response().status)
    assert.equal(400, raw(gateway, "GET  / HTTP/1.1\r\n\r\n"):response().status)
  end)

  it("cuts off a reader that does not read", function()
    local gateway = h.gateway {
      routes = h.origin().port, server = "management: { idle_timeout: 300ms }\n", args = { "--management-port", "0" },
    }
    local sent, came = 180, 0 -- 180 times the dashboard is more than two sockets hold
    local lazy = assert(h.connect(gateway:management_port(), { receive_buffer = 4096 }))
    lazy:send(("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"):rep(sent))
    h.sleep(1.5)
    while lazy:response(nil, 2) do came = came + 1 end
    assert.truthy(came < sent, came .. " answers came")
    assert.equal(200, gateway:manage("/health").status)
  end)

  it("holds at most max_connections and gives up idle ones for new ones", function()
    local server = "management: { max_connections: 4 }\n"
    local gateway = h.gateway { routes = h.origin().port, server = server, args = { "--management-port", "0" } }
    local clients = {}
    for i = 1, 12 do clients[i] = raw(gateway, "") end
    assert.equal(200, gateway:manage("/health", { seconds = 5 }).status)
    assert.is_true((clients[1]:is_closed(5)))
    assert.equal(200, gateway:get("/").status)
  end)

  it("answers while every worker is stuck, and is not held up by a reader that does not read", function()
    local source = "return { api = 1, version = '1', request = function() while true do end end }"
    local routes = h.route_to(h.origin().port, "    filters: [ stuck ]\n")
    local gateway = h.gateway {
      routes = routes, filters = { stuck = source }, server = "scripts: { max_call_time: 3s, stuck_after: 20s }\n",
      args = { "--management-port", "0" },
    }
    local lazy = raw(gateway, ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):rep(100))
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.sleep(0.2)
    assert.equal(200, gateway:manage("/health", { seconds = 2 }).status)
    assert.equal(200, gateway:manage("/metrics", { seconds = 2 }).status)
    lazy:close()
    client:close()
  end)

  it("wants its token from other machines alone", function()
    local token = "0123456789abcdef"
    local gateway = h.gateway {
      routes = h.origin().port, server = ("management: { token: %s, host: 0.0.0.0 }\n"):format(token),
      args = { "--management-port", "0" },
    }
    assert.equal(200, gateway:manage("/status.json").status)
    assert.is_nil(gateway:manage("/status.json").body:find(token, 1, true))
    assert.is_nil(gateway:control("status", "--json").out:find(token, 1, true))
    local address = h.execute({ "hostname", "-I" }).out:match("%d+%.%d+%.%d+%.%d+")
    if not address then return end -- a machine without a network
    local function ask(target, headers, method)
      local client = assert(h.net.connect(gateway:management_port(), { host = address }))
      client:send(("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n"):format(method or "GET", target, address, headers or ""))
      local response = assert(h.http.read_response(client, method or "GET"))
      client:close()
      return response.status
    end
    assert.equal(200, ask("/health"))
    assert.equal(401, ask("/status.json"))
    assert.equal(401, ask("/status.json", "Authorization: Bearer 0123456789abcdeF\r\n"))
    assert.equal(200, ask("/status.json", "Authorization: Bearer " .. token .. "\r\n"))
    assert.equal(401, ask("/exchanges"))
    assert.equal(200, ask("/exchanges", "Authorization: Bearer " .. token .. "\r\n"))
    assert.equal(200, ask("/", "Authorization: Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==\r\n"))
    assert.equal(401, ask("/reload", "", "POST"))
    assert.equal(200, ask("/reload", "Authorization: Bearer " .. token .. "\r\n", "POST"))
  end)
end)


describe("readiness", function()
  after_each(h.cleanup)

  it("is not there before the first configuration is in every worker", function()
    local server = h.net.listen(function() end)
    local port = server.port
    server.close()
    local folder, executable = h.folder(), h.process.absolute(os.getenv("MOONGATE") or "build/moongate")
    h.make_folder(folder .. "/filters")
    h.write(folder .. "/filters/slow.lua", "return { api = 1, version = '1', request = function() end,"
      .. " init = function() local n = 0 for i = 1, 1e8 do n = n + i % 3 end end }")
    h.write(folder .. "/routes.yaml", h.route_to(h.origin().port, "    filters: [ slow ]\n"))
    local child = h.spawn({ executable, "run", "--routes", folder .. "/routes.yaml", "--host", "127.0.0.1",
      "--port", "0", "--workers", "1", "--management-port", tostring(port), "--control", folder .. "/control.sock" })
    local seen = {}
    h.eventually(function()
      local client = h.connect(port)
      if not client then return false end
      client:send("GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
      local response = client:response()
      client:close()
      local status = response and json.decode(response.body).status
      if status then seen[status] = response.status end
      return status == "UP"
    end, 30, "the gateway to be ready: " .. child:errors())
    assert.same({ STARTING = 503, UP = 200 }, seen)
  end)

  it("ends with the stop, while /health goes on", function()
    local go = false
    local gateway = h.gateway(h.origin(function(stream)
      h.eventually(function() return go end, 10, "the spec")
      stream:send(h.answer(200, "done"))
    end).port)
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.sleep(0.2)
    gateway.child:signal(h.process.TERM)
    gateway.stopped = true
    h.eventually(function() return gateway:manage("/ready").status == 503 end, 5, "not ready")
    assert.equal("STOPPING", json.decode(gateway:manage("/health").body).status)
    go = true
    assert.equal("done", client:response().body)
    assert.equal(0, h.eventually(function() return gateway.child:poll() end, 10, "the end"))
  end)

  it("is refused while no worker is left standing, and says which keep dying", function()
    local gateway = h.gateway(h.origin().port)
    h.eventually(function()
      for _, pid in ipairs(gateway:workers()) do gateway:kill_worker(pid) end
      local ready = gateway:manage("/ready")
      return ready.status == 503 and ready.body:find("keeps dying", 1, true)
    end, 15, "a crash loop")
    assert.equal(200, gateway:manage("/health").status)
    h.eventually(function() return gateway:get("/") end, 10, "the replacement")
    h.eventually(function() return gateway:manage("/ready").status == 200 end, 15, "readiness to come back")
  end)
end)


describe("health", function()
  after_each(h.cleanup)

  it("warns of a disk that is nearly full", function()
    -- a file system without room, on every machine
    local gateway = h.gateway { routes = h.origin().port, args = { "--journal", "/proc" } }
    local health = json.decode(gateway:manage("/health").body)
    assert.equal("WARN", health.health)
    assert.equal("journal", health.problems[1].component)
    assert.truthy(health.problems[1].detail:find("0 MB are left in /proc", 1, true))
    assert.equal(200, gateway:manage("/ready").status)
  end)
end)


describe("/status.json", function()
  after_each(h.cleanup)

  it("has the settings in effect, those that were changed marked, no secret among them", function()
    local key = ("k"):rep(40)
    local gateway = h.gateway {
      routes = h.origin().port,
      server = ("management: { token: 0123456789abcdef, idle_timeout: 90s }\nstorage: { journal_security: "
        .. "{ fingerprint_key: %s } }\nlimits: { max_entity_size: 2mb }\n"):format(key),
    }
    local body = gateway:manage("/status.json").body
    assert.is_nil(body:find("0123456789abcdef", 1, true) or body:find(key, 1, true))
    local settings = {}
    for _, one in ipairs(json.decode(body).settings) do settings[one.key] = one end
    local function same(name, value, default)
      assert.same({ key = name, value = value, default = default, changed = default and true or nil }, settings[name])
    end
    same("management.token", "******", "")
    same("storage.journal_security.fingerprint_key", "******", "")
    same("management.idle_timeout", "90s", "30s")
    same("limits.max_entity_size", "2mb", "none")
    same("http.request_body_timeout", "30s")
    same("limits.max_header_size", "32kb")
    same("management.show_bodies", "false")
    -- a secret that comes to the settings has to come to the list of what is masked
    local secrets = {}
    local function walk(keys, prefix)
      for name, spec in pairs(keys) do
        if type(spec) == "table" and spec.secret then secrets[#secrets + 1] = prefix .. name end
        if type(spec) == "table" and type(spec.keys) == "table" then walk(spec.keys, prefix .. name .. ".") end
      end
    end
    require "spec.lua.support" -- finds the files of lua/
    walk(require("moongate.server_conf").SCHEMA.keys, "")
    assert.truthy(#secrets >= 2)
    for _, name in ipairs(secrets) do assert.equal("******", settings[name] and settings[name].value, name) end
  end)

  it("keeps the reason of the last refused load, also after one that was not", function()
    local gateway = h.gateway(h.origin().port)
    local good = h.route_to(h.origin().port)
    gateway:write_routes("routes: 7\n")
    gateway:control("reload")
    gateway:write_routes(good)
    assert.equal(0, gateway:control("reload").code)
    local status = json.decode(gateway:manage("/status.json").body)
    assert.equal("done", status.last_load.outcome)
    assert.truthy(status.last_refusal.text:find("routes: found", 1, true))
    assert.truthy(status.last_refusal.at <= status.loaded_at)
  end)

  it("tells what each process takes", function()
    local status = json.decode(h.gateway { routes = h.origin().port, workers = 2 }:manage("/status.json").body)
    assert.equal(3, #status.processes)
    for _, process in ipairs(status.processes) do
      assert.truthy(process.resident_bytes > 1e6 and process.open_fds > 3 and process.max_fds >= process.open_fds)
    end
  end)

  it("has the routes in match order, in words, without what could be a secret", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = ([[
version: "7"
global_filters: [ AddCorrelationId ]
routes:
  - id: first
    match: [ { RequestHeader: { name: X-Key, value: hunter2 } } ]
    filters: [ SetRequestHeader: { name: X-A, value: swordfish } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
  - id: second
    match: [ { PathPrefix: { prefix: / } } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d/v1" } ], timeouts: { read: 1500ms } }
]]):format(origin.port, origin.port) }
    assert.equal(200, gateway:get("/").status)
    local body
    local status = h.eventually(function()
      body = gateway:manage("/status.json").body
      local decoded = json.decode(body)
      return decoded.per_route[2].requests["200"] == 1 and decoded
    end, 5, "the count")
    assert.is_nil(body:find("hunter2", 1, true))
    assert.is_nil(body:find("swordfish", 1, true))
    assert.equal("serving", status.state)
    assert.equal("7", status.configuration.version)
    assert.equal("AddCorrelationId", status.configuration.global_filters[1].name)
    local first, second = unpack(status.configuration.routes)
    assert.equal("first", first.id)
    assert.equal("header x-key is ******", first.match)
    assert.same({ { name = "name", text = "X-A" }, { name = "value", text = "******" } }, first.filters[1].options)
    assert.equal("path begins with /", second.match)
    assert.equal(1500, second.upstream.timeouts.read)
    assert.equal("first", status.per_route[1].id)
    assert.same({}, status.per_route[1].requests)
    assert.equal(0, status.per_route[2].active)
    assert.equal(1, #status.targets)
    assert.is_false(status.targets[1].down)
    assert.equal(1, #status.workers)
  end)
end)
