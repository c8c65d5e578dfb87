-- spec/e2e/user_filters_spec.lua - filters that users write: the verbs, what they may see, and what their faults cost.
local h = require "spec.helper"


-- A gateway whose one route runs the filters of list (YAML) with these sources, and its origin.
local function gateway_with(list, sources, origin_handler)
  local origin = h.origin(origin_handler)
  local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: " .. list .. "\n"), filters = sources }
  return gateway, origin
end


local TENANT = [[
local tenant = { api = 1, version = "1.0.0" }

tenant.schema = {
  header = { type = "string", default = "x-tenant" },
  allow  = { type = "array", items = "string", required = true },
}

function tenant.init(conf)
  local known = {}
  for _, name in ipairs(conf.allow) do known[name] = true end
  return known
end

function tenant.request(req, conf, known)
  local name = req:header(conf.header)
  if not known[name] then return req:respond(403, "unknown tenant\n") end
  req:set_header("x-checked", "1")
  req:remove_header("cookie")
end

function tenant.response(res, conf) res:set_header("x-served-by", "moongate") end
function tenant.log(ex, conf) end
return tenant
]]


-- A filter with a request function of this body.
local function on_request(body)
  return ("local f = { api = 1 }\nfunction f.request(req, conf)\n%s\nend\nreturn f\n"):format(body)
end


