--- units.lua - durations and sizes as people write them.
--
-- Pure. Durations are milliseconds, sizes are bytes once they are read.

local units = {}

local DURATIONS = { { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 } }
local SIZES = { { "gb", 2 ^ 30 }, { "mb", 2 ^ 20 }, { "kb", 2 ^ 10 }, { "b", 1 } }
local NUMBER_MAX = 1e14 -- what survives every number format on the way exactly

units.DURATION = "a whole number with ms, s, m, h or d, such as 500ms or 30s"
units.SIZE = "a whole number of bytes or with b, kb, mb or gb, such as 512 or 32kb"


local function factor_of(list, unit)
  for _, entry in ipairs(list) do
    if entry[1] == unit then return entry[2] end
  end
end


local function scaled(digits, factor)
  local value = tonumber(digits, 10) * factor
  return value <= NUMBER_MAX and value or nil
end


--- "30s" → 30000. The unit is mandatory. nil when text is not a duration.
function units.duration(text)
  local digits, unit = text:match("^(%d+)(%a+)$")
  local factor = unit and factor_of(DURATIONS, unit)
  return factor and scaled(digits, factor)
end


--- "32KB" → 32768; a bare number is bytes, case does not matter. nil when text is not a size.
function units.size(text)
  local digits, unit = text:match("^(%d+)(%a*)$")
  local factor = digits and (unit == "" and 1 or factor_of(SIZES, unit:lower()))
  return factor and scaled(digits, factor)
end


local function shortest(list, value)
  for _, entry in ipairs(list) do
    if value >= entry[2] and value % entry[2] == 0 then return ("%d%s"):format(value / entry[2], entry[1]) end
  end
  return "0" .. list[#list][1]
end


--- 30000 → "30s", for messages.
function units.duration_text(milliseconds)
  return shortest(DURATIONS, milliseconds)
end


--- 32768 → "32kb", for messages.
function units.size_text(bytes)
  return shortest(SIZES, bytes)
end


return units
