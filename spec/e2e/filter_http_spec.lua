-- spec/e2e/filter_http_spec.lua - moongate.http: what a filter may ask of other upstreams, and what it gets.
local h = require "spec.helper"


local AUTH = [[
local f = { api = 1, needs = { http = { "authz" } } }
function f.request(req)
  local answer, why = moongate.http("authz", {
    path = "/check?u=1", headers = { ["x-user"] = req:header("x-user") or "none" }, timeout = 0.3,
  })
  if not answer then return req:respond(503, why) end
  if answer.status ~= 200 then return req:respond(403, answer.body) end
  req:set_header("x-role", answer.headers["x-role"])
end
return f
]]


local function gateway_with(authz_port, origin_port, source, authz_path)
  return h.gateway {
    filters = { auth = source or AUTH },
    routes = ([[
routes:
  - id: authz
    match: []
    filters: []
    upstream: { targets: [ { url: "http://127.0.0.1:%d%s" } ] }
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ auth ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
]]):format(authz_port, authz_path or "", origin_port),
  }
end


describe("moongate.http", function()
  after_each(h.cleanup)

  it("asks an upstream that the filter has declared, on pooled connections", function()
    local authz = h.origin("HTTP/1.1 200 OK\r\nX-Role: admin\r\nContent-Length: 2\r\n\r\nok")
    local origin = h.origin()
    local gateway = gateway_with(authz.port, origin.port)
    for _ = 1, 3 do assert.equal(200, gateway:get("/", "X-User: joe\r\n").status) end
    assert.equal("admin", origin.requests[1]:header("x-role"))
    assert.equal("joe", authz.requests[1]:header("x-user"))
    assert.equal("GET /check?u=1 HTTP/1.1", authz.requests[1].line)
    assert.is_nil(authz.requests[1]:header("x-forwarded-for"))
    assert.equal(1, authz.connections)
  end)

  it("goes below the path of the target's URL, as what is proxied does", function()
    local authz = h.origin("HTTP/1.1 200 OK\r\nX-Role: admin\r\nContent-Length: 2\r\n\r\nok")
    for _, path in ipairs { "/v1", "/v1/" } do
      local gateway = gateway_with(authz.port, h.origin().port, nil, path)
      assert.equal(200, gateway:get("/").status)
      assert.equal("GET /v1/check?u=1 HTTP/1.1", authz.requests[#authz.requests].line)
    end
  end)

  it("gives the answer's status and body, also in chunks", function()
    local authz = h.origin("HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno \r\n3\r\nway\r\n0\r\n\r\n")
    local gateway = gateway_with(authz.port, h.origin().port)
    local response = gateway:get("/")
    assert.equal(403, response.status)
    assert.equal("no way", response.body)
  end)

  it("says why there is no answer: nobody there, nothing in time, nonsense", function()
    local gone = h.origin()
    gone.close()
    assert.equal("upstream_connect", gateway_with(gone.port, h.origin().port):get("/").body)
    local silent = h.origin(function() h.sleep(1) end)
    assert.equal("upstream_timeout", gateway_with(silent.port, h.origin().port):get("/").body)
    local broken = h.origin("ICY 200 OK\r\n\r\n")
    assert.equal("upstream_bad_response", gateway_with(broken.port, h.origin().port):get("/").body)
  end)

  it("survives a client that leaves while it waits", function()
    local silent = h.origin(function() h.sleep(0.2) end)
    local gateway = gateway_with(silent.port, h.origin().port)
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.sleep(0.05)
    client:close()
    h.sleep(0.4)
    assert.equal(503, gateway:get("/").status)
  end)

  it("reaches nothing that was not declared, and what is declared has to be there", function()
    local source = AUTH:gsub('needs = { http = { "authz" } }', "needs = {}")
    local gateway = gateway_with(h.origin().port, h.origin().port, source)
    assert.equal(500, gateway:get("/").status)
    assert.truthy(gateway:log():find("may not call authz", 1, true))
    local folder = h.folder()
    h.write(folder .. "/routes.yaml", h.route_to(1, "    filters: [ f ]\n"))
    require("lfs").mkdir(folder .. "/filters")
    h.write(folder .. "/filters/f.lua", AUTH)
    local result = h.moongate { "check", "--routes", folder .. "/routes.yaml" }
    assert.equal(1, result.code)
    assert.truthy(result.err:find("needs the upstream of route authz", 1, true), result.err)
  end)
end)
