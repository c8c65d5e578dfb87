--- predicates.lua - the conditions of a route: what they are called, what they take, what tree they become.
--
-- Owns: the list of predicates and the tree of a match (its form is described in conf.lua).
-- Pure. Literal predicates end up in the table that C walks. The others are opaque to it: regular expressions,
-- parameters, cookies and networks are tested in C too, one by one; functions of a Lua file in Lua.

local network = require "moongate.network"
local schema = require "moongate.schema"
local suggest = require "moongate.suggest"
local tree = require "moongate.tree"

local predicates = {}

local PATH = { type = "string", required = true, pattern = "^/", accepted = "a path that begins with /" }
local NAME = {
  type = "string", required = true, pattern = "^[%w!#$%%&'*+%-.^_`|~]+$", accepted = "a name of letters, digits and -",
}
local VALUE = { type = "string", required = true, secret = true }
local REGEXP = { type = "regexp", required = true }
local SECRET_REGEXP = { type = "regexp", required = true, secret = true }
local PARAMETER = { type = "string", required = true, min = 1 }
local STANDARD_METHODS = { GET = true, HEAD = true, POST = true, PUT = true, DELETE = true, CONNECT = true,
  OPTIONS = true, TRACE = true, PATCH = true }
local METHOD = {
  type = "string", pattern = NAME.pattern, max = 32, accepted = "a method such as GET",
  check = function(value) -- RFC 9110, 9.1: the name of a method is case-sensitive
    if STANDARD_METHODS[value] or not STANDARD_METHODS[value:upper()] then return value end
    return nil, ("found %q, which no client sends (did you mean %s?)"):format(value, value:upper())
  end,
}
local HOST = {
  type = "string", min = 1, max = 255, accepted = "a host name without port, such as example.com or *.example.com",
  check = function(value)
    if value:find("^%[[%x:%.]+%]$") or value:find("^[%w%-_%.]+$") or value:find("^%*%.[%w%-_%.]+$") then
      return value:lower()
    end
    return nil, ('found "%s", accepted: a host name without port, such as example.com or *.example.com'):format(value)
  end,
}


--- One leaf per value, as an "or" where there are several.
local function any_of(predicate, kind, values)
  local leaves = {}
  for i, value in ipairs(values) do leaves[i] = { predicate = predicate, kind = kind, value = value } end
  if #leaves == 1 then return leaves[1] end
  leaves.op = "or"
  return leaves
end


--- A predicate that is tested in C one by one. words: for the route table, with the name and the value in its places.
local function tested(test, keys, words, value_key)
  return {
    keys = keys, test = test, words = words,
    literal = keys.value and { value = "value" } or nil,
    tree = function(conf)
      local name = conf.name
      if test == "header_matches" then name = name:lower() end
      return { kind = "opaque", test = test, name = name, value = conf[value_key or "value"] }
    end,
  }
end


--- keys: what the predicate takes. tree(conf): what it becomes. literal: for look-alike warnings, "path", "host" or
-- "value" by key.
local PREDICATES = {
  Path = {
    keys = { path = PATH },
    literal = { path = "path" },
    tree = function(conf) return { predicate = "Path", kind = "path", value = conf.path } end,
  },
  PathPrefix = {
    keys = { prefix = PATH, segments = { type = "boolean", default = false } },
    literal = { prefix = "path" },
    tree = function(conf)
      return { predicate = "PathPrefix", kind = conf.segments and "segments" or "prefix", value = conf.prefix }
    end,
  },
  Host = {
    keys = { hosts = { type = "array", items = HOST, min = 1, required = true } },
    literal = { hosts = "host" },
    tree = function(conf) return any_of("Host", "host", conf.hosts) end,
  },
  Method = {
    keys = { include = { type = "array", items = METHOD, min = 1, required = true } },
    tree = function(conf) return any_of("Method", "method", conf.include) end,
  },
  RequestHeader = {
    keys = { name = NAME, value = VALUE },
    literal = { value = "value" },
    tree = function(conf)
      return { predicate = "RequestHeader", kind = "header", name = conf.name:lower(), value = conf.value }
    end,
  },
  HasRequestHeader = {
    keys = { name = NAME },
    tree = function(conf) return { predicate = "HasRequestHeader", kind = "has_header", name = conf.name:lower() } end,
  },
  MatchPath = tested("path_matches", { regexp = REGEXP }, "path matches %s", "regexp"),
  MatchRequestHeader = tested("header_matches", { name = NAME, regexp = SECRET_REGEXP }, "header %s matches ******",
    "regexp"),
  QueryParameter = tested("query", { name = PARAMETER, value = VALUE }, "parameter %s is ******"),
  HasQueryParameter = tested("has_query", { name = PARAMETER }, "parameter %s is there"),
  MatchQueryParameter = tested("query_matches", { name = PARAMETER, regexp = SECRET_REGEXP },
    "parameter %s matches ******", "regexp"),
  Cookie = tested("cookie", { name = NAME, value = VALUE }, "cookie %s is ******"),
  HasCookie = tested("has_cookie", { name = NAME }, "cookie %s is there"),
  MatchCookie = tested("cookie_matches", { name = NAME, regexp = SECRET_REGEXP }, "cookie %s matches ******", "regexp"),
  RemoteAddr = tested("client_in", { source = { type = "string", required = true, check = network.check } },
    "client is in %s", "source"),
}

