--- regex_syntax.lua - what can be said of regular expressions and their replacements without compiling them.
--
-- Owns: what configurations written for Java may not carry over unseen (constructs that PCRE2 refuses or, worse, reads
-- differently), and the form of replacements: $1, ${name}, and \ before what is meant literally.
-- Pure.

local regex_syntax = {}

local PROPERTIES = {
  javaLowerCase = "\\p{Ll}", javaUpperCase = "\\p{Lu}", javaWhitespace = "\\s", javaSpaceChar = "\\p{Z}",
  javaAlphabetic = "\\p{L}", javaLetter = "\\p{L}", javaLetterOrDigit = "[\\p{L}\\p{Nd}]", javaDigit = "\\p{Nd}",
  javaTitleCase = "\\p{Lt}", javaISOControl = "\\p{Cc}",
  IsAlphabetic = "\\p{L}", IsLetter = "\\p{L}", IsLowercase = "\\p{Ll}", IsUppercase = "\\p{Lu}",
  IsTitlecase = "\\p{Lt}", IsDigit = "\\p{Nd}", IsPunctuation = "\\p{P}", IsControl = "\\p{Cc}",
  IsWhite_Space = "\\s", IsIdeographic = "\\p{Han}",
  Lower = "[[:lower:]]", Upper = "[[:upper:]]", ASCII = "[\\x00-\\x7f]", Alpha = "[[:alpha:]]",
  Digit = "[[:digit:]]", Alnum = "[[:alnum:]]", Punct = "[[:punct:]]", Graph = "[[:graph:]]",
  Print = "[[:print:]]", Blank = "[[:blank:]]", Cntrl = "[[:cntrl:]]", XDigit = "[[:xdigit:]]",
  Space = "[[:space:]]",
}


--- How PCRE2 spells a property of Java's, or nil when it is one of its own.
local function property_spelling(name)
  local known = PROPERTIES[name]
  if known then return known end
  if name:find("^java") then return "a property of Unicode such as \\p{L}" end
  local bare = name:match("^Is(%u.*)$") or name:match("^In(%u.*)$")
  if bare then return ("\\p{%s}"):format(bare) end
  local value = name:match("^[%l_]+=(.+)$")
  return value and ("\\p{%s}"):format(value)
end


--- What is wrong with an escape at a position: message; else nil and the position behind it.
local function check_escape(pattern, at)
  local kind = pattern:sub(at + 1, at + 1)
  if kind == "Q" then
    local _, last = pattern:find("\\E", at + 2, true)
    return nil, (last or #pattern) + 1
  end
  if kind == "p" or kind == "P" then
    local name, after = pattern:match("^{%^?([^}]*)}()", at + 2)
    local spelling = name and property_spelling(name)
    if spelling then
      return ("\\%s{%s} is Java's; write %s"):format(kind, name, kind == "P" and spelling .. ", negated" or spelling)
    end
    return nil, after or at + 2
  end
  if kind == "u" then
    local digits = pattern:match("^%x%x%x%x", at + 2)
    if digits then return ("\\u%s is Java's; write \\x{%s}"):format(digits, digits) end
  end
  if kind == "0" then
    local digits = pattern:match("^[0-7]+", at + 2)
    if digits then return ("\\0%s is Java's; write \\o{%s}"):format(digits, digits) end
  end
  return nil, at + 2
end


--- Walks through a class that opens at a position: message; else nil and the position behind it.
local function check_class(pattern, at)
  local i = at + 1
  if pattern:sub(i, i) == "^" then i = i + 1 end
  if pattern:sub(i, i) == "]" then i = i + 1 end -- literal there
  while i <= #pattern do
    local c = pattern:sub(i, i)
    if c == "]" then return nil, i + 1 end
    if pattern:sub(i, i + 1) == "&&" then
      return "intersection of classes (&&) is Java's; write a look-ahead, (?=[a-z])[^aeiou] for [a-z&&[^aeiou]]"
    end
    local posix = pattern:match("^%[:%^?%a+:%]()", i)
    if posix then
      i = posix
    elseif c == "[" then
      return "a class within a class is Java's; write one class, [a-dm-p] for [a-d[m-p]], or \\[ for the character"
    elseif c == "\\" then
      local why, after = check_escape(pattern, i)
      if why then return why end
      i = after
    else
      i = i + 1
    end
  end
  return nil, i
end


local FLAGS = {
  U = "(?U) is Java's (in PCRE2 it makes quantifiers lazy); write (*UCP) at the beginning",
  u = "(?u) is Java's; leave it out: letter case is Unicode's here",
  d = "(?d) is Java's; write (*LF) at the beginning",
}


local function check_flags(pattern, at)
  local flags = pattern:match("^%(%?([%a%-]+)[:)]", at)
  for flag in (flags or ""):gmatch("%a") do
    if FLAGS[flag] then return FLAGS[flag] end
  end
end


--- Nil when nothing in a pattern is Java's alone; else what is, and how PCRE2 spells it.
function regex_syntax.foreign(pattern)
  local i = 1
  while i <= #pattern do
    local c = pattern:sub(i, i)
    local why
    if c == "\\" then
      why, i = check_escape(pattern, i)
    elseif c == "[" then
      why, i = check_class(pattern, i)
    else
      why = c == "(" and check_flags(pattern, i) or nil
      i = i + 1
    end
    if why then return why end
  end
end


--- The group that "$" at a position refers to. @return number or name, position behind it; or nil, why
local function reference(text, at, group_count)
  local name, after = text:match("^{(%a[%w]*)}()", at + 1)
  if name then return name, after end
  local digits = text:match("^%d+", at + 1)
  if not digits then
    return nil, ("a $ at character %d refers to no group; write $1, ${name}, or \\$ for the character"):format(at)
  end
  -- As in Java, further digits belong to the reference as long as there is such a group.
  local length = 1
  while length < #digits and tonumber(digits:sub(1, length + 1), 10) <= group_count do length = length + 1 end
  return tonumber(digits:sub(1, length), 10), at + 1 + length
end


--- Takes a replacement apart.
-- @param group_count how many groups the pattern has; @param group_number name → number, or nil
-- @return list of literal texts and numbers of groups; or nil and why it is none
function regex_syntax.replacement(text, group_count, group_number)
  local pieces, literal, i = {}, {}, 1
  local function flush()
    if #literal > 0 then pieces[#pieces + 1] = table.concat(literal) end
    literal = {}
  end
  while i <= #text do
    local c = text:sub(i, i)
    if c == "\\" then
      if i == #text then return nil, "a \\ at the end has nothing to stand for" end
      literal[#literal + 1] = text:sub(i + 1, i + 1)
      i = i + 2
    elseif c == "$" then
      local group, after = reference(text, i, group_count)
      if not group then return nil, after end
      local number = type(group) == "number" and group or group_number(group)
      if not number then return nil, ("the pattern has no group named %s"):format(group) end
      if number > group_count then
        return nil, ("the pattern has no group %d, it has %d"):format(number, group_count)
      end
      flush()
      pieces[#pieces + 1] = number
      i = after
    else
      literal[#literal + 1] = c
      i = i + 1
    end
  end
  flush()
  return pieces
end


return regex_syntax
