-- schema_spec.lua - the schema words, one by one, on YAML text and on Lua tables.
require "spec.lua.support"
local faults = require "moongate.faults"
local schema = require "moongate.schema"
local tree = require "moongate.tree"
local yaml = require "moongate.yaml"


local function check_node(node, spec)
  local found = faults.new("f")
  local value = schema.check({ faults = found, place = node }, node, spec, "")
  return value, table.concat(found:lines(), "\n")
end


local function check(text, spec)
  return check_node(assert(yaml.parse(text)), { type = "object", keys = { v = spec } })
end


-- { schema, YAML value, expected }
local ACCEPTED = {
  { "string", "abc", "abc" }, { "string", "123", "123" }, { "string", "yes", "yes" }, { "string", "true", "true" },
  { "string", "''", "" }, { "string", "'null'", "null" },
  { "integer", "42", 42 }, { "integer", "-1", -1 }, { "integer", "+7", 7 }, { "integer", "'8080'", 8080 },
  { "number", "1.5", 1.5 }, { "number", "1e3", 1000 },
  { "boolean", "true", true }, { "boolean", "False", false }, { "boolean", "'true'", true },
  { "duration", "500ms", 500 }, { "duration", "2d", 172800000 }, { "size", "32KB", 32768 }, { "size", "7", 7 },
  { "header_name", "X-Request_Id", "X-Request_Id" }, { "header_value", "'a\tb; c=\"d\"'", 'a\tb; c="d"' },
  { "regexp", "'^a[b]\\d$'", "^a[b]\\d$" }, { { type = "duration", none = true }, "none", 0 },
  { { type = "enum", enum = { "A", "B" } }, "B", "B" }, { { type = "integer", enum = { 1, 2 } }, "2", 2 },
  { { type = "array", items = "string" }, "[ a, b ]", { "a", "b" } },
  { { type = "array", items = "string" }, "a", { "a" } }, { { type = "array", items = "integer" }, "[]", {} },
  { { type = "map", items = "integer" }, "{ a: 1, b: 2 }", { a = 1, b = 2 } },
  { { type = "object", keys = { a = { type = "size", default = "1kb" } } }, "{}", { a = 1024 } },
  { "any", "{ a: [ 1, yes, true, 'true' ] }", { a = { 1, "yes", true, "true" } } },
  { { type = "string", default = "x" }, "~", "x" }, { { type = "string", default = "x" }, "", "x" },
  { { type = "string", pattern = "^a" }, "abc", "abc" }, { { type = "integer", min = 1, max = 3 }, "3", 3 },
  { { type = "duration", min = "1s", max = "1m" }, "60s", 60000 },
}

