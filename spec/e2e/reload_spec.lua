-- spec/e2e/reload_spec.lua - edits while traffic runs: good ones take effect everywhere, bad ones change nothing.
local h = require "spec.helper"

local RELOADS = tonumber(os.getenv("MOONGATE_TEST_RELOADS")) or 200
local PAUSE_MS = RELOADS > 1000 and 10 or nil -- a run of half an hour leaves others something of the machine
-- AddressSanitizer holds freed memory back, 256 MB of it unless told otherwise: what is freed would look like a leak.
local SMALL_QUARANTINE = h.sanitized and { ASAN_OPTIONS = "quarantine_size_mb=1" } or nil


local function stub(body)
  return ([[
routes:
  - id: stub
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: "%s" } } ]
]]):format(body)
end


local function stamp(text)
  return "local f = { api = 1 }\n"
    .. ("function f.response(res) res:set_header('x-stamp', '%s') end\nreturn f\n"):format(text)
end


describe("a reload", function()
  after_each(h.cleanup)

  it("by command answers when every worker runs the new routes", function()
    local gateway = h.gateway { routes = stub("one"), workers = 2 }
    assert.equal("one", gateway:get("/").body)
    gateway:write_routes(stub("two"))
    local reloaded = gateway:control("reload")
    assert.equal(0, reloaded.code, reloaded.err)
    assert.truthy(reloaded.out:find("%d"))
    for _ = 1, 20 do assert.equal("two", gateway:get("/").body) end
  end)

  it("happens by itself when a file is renamed into place, and on SIGHUP", function()
    local gateway = h.gateway { routes = stub("one") }
    gateway:write_routes(stub("two"))
    h.eventually(function() return gateway:get("/").body == "two" end, 10, "the watch to see routes.yaml")
    gateway:write_routes(stub("three"))
    gateway.child:signal(h.process.HUP)
    h.eventually(function() return gateway:get("/").body == "three" end, 10, "SIGHUP to reload")
  end)

  it("happens by itself when a filter file changes", function()
    local origin = h.origin()
    local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: [ stamp ]\n"),
      filters = { stamp = stamp("one") } }
    assert.equal("one", gateway:get("/"):header("x-stamp"))
    gateway:write_filter("stamp", stamp("two"))
    h.eventually(function() return gateway:get("/"):header("x-stamp") == "two" end, 10, "the new filter")
  end)

  it("is refused while too many generations run, with the exchanges that hold the oldest", function()
    local waits = [[
local f = { api = 1 }
function f.request(req)
  moongate.log("info", "it is " .. req:id())
  moongate.sleep(2.5)
end
return f
]]
    local function routes(body) return (stub(body):gsub("filters: %[", "filters: [ waits,")) end
    local gateway = h.gateway { routes = routes("one"), filters = { waits = waits },
      server = "scripts: { max_generations: 2 }\n" }
    local slow = gateway:connect()
    slow:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.eventually(function() return gateway:log():find("it is", 1, true) end, 5, "the exchange to run")
    gateway:write_routes(routes("two"))
    assert.equal(0, gateway:control("reload").code)
    gateway:write_routes(routes("three"))
    local refused = gateway:control("reload")
    assert.equal(1, refused.code)
    local wanted = "2 generations are still in use by running exchanges (scripts.max_generations is 2), the oldest by "
    assert.truthy(refused.err:find(wanted .. gateway:log():match("it is (%w+)"), 1, true), refused.err)
    assert.equal("one", slow:response().body)
    assert.equal(0, gateway:control("reload").code)
  end)

  it("keeps the client's and the upstream's connection, and running exchanges on their generation", function()
    local go = false
    local origin = h.origin(function(stream, request)
      if request.target == "/slow" then h.eventually(function() return go end, 10, "the spec") end
      stream:send(h.answer(200, request.target))
    end)
    local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: [ stamp ]\n"),
      filters = { stamp = stamp("one") } }
    local quick, slow = gateway:connect(), gateway:connect()
    assert.equal("one", quick:get("/1"):header("x-stamp"))
    slow:send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    h.eventually(function() return #origin.requests == 2 end, 5, "the slow request")
    gateway:write_filter("stamp", stamp("two"))
    assert.equal(0, gateway:control("reload").code)
    assert.equal("two", quick:get("/2"):header("x-stamp"))
    go = true
    assert.equal("one", slow:response():header("x-stamp"))
    assert.equal("two", slow:get("/3"):header("x-stamp"))
    assert.equal(2, origin.connections)
  end)

  it(RELOADS .. " times under load fails no request and leaves memory flat", function()
    local origin = h.builtin_origin()
    local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: [ stamp ]\n"),
      filters = { stamp = stamp("0") }, workers = 2, env = SMALL_QUARANTINE }
    for i = 1, 20 do -- the allocator settles before memory is compared
      gateway:write_filter("stamp", stamp("warm" .. i))
      assert.equal(0, gateway:control("reload").code)
    end
    local workers, before = gateway:workers(), {}
    local load = h.load(gateway:url("/bytes/100"), math.max(600, RELOADS), PAUSE_MS)
    h.sleep(0.5)
    for _, pid in ipairs(workers) do before[pid] = h.process.private_bytes(pid) end
    for i = 1, RELOADS do
      gateway:write_filter("stamp", stamp("n" .. i))
      local reloaded = gateway:control("reload")
      assert.equal(0, reloaded.code, reloaded.err)
    end
    assert.equal("n" .. RELOADS, gateway:get("/"):header("x-stamp"))
    for _, pid in ipairs(workers) do
      local now = h.process.private_bytes(pid)
      local growth = now - before[pid]
      if RELOADS > 1000 then print(("worker %d: %d -> %d KiB"):format(pid, before[pid] / 1024, now / 1024)) end
      assert.is_true(growth < 16 * 1024 * 1024, ("worker %d grew by %d bytes"):format(pid, growth))
    end
    local result = load:stop()
    assert.is_true(result.requests > 100, result.text)
    assert.equal(0, result.bad, result.text)
    assert.equal(0, result.errors, result.text)
    assert.same(workers, gateway:workers())
  end)
