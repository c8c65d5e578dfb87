-- spec/kit/patterns.lua - the bounded pattern functions against the stock ones; run by `moongate test`.
local patterns = require "moongate.patterns"

local CASES = tonumber(os.getenv("MOONGATE_TEST_PATTERNS")) or 20000
local PIECES = {
  "a", "b", ".", "%a", "%A", "%d", "%s", "%w", "%W", "%p", "%x", "%z", "%g", "%u", "%%", "%.", "[ab]", "[^ab]", "[a-c]",
  "[%d%s]", "[^%w]", "[]a]", "[a-]", "(a)", "(.)", "()", "(", ")", "%1", "%2", "%b()", "%bab", "%f[%w]", "%f[%A]", "*",
  "+", "-", "?", "^", "$", "x", "1", " ", "\200", "[\200-\255]", "[%]]", "[", "]", "%", "\0", "[a%",
}
local LETTERS = { "a", "b", "c", "x", "1", " ", ".", "(", ")", "\0", "\200", "A", "%", "-" }


local function random_text(alphabet, most)
  local parts = {}
  for i = 1, math.random(0, most) do parts[i] = alphabet[math.random(#alphabet)] end
  return table.concat(parts)
end


local function packed(ok, ...)
  local result = { ok = ok, n = select("#", ...), ... }
  if not ok then result[1] = tostring(result[1]):gsub("^[^:]*:%d+: ", "") end
  return result
end


local function all_of(iterate, subject, pattern)
  local list = {}
  for a, b, c in iterate(subject, pattern) do
    list[#list + 1] = { a, b, c }
    if #list > 100 then break end
  end
  return list
end


local OPERATIONS = {
  find = function(library, s, p, init) return library.find(s, p, init) end,
  match = function(library, s, p, init) return library.match(s, p, init) end,
  gmatch = function(library, s, p) return all_of(library.gmatch, s, p) end,
  gsub_text = function(library, s, p) return library.gsub(s, p, "<%0|%1>") end,
  gsub_plain = function(library, s, p, most) return library.gsub(s, p, "-", most) end,
  gsub_table = function(library, s, p) return library.gsub(s, p, { a = "A", b = 2, x = false, [1] = "one" }) end,
  gsub_function = function(library, s, p)
    return library.gsub(s, p, function(a, b) return b and tostring(a) .. tostring(b) or nil end)
  end,
}


describe("patterns", function()
  it(("give what the stock functions give, on %d random ones"):format(CASES), function()
    local seed = os.time()
    math.randomseed(seed)
    local compared, valid = 0, 0
    for case = 1, CASES do
      local subject, pattern = random_text(LETTERS, 12), random_text(PIECES, 6)
      local init = math.random(3) == 1 and math.random(-14, 14) or nil
      for name, run in pairs(OPERATIONS) do
        local wanted = packed(pcall(run, string, subject, pattern, init))
        local got = packed(pcall(run, patterns, subject, pattern, init))
        compared = compared + 1
        if wanted.ok then
          valid = valid + 1
          assert.same(wanted, got, ("seed %d, case %d: %s(%q, %q, %s)"):format(seed, case, name, subject, pattern,
            tostring(init)))
        end
      end
    end
    assert.truthy(valid > compared / 4)
  end)

  it("refuse what the stock functions refuse, in their words", function()
    for pattern, words in pairs {
      ["%"] = "malformed pattern (ends with '%')", ["[a"] = "malformed pattern (missing ']')",
      ["%f"] = "missing '[' after '%f' in pattern", ["("] = "unfinished capture", [")"] = "invalid pattern capture",
      ["%1"] = "invalid capture index", ["%b"] = "unbalanced pattern", [("()"):rep(33)] = "too many captures",
      [("a?"):rep(250)] = "pattern too complex",
    } do
      local subject = ("a"):rep(300)
      local ok, why = pcall(patterns.match, subject, pattern)
      assert.is_false(ok, pattern)
      assert.truthy(why:find(words, 1, true), why)
      assert.is_false((pcall(string.match, subject, pattern)))
    end
    for _, arguments in ipairs { {}, { "a" }, { nil, "a" }, { {}, "a" }, { "a", true } } do
      for _, name in ipairs { "find", "match", "gmatch", "gsub" } do
        assert.is_false((pcall(patterns[name], arguments[1], arguments[2], "x")))
      end
    end
    assert.is_false((pcall(patterns.gsub, "a", "a")))
    assert.is_false((pcall(patterns.gsub, "a", "a", true)))
    assert.is_false((pcall(patterns.gsub, "a", "a", function() return {} end)))
    assert.is_false((pcall(patterns.gsub, "a", "a", "%2")))
  end)

  it("end searches that would take seconds", function()
    local subject = ("a"):rep(200)
    for _, pattern in ipairs { ("a*"):rep(20) .. "b", (".-"):rep(12) .. "b", "(a*)(a*)(a*)(a*)(a*)(a*)%1b" } do
      for _, run in pairs(OPERATIONS) do
        local began = os.clock()
        local ok, why = pcall(run, patterns, subject, pattern)
        assert.is_false(ok)
        assert.truthy(tostring(why):find("takes too much work", 1, true), why)
        assert.truthy(os.clock() - began < 0.5)
      end
    end
    assert.is_false((pcall(patterns.find, ("a"):rep(1e6), ("a"):rep(5e5) .. "b", 1, true)))
  end)

  it("bound what gsub makes of a subject", function()
    local ok, why = pcall(patterns.gsub, ("x"):rep(1000), "x", ("y"):rep(1e6))
    assert.is_false(ok)
    assert.truthy(why:find("longer than 64 MB", 1, true), why)
  end)

  it("leave room for honest work on long subjects", function()
    local body = ("key=value&"):rep(50000)
    assert.equal(50000, select(2, patterns.gsub(body, "(%w+)=(%w+)", "%2=%1")))
    assert.equal(#body - 9, (patterns.find(body, "key=value&$")))
    assert.equal(body, patterns.match(body, "^.*$"))
    local words = 0
    for _ in patterns.gmatch(body, "%a+") do words = words + 1 end
    assert.equal(100000, words)
  end)

  it("may be used inside each other", function()
    local function outer(name)
      assert.equal("b", patterns.match("ab", ".(.)"))
      return patterns.gsub(name, "%l", function(c) return c:upper() end)
    end
    assert.equal("<AB> <CD>", (patterns.gsub("ab cd", "%w+", function(word) return "<" .. outer(word) .. ">" end)))
    local seen = {}
    for key in patterns.gmatch("a=1,b=2", "(%w)=") do
      for value in patterns.gmatch("xy", ".") do seen[#seen + 1] = key .. value end
    end
    assert.same({ "ax", "ay", "bx", "by" }, seen)
  end)
end)
