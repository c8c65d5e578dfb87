-- spec/e2e/routing_spec.lua - which request goes where: predicates, and/or/not, order.
local h = require "spec.helper"

-- { match (YAML), requests that match, requests that do not } with requests as { target, header lines, method }
local ROWS = {
  { "[ { Path: { path: /a } } ]", { { "/a" }, { "/%61" }, { "/a?x" } }, { { "/a/" }, { "/ab" }, { "/A" } } },
  { "[ { PathPrefix: { prefix: /a } } ]", { { "/a" }, { "/ab" }, { "/a/b" } }, { { "/" }, { "/b/a" } } },
  { "[ { Host: { hosts: [ gateway.test, b ] } } ]", { { "/" }, { "/", "", "GET", "B:80" } },
    { { "/", "", "GET", "c" } } },
  { "[ { Method: { include: [ GET, BREW ] } } ]", { { "/" }, { "/", "", "BREW" } }, { { "/", "", "PUT" } } },
  { "[ { RequestHeader: { name: X-A, value: one } } ]", { { "/", "x-a: one\r\n" } },
    { { "/" }, { "/", "X-A: two\r\n" }, { "/", "X-A: one\r\nX-A: two\r\n" } } },
  { "[ { HasRequestHeader: { name: X-A } } ]", { { "/", "x-a:\r\n" } }, { { "/" } } },
  { "[ { Path: { path: /a } }, { HasRequestHeader: { name: X-A } } ]", { { "/a", "X-A: 1\r\n" } },
    { { "/a" }, { "/", "X-A: 1\r\n" } } },
  { "[ { or: [ { Path: { path: /a } }, { Path: { path: /b } } ] } ]", { { "/a" }, { "/b" } }, { { "/c" } } },
  { "[ { not: { Path: { path: /a } } } ]", { { "/b" } }, { { "/a" } } },
  { "[ { and: [ { PathPrefix: { prefix: /a } }, { not: [ { Path: { path: /a/x } } ] } ] } ]", { { "/a/y" } },
    { { "/a/x" }, { "/b" } } },
}


local function send(client, request)
  local target, lines, method, host = unpack(request)
  client:send(("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n")
    :format(method or "GET", target, host or "gateway.test", lines or ""))
  return client:response().status
end


describe("routing", function()
  after_each(h.cleanup)

  it("follows each predicate", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    for _, row in ipairs(ROWS) do
      local match, hits, misses = unpack(row)
      gateway:write_routes((h.route_to(origin.port):gsub("match: [^\n]*", function() return "match: " .. match end)))
      local reloaded = gateway:control("reload")
      assert.equal(0, reloaded.code, match .. "\n" .. reloaded.err)
      local client = gateway:connect()
      for _, request in ipairs(hits) do assert.equal(200, send(client, request), match .. " " .. request[1]) end
      for _, request in ipairs(misses) do assert.equal(404, send(client, request), match .. " " .. request[1]) end
      client:close()
    end
  end)

  it("takes the first route in file order, also among a thousand", function()
    local lines = { "routes:" }
    for i = 1, 1000 do
      lines[#lines + 1] = ("  - id: r%d\n    match: [ { PathPrefix: { prefix: /r%d/ } } ]\n"
        .. "    filters: [ { ReturnResponse: { status: 200, body: 'r%d' } } ]"):format(i, i, i)
    end
    lines[#lines + 1] = "  - id: rest\n    match: [ { PathPrefix: { prefix: /r } } ]\n"
      .. "    filters: [ { ReturnResponse: { status: 200, body: rest } } ]\n"
    lines[#lines + 1] = "  - id: never\n    match: [ { Path: { path: /r7/ } } ]\n"
      .. "    filters: [ { ReturnResponse: { status: 200, body: never } } ]\n"
    local gateway = h.gateway { routes = table.concat(lines, "\n") }
    local client = gateway:connect()
    assert.equal("r1", client:get("/r1/x").body)
    assert.equal("r7", client:get("/r7/").body)
    assert.equal("r1000", client:get("/r1000/").body)
    assert.equal("rest", client:get("/r1001").body)
    assert.equal(404, client:get("/x").status)
  end)

  it("never takes a route with an empty match", function()
    local gateway = h.gateway { routes = [[
routes:
  - id: fallback
    match: []
    filters: [ { ReturnResponse: { status: 200, body: x } } ]
]] }
    assert.equal(404, gateway:get("/").status)
  end)
end)