end)


-- { what, file to write (nil: the routes), its text, what the message has to say }
local BAD_EDITS = {
  { "a misspelt filter", nil, stub("x"):gsub("ReturnResponse", "RetrunResponse"),
    { "RetrunResponse", "ReturnResponse" } },
  { "a misspelt key", nil, stub("x"):gsub("match", "mach"), { "mach", "match" } },
  { "broken YAML", nil, "routes: [ {", { "routes.yaml" } },
  { "an empty file", nil, "", { "routes.yaml" } },
  { "a filter with a syntax error", "filters/stamp.lua", "local f = {\nreturn f", { "stamp.lua", "2" } },
  { "a filter whose init fails", "filters/stamp.lua",
    "local f = { api = 1 }\nfunction f.init() error('not today') end\nfunction f.request() end\nreturn f\n",
    { "stamp.lua", "not today" } },
  { "a filter with a misspelt function", "filters/stamp.lua",
    "local f = { api = 1 }\nfunction f.requst() end\nreturn f\n", { "requst", "request" } },
}


describe("a bad edit", function()
  local origin, gateway, routes, filter

  setup(function()
    origin = h.origin()
    routes, filter = h.route_to(origin.port, "    filters: [ stamp ]\n"), stamp("good")
    gateway = h.gateway { routes = routes, filters = { stamp = filter }, workers = 2 }
  end)
  teardown(h.cleanup)

  for _, row in ipairs(BAD_EDITS) do
    local what, file, text, words = unpack(row)
    it("with " .. what .. " is refused with a message; the old routes serve", function()
      h.write(gateway.folder .. "/" .. (file or "routes.yaml"), text)
      local reloaded = gateway:control("reload")
      assert.equal(1, reloaded.code)
      for _, word in ipairs(words) do
        assert.truthy((reloaded.err .. reloaded.out):find(word, 1, true), word .. " is not in: " .. reloaded.err)
      end
      for _ = 1, 4 do assert.equal("good", gateway:get("/"):header("x-stamp")) end
      local status = gateway:control("status")
      assert.equal(0, status.code)
      assert.truthy((status.out):find(words[1], 1, true), "status does not say why: " .. status.out)
      gateway:write_routes(routes)
      gateway:write_filter("stamp", filter)
      assert.equal(0, gateway:control("reload").code)
    end)
  end
end)
