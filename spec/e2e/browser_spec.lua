-- browser_spec.lua - the dashboard, and a page behind the gateway, in a real browser (spec/browser).
local h = require "spec.helper"

local MODULES = (os.getenv("MOONGATE_BROWSER_MODULES") or "build/browser") .. "/node_modules"


-- Why no browser can be driven here; nil when one can.
local function missing()
  if h.sanitized then return "a browser tells nothing new of the build with sanitizers" end
  for _, command in ipairs { "node", "chromium" } do
    if os.execute("command -v " .. command .. " >/dev/null 2>&1") ~= 0 then return command .. " is not installed" end
  end
  for _, name in ipairs { "playwright-core", "axe-core" } do
    local file = io.open(("%s/%s/package.json"):format(MODULES, name))
    if not file then return name .. " is not there; sh rockspec/setup test puts it into build/browser" end
    file:close()
  end
end


-- Runs a script of spec/browser to its end; every check that failed is named.
local function look(script, ...)
  local modules = h.process.absolute(MODULES) or MODULES
  local ran = h.execute({ "node", "spec/browser/" .. script, ... }, { env = { NODE_PATH = modules }, seconds = 150 })
  local failed = {}
  for line in ran.out:gmatch("not ok [^\n]+") do failed[#failed + 1] = line end
  assert.same({}, failed, ran.err)
  assert.truthy(ran.out:find("\ndone\n", 1, true), ran.out .. ran.err)
  assert.equal(0, ran.code, ran.out .. ran.err)
end


local function start_site()
  local child = h.spawn({ "node", "spec/browser/site.js" }, { name = "site" })
  return h.eventually(function() return child:output():match("listening on [%d.]+:(%d+)") end, 10, "the site")
end


describe("in a browser", function()
  after_each(h.cleanup)

  it("the dashboard is lively, searchable, clear, and for everyone", function()
    local why = missing()
    if why then return pending(why) end
    local gateway = h.gateway {
      args = { "--journal", h.folder() .. "/journal" },
      routes = h.route_to(start_site(), "    filters: [ AddCorrelationId ]\n"
        .. "    journal: { request: { level: FULL }, response: { level: FULL } }\n"),
    }
    gateway:get("/")
    look("dashboard.js", ("http://127.0.0.1:%d"):format(gateway:management_port()), gateway:url(""),
      gateway.folder .. "/routes.yaml", os.getenv("MOONGATE_TEST_SHOTS"))
  end)

  it("a page comes through the gateway with everything that belongs to it", function()
    local why = missing()
    if why then return pending(why) end
    look("page.js", h.gateway(tonumber(start_site())):url("/"))
  end)
end)
