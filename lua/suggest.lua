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


--- The candidates that are near enough to word to be meant, the nearest first.
local function near(word, candidates)
  local folded = fold(word)
  local found, distances = {}, {}
  local allowed = math.max(1, math.floor(#folded / 3))
  for _, candidate in ipairs(candidates) do
    local target = fold(candidate)
    if math.abs(#target - #folded) <= allowed then
      local d = distance(folded, target)
      if d <= allowed and d <= #folded / 2 then
        found[#found + 1] = candidate
        distances[candidate] = d
      end
    end
  end
  table.sort(found, function(a, b)
    if distances[a] ~= distances[b] then return distances[a] < distances[b] end
    return a < b
  end)
  return found
end


--- The candidate nearest to word, or nil when none is near enough to be meant.
-- @param word what was found; @param candidates a list of known words (order does not matter)
function suggest.nearest(word, candidates)
  return near(word, candidates)[1]
end


--- " (did you mean X?)" or "", to be appended to a message. @param most how many may be named, 1 unless given
function suggest.hint(word, candidates, most)
  local names = near(word, candidates)
  local last = math.min(#names, most or 1)
  if last == 0 then return "" end
  local text = table.concat(names, ", ", 1, last - 1)
  return (" (did you mean %s%s?)"):format(text ~= "" and text .. " or " or "", names[last])
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
