--- filter_loader.lua - finds filters, loads them into sandboxes and checks what they return.
--
-- Owns: where filters come from and what a filter may look like. A filter is built in, a file in the folder `filters`
-- beside the routes file, or moongate/filters/NAME.lua of a LuaRocks tree. One loader belongs to one load.
-- May call: sandbox, schema.   Never: read files itself: all bytes come through options.read, which records them in
-- the builder and knows nothing but the bundle in a worker.

local examples = require "moongate.examples"
local sandbox = require "moongate.sandbox"
local schema = require "moongate.schema"
local suggest = require "moongate.suggest"

local filter_loader = {}
local Loader = {}
Loader.__index = Loader

local API = 1
local EMBEDDED = "embedded:"
local NEAREST_SHOWN = 3
local ENOENT = 2 -- errno: no such file or directory

--- What filters may require of the gateway's own.
local OFFERED = {
  ["moongate.compat.kong"] = EMBEDDED .. "lua/compat_kong.lua",
  ["kong.db.schema.typedefs"] = EMBEDDED .. "lua/compat_kong_typedefs.lua",
}

--- The functions that a filter may have, in the order of an exchange. ready: offered by this version.
filter_loader.PHASES = {
  { name = "init", ready = true },
  { name = "match", ready = true },
  { name = "request", ready = true },
  { name = "upstream", ready = true },
  { name = "response", ready = true },
  { name = "chunk", ready = true },
  { name = "log", ready = true },
  { name = "stop", ready = true },
}

--- Names that this project's own filters have; which of them are there is asked (options.is_built_in). Nobody else's
-- filter may be called like one of them.
filter_loader.BUILT_IN = {
  "AddCorrelationId", "AddQueryParameter", "AddRequestHeader", "AddResponseHeader", "BasicAuth", "CircuitBreaker",
  "Cors", "InjectBasicAuth", "RateLimiter", "RemoveCacheHeaders", "RemoveQueryParameter", "RemoveRequestCookie",
  "RemoveRequestHeader", "RemoveResponseHeader", "RequestSizeLimit", "RequireAuthorizationHeader", "RequireCookie",
  "RequireMatchCookie", "RequireMatchQueryParameter", "RequireMatchRequestHeader", "RequireQueryParameter",
  "RequireRequestHeader", "ReturnResponse", "RewritePath", "SetQueryParameter", "SetRequestCookie",
  "SetRequestHeader", "SetResponseCookie", "SetResponseHeader", "SetStatus", "SimpleMetrics", "StaticContent",
  "StripPathPrefix", "TemplateRedirect",
}

--- What else stands in a filter's table, and its type.
local FIELDS = {
  api = "number", version = "string", name = "string", description = "string", schema = "table", needs = "table",
  body = "table", examples = "table", answers = "table",
}

--- Declarations that this version cannot honour are refused: a filter must not run without what it counts on.
local NEEDS = { http = "a list of route ids", files = "true" }


