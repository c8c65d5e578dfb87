--- stamp_words.lua - numbers of times in English. Pure.
local NAMES = { "once", "twice" }

return {
  times = function(count) return NAMES[count] or count .. " times" end,
}
