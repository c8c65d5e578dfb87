--- check.lua - the builder: reads a configuration once, proves that it compiles, prints it or packs it into a bundle.
--
-- Owns: which files are read and what a person is shown.
-- May call: conf, bundle, sandbox, compile, the functions that C gives the builder.   Never: keep anything running.

local bundle = require "moongate.bundle"
local conf = require "moongate.conf"
local examples = require "moongate.examples"
local predicates = require "moongate.predicates"
local sandbox = require "moongate.sandbox"
local suggest = require "moongate.suggest"
local units = require "moongate.units"

local check = {}

local DONE, FAILED, USAGE = 0, 1, 2
local OPTIONS = {
  "--routes", "--server", "--host", "--port", "--management-port", "--control", "--workers", "--journal", "--bundle-fd",
  "--client",
}
local FLAGS = { ["--markdown"] = true }


--- "--routes X" and "--routes=X" alike. @return name → value, and the words behind "--"; or nil and why
function check.arguments(argv)
  local known, options = {}, {}
  for _, name in ipairs(OPTIONS) do known[name] = true end
  local i = 1
  while i <= #argv and argv[i] ~= "--" do
    local name, value = argv[i]:match("^(%-%-[^=]+)=(.*)$")
    name = name or argv[i]
    if FLAGS[name] then
      value = true
    elseif not known[name] then
      return nil, ("unknown option %s%s"):format(name, suggest.hint(name, OPTIONS))
    end
    if not value then
      i = i + 1
      value = argv[i]
      if not value then return nil, name .. " needs a value" end
    end
    options[name] = value
    i = i + 1
  end
  return options, { unpack(argv, i + 1) }
end


local function read_disk(path)
  local file, why, code = io.open(path, "rb")
  if not file then
    why = why:gsub("^.*: ", "")
    return nil, why, code
  end
  local bytes, failure = file:read("*a")
  file:close()
  if not bytes then return nil, (failure or "it is no file"):gsub("^.*: ", "") end
  return bytes
end


--- Files of the executable are read under names of their own, all else from disk.
local function read_any(path)
  local embedded = path:match("^embedded:(.*)$")
  if not embedded then return read_disk(path) end
  local bytes = moongate_embedded(embedded)
  if not bytes then return nil, "no such file in this executable" end
  return bytes
end


