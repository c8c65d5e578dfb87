-- spec/filters/header_edits_spec.lua - Add, Set and Remove, on requests and on answers.
local h = require "spec.helper"


-- A gateway with one route to an origin, and these filters (YAML, a line each).
local function with_filters(...)
  local lines = { "    filters:" }
  for _, filter in ipairs { ... } do lines[#lines + 1] = "      - " .. filter end
  local origin = h.origin(h.answer(200, "x", { "X-Tag: origin", "Server: secret" }))
  return h.gateway { routes = h.route_to(origin.port, table.concat(lines, "\n") .. "\n") }, origin
end


describe("AddRequestHeader", function()
  after_each(h.cleanup)

  it("adds a line beside those of the client", function()
    local gateway, origin = with_filters('AddRequestHeader: { name: X-Tag, value: "two" }')
    gateway:get("/", "X-Tag: one\r\n")
    assert.same({ "one", "two" }, origin.requests[1]:values("x-tag"))
  end)
end)


describe("SetRequestHeader", function()
  after_each(h.cleanup)

  it("replaces every line of the client, or adds one", function()
    local gateway, origin = with_filters("SetRequestHeader: { name: x-tag, value: gateway }")
    gateway:get("/", "X-Tag: one\r\nX-Other: 1\r\nX-TAG: two\r\n")
    gateway:get("/")
    assert.same({ "gateway" }, origin.requests[1]:values("x-tag"))
    assert.same({ "1" }, origin.requests[1]:values("x-other"))
    assert.same({ "gateway" }, origin.requests[2]:values("x-tag"))
  end)
end)


describe("RemoveRequestHeader", function()
  after_each(h.cleanup)

  it("removes every line of that name in any letter case", function()
    local gateway, origin = with_filters("RemoveRequestHeader: { name: cookie }")
    gateway:get("/", "Cookie: a=1\r\nX-A: 1\r\nCOOKIE: b=2\r\n")
    assert.same({}, origin.requests[1]:values("cookie"))
    assert.same({ "1" }, origin.requests[1]:values("x-a"))
  end)
end)


describe("AddResponseHeader", function()
  after_each(h.cleanup)

  it("adds a line beside the upstream's", function()
    local gateway = with_filters("AddResponseHeader: { name: X-Tag, value: gateway }")
    assert.same({ "origin", "gateway" }, gateway:get("/"):values("x-tag"))
  end)
end)


describe("SetResponseHeader", function()
  after_each(h.cleanup)

  it("replaces the upstream's", function()
    local gateway = with_filters("SetResponseHeader: { name: x-tag, value: gateway }")
    assert.same({ "gateway" }, gateway:get("/"):values("x-tag"))
  end)

  it("has the last word when it is declared first", function()
    local gateway = with_filters("SetResponseHeader: { name: x-tag, value: first }",
      "SetResponseHeader: { name: x-tag, value: second }")
    assert.same({ "first" }, gateway:get("/"):values("x-tag"))
  end)
end)


describe("RemoveResponseHeader", function()
  after_each(h.cleanup)

  it("removes the upstream's", function()
    local gateway = with_filters("RemoveResponseHeader: { name: server }")
    local response = gateway:get("/")
    assert.same({}, response:values("server"))
    assert.same({ "origin" }, response:values("x-tag"))
  end)
end)


describe("header edits together", function()
  after_each(h.cleanup)

  it("are applied in order, on every request alike", function()
    local gateway, origin = with_filters(
      "AddRequestHeader: { name: X-A, value: one }",
      "SetRequestHeader: { name: X-A, value: two }",
      "AddRequestHeader: { name: X-A, value: three }",
      "RemoveRequestHeader: { name: X-B }",
      "AddRequestHeader: { name: X-B, value: again }")
    local client = gateway:connect()
    for _ = 1, 50 do client:get("/", "X-A: zero\r\nX-B: zero\r\n") end
    assert.equal(50, #origin.requests)
    for _, request in ipairs(origin.requests) do
      assert.same({ "two", "three" }, request:values("x-a"))
      assert.same({ "again" }, request:values("x-b"))
    end
  end)

  it("cannot touch the framing of a message", function()
    local gateway = with_filters("AddResponseHeader: { name: X-Ok, value: fine }")
    gateway:write_routes((h.process.read_file(gateway.folder .. "/routes.yaml"):gsub("X%-Ok", "Transfer-Encoding")))
    local reloaded = gateway:control("reload")
    if reloaded.code == 0 then -- accepted at load: then it must fail the request, not the framing
      local response = gateway:get("/")
      assert.is_nil(response:header("transfer-encoding"))
    else
      assert.equal("fine", gateway:get("/"):header("x-ok"))
    end
  end)
end)


describe("a header that the gateway alone sets", function()
  after_each(h.cleanup)

  local NAMES = { "Connection", "keep-alive", "Proxy-Connection", "UPGRADE", "te", "Trailer", "Transfer-Encoding",
    "content-length", "Expect", "Host", "Date", "Server", "Cookie", "Content-Type", "X-Own" }
  -- What each does, with the name that the client says.
  local FILTERS = {
    SetRequestHeader = "request = function(req) req:set_header(req:header('x-name'), 'a') end",
    AddRequestHeader = "request = function(req) req:add_header(req:header('x-name'), 'a') end",
    RemoveRequestHeader = "request = function(req) req:remove_header(req:header('x-name')) end",
    SetResponseHeader = "response = function(res) res:set_header(res:request():header('x-name'), 'a') end",
    AddResponseHeader = "response = function(res) res:add_header(res:request():header('x-name'), 'a') end",
    RemoveResponseHeader = "response = function(res) res:remove_header(res:request():header('x-name')) end",
  }

  local function accepts(folder, filter, name)
    local value = filter:find("Remove") and "" or ", value: a"
    h.write(folder .. "/routes.yaml",
      h.route_to(1, ("    filters: [ { %s: { name: %s%s } } ]\n"):format(filter, name, value)))
    local result = h.moongate { "check", "--routes", folder .. "/routes.yaml" }
    if result.code ~= 0 then
      assert.truthy(result.err:find("/routes.yaml:6:", 1, true), result.err)
      assert.truthy(result.err:find("not one that the gateway alone sets", 1, true), result.err)
    end
    return result.code == 0
  end

  it("is refused at load exactly where a filter's own attempt would fail", function()
    local origin, folder = h.origin(), h.folder()
    for filter, call in pairs(FILTERS) do
      local source = ("return { api = 1, %s }"):format(call)
      local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: [ f ]\n"), filters = { f = source } }
      for _, name in ipairs(NAMES) do
        local works = gateway:get("/", ("X-Name: %s\r\n"):format(name)).status == 200
        assert.equal(works, accepts(folder, filter, name), filter .. " " .. name)
      end
    end
  end)
end)
