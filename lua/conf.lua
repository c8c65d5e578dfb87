--- conf.lua - from routes.yaml or routes.lua and server.yaml to one canonical configuration.
--
-- Owns: the order of loading, what a load needs from disk, the meaning of a whole file (references between routes).
-- May call: yaml, routes_conf, server_conf, filter_loader.   Never: print, keep state between loads.
--
-- The canonical configuration is plain data: it survives JSON, and the builder and every worker compile the same one.
-- Lists are in file order, durations are milliseconds, sizes are bytes, defaults are filled in, what is absent is nil.
--
--   config = {
--     version = "text" | nil,
--     file    = "routes.yaml",              -- as the user named it, for messages
--     script  = "/abs/routes.lua" | nil,    -- set for a Lua routes file; its functions are fetched by running it again
--     functions = { { "routes", 1, "match", 2 }, ... },  -- where in that file's table each function stands
--     search  = { "/usr/share/lua/5.1/?.lua", ... },     -- where modules of LuaRocks trees are looked for
--     filter_files = { tenant = "/abs/filters/tenant.lua", SetStatus = "embedded:filters/SetStatus.lua" },
--     opaques = { leaf, ... },              -- every leaf of kind "opaque", in the order of their index (1-based here)
--     global_filters = { filter, ... },
--     unrouted = { journal = journal } | nil,
--     routes = { {
--       id = "api", path = "routes[0]", line = 3, column = 5,      -- line and column are nil for a Lua file
--       match = tree | nil,                                        -- nil never matches
--       filters = { filter, ... },                                 -- the route's own, without the global ones
--       upstream = upstream | nil,
--       journal = journal,
--     }, ... },
--   }
--
--   filter = {
--     name = "tenant",                      -- "<function>" for a function in a Lua file
--     ["function"] = 1 | nil,               -- then: index into config.functions
--     conf = { ... },                       -- its options, checked against its schema, defaults filled in
--     on_error = "fail" | "continue",
--     id = "text" | nil,
--     path = "routes[0].filters[1]", line = 9, column = 9,
--   }
--   A filter's module comes from the loader: loader:module(filter) -> module table, or nil and a message.
--
--   tree = { op = "and" | "or" | "not", tree, ... }                -- "not" has one child, the others at least one
--        | { predicate = "PathPrefix", kind = "prefix", value = "/api" }
--   kinds: path value · prefix value · segments value · host value (lower case) · method value · header name value ·
--          has_header name · opaque index (0-based, as core/routes.h counts; config.opaques[index + 1] is the leaf with
--          what the predicate was given: ["function"] = n, or test = "path_matches" and its like (compile.lua has
--          the list) with name and value). Header names are lower case.
--   Host and Method with several values are an "or" of leaves, several keys in one map or items of a list an "and".
--
--   upstream = {
--     strategy = "ROUND_ROBIN" | "LEAST_REQUESTS" | "CONSISTENT_HASH",
--     hash_on = { header = "x-user" } | { cookie = ... } | { query = ... } | { client_address = true } | nil,
--     host = "client" | "target",
--     targets = { { url = "http://a:81/v1", key = "a:81" | "[::1]:80" | "unix:/path", authority = "a:81",
--                   path_prefix = "/v1" | "", weight = 1 }, ... },   -- key names the pool; port 80 is explicit in it
--     timeouts = { connect = 5000, read = 30000 },
--     retries = 0,
--     max_connections = number | nil, max_queue_size = number | nil,  -- per target; nil: proxy.* of server.yaml
--     health_check = { path = "/health", interval = 10000, rise = 2, fall = 2, override = "NONE" } | nil,
--     passive_health = { failures = 5, within = 10000, down_for = 10000 } | nil,
--     slow_start = 0,
--     fallback = "route id" | nil,
--   }
--
--   journal = { request = direction, response = direction }
--   direction = { level = "NONE" | "METADATA" | "HEADERS" | "FULL",
--                 overrides = { { first = 500, last = 599, level = "FULL" }, ... } }
--
-- Settings (server.yaml) are a flat map from the keys of core/settings.h and of the sections behind them to numbers,
-- booleans, strings or lists: settings["server.idle_timeout"] = 30000.

