--- routes_conf.lua - what may stand in a routes file, and what of it goes into the canonical configuration.
--
-- Owns: the schema of routes.yaml and of the table of routes.lua. The result is described in conf.lua.
-- May call: schema, predicates, target_url, and a loader (filter_loader) for the options of filters.
-- Never: read files itself.

local predicates = require "moongate.predicates"
local schema = require "moongate.schema"
local suggest = require "moongate.suggest"
local target_url = require "moongate.target_url"
local tree = require "moongate.tree"

local routes_conf = {}

local MS_MAX = 2147483647
local UNROUTED = "<unrouted>"
local LEVELS = { "NONE", "METADATA", "HEADERS", "FULL" }


--- A refusal unless text is printable and representable in ISO-8859-1: it ends up in headers and journal lines.
local function check_latin1(value)
  if value:find("[%c\127]") then return nil, "holds control characters" end
  for lead in value:gmatch("[\194-\255]") do
    if lead ~= "\194" and lead ~= "\195" then return nil, "holds characters outside ISO-8859-1" end
  end
  return value
end


local function check_id(value)
  if value == UNROUTED then return nil, UNROUTED .. " is reserved; accepted: another id" end
  return check_latin1(value)
end


local function check_target(value, context, node, path)
  local target, why = target_url.parse(value)
  if not target then
    local text = ("found %s: %s; accepted: %s"):format(tree.describe(node), why, target_url.ACCEPTED)
    context.faults:add(node, path, text)
    return nil
  end
  target.url = value
  return target
end


