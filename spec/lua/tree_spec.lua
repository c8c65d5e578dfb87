-- tree_spec.lua - Lua tables as trees, and variables in values.
require "spec.lua.support"
local faults = require "moongate.faults"
local tree = require "moongate.tree"
local yaml = require "moongate.yaml"

local VARIABLES = { HOST = "a.example", EMPTY = "", SHAPE = "[ 1, 2 ]", NIL = "null", NESTED = "${HOST}" }


local function interpolated(text)
  local found = faults.new("f")
  local node = assert(yaml.parse("v: " .. text .. "\n"))
  tree.interpolate(node, function(name) return VARIABLES[name] end, found)
  local value = tree.entry(node, "v").node
  return value, found:lines()[1]
end


describe("variables", function()
  it("stand for the text of the environment, in any number", function()
    assert.equal("http://a.example:80/a.example", interpolated("http://${HOST}:${PORT:80}/${HOST}").text)
  end)

  it("are replaced after parsing: what they hold is text", function()
    local node = interpolated("${SHAPE}")
    assert.same({ "scalar", "[ 1, 2 ]" }, { node.kind, node.text })
    assert.is_false(tree.is_null((interpolated("${NIL}"))))
    assert.is_false(tree.is_null((interpolated("${EMPTY}"))))
    assert.equal("${HOST}", interpolated("${NESTED}").text)
  end)

  it("have defaults that may hold colons or nothing", function()
    assert.equal("http://x:1", interpolated("'${URL:http://x:1}'").text)
    assert.equal("", interpolated("'${URL:}'").text)
  end)

  it("are written out with $${", function()
    assert.equal("a${HOST}b$", interpolated("a$${HOST}b$").text)
    assert.equal("${name} a.example", interpolated("'$${name} ${HOST}'").text)
  end)

  it("are refused by name, line and path when they are not set", function()
    local node, line = interpolated("${MISSING}")
    assert.is_true(node.failed)
    assert.equal("f:1:4: v: environment variable MISSING is not set and has no default", line)
  end)

  it("are refused when they are not closed or have no name", function()
    local _, unclosed = interpolated("'${HOST'")
    assert.truthy(unclosed:find("without its }", 1, true))
    local _, nameless = interpolated("'${a b}'")
    assert.truthy(nameless:find("names no variable", 1, true))
  end)

  it("are not shown with what they hold", function()
    assert.equal('"${HOST}" (from the environment)', tree.describe((interpolated("${HOST}"))))
  end)
end)


describe("nodes that say the same", function()
  local function spelled(text)
    return tree.spelled(assert(yaml.parse(text)))
  end

  it("are spelled alike wherever they stand, and others are not", function()
    assert.equal(spelled("{ a: b, c: [ 1, x ] }"), spelled("a: b\nc:\n  - 1\n  - x\n"))
    local seen = {}
    for _, text in ipairs { "a: 1", "a: '1'", "a: [ 1 ]", "a: { 1: ~ }", "b: 1", "{ a: 1, b: 2 }", "{ b: 2, a: 1 }",
      "a: [ 1, 2 ]", "a: [ [ 1 ], 2 ]", "a: [ [ 1, 2 ] ]", "a: [ 12 ]", "a: ''", "a:" } do
      assert.is_nil(seen[spelled(text)], text)
      seen[spelled(text)] = true
    end
  end)

  it("are not compared where they hold a function", function()
    assert.is_nil(tree.spelled(assert(tree.from_lua { a = { print } })))
  end)
end)


describe("a Lua table", function()
  it("becomes a tree that gives the same table", function()
    local value = { a = { 1, "x", true }, b = { c = { d = "e" } } }
    assert.same(value, tree.to_lua(assert(tree.from_lua(value))))
  end)

  it("keeps where a function stands", function()
    local node = assert(tree.from_lua({ routes = { { match = print } } }))
    local route = tree.entry(node, "routes").node.items[1]
    assert.same({ "routes", 1, "match" }, tree.entry(route, "match").node.where)
  end)

  it("that contains itself or holds what no configuration can is refused", function()
    local loop = {}
    loop.loop = loop
    local node, why = tree.from_lua(loop)
    assert.is_nil(node)
    assert.truthy(why:find("contains itself", 1, true))
    node, why = tree.from_lua({ a = coroutine.create(print) })
    assert.is_nil(node)
    assert.equal("a thread at a", why)
    assert.is_nil(tree.from_lua({ [{}] = 1 }))
  end)
end)
