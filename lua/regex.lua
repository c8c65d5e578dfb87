--- regex.lua - regular expressions for filters: moongate.regex(pattern) → expression, or nil and why.
--
-- An expression is C's (core/regex.h); its methods make no garbage but the strings they return. All of them raise when
-- a text costs more steps than an expression may take: the request is then answered with 500 and regex_budget.
-- Owns: the methods of expressions.   May call: ffi, regex_syntax.   Never: know a request.

local ffi = require "moongate.ffi"
local regex_syntax = require "moongate.regex_syntax"

local C = ffi.C

local ERROR_BYTES = 256

local regex = {}
local methods = {}
local error_text = ffi.new("char[?]", ERROR_BYTES)
local out, out_length = ffi.new("const char *[1]"), ffi.new("size_t[1]")


--- Compiles a pattern (PCRE2, UTF-8). options.whole: it must match a text from end to end, not be found in it.
-- Constructs of Java's that PCRE2 reads differently are refused with its spelling.
-- @phases init
-- @return the expression, or nil and why it is none
function regex.new(pattern, options)
  if type(pattern) ~= "string" then error("moongate.regex: the pattern is a string", 2) end
  local foreign = regex_syntax.foreign(pattern)
  if foreign then return nil, foreign end
  local whole = options ~= nil and options.whole == true
  local compiled = C.mg_regex_new(pattern, #pattern, whole and 1 or 0, error_text, ERROR_BYTES)
  if compiled == nil then return nil, ffi.string(error_text) end
  return ffi.gc(compiled, C.mg_regex_release)
end


--- Nil when a pattern can be compiled, else why not.
function regex.check(pattern)
  local compiled, why = regex.new(pattern)
  return compiled == nil and why or nil
end


local function over_budget(method)
  C.mg_script_over_budget()
  error(method .. ": the regular expression took too long", 3)
end


--- True if the text matches (a whole one) or holds a match.
function methods:test(text)
  local result = C.mg_regex_test(self, text, #text, 0)
  if result < 0 then over_budget("test") end
  return result == 1
end


--- Where the first match begins and ends (as string.find does), or nil. Searches from position `from` on.
function methods:find(text, from)
  local result = C.mg_regex_test(self, text, #text, (from or 1) - 1)
  if result < 0 then over_budget("find") end
  if result == 0 then return nil end
  return C.mg_regex_group_start(self, 0) + 1, C.mg_regex_group_end(self, 0)
end


--- What group n of the last match in this text was; nil when it took no part.
function methods:group(text, n)
  local first = C.mg_regex_group_start(self, n)
  if first < 0 then return nil end
  return text:sub(first + 1, C.mg_regex_group_end(self, n))
end


--- Takes a replacement apart: $1, ${name}, \ before what is meant literally. Its list holds texts and group numbers.
-- @return the replacement for replace; or nil and why it is none
function methods:replacement(text)
  local function number_of(name)
    local number = C.mg_regex_group_number(self, name, #name)
    return number > 0 and number or nil
  end
  local pieces, why = regex_syntax.replacement(text, C.mg_regex_group_count(self), number_of)
  if not pieces then return nil, why end
  local parts = {}
  for i, piece in ipairs(pieces) do
    parts[i] = type(piece) == "number" and ("${%d}"):format(piece) or piece:gsub("%$", "$$")
  end
  pieces.text = table.concat(parts)
  return pieces
end


--- Replaces every match. @return the new text and how many there were; the text itself when there was none
function methods:replace(text, replacement)
  local with = replacement.text
  local count = C.mg_regex_replace(self, text, #text, with, #with, out, out_length)
  if count < 0 then over_budget("replace") end
  if count == 0 then return text, 0 end
  return ffi.string(out[0], out_length[0]), count
end


ffi.metatype("struct mg_regex", { __index = methods, __metatable = false })

return regex