--- Folder listings are for suggestions; where luafilesystem is not installed they are left out.
local function list_folder(folder)
  if moongate_list then return moongate_list(folder) end
  local ok, lfs = pcall(require, "lfs")
  if not ok or lfs.attributes(folder, "mode") ~= "directory" then return nil end
  local names = {}
  local readable = pcall(function()
    for name in lfs.dir(folder) do names[#names + 1] = name end
  end)
  table.sort(names)
  return readable and names or nil
end


local function is_built_in(name)
  return moongate_embedded(("filters/%s.lua"):format(name)) ~= nil
end


--- Where LuaRocks trees keep Lua modules: package.path (LUA_PATH is part of it), then the usual places.
local function search_templates()
  local templates, seen = {}, {}
  local function add(template)
    if template:sub(1, 1) == "/" and template:find("?", 1, true) and not seen[template] then
      seen[template] = true
      templates[#templates + 1] = template
    end
  end
  for template in package.path:gmatch("[^;]+") do add(template) end
  local home = os.getenv("HOME")
  for _, tree in ipairs { home and home .. "/.luarocks" or "", "/usr/local", "/usr" } do
    add(tree .. "/share/lua/5.1/?.lua")
    add(tree .. "/share/lua/5.1/?/init.lua")
  end
  return templates
end


--- A routes file that was not named: the variable's, routes.yaml, or routes.lua where only that is there.
function check.default_routes()
  local named = os.getenv("MOONGATE_ROUTES_CONFIG")
  if named then return named end
  return not read_disk("routes.yaml") and read_disk("routes.lua") and "routes.lua" or "routes.yaml"
end


function check.default_server()
  return os.getenv("MOONGATE_SERVER_CONFIG") or (read_disk("server.yaml") and "server.yaml") or nil
end


local function progress(text)
  if moongate_progress then moongate_progress(text) end
end


--- Compiles the routes and runs init, on what the workers will get: the configuration after its way through JSON.
local function compile(config, loader)
  progress("init of the filters")
  local json = bundle.encode_config(config)
  local travelled = bundle.decode_config(json)
  local ok, result, why = pcall(function() return require("moongate.compile").build(travelled, loader) end)
  if not ok then return nil, tostring(result) end
  if not result then return nil, tostring(why) end
  result.json = json
  return result
end


--- A fault that compiling found begins with the path of a filter; this puts the filter's place in front of it.
local function with_place(config, file, message)
  local function place_in(filters)
    for _, filter in ipairs(filters) do
      if filter.line and message:sub(1, #filter.path + 1) == filter.path .. ":" then
        return ("%s:%d:%d: %s"):format(file, filter.line, filter.column, message)
      end
    end
  end
  local found = place_in(config.global_filters)
  for _, route in ipairs(config.routes) do found = found or place_in(route.filters) end
  return found or ("%s: %s"):format(file, message)
end


--- What filters reach while they are checked, and what tells whether a pattern compiles. Nothing outside of the
-- executable, where there is no C to ask.
local function builder_host()
  local ok, compiler = pcall(require, "moongate.compile")
  if not ok then return nil, nil end
  return compiler.host(), require("moongate.regex").check
end


--- What loading needs from this process, see conf.load_routes.
function check.options(read)
  local host, check_regex = builder_host()
  return {
    read = read or read_any, getenv = os.getenv, search = search_templates(), list = list_folder,
    is_built_in = is_built_in, progress = progress, host = host, check_regex = check_regex,
  }
end


--- Runs the examples of every filter that is named, where there is a gateway to run them in.
-- @return a list of lines that say which did not do what they say
local function run_examples(loader)
  local lines = {}
  if not moongate_kit then return lines end
  for _, name in ipairs(suggest.names(loader.modules)) do
    progress(("examples of filter %s"):format(name))
    local module = loader.modules[name].module
    examples.run(name, module, loader.folder, function(message)
      lines[#lines + 1] = ("%s: %s"):format(loader:shown(loader.files[name]), message)
    end)
  end
  return lines
end


--- Loads and compiles everything.
-- @return { config, settings, sources, digest, warnings }, or nil and a list of lines that say what is wrong
function check.load(routes, server)
  local read, sources = bundle.recorder(read_any)
  local options = check.options(read)
  local settings, server_lines = conf.load_server(server, options)
  if settings and moongate_load_limit then
    moongate_load_limit(settings["scripts.max_load_time"], settings["scripts.max_memory"])
  end
  local loaded, lines = conf.load_routes(routes, options)
  if not settings or not loaded then
    local all = settings and {} or server_lines
    for _, line in ipairs(not loaded and lines or {}) do all[#all + 1] = line end
    return nil, all
  end
  local compiled, why = compile(loaded.config, loaded.loader)
  if not compiled then return nil, { with_place(loaded.config, routes, why) } end
  local failures = run_examples(loaded.loader)
  if #failures > 0 then return nil, failures end
  local warnings = server_lines
  for _, line in ipairs(loaded.warnings) do warnings[#warnings + 1] = line end
  return {
    config = loaded.config, json = compiled.json, settings = settings, sources = sources, digest = compiled.digest,
    states = compiled.states, guards = compiled.guards, warnings = warnings, loader = loaded.loader,
    schema_of = function(filter)
      local module = loaded.loader:module(filter)
      return module and module.schema or {}
    end,
  }
end


--- What a filter may reach beyond its exchange, in words.
local function add_needs(notes, module)
  local needs = module and module.needs or {}
  if needs.files then notes[#notes + 1] = "needs files" end
  if needs.http and #needs.http > 0 then notes[#notes + 1] = "needs http " .. table.concat(needs.http, " ") end
end


local function filter_words(filter, module_of)
  local notes = {}
  if filter.id then notes[#notes + 1] = "id " .. filter.id end
  if filter.on_error == "continue" then notes[#notes + 1] = "on_error continue" end
  add_needs(notes, module_of and module_of(filter))
  return filter.name .. (#notes > 0 and (" (%s)"):format(table.concat(notes, ", ")) or "")
end


local function filter_list(filters, module_of)
  local names = {}
  for i, filter in ipairs(filters) do names[i] = filter_words(filter, module_of) end
  return #names > 0 and table.concat(names, ", ") or "none"
end


local function target_list(upstream)
  local urls = {}
  for i, target in ipairs(upstream.targets) do
    urls[i] = target.url .. (target.weight ~= 1 and (" (weight %d)"):format(target.weight) or "")
  end
  return table.concat(urls, ", ")
end


local SHADOWS_MAX = 500


local function journal_words(direction)
  local overrides = {}
  for i, override in ipairs(direction.overrides or {}) do
    local first, last = override.first, override.last
    local class = first % 100 == 0 and last == first + 99 and ("%dxx"):format(first / 100)
    local range = class or first == last and tostring(first) or ("%d-%d"):format(first, last)
    overrides[i] = ("%s %s"):format(range, override.level)
  end
  return direction.level .. (#overrides > 0 and (" (%s)"):format(table.concat(overrides, ", ")) or "")
end


--- The route before that takes whatever this one would, as far as that is plain from their predicates; or nil.
local function shadow_of(routes, index, module_of)
  if index > SHADOWS_MAX then return nil end -- each is held against all before it
  for i = 1, index - 1 do
    local before, decides = routes[i], false
    for _, filter in ipairs(before.filters) do
      local module = module_of and module_of(filter)
      decides = decides or not module or module.match ~= nil
    end
    if not decides and predicates.covers(before.match, routes[index].match) then return before.id end
  end
end


local function route_lines(add, routes, index, module_of)
  local route = routes[index]
  add("  %s", route.id)
  add("    match    %s", predicates.words(route.match))
  local shadow = shadow_of(routes, index, module_of)
  if shadow then add("             never comes to it: route %s takes all of that before", shadow) end
  add("    filters  %s", filter_list(route.filters, module_of))
  local journal, upstream = route.journal, route.upstream
  local nothing = journal and journal_words(journal.request) .. journal_words(journal.response) == "NONENONE"
  if journal and not nothing then
    add("    journal  request %s, response %s", journal_words(journal.request), journal_words(journal.response))
  end
  if not upstream then return add("    targets  none") end
  add("    targets  %s", target_list(upstream))
  add("    limits   %s, connect %s, read %s, retries %d%s", upstream.strategy,
    units.duration_text(upstream.timeouts.connect), units.duration_text(upstream.timeouts.read), upstream.retries,
    upstream.fallback and ", fallback " .. upstream.fallback or "")
end


local SHOWN = {
  { "server.max_connections" }, { "server.idle_timeout", units.duration_text },
  { "http.request_parse_timeout", units.duration_text }, { "http.request_body_timeout", units.duration_text },
  { "limits.max_request_line", units.size_text }, { "limits.max_header_size", units.size_text },
  { "limits.max_header_count" }, { "limits.max_entity_size", units.size_text, none = true },
  { "proxy.max_connections_per_target" }, { "proxy.max_queue_size" },
  { "proxy.max_request_time", units.duration_text },
  { "proxy.max_exchange_time", units.duration_text, none = true }, { "scripts.max_call_time", units.duration_text },
}

--- Limits of the whole gateway that its workers share out among themselves.
local SHARED = {
  ["server.max_connections"] = true, ["proxy.max_connections_per_target"] = true, ["proxy.max_queue_size"] = true,
}


local function limit_text(settings, shown, workers)
  local key, value = shown[1], settings[shown[1]]
  local text = shown.none and value == 0 and "none" or (shown[2] or tostring)(value)
  if SHARED[key] and workers and workers > 1 then
    text = ("%s (%d in each of %d workers)"):format(text, math.ceil(value / workers), workers)
  end
  return ("  %-33s%s"):format(key, text)
end


--- The route table and the limits in force, for a person.
-- @param workers how many share the limits; nil: not known
-- @param module_of filter → its module, for what it needs; nil: that is not shown
function check.describe(config, settings, workers, module_of)
  local lines = {}
  local function add(format, ...)
    lines[#lines + 1] = format:format(...)
  end
  add("routes of %s, first match wins%s", config.file, config.version and ", version " .. config.version or "")
  if #config.global_filters > 0 then
    add("  global filters, before each route's: %s", filter_list(config.global_filters, module_of))
  end
  for index in ipairs(config.routes) do route_lines(add, config.routes, index, module_of) end
  add("limits")
  for _, shown in ipairs(SHOWN) do lines[#lines + 1] = limit_text(settings, shown, workers) end
  return table.concat(lines, "\n") .. "\n"
end


local function say(lines, prefix)
  for _, line in ipairs(lines) do io.stderr:write(prefix, line, "\n") end
end


--- The command. @param argv the arguments without the command's name
-- @return exit code, and the bundle when --bundle-fd was given and all is well
function check.main(argv)
  local options, why = check.arguments(argv)
  if not options then
    say({ why }, "moongate check: ")
    return USAGE
  end
  sandbox.seal()
  local routes = options["--routes"] or check.default_routes()
  local loaded, lines = check.load(routes, options["--server"] or check.default_server())
  if not loaded then
    say(lines, "")
    if routes == "routes.yaml" and not read_disk(routes) then
      say({ "a routes file is named with --routes or MOONGATE_ROUTES_CONFIG" }, "moongate: ")
    end
    return FAILED
  end
  say(loaded.warnings, "warning: ")
  if options["--bundle-fd"] then return DONE, bundle.emit(loaded) end
  local workers = tonumber(options["--workers"]) or loaded.settings["server.workers"]
  local function module_of(filter) return (loaded.loader:module(filter)) end
  io.stdout:write(check.describe(loaded.config, loaded.settings, workers, module_of))
  return DONE
end


return check
