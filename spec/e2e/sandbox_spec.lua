-- spec/e2e/sandbox_spec.lua - ways out of the sandbox, and ways to hurt others from inside of it, each of them tried in
-- a running gateway. Whatever a script tries, the worker lives on, other routes are served, and nothing is reached.
local h = require "spec.helper"

--- Runs what a request brings in X-Code, with the request and what the filter keeps, and answers with its results.
local PROBE = [[
local probe = { api = 1 }

function probe.init()
  return {
    expression = assert(moongate.regex("(b)c")), costly = assert(moongate.regex("(a+)+[bc]$")),
    limiter = moongate.limiter { capacity = 1, refill_tokens = 1, period = 1000, ttl = 30000, buckets = 9,
      ipv6_prefix = 64 },
    breaker = moongate.breaker { failures = 1, cooldown = 1000 },
  }
end

function probe.request(req, _, state)
  local code = assert(load("local req, state = ... " .. req:header("x-code"), "=code"))
  local results = { pcall(code, req, state) }
  for i = 1, 4 do results[i] = tostring(results[i]):sub(1, 300) end
  return req:respond(200, table.concat(results, " | "))
end

return probe
]]

local ROUTES = [[
routes:
  - id: probed
    match: [ { PathPrefix: { prefix: /probe } } ]
    filters: [ probe ]
  - id: free
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: free } } ]
]]

local SERVER = ("scripts: { max_call_time: %dms }\n"):format(h.sanitized and 600 or 60)
local FAILED = "filter_failed" -- in the body of a 500
local GONE = "a handle may not be kept"