--- name → what the predicate takes, as a schema's keys.
predicates.KEYS = {}
for name, predicate in pairs(PREDICATES) do predicates.KEYS[name] = predicate.keys end


local OPERATORS = { "and", "not", "or" }


local REGULAR = { "^%^", "%$$", "%.%*", "%.%+", "%[[^%]]+%]", "\\[dwsDWSb]", "%([^)]*|[^)]*%)", "{%d+,?%d*}" }
local TEMPLATES = { "%*", "{[%a_][%w_]*}" }


--- The part of a literal that looks as if a pattern was meant, or nil.
local function look_alike(text, sort)
  if sort == "host" and text:find("^%[[%x:.]+%]$") then return nil end -- an IPv6 address
  for _, pattern in ipairs(REGULAR) do
    local found = text:match(pattern)
    if found then return found end
  end
  if sort == "value" then return nil end
  if sort == "host" then text = text:gsub("^%*%.", "") end
  for _, pattern in ipairs(TEMPLATES) do
    local found = text:match(pattern)
    if found then return found end
  end
end


local function warn_look_alikes(context, predicate, name, node, path)
  for key, sort in pairs(predicate.literal or {}) do
    local entry = tree.entry(node, key)
    for _, item in ipairs(entry and tree.items(entry.node) or {}) do
      local found = item.kind == "scalar" and look_alike(item.text, sort)
      if found then
        context.faults:warn(item, tree.join(path, key),
          ('%s compares literally, but "%s" looks like a pattern'):format(name, found))
      end
    end
  end
end


