--- faults.lua - everything that is wrong with one file, collected so that it can be said in one go.
--
-- Pure. A fault stands at a file, a line and a column (from a node, nil for a Lua table) and a path such as
-- routes[0].upstream.targets[0].url. Warnings are kept beside the faults and refuse nothing.

local faults = {}
local Faults = {}
Faults.__index = Faults

local SHOWN_MAX = 50


--- @param file the name that messages begin with
function faults.new(file)
  return setmetatable({ file = file, list = {}, warnings = {} }, Faults)
end


local function entry(self, list, node, path, message)
  list[#list + 1] = {
    file = self.file,
    line = node and node.line,
    column = node and node.column,
    path = path ~= "" and path or nil,
    message = message,
    order = #list + 1,
  }
end


--- @param node where (anything with line and column), or nil; @param path configuration path, "" for the whole file
function Faults:add(node, path, message)
  if node and node.failed then return end -- its fault has been told
  entry(self, self.list, node, path, message)
end


function Faults:warn(node, path, message)
  entry(self, self.warnings, node, path, message)
end


function Faults:any()
  return #self.list > 0
end


local function text_of(fault)
  local place = fault.file
  if fault.line then place = ("%s:%d"):format(place, fault.line) end
  if fault.column then place = ("%s:%d"):format(place, fault.column) end
  local path = fault.path and fault.path .. ": " or ""
  return place .. ": " .. path .. fault.message
end


local function by_place(a, b)
  local line_a, line_b = a.line or 0, b.line or 0
  if line_a ~= line_b then return line_a < line_b end
  local column_a, column_b = a.column or 0, b.column or 0
  if column_a ~= column_b then return column_a < column_b end
  return a.order < b.order
end


local function texts(list)
  local sorted = {}
  for i, fault in ipairs(list) do sorted[i] = fault end
  table.sort(sorted, by_place)
  local lines = {}
  for i, fault in ipairs(sorted) do
    if i > SHOWN_MAX then
      lines[i] = ("%s: and %d more"):format(fault.file, #sorted - SHOWN_MAX)
      break
    end
    lines[i] = text_of(fault)
  end
  return lines
end


--- One line per fault, in the order of the file: "file:line:column: path: what".
function Faults:lines()
  return texts(self.list)
end


function Faults:warning_lines()
  return texts(self.warnings)
end


return faults