-- { schema, YAML value, message }
local REFUSED = {
  { "string", "[ a ]", "f:1:4: v: found a list, accepted: text" },
  { "integer", "1.5", 'f:1:4: v: found "1.5", accepted: a whole number' },
  { "integer", "010", 'f:1:4: v: found "010", accepted: a whole number' },
  { "integer", "1_000", 'f:1:4: v: found "1_000", accepted: a whole number' },
  { "integer", "99999999999999999999", 'f:1:4: v: found "99999999999999999999", accepted: a whole number' },
  { "number", "0x10", 'f:1:4: v: found "0x10", accepted: a number' },
  { "number", "nan", 'f:1:4: v: found "nan", accepted: a number' },
  { "header_name", "a b", 'f:1:4: v: found "a b", accepted: a header name (letters, digits and !#$%&\'*+-.^_`|~)' },
  { "header_value", '"a\\nb"', 'f:1:4: v: found "a\\10b", accepted: text without control characters, in ISO-8859-1' },
  { "header_value", "30 €", 'f:1:4: v: found "30 €", accepted: text without control characters, in ISO-8859-1' },
  { { type = "duration", min = "1s" }, "1ms",
    'f:1:4: v: found "1ms", accepted: a whole number with ms, s, m, h or d, such as 500ms or 30s, at least 1s' },
  { "regexp", "'\\p{Alpha}'", 'f:1:4: v: found "\\p{Alpha}", accepted: a regular expression (PCRE2) '
    .. "(\\p{Alpha} is Java's; write [[:alpha:]])" },
  { { type = "regexp", secret = true }, "'[a&&b]'", "f:1:4: v: found a secret value, accepted: a regular "
    .. "expression (PCRE2) (intersection of classes (&&) is Java's; write a look-ahead, (?=[a-z])[^aeiou] for "
    .. "[a-z&&[^aeiou]])" },
  { "boolean", "yes", 'f:1:4: v: found "yes", accepted: true or false (did you mean true?)' },
  { "boolean", "off", 'f:1:4: v: found "off", accepted: true or false (did you mean false?)' },
  { { type = "duration", accepted = "D" }, "30", 'f:1:4: v: found "30", accepted: D (the unit is missing)' },
  { { type = "duration", accepted = "D" }, "1w", 'f:1:4: v: found "1w", accepted: D' },
  { { type = "duration", accepted = "D", max = "1m" }, "61s", 'f:1:4: v: found "61s", accepted: D' },
  { { type = "size", accepted = "S" }, "1tb", 'f:1:4: v: found "1tb", accepted: S' },
  { { type = "enum", enum = { "FULL", "NONE" } }, "full",
    'f:1:4: v: found "full", accepted: FULL, NONE (did you mean FULL?)' },
  { { type = "integer", min = 1, max = 65535 }, "70000",
    'f:1:4: v: found "70000", accepted: a whole number from 1 to 65535' },
  { { type = "array", items = "integer", min = 1 }, "[]",
    "f:1:4: v: found a list, accepted: a list of at least 1 items" },
  { { type = "array", items = "integer" }, "[ 1, x ]", 'f:1:9: v[1]: found "x", accepted: a whole number' },
  { { type = "array", items = "string" }, "{ a: b }", "f:1:4: v: found a map, accepted: a list" },
  { { type = "array", items = "string" }, "[ a, ~ ]", "f:1:9: v[1]: found null (an empty value) as an item of a list" },
  { { type = "object", keys = { path = "string" } }, "{ paht: x }",
    "f:1:6: v: unknown option paht (did you mean path?); known options: path" },
  { { type = "object", keys = {} }, "{ a: x }",
    "f:1:6: v: unknown option a; known options: none: it takes no options" },
  { { type = "object", keys = { a = { type = "string", required = true } } }, "{}",
    "f:1:4: v.a: is required; accepted: text" },
  { { type = "string", required = true }, "~", "f:1:4: v: is required, found null (an empty value); accepted: text" },
  { { type = "string", secret = true, max = 3 }, "hunter2",
    "f:1:4: v: found a secret value, accepted: text of at most 3 bytes" },
  { { type = "array", secret = true, items = { type = "string", max = 3 } }, "[ hunter2 ]",
    "f:1:6: v[0]: found a secret value, accepted: text of at most 3 bytes" },
  { { type = "map", pattern = "^x%-", items = "string" }, "{ a: b }",
    "f:1:6: v.a: found the key a, accepted: keys that match the Lua pattern ^x%-" },
}


