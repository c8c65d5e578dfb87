--- bundle.lua - one configuration as one string of bytes: from the builder to every worker.
--
-- Owns: the Lua side of the format that core/bundle.h describes, and the JSON of the canonical configuration (keys in
-- order, so that the same files give the same bytes).
-- May call: cjson (reading), server_conf for the list of settings.   Never: read files.

local cjson = require "cjson".new()
local filter_loader = require "moongate.filter_loader"
local overview = require "moongate.overview"
local server_conf = require "moongate.server_conf"

local bundle = {}

local MAGIC = "moongate-bundle 1\n"

local LIST = "#" -- the list part of a table that has named keys too, such as a node of a match

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\" }


local function escape(c)
  return ESCAPES[c] or ("\\u%04x"):format(c:byte())
end


local function quote(text)
  if text:find('[%z\1-\31"\\\127]') then text = text:gsub('[%z\1-\31"\\\127]', escape) end
  return '"' .. text .. '"'
end


--- An encoder: puts pieces of JSON into out; orders holds the keys of tables of one shape, sorted, by how they came.
local Encoder = {}
Encoder.__index = Encoder


local function encoder()
  return setmetatable({ out = {}, count = 0, orders = {} }, Encoder)
end


function Encoder:put(text)
  self.count = self.count + 1
  self.out[self.count] = text
end


function Encoder:list(value)
  self:put("[")
  for i, item in ipairs(value) do
    if i > 1 then self:put(",") end
    self:value(item)
  end
  self:put("]")
end


--- The string keys of a table, sorted. A configuration has thousands of tables of a few shapes.
function Encoder:keys(value)
  local keys, count = {}, 0
  for key in pairs(value) do
    if type(key) == "string" then
      count = count + 1
      keys[count] = key
    end
  end
  local shape = table.concat(keys, "\0")
  local order = self.orders[shape]
  if not order then
    table.sort(keys)
    order = { names = keys }
    for i, key in ipairs(keys) do order[i] = quote(key) .. ":" end
    self.orders[shape] = order
  end
  return order
end


function Encoder:table(value)
  local order = self:keys(value)
  if #order == 0 and #value > 0 then return self:list(value) end
  self:put("{")
  if #value > 0 then
    self:put(quote(LIST) .. ":")
    self:list(value)
    if #order > 0 then self:put(",") end
  end
  for i = 1, #order do
    if i > 1 then self:put(",") end
    self:put(order[i])
    self:value(value[order.names[i]])
  end
  self:put("}")
end


function Encoder:value(value)
  local kind = type(value)
  if kind == "table" then return self:table(value) end
  if kind == "string" then
    self:put(quote(value))
  elseif kind == "number" then
    self:put(("%.17g"):format(value))
  elseif kind == "boolean" then
    self:put(tostring(value))
  else
    error(("a %s has no place in a configuration"):format(kind))
  end
end


--- Puts list parts back where they were.
local function restore(value)
  if type(value) ~= "table" then return value end
  for _, item in pairs(value) do restore(item) end
  local list = value[LIST]
  if type(list) == "table" then
    value[LIST] = nil
    for i, item in ipairs(list) do value[i] = item end
  end
  return value
end


--- The canonical configuration as JSON; decode_config is its only reader.
function bundle.encode_config(config)
  local json = encoder()
  json:value(config)
  return table.concat(json.out)
end


function bundle.decode_config(json)
  return restore(cjson.decode(json))
end


