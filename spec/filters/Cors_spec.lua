-- spec/filters/Cors_spec.lua - which pages may read an answer.
local h = require "spec.helper"


local FORMS = {
  list = "{ allowed_origins: [ 'https://a.example', 'https://b.example' ], allowed_methods: [ GET, PUT ], "
    .. "allowed_headers: [ X-One, X-Two ], max_age: 30m, allow_credentials: true }",
  text = "{ allowed_origins: 'https://a.example, https://b.example', allowed_methods: 'GET,PUT', "
    .. "allowed_headers: 'X-One, X-Two', max_age: 1800, allow_credentials: true }",
}


local function with(options, answer)
  local origin = h.origin(answer or h.answer(200, "x"))
  return h.gateway { routes = h.route_to(origin.port, ("    filters: [ { Cors: %s } ]\n"):format(options)) }, origin
end


local function preflight(gateway, origin, extra)
  return (gateway:raw(("OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: %s\r\n"
    .. "Access-Control-Request-Method: PUT\r\n%s\r\n"):format(origin, extra or "")))
end


describe("Cors", function()
  after_each(h.cleanup)

  for form, options in pairs(FORMS) do
    it("answers preflights, options given as " .. form, function()
      local gateway, origin = with(options)
      local response = preflight(gateway, "https://b.example")
      assert.equal(204, response.status)
      assert.equal("https://b.example", response:header("access-control-allow-origin"))
      assert.equal("GET, PUT", response:header("access-control-allow-methods"))
      assert.equal("X-One, X-Two", response:header("access-control-allow-headers"))
      assert.equal("1800", response:header("access-control-max-age"))
      assert.equal("true", response:header("access-control-allow-credentials"))
      assert.equal("Origin", response:header("vary"))
      assert.equal(0, #origin.requests)
    end)
  end

  it("tells an origin that is not allowed nothing", function()
    local gateway = with(FORMS.list)
    for _, name in ipairs { "https://c.example", "https://a.example.evil", "null",
      "https://a.example, https://b.example" } do
      local response = preflight(gateway, name)
      assert.equal(204, response.status)
      assert.is_nil(response.raw:lower():find("access-control", 1, true), name)
    end
    local twice = preflight(gateway, "https://a.example", "Origin: https://b.example\r\n")
    assert.is_nil(twice:header("access-control-allow-origin"))
  end)

  it("sends every other OPTIONS upstream", function()
    local gateway, origin = with(FORMS.list)
    gateway:raw("OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n\r\n")
    gateway:raw("OPTIONS / HTTP/1.1\r\nHost: a\r\nAccess-Control-Request-Method: PUT\r\n\r\n")
    assert.equal(2, #origin.requests)
  end)

  it("has the last word over the upstream's policy", function()
    local gateway = with("{ allowed_origins: 'https://a.example' }", h.answer(200, "x", {
      "Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true", "Vary: Accept, Cookie" }))
    local allowed = gateway:get("/", "Origin: https://a.example\r\n")
    assert.same({ "https://a.example" }, allowed:values("access-control-allow-origin"))
    assert.same({}, allowed:values("access-control-allow-credentials"))
    assert.same({ "Accept, Cookie, Origin" }, allowed:values("vary"))
    local other = gateway:get("/", "Origin: https://b.example\r\n")
    assert.same({}, other:values("access-control-allow-origin"))
    assert.same({}, other:values("access-control-allow-credentials"))
    assert.same({ "Accept, Cookie, Origin" }, gateway:get("/"):values("vary"))
  end)

  it("leaves Vary alone where it says so already", function()
    for _, vary in ipairs { "accept, ORIGIN", "*" } do
      local gateway = with(FORMS.list, h.answer(200, "x", { "Vary: " .. vary }))
      assert.same({ vary }, gateway:get("/"):values("vary"))
      h.cleanup()
    end
  end)

  it("lets all origins in with *, the same answer for each", function()
    local gateway = with("{ allowed_origins: '*' }")
    local response = gateway:get("/", "Origin: https://anybody.example\r\n")
    assert.same({ "*" }, response:values("access-control-allow-origin"))
    assert.same({}, response:values("vary"))
    assert.same({ "*" }, preflight(gateway, "https://x.example"):values("access-control-allow-origin"))
  end)

  it("is refused where browsers would not take it", function()
    local gateway = with(FORMS.list)
    for options, why in pairs {
      ["{ allowed_origins: '*', allow_credentials: true }"] = "allow_credentials: false only",
      ["{ allowed_origins: [] }"] = "a list of at least 1 items", ["{ allowed_origins: ' , ' }"] = "names no origin",
      ["{ allowed_origins: '*', max_age: 5w }"] = "max_age is 5w",
    } do
      gateway:write_routes(h.route_to(1, ("    filters: [ { Cors: %s } ]\n"):format(options)))
      local refused = gateway:control("reload")
      assert.equal(1, refused.code, options)
      assert.truthy(refused.err:find(why, 1, true), refused.err)
      assert.truthy(refused.err:find("routes.yaml:6:", 1, true), refused.err)
    end
  end)
end)