--- { what is tried, code, what the answer has to say }
local ROWS = {
  -- what reaches out
  { "the names of what is not there", [[
    for _, name in ipairs { "io", "debug", "jit", "ffi", "package", "dofile", "loadfile", "module", "collectgarbage",
      "getfenv", "setfenv", "newproxy", "gcinfo", "moongate_embedded", "moongate_list" } do
      if _G[name] ~= nil then return name end
    end
    return os.execute, os.getenv, os.exit]], "true | nil | nil | nil" },
  { "C modules and the gateway's own", [[
    for _, name in ipairs { "ffi", "jit", "io", "os", "cjson", "lfs", "socket.core", "jit.util", "table.new" } do
      if pcall(require, name) then return name end
    end]], "true | nil" },
  { "a module by its path", [[return pcall(require, "../../../etc/passwd")]], "is not a module name" },
  { "bytecode", [[return load("\27LJ\2\10\1\2")]], "true | nil" },
  { "bytecode with a mode that allows it", [[return load("\27LJ\2\10\1\2", "x", "b")]], "true | nil" },
  { "string.dump", [[return string.dump, ("").dump]], "true | nil | nil" },
  { "the metatable of strings", [[return getmetatable("")]], "true | false" },
  { "another metatable for strings", [[return pcall(setmetatable, "", {})]], "true | false" },
  { "the methods of strings by way of string", [[string.upper = function() return "mine" end return ("x"):upper()]],
    "true | X" },
  { "the metatable of a handle", [[return getmetatable(req), pcall(setmetatable, req, {})]], "true | ffi | false" },
  { "the metatable of an expression", [[return getmetatable(state.expression)]], "true | ffi" },
  { "the metatable of the log", [[return pcall(setmetatable, moongate.log, {})]], "true | false" },
  -- handles
  { "the inside of a handle", "return req.slot", "the request has no verb slot" },
  { "a handle as an array", "return req[0]", "false | " },
  { "arithmetic on a handle", "return req + 1", "false | " },
  { "the length of a handle", "return #req", "false | " },
  { "calling a handle", "return req()", "false | " },
  { "writing to a handle", "req.x = 1", "false | " },
  { "a method on no handle", "return req.header(nil, 'host')", GONE },
  { "a method on a null pointer", "return req.header(moongate.json.null, 'host')", "false | " },
  { "a method on the wrong kind of object", "return req.header(state.expression, 'host')", "false | " },
  { "a number for a handle", "return req.attribute(65536, 'a')", "called on a number, not on a handle" },
  { "a text for a handle", "return req.set_local('abcdefgh', 'a', 1)", "called on a string, not on a handle" },
  { "a table for a handle", "return req.log({}, 'info', 'x')", "called on a table, not on a handle" },
  { "a null pointer for a handle", "return req.attribute(moongate.json.null, 'a')", "not on a handle" },
  { "no expression", "return state.expression.test(nil, 'abc')", "true | false" },
  { "a null pointer for an expression", "return req:header_matches('host', moongate.json.null)", "is missing" },
  { "no limiter", "return state.limiter.take(nil, req)", "false | " },
  { "a null pointer for a breaker", "return state.breaker.enter(moongate.json.null, req)", "false | " },
  { "groups that are not there", [[
    state.expression:test("abc")
    return state.expression:group("abc", 999999), state.expression:group("abc", -5)]], "true | nil | nil" },
  { "places outside of a text", [[
    return state.expression:find("abc", -99), state.expression:find("abc", 1e300), ("x"):find("y", 0 / 0)]],
    "true | nil | nil | nil" },
  { "numbers that are none", [[return pcall(req.set_target, req, 0 / 0)]], "a number from 1" },
  { "less than nothing of a body", [[return pcall(req.limit_body, req, -1)]], "a number from 0" },
  { "a status that is none", [[return pcall(req.respond, req, 99, "")]], "a status is a number from 200 to 599" },
  -- messages
  { "a line break in a value", [[return pcall(req.set_header, req, "x-a", "1\r\nx-b: 2")]], "control characters" },
  { "a line break in a name", [[return pcall(req.set_header, req, "x-a: 1\r\nx-b", "2")]], "not a name" },
  { "a line break in an answer", [[return pcall(req.respond, req, 200, "", { ["x-a"] = "1\r\n\r\nHTTP/1.1 200" })]],
    FAILED }, -- it has answered, the probe can no more
  { "a line break in a cookie", [[return pcall(req.set_cookie, req, "a", "1\r\nx-b: 2")]], "control characters" },
  { "a second cookie in one", [[return pcall(req.set_cookie, req, "a", "1; admin=yes")]], "what ends it" },
  { "a line break in a query", [[return pcall(req.set_query_string, req, "a=1 HTTP/1.1\r\nx-b: 2")]], "can be sent" },
  { "a path that climbs", [[return pcall(req.set_path, req, "/a/../b")]], "can be sent" },
  { "another host by the path", [[return pcall(req.set_path, req, "http://elsewhere/")]], "can be sent" },
  { "the framing", [[return pcall(req.set_header, req, "transfer-encoding", "chunked")]], "the gateway alone" },
  { "a line break in the log", [[moongate.log("info", "a\n2026 error FAKE") req:log("info", "b\r\n2026 error FAKE")]],
    "true | nil" },
  -- others
  { "an upstream that was not declared", [[return moongate.http("free", { path = "/" })]], "may not call free" },
  { "files that were not declared", [[return moongate.directory("/etc")]], "may not reach files" },
  { "coroutines of the gateway", [[return coroutine.running()]], "true | nil" },
  { "coroutines that are none", [[return coroutine.resume(nil)]], "not a coroutine of this filter" },
  { "a yield to the gateway", [[return coroutine.yield("sleep", 1)]], "outside of a coroutine of this filter" },
  { "a wait in a coroutine of its own", [[
    return coroutine.resume(coroutine.create(function() moongate.sleep(1) end))]], "cannot wait" },
  { "a wait of no length", [[moongate.sleep(0 / 0)]], "seconds is a number" },
  { "a wait without end", [[moongate.sleep(math.huge)]], "seconds is a number" },
  -- the C stack and long calls of C
  { "coroutines in coroutines", [[local function f() return coroutine.wrap(f)() end f()]], "wait for each other" },
  { "sorts in sorts", [[local function f() table.sort({ 1, 2, 3 }, f) end f()]], "stack overflow" },
  { "sorts in comparisons", [[
    local mt = {}
    function mt.__lt() table.sort { setmetatable({}, mt), setmetatable({}, mt) } return true end
    mt.__lt()]], "stack overflow" },
  { "formats in formats", [[
    local mt = {}
    function mt.__tostring(self) return ("%s"):format(self) end
    return ("%s"):format(setmetatable({}, mt))]], "stack overflow" },
  { "dates that look themselves up", [[
    local mt = {}
    function mt.__index() return os.time(setmetatable({}, mt)) end
    return os.time(setmetatable({}, mt))]], "missing in date table" },
  { "deep recursion", [[local function f() return 1 + f() end return f()]], "stack overflow" },
  { "recursion through pcall", [[local function f() return pcall(f) end return f()]], { FAILED, "stack overflow" } },
  { "text that is its own text", [[
    local mt = {}
    function mt.__tostring(self) return tostring(self) end
    return tostring(setmetatable({}, mt))]], FAILED },
  { "long sources", [[return load(("a=1 "):rep(1e6))]], "more than 128 KB of source" },
  { "sources whose length costs more than it is long", [[
    return load("local a if a then " .. ("elseif a then "):rep(74000) .. " end")]], "more than 128 KB of source" },
  { "deep sources", [[return load("return " .. ("("):rep(1e5))]], "true | nil" },
  { "long JSON", [[local s = ("1,"):rep(2e6) return moongate.json.decode("[" .. s .. s .. s .. "1]")]],
    { "more than 8 MB", FAILED } },
  { "deep JSON", [[return moongate.json.decode(("["):rep(1e5))]], "could not decode" },
  { "an order that is none", [[
    local t = {}
    for i = 1, 1000 do t[i] = i end
    table.sort(t, function() return true end)
    return #t]], "true | 1000" },
  { "wide formats", [[return ("%99999d"):format(1)]], "false | " },
  { "patterns that go back and forth", [[return (("a"):rep(200)):match(("a*"):rep(30) .. "b")]], "too much work" },
  { "patterns with a long set", [[return ("b"):rep(1e6):find("[" .. ("a"):rep(1e6) .. "]x")]],
    { "too much work", FAILED } },
  { "patterns with a long frontier", [[return ("b"):rep(1e6):find("%f[" .. ("a"):rep(1e6) .. "]x")]],
    { "too much work", FAILED } },
  { "patterns that go through a long text again and again", [[
    local text = {}
    for i = 1, 16 do text[i] = ("a"):rep(4e6) end
    return table.concat(text):find("[abcdefghijklmnop]-x")]], { "too much work", FAILED } },
  { "replacements that search", [[
    return (("a"):rep(5):gsub("a", function(a) return (a:gsub("a", "b")) end))]], "true | bbbbb" },
  { "replacements without end", [[
    return (("a"):rep(4e6):gsub("a", function() return ("b"):rep(1e6) end))]], { "longer than 64 MB", FAILED } },
  { "long texts", [[return ("x"):rep(1e9)]], "at most 4194304 are allowed" },
  { "tables that grow for ever", [[local t = {} while true do t[#t + 1] = { t } end]], FAILED },
  { "texts that grow for ever", [[local s = "x" while true do s = s .. s end]], { FAILED, "not enough memory" } },
  { "more results than fit", [[return unpack({}, 1, 1e8)]], "too many results" },
  { "an expression that is costly", [[return state.costly:test(("a"):rep(5000))]],
    { FAILED, "regex_budget", "took too long" } },
  { "expressions without end", [[
    local kept = {}
    for i = 1, 1e6 do kept[i] = moongate.regex("a" .. i) end]], "only while the filter is loaded" },
  -- errors
  { "an error that is no text", "error({})", "false | table" },
  { "an error whose text fails", [[error(setmetatable({}, { __tostring = function() error("in it") end }))]], FAILED },
  { "an error whose text has no end", [[
    error(setmetatable({}, { __tostring = function() while true do end end }))]], FAILED },
  { "an error of nothing", "error()", "false | nil" },
  { "a long error", [[error(("x"):rep(4e6), 0)]], "false | xxx" },
}


local function answers_with(body, wanted)
  for _, text in ipairs(type(wanted) == "table" and wanted or { wanted }) do
    if body:find(text, 1, true) then return true end
  end
  return false
end


describe("a sandbox in a running gateway", function()
  local gateway, workers

  setup(function()
    gateway = h.gateway { routes = ROUTES, server = SERVER, filters = { probe = PROBE } }
    workers = gateway:workers()
  end)
  teardown(h.cleanup)

  local function run(code)
    return (gateway:get("/probe", ("X-Code: %s\r\n"):format(code:gsub("%s+", " "))))
  end

  for _, row in ipairs(ROWS) do
    it("stands " .. row[1], function()
      local response = assert(run(row[2]))
      assert(answers_with(response.body, row[3]), response.body)
      assert.equal("free", gateway:get("/").body)
      assert.same(workers, gateway:workers())
    end)
  end

  it("writes each log line as one, and no endless one", function()
    local long
    for line in gateway:log():gmatch("[^\n]+") do
      assert.is_nil(line:find("^2026 error FAKE"))
      long = long or #line > 16384
    end
    assert.falsy(long)
  end)

  it("keeps the handle of an exchange to its own phases, and from others once it has ended", function()
    local keep = run("KEPT = req return 1")
    assert.equal(200, keep.status)
    assert.truthy(run("return KEPT:path()").body:find(GONE, 1, true))
    assert.truthy(run("return KEPT:respond(200, 'mine')").body:find(GONE, 1, true))
    local slow = gateway:connect()
    slow:send("GET /probe/slow HTTP/1.1\r\nHost: a\r\nX-Code: KEPT = req moongate.sleep(0.3) return 'mine'\r\n\r\n")
    h.sleep(0.1)
    for _, verb in ipairs { "KEPT:set_header('x-a', '1')", "KEPT:respond(200, 'not mine')", "KEPT:set_path('/x')" } do
      assert.truthy(run("return " .. verb).body:find("not possible in this phase", 1, true), verb)
    end
    assert.truthy(slow:response().body:find("true | mine", 1, true))
  end)

  it("keeps what all directories share from a filter that has one", function()
    gateway:write_filter("holder", [[
local holder = { api = 1, needs = { files = true } }
function holder.init() return moongate.directory("/") end
function holder.request(req, _, directory)
  return req:respond(200, tostring(directory.__index) .. tostring(getmetatable(directory)))
end
return holder
]])
    gateway:write_routes((ROUTES:gsub("filters: %[ probe %]", "filters: [ holder ]")))
    local reloaded = gateway:control("reload")
    assert.equal(0, reloaded.code, reloaded.err)
    assert.equal("nilfalse", gateway:get("/probe").body)
  end)

  it("keeps the globals of one filter from another", function()
    gateway:write_filter("other", PROBE)
    gateway:write_routes((ROUTES:gsub("filters: %[ probe %]", "filters: [ { probe: {} } ]\n"
      .. "  - id: other\n    match: [ { PathPrefix: { prefix: /other } } ]\n    filters: [ other ]")))
    local reloaded = gateway:control("reload")
    assert.equal(0, reloaded.code, reloaded.err)
    run([[
      SHARED = 1
      string.rep, table.concat, math.floor, bit.band, moongate.time, moongate.json.encode = nil
      moongate.log.info = error]])
    local code = "return SHARED, string.rep ~= nil and moongate.time ~= nil and math.floor ~= nil and bit.band ~= nil"
    assert.truthy(gateway:get("/other", ("X-Code: %s\r\n"):format(code)).body:find("true | nil | true", 1, true))
  end)
end)
