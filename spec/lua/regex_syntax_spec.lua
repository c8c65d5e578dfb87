-- regex_syntax_spec.lua - what of Java's expressions is refused, and replacements.
require "spec.lua.support"
local regex_syntax = require "moongate.regex_syntax"

-- { pattern, part of the message }
local FOREIGN = {
  { "[a-z&&[^aeiou]]", "(?=[a-z])[^aeiou]" }, { "[\\]&&a]", "intersection" }, { "[^a-d[m-p]]", "[a-dm-p]" },
  { "\\p{javaLowerCase}", "write \\p{Ll}" }, { "\\P{javaUpperCase}", "write \\p{Lu}, negated" },
  { "\\p{javaMirrored}", "a property of Unicode" }, { "x\\p{IsAlphabetic}+", "write \\p{L}" },
  { "\\p{IsLatin}", "write \\p{Latin}" }, { "\\p{InGreek}", "write \\p{Greek}" }, { "\\p{Alpha}", "[[:alpha:]]" },
  { "[\\p{IsDigit}]", "write \\p{Nd}" }, { "\\p{script=Greek}", "write \\p{Greek}" }, { "\\u00e9", "write \\x{00e9}" },
  { "\\0101", "write \\o{101}" }, { "(?U)a", "(*UCP)" }, { "(?iU:a)", "(*UCP)" }, { "(?u)a", "leave it out" },
  { "(?d)a", "(*LF)" },
}

local OWN = {
  "", "a", "[a-z]", "[]a]", "[^]a]", "[a&b]", "[[:alpha:]_]", "\\p{L}", "\\p{Latin}", "\\pL", "\\p{^Lu}", "\\[a[b]",
  "[\\[\\]]", "\\Q[a&&b]\\E[c]", "(?i)a", "(?<name>a)", "(?:a)", "(?=a)", "(?-s:a)", "\\d\\w\\s", "\\0", "a\\",
}

-- { text, pieces } or { text, nil, why } for a pattern with two groups, the second named tail
local REPLACEMENTS = {
  { "", {} }, { "plain", { "plain" } }, { "$1", { 1 } }, { "a$1b${tail}c", { "a", 1, "b", 2, "c" } },
  { "$12", { 1, "2" } }, { "$0", { 0 } }, { "\\$1", { "$1" } }, { "a\\\\b", { "a\\b" } }, { "\\a", { "a" } },
  { "$3", nil, "the pattern has no group 3, it has 2" }, { "${nope}", nil, "no group named nope" },
  { "a$", nil, "a $ at character 2 refers to no group" }, { "$x", nil, "refers to no group" },
  { "${1}", nil, "refers to no group" }, { "a\\", nil, "nothing to stand for" },
}


describe("regular expressions", function()
  for _, row in ipairs(FOREIGN) do
    it("are refused where only Java would understand " .. row[1], function()
      local why = regex_syntax.foreign(row[1])
      assert.truthy(why and why:find(row[2], 1, true), why)
    end)
  end

  it("are let pass where PCRE2 means the same, or says itself what is wrong", function()
    for _, pattern in ipairs(OWN) do assert.is_nil((regex_syntax.foreign(pattern)), pattern) end
  end)
end)


describe("replacements", function()
  for _, row in ipairs(REPLACEMENTS) do
    it("are taken apart: " .. row[1], function()
      local pieces, why = regex_syntax.replacement(row[1], 2, function(name) return name == "tail" and 2 or nil end)
      assert.same(row[2], pieces)
      if row[3] then assert.truthy(why:find(row[3], 1, true), why) end
    end)
  end

  it("take as many digits as there are groups", function()
    assert.same({ 12, "3" }, regex_syntax.replacement("$123", 12, function() end))
  end)
end)
