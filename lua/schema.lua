--- schema.lua - checks a tree (tree.lua) against a schema that is plain data, and gives the value that it means.
--
-- Owns: the schema words and their meaning. The same words describe routes.yaml, server.yaml and a filter's options.
-- Pure. Every fault is added to a list, so that one run names them all.
--
--   type         string integer number boolean duration size enum header_name header_value regexp array map object any
--   required     true: must be there       default   the value when it is not (written as in YAML: "30s")
--   items        array: schema of an item; map: schema of a value           keys   object: name → schema
--   enum         list of the accepted values
--   min, max     bounds of a number, duration or size; of the length of a string or list
--   pattern      string: a Lua pattern that must be found; map: one that every key must match
--   edits        header_name: "set", it is to be set: not one that the gateway alone sets; "lines": nor Host, of
--                which a request has one
--   secret       true: never shown in a message                             description   one sentence for documents
-- A schema may be the type's name alone. Durations become milliseconds, sizes bytes.
--
-- The gateway's own schemas may also use: check = function(value, context, node, path) → value or nil, message;
-- read = function(context, node, path) → value (in place of a type); accepted = text in place of the standard sentence;
-- none = true (the word none means 0); like = a schema, or a name in json_schema.lua, for what read takes.

local regex_syntax = require "moongate.regex_syntax"
local suggest = require "moongate.suggest"
local tree = require "moongate.tree"
local units = require "moongate.units"

local schema = {}

local NUMBER_MAX = 1e14

local ACCEPTED = {
  string = "text",
  integer = "a whole number",
  number = "a number",
  boolean = "true or false",
  duration = units.DURATION,
  size = units.SIZE,
  enum = "one word of a list",
  array = "a list",
  map = "a map",
  object = "a map",
  any = "any value",
  header_name = "a header name (letters, digits and !#$%&'*+-.^_`|~)",
  header_value = "text without control characters, in ISO-8859-1",
  regexp = "a regular expression (PCRE2)",
}

local WORDS = {
  type = true, required = true, default = true, items = true, keys = true, enum = true, min = true, max = true,
  pattern = true, secret = true, description = true, edits = true,
}

--- What frames a message or is said from hop to hop: the same that set_header and its like refuse (core/api.c).
local FRAMING = {
  connection = true, ["keep-alive"] = true, ["proxy-connection"] = true, upgrade = true, te = true, trailer = true,
  ["transfer-encoding"] = true, ["content-length"] = true, expect = true,
}

local YES = { yes = "true", on = "true", y = "true", no = "false", off = "false", n = "false" }


local SHORTHANDS = {}
for name in pairs(ACCEPTED) do SHORTHANDS[name] = { type = name } end


--- A schema in full form: the shorthand is the name of a type.
local function full(spec)
  return type(spec) == "string" and (SHORTHANDS[spec] or { type = spec }) or spec
end


--- What is accepted, in one phrase, with the bounds that the schema sets.
local function accepted(spec)
  if spec.accepted then return spec.accepted end
  if spec.enum then return table.concat(spec.enum, ", ") end
  if spec.keys then return "a map with " .. table.concat(suggest.names(spec.keys), ", ") end
  local text = ACCEPTED[spec.type]
  if spec.none then text = text .. ", or none" end
  local unit = (spec.type == "string" and " bytes") or (spec.type == "array" and " items") or ""
  local of = (spec.type == "duration" or spec.type == "size") and "," or " of" -- behind what says "such as"
  if spec.min and spec.max then return ("%s from %s to %s%s"):format(text, spec.min, spec.max, unit) end
  if spec.min then return ("%s%s at least %s%s"):format(text, of, spec.min, unit) end
  if spec.max then return ("%s%s at most %s%s"):format(text, of, spec.max, unit) end
  if spec.pattern and spec.type == "string" then
    text = ("%s that matches the Lua pattern %s"):format(text, spec.pattern)
  end
  return text
end


schema.full, schema.accepted = full, accepted


--- Adds "found X, accepted: Y" for a node.
function schema.refuse(context, node, spec, path, hint)
  local found = tree.describe(node, spec.secret)
  context.faults:add(node, path, ("found %s, accepted: %s%s"):format(found, accepted(spec), hint or ""))
end


local function bound(spec, value)
  if type(value) ~= "string" then return value end
  local convert = spec.type == "size" and units.size or units.duration
  return convert(value)
end


local function within(spec, measure)
  return not (spec.min and measure < bound(spec, spec.min)) and not (spec.max and measure > bound(spec, spec.max))
end


local scalars = {}


