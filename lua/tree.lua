--- tree.lua - a configuration as a tree of nodes that remember where they stand.
--
-- Pure. Nodes come from yaml.lua or from a Lua table and are read by schema.lua, which need not know which.
--   { kind = "scalar", text, plain }      plain: written without quotes, so it may be null, a number or a boolean
--   { kind = "array", items = { node, ... } }
--   { kind = "map", entries = { { key, node, line, column }, ... } }
--   { kind = "function", value, where }   only in Lua files; where is the list of keys that leads to it
-- each with line and column (1-based; nil for Lua). An empty Lua table is an array with empty = true: it may be a map.

local tree = {}

local DEPTH_MAX = 64
local NULLS = { [""] = true, ["~"] = true, null = true, Null = true, NULL = true }


--- path + key, as it is shown: routes[0].upstream, headers["x-a b"].
function tree.join(path, key)
  if not key:find("^[%w_%-]+$") then return ('%s["%s"]'):format(path, key) end
  return path == "" and key or path .. "." .. key
end


--- True for a value that was left out: "key:", "key: ~", "key: null".
function tree.is_null(node)
  return node.kind == "scalar" and node.plain == true and not node.interpolated and NULLS[node.text] == true
end


--- The entry of a map by key, or nil.
function tree.entry(node, key)
  for _, entry in ipairs(node.entries or {}) do
    if entry.key == key then return entry end
  end
end


--- The items of a list; a single value stands for a list of one.
function tree.items(node)
  return node.kind == "array" and node.items or { node }
end


local function printable(text)
  if #text > 60 then text = text:sub(1, 57) .. "..." end
  return (text:gsub("[%c\127]", function(c) return ("\\%d"):format(c:byte()) end))
end


--- What stands there, for a message: 'found ...'.
-- @param secret true when the text itself must not be shown
function tree.describe(node, secret)
  if node.kind == "array" then return node.empty and "an empty table" or "a list" end
  if node.kind == "map" then return "a map" end
  if node.kind == "function" then return "a function" end
  if tree.is_null(node) then return "null (an empty value)" end
  if secret then return "a secret value" end
  if node.interpolated then return ('"%s" (from the environment)'):format(printable(node.source)) end
  return ('"%s"'):format(printable(node.text))
end


local function copied(where, key)
  local copy = {}
  for i, part in ipairs(where) do copy[i] = part end
  copy[#copy + 1] = key
  return copy
end


--- The keys of a Lua table in a stable order: numbers first, then strings.
local function ordered_keys(value)
  local keys = {}
  for key in pairs(value) do
    if type(key) ~= "string" and type(key) ~= "number" then
      return nil, ("a %s as a key"):format(type(key))
    end
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) == "number" end
    return a < b
  end)
  return keys
end


local from_lua


