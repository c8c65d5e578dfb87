--- suggest.lua - the known word that somebody probably meant.
--
-- Pure. Used for every "did you mean": keys, enum values, predicates, filters, functions of a filter.

local suggest = {}


--- Edit distance where swapping two neighbours counts once (optimal string alignment).
local function distance(a, b)
  local before_last, last = nil, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local best = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        best = math.min(best, before_last[j - 2] + 1)
      end
      row[j] = best
    end
    before_last, last = last, row
  end
  return last[#b]
end


--- Case and the signs between words are what people get wrong most; they do not count as edits.
local function fold(word)
  return (word:lower():gsub("[_%-%s]", ""))
end


--- The candidate nearest to word, or nil when none is near enough to be meant.
-- @param word what was found; @param candidates a list of known words (order does not matter)
function suggest.nearest(word, candidates)
  local folded = fold(word)
  local best, best_distance
  local allowed = math.max(1, math.floor(#folded / 3))
  for _, candidate in ipairs(candidates) do
    local target = fold(candidate)
    if math.abs(#target - #folded) <= allowed then
      local d = distance(folded, target)
      local better = not best or d < best_distance or (d == best_distance and candidate < best)
      if d <= allowed and d <= #folded / 2 and better then
        best, best_distance = candidate, d
      end
    end
  end
  return best
end


--- " (did you mean X?)" or "", to be appended to a message.
function suggest.hint(word, candidates)
  local nearest = suggest.nearest(word, candidates)
  return nearest and (" (did you mean %s?)"):format(nearest) or ""
end


--- The keys of a table that are strings, sorted: the list for a message.
function suggest.names(set)
  local names = {}
  for name in pairs(set) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end


return suggest