describe("a user's filter", function()
  after_each(h.cleanup)

  it("reads the request, refuses it or changes what goes upstream and back", function()
    local gateway, origin = gateway_with("[ { tenant: { allow: [ acme, initech ] } } ]", { tenant = TENANT })
    local refused = gateway:get("/", "X-Tenant: evil\r\n")
    assert.equal(403, refused.status)
    assert.equal("unknown tenant\n", refused.body)
    assert.equal("moongate", refused:header("x-served-by"))
    assert.equal(0, #origin.requests)
    local response = gateway:get("/", "X-Tenant: acme\r\nCookie: a=1\r\n")
    assert.equal(200, response.status)
    assert.equal("moongate", response:header("x-served-by"))
    assert.equal("1", origin.requests[1]:header("x-checked"))
    assert.is_nil(origin.requests[1]:header("cookie"))
    assert.equal("acme", origin.requests[1]:header("x-tenant"))
  end)

  it("sees the request through every reading verb", function()
    local gateway = gateway_with("[ probe ]", { probe = on_request [[
      local values = {}
      for _, value in ipairs(req:header_values("x-a")) do values[#values + 1] = value end
      req:respond(200, table.concat({
        req:method(), req:path(), tostring(req:query("q")), tostring(req:query("none")), req:host(), req:client_ip(),
        tostring(req:has("x-a")), tostring(req:has("x-b")), tostring(req:header_is("x-a", "1")),
        tostring(req:cookie("c")), table.concat(values, "+"), tostring(#req:id()), tostring(req:header("x-b")),
      }, "|"))]] })
    local response = gateway:get("/p%20q?q=a%26b", "X-A: 1\r\nX-A: 2\r\nCookie: b=0; c=3\r\n")
    assert.equal("GET|/p q|a&b|nil|gateway.test|127.0.0.1|true|false|true|3|1+2|26|nil", response.body)
  end)

  it("changes path, query and headers; reads still answer what the client sent", function()
    local gateway, origin = gateway_with("[ edit ]", { edit = on_request [[
      req:set_path("/new path")
      req:set_query_string(req:query_string() .. "&b=2%263")
      req:set_header("x-a", "new")
      req:add_header("x-b", "1")
      req:add_header("x-b", "2")
      req:set_header("x-old", tostring(req:header("x-a")) .. req:path())
      req:set_header("x-view", tostring(req:upstream_header("x-a")))]] })
    gateway:get("/old?a=1", "X-A: old\r\n")
    local request = origin.requests[1]
    assert.equal("/new%20path?a=1&b=2%263", request.target)
    assert.same({ "new" }, request:values("x-a"))
    assert.same({ "1", "2" }, request:values("x-b"))
    assert.equal("old/old", request:header("x-old"))
    assert.equal("new", request:header("x-view"))
  end)

  it("answers with headers of its own", function()
    local gateway = gateway_with("[ stop ]", { stop = on_request
      [[return req:respond(429, "later\n", { ["Retry-After"] = "3", ["Content-Type"] = "text/x-plain" })]] })
    local response = gateway:get("/")
    assert.equal(429, response.status)
    assert.equal("3", response:header("retry-after"))
    assert.same({ "text/x-plain" }, response:values("content-type"))
  end)

  it("changes answers of the upstream, of filters and of the gateway, and can tell them apart", function()
    local source = [[
local f = { api = 1 }
function f.request(req)
  if req:path() == "/filter" then return req:respond(200, "x") end
end
function f.response(res)
  res:set_header("x-source", res:source())
  res:set_header("x-status", tostring(res:status()))
  if res:header("x-tag") then res:set_status(299) end
  res:remove_header("server")
end
return f
]]
    local gateway, origin = gateway_with("[ mark ]", { mark = source },
      h.answer(200, "x", { "X-Tag: 1", "Server: origin" }))
    local upstream = gateway:get("/")
    assert.equal("upstream", upstream:header("x-source"))
    assert.equal("200", upstream:header("x-status"))
    assert.equal(299, upstream.status)
    assert.is_nil(upstream:header("server"))
    assert.equal("filter", gateway:get("/filter"):header("x-source"))
    origin.close()
    local failed = gateway:get("/")
    assert.equal(502, failed.status)
    assert.equal("gateway", failed:header("x-source"))
  end)

  it("passes notes from request to response and log, and writes to the log", function()
    local source = [[
local f = { api = 1 }
function f.request(req) req:set_attribute("from", req:header("x-from")) end
function f.response(res) res:set_header("x-from", res:attribute("from")) end
function f.log(ex)
  local text = ("finished %s %d %d %s"):format(ex:attribute("from"), ex:status(), ex:response_bytes(), ex:route())
  ex:log("info", text)
end
return f
]]
    local gateway = gateway_with("[ keep ]", { keep = source })
    local client = gateway:connect()
    for i = 1, 20 do assert.equal("n" .. i, client:get("/", ("X-From: n%d\r\n"):format(i)):header("x-from")) end
    local line = "finished n20 200 6 all exchange="
    h.eventually(function() return gateway:log():find(line, 1, true) end, 3, "the log filter's line")
  end)

  it("may keep state from init, which runs once for each worker and generation", function()
    local source = [[
local f = { api = 1 }
function f.init() return { count = 0 } end
function f.request(req, conf, state)
  state.count = state.count + 1
  return req:respond(200, tostring(state.count))
end
return f
]]
    local gateway = gateway_with("[ count ]", { count = source })
    local client = gateway:connect()
    for i = 1, 5 do assert.equal(tostring(i), client:get("/").body) end
  end)

  it("may require a module beside it", function()
    local origin = h.origin()
    local folder_routes = h.route_to(origin.port, "    filters: [ greet ]\n")
    local gateway = h.gateway { routes = folder_routes, filters = {
      greet = "local words = require 'words'\nlocal f = { api = 1 }\n"
        .. "function f.response(res) res:set_header('x-greeting', words.hello) end\nreturn f\n",
      words = "return { hello = 'good morning' }\n",
    } }
    assert.equal("good morning", gateway:get("/"):header("x-greeting"))
  end)
end)


describe("global filters", function()
  after_each(h.cleanup)

  it("run before a route's on the way up and after them on the way down", function()
    local gateway = h.gateway { routes = [[
global_filters:
  - SetResponseHeader: { name: X-Last, value: global }
  - AddResponseHeader: { name: X-All, value: "1" }
routes:
  - id: a
    match: [ { Path: { path: /a } } ]
    filters:
      - SetResponseHeader: { name: X-Last, value: route }
      - ReturnResponse: { status: 200, body: a }
]] }
    local response = gateway:get("/a")
    assert.same({ "global" }, response:values("x-last"))
    assert.same({ "1" }, response:values("x-all"))
    assert.is_nil(gateway:get("/unrouted"):header("x-all"))
  end)
end)


describe("a fault in a filter", function()
  after_each(h.cleanup)

  it("costs that request: 500, no upstream, no later filters, and the log says where", function()
    local origin = h.origin()
    local gateway = h.gateway { filters = { broken = on_request "\n  local x = nil\n  return x.field" },
      routes = h.route_to(origin.port,
        "    filters: [ { SetResponseHeader: { name: x-after, value: y } }, broken ]\n") }
    local client = gateway:connect()
    local response = client:get("/")
    assert.equal(500, response.status)
    assert.is_nil(response:header("x-after"))
    assert.is_nil(response.body:find("broken", 1, true))
    assert.equal(0, #origin.requests)
    h.eventually(function() return gateway:log():find("broken%.lua:%d+") end, 3, "file and line in the log")
    assert.truthy(gateway:log():find("all", 1, true))
    assert.equal(500, gateway:get("/again").status)
  end)

  it("is passed over with on_error: continue", function()
    local origin = h.origin()
    local gateway = h.gateway { filters = { broken = on_request "error('no')" }, routes = h.route_to(origin.port,
      "    filters: [ { broken: {}, on_error: continue }, { SetResponseHeader: { name: x-after, value: y } } ]\n") }
    local response = gateway:get("/")
    assert.equal(200, response.status)
    assert.equal("y", response:header("x-after"))
    h.eventually(function() return gateway:log():find("broken", 1, true) end, 3, "the fault in the log")
  end)

  it("in the response phase gives 500 instead of half an answer", function()
    local gateway = gateway_with("[ broken ]",
      { broken = "local f = { api = 1 }\nfunction f.response(res) error({}) end\nreturn f\n" })
    for _ = 1, 3 do assert.equal(500, gateway:get("/").status) end
  end)

  it("that never ends is stopped, also in compiled code, and others are served", function()
    local gateway = gateway_with("[ loop ]", { loop = on_request
      "if req:path() == '/loop' then local n = 0 while true do n = n + 1 end end" })
    for _ = 1, 300 do assert.equal(200, gateway:get("/").status) end
    local pid = gateway:workers()[1]
    for _ = 1, 3 do
      assert.equal(500, gateway:get("/loop").status)
      assert.equal(200, gateway:get("/").status)
    end
    assert.equal(pid, gateway:workers()[1])
  end)

  it("cannot reach what the sandbox keeps away", function()
    local gateway = gateway_with("[ nosy ]", { nosy = on_request [[
      local found = {}
      for _, name in ipairs { "io", "debug", "ffi", "jit", "package", "loadfile", "dofile", "collectgarbage" } do
        if rawget(_G, name) ~= nil then found[#found + 1] = name end
      end
      if os and os.execute then found[#found + 1] = "os.execute" end
      if string.dump then found[#found + 1] = "string.dump" end
      if pcall(require, "ffi") then found[#found + 1] = "require ffi" end
      if (loadstring or load)("\27LJ\2") then found[#found + 1] = "bytecode" end
      return req:respond(200, table.concat(found, " "))]] })
    assert.equal("", gateway:get("/").body)
  end)

  it("cannot split a message with a header value or name", function()
    local gateway = gateway_with("[ split ]", { split = on_request [[
      local ok = pcall(req.set_header, req, "x-a", "1\r\nX-Evil: 1")
      local name_ok = pcall(req.set_header, req, "x-a: 1\r\nX-Evil", "1")
      return req:respond(200, tostring(ok) .. tostring(name_ok))]] })
    local response, err = gateway:get("/")
    assert(response, err)
    assert.is_nil(response:header("x-evil"))
    assert.is_true(response.status == 500 or response.body == "falsefalse", response.body)
  end)
end)


describe("routes.lua", function()
  after_each(h.cleanup)

  it("returns the same table as the YAML, with functions for filters", function()
    local origin = h.origin()
    local gateway = h.gateway { routes_name = "routes.lua", routes = ([[
local routes = {}
for _, name in ipairs { "red", "blue" } do
  routes[#routes + 1] = {
    id = name,
    match = { { PathPrefix = { prefix = "/" .. name } } },
    filters = {
      { SetRequestHeader = { name = "X-Colour", value = name } },
      function(req) req:set_header("x-path", req:path()) end,
    },
    upstream = { targets = { { url = "http://127.0.0.1:%d" } } },
  }
end
return { routes = routes }
]]):format(origin.port) }
    assert.equal(200, gateway:get("/blue/sky").status)
    assert.equal("blue", origin.requests[1]:header("x-colour"))
    assert.equal("/blue/sky", origin.requests[1]:header("x-path"))
    assert.equal(404, gateway:get("/green").status)
  end)

  it("takes a function for a predicate", function()
    local gateway = h.gateway { routes_name = "routes.lua", routes = [[
return { routes = {
  { id = "even", match = { function(req) return #req:path() % 2 == 0 end },
    filters = { { ReturnResponse = { status = 200, body = "even" } } } },
  { id = "rest", match = { { PathPrefix = { prefix = "/" } } },
    filters = { { ReturnResponse = { status = 200, body = "odd" } } } },
} }
]] }
    assert.equal("even", gateway:get("/a").body)
    assert.equal("odd", gateway:get("/ab").body)
  end)
end)


describe("a message about a filter's mistake", function()
  after_each(h.cleanup)

  local function log_of(statement)
    local source = ("local f = { api = 1 }\nfunction f.request(req)\n  %s\nend\nreturn f\n"):format(statement)
    local gateway = h.gateway { routes = h.route_to(h.origin().port, "    filters: [ f ]\n"), filters = { f = source } }
    assert.equal(500, gateway:get("/").status)
    return h.eventually(function() return gateway.child:errors():match("[^\n]* failed: [^\n]*") end, 5, "the log")
  end

  it("names the filter's line, whoever noticed it", function()
    for _, statement in ipairs { "req:header(nil)", "req:set_header('x')", "req:has()", "local t = nil; t.x = 1",
      "req:respond('high')", "error('mine')" } do
      local said = log_of(statement)
      assert.truthy(said:find("failed: filters/f.lua:3: ", 1, true), said)
    end
  end)

  it("says of a body that is not held how it would be", function()
    assert.truthy(log_of("req:body()"):find('declare body = { request = "buffer" }', 1, true))
  end)

  it("says of what the sandbox lacks that it does", function()
    for _, statement in ipairs { "io.open('x')", "local x = ffi.C", "debug.traceback()" } do
      local said = log_of(statement)
      assert.truthy(said:find('filters run without it; see "What a filter may not do"', 1, true), said)
    end
    assert.is_nil(log_of("mine.x = 1"):find("filters run without it", 1, true))
  end)
end)
