-- management_search_spec.lua - what was recorded, looked for on the management port: found, shown as recorded, bounded.
local cjson = require "cjson"
local h = require "spec.helper"

local FULL = "    journal: { request: { level: FULL }, response: { level: FULL } }\n"
local ANSWER = h.answer(200, "the answer\n", { "Content-Type: text/plain", "Set-Cookie: session=hunter2" })


local function start(options)
  local origin = options.origin or h.origin(options.answer or ANSWER)
  return h.gateway {
    routes = h.route_to(origin.port, options.levels or FULL), server = options.server, workers = options.workers,
    args = { "--journal", options.journal or h.folder() .. "/journal" },
  }
end


-- The decoded answer to a question; raises on any status but the wanted one.
local function ask(gateway, target, wanted)
  local response = gateway:manage(target)
  assert.equal(wanted or 200, response.status, response.body)
  return wanted and response.body or cjson.decode(response.body)
end


-- The exchanges that a query finds, once there are as many as wanted.
local function find(gateway, query, wanted)
  return h.eventually(function()
    local found = ask(gateway, "/exchanges" .. query).exchanges
    return #found == wanted and found
  end, 10, ("%d exchanges for %s"):format(wanted, query))
end


-- { query, words of its refusal }
local WRONG = {
  { "status=abc", "status takes 404 or 5xx" }, { "status=6xx", "status takes" }, { "since=yesterday", "since takes" },
  { "limit=0", "limit takes a number from 1 to 500" }, { "limit=501", "limit takes" }, { "limit=", "limit takes" },
  { "limit=1e2", "limit takes" }, { "id=42", "id takes" }, { "colour=red", "there are id, path, status" },
  { "id=%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00", "id takes" },
}