function scalars.string(node, spec)
  if not within(spec, #node.text) then return nil end
  if spec.pattern and not node.text:find(spec.pattern) then return nil end
  return node.text
end


function scalars.header_name(node, spec)
  if not node.text:find("^[%w!#$%%&'*+%-.^_`|~]+$") or #node.text > 256 then return nil end
  local name = node.text:lower()
  if spec.edits and (FRAMING[name] or name == "host" and spec.edits == "lines") then
    return nil, ", but not one that the gateway alone sets"
  end
  return node.text
end


--- RFC 9110, 5.5: no control character but TAB, no DEL. Of what UTF-8 can hold, what ISO-8859-1 has.
function scalars.header_value(node)
  if node.text:find("[%z\1-\8\10-\31\127]") or node.text:find("[\196-\255]") then return nil end
  return node.text
end


--- Whether it compiles is asked where there is something to compile it with: context.check_regex(pattern) → why not.
function scalars.regexp(node, _, context)
  local why = regex_syntax.foreign(node.text) or context.check_regex and context.check_regex(node.text)
  if why then return nil, (" (%s)"):format(why) end
  return node.text
end


function scalars.integer(node, spec)
  local digits = node.text:match("^[-+]?(%d+)$")
  if not digits or (#digits > 1 and digits:byte() == 48) then return nil end
  local value = tonumber(node.text, 10) or tonumber(node.text)
  return math.abs(value) <= NUMBER_MAX and within(spec, value) and value or nil
end


function scalars.number(node, spec)
  local value = tree.number(node)
  return value and math.abs(value) <= NUMBER_MAX and within(spec, value) and value or nil
end


function scalars.boolean(node)
  local value = tree.boolean(node)
  if value == nil then
    local meant = YES[node.text:lower()]
    return nil, meant and (" (did you mean %s?)"):format(meant)
  end
  return value
end


function scalars.duration(node, spec)
  local value = units.duration(node.text)
  if not value then return nil, node.text:find("^%d+$") and " (the unit is missing)" end
  return within(spec, value) and value or nil
end


function scalars.size(node, spec)
  local value = units.size(node.text)
  return value and within(spec, value) and value or nil
end


function scalars.enum(node)
  return node.text
end


--- A value of the schema's enum, or nil and a hint.
local function enumerated(spec, value)
  local words = {}
  for i, candidate in ipairs(spec.enum) do
    if candidate == value then return value end
    words[i] = tostring(candidate)
  end
  return nil, not spec.secret and suggest.hint(tostring(value), words)
end


local function check_scalar(context, node, spec, path)
  if node.kind ~= "scalar" then return schema.refuse(context, node, spec, path) end
  local value, hint
  if spec.none and node.text == "none" then
    value = 0
  else
    value, hint = scalars[spec.type](node, spec, context)
  end
  if value ~= nil and spec.enum then value, hint = enumerated(spec, value) end
  if value == nil then schema.refuse(context, node, spec, path, hint) end
  return value
end


--- The schema of what a list or map holds; what is inside a secret is secret.
local function inner(spec)
  local items = full(spec.items or "any")
  if not spec.secret or items.secret then return items end
  local hidden = { secret = true }
  for word, value in pairs(items) do hidden[word] = value end
  return hidden
end


local function check_array(context, node, spec, path)
  local items, item_spec = tree.items(node), inner(spec)
  local takes_map = item_spec.keys or item_spec.read or item_spec.type == "map" or item_spec.type == "object"
    or item_spec.type == "any"
  local no_list = node.kind == "scalar" and item_spec.keys or node.kind == "map" and not takes_map
  if no_list or not within(spec, #items) then return schema.refuse(context, node, spec, path) end
  local values = {}
  for i, item in ipairs(items) do
    local at = node.kind == "array" and ("%s[%d]"):format(path, i - 1) or path
    local value = schema.check(context, item, item_spec, at)
    if value == nil and tree.is_null(item) then
      context.faults:add(item, at, "found null (an empty value) as an item of a list")
    end
    values[#values + 1] = value
  end
  return values
end


local function check_map(context, node, spec, path)
  if node.kind ~= "map" and not node.empty then return schema.refuse(context, node, spec, path) end
  local values = {}
  for _, entry in ipairs(node.entries or {}) do
    local at = tree.join(path, entry.key)
    if spec.pattern and not entry.key:find(spec.pattern) then
      context.faults:add(entry, at, ("found the key %s, accepted: keys that match the Lua pattern %s"):format(entry.key,
        spec.pattern))
    end
    values[entry.key] = schema.check(context, entry.node, inner(spec), at)
  end
  return values
end


--- What was found out once in a load: context.kept[kind][key].
local function kept(context, kind)
  context.kept = context.kept or {}
  context.kept[kind] = context.kept[kind] or {}
  return context.kept[kind]
end


--- A value with tables of its own.
function schema.copy(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do copy[key] = schema.copy(item) end
  return copy
end


--- The default of a schema, read by the same rules as what stands in the file.
local function default_of(context, spec, path)
  local defaults = kept(context, "defaults")
  if defaults[spec] ~= nil then return schema.copy(defaults[spec]) end
  local before = #context.faults.list
  local value = schema.check(context, assert(tree.from_lua(spec.default)), spec, path)
  if #context.faults.list == before then defaults[spec] = schema.copy(value) end
  return value
end


--- The value of a key that is not there: its default, or a fault where it is required.
local function absent(context, node, spec, path)
  if spec.default ~= nil then return default_of(context, spec, path) end
  if spec.required then
    local found = node and tree.is_null(node) and ", found null (an empty value)" or ""
    context.faults:add(node or context.place, path, ("is required%s; accepted: %s"):format(found, accepted(spec)))
  end
  return nil
end


local function refuse_key(context, entry, keys, path)
  local names = suggest.names(keys)
  local known = #names == 0 and "none: it takes no options" or table.concat(names, ", ")
  context.faults:add(entry, path,
    ("unknown option %s%s; known options: %s"):format(entry.key, suggest.hint(entry.key, names), known))
end


--- The names of an object's keys, sorted.
local function names_of(context, keys)
  local names = kept(context, "names")
  names[keys] = names[keys] or suggest.names(keys)
  return names[keys]
end


local function check_object(context, node, spec, path)
  if node.kind ~= "map" and not node.empty then return schema.refuse(context, node, spec, path) end
  local values, seen = {}, {}
  for _, entry in ipairs(node.entries or {}) do
    local key_spec = spec.keys[entry.key]
    if key_spec then
      seen[entry.key] = true
      values[entry.key] = schema.check(context, entry.node, key_spec, tree.join(path, entry.key))
    else
      refuse_key(context, entry, spec.keys, path)
    end
  end
  local outer = context.place
  context.place = node.line and node or outer
  for _, name in ipairs(names_of(context, spec.keys)) do
    if not seen[name] then values[name] = absent(context, nil, full(spec.keys[name]), tree.join(path, name)) end
  end
  context.place = outer
  return values
end


local containers = {
  array = check_array,
  map = function(context, node, spec, path)
    return (spec.keys and check_object or check_map)(context, node, spec, path)
  end,
  object = function(context, node, spec, path)
    return (spec.keys and check_object or check_map)(context, node, spec, path)
  end,
  any = function(_, node)
    return tree.to_lua(node)
  end,
}


--- Checks one node.
-- @param context { faults = faults list, place = node that stands for what is missing, or nil }; the gateway's own
--   read and check functions find what they need in it too
-- @return the value; nil when it is absent or refused (then a fault was added)
function schema.check(context, node, spec, path)
  spec = full(spec)
  if tree.is_null(node) then return absent(context, node, spec, path) end
  if spec.read then return spec.read(context, node, path) end
  local value = (containers[spec.type] or check_scalar)(context, node, spec, path)
  if value ~= nil and spec.check then
    local why
    value, why = spec.check(value, context, node, path)
    if why then context.faults:add(node, path, why) end
  end
  return value
end


--- Faults of one schema's own words, without what lies below it.
local function word_faults(spec, path, add)
  for _, word in ipairs(suggest.names(spec)) do
    if not WORDS[word] then
      add(path, ("unknown schema word %s%s"):format(word, suggest.hint(word, suggest.names(WORDS))))
    end
  end
  if spec.enum ~= nil and (type(spec.enum) ~= "table" or #spec.enum == 0) then
    add(path, "enum must be a list of the accepted values")
  elseif spec.type == "enum" and not spec.enum then
    add(path, "type enum needs enum = { ... }")
  end
  if spec.pattern ~= nil and not pcall(string.find, "", spec.pattern) then add(path, "pattern is not a Lua pattern") end
  for _, word in ipairs { "min", "max" } do
    if spec[word] ~= nil and type(bound(spec, spec[word])) ~= "number" then
      add(path, word .. " must be a number or, for durations and sizes, text with a unit")
    end
  end
end


local function author_faults(spec, path, add)
  if type(spec) ~= "table" and type(spec) ~= "string" then
    return add(path, ("is a %s; a schema is a table or the name of a type"):format(type(spec)))
  end
  spec = full(spec)
  if not ACCEPTED[spec.type] then
    local found, types = tostring(spec.type), suggest.names(ACCEPTED)
    local hint = suggest.hint(found, types)
    return add(path, ("unknown type %s%s; types: %s"):format(found, hint, table.concat(types, ", ")))
  end
  word_faults(spec, path, add)
  if spec.items ~= nil then author_faults(spec.items, path .. ".items", add) end
  if spec.keys ~= nil and type(spec.keys) ~= "table" then return add(path, "keys must be a table of schemas") end
  for _, name in ipairs(suggest.names(spec.keys or {})) do author_faults(spec.keys[name], path .. "." .. name, add) end
end


local function default_faults(spec, path, add)
  local node, why = tree.from_lua(spec.default)
  if not node then return add(path, "default holds " .. why) end
  local collector = { list = {} }
  function collector.add(self, _, at, message)
    self.list[#self.list + 1] = message
    add(at, "default: " .. message)
  end
  schema.check({ faults = collector }, node, spec, path)
end


--- Checks what the author of a filter wrote as its schema, defaults included.
-- @param keys name → schema; @param add function(path, message), called for every fault
function schema.check_author(keys, add)
  local count = 0
  local function counted(path, message)
    count = count + 1
    add(path, message)
  end
  for _, name in ipairs(suggest.names(keys)) do author_faults(keys[name], "schema." .. name, counted) end
  if count > 0 then return end
  for _, name in ipairs(suggest.names(keys)) do
    local spec = full(keys[name])
    if spec.default ~= nil then default_faults(spec, "schema." .. name, add) end
  end
end


return schema
