-- spec/e2e/request_verbs_spec.lua - what a user's filter can ask of a request and change besides its header lines.
local h = require "spec.helper"


-- A gateway whose only route has one filter, with this source; targets: ports of upstreams.
local function with(source, targets)
  local list = {}
  for i, port in ipairs(targets) do list[i] = ('{ url: "http://127.0.0.1:%d" }'):format(port) end
  return h.gateway {
    filters = { own = "local own = { api = 1 }\n" .. source .. "\nreturn own\n" },
    routes = ([[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ own ]
    upstream: { targets: [ %s ] }
]]):format(table.concat(list, ", ")),
  }
end


describe("a filter", function()
  after_each(h.cleanup)

  it("reads and changes parameters and cookies", function()
    local origin = h.origin()
    local gateway = with([[
function own.request(req)
  if req:has_query("drop") then req:remove_query("drop") end
  req:set_query("set", 1)
  req:add_query("added", true)
  if req:has_cookie("old") then req:remove_cookie("old") end
  req:set_cookie("new", 7)
end]], { origin.port })
    assert.equal(200, gateway:get("/?drop=1&set=0&x", "Cookie: old=1; a=2\r\n").status)
    assert.equal("/?set=1&x&added=true", origin.requests[1].target)
    assert.same({ "a=2; new=7" }, origin.requests[1]:values("cookie"))
  end)

  it("sees the path as the filters before have left it, in every later filter of the phase", function()
    local origin = h.origin()
    local gateway = with([[
function own.request(req)
  local before = req:upstream_path()
  req:set_path("/a b/" .. before:sub(2))
  req:set_header("x-seen", before .. "|" .. req:upstream_path() .. "|" .. req:path())
end]], { origin.port })
    gateway:get("/c%3Fd")
    assert.equal("/a%20b/c%3Fd", origin.requests[1].target)
    assert.equal("/c?d|/a b/c?d|/c?d", origin.requests[1]:header("x-seen"))
  end)

  it("sets the host by the rules of hosts, however often the same line was set in a response", function()
    local origin = h.origin()
    local gateway = with([[
function own.request(req)
  local verb, value = req:query("verb"), req:query("value")
  if verb == "set" then req:set_header("Host", value == "bad" and "a b" or "other.test") end
  if verb == "remove" then req:remove_header("Host") end
  if verb == "add" then req:add_header("Host", "other.test") end
end
function own.response(res)
  res:set_header("Host", "other.test")
  res:set_header("Host", "a b")
  res:remove_header("Host")
end]], { origin.port })
    for _ = 1, 5 do gateway:get("/") end
    assert.equal(200, gateway:get("/?verb=set").status)
    assert.same({ "other.test" }, origin.requests[6]:values("host"))
    assert.equal(500, gateway:get("/?verb=set&value=bad").status)
    assert.equal(500, gateway:get("/?verb=remove").status)
    assert.equal(500, gateway:get("/?verb=add").status)
    assert.equal(6, #origin.requests)
  end)

  it("cannot set a path that a client may not send", function()
    local gateway = with([[
function own.request(req) req:set_path(req:query("to")) end]], { h.origin().port })
    for _, path in ipairs { "/a/../b", "/..", "/a%2e%2e/", "x", "/a\\b" } do
      local encoded = path:gsub("[^%w/]", function(c) return ("%%%02X"):format(c:byte()) end)
      assert.equal(500, gateway:get("/?to=" .. encoded).status, path)
    end
    assert.equal(200, gateway:get("/?to=/fine").status)
  end)

  it("matches with expressions of its own", function()
    local origin = h.origin()
    local gateway = with([[
function own.init()
  local date = assert(moongate.regex("(?<year>\\d{4})-(\\d\\d)"))
  local none, why = moongate.regex("(")
  assert(none == nil and why:find("parenthesis"))
  local swap = assert(date:replacement("$2/${year}"))
  return { date = date, whole = assert(moongate.regex("\\d+", { whole = true })), swap = swap }
end
function own.request(req, _, state)
  local text = req:query("t")
  local first, last = state.date:find(text)
  local seen = { tostring(first), tostring(last), tostring(first and state.date:group(text, 1)),
    (state.date:replace(text, state.swap)), tostring(state.whole:test(text)),
    tostring(req:query_matches("t", state.whole)), tostring(req:header_matches("x-n", state.whole)),
    tostring(req:cookie_matches("n", state.whole)) }
  req:set_header("x-seen", table.concat(seen, " "))
end]], { origin.port })
    gateway:get("/?t=on+2024-05+or+2025-06", "X-N: 1\r\nCookie: n=x\r\n")
    gateway:get("/?t=12", "Cookie: n=1\r\n")
    assert.equal("4 10 2024 on 05/2024 or 06/2025 false false true false", origin.requests[1]:header("x-seen"))
    assert.equal("nil nil nil 12 true true false true", origin.requests[2]:header("x-seen"))
  end)

  it("answers 500 with regex_budget when an expression of its own costs too much", function()
    local gateway = with([[
function own.init() return assert(moongate.regex("(a+)+[bc]$")) end
function own.request(req, _, regex) regex:find(req:path()) end
function own.response(res, _, regex) res:set_header("x-after", "1") end]], { h.origin().port })
    local response = gateway:get("/" .. ("a"):rep(60))
    assert.equal(500, response.status)
    assert.truthy(response.body:find("regex_budget", 1, true))
    assert.equal("1", response:header("x-after"))
    assert.equal(200, gateway:get("/b").status)
  end)

  it("keeps values of any kind with an exchange, each exchange its own", function()
    local origin = h.origin()
    local gateway = with([[
local ended = 0
function own.request(req)
  if req:local_value("list") ~= nil then return req:respond(500, "left over") end
  if req:query("v") then req:set_local("list", { value = req:query("v"), call = function(x) return x .. "!" end }) end
end
function own.response(res)
  local list = res:local_value("list")
  res:set_header("x-seen", list and list.call(list.value) or "none")
  res:set_local("seen", true)
end
function own.log(ex) assert(ex:local_value("seen") == true) end]], { origin.port })
    local client = gateway:connect()
    for i = 1, 20 do
      assert.equal(i .. "!", client:get("/?v=" .. i):header("x-seen"))
      assert.equal("none", client:get("/"):header("x-seen"))
    end
    assert.is_nil(gateway:log():find("failed", 1, true), gateway:log())
  end)

  it("lets go of those values when the exchange ends", function()
    local gateway = with([[
local alive, garbage = setmetatable({}, { __mode = "k" }), nil
function own.request(req)
  if req:path() == "/count" then
    for i = 1, 20000 do garbage = { i } end -- so that the collector has a reason to run
    local count = 0
    for _ in pairs(alive) do count = count + 1 end
    return req:respond(200, tostring(count))
  end
  local value = { ("x"):rep(1000) }
  alive[value] = true
  req:set_local("value", value)
end]], { h.origin().port })
    local client = gateway:connect()
    for _ = 1, 2000 do client:get("/") end
    local count = h.eventually(function()
      local left = tonumber(client:get("/count").body)
      return left < 500 and left
    end, 10, "the values to go")
    assert.is_true(count < 500)
  end)

  it("chooses a target", function()
    local first, second = h.origin(h.answer(200, "first")), h.origin(h.answer(200, "second"))
    local gateway = with([[
function own.request(req)
  local wanted = req:query("to")
  for i, target in ipairs(req:targets()) do
    if target == wanted then req:set_target(i) end
  end
  req:set_header("x-tries", req:try())
end
function own.response(res) res:set_header("x-tries", res:request():try()) end]], { first.port, second.port })
    for _ = 1, 4 do
      assert.equal("second", gateway:get("/?to=127.0.0.1:" .. second.port).body)
      assert.equal("first", gateway:get("/?to=127.0.0.1:" .. first.port).body)
    end
    local response = gateway:get("/?to=nowhere")
    assert.equal("1", response:header("x-tries"))
    assert.equal("0", first.requests[1]:header("x-tries"))
  end)

  it("goes on with the strategy when the target that it chose is not there", function()
    local gone = h.origin()
    gone.close()
    local there = h.origin(h.answer(200, "there"))
    local gateway = with("function own.request(req) req:set_target(1) end", { gone.port, there.port })
    for _ = 1, 3 do assert.equal("there", gateway:get("/").body) end
  end)

  it("is told of its mistakes", function()
    local gateway = with([[
local CALLS = {
  cookie_name = function(req) req:set_cookie("a b", "c") end,
  cookie_value = function(req) req:set_cookie("a", "b;c") end,
  target = function(req) req:set_target(2) end,
  target_text = function(req) req:set_target("x") end,
  table_value = function(req) req:set_query("a", {}) end,
  regex = function(req) req:header_matches("a", "text") end,
  no_regex = function(req) req:query_matches("call", nil) end,
  pattern = function() moongate.regex(5) end,
}
function own.request(req) CALLS[req:query("call")](req) end]], { h.origin().port })
    local messages = {
      cookie_name = 'set_cookie("a b"): not a name', cookie_value = 'set_cookie("a"): a value with control',
      target = "set_target(\"2\"): not a path, query, host or target", target_text = "set_target: a number from 1",
      table_value = 'set_query("a"): the value is a table',
      regex = 'header_matches("a"): an expression of moongate.regex is missing',
      no_regex = 'query_matches("call"): an expression of moongate.regex is missing',
      pattern = "moongate.regex: only while the filter is loaded",
    }
    for call, message in pairs(messages) do
      assert.equal(500, gateway:get("/?call=" .. call).status, call)
      local log = gateway:log()
      assert.truthy(log:find(message, 1, true), log)
      -- The mistake is the filter's, so is the line; but for "bad argument", which the FFI says.
      assert.is_nil(log:find(": lua/handles[%w_]*.lua:%d+: [^b]"), log)
    end
  end)
end)