local function from_table(value, where, depth)
  if depth > DEPTH_MAX then return nil, "tables nested deeper than 64, or a table that contains itself" end
  local keys, why = ordered_keys(value)
  if not keys then return nil, why end
  local node
  if #keys == #value then
    node = { kind = "array", items = {}, empty = #keys == 0 }
  else
    node = { kind = "map", entries = {} }
  end
  for i, key in ipairs(keys) do
    local child, fault = from_lua(value[key], copied(where, key), depth + 1)
    if not child then return nil, fault end
    if node.items then
      node.items[i] = child
    else
      node.entries[i] = { key = tostring(key), node = child }
    end
  end
  return node
end


function from_lua(value, where, depth)
  local kind = type(value)
  if kind == "table" then return from_table(value, where, depth) end
  if kind == "string" then return { kind = "scalar", text = value, plain = false } end
  if kind == "number" then return { kind = "scalar", text = ("%.14g"):format(value), plain = true } end
  if kind == "boolean" then return { kind = "scalar", text = tostring(value), plain = true } end
  if kind == "function" then return { kind = "function", value = value, where = where } end
  return nil, ("a %s at %s"):format(kind, table.concat(where, "."))
end


--- A Lua value as a tree without positions; nil and why when it holds something that no configuration can.
function tree.from_lua(value)
  return from_lua(value, {}, 0)
end


local function number_of(text)
  if text:find("^[-+]?%d+%.?%d*$") or text:find("^[-+]?%d+%.?%d*[eE][-+]?%d+$") then return tonumber(text) end
end


--- The number that a scalar spells in plain decimal notation, or nil.
function tree.number(node)
  return number_of(node.text)
end


--- The boolean that a scalar spells, or nil. The YAML 1.1 words yes, no, on and off are not booleans.
function tree.boolean(node)
  local lower = node.text:lower()
  if lower ~= node.text and node.text ~= "True" and node.text ~= "TRUE" and node.text ~= "False"
    and node.text ~= "FALSE" then
    return nil
  end
  if lower == "true" then return true end
  if lower == "false" then return false end
  return nil
end


--- A node as a plain Lua value, for options whose shape is free. Unquoted numbers and booleans are what they look like.
function tree.to_lua(node)
  if node.kind == "function" then return node.value end
  if node.kind == "scalar" then
    if tree.is_null(node) then return nil end
    if not node.plain then return node.text end
    local flag = tree.boolean(node)
    if flag ~= nil then return flag end
    return number_of(node.text) or node.text
  end
  local value = {}
  for i, item in ipairs(node.items or {}) do value[i] = tree.to_lua(item) end
  for _, entry in ipairs(node.entries or {}) do value[entry.key] = tree.to_lua(entry.node) end
  return value
end


--- Adds what a node says, without where it says it, to parts. False when it holds a function.
local function spell(node, parts)
  if node.kind == "function" or node.failed then return false end
  if node.kind == "scalar" then
    local form = (node.plain and "p" or "q") .. (node.interpolated and "i" or "")
    parts[#parts + 1] = form .. #node.text .. ":" .. node.text
    return true
  end
  parts[#parts + 1] = node.kind
  for _, item in ipairs(node.items or {}) do
    if not spell(item, parts) then return false end
  end
  for _, entry in ipairs(node.entries or {}) do
    parts[#parts + 1] = #entry.key .. ":" .. entry.key
    if not spell(entry.node, parts) then return false end
  end
  parts[#parts + 1] = "."
  return true
end


--- A text that equal nodes have in common, wherever they stand; nil for what holds a function or a fault.
function tree.spelled(node)
  local parts = {}
  return spell(node, parts) and table.concat(parts, " ") or nil
end


local VARIABLE = "^[%a_][%w_%.]*$"


--- Replaces ${NAME} and ${NAME:default} in text; $${ stands for a literal ${. Returns the text, or nil and why.
local function expand(text, getenv)
  local out, at = {}, 1
  while true do
    local first = text:find("${", at, true)
    if not first then break end
    if text:sub(first - 1, first - 1) == "$" and first > at then
      out[#out + 1] = text:sub(at, first - 2) .. "${"
      at = first + 2
    else
      local last = text:find("}", first, true)
      if not last then return nil, "a ${ without its }; write $${ for a literal ${" end
      local inside = text:sub(first + 2, last - 1)
      local name, default = inside:match("^([^:]*):(.*)$")
      name = name or inside
      if not name:find(VARIABLE) then
        return nil, ("${%s} names no variable; write $${ for a literal ${"):format(inside)
      end
      local value = getenv(name) or default
      if not value then return nil, ("environment variable %s is not set and has no default"):format(name) end
      out[#out + 1] = text:sub(at, first - 1) .. value
      at = last + 1
    end
  end
  out[#out + 1] = text:sub(at)
  return table.concat(out)
end


--- The path that the first so many keys and places of a list lead along.
local function path_of(trail, depth)
  local path = ""
  for i = 1, depth do
    local step = trail[i]
    path = type(step) == "number" and ("%s[%d]"):format(path, step - 1) or tree.join(path, step)
  end
  return path
end


--- @param trail keys and places of lists that lead here, the first depth of them: a path is made when it is needed
local function interpolate(node, getenv, faults, trail, depth)
  if node.kind == "scalar" then
    if node.interpolated or not node.text:find("${", 1, true) then return end
    local text, why = expand(node.text, getenv)
    if not text then faults:add(node, path_of(trail, depth), why) end
    node.source, node.text, node.interpolated, node.failed = node.text, text or node.text, true, not text
  elseif node.items then
    for i, item in ipairs(node.items) do
      trail[depth + 1] = i
      interpolate(item, getenv, faults, trail, depth + 1)
    end
  elseif node.entries then
    for _, entry in ipairs(node.entries) do
      trail[depth + 1] = entry.key
      interpolate(entry.node, getenv, faults, trail, depth + 1)
    end
  end
end


--- Interpolates every scalar value below node, in place and once: what a variable holds is never parsed as YAML.
-- A scalar that fails is marked failed, so that nothing else is said about it.
-- @param getenv name → text or nil; @param faults where a missing variable is added
function tree.interpolate(node, getenv, faults)
  interpolate(node, getenv, faults, {}, 0)
end


return tree
