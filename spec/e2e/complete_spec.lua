-- spec/e2e/complete_spec.lua - a whole configuration as somebody would run it, in both forms that its options may have:
-- it loads as it stands, and each of its routes does what it says.
local cjson = require "cjson"
local h = require "spec.helper"
local base64 = require("mime").b64

local FILE = "spec/lua/fixtures/complete.yaml"

--- The same options in their other form.
local OTHER_FORM = {
  { "allowed_origins: [ https://shop.example, https://m.shop.example ]",
    "allowed_origins: https://shop.example, https://m.shop.example" },
  { "allowed_methods: [ GET, POST ]", 'allowed_methods: "GET, POST"' },
  { "allowed_headers: [ Content-Type ]", "allowed_headers: Content-Type" },
  { "max_age: 1800s", "max_age: 1800" },
  { "- SimpleMetrics\n", "- SimpleMetrics:\n" },
  { "not:\n            Method: { include: [ DELETE, PATCH ] }", "not: [ { Method: { include: [ DELETE, PATCH ] } } ]" },
  { "- Path: { path: /health }\n      - RemoteAddr:", "- Path: { path: /health }\n        RemoteAddr:" },
  { "match: [ { PathPrefix: { prefix: /app } } ]", "match: { PathPrefix: { prefix: /app } }" },
  { "include: [ GET, HEAD ]", "include: [GET, HEAD]" },
  { "status_overrides: { 5xx: HEADERS, 429: NONE }", "status_overrides: { 5XX: HEADERS, '429': NONE }" },
  { "level: METADATA }", 'level: "METADATA" }' },
}


local function other_form(text)
  for _, row in ipairs(OTHER_FORM) do
    local first, last = text:find(row[1], 1, true)
    assert(first, row[1])
    text = text:sub(1, first - 1) .. row[2] .. text:sub(last + 1)
  end
  return text
end


local function login(user, password) return ("Authorization: Basic %s\r\n"):format(base64(user .. ":" .. password)) end


--- A port that nobody listens at.
local function free_port()
  local origin = h.origin()
  origin.close()
  return origin.port
end


--- Starts the configuration. @return the gateway, the application behind it, its journal's folder
local function start(text)
  local app = h.origin(function(stream, request)
    local failing = request.target:find("fail", 1, true)
    stream:send(h.answer(failing and 500 or 200, request.target, { "X-Powered-By: magic" }))
  end)
  local folder = h.folder()
  h.make_folder(folder .. "/assets")
  h.write(folder .. "/assets/logo.svg", "<svg/>")
  h.write(folder .. "/assets/.secret", "secret")
  local management = free_port()
  local gateway = h.gateway {
    routes = text, server = "proxy: { ttl: 1s }\n", -- the connection to its own management port ends, too
    args = { "--journal", folder .. "/journal", "--management-port", tostring(management) },
    env = {
      MANAGEMENT_URL = "http://127.0.0.1:" .. management, APP_URL = "http://127.0.0.1:" .. app.port,
      DEAD_URL = "http://127.0.0.1:" .. free_port(), ASSETS = folder .. "/assets",
    },
  }
  return gateway, app, folder .. "/journal"
end


local function ask(gateway, line, headers, host)
  local bytes = ("%s HTTP/1.1\r\nHost: %s\r\n%s\r\n"):format(line, host or "shop.example", headers or "")
  return (gateway:raw(bytes, line:match("^%S+")))
end


--- What was recorded, by route: a list of exchanges for each.
local function recorded(folder)
  local by_route = {}
  for line in h.moongate({ "journal", "cat", folder }).out:gmatch("[^\n]+") do
    local one = cjson.decode(line)
    local route = one.route or "<unrouted>"
    by_route[route] = by_route[route] or {}
    table.insert(by_route[route], one)
  end
  return by_route
end


