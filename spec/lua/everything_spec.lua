-- everything_spec.lua - the file that names every predicate and every filter is accepted, and it does name them all.
local support = require "spec.lua.support"
local filter_loader = require "moongate.filter_loader"
local predicates = require "moongate.predicates"

local FILE = "spec/lua/fixtures/everything.yaml"


describe("the file with everything", function()
  it("is accepted", function()
    local loaded, lines = support.routes(assert(support.file(FILE)))
    assert(loaded, lines and table.concat(lines, "\n"))
    assert.same({}, loaded.warnings)
  end)

  it("names every filter that there is", function()
    local text, missing = assert(support.file(FILE)), {}
    for _, name in ipairs(filter_loader.BUILT_IN) do
      local there = support.file(("filters/%s.lua"):format(name))
      if there and not text:find("%f[%w]" .. name .. "%f[%W]") then missing[#missing + 1] = name end
    end
    assert.same({}, missing)
  end)

  it("names every predicate that there is", function()
    local text, missing = assert(support.file(FILE)), {}
    for _, name in ipairs(predicates.names()) do
      if not text:find("%f[%w]" .. name .. ": {") then missing[#missing + 1] = name end
    end
    assert.same({}, missing)
  end)
end)