local function setting_lines(settings)
  local lines = {}
  for _, key in ipairs(server_conf.CORE_KEYS) do
    local value = settings[key]
    if type(value) == "table" then
      for _, item in ipairs(value) do lines[#lines + 1] = ("%s=%s\n"):format(key, item) end
    elseif type(value) == "number" then
      lines[#lines + 1] = ("%s=%.0f\n"):format(key, value)
    elseif value ~= nil then
      lines[#lines + 1] = ("%s=%s\n"):format(key, tostring(value))
    end
  end
  return table.concat(lines)
end


local function target_lines(config)
  local seen, lines = {}, {}
  for _, route in ipairs(config.routes) do
    for _, target in ipairs(route.upstream and route.upstream.targets or {}) do
      if not seen[target.key] then
        seen[target.key] = true
        lines[#lines + 1] = target.key .. "\n"
      end
    end
  end
  return table.concat(lines)
end


local function route_lines(config)
  local lines = {}
  for i, route in ipairs(config.routes) do lines[i] = route.id .. "\n" end
  return table.concat(lines)
end


--- A line per checked target of each route, in the order that core/health.h wants.
local function health_lines(config)
  local lines = {}
  for index, route in ipairs(config.routes) do
    local check = route.upstream and route.upstream.health_check
    for _, target in ipairs(check and route.upstream.targets or {}) do
      lines[#lines + 1] = ("%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n"):format(index - 1, check.interval, check.rise, check.fall,
        check.override, target.key, target.authority, check.path)
    end
  end
  return table.concat(lines)
end


local function section(name, bytes)
  return ("%s %d\n"):format(name, #bytes) .. bytes .. "\n"
end


--- Puts a bundle together.
-- @param parts.settings flat settings; parts.states what filters share and parts.guards where (guards.lua);
--   parts.config canonical configuration, parts.json the same as JSON if that is there already; parts.digest 64
--   hexadecimal digits of the route table; parts.sources path → bytes of every Lua file that was read;
--   parts.schema_of see overview.describe
function bundle.emit(parts)
  local out = {
    MAGIC,
    section("settings", setting_lines(parts.settings)),
    section("targets", target_lines(parts.config)),
    section("states", parts.states),
    section("guards", parts.guards),
    section("routes", route_lines(parts.config)),
    section("health", health_lines(parts.config)),
    section("overview", bundle.encode_config(overview.describe(parts.config, parts.schema_of))),
    section("digest", parts.digest),
    section("config", parts.json or bundle.encode_config(parts.config)),
  }
  local paths = {}
  for path in pairs(parts.sources) do paths[#paths + 1] = path end
  table.sort(paths)
  for _, path in ipairs(paths) do out[#out + 1] = section("source " .. path, parts.sources[path]) end
  out[#out + 1] = section("end", "")
  return table.concat(out)
end


--- One section at a position: name, bytes, position of the next; or nil when it is cut short.
local function read_section(text, at)
  local newline = text:find("\n", at, true)
  if not newline then return nil end
  local name, length = text:sub(at, newline - 1):match("^(.+) (%d+)$")
  if not name then return nil end
  local after = newline + tonumber(length, 10) + 1
  if text:sub(after, after) ~= "\n" then return nil end
  return name, text:sub(newline + 1, after - 1), after + 1
end


--- Takes a bundle apart.
-- @return { settings, targets, digest (texts), config (decoded), sources (path → bytes) }, or nil and why
function bundle.parse(text)
  if text:sub(1, #MAGIC) ~= MAGIC then return nil, "not a bundle of this version" end
  local parts, at = { sources = {} }, #MAGIC + 1
  while true do
    local name, bytes, after = read_section(text, at)
    if not name then return nil, "the bundle is cut short" end
    if name == "end" then break end
    local path = name:match("^source (.+)$")
    if path then parts.sources[path] = bytes else parts[name] = bytes end
    at = after
  end
  if not parts.config then return nil, "the bundle holds no configuration" end
  parts.config = bundle.decode_config(parts.config)
  return parts
end


--- A loader that knows the sources of a bundle and nothing else.
-- @param parts of bundle.parse; @param host see sandbox.new; @param progress see filter_loader.new, or nil
function bundle.loader(parts, host, progress)
  local config, sources = parts.config, parts.sources
  return filter_loader.new {
    read = function(path) return sources[path] end,
    folder = (config.file:match("^(.*/)[^/]*$") or "") .. "filters",
    search = config.search,
    files = config.filter_files,
    host = host,
    progress = progress,
  }
end


--- Wraps a function that reads files so that every Lua file it gives is kept.
-- @param read path → bytes, or nil and why
-- @return the same as a function, and the table path → bytes that it fills
function bundle.recorder(read)
  local sources = {}
  return function(path)
    local known = sources[path]
    if known then return known end
    local bytes, why, code = read(path)
    if bytes and path:find("%.lua$") then sources[path] = bytes end
    return bytes, why, code
  end, sources
end


return bundle