local function refuse_unknown(context, node, path, name)
  local known = suggest.names(PREDICATES)
  for _, operator in ipairs(OPERATORS) do known[#known + 1] = operator end
  context.faults:add(node, path,
    ("unknown predicate %s%s; available: %s"):format(name, suggest.hint(name, known), table.concat(known, ", ")))
end


--- Gives a leaf that the literal table cannot hold its number in the configuration's list of them.
local function numbered(context, name, leaf)
  local opaques = context.opaques
  leaf.predicate, leaf.index = name, #opaques
  opaques[#opaques + 1] = leaf
  return leaf
end


local function check_predicate(context, name, node, path, place)
  local predicate = PREDICATES[name]
  if not predicate then return refuse_unknown(context, place, path, name) end
  local before = #context.faults.list
  local outer = context.place
  context.place = place
  local conf = schema.check(context, node, { type = "object", keys = predicate.keys, required = true }, path)
  context.place = outer
  if not conf or #context.faults.list > before then return nil end
  warn_look_alikes(context, predicate, name, node, path)
  local leaf = predicate.tree(conf)
  return predicate.test and numbered(context, name, leaf) or leaf
end


--- Joins children under an operator; a single one needs none.
local function combined(op, children)
  if #children == 1 and op ~= "not" then return children[1] end
  children.op = op
  return children
end


local check_condition


local function check_children(context, op, node, path)
  local children = {}
  for i, item in ipairs(tree.items(node)) do
    local at = node.kind == "array" and ("%s[%d]"):format(path, i - 1) or path
    children[#children + 1] = check_condition(context, item, at)
  end
  if node.kind == "array" and #node.items == 0 then
    context.faults:add(node, path, op .. " needs at least one condition")
  end
  return children
end


local function check_operator(context, op, node, path, place)
  if tree.is_null(node) then
    context.faults:add(place, path, op .. " needs at least one condition, found null (an empty value)")
    return nil
  end
  local children = check_children(context, op, node, path)
  if op == "not" and node.kind == "array" and #node.items > 1 then
    context.faults:add(node, path, ("not takes one condition, found %d"):format(#node.items))
    return nil
  end
  return #children > 0 and combined(op, children) or nil
end


local function is_operator(key)
  return key == "and" or key == "or" or key == "not"
end


local function check_map(context, node, path)
  local children = {}
  for _, entry in ipairs(node.entries) do
    local at = tree.join(path, entry.key)
    local check = is_operator(entry.key) and check_operator or check_predicate
    children[#children + 1] = check(context, entry.key, entry.node, at, entry)
  end
  if #node.entries == 0 then context.faults:add(node, path, "found an empty map, accepted: a condition") end
  return #children > 0 and combined("and", children) or nil
end


--- A function of a Lua file is a predicate that C cannot see through.
local function function_leaf(context, node)
  local leaf = numbered(context, "<function>", { kind = "opaque" })
  leaf["function"] = context.add_function(node)
  return leaf
end


function check_condition(context, node, path)
  if node.kind == "map" then return check_map(context, node, path) end
  if node.kind == "function" then return function_leaf(context, node) end
  if node.kind == "array" then return combined("and", check_children(context, "and", node, path)) end
  local name = node.kind == "scalar" and PREDICATES[node.text] and node.text
  local hint = name and (" (%s takes options: write %s: { ... })"):format(name, name) or ""
  context.faults:add(node, path,
    ("found %s, accepted: a condition such as PathPrefix: { prefix: /api }%s"):format(tree.describe(node), hint))
  return nil
end


--- The tree of a route's match, or nil for one that never matches (an empty list or map) or is refused.
-- @param context of schema.check, with opaques (a list to append to) and add_function(node) → index
function predicates.check(context, node, path)
  local empty = (node.kind == "array" and #node.items == 0) or (node.kind == "map" and #node.entries == 0)
  if empty then return nil end
  if node.kind == "array" then
    local children = check_children(context, "match", node, path)
    return #children > 0 and combined("and", children) or nil
  end
  return check_condition(context, node, path)
end


--- The names of all predicates, sorted.
function predicates.names()
  return suggest.names(PREDICATES)
end


local WORDS = {
  path = function(leaf) return "path is " .. leaf.value end,
  prefix = function(leaf) return "path begins with " .. leaf.value end,
  segments = function(leaf) return "path is under " .. leaf.value end,
  host = function(leaf) return "host is " .. leaf.value end,
  method = function(leaf) return "method is " .. leaf.value end,
  header = function(leaf) return ("header %s is ******"):format(leaf.name) end,
  has_header = function(leaf) return "header " .. leaf.name .. " is there" end,
  opaque = function(leaf)
    local predicate = PREDICATES[leaf.predicate]
    return predicate and predicate.words:format(leaf.name or leaf.value) or "a function says so"
  end,
}


--- A match in words, for the route table. Values that predicates compare headers with are not shown.
function predicates.words(match)
  if not match then return "never" end
  if match.kind then return WORDS[match.kind](match) end
  local parts = {}
  for i, child in ipairs(match) do
    local text = predicates.words(child)
    parts[i] = child.op and child.op ~= "not" and #match > 1 and "(" .. text .. ")" or text
  end
  if match.op == "not" then return "not (" .. parts[1] .. ")" end
  return table.concat(parts, " " .. match.op .. " ")
end


local function begins(text, prefix) return text:sub(1, #prefix) == prefix end


local PATHS = { path = true, prefix = true, segments = true }


--- Whether one leaf holds wherever another does. What a function decides is never known.
local function leaf_covers(wide, narrow)
  if wide.kind == "prefix" then return PATHS[narrow.kind] and begins(narrow.value, wide.value) end
  if wide.kind == "segments" then
    local base = wide.value:gsub("/$", "")
    if narrow.kind ~= "prefix" and PATHS[narrow.kind] and narrow.value == base then return true end
    return PATHS[narrow.kind] and begins(narrow.value, base .. "/")
  end
  if wide.kind == "has_header" and narrow.kind == "header" then return wide.name == narrow.name end
  return wide.kind ~= "opaque" and wide.kind == narrow.kind and wide.name == narrow.name and wide.value == narrow.value
end


local function any(list, test)
  for _, child in ipairs(list) do
    if test(child) then return true end
  end
  return false
end


--- True where it is plain that wide holds wherever narrow does. False says nothing.
-- @param wide, narrow match trees, or nil for one that never holds
function predicates.covers(wide, narrow)
  if not wide or not narrow then return false end
  local function covered(child) return predicates.covers(wide, child) end
  local function covering(child) return predicates.covers(child, narrow) end
  if narrow.op == "or" then return not any(narrow, function(child) return not covered(child) end) end
  if narrow.op == "and" and any(narrow, covered) then return true end
  if wide.op == "or" then return any(wide, covering) end
  if wide.op == "and" then return not any(wide, function(child) return not covering(child) end) end
  return wide.kind ~= nil and narrow.kind ~= nil and leaf_covers(wide, narrow) == true
end


return predicates
