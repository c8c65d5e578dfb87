-- spec/e2e/examples_spec.lua - a filter's own examples: run by `moongate check` and before every reload.
local helper = require "spec.helper"

local function tenant(status, expect)
  return ([[
local words = require "tenant_words"
local tenant = { api = 1, schema = { allow = { type = "array", items = "string", required = true } } }
tenant.examples = {
  { conf = { allow = { "acme" } }, request = { target = "/a?b=1", headers = { ["X-Tenant"] = "acme" } },
    response = { status = 201, headers = { Server = "x" }, body = "made" },
    expect = { status = 201, body = "made", headers = { ["X-Tenant-Ok"] = "acme", Server = false, ["X-None"] = false },
      upstream = { method = "GET", target = "/a?b=1", headers = { ["X-Checked"] = 1 } } } },
  { conf = { allow = { "acme" } }, request = { method = "POST", body = "x" }, expect = %s },
}
function tenant.init(conf)
  local known = {}
  for _, name in ipairs(conf.allow) do known[name] = true end
  return known
end
function tenant.request(req, _, known)
  if not known[req:header("x-tenant")] then return req:respond(%d, words.unknown) end
  req:set_header("X-Checked", "1")
end
function tenant.response(res)
  res:remove_header("server")
  local name = res:request():header("x-tenant")
  if name then res:set_header("X-Tenant-Ok", name) end
end
return tenant
]]):format(expect or '{ status = 403, body = "unknown tenant\\n", upstream = false }', status)
end

local WORDS = 'return { unknown = "unknown tenant\\n" }\n'
local LINES = "    filters: [ { tenant: { allow: [ initech ] } } ]\n"


describe("the examples of a filter", function()
  after_each(helper.cleanup)

  local function check(source)
    local folder = helper.folder()
    helper.make_folder(folder .. "/filters")
    helper.write(folder .. "/filters/tenant.lua", source)
    helper.write(folder .. "/filters/tenant_words.lua", WORDS)
    helper.write(folder .. "/routes.yaml", helper.route_to(9, LINES))
    return helper.moongate { "check", "--routes", folder .. "/routes.yaml" }
  end

  it("pass when it does what they say", function()
    local run = check(tenant(403))
    assert.equal("", run.err)
    assert.equal(0, run.code)
  end)

  it("say what it did otherwise", function()
    local run = check(tenant(404))
    assert.equal(1, run.code)
    assert.equal("filters/tenant.lua: examples[2]: status: expected 403, got 404\n", run.err)
    run = check((tenant(403):gsub('"1"', '"2"'):gsub("res:remove_header", "res:header")))
    assert.equal([[
filters/tenant.lua: examples[1]: header Server: expected none, got x
filters/tenant.lua: examples[1]: upstream: header X-Checked: expected 1, got 2
]], run.err)
    run = check(tenant(403, "{ upstream = { method = 'POST' } }"))
    assert.equal("filters/tenant.lua: examples[2]: upstream: expected to be asked, but it was not\n", run.err)
  end)

  it("are refused with words that are not known", function()
    for expect, message in pairs {
      ["{ stauts = 403 }"] = "examples[2].expect: unknown key stauts (did you mean status?)",
      ["{ status = '403' }"] = "examples[2].expect.status is a string, accepted: a number",
      ["{ upstream = { targt = '/' } }"] = "examples[2].expect.upstream: unknown key targt (did you mean target?)",
    } do
      local run = check(tenant(403, expect))
      assert.equal(1, run.code)
      assert.truthy(run.err:find("filters/tenant.lua: " .. message, 1, true), run.err)
    end
  end)

  it("end a filter that does not come back", function()
    local run = check((tenant(403):gsub("function tenant.response%(res%)", "%0 while true do end")))
    assert.equal(1, run.code)
    assert.truthy(run.err:find("filters/tenant.lua: examples[1]: status: expected 201, got 500", 1, true), run.err)
  end)

  it("keep a bad edit from traffic", function()
    local origin = helper.origin()
    local gateway = helper.gateway {
      routes = helper.route_to(origin.port, LINES), filters = { tenant = tenant(403), tenant_words = WORDS },
    }
    assert.equal(403, gateway:get("/").status)
    gateway:write_filter("tenant", tenant(404))
    local run = gateway:control("reload")
    assert.equal(1, run.code)
    assert.truthy((run.out .. run.err):find("examples[2]: status: expected 403, got 404", 1, true), run.out .. run.err)
    assert.equal(403, gateway:get("/").status)
  end)
end)
