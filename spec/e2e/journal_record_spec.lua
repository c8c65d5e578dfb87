-- spec/e2e/journal_record_spec.lua - what a gateway records of real traffic, and how it is read again.
local h = require "spec.helper"
local cjson = require "cjson"

local LEVELS = [[
    journal:
      request: { level: %s }
      response: { level: %s }
]]


-- A gateway with one route to port that records; extra: more lines of the route, options as of h.gateway.
local function recording(port, request, response, options)
  options = options or {}
  local folder = h.folder()
  options.routes = options.routes or h.route_to(port, LEVELS:format(request, response) .. (options.extra or ""))
  options.args = { "--journal", folder .. "/journal" }
  local gateway = h.gateway(options)
  gateway.folder_of_journal = folder .. "/journal"
  return gateway
end


local function journal(gateway, ...)
  local words = { "journal", ... }
  words[#words + 1] = gateway.folder_of_journal
  return h.moongate(words)
end


-- Every exchange in the journal, decoded.
local function exchanges(gateway)
  local list = {}
  for line in journal(gateway, "cat").out:gmatch("[^\n]+") do list[#list + 1] = cjson.decode(line) end
  return list
end


-- The values of a header in a decoded list.
local function values(message, name)
  local found = {}
  for _, pair in ipairs(message.headers or {}) do
    if pair[1]:lower() == name then found[#found + 1] = pair[2] end
  end
  return found
end


local function verified(gateway)
  local result = journal(gateway, "verify")
  assert.equal(0, result.code, result.out .. result.err)
  return result.out
end


describe("the journal of a gateway", function()
  after_each(h.cleanup)

  it("records nothing and makes no folder while every level is NONE", function()
    local gateway = recording(h.origin().port, "NONE", "NONE")
    assert.equal(200, gateway:get("/").status)
    assert.is_nil(require("lfs").attributes(gateway.folder_of_journal))
  end)

  it("is where MOONGATE_JOURNAL_DIR says, unless the settings or the command line say something else", function()
    local routes = h.route_to(h.origin().port, LEVELS:format("METADATA", "METADATA"))
    local function recorded(options)
      local env = h.folder() .. "/env"
      options.routes, options.env = routes, { MOONGATE_JOURNAL_DIR = env }
      assert.equal(200, h.gateway(options):get("/").status)
      return require("lfs").attributes(env, "mode") == "directory"
    end
    assert.is_true(recorded {})
    assert.is_false(recorded { server = ("storage: { work_dir: %s/own }\n"):format(h.folder()) })
    assert.is_false(recorded { args = { "--journal", h.folder() .. "/own" } })
  end)

  it("has start lines, status, times and sizes at METADATA, and no header", function()
    local origin = h.origin(h.answer("201 Made It", "made\n", { "Set-Cookie: secret" }))
    local gateway = recording(origin.port, "METADATA", "METADATA")
    local client = gateway:connect()
    client:send("POST /things HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody")
    assert.equal(201, client:response().status)
    local one = exchanges(gateway)[1] -- while it runs: out of the stage
    assert.equal("POST /things HTTP/1.1", one.request.line)
    assert.equal("HTTP/1.1 201 Made It", one.response.line)
    assert.equal(201, one.status)
    assert.equal("all", one.route)
    assert.equal("127.0.0.1", one.client)
    assert.equal("127.0.0.1:" .. origin.port, one.upstream.target)
    assert.equal(4, one.request.body_bytes)
    assert.equal(5, one.response.body_bytes)
    assert.truthy(one.duration_us > 0 and one.upstream.first_byte_us <= one.duration_us)
    assert.is_nil(one.request.headers)
    assert.is_nil(one.response.body)
    assert.truthy(verified(gateway):find("1 exchanges accepted = 1 recorded", 1, true))
  end)

  it("names every target that was tried", function()
    local origin, gone = h.origin(), h.origin()
    gone.close()
    local gateway = recording(nil, nil, nil, { routes = ([[
routes:
  - id: two
    match: [ { PathPrefix: { prefix: / } } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" }, { url: "http://127.0.0.1:%d" } ] }
%s]]):format(gone.port, origin.port, LEVELS:format("METADATA", "METADATA")) })
    for _ = 1, 2 do assert.equal(200, gateway:get("/").status) end
    local passed_over = 0
    for _, one in ipairs(exchanges(gateway)) do
      assert.equal("127.0.0.1:" .. origin.port, one.upstream.target)
      local before = (one.attributes or {})["gateway.target"]
      assert.truthy(before == nil or before == "127.0.0.1:" .. gone.port)
      passed_over = passed_over + (before and 1 or 0)
    end
    assert.equal(1, passed_over)
  end)

  it("has the four messages at HEADERS, with values that are not safe as fingerprints", function()
    local origin = h.origin(h.answer(200, "x", { "Set-Cookie: a=hunter2", "Content-Type: text/plain" }))
    local gateway = recording(origin.port, "HEADERS", "HEADERS", { extra = [[
    filters:
      - AddRequestHeader: { name: x-added, value: hunter2 }
      - AddResponseHeader: { name: x-served-by, value: moongate }
]] })
    gateway:get("/a?token=hunter2&empty=", "Authorization: Bearer hunter2\r\nCookie: hunter2\r\nAccept: text/html\r\n")
    gateway:get("/a?token=hunter2", "Authorization: Bearer hunter2\r\nAccept: text/html\r\n")
    local list = exchanges(gateway)
    local one, two = list[1], list[2]
    assert.same({ "text/html" }, values(one.request, "accept"))
    assert.truthy(values(one.request, "authorization")[1]:find("^fp:[%w_-]+$"))
    assert.same(values(one.request, "authorization"), values(two.request, "authorization"))
    assert.not_same(values(one.request, "authorization"), values(one.request, "cookie"))
    assert.truthy(one.request.line:find("^GET /a%?token=fp:[%w_-]+&empty= HTTP/1.1$"))
    assert.truthy(values(one.upstream.request, "x-added")[1]:find("^fp:"))
    assert.same({}, values(one.request, "x-added"))
    assert.same({ "127.0.0.1" }, values(one.upstream.request, "x-forwarded-for"))
    assert.same({ "text/plain" }, values(one.upstream.response, "content-type"))
    assert.same({}, values(one.upstream.response, "x-served-by"))
    assert.truthy(values(one.response, "x-served-by")[1]:find("^fp:"))
    assert.equal("AddRequestHeader, AddResponseHeader", one.filters)
    local raw = io.popen("cat " .. gateway.folder_of_journal .. "/*"):read("*a")
    assert.is_nil(raw:find("hunter2", 1, true)) -- not in the stage either
  end)

  it("has bodies at FULL, byte for byte, text and noise, small and large", function()
    local noise = {}
    for i = 1, 50000 do noise[i] = string.char((i * 7919 + math.floor(i / 256) * 31) % 256) end
    noise = table.concat(noise)
    local bodies = { "short", ("text of some length "):rep(3000), noise }
    local origin = h.origin(function(stream, request) stream:send(h.http.answer(200, request.body)) end)
    local gateway = recording(origin.port, "FULL", "FULL")
    local client = gateway:connect()
    for _, body in ipairs(bodies) do
      client:send(("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"):format(#body) .. body)
      assert.equal(body, client:response().body)
    end
    local list = exchanges(gateway)
    for i, body in ipairs(bodies) do
      for _, side in ipairs { "request", "response" } do
        local message = list[i][side]
        local recorded = message.body or require("mime").unb64(message.body_base64)
        assert.equal(#body, #recorded)
        assert.truthy(body == recorded, "body " .. i .. " of the " .. side)
        assert.is_nil(message.body_damaged)
        assert.truthy(message.body_crc32c)
      end
    end
    verified(gateway)
  end)

  it("decides by status what is kept: raised, lowered, dropped", function()
    local origin = h.origin(function(stream, request)
      stream:send(h.http.answer(tonumber(request.line:match("/(%d+)")), "x"))
    end)
    local folder = h.folder()
    local gateway = h.gateway {
      routes = h.route_to(origin.port, [[
    journal:
      request: { level: NONE, status_overrides: { 5xx: HEADERS, 404: METADATA } }
      response: { level: NONE, status_overrides: { 5xx: HEADERS } }
]]), args = { "--journal", folder .. "/journal" } }
    gateway.folder_of_journal = folder .. "/journal"
    for _, status in ipairs { 200, 404, 503, 200 } do gateway:get("/" .. status, "Accept: text/html\r\n") end
    local list = exchanges(gateway)
    assert.equal(2, #list)
    assert.equal(404, list[1].status)
    assert.is_nil(list[1].request.headers)
    assert.equal("GET /404 HTTP/1.1", list[1].request.line)
    assert.equal(503, list[2].status)
    assert.same({ "text/html" }, values(list[2].request, "accept"))
    assert.truthy(verified(gateway):find("4 exchanges accepted = 2 recorded + 2 ended at NONE", 1, true))
  end)

  it("records what reaches no route, answers of filters and upstreams that are not there", function()
    local folder = h.folder()
    local gateway = h.gateway { routes = ([[
unrouted: { journal: { response: { level: METADATA } } }
routes:
  - id: own
    match: { Path: { path: /own } }
    filters: [ { ReturnResponse: { status: 418, body: "own" } } ]
    journal: { response: { level: METADATA } }
  - id: dead
    match: { Path: { path: /dead } }
    upstream: { targets: [ { url: "http://127.0.0.1:1" } ] }
    journal: { response: { level: METADATA } }
]]), args = { "--journal", folder .. "/journal" } }
    gateway.folder_of_journal = folder .. "/journal"
    assert.equal(404, gateway:get("/nowhere").status)
    assert.equal(418, gateway:get("/own").status)
    assert.equal(502, gateway:get("/dead").status)
    local list = exchanges(gateway)
    assert.same({ "no_route", "upstream_connect" }, { list[1].error, list[3].error })
    assert.same({ "gateway", "filter", "gateway" }, { list[1].source, list[2].source, list[3].source })
    assert.equal("<unrouted>", list[1].route)
    assert.equal("own", list[2].route)
  end)

  it("has the attributes beside a request line of any length", function()
    local folder = h.folder()
    local gateway = h.gateway { routes = [[
unrouted: { journal: { request: { level: HEADERS }, response: { level: HEADERS } } }
routes: [ { id: own, match: { Path: { path: /own } }, filters: [ { ReturnResponse: { status: 200, body: x } } ] } ]
]], args = { "--journal", folder .. "/journal" } }
    gateway.folder_of_journal = folder .. "/journal"
    local targets = { "/nowhere?" .. ("&"):rep(3000), "/" .. ("a"):rep(8000) }
    for _, target in ipairs(targets) do assert.equal(404, gateway:get(target).status) end
    for i, one in ipairs(exchanges(gateway)) do
      assert.equal("GET " .. targets[i] .. " HTTP/1.1", one.request.line)
      assert.equal("no_route", one.attributes["gateway.unrouted.reason"])
    end
  end)

  -- What the requests before define of the headers is not defined in the slot that the large entry goes to.
  it("has as many attributes as an entry holds beside the headers", function()
    local gateway = recording(h.builtin_origin().port, "HEADERS", "HEADERS", {
      filters = { noted = [[
        return { api = 1, version = "1.0.0", request = function(req)
          if req:path() ~= "/big" then return end
          for i = 1, 16 do req:set_attribute(("n"):rep(900) .. i, ("v"):rep(1000)) end
        end }
      ]] },
      extra = "    filters: [ noted ]\n",
    })
    local headers, requests = {}, {}
    for i = 1, 90 do headers[i] = ("x%d: y\r\n"):format(i) end
    for i = 1, 12 do requests[i] = "/" .. i .. ("s"):rep(600) end
    requests[13] = "/big"
    for i, target in ipairs(requests) do
      requests[i] = ("GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n"):format(target, table.concat(headers))
    end
    local client = gateway:connect()
    client:send(table.concat(requests))
    for _ = 1, 13 do client:response() end
    local list = exchanges(gateway)
    assert.equal(13, #list)
    local noted = 0
    for _ in pairs(list[13].attributes) do noted = noted + 1 end
    assert.truthy(noted >= 12 and noted < 16, noted)
    assert.truthy(verified(gateway):find("13 exchanges accepted = 13 recorded", 1, true))
  end)

  it("has of a request that was refused its head alone, and no value of what is no header", function()
    local folder = h.folder()
    local gateway = h.gateway { routes = [[
unrouted: { journal: { request: { level: HEADERS }, response: { level: METADATA } } }
routes: [ { id: own, match: { Path: { path: /own } }, filters: [ { ReturnResponse: { status: 200, body: x } } ] } ]
]], args = { "--journal", folder .. "/journal" } }
    gateway.folder_of_journal = folder .. "/journal"
    local refused = {
      "POST /own HTTP/1.1\r\nHost: a\r\nhunter2 key: x\r\n\r\nhunter2: x\r\naccept: hunter2\r\n",
      "POST /own HTTP/1.1\nHost: a\n\naccept: hunter2\n",
      "GET /own HTTP/1.1\r\nHost: a\r\nCookie: a\r\n hunter2: x\r\n\r\n",
      "GET /own HTTP/1.1\r\nHost: a\r\nAccept: a\rCookie: hunter2\r\n\r\n",
      "GET /own?a=b hunter2\r\n\r\n",
    }
    for _, bytes in ipairs(refused) do assert.equal(400, gateway:raw(bytes).status) end
    assert.equal(#refused, #exchanges(gateway))
    assert.is_nil(journal(gateway, "cat").out:find("hunter2", 1, true))
  end)

  it("names each exchange by the id that filters and clients see", function()
    local origin = h.origin()
    local gateway = recording(origin.port, "METADATA", "METADATA",
      { extra = "    filters: [ AddCorrelationId ]\n" })
    gateway:get("/")
    local id = origin.requests[1]:values("x-correlation-id")[1]
    assert.equal(exchanges(gateway)[1].id, id)
    local shown = h.moongate { "journal", "show", id, gateway.folder_of_journal }
    assert.equal(0, shown.code, shown.err)
    assert.truthy(shown.out:find(id, 1, true))
    local missing = h.moongate { "journal", "show", id:sub(1, 25) .. "?", gateway.folder_of_journal }
    assert.equal(1, missing.code)
  end)

  it("finds by status, path, route and time", function()
    local origin = h.origin(function(stream, request)
      stream:send(h.http.answer(tonumber(request.line:match("/(%d+)")), "x"))
    end)
    local gateway = recording(origin.port, "METADATA", "METADATA")
    for _, path in ipairs { "/200/a", "/500/a", "/503/b", "/200/b" } do gateway:get(path) end
    local function count(...)
      local _, lines = journal(gateway, "find", ...).out:gsub("\n", "")
      return lines
    end
    assert.equal(4, count())
    assert.equal(2, count("--status", "5xx"))
    assert.equal(1, count("--status", "503"))
    assert.equal(2, count("--path", "/200"))
    assert.equal(4, count("--route", "all", "--since", "1h"))
    assert.equal(0, count("--route", "other"))
    assert.equal(0, count("--since", "2100-01-01T00:00:00Z"))
    assert.equal(2, h.moongate({ "journal", "find", "--status", "6xx" }).code)
  end)

  it("keeps long heads whole", function()
    local gateway = recording(h.origin().port, "HEADERS", "HEADERS")
    local long, path = ("abc "):rep(5000) .. "z", "/" .. ("p"):rep(9000)
    gateway:get(path, "Accept: " .. long .. "\r\nAccept-Language: de\r\n")
    local one = exchanges(gateway)[1]
    assert.truthy("GET " .. path .. " HTTP/1.1" == one.request.line)
    assert.truthy(long == values(one.request, "accept")[1])
    assert.truthy(long == values(one.upstream.request, "accept")[1])
    assert.same({ "de" }, values(one.request, "accept-language"))
    verified(gateway)
  end)

  it("answers when what it recorded is on the disk, where storage.sync is group", function()
    local origin = h.builtin_origin()
    local gateway = recording(origin.port, "METADATA", "METADATA", { server = "storage: { sync: group }\n" })
    local load = h.load(gateway:url("/status/200"), 1).finish()
    assert.truthy(load.requests > 20, load.text)
    assert.equal(0, load.bad + load.errors, load.text)
    verified(gateway)
  end)

  it("goes on without space as storage.on_full says, tells it, and recovers by itself", function()
    if not h.process.is_root() then return pending("mounting needs root") end
    local origin = h.builtin_origin()
    for policy, wanted in pairs { refuse = 503, drop = 200 } do
      local mounted = h.folder()
      local mount = "mount -t tmpfs -o size=1400k tmpfs " .. mounted
      if os.execute(mount) ~= 0 then return pending("mounting is not allowed") end
      local gateway = h.gateway {
        routes = h.route_to(origin.port, LEVELS:format("FULL", "FULL")), args = { "--journal", mounted .. "/journal" },
        server = ("storage: { on_full: %s, stage_size: 128kb, shard_size: 256kb, compression: none }\n"):format(policy),
      }
      gateway.folder_of_journal = mounted .. "/journal"
      local status, answer = "journal_dropped 0", nil
      for n = 1, 4000 do
        local client = gateway:connect()
        client:send(("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n%08d"):format(n) .. ("x"):rep(1992))
        answer = client:response()
        client:close()
        status = n % 20 == 0 and gateway:control("status").out or status
        local dropped = tonumber(status:match("journal_dropped%s+(%d+)"))
        if answer.status == 503 or dropped > 0 then break end
        assert.equal(200, answer.status)
      end
      assert.equal(wanted, answer.status)
      h.eventually(function()
        return gateway:control("status").out:find("CANNOT BE WRITTEN: No space left on device", 1, true)
      end, 5, "the status to tell it")
      os.execute("rm " .. mounted .. "/journal/shard-000-0000000001.mgj")
      h.eventually(function()
        return not gateway:control("status").out:find("JOURNAL CANNOT", 1, true)
      end, 5, "the journal to be written again")
      assert.equal(200, gateway:get("/status/200").status)
      local out = journal(gateway, "verify").out
      assert.truthy(out:find(" 0 repeated", 1, true), out)
      if policy == "drop" then assert.truthy(tonumber(out:match("(%d+) dropped")) > 0, out) end
      os.execute("umount -l " .. mounted)
    end
  end)

  it("keeps bodies that come faster than the stage is emptied", function()
    local gateway = recording(h.builtin_origin().port, "FULL", "FULL", { server = "storage: { stage_size: 256kb }\n" })
    for _ = 1, 12 do assert.equal(2000000, #gateway:get("/bytes/2000000").body) end
    h.eventually(function() return journal(gateway, "verify").out:find("12 recorded", 1, true) end, 5, "all of them")
    local out = verified(gateway)
    assert.truthy(out:find(" 0 dropped", 1, true), out)
    for _, exchange in ipairs(exchanges(gateway)) do assert.equal(2000000, exchange.response.body_recorded) end
  end)

  it("is one gateway's at a time", function()
    local gateway = recording(h.origin().port, "METADATA", "METADATA")
    local second = h.moongate({ "run", "--routes", gateway.folder .. "/routes.yaml", "--port", "0", "--workers", "1",
      "--control", h.folder() .. "/second.sock", "--journal", gateway.folder_of_journal }, { seconds = 15 })
    assert.equal(1, second.code)
    assert.truthy(second.err:find("is in use by another gateway", 1, true), second.err)
  end)

  it("says once that the fingerprint key has changed, and reads what both keys made", function()
    local folder = h.folder() .. "/journal"
    local told, tokens, gateway = {}, {}
    for run, key in ipairs { "a", "b", "b", "a" } do
      gateway = h.gateway {
        routes = h.route_to(h.origin().port, LEVELS:format("HEADERS", "HEADERS")), workers = 1,
        args = { "--journal", folder }, env = { MOONGATE_FINGERPRINT_KEY = key:rep(40) },
      }
      gateway.folder_of_journal = folder
      gateway:get("/" .. run, "Authorization: Bearer one\r\n")
      told[run] = select(2, gateway:log():gsub("the fingerprint key is not the one of what is there", ""))
      if run == 3 then gateway:kill_worker(gateway:workers()[1]) end -- what it staged has the mark of its key too
      gateway:stop()
    end
    assert.same({ 0, 1, 0, 1 }, told)
    for i, exchange in ipairs(exchanges(gateway)) do tokens[i] = values(exchange.request, "authorization")[1] end
    assert.equal(4, #tokens)
    assert.equal(tokens[2], tokens[3])
    assert.equal(tokens[1], tokens[4])
    assert.not_equal(tokens[1], tokens[2])
    local out = verified(gateway)
    assert.truthy(out:find("the fingerprint key changed (2)", 1, true), out)
  end)

  it("loses nothing of what was answered when a worker is killed again and again", function()
    local origin = h.builtin_origin()
    local gateway = recording(origin.port, "METADATA", "METADATA", { extra = "" })
    local answered = 0
    for _ = 1, 10 do
      local load = h.load(gateway:url("/status/200"), 1)
      h.sleep(0.4 + math.random() * 0.3)
      gateway:kill_worker(gateway:workers()[1])
      answered = answered + load.finish().requests
      h.eventually(function() return gateway:get("/status/200") end, 10, "the next worker")
      answered = answered + 1
    end
    local out = verified(gateway)
    local recorded = tonumber(out:match("(%d+) recorded"))
    assert.truthy(recorded >= answered, out .. answered)
    assert.truthy(recorded <= answered + 10 * 17, out .. answered) -- ends that the clients did not get to see
  end)

  it("opens when a reload asks for it, and refuses a reload that cannot have it", function()
    local origin = h.origin()
    local gateway = recording(origin.port, "NONE", "NONE")
    h.write(gateway.folder_of_journal, "a file in its place")
    gateway:write_routes(h.route_to(origin.port, LEVELS:format("METADATA", "METADATA")))
    local refused = gateway:control("reload")
    assert.equal(1, refused.code)
    assert.truthy(refused.err:find("journal", 1, true), refused.err)
    assert.equal(200, gateway:get("/").status)
    os.remove(gateway.folder_of_journal)
    assert.equal(0, gateway:control("reload").code)
    gateway.baseline = gateway:descriptors() -- lock, stage and segment are open now
    gateway:get("/")
    h.eventually(function() return #exchanges(gateway) > 0 end, 5, "a recorded exchange")
  end)
end)
