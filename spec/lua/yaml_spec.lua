-- yaml_spec.lua - what of YAML is read, and where each refusal points.
require "spec.lua.support"
local tree = require "moongate.tree"
local yaml = require "moongate.yaml"

-- { what, text, line, column, words of the message }
local REFUSED = {
  { "an empty file", "", 1, 1, "empty" },
  { "a file of comments", "# nothing\n", 1, 1, "empty" },
  { "a key twice", "a: 1\nb: 2\na: 3\n", 3, 1, "key a stands twice" },
  { "a key twice further down", "x:\n  - b: 1\n    b: 2\n", 3, 5, "first in line 2" },
  { "a merge key", "a: { <<: { b: 1 } }\n", 1, 6, "merge keys" },
  { "a tag", "a: !!str 5\n", 1, 4, "tags are not supported" },
  { "a tag on a map", "a: !thing { b: 1 }\n", 1, 4, "!thing" },
  { "a second document", "a: 1\n---\nb: 2\n", 2, 1, "second document" },
  { "an alias to nothing", "a: *x\n", 1, 4, "no anchor &x" },
  { "an alias inside its anchor", "a: &x\n  b: *x\n", 2, 6, "inside what it refers to" },
  { "a list as a key", "? [ a ]\n: b\n", 1, 3, "a key must be" },
  { "an open bracket", "a: [1\nb: 2\n", 2, 2, "flow sequence that begins in line 1" },
  { "a variable in braces without quotes", "a: { b: ${X:1} }\n", 1, 10, "write \"${...}\" with quotes" },
  { "a tab as indentation", "a:\n\tb: 1\n", 2, 1, "this is a tab, YAML is indented with spaces" },
  { "two values in one line", "a: b: c\n", 1, 5, "mapping values are not allowed" },
  { "binary bytes", "a: 1\n\0\1", 2, 1, "not a text file" },
}


describe("yaml", function()
  for _, row in ipairs(REFUSED) do
    it("refuses " .. row[1], function()
      local node, fault = yaml.parse(row[2])
      assert.is_nil(node)
      assert.same({ row[3], row[4] }, { fault.line, fault.column })
      assert.truthy(fault.message:find(row[5], 1, true), fault.message)
    end)
  end

  it("refuses bytes that are not UTF-8", function()
    local node, fault = yaml.parse("a: \255\n")
    assert.is_nil(node)
    assert.truthy(fault.message:find("UTF-8", 1, true), fault.message)
  end)

  it("refuses aliases that unfold into something huge", function()
    local lines = { "a0: &a0 [ x, x, x, x, x, x, x, x, x, x ]" }
    for i = 1, 9 do
      lines[#lines + 1] = ("a%d: &a%d [ %s*a0 ]"):format(i, i, ("*a%d, "):format(i - 1):rep(6))
    end
    local node, fault = yaml.parse(table.concat(lines, "\n"))
    assert.is_nil(node)
    assert.truthy(fault.message:find("more than", 1, true), fault.message)
  end)

  it("refuses nesting without end", function()
    local node, fault = yaml.parse(("["):rep(100) .. ("]"):rep(100))
    assert.is_nil(node)
    assert.truthy(fault.message:find("64 levels", 1, true), fault.message)
  end)

  it("knows line, column and quoting of every value", function()
    local node = assert(yaml.parse("a: 1\nb:\n  - 'x'\n  - y\n"))
    local list = tree.entry(node, "b").node
    assert.same({ 3, 5, false }, { list.items[1].line, list.items[1].column, list.items[1].plain })
    assert.same({ 4, 5, true }, { list.items[2].line, list.items[2].column, list.items[2].plain })
    assert.same({ 2, 1 }, { tree.entry(node, "b").line, tree.entry(node, "b").column })
  end)

  it("keeps the words that YAML 1.1 turns into something else", function()
    local node = assert(yaml.parse("a: yes\nb: 012\nc: 1_000\nd: 12:30:45\ne: 2024-01-01\nf: 0x10\n"))
    local texts = {}
    for _, entry in ipairs(node.entries) do texts[#texts + 1] = tree.to_lua(entry.node) end
    assert.same({ "yes", 12, "1_000", "12:30:45", "2024-01-01", "0x10" }, texts)
  end)

  it("reads an alias as what it stands for", function()
    local node = assert(yaml.parse("a: &x { b: 1 }\nc: *x\n"))
    assert.same({ a = { b = 1 }, c = { b = 1 } }, tree.to_lua(node))
  end)

  it("passes over a byte order mark", function()
    assert.same({ a = 1 }, tree.to_lua(assert(yaml.parse("\239\187\191a: 1\n"))))
  end)
end)
