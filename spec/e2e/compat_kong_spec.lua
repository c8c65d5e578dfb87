-- spec/e2e/compat_kong_spec.lua - a plugin written for Kong, as a filter.
local cjson = require "cjson"
local helper = require "spec.helper"

local FILTER = [[
local kong = require "moongate.compat.kong"
return kong.filter(require "quota.handler", require "quota.schema")
]]

local SCHEMA = [[
local typedefs = require "kong.db.schema.typedefs"
return {
  name = "quota",
  fields = {
    { consumer = typedefs.no_consumer },
    { protocols = typedefs.protocols_http },
    { config = { type = "record", fields = {
      { key_name = typedefs.header_name { default = "apikey" } },
      { mode = { type = "string", one_of = { "strict", "lax" }, default = "strict" } },
      { plans = { type = "map", required = true, keys = { type = "string" },
        values = { type = "integer", between = { 1, 100 } } } },
      { hide = { type = "boolean", default = true } },
    } } },
  },
}
]]

local HANDLER = [[
local Quota = { PRIORITY = 1000, VERSION = "0.3.0" }

function Quota:init_worker() self.ready = true end

function Quota:access(conf)
  assert(self.ready)
  local key = kong.request.get_header(conf.key_name) or kong.request.get_query_arg(conf.key_name)
  if not key then return kong.response.exit(401, { message = "no key" }, { ["WWW-Authenticate"] = "Key" }) end
  local limit = conf.plans[key]
  if not limit and conf.mode == "strict" then
    kong.response.error(403, "unknown key")
    error("exit came back")
  end
  kong.ctx.plugin.limit = limit
  kong.response.set_header("X-Plan", tostring(limit))
  kong.service.request.set_header("X-Limit", limit or "none")
  kong.service.request.add_header("X-Trail", "quota")
  kong.service.request.set_headers { ["X-List"] = { "a", "b" } }
  if conf.hide then kong.service.request.clear_header(conf.key_name) end
  local query = kong.request.get_query()
  query[conf.key_name], query.seen = nil, true
  kong.service.request.set_query(query)
  kong.log.notice("plan ", limit, " for ", kong.request.get_method(), " ", kong.request.get_path())
end

function Quota:header_filter(conf)
  if not kong.ctx.plugin.limit then return end
  kong.response.add_header("X-Source", kong.response.get_source() .. " " .. kong.response.get_status())
  kong.response.clear_header("Server")
end

function Quota:log(conf)
  kong.log("limit was ", kong.ctx.plugin.limit, ", status ", kong.response.get_status())
end

return Quota
]]


local function configuration(port, options)
  return helper.route_to(port, "    filters: [ { quota: " .. options .. " } ]\n")
end


describe("a Kong plugin", function()
  after_each(helper.cleanup)

  local function start(options, handler)
    local origin = helper.origin("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\n\r\nok")
    local folder = helper.folder()
    helper.make_folder(folder .. "/filters")
    helper.make_folder(folder .. "/filters/quota")
    helper.write(folder .. "/filters/quota.lua", FILTER)
    helper.write(folder .. "/filters/quota/handler.lua", handler or HANDLER)
    helper.write(folder .. "/filters/quota/schema.lua", SCHEMA)
    helper.write(folder .. "/routes.yaml", configuration(origin.port, options))
    return folder, origin
  end

  local function run(options, handler)
    local folder, origin = start(options, handler)
    local gateway = helper.gateway { routes = "", args = { "--routes", folder .. "/routes.yaml" } }
    return gateway, origin
  end

  it("changes what goes upstream and what comes back, and keeps its context between phases", function()
    local gateway, origin = run("{ plans: { gold: 7 } }")
    local response = gateway:get("/a%20b?x=1&apikey=no&y", "apikey: gold\r\n")
    assert.equal(200, response.status)
    assert.equal("7", response:header("x-plan"))
    assert.equal("service 200", response:header("x-source"))
    assert.is_nil(response:header("server"))
    local request = origin.requests[1]
    assert.equal("/a%20b?seen&x=1&y", request.target)
    assert.equal("7", request:header("x-limit"))
    assert.is_nil(request:header("apikey"))
    helper.eventually(function() return gateway:log():find("limit was 7, status 200", 1, true) end, 5)
    assert.truthy(gateway:log():find("plan 7 for GET /a b", 1, true))
  end)

  it("ends its handler with an answer of its own", function()
    local gateway, origin = run("{ plans: { gold: 7 } }")
    local response = gateway:get("/")
    assert.equal(401, response.status)
    assert.equal("Key", response:header("www-authenticate"))
    assert.equal("application/json; charset=utf-8", response:header("content-type"))
    assert.same({ message = "no key" }, cjson.decode(response.body))
    response = gateway:get("/", "apikey: tin\r\n")
    assert.equal(403, response.status)
    assert.same({ message = "unknown key" }, cjson.decode(response.body))
    assert.equal(0, #origin.requests)
  end)

  it("keeps requests apart", function()
    local gateway = run("{ plans: { gold: 7, tin: 2 } }")
    local client = gateway:connect()
    for _ = 1, 3 do
      for key, limit in pairs { gold = "7", tin = "2" } do
        assert.equal(limit, client:get("/", "apikey: " .. key .. "\r\n"):header("x-plan"))
      end
    end
  end)

  it("has its options checked by its schema", function()
    for options, message in pairs {
      ["{ plans: { gold: 700 } }"] = "quota.plans.gold: found \"700\", accepted: a whole number from 1 to 100",
      ["{ plans: { gold: 1 }, key_name: a b }"] = "quota.key_name: found \"a b\", accepted: text that matches",
      ["{ plans: { gold: 1 }, mode: lx }"] = "(did you mean lax?)",
      ["{}"] = "quota.plans: is required",
    } do
      local check = helper.moongate { "check", "--routes", start(options) .. "/routes.yaml" }
      assert.equal(1, check.code)
      assert.truthy(check.err:find(message, 1, true), check.err)
    end
  end)

  it("fails closed where it asks for what is not offered", function()
    local gateway, origin = run("{ plans: { gold: 7 } }",
      [[return { access = function() kong.cache:get("x") end }]])
    assert.equal(500, gateway:get("/").status)
    assert.truthy(gateway:log():find("handler.lua:1: kong.cache is not offered by moongate.compat.kong", 1, true))
    assert.equal(0, #origin.requests)
  end)

  it("is refused at load with phases that are not offered", function()
    local folder = start("{ plans: { gold: 7 } }", "return { body_filter = function() end }")
    local check = helper.moongate { "check", "--routes", folder .. "/routes.yaml" }
    assert.equal(1, check.code)
    assert.truthy(check.err:find("kong.filter: the phase body_filter is not offered", 1, true), check.err)
  end)
end)
