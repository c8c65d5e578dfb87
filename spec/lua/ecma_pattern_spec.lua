-- ecma_pattern_spec.lua - Lua patterns as regular expressions of ECMAScript.
require "spec.lua.support"
local ecma_pattern = require "moongate.ecma_pattern"

describe("a Lua pattern as a regular expression", function()
  for pattern, expected in pairs {
    ["^/"] = "^\\/",
    ["^[%w!#$%%&'*+%-.^_`|~]+$"] = "^[A-Za-z0-9!#\\$%&'\\*\\+\\-\\.\\^_`\\|~]+$",
    ["^%d+%l*$"] = "^[0-9]+[a-z]*$",
    ["a-b"] = "a*?b",
    ["x$y"] = "x\\$y",
    ["^%C+$"] = "^[^\\u0000-\\u001f\\u007f]+$",
    ["[]a-z-]"] = "[\\]a-z\\-]",
    ["[^%s]?."] = "[^ \\t-\\r]?[\\s\\S]",
    ["(%a+)=%(%1"] = false,
    ["%bxy"] = false,
    ["%f[%w]"] = false,
    ["[%W]"] = false,
  } do
    it("is made of " .. pattern, function() assert.equal(expected or nil, ecma_pattern(pattern)) end)
  end
end)
