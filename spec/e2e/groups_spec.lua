-- spec/e2e/groups_spec.lua - several targets behind a route: who gets what, who is left out, who steps in.
local h = require "spec.helper"


-- A routes file with one route for everything; lines stand below its upstream.
local function route(targets, lines)
  local out = { "routes:", "  - id: all", "    match: [ { PathPrefix: { prefix: / } } ]", "    upstream:",
    "      targets:" }
  for _, target in ipairs(targets) do
    if type(target) == "number" then target = { target } end
    out[#out + 1] = ('        - { url: "http://127.0.0.1:%d", weight: %d }'):format(target[1], target[2] or 1)
  end
  for _, line in ipairs(lines or {}) do out[#out + 1] = "      " .. line end
  return table.concat(out, "\n") .. "\n"
end


local function named(name) return h.origin(h.answer(200, name)) end


-- How often each body came in n requests; headers(i) gives lines for the i-th.
local function count_answers(gateway, n, headers)
  local client, counts = gateway:connect(), {}
  for i = 1, n do
    local response = client:get("/", headers and headers(i))
    assert.equal(200, response.status)
    counts[response.body] = (counts[response.body] or 0) + 1
  end
  client:close()
  return counts
end


describe("a group of targets", function()
  after_each(h.cleanup)

  it("shares by weight, smoothly", function()
    local gateway = h.gateway { routes = route { { named("a").port, 3 }, { named("b").port, 1 } } }
    assert.same({ a = 30, b = 10 }, count_answers(gateway, 40))
  end)

  it("with LEAST_REQUESTS spares the target that is busy", function()
    local go = false
    local slow = h.origin(function(stream)
      h.eventually(function() return go end, 10, "the spec")
      stream:send(h.answer(200, "slow"))
    end)
    local gateway = h.gateway { routes = route({ slow.port, named("quick").port }, { "strategy: LEAST_REQUESTS" }) }
    local held = {}
    for i = 1, 12 do -- until the slow one has some to work on
      held[i] = gateway:connect()
      held[i]:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    end
    h.eventually(function() return #slow.requests > 0 end, 5, "a request at the slow target")
    h.sleep(0.2)
    local before = #slow.requests
    for _ = 1, 20 do assert.equal("quick", gateway:get("/").body) end
    assert.equal(before, #slow.requests)
    go = true
    for _, client in ipairs(held) do assert.equal(200, client:response().status) end
  end)

  it("with CONSISTENT_HASH sends equal keys to one target, different keys to several", function()
    local gateway = h.gateway { routes = route({ named("a").port, named("b").port, named("c").port },
      { "strategy: CONSISTENT_HASH", "hash_on: { header: X-User }" }) }
    local of_user, seen = {}, {}
    for round = 1, 3 do
      for user = 1, 40 do
        local body = gateway:get("/", ("X-User: u%d\r\n"):format(user)).body
        if round > 1 then assert.equal(of_user[user], body) end
        of_user[user], seen[body] = body, true
      end
    end
    assert.is_true(seen.a and seen.b and seen.c)
  end)

  it("with CONSISTENT_HASH moves only the keys of a target that has gone", function()
    local a, b, c = named("a"), named("b"), named("c")
    local gateway = h.gateway { routes = route({ a.port, b.port, c.port },
      { "strategy: CONSISTENT_HASH", "hash_on: { query: user }" }) }
    local before, moved = {}, 0
    for user = 1, 60 do before[user] = gateway:get("/?user=u" .. user).body end
    c.close()
    for user = 1, 60 do
      local body = gateway:get("/?user=u" .. user).body
      if before[user] == "c" then
        assert.is_true(body == "a" or body == "b", body)
      elseif body ~= before[user] then
        moved = moved + 1
      end
    end
    assert.equal(0, moved)
  end)

  it("answers for idempotent requests when one of three dies under load", function()
    local origins = { named("a"), named("b"), named("c") }
    local gateway = h.gateway { routes = route { origins[1].port, origins[2].port, origins[3].port } }
    local client = gateway:connect()
    for i = 1, 300 do
      if i == 100 then origins[2].close() end
      assert.equal(200, client:get("/").status, "request " .. i)
    end
  end)

  it("may have a unix socket for a target, and says who asked there too", function()
    local folder = h.folder()
    h.write(folder .. "/server.js", [[
      require("http").createServer((q, s) => s.end(q.headers.host + " " + q.headers["x-forwarded-for"]))
        .listen(process.argv[2], () => console.log("ready"));
    ]])
    local node = h.spawn({ "node", folder .. "/server.js", folder .. "/app.sock" }, { folder = folder, name = "node" })
    h.eventually(function() return node:output():find("ready", 1, true) end, 10, "Node")
    local gateway = h.gateway { routes = ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    upstream: { targets: [ { url: "unix:%s/app.sock" } ] }
]]):format(folder) }
    assert.equal("gateway.test 127.0.0.1", gateway:get("/").body)
    local client = gateway:connect()
    for _ = 1, 20 do assert.equal(200, client:get("/").status) end
  end)

  it("holds a target to its connections; more wait, and past the queue get 503", function()
    local go = false
    local origin = h.origin(function(stream)
      h.eventually(function() return go end, 10, "the spec")
      stream:send(h.answer(200, "x"))
    end)
    local gateway = h.gateway { routes = origin.port,
      server = "proxy: { max_connections_per_target: 2, max_queue_size: 3 }\n" }
    local clients = {}
    for i = 1, 5 do
      clients[i] = gateway:connect()
      clients[i]:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      h.sleep(0.03)
    end
    assert.equal(503, gateway:get("/").status)
    assert.equal(2, origin.connections)
    go = true
    for i = 1, 5 do assert.equal(200, clients[i]:response().status) end
    assert.equal(2, origin.connections)
  end)

  it("looks a name up", function()
    local origin = named("by name")
    local gateway = h.gateway { routes = (route { origin.port }:gsub("127%.0%.0%.1", "localhost")) }
    assert.equal("by name", gateway:get("/").body)
  end)
end)
