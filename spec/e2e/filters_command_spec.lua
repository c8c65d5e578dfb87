-- spec/e2e/filters_command_spec.lua - `moongate filters`: what is found, where, and what it takes.
local helper = require "spec.helper"

local GREET = [[
--- greet: says hello in the client's place. It
-- never tires.

local greet = { api = 1, version = "2.1.0", answers = { [200] = "always" } }
greet.schema = {
  text = { type = "string", required = true, description = "what to say" },
  pause = { type = "duration", default = "1s", min = "1ms", max = "5s" },
  tone = { type = "object", keys = { loud = "boolean" } },
}
greet.examples = { { conf = { text = "hello: all", tone = { loud = true } } } }
function greet.request(req, conf) return req:respond(200, conf.text) end
function greet.log() end
return greet
]]


describe("moongate filters", function()
  local folder

  before_each(function()
    folder = helper.folder()
    helper.make_folder(folder .. "/filters")
    helper.write(folder .. "/filters/greet.lua", GREET)
  end)

  after_each(helper.cleanup)

  local function filters(...)
    return helper.moongate({ "filters", ... }, { cwd = folder })
  end

  it("lists the built-in ones and the user's with place, sentence, functions and options", function()
    local run = filters()
    assert.equal(0, run.code)
    assert.equal("", run.err)
    assert.truthy(run.out:find([[

greet 2.1.0  filters/greet.lua
  Says hello in the client's place.
  functions  request, log
  options    pause, text (required), tone
]], 1, true), run.out)
    assert.truthy(run.out:find("\nSetRequestHeader 1.0.0  built in\n", 1, true))
    local previous = ""
    for name in run.out:gmatch("%f[^\n%z](%a%S*) [%d.]+  ") do
      assert.is_true(previous < name, name)
      previous = name
    end
  end)

  it("describes one in full", function()
    local run = filters("greet")
    assert.equal(0, run.code)
    assert.equal([[
greet 2.1.0  filters/greet.lua
  Says hello in the client's place. It never tires.
functions
  request, log
options
  pause: a duration such as 30s, 1ms to 5s; default 1s
  text: text; required
      what to say
  tone: a map with loud
  tone.loud: true or false
answers
  200  always
in YAML
  - greet: { text: "hello: all", tone: { loud: true } }
]], run.out)
  end)

  it("leaves the file's name out of the comment at its top", function()
    helper.write(folder .. "/filters/plain.lua",
      "-- filters/plain.lua - does nothing.\nreturn { api = 1, log = function() end }\n")
    local run = filters("plain")
    assert.truthy(run.out:find("\n  Does nothing.\n", 1, true), run.out)
  end)

  it("finds nothing wrong with a checkout of the built-in filters", function()
    local source = assert(io.open("filters/SetStatus.lua"))
    helper.write(folder .. "/filters/SetStatus.lua", source:read("*a"))
    source:close()
    local run = filters("SetStatus")
    assert.equal("", run.err)
    assert.truthy(run.out:find("built in", 1, true), run.out)
  end)

  it("prints the reference that filters/README.md ends with", function()
    local run = helper.moongate { "filters", "--markdown" }
    assert.equal("", run.err)
    local file = assert(io.open("filters/README.md"))
    local written = file:read("*a"):match("\n(### .*)$")
    file:close()
    assert.equal(2, helper.moongate({ "filters", "--markdown", "SetStatus" }).code)
    assert.equal(run.out, written, "not as `moongate filters --markdown` prints it: put its output there")
  end)

  it("refuses a filter whose own example it would refuse", function()
    helper.write(folder .. "/filters/greet.lua", (GREET:gsub('text = "hello: all"', "txt = 1")))
    local run = filters("greet")
    assert.equal(1, run.code)
    assert.truthy(run.err:find("filters/greet.lua: examples[1].conf: unknown option txt (did you mean text?)", 1, true),
      run.err)
    helper.write(folder .. "/filters/greet.lua", (GREET:gsub("%[200%]", "teapot")))
    assert.truthy(filters("greet").err:find("answers: teapot is neither a status nor an option", 1, true))
  end)

  it("finds those of a LuaRocks tree", function()
    os.execute(("mkdir -p '%s/tree/moongate/filters'"):format(folder))
    helper.write(folder .. "/tree/moongate/filters/distant.lua", "return { api = 1, request = function() end }\n")
    local run = helper.moongate({ "filters", "distant" },
      { cwd = folder, env = { LUA_PATH = folder .. "/tree/?.lua;;" } })
    assert.equal(0, run.code, run.err)
    assert.truthy(run.out:find("distant  " .. folder .. "/tree/moongate/filters/distant.lua\n", 1, true), run.out)
  end)

  it("says of a file why it is no filter, and of a name which one was meant", function()
    helper.write(folder .. "/filters/broken.lua", "return {\n")
    local run = filters()
    assert.equal(0, run.code)
    assert.truthy(run.err:find("^moongate filters: broken cannot be used as a filter: filters/broken.lua:%d+: "))
    assert.truthy(run.out:find("\ngreet 2.1.0", 1, true))
    assert.equal(1, filters("broken").code)
    run = filters("grete")
    assert.equal(1, run.code)
    assert.equal("moongate filters: no filter grete (did you mean greet?)\n", run.err)
    assert.equal(2, filters("greet", "greet").code)
  end)
end)
