-- plot.lua - the report's pictures as SVG: bars with their spread, a stacked bar per proxy, percentiles against load.
local plot = {}

local WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 860, 270, 110, 18, 8, 48
local COLOURS = { user = "#2b6cb0", kernel = "#a0aec0", rate = "#2f855a", line = { "#2b6cb0", "#c05621", "#2f855a",
  "#6b46c1" } }


local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }


local function escape(words) return (words:gsub('[&<>"]', ENTITIES)) end


local function document(height, title, parts)
  return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
    .. 'font-family="sans-serif" font-size="12">\n<rect width="100%%" height="100%%" fill="white"/>\n'
    .. '<text x="12" y="24" font-size="15" font-weight="bold">%s</text>\n%s\n</svg>\n')
    :format(WIDTH, height, WIDTH, height, escape(title), table.concat(parts, "\n"))
end


local function text(x, y, words, anchor)
  return ('<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>'):format(x, y, anchor or "start", escape(words))
end


local function rectangle(x, y, width, colour)
  return ('<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>'):format(x, y, math.max(0, width), BAR, colour)
end


-- One horizontal bar per item: { label, parts = { { value, colour } … }, low, high (whiskers, may be nil), says }.
local function bars(title, items)
  local most, parts = 0, {}
  for _, item in ipairs(items) do
    local sum = 0
    for _, part in ipairs(item.parts) do sum = sum + part[1] end
    most = math.max(most, sum, item.high or 0)
  end
  local scale = (WIDTH - LEFT - RIGHT) / math.max(most, 1e-9)
  for i, item in ipairs(items) do
    local y, x = TOP + (i - 1) * (BAR + GAP), LEFT
    parts[#parts + 1] = text(LEFT - 8, y + 13, item.label, "end")
    for _, part in ipairs(item.parts) do
      parts[#parts + 1] = rectangle(x, y, part[1] * scale, part[2])
      x = x + part[1] * scale
    end
    if item.low then
      parts[#parts + 1] = ('<path d="M%.1f %.1f H%.1f M%.1f %.1f v8 M%.1f %.1f v8" stroke="black" fill="none"/>')
        :format(LEFT + item.low * scale, y + 9, LEFT + item.high * scale, LEFT + item.low * scale, y + 5,
          LEFT + item.high * scale, y + 5)
    end
    parts[#parts + 1] = text(math.max(x, LEFT + (item.high or 0) * scale) + 6, y + 13, item.says)
  end
  return document(TOP + #items * (BAR + GAP) + 20, title, parts)
end


-- Saturation rows of one workload.
function plot.throughput(title, rows)
  local items = {}
  for _, row in ipairs(rows) do
    local low, high = math.huge, 0
    for _, run in ipairs(row.runs) do low, high = math.min(low, run.rps), math.max(high, run.rps) end
    items[#items + 1] = { label = row.target, parts = { { row.rps, COLOURS.rate } }, low = low, high = high,
      says = ("%.0f req/s"):format(row.rps) }
  end
  return bars(title, items)
end


function plot.cost(title, rows)
  local items = {}
  for _, row in ipairs(rows) do
    items[#items + 1] = { label = row.target, says = ("%.1f us"):format(row.cpu_us),
      parts = { { row.user_us, COLOURS.user }, { row.kernel_us, COLOURS.kernel } } }
  end
  return bars(title .. " (blue: user, grey: kernel)", items)
end


local function grid(height, lowest, decades, to_y)
  local parts = {}
  for i = 0, decades do
    local value = lowest * 10 ^ i
    parts[#parts + 1] = ('<path d="M%d %.1f H%d" stroke="#e2e8f0"/>'):format(80, to_y(value), WIDTH - 40)
    parts[#parts + 1] = text(72, to_y(value) + 4, value >= 1000 and ("%g ms"):format(value / 1000)
      or ("%g us"):format(value), "end")
  end
  parts[#parts + 1] = text(WIDTH / 2, height - 8, "requests per second that were asked for", "middle")
  return parts
end


-- p50 and p99 of rows against the rate that was asked for, latency on a logarithmic axis.
function plot.latency(title, rows)
  local height, top, bottom = 360, 50, 40
  local most_rate, lowest, highest = 0, math.huge, 0
  for _, row in ipairs(rows) do
    most_rate = math.max(most_rate, row.asked)
    lowest, highest = math.min(lowest, row.p50_us), math.max(highest, row.p99_us)
  end
  lowest = 10 ^ math.floor(math.log10(math.max(lowest, 1)))
  local decades = math.max(1, math.ceil(math.log10(highest / lowest)))
  local function to_x(rate) return 80 + (WIDTH - 120) * rate / most_rate end
  local function to_y(value)
    return height - bottom - (height - top - bottom) * math.log10(math.max(value, lowest) / lowest) / decades
  end
  local parts = grid(height, lowest, decades, to_y)
  for i, field in ipairs { "p50_us", "p99_us" } do
    local points, colour = {}, COLOURS.line[i]
    for _, row in ipairs(rows) do
      local x, y = to_x(row.asked), to_y(row[field])
      points[#points + 1] = ("%.1f,%.1f"):format(x, y)
      parts[#parts + 1] = ('<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>'):format(x, y, colour)
      if field == "p99_us" then parts[#parts + 1] = text(x, y - 8, ("%.0f"):format(row.asked), "middle") end
    end
    parts[#parts + 1] = ('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>')
      :format(table.concat(points, " "), colour)
    parts[#parts + 1] = ('<text x="%d" y="%d" fill="%s">%s</text>'):format(90 + i * 50, 42, colour, field:match("%w+"))
  end
  return document(height, title, parts)
end

return plot
