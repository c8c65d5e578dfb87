--- ecma_pattern.lua - a Lua pattern as the regular expression of ECMAScript that means the same.
--
-- Pure. Returns nil for what has no counterpart (%b, %f, back references). Only syntax characters are escaped: with the
-- flag u, which validators set, an escaped letter is an error.

local CLASSES = {
  a = "A-Za-z", d = "0-9", l = "a-z", u = "A-Z", w = "A-Za-z0-9", s = " \\t-\\r", x = "0-9A-Fa-f",
  c = "\\u0000-\\u001f\\u007f", p = "!-\\/:-@\\[-`{-~", g = "!-~",
}
local SYNTAX = "[%^%$%\\%.%*%+%?%(%)%[%]{}|/]"


local function literal(c)
  return c:find(SYNTAX) and "\\" .. c or c
end


--- A class by its letter, standing alone: a capital is the opposite. Nil when it is none.
local function class(letter)
  local set = CLASSES[letter:lower()]
  if not set then return nil end
  return (letter:find("%u") and "[^%s]" or "[%s]"):format(set)
end


--- The set that begins at a "[". @return its translation and the position behind it, or nil
local function set_at(pattern, at)
  local parts, i = { "[" }, at + 1
  if pattern:sub(i, i) == "^" then parts[2], i = "^", i + 1 end
  local first = i
  while i <= #pattern do
    local c = pattern:sub(i, i)
    if c == "]" and i > first then
      parts[#parts + 1] = "]"
      return table.concat(parts), i + 1
    end
    if c == "%" then
      i = i + 1
      c = pattern:sub(i, i)
      local inner = CLASSES[c]
      if not inner and c:find("%a") then return nil end -- the opposite of a class does not fit into a set
      parts[#parts + 1] = inner or (c == "-" and "\\-") or literal(c)
    else
      parts[#parts + 1] = (c == "-" and (i == first or pattern:sub(i + 1, i + 1) == "]")) and "\\-" or
        (c == "-" and "-") or literal(c)
    end
    i = i + 1
  end
end


--- One item without its repetition. @return its translation and the position behind it, or nil
local function item_at(pattern, i)
  local c = pattern:sub(i, i)
  if c == "[" then return set_at(pattern, i) end
  if c == "." then return "[\\s\\S]", i + 1 end
  if c == "(" or c == ")" then return c, i + 1 end
  if c ~= "%" then return literal(c), i + 1 end
  local letter = pattern:sub(i + 1, i + 1)
  if class(letter) then return class(letter), i + 2 end
  if letter:find("%w") then return nil end
  return literal(letter), i + 2
end


--- @param pattern a Lua pattern; @return the source of a regular expression, or nil
return function(pattern)
  local out, i = {}, 1
  if pattern:sub(1, 1) == "^" then out[1], i = "^", 2 end
  while i <= #pattern do
    if pattern:sub(i) == "$" then
      out[#out + 1] = "$"
      break
    end
    local item, after = item_at(pattern, i)
    if not item then return nil end
    local repeated = item ~= "(" and item ~= ")" and pattern:sub(after, after):match("[*+?-]")
    out[#out + 1] = item
    if repeated then
      out[#out + 1] = repeated == "-" and "*?" or repeated
      after = after + 1
    end
    i = after
  end
  return table.concat(out)
end