local faults = require "moongate.faults"
local filter_loader = require "moongate.filter_loader"
local routes_conf = require "moongate.routes_conf"
local server_conf = require "moongate.server_conf"
local tree = require "moongate.tree"
local yaml = require "moongate.yaml"

local conf = {}


--- A YAML file as a tree with its variables replaced, or nil after adding why not.
local function read_yaml(path, options, found)
  local text, why = options.read(path)
  if not text then
    found:add(nil, "", "cannot be read: " .. why)
    return nil
  end
  local node, fault = yaml.parse(text)
  if not node then
    found:add(fault.line and fault, "", fault.message)
    return nil
  end
  if text:find("${", 1, true) then tree.interpolate(node, options.getenv, found) end
  return node
end


--- A Lua routes file as a tree, or nil after adding why not.
local function read_script(path, options, found, loader)
  local _, why = options.read(path)
  if why then
    found:add(nil, "", "cannot be read: " .. why)
    return nil
  end
  local root, failure = loader:run_routes(path)
  if not root then
    local line, message = failure:match("^" .. path:match("[^/]*$"):gsub("%p", "%%%0") .. ":(%d+): (.*)$")
    found:add(line and { line = tonumber(line) }, "", message or failure)
    return nil
  end
  local node, unfit = tree.from_lua(root)
  if not node then
    local text = "the table of the routes holds %s; accepted: text, numbers, booleans, functions and tables"
    found:add(nil, "", text:format(unfit))
    return nil
  end
  tree.interpolate(node, options.getenv, found)
  return node
end


--- Reads server.yaml.
-- @param path nil: the defaults; @param options.read path → bytes, or nil and why; @param options.getenv name → text
-- @return flat settings and a list of warnings, or nil and a list of lines that say everything that is wrong
function conf.load_server(path, options)
  local found = faults.new(path or "server.yaml")
  local node = path and read_yaml(path, options, found)
  if found:any() then return nil, found:lines() end
  local settings = server_conf.check(node, found)
  if not settings then return nil, found:lines() end
  return settings, found:warning_lines()
end


local function beside(path, name)
  local folder = path:match("^(.*/)[^/]*$")
  return (folder or "") .. name
end


--- A file with a built-in filter's name is refused even where no route uses it: nobody shall take it for the other.
local function refuse_clashes(loader, found)
  for _, name in ipairs(loader:clashes()) do found:add(nil, "", loader:clash_text(name)) end
end


--- Reads a routes file, YAML or Lua by its ending, and every filter that it names.
-- @param options.read    path → bytes, or nil and why; sees every file that the configuration consists of
-- @param options.getenv  name → text or nil, for ${NAME}
-- @param options.check_regex  pattern → nil, or why it does not compile; nil: that is seen when it is used
-- @param options.search  templates for LuaRocks trees; list, is_built_in, host, progress: see filter_loader.new
-- @return { config, loader, warnings }, or nil and a list of lines that say everything that is wrong
function conf.load_routes(path, options)
  local found = faults.new(path)
  local loader = filter_loader.new {
    read = options.read, folder = beside(path, "filters"), search = options.search, list = options.list,
    is_built_in = options.is_built_in, host = options.host, progress = options.progress,
  }
  local is_script = path:find("%.lua$") ~= nil
  local node = (is_script and read_script or read_yaml)(path, options, found, loader)
  if not node then return nil, found:lines() end
  refuse_clashes(loader, found)
  local config = routes_conf.check(node, found, loader, options.check_regex)
  if not config or found:any() then return nil, found:lines() end
  config.file, config.script = path, is_script and path or nil
  config.search, config.filter_files = loader.search, loader.files
  return { config = config, loader = loader, warnings = found:warning_lines() }
end


return conf
