--- patterns.lua - find, match, gmatch and gsub of scripts: Lua's, over a matcher that does a bounded amount of work.
--
-- The stock functions can hold a worker for seconds with a short subject, and nothing can interrupt them. These give
-- the same results, raise when a search takes too much work, and are compiled by LuaJIT, which the stock ones are not.
-- Owns: the four functions.   May call: ffi.   Never: search in Lua itself.

local ffi = require "moongate.ffi"

local C = ffi.C
local stock_find, sub, byte = string.find, string.sub, string.byte
local concat = table.concat

local patterns = {}

-- Where captures begin and end in found; what stands for the end of a "()" and of a "(" that is never closed.
local FROM, TO, POSITION, UNFINISHED = 3, 35, -1, -2
local RESULT_BYTES_MAX = 64 * 1024 * 1024 -- of gsub: it is put together in one call of C
local PLAIN_WORK_MAX = 2 ^ 32 -- comparisons that a plain search may need at worst
local CARET = 94

local found = ffi.new("int32_t[?]", C.MG_PATTERN_NUMBERS) -- start, end, count, begins of captures, ends of captures

local FAULTS = {
  [-1] = "the pattern takes too much work on this subject",
  [-2] = "pattern too complex",
  [-3] = "malformed pattern (ends with '%')",
  [-4] = "malformed pattern (missing ']')",
  [-5] = "missing '[' after '%f' in pattern",
  [-6] = "unbalanced pattern",
  [-7] = "too many captures",
  [-8] = "invalid pattern capture",
  [-9] = "invalid capture index",
}


--- The argument as a string; raises as the stock functions do.
local function text_of(value, position, name)
  if type(value) == "string" then return value end
  if type(value) == "number" then return tostring(value) end
  error(("bad argument #%d to '%s' (string expected, got %s)"):format(
    position, name, value == nil and "no value" or type(value)), 3)
end