describe("GET /exchanges", function()
  after_each(h.cleanup)

  it("finds by path, status, route, time and id, the newest first", function()
    local gateway = start { workers = 2, answer = function(stream, request)
      stream:send(request.target == "/odd" and h.answer(503, "no\n") or h.answer(200, "yes\n"))
    end }
    for _, path in ipairs { "/a/1", "/a/2", "/odd" } do
      gateway:get(path)
      h.sleep(0.01) -- workers read the time once per turn of their loops
    end
    local all = find(gateway, "", 3)
    assert.equal("GET /odd HTTP/1.1", all[1].line)
    assert.equal("GET /a/1 HTTP/1.1", all[3].line)
    assert.equal(2, #find(gateway, "?path=/a/", 2))
    assert.equal(503, find(gateway, "?status=5xx", 1)[1].status)
    assert.equal(0, #find(gateway, "?status=404", 0))
    assert.equal(3, #find(gateway, "?route=all&since=1m", 3))
    assert.equal(0, #find(gateway, "?route=none", 0))
    assert.equal(1, #find(gateway, "?limit=1", 1))
    assert.equal("GET /a/2 HTTP/1.1", find(gateway, "?id=" .. all[2].id, 1)[1].line)
    assert.equal(3, #find(gateway, "?id=&path=&status=", 3), "an empty field asks for nothing")
  end)

  it("refuses a question that makes no sense, in words", function()
    local gateway = start {}
    for _, row in ipairs(WRONG) do
      local body = ask(gateway, "/exchanges?" .. row[1], 400)
      assert.truthy(body:find(row[2], 1, true), row[1] .. ": " .. body)
    end
    assert.truthy(ask(gateway, "/exchanges/nonsense", 404):find("26 digits"))
    assert.truthy(ask(gateway, "/exchanges/01M8Q43S7V001G000000000005", 404):find("There is no exchange"))
    assert.equal(405, gateway:manage("/exchanges", { method = "DELETE" }).status)
  end)

  it("says when nothing is recorded", function()
    local gateway = start { levels = "" }
    gateway:get("/")
    local answer = ask(gateway, "/exchanges")
    assert.is_false(answer.recording)
    assert.same({}, answer.exchanges)
  end)

  it("answers several who ask at once, and the rest of the port is not held up", function()
    local gateway = start {}
    for i = 1, 20 do gateway:get("/" .. i) end
    find(gateway, "", 20)
    local asking = {}
    for i = 1, 12 do
      asking[i] = assert(h.connect(gateway:management_port()))
      asking[i]:send(("GET /exchanges?limit=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"):format(i % 4 + 1))
    end
    assert.equal(200, gateway:manage("/health").status)
    for i = 1, 12 do
      local response = assert(asking[i]:response())
      assert.equal(200, response.status)
      assert.equal(i % 4 + 1, #cjson.decode(response.body).exchanges)
    end
  end)

  it("turns those away who would make the queue longer than it may be", function()
    local gateway, asking, busy = start {}, {}, 0
    gateway:get("/")
    find(gateway, "", 1)
    for i = 1, 40 do
      asking[i] = assert(h.connect(gateway:management_port()))
      asking[i]:send(("GET /exchanges?limit=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"):format(i))
    end
    for i = 1, 40 do
      local response = assert(asking[i]:response(nil, 20))
      if response.status == 503 then
        busy = busy + 1
        assert.equal("1", response:header("retry-after"))
      else
        assert.equal(200, response.status)
      end
    end
    assert.truthy(busy >= 1 and busy <= 24, busy .. " were turned away")
  end)

  it("is told the end of the gateway while it waits", function()
    local gateway = start {}
    gateway:get("/")
    for i = 1, 8 do
      assert(h.connect(gateway:management_port())):send(
        ("GET /exchanges?limit=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"):format(i))
    end
    assert.equal(0, gateway:stop())
  end)
end)


describe("GET /exchanges/ID", function()
  after_each(h.cleanup)

  local function record(options)
    local gateway = start(options)
    local client = gateway:connect()
    client:send("POST /form?token=hunter2 HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer hunter2\r\n"
      .. "Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nwhat was sent")
    assert.equal(200, client:response().status)
    return gateway, find(gateway, "?status=200", 1)[1].id
  end

  it("shows the four messages as they were recorded, and no body", function()
    local gateway, id = record {}
    local body = gateway:manage("/exchanges/" .. id).body
    local answer = cjson.decode(body)
    assert.is_nil(body:find("hunter2", 1, true), body)
    assert.is_nil(body:find("what was sent", 1, true), body)
    assert.equal("hidden", answer.bodies)
    local exchange = answer.exchange
    assert.equal(id, exchange.id)
    assert.equal(13, exchange.request.body_bytes)
    assert.equal(13, exchange.request.body_recorded)
    assert.truthy(exchange.request.line:find("^POST /form%?token=fp:"))
    for _, message in ipairs { exchange.request, exchange.upstream.request, exchange.upstream.response,
      exchange.response } do
      assert.truthy(#message.headers > 0)
    end
  end)

  it("shows bodies where management.show_bodies says so, and of long ones the beginning", function()
    local long = ("0123456789abcdef"):rep(131072) -- 2 MB
    local server = "management: { show_bodies: true }\nstorage: { stage_size: 16mb }\n"
    local gateway, id = record { server = server, answer = h.answer(200, long) }
    local answer = ask(gateway, "/exchanges/" .. id)
    assert.equal("what was sent", answer.exchange.request.body)
    assert.equal("cut", answer.bodies)
    assert.equal(#long, answer.exchange.response.body_bytes)
    assert.equal(1048576 - 13, #answer.exchange.response.body)
    assert.equal(answer.exchange.response.body, long:sub(1, 1048576 - 13))
    assert.is_nil(answer.exchange.response.body_damaged)
  end)

  it("finds one among many of other workers and times", function()
    local gateway, id = record { workers = 2 }
    for i = 1, 200 do gateway:get("/" .. i) end
    assert.equal(id, ask(gateway, "/exchanges/" .. id).exchange.id)
  end)
end)