for _, form in ipairs { "first", "other" } do
  describe("a complete configuration, in its " .. form .. " form,", function()
    local gateway, app, journal

    setup(function()
      local text = assert(h.process.read_file(FILE))
      gateway, app, journal = start(form == "first" and text or other_form(text))
    end)
    teardown(h.cleanup)

    local function last() return app.requests[#app.requests] end

    it("shows its own health through a route to its management port", function()
      local response = ask(gateway, "GET /health", nil, "127.0.0.1")
      assert.equal(200, response.status)
      assert.equal("UP", cjson.decode(response.body).status)
    end)

    it("serves files, hides what is hidden, and redirects the old place of files", function()
      local response = ask(gateway, "GET /assets/logo.svg")
      assert.equal(200, response.status)
      assert.equal("<svg/>", response.body)
      assert.equal("image/svg+xml", response:header("content-type"))
      assert.equal("public, max-age=3600", response:header("cache-control"))
      assert.equal("nosniff", response:header("x-content-type-options"))
      local tag = response:header("etag")
      assert.equal(304, ask(gateway, "GET /assets/logo.svg", ("If-None-Match: %s\r\n"):format(tag)).status)
      assert.equal(206, ask(gateway, "GET /assets/logo.svg", "Range: bytes=0-3\r\n").status)
      assert.equal(404, ask(gateway, "GET /assets/.secret").status)
      assert.equal(403, ask(gateway, "GET /assets/").status)
      assert.equal(404, ask(gateway, "POST /assets/logo.svg", "Content-Length: 0\r\n").status) -- no route
      local moved = ask(gateway, "GET /static/a%20b/logo.svg?x=1")
      assert.equal(301, moved.status)
      assert.equal("/assets/a%20b/logo.svg", moved:header("location"))
      assert.equal("max-age=31536000", moved:header("strict-transport-security"))
    end)

    it("lets administrators in by key or cookie and password, and nobody else", function()
      assert.equal(404, ask(gateway, "GET /admin/users").status)
      assert.equal(404, ask(gateway, "DELETE /admin/users", "X-Admin-Key: 0123abcd\r\n").status)
      local refused = ask(gateway, "GET /admin/users", "X-Admin-Key: 0123abcd\r\n")
      assert.equal(401, refused.status)
      assert.equal('Basic realm="Administration"', refused:header("www-authenticate"))
      assert.equal(401, ask(gateway, "GET /admin/users", "Cookie: admin=yes\r\n" .. login("ada", "wrong")).status)
      local large = login("ada", "secret") .. "Cookie: admin=yes\r\nContent-Length: 65537\r\n"
      assert.equal(413, ask(gateway, "POST /admin/users", large).status)
      local headers = "Cookie: admin=yes; theme=dark\r\nX-Admin-Key: 0123abcd\r\n" .. login("ada", "secret")
      assert.equal("/internal/users%3F/1?x=1", ask(gateway, "GET /admin/users%3F/1?x=1", headers).body)
      assert.equal("Basic " .. base64("gateway:between us"), last():header("authorization"))
      assert.equal("theme=dark", last():header("cookie"))
      assert.is_nil(last():header("x-admin-key"))
    end)

    it("answers preflights, limits, and edits what goes on to the API", function()
      local origin = "Origin: https://shop.example\r\n"
      local preflight = ask(gateway, "OPTIONS /api/items", origin .. "Access-Control-Request-Method: POST\r\n")
      assert.equal(204, preflight.status)
      assert.equal("GET, POST", preflight:header("access-control-allow-methods"))
      assert.equal("1800", preflight:header("access-control-max-age"))
      local response = ask(gateway, "GET /api/items?page=2&source=me", origin .. "Cookie: a=b\r\n")
      assert.equal("/v2/items?page=2&source=gateway", response.body)
      assert.equal("https://shop.example", response:header("access-control-allow-origin"))
      assert.equal("true", response:header("access-control-allow-credentials"))
      assert.equal("3", response:header("x-ratelimit-remaining"))
      assert.equal("seen=1; Max-Age=3600; Secure; HttpOnly; SameSite=Strict", response:header("set-cookie"))
      assert.is_nil(response:header("x-powered-by"))
      assert.equal("test", last():header("x-stage"))
      assert.equal("a=b; region=eu", last():header("cookie"))
      assert.equal(last():header("x-correlation-id"), response:header("x-correlation-id"))
      assert.equal(404, ask(gateway, "GET /api/items?page=2", nil, "elsewhere.example").status)
      assert.equal(400, ask(gateway, "GET /api/items?page=two").status)
      assert.equal(500, ask(gateway, "GET /api/fail?page=1").status)
      local fourth = ask(gateway, "GET /api/fail?page=1", "X-Correlation-Id: mine\r\n")
      assert.equal(500, fourth.status)
      assert.equal("mine", fourth:header("x-correlation-id"))
      local fifth = ask(gateway, "GET /api/items?page=1")
      assert.equal(429, fifth.status)
      assert.equal("0", fifth:header("x-ratelimit-remaining"))
    end)

    it("stands in for what is down, and lets a status be changed", function()
      local response = ask(gateway, "GET /app/x")
      assert.equal(503, response.status)
      assert.equal("We will be back soon.\n", response.body)
      assert.equal("30", response:header("retry-after"))
      assert.equal("app", response:header("x-route"))
      local accepted = ask(gateway, "GET /jobs")
      assert.equal(202, accepted.status)
      assert.equal("application/json", accepted:header("content-type"))
    end)

    it("records as its routes say, with who answered", function()
      local by_route = recorded(journal)
      local api, admin, app_route = by_route.api, by_route.admin, by_route.app
      local statuses = {}
      for _, one in ipairs(api) do
        statuses[one.status] = (statuses[one.status] or 0) + 1
        assert.equal(one.status >= 500, one.response.headers ~= nil)
      end
      assert.same({ [200] = 1, [204] = 1, [400] = 1, [429] = 1, [500] = 2 }, statuses)
      assert.equal("Cors", api[1].attributes["gateway.shortcircuit.name"])
      for _, one in ipairs(admin) do assert.equal(one.status ~= 401, one.response.headers ~= nil) end
      assert.truthy(admin[#admin].attributes["gateway.auth.basic.user"]:find("^fp:"))
      assert.equal("sorry", app_route[1].attributes["gateway.fallback.id"])
      assert.equal("ReturnResponse", app_route[1].attributes["gateway.shortcircuit.name"])
      assert.is_nil(by_route.assets)
      for _, one in ipairs(by_route["<unrouted>"]) do
        assert.equal("no_route", one.attributes["gateway.unrouted.reason"])
      end
    end)
  end)
end