local function search(subject, pattern, from, anchored)
  local code = C.mg_pattern_match(subject, #subject, pattern, #pattern, from, anchored, found)
  if code < 0 then error(FAULTS[code], 3) end
  return code == 1
end


local function capture(subject, index)
  local from, to = found[FROM + index], found[TO + index]
  if to == POSITION then return from + 1 end
  if to == UNFINISHED then error("unfinished capture", 3) end
  return sub(subject, from + 1, to)
end


--- Captures from index to count - 1, as results.
local function captures(subject, index, count)
  if index == count then return end
  if index == count - 1 then return capture(subject, index) end
  return capture(subject, index), captures(subject, index + 1, count)
end


--- All captures, or the whole match where there are none.
local function captures_or_whole(subject)
  local count = found[2]
  if count == 0 then return sub(subject, found[0] + 1, found[1]) end
  return captures(subject, 0, count)
end


--- Offset from 0 of a position as scripts give it.
local function offset_of(init, length)
  if init == nil then return 0 end
  init = tonumber(init) or error("bad argument #3 (number expected, got " .. type(init) .. ")", 3)
  if init < 0 then
    init = init + length
    return init < 0 and 0 or init
  end
  if init > 0 then init = init - 1 end
  return init > length and length or init
end


local function find_plain(subject, pattern, offset)
  if #pattern > 1 and #pattern * #subject > PLAIN_WORK_MAX then error(FAULTS[-1], 3) end
  return stock_find(subject, pattern, offset + 1, true)
end


function patterns.find(subject, pattern, init, plain)
  subject, pattern = text_of(subject, 1, "find"), text_of(pattern, 2, "find")
  local offset = offset_of(init, #subject)
  if plain or C.mg_pattern_plain(pattern, #pattern) ~= 0 then return find_plain(subject, pattern, offset) end
  local anchored = byte(pattern) == CARET
  if anchored then pattern = sub(pattern, 2) end
  if not search(subject, pattern, offset, anchored and 1 or 0) then return nil end
  return found[0] + 1, found[1], captures(subject, 0, found[2])
end


function patterns.match(subject, pattern, init)
  subject, pattern = text_of(subject, 1, "match"), text_of(pattern, 2, "match")
  local offset = offset_of(init, #subject)
  local anchored = byte(pattern) == CARET
  if anchored then pattern = sub(pattern, 2) end
  if not search(subject, pattern, offset, anchored and 1 or 0) then return nil end
  return captures_or_whole(subject)
end


function patterns.gmatch(subject, pattern)
  subject, pattern = text_of(subject, 1, "gmatch"), text_of(pattern, 2, "gmatch")
  local offset = 0
  return function()
    if offset > #subject or not search(subject, pattern, offset, 0) then return nil end
    offset = found[1] > found[0] and found[1] or found[1] + 1
    return captures_or_whole(subject)
  end
end


--- Capture number of a replacement's "%N"; 0 is the whole match, which 1 is too where there are none.
local function numbered(subject, number)
  if number == 0 or (number == 1 and found[2] == 0) then return sub(subject, found[0] + 1, found[1]) end
  if number > found[2] then error(FAULTS[-9], 4) end
  return capture(subject, number - 1)
end


--- A replacement text with its "%N" filled in.
local function filled(subject, replacement)
  local parts, from = {}, 1
  while true do
    local at = stock_find(replacement, "%", from, true)
    if not at then break end
    parts[#parts + 1] = sub(replacement, from, at - 1)
    local next_byte = byte(replacement, at + 1) or 0
    local digit = next_byte - 48
    parts[#parts + 1] = digit >= 0 and digit <= 9 and numbered(subject, digit) or string.char(next_byte)
    from = at + 2
  end
  parts[#parts + 1] = sub(replacement, from)
  return concat(parts)
end


--- What takes the place of the match that was just found.
local function replacement_of(subject, replacement, kind)
  local whole = sub(subject, found[0] + 1, found[1])
  if kind == "text" then return replacement end
  if kind == "filled" then return filled(subject, replacement) end
  local value
  if kind == "table" then
    value = replacement[found[2] == 0 and whole or capture(subject, 0)]
  else
    value = replacement(captures_or_whole(subject))
  end
  if not value then return whole end
  if type(value) == "string" then return value end
  if type(value) == "number" then return tostring(value) end
  error(("invalid replacement value (a %s)"):format(type(value)), 3)
end


local function replacement_kind(replacement)
  local kind = type(replacement)
  if kind == "string" then return stock_find(replacement, "%", 1, true) and "filled" or "text" end
  if kind == "number" then return "text" end
  if kind == "table" or kind == "function" then return kind end
  error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 3)
end


function patterns.gsub(subject, pattern, replacement, most)
  subject, pattern = text_of(subject, 1, "gsub"), text_of(pattern, 2, "gsub")
  local kind = replacement_kind(replacement)
  most = most == nil and math.huge or tonumber(most) or error("bad argument #4 to 'gsub' (number expected)", 2)
  if kind == "text" then replacement = tostring(replacement) end
  local anchored = byte(pattern) == CARET
  if anchored then pattern = sub(pattern, 2) end
  local parts, count, offset, size = {}, 0, 0, 0
  while count < most and search(subject, pattern, offset, anchored and 1 or 0) do
    local start, stop = found[0], found[1] -- the replacement may search, too
    count = count + 1
    parts[#parts + 1] = sub(subject, offset + 1, start)
    local part = replacement_of(subject, replacement, kind)
    size = size + #part
    if size > RESULT_BYTES_MAX then error("gsub: the result would be longer than 64 MB", 2) end
    parts[#parts + 1] = part
    offset = stop
    if stop == start then
      if stop == #subject then break end
      parts[#parts + 1] = sub(subject, stop + 1, stop + 1)
      offset = stop + 1
    end
    if anchored then break end
  end
  if count == 0 then return subject, 0 end
  parts[#parts + 1] = sub(subject, offset + 1)
  return concat(parts), count
end


return patterns
