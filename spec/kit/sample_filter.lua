-- spec/kit/sample_filter.lua - what a user's spec of a filter looks like; run by `moongate test`.
local run = require("moongate.test").run

local tenant = { api = 1, schema = { allow = { type = "array", items = "string", required = true } } }

function tenant.request(req, conf)
  for _, name in ipairs(conf.allow) do
    if req:header_is("x-tenant", name) then return req:remove_header("cookie") end
  end
  return req:respond(403, "unknown tenant\n")
end

describe("tenant", function()
  local conf = { allow = { "acme", "initech" } }

  it("lets known tenants through, without their cookies", function()
    local result = run { filter = tenant, conf = conf,
      request = "GET /a HTTP/1.1\r\nHost: a\r\nX-Tenant: acme\r\nCookie: a=1\r\n\r\n" }
    assert.equal(200, result.status)
    assert.is_nil(result.upstream:header("cookie"))
  end)

  it("refuses all others before the upstream is asked", function()
    local result = run { filter = tenant, conf = conf, request = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n" }
    assert.equal(403, result.status)
    assert.is_nil(result.upstream)
  end)
end)