local function phase_names(ready_only)
  local names = {}
  for _, phase in ipairs(filter_loader.PHASES) do
    if phase.ready or not ready_only then names[#names + 1] = phase.name end
  end
  return names
end


local function phase_of(name)
  for _, phase in ipairs(filter_loader.PHASES) do
    if phase.name == name then return phase end
  end
end


--- @param options.read      path → bytes, or nil, why and errno (if there is one); "embedded:NAME" is in the executable
-- @param options.folder    where the user's filters are, "conf/filters"
-- @param options.search    list of templates for LuaRocks trees, "/usr/share/lua/5.1/?.lua"
-- @param options.files     name → path of filters that were found before (a worker's, from its configuration), or nil
-- @param options.list      folder → list of file names, or nil (only for suggestions)
-- @param options.is_built_in  name → true when the executable holds that filter (for lists and clashes), or nil
-- @param options.host      see sandbox.new
-- @param options.progress  function(text) told before code of the user runs, or nil
function filter_loader.new(options)
  return setmetatable({
    read = options.read,
    folder = options.folder,
    search = options.search or {},
    files = options.files or {},
    fixed = options.files ~= nil,
    list = options.list or function() return nil end,
    is_built_in = options.is_built_in or function() return false end,
    host = options.host,
    progress = options.progress or function() end,
    modules = {},
    functions = {},
  }, Loader)
end


local function embedded_path(name)
  return ("%sfilters/%s.lua"):format(EMBEDDED, name)
end


function Loader:folder_path(name)
  return ("%s/%s.lua"):format(self.folder, name)
end


--- What stands in messages: short for files that everybody finds, whole for a rock's.
function Loader:shown(path)
  if path:sub(1, #EMBEDDED) == EMBEDDED then return path:sub(#EMBEDDED + 1) end
  if self.folder and path:sub(1, #self.folder + 1) == self.folder .. "/" then
    return "filters/" .. path:sub(#self.folder + 2)
  end
  return path
end


local function searched(template, module_name)
  return (template:gsub("%?", (module_name:gsub("%.", "/"))))
end


--- First template that leads to a file: path and bytes, or nil.
function Loader:search_trees(module_name)
  for _, template in ipairs(self.search) do
    local path = searched(template, module_name)
    local bytes = self.read(path)
    if bytes then return path, bytes end
  end
end


--- A copy of a built-in filter in the user's folder is that filter: a checkout of this project has all of them there.
function Loader:clash(name, own)
  return own ~= nil and own ~= self.read(embedded_path(name))
end


function Loader:clash_text(name)
  return ("%s has the name of a built-in filter; give it another name"):format(self:folder_path(name))
end


--- Where a filter is. @return path and bytes; or nil and why
function Loader:find(name)
  if not name:find("^%a[%w_%-]*$") then return nil, ("%s is not a name of a filter"):format(name) end
  if self.fixed then
    local path = self.files[name]
    local bytes = path and self.read(path)
    if not bytes then return nil, ("filter %s is not part of this configuration"):format(name) end
    return path, bytes
  end
  local built_in = self.read(embedded_path(name))
  local own, why, code
  if self.folder then own, why, code = self.read(self:folder_path(name)) end
  if built_in then
    if self:clash(name, own) then return nil, self:clash_text(name) end
    return embedded_path(name), built_in
  end
  if own then return self:folder_path(name), own end
  if code and code ~= ENOENT then return nil, ("%s cannot be read: %s"):format(self:folder_path(name), why) end
  local path, bytes = self:search_trees("moongate.filters." .. name)
  if path then return path, bytes end
  return nil, self:unknown(name)
end


local function add_names(names, seen, files)
  for _, file in ipairs(files or {}) do
    local name = file:match("^(%a[%w_%-]*)%.lua$")
    if name and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
end


--- The names of all filters that can be found, sorted; a helper module beside them is among them.
function Loader:names()
  local names, seen = {}, {}
  for _, name in ipairs(filter_loader.BUILT_IN) do
    if self.is_built_in(name) then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  add_names(names, seen, self.folder and self.list(self.folder))
  for _, template in ipairs(self.search) do
    local folder = searched(template, "moongate.filters.x"):match("^(.*)/x%.lua$")
    add_names(names, seen, folder and self.list(folder))
  end
  table.sort(names)
  return names
end


--- Files of the user's folder that have the name of a built-in filter, used or not.
function Loader:clashes()
  local clashes = {}
  for _, name in ipairs(filter_loader.BUILT_IN) do
    if self.is_built_in(name) and self:clash(name, (self.read(self:folder_path(name)))) then
      clashes[#clashes + 1] = name
    end
  end
  return clashes
end


function Loader:unknown(name)
  for _, known in ipairs(self:names()) do -- listed, and not to be read: a link to nothing, say
    if known == name then return ("filter %s is there, but its file cannot be read"):format(name) end
  end
  local hint = suggest.hint(name, self:names(), NEAREST_SHOWN)
  return ("unknown filter %s%s; moongate filters shows those that are there"):format(name, hint)
end


--- What `require` of a chunk reaches: a file beside it, else a module of a LuaRocks tree.
function Loader:module_finder(path)
  local beside = path:match("^(.*)/[^/]*$")
  return function(name)
    if not name:find("^[%w_][%w_%-%.]*$") or name:find("..", 1, true) then
      return nil, ("require: %s is not a module name"):format(name)
    end
    local near = ("%s/%s.lua"):format(beside, (name:gsub("%.", "/")))
    local found = OFFERED[name] or near
    local bytes = self.read(found)
    if not bytes then found, bytes = self:search_trees(name) end
    if not bytes then
      return nil, ("require: no module %s beside %s or in a LuaRocks tree%s"):format(name, self:shown(path),
        self.fixed and " among the files that were read when the configuration was checked" or "")
    end
    return bytes, "@" .. self:shown(found)
  end
end


--- Where a function of the user stands, for a message about it.
local function function_place(fn, otherwise)
  local info = debug.getinfo(fn, "S")
  if info.what == "C" then return otherwise end
  return ("%s:%d"):format(info.short_src, info.linedefined)
end


local function check_function(key, value, place)
  local phase = phase_of(key)
  local where = function_place(value, place)
  if not phase then
    return ("%s: unknown function %s%s; functions of a filter: %s"):format(where, key,
      suggest.hint(key, phase_names()), table.concat(phase_names(true), ", "))
  end
  if not phase.ready then
    return ("%s: function %s is not available yet; available: %s"):format(where, key,
      table.concat(phase_names(true), ", "))
  end
end


local function check_field(key, value, place)
  local phase = phase_of(key)
  if phase then return ("%s: %s must be a function, found a %s"):format(place, key, type(value)) end
  local expected = FIELDS[key]
  if not expected then
    local nearest = suggest.nearest(key, suggest.names(FIELDS))
    return nearest and ("%s: unknown field %s (did you mean %s?)"):format(place, key, nearest)
  end
  if type(value) ~= expected then
    return ("%s: %s must be a %s, found a %s"):format(place, key, expected, type(value))
  end
end


local BODY_MODES = { none = true, buffer = true, stream = true }


--- What is wrong with what a filter says of bodies, or nil.
local function body_fault(module)
  if module.body ~= nil and type(module.body) ~= "table" then return nil end -- said already
  local streams = false
  for side, mode in pairs(module.body or {}) do
    if side ~= "request" and side ~= "response" then
      return ("body: unknown key %s; accepted: request, response"):format(tostring(side))
    end
    if not BODY_MODES[mode] then
      return ("body.%s: found %s, accepted: none, buffer, stream"):format(side, tostring(mode))
    end
    streams = streams or mode == "stream"
  end
  if streams and not module.chunk then return "body: what is streamed needs the function chunk" end
  if module.chunk and not streams then
    return 'chunk needs body = { request = "stream" } or { response = "stream" }'
  end
end


--- What is wrong with the capabilities that a filter asks for, or nil.
local function needs_fault(module)
  if type(module.needs) ~= "table" then return nil end
  for key, value in pairs(module.needs) do
    if not NEEDS[key] then
      return ("needs: unknown capability %s; accepted: %s"):format(tostring(key),
        table.concat(suggest.names(NEEDS), ", "))
    end
    if key == "files" and value ~= true or key == "http" and type(value) ~= "table" then
      return ("needs.%s: found a %s, accepted: %s"):format(key, type(value), NEEDS[key])
    end
    for _, id in ipairs(key == "http" and value or {}) do
      if type(id) ~= "string" then return ("needs.http: found a %s, accepted: route ids"):format(type(id)) end
    end
  end
end


local function check_schema(module, place, add)
  local wrong = module.schema ~= nil and type(module.schema) ~= "table"
  schema.check_author(wrong and {} or module.schema or {}, function(path, message)
    wrong = true
    add(("%s: %s: %s"):format(place, path, message))
  end)
  if not wrong then examples.check(module, function(message) add(("%s: %s"):format(place, message)) end) end
end


--- Everything that is wrong with a filter's table, as a list of messages.
local function module_faults(module, place)
  local messages = {}
  local function add(message)
    messages[#messages + 1] = message
  end
  local function add_fault(fault)
    if fault then add(("%s: %s"):format(place, fault)) end
  end
  if type(module) ~= "table" then
    add(("%s: returns a %s, a filter returns its table"):format(place, type(module)))
    return messages
  end
  if module.api ~= API then
    local found = module.api == nil and "missing" or tostring(module.api)
    add(("%s: api is %s, this version has api = %d"):format(place, found, API))
  end
  local phases = 0
  for _, key in ipairs(suggest.names(module)) do
    local value = module[key]
    local check = type(value) == "function" and check_function or check_field
    add(check(key, value, place))
    if type(value) == "function" then phases = phases + 1 end
  end
  if phases == 0 then
    add(("%s: has no function; functions of a filter: %s"):format(place, table.concat(phase_names(true), ", ")))
  end
  add_fault(body_fault(module))
  add_fault(needs_fault(module))
  check_schema(module, place, add)
  return messages
end


--- The host as one filter sees it: with a moongate.http and a moongate.directory that reach what granted holds by then.
-- @param granted { http = set of route ids, files = true or nil }
function Loader:host_for(name, granted)
  local host = self.host
  if not host or not host.http then return host end
  local library = {}
  for key, value in pairs(host.moongate or {}) do library[key] = value end
  library.http = host.http(name, granted.http)
  function library.directory(path, options)
    if not granted.files then
      error(("moongate.directory: %s may not reach files; declare needs = { files = true }"):format(name), 2)
    end
    return host.moongate.directory(path, options)
  end
  return setmetatable({ moongate = library }, { __index = host })
end


--- The module of a filter by name, loaded once per loader.
-- @return the module's table; or nil and a message (several faults are joined by newlines)
function Loader:load(name)
  local known = self.modules[name]
  if known then return known.module, known.why end
  local result = {}
  self.modules[name] = result
  local path, bytes = self:find(name)
  if not path then
    result.why = bytes
    return nil, bytes
  end
  local shown = self:shown(path)
  self.files[name] = path
  self.progress(("loading %s"):format(shown))
  local granted = { http = {} }
  local module, why = sandbox.run(bytes, "@" .. shown,
    { name = name, host = self:host_for(name, granted), find_module = self:module_finder(path) })
  if module == nil then
    result.why = why or ("%s: returns nothing, a filter returns its table"):format(shown)
    return nil, result.why
  end
  local messages = module_faults(module, shown)
  if #messages > 0 then
    result.why = table.concat(messages, "\n")
    return nil, result.why
  end
  local needs = module.needs or {}
  for _, id in ipairs(needs.http or {}) do granted.http[id] = true end
  granted.files = needs.files
  result.module = module
  return module
end


--- Runs a Lua routes file. @return its table, or nil and why
function Loader:run_routes(path)
  local bytes = self.read(path)
  if not bytes then return nil, ("%s: cannot be read"):format(path) end
  local shown = path:match("[^/]*$")
  self.progress(("running %s"):format(shown))
  local result, why = sandbox.run(bytes, "@" .. shown,
    { name = shown, host = self.host, find_module = self:module_finder(path:find("/") and path or "./" .. path) })
  if why then return nil, why end
  if type(result) ~= "table" then
    return nil, ("returns a %s, accepted: the table of the routes"):format(type(result))
  end
  return result
end


--- The functions of a Lua routes file that stand for predicates and filters, in the order of config.functions.
-- The file is run again: functions do not travel, sources do.
-- @return list of functions, or nil and why
function Loader:route_functions(config)
  if not config.script or #config.functions == 0 then return {} end
  local root, why = self:run_routes(config.script)
  if not root then return nil, why end
  local functions = {}
  for i, where in ipairs(config.functions) do
    local value = root
    for _, key in ipairs(where) do value = type(value) == "table" and value[key] or nil end
    if type(value) ~= "function" then
      return nil, ("%s: no function at %s; the file must return the same table each time"):format(config.script,
        table.concat(where, "."))
    end
    functions[i] = value
  end
  self.functions = functions
  return functions
end


--- The module that an entry of the canonical configuration stands for. For a function of a Lua routes file,
-- route_functions must have been called. @return module, or nil and why
function Loader:module(filter)
  local index = filter["function"]
  if not index then return self:load(filter.name) end
  local request = self.functions[index]
  if not request then return nil, ("function %d of the routes file was not loaded"):format(index) end
  return { api = API, request = request }
end


return filter_loader