--- "5xx", "429" or "401,403" as ranges of statuses; nil when it is none of these.
local function status_ranges(key)
  local class = key:match("^([1-5])[xX][xX]$")
  if class then return { { first = class * 100, last = class * 100 + 99 } } end
  local ranges = {}
  for part in (key .. ","):gmatch("%s*([^,]*),") do
    local status = part:match("^([1-5]%d%d)%s*$")
    if not status then return nil end
    ranges[#ranges + 1] = { first = tonumber(status), last = tonumber(status) }
  end
  return ranges
end


local LEVEL = { type = "enum", enum = LEVELS }


local function read_overrides(context, node, path)
  if node.kind ~= "map" and not node.empty then
    return schema.refuse(context, node, { type = "map", accepted = "a map such as { 5xx: FULL }" }, path)
  end
  local overrides = {}
  for _, entry in ipairs(node.entries or {}) do
    local at = tree.join(path, entry.key)
    local ranges = status_ranges(entry.key)
    if not ranges then
      local accepted = "a class such as 5xx, a status such as 429, or several: 401,403"
      context.faults:add(entry, at, ("found the key %s, accepted: %s"):format(entry.key, accepted))
    end
    local level = schema.check(context, entry.node, LEVEL, at)
    for _, range in ipairs(level and ranges or {}) do
      range.level = level
      overrides[#overrides + 1] = range
    end
  end
  return overrides
end


local RAISED = "an override raises this direction from %s to FULL, but bodies are gone once the status is known"
local LOWERED = "an override lowers a FULL request to %s, but its body is recorded before the status is known"


local function direction(is_request)
  local function check(value, context, node, path)
    local overrides = value.status_overrides or {}
    for _, override in ipairs(overrides) do
      local at = tree.join(path, "status_overrides")
      if override.level == "FULL" and value.level and value.level ~= "FULL" then
        context.faults:add(node, at, RAISED:format(value.level))
      elseif is_request and value.level == "FULL" and override.level ~= "FULL" then
        context.faults:add(node, at, LOWERED:format(override.level))
      end
    end
    return { level = value.level, overrides = overrides }
  end
  return {
    type = "object", default = {}, check = check,
    keys = {
      level = { type = "enum", enum = LEVELS, default = "NONE" },
      status_overrides = { read = read_overrides, like = { type = "map", items = LEVEL } },
    },
  }
end


local function journal(required)
  return {
    type = "object", default = not required and {} or nil, required = required,
    keys = { request = direction(true), response = direction(false) },
  }
end


local function refuse_full(value, context, node, path)
  for _, side in ipairs { "request", "response" } do
    if value.journal and value.journal[side].level == "FULL" then
      context.faults:add(node, path .. ".journal." .. side .. ".level",
        "found FULL, accepted: NONE, METADATA, HEADERS: what reaches no route has no body to record")
    end
  end
  return value
end


local FILTER_ITEM = "a filter's name or a map such as SetRequestHeader: { name: X-A, value: b }"
local ON_ERROR = { type = "enum", enum = { "fail", "continue" }, default = "fail" }
local SIBLINGS = { on_error = ON_ERROR, id = { type = "string", min = 1, check = check_latin1 } }


routes_conf.FILTER_SIBLINGS = SIBLINGS


--- The one key of a filter's map that is not about how it runs: its name.
local function named_entry(context, node, path)
  local found
  for _, entry in ipairs(node.entries) do
    if not SIBLINGS[entry.key] then
      if found then
        local hint = suggest.hint(entry.key, suggest.names(SIBLINGS))
        context.faults:add(entry, path, ("%s stands beside filter %s%s; accepted beside a filter's name: id, on_error; "
          .. "begin another filter with its own -"):format(entry.key, found.key, hint))
      end
      found = found or entry
    end
  end
  if not found then schema.refuse(context, node, { accepted = FILTER_ITEM }, path) end
  return found
end


local function add_module_fault(context, node, path, name, why)
  if context.reported[name] then return end -- once: the file is the same on every route
  context.reported[name] = true
  for line in (why .. "\n"):gmatch("(.-)\n") do context.faults:add(node, path, line) end
end


local NO_OPTIONS = { kind = "map", entries = {} }
local ABSENT = { kind = "scalar", text = "", plain = true }


local function read_filter_map(context, node, path)
  local entry = named_entry(context, node, path)
  if not entry then return nil end
  local filter = { name = entry.key, path = path, line = entry.line, column = entry.column }
  for key, spec in pairs(SIBLINGS) do
    local sibling = tree.entry(node, key)
    filter[key] = schema.check(context, sibling and sibling.node or ABSENT, spec, tree.join(path, key))
  end
  local options = tree.is_null(entry.node) and NO_OPTIONS or entry.node
  return filter, options, entry
end


--- Checks the options of a filter against what its module says it takes. Where many routes say the same, once: those
-- that are spelled alike get copies of what was found good.
local function check_options(context, filter, options, place, path)
  local module, why = context.loader:load(filter.name)
  if not module then
    add_module_fault(context, place, path, filter.name, why)
    return
  end
  local good = context.good_options[filter.name] or {}
  context.good_options[filter.name] = good
  local spelled = tree.spelled(options)
  filter.conf = spelled and schema.copy(good[spelled])
  if filter.conf then return end
  local outer, before = context.place, #context.faults.list
  context.place = place
  local spec = { type = "object", keys = module.schema or {} }
  filter.conf = schema.check(context, options, spec, tree.join(path, filter.name))
  context.place = outer
  if spelled and #context.faults.list == before then good[spelled] = schema.copy(filter.conf) end
end


local function read_filter(context, node, path)
  if node.kind == "function" then
    local filter = { name = "<function>", conf = {}, on_error = "fail", path = path }
    filter["function"] = context.add_function(node)
    return filter
  end
  local filter, options, place
  if node.kind == "map" then
    filter, options, place = read_filter_map(context, node, path)
  elseif node.kind == "scalar" and node.text ~= "" then
    filter = { name = node.text, on_error = "fail", path = path, line = node.line, column = node.column }
    options, place = NO_OPTIONS, node
  else
    schema.refuse(context, node, { accepted = FILTER_ITEM }, path)
  end
  if filter then check_options(context, filter, options, place, path) end
  return filter
end


local FILTERS = { type = "array", items = { read = read_filter, like = "filter" } }


local function milliseconds(default)
  return { type = "duration", min = "1ms", max = MS_MAX, default = default, accepted = "a duration from 1ms to 24d" }
end


local function check_health_path(value)
  if value:find("^/[%w%-%._~!$&'()*+,;=:@%%/?]*$") then return value end
  return nil, ('found "%s", accepted: a path that begins with /, percent-encoded where needed'):format(value)
end


local HASH_ON = {
  type = "object",
  keys = { header = "string", cookie = "string", query = "string", client_address = { type = "boolean" } },
}


local function read_hash_on(context, node, path)
  local value = schema.check(context, node, HASH_ON, path)
  if not value then return nil end
  local count = 0
  for _ in pairs(value) do count = count + 1 end
  if count ~= 1 or value.client_address == false then
    context.faults:add(node, path, "accepted: exactly one of header, cookie, query, client_address: true")
  end
  return value
end


local UPSTREAM = {
  strategy = { type = "enum", enum = { "ROUND_ROBIN", "LEAST_REQUESTS", "CONSISTENT_HASH" }, default = "ROUND_ROBIN" },
  hash_on = { read = read_hash_on, like = HASH_ON },
  host = { type = "enum", enum = { "client", "target" }, default = "client" },
  targets = {
    type = "array", required = true, min = 1, accepted = "a list of at least one target: [ { url: http://host:port } ]",
    items = {
      type = "object",
      keys = {
        url = { type = "string", required = true, check = check_target, accepted = target_url.ACCEPTED },
        weight = { type = "integer", min = 1, max = 1000, default = 1 },
      },
      check = function(value)
        if value.url then value.url.weight = value.weight end
        return value.url
      end,
    },
  },
  timeouts = {
    type = "object", default = {},
    keys = { connect = milliseconds("5s"), read = milliseconds("30s") },
  },
  retries = { type = "integer", min = 0, max = 10, default = 1 },
  max_connections = { type = "integer", min = 1 },
  max_queue_size = { type = "integer", min = 0 },
  slow_start = { type = "duration", default = "0s" },
  health_check = {
    type = "object",
    keys = {
      path = { type = "string", default = "/health", check = check_health_path },
      interval = milliseconds("10s"),
      rise = { type = "integer", min = 1, default = 2 },
      fall = { type = "integer", min = 1, default = 2 },
      override = { type = "enum", enum = { "NONE", "FORCE_UP", "FORCE_DOWN" }, default = "NONE" },
    },
  },
  passive_health = { -- defaults as without it: PASSIVE in upstreams.lua
    type = "object",
    keys = {
      failures = { type = "integer", min = 1, default = 5 },
      within = milliseconds("10s"),
      down_for = milliseconds("5s"),
    },
  },
  fallback = {
    type = "object", keys = { route_id = { type = "string", required = true } },
    check = function(value) return value.route_id end,
  },
}


local function check_upstream(value, context, node, path)
  if value.strategy == "CONSISTENT_HASH" and not value.hash_on then
    context.faults:add(node, tree.join(path, "hash_on"),
      "is required with strategy CONSISTENT_HASH; accepted: one of header, cookie, query, client_address: true")
  elseif value.hash_on and value.strategy and value.strategy ~= "CONSISTENT_HASH" then
    context.faults:add(node, tree.join(path, "hash_on"),
      ("has no effect with strategy %s; accepted: strategy: CONSISTENT_HASH"):format(value.strategy))
  end
  return value
end


local function check_route(value, context, node, path)
  value.path, value.line, value.column = path, node.line, node.column
  local name = value.id and ("route %s"):format(value.id) or "this route"
  if not tree.entry(node, "match") and not tree.entry(node, "filters") then
    context.faults:add(node, path, name .. " has neither match nor filters; accepted: at least one of them")
  end
  value.filters = value.filters or {}
  return value
end


local ROUTE = {
  id = { type = "string", required = true, min = 1, max = 255, check = check_id },
  match = { read = predicates.check, like = "match" },
  filters = FILTERS,
  upstream = { type = "object", keys = UPSTREAM, check = check_upstream },
  journal = journal(false),
}

--- The whole file.
routes_conf.SCHEMA = {
  type = "object",
  keys = {
    version = "string",
    global_filters = FILTERS,
    unrouted = { type = "object", keys = { journal = journal(true) }, check = refuse_full },
    routes = {
      type = "array", required = true, min = 1, accepted = "a list of at least one route",
      items = { type = "object", keys = ROUTE, check = check_route },
    },
  },
}


local function check_ids(config, faults)
  local by_id = {}
  for _, route in ipairs(config.routes) do
    local first = route.id and by_id[route.id]
    if first then
      local line = first.line and (", first in line %d"):format(first.line) or ", first at " .. first.path
      faults:add(route, route.path .. ".id", ("route id %s is used twice%s"):format(route.id, line))
    elseif route.id then
      by_id[route.id] = route
    end
  end
  return by_id
end


--- Follows the fallbacks of a route; the ids on the way when they come back to it. Each circle is found once, from its
-- first route in the file: the others are put into told.
local function fallback_cycle(route, by_id, told)
  if told[route.id] then return nil end
  local chain, seen, at = { route.id }, {}, route
  while at and not seen[at] do
    seen[at] = true
    local next_id = at.upstream and at.upstream.fallback
    chain[#chain + 1] = next_id
    if next_id == route.id then
      for _, id in ipairs(chain) do told[id] = true end
      return chain
    end
    at = next_id and by_id[next_id]
  end
end


local function check_fallbacks(config, by_id, faults)
  local ids, told = suggest.names(by_id), {}
  for _, route in ipairs(config.routes) do
    local fallback = route.upstream and route.upstream.fallback
    local path = route.path .. ".upstream.fallback.route_id"
    if fallback == route.id and fallback then
      faults:add(route, path, ("route %s falls back to itself"):format(route.id))
    elseif fallback and not by_id[fallback] then
      faults:add(route, path, ("no route has the id %s%s"):format(fallback, suggest.hint(fallback, ids)))
    elseif fallback and route.id then
      local cycle = fallback_cycle(route, by_id, told)
      if cycle then faults:add(route, path, "fallbacks go round in a circle: " .. table.concat(cycle, " -> ")) end
    end
  end
end


local function check_answers(config, faults)
  for _, route in ipairs(config.routes) do
    if not route.upstream and #route.filters == 0 and #config.global_filters == 0 then
      local text = "route %s has neither an upstream nor a filter that could answer"
      faults:add(route, route.path, text:format(route.id))
    end
  end
end


--- Checks a routes file.
-- @param node its tree; @param faults where everything wrong is added; @param loader for the filters it names
-- @param check_regex pattern → nil, or why it does not compile; or nil
-- @return the canonical configuration without what concerns files (conf.lua adds that); nil when there are faults
function routes_conf.check(node, faults, loader, check_regex)
  local functions = {}
  local context = { faults = faults, loader = loader, opaques = {}, reported = {}, good_options = {}, place = node,
    check_regex = check_regex }
  function context.add_function(fn)
    functions[#functions + 1] = fn.where
    return #functions
  end
  local config = schema.check(context, node, routes_conf.SCHEMA, "")
  if not config then return nil end
  config.routes, config.global_filters = config.routes or {}, config.global_filters or {}
  local by_id = check_ids(config, faults)
  check_fallbacks(config, by_id, faults)
  if faults:any() then return nil end
  check_answers(config, faults)
  config.functions, config.opaques = functions, context.opaques
  return not faults:any() and config or nil
end


return routes_conf