describe("a schema", function()
  for _, row in ipairs(ACCEPTED) do
    local spec, text, expected = row[1], row[2], row[3]
    it(("of type %s takes %s"):format(spec.type or spec, text), function()
      local value, lines = check("v: " .. text .. "\n", spec)
      assert.equal("", lines)
      assert.same({ v = expected }, value)
    end)
  end

  for _, row in ipairs(REFUSED) do
    local spec, text, message = row[1], row[2], row[3]
    it(("of type %s refuses %s"):format(spec.type or spec, text), function()
      local _, lines = check("v: " .. text .. "\n", spec)
      assert.equal(message, lines)
    end)
  end

  it("names all faults in one go, in the order of the file", function()
    local keys = { a = "integer", b = "boolean", c = { type = "string", required = true } }
    local _, lines = check_node(assert(yaml.parse("b: 1\na: x\nd: 2\n")), { type = "object", keys = keys })
    assert.same({
      "f:1:1: c: is required; accepted: text", 'f:1:4: b: found "1", accepted: true or false',
      'f:2:4: a: found "x", accepted: a whole number', "f:3:1: unknown option d; known options: a, b, c",
    }, { lines:match("^(.-)\n(.-)\n(.-)\n(.-)$") })
  end)

  it("gives every value its own copy of a default", function()
    local item = { type = "object", keys = { list = { type = "array", default = { "x" } } } }
    local value = check("v: [ {}, {} ]\n", { type = "array", items = item })
    value.v[1].list[1] = "changed"
    assert.equal("x", value.v[2].list[1])
  end)

  it("checks Lua tables by the same rules", function()
    local keys = { on = "boolean", list = { type = "array", items = "integer" }, wait = "duration" }
    local node = tree.from_lua({ on = true, list = 5, wait = "2s" })
    local value, lines = check_node(node, { type = "object", keys = keys })
    assert.equal("", lines)
    assert.same({ on = true, list = { 5 }, wait = 2000 }, value)
    local _, refused = check_node(tree.from_lua({ list = { print } }), { type = "object", keys = keys })
    assert.equal("f: list[0]: found a function, accepted: a whole number", refused)
  end)
end)


describe("what an author writes as a schema", function()
  local function author(keys)
    local messages = {}
    schema.check_author(keys, function(path, message) messages[#messages + 1] = path .. ": " .. message end)
    return table.concat(messages, "\n")
  end

  it("is accepted when it is right", function()
    assert.equal("", author({ a = "string", b = { type = "array", items = { type = "object", keys = { c = "size" } } },
      d = { type = "duration", default = "10s", min = "1s", description = "How long." } }))
  end)

  it("is refused by path with the nearest known word", function()
    local text = author({ a = "strng", b = { type = "array", items = { type = "object", keys = { c = "sise" } } },
      d = { type = "string", requird = true }, e = { type = "enum" }, f = { type = "string", pattern = "(" }, g = 5,
      h = { type = "integer", min = "x" } })
    assert.truthy(text:find("schema.a: unknown type strng (did you mean string?)", 1, true), text)
    assert.truthy(text:find("schema.b.items.c: unknown type sise (did you mean size?)", 1, true), text)
    assert.truthy(text:find("schema.d: unknown schema word requird (did you mean required?)", 1, true), text)
    assert.truthy(text:find("schema.e: type enum needs enum", 1, true), text)
    assert.truthy(text:find("schema.f: pattern is not a Lua pattern", 1, true), text)
    assert.truthy(text:find("schema.g: is a number", 1, true), text)
    assert.truthy(text:find("schema.h: min must be", 1, true), text)
  end)

  it("is refused when a default breaks its own rules", function()
    assert.equal('schema.a: default: found "5", accepted: D (the unit is missing)',
      (author({ a = { type = "duration", default = "5" } }):gsub("accepted: .- %(the", "accepted: D (the")))
  end)
end)


describe("regular expressions", function()
  it("are compiled where there is something to compile them with", function()
    local found, asked = faults.new("f"), {}
    local function check_regex(pattern)
      asked[#asked + 1] = pattern
      return pattern == "(" and "it does not close" or nil
    end
    local context = { faults = found, check_regex = check_regex }
    local node = assert(yaml.parse("a: x\nb: '('\n"))
    schema.check(context, node, { type = "object", keys = { a = "regexp", b = "regexp" } }, "")
    assert.same({ "x", "(" }, asked)
    assert.same({ 'f:2:4: b: found "(", accepted: a regular expression (PCRE2) (it does not close)' }, found:lines())
  end)
end)
