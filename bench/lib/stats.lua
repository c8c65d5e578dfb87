-- stats.lua - what is made of repeated measurements.
local stats = {}


function stats.median(values)
  if #values == 0 then return nil end
  local sorted = { unpack(values) }
  table.sort(sorted)
  local middle = math.floor(#sorted / 2)
  if #sorted % 2 == 1 then return sorted[middle + 1] end
  return (sorted[middle] + sorted[middle + 1]) / 2
end


-- Peak to peak in per cent of the median.
function stats.spread(values)
  local median = stats.median(values)
  if not median or median == 0 then return 0 end
  return (math.max(unpack(values)) - math.min(unpack(values))) / median * 100
end


-- The median of one field over a list of tables; tables without it do not count.
function stats.median_of(list, field)
  local values = {}
  for _, item in ipairs(list) do values[#values + 1] = item[field] end
  return stats.median(values)
end


function stats.spread_of(list, field)
  local values = {}
  for _, item in ipairs(list) do values[#values + 1] = item[field] end
  return stats.spread(values)
end


-- The median of a[i] / b[i]: what drifts from round to round drops out.
function stats.median_ratio(a, b)
  local ratios = {}
  for i = 1, math.min(#a, #b) do
    if b[i] ~= 0 then ratios[#ratios + 1] = a[i] / b[i] end
  end
  return stats.median(ratios)
end


function stats.median_difference(a, b)
  local differences = {}
  for i = 1, math.min(#a, #b) do differences[i] = a[i] - b[i] end
  return stats.median(differences)
end

return stats
