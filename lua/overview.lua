--- overview.lua - a configuration as people may see it: routes in words, secrets masked.
--
-- Owns: what is masked. A value is shown only when nothing says that it could be a secret: what a header, cookie or
-- query parameter is set to or compared with never is.
-- Pure.

local predicates = require "moongate.predicates"

local overview = {}

local MASK = "******"
local TEXT_MAX = 120 -- bytes of one option

--- Options whose text is what a message is given or compared with, or a credential, in any filter.
local MASKED = {
  value = true, values = true, pattern = true, patterns = true, password = true, passwords = true, secret = true,
  users = true, token = true, tokens = true, key = true, keys = true, hash = true, hashes = true,
}


local function shorten(text)
  if #text <= TEXT_MAX then return text end
  local cut = TEXT_MAX
  while cut > 0 and text:byte(cut + 1) >= 128 and text:byte(cut + 1) < 192 do cut = cut - 1 end -- between characters
  return text:sub(1, cut) .. "..."
end


local words


local function table_words(value, spec)
  local parts, keys = {}, {}
  for i, item in ipairs(value) do parts[i] = words(nil, item, type(spec.items) == "table" and spec.items or spec) end
  for key in pairs(value) do
    if type(key) == "string" then keys[#keys + 1] = key end
  end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local inner = type(spec.keys) == "table" and spec.keys[key] or {}
    parts[#parts + 1] = key .. ": " .. words(key, value[key], type(inner) == "table" and inner or {})
  end
  return table.concat(parts, ", ")
end


--- One option in words. @param spec its schema, or an empty table
function words(key, value, spec)
  if spec.secret or MASKED[key] and type(value) ~= "boolean" and type(value) ~= "number" then return MASK end
  if type(value) == "table" then return shorten(table_words(value, spec)) end
  return shorten(tostring(value))
end


local function describe_filter(filter, schema)
  local keys, options = {}, {}
  for key in pairs(filter.conf) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  for i, key in ipairs(keys) do
    -- without a schema nothing is known of what may be shown
    local spec = schema and (type(schema[key]) == "table" and schema[key] or {}) or { secret = true }
    options[i] = { name = key, text = words(key, filter.conf[key], spec) }
  end
  return { name = filter.name, id = filter.id, on_error = filter.on_error, options = options }
end


local function describe_filters(filters, schema_of)
  local list = {}
  for i, filter in ipairs(filters) do list[i] = describe_filter(filter, schema_of and schema_of(filter)) end
  return list
end


local function describe_upstream(upstream)
  local targets = {}
  for i, target in ipairs(upstream.targets) do
    targets[i] = { url = target.url, key = target.key, weight = target.weight }
  end
  local check = upstream.health_check
  return {
    strategy = upstream.strategy, targets = targets, retries = upstream.retries, timeouts = upstream.timeouts,
    fallback = upstream.fallback,
    health_check = check and { path = check.path, interval = check.interval, override = check.override },
  }
end


local function levels(journal)
  return { request = journal.request.level, response = journal.response.level }
end


--- The configuration as plain data for the dashboard.
-- @param config canonical; @param schema_of filter → the schema of its options; nil: no option is shown
function overview.describe(config, schema_of)
  local routes = {}
  for i, route in ipairs(config.routes) do
    routes[i] = {
      id = route.id, line = route.line, match = predicates.words(route.match),
      filters = describe_filters(route.filters, schema_of),
      upstream = route.upstream and describe_upstream(route.upstream),
      journal = levels(route.journal),
    }
  end
  return {
    file = config.file, version = config.version, routes = routes,
    global_filters = describe_filters(config.global_filters, schema_of),
  }
end


return overview
