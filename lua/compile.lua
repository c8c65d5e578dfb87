--- compile.lua - from the canonical configuration to what runs: a route table in C, a function per route and phase.
--
-- The function of a route and phase calls its filters one after the other; filters, their options and their state are
-- its upvalues, so that LuaJIT compiles the whole chain as one piece. A route without filters for a phase has none.
-- Owns: the order of filters, what an error does.   May call: ffi, handles, bundle, the loader it is given.
-- Never: read a file, keep state between loads.

local bodies = require "moongate.bodies"
local directories = require "moongate.directories"
local ffi = require "moongate.ffi"
local guards = require "moongate.guards"
local handles = require "moongate.handles"
local handles_edits = require "moongate.handles_edits"
local passwords = require "moongate.passwords"
local http = require "moongate.http"
local regex = require "moongate.regex"
local upstreams = require "moongate.upstreams"

local C = ffi.C
local compile = {}

local SLEEP_SECONDS_MAX = 86400
local FILTERS_PER_FUNCTION = 16 -- three upvalues each, of the 60 that a function may have
local KINDS = {
  path = C.MG_MATCH_PATH, prefix = C.MG_MATCH_PREFIX, segments = C.MG_MATCH_SEGMENTS, host = C.MG_MATCH_HOST,
  method = C.MG_MATCH_METHOD, header = C.MG_MATCH_HEADER, has_header = C.MG_MATCH_HAS_HEADER,
  opaque = C.MG_MATCH_OPAQUE,
}
--- What C decides of the predicates that the literal table cannot hold; what is not here is a function.
local TESTS = {
  path_matches = C.MG_DECIDE_PATH_MATCHES, header_matches = C.MG_DECIDE_HEADER_MATCHES,
  has_query = C.MG_DECIDE_HAS_QUERY, query = C.MG_DECIDE_QUERY, query_matches = C.MG_DECIDE_QUERY_MATCHES,
  has_cookie = C.MG_DECIDE_HAS_COOKIE, cookie = C.MG_DECIDE_COOKIE, cookie_matches = C.MG_DECIDE_COOKIE_MATCHES,
  client_in = C.MG_DECIDE_CLIENT_IN,
}
local LEVELS = { NONE = 0, METADATA = 1, HEADERS = 2, FULL = 3 }
local COMBINES = { ["and"] = C.MG_MATCH_AND, ["or"] = C.MG_MATCH_OR, ["not"] = C.MG_MATCH_NOT }

--- The phases that run per exchange. handle: what a filter's function gets; backwards: the first filter has the last
-- word; ends: a filter may end the phase by answering.
local PHASES = {
  { name = "request", handle = "struct mg_request *", ends = true },
  { name = "upstream", handle = "struct mg_request *" },
  { name = "response", handle = "struct mg_response *", backwards = true },
  { name = "log", handle = "struct mg_exchange *" },
}


-- The route table -------------------------------------------------------------------------------------------------


local function add_match(routes, tree)
  if tree.op then
    for _, child in ipairs(tree) do add_match(routes, child) end
    C.mg_routes_combine(routes, COMBINES[tree.op], #tree)
    return
  end
  local name = tree.name or ""
  local value = tree.kind == "opaque" and tostring(tree.index) or tree.value or ""
  C.mg_routes_literal(routes, KINDS[tree.kind], name, #name, value, #value)
end


--- Adds the match functions of a route's filters: all of them have to agree with its predicates.
-- @return how many there are
local function add_filter_matches(routes, route, loader, first)
  local count = 0
  for _, filter in ipairs(route.filters or {}) do
    local module = loader and loader:module(filter)
    if module and module.match then
      local index = tostring(first + count)
      C.mg_routes_literal(routes, C.MG_MATCH_OPAQUE, "", 0, index, #index)
      count = count + 1
    end
  end
  if count > 0 then C.mg_routes_combine(routes, C.MG_MATCH_AND, count + 1) end
  return count
end


--- Builds the route table in C.
-- @param loader gives the filters' modules, whose match functions come behind the configuration's own opaque predicates
-- @return a struct mg_routes pointer that the caller owns
local function build_routes(config, loader)
  local routes = C.mg_routes_new()
  local opaques = #(config.opaques or {})
  for _, route in ipairs(config.routes) do
    C.mg_routes_begin(routes, route.id, #route.id)
    if route.match then
      add_match(routes, route.match)
      opaques = opaques + add_filter_matches(routes, route, loader, opaques)
    end
    C.mg_routes_end(routes)
  end
  if C.mg_routes_seal(routes) < 0 then
    C.mg_routes_release(routes)
    error("the predicates of a route are nested too deeply", 0)
  end
  return routes
end


local function digest_of(routes)
  local text = ffi.new("char[65]")
  C.mg_routes_digest(routes, text)
  return ffi.string(text)
end


-- Filters ---------------------------------------------------------------------------------------------------------


--- Runs a filter's init. @param scope the id of its route, or "<global>"; @param position in the chain, from 1
-- @return the entry { module, conf, state, on_error, place }
local function start_filter(filter, loader, scope, position)
  local module, why = loader:module(filter)
  local place = filter.path or filter.name
  if not module then error(("%s: %s"):format(place, why), 0) end
  local entry = { module = module, conf = filter.conf or {}, on_error = filter.on_error, place = place,
    name = filter.name }
  if module.init then
    if moongate_progress then moongate_progress(("init of filter %s (%s)"):format(filter.name, place)) end
    loader.host.guards:enter(scope, filter.name, position)
    local ok, state = pcall(module.init, entry.conf)
    loader.host.guards:leave()
    if not ok then error(("%s: init of filter %s failed: %s"):format(place, filter.name, handles.hinted(state)), 0) end
    entry.state = state
  end
  return entry
end


local function start_filters(list, loader, scope, before)
  local entries = {}
  for i, filter in ipairs(list or {}) do entries[i] = start_filter(filter, loader, scope, before + i) end
  return entries
end


--- A filter's turn in a chain: says which one runs and counts its call. `respond` sets turn.ended.
local TURN = [[
  turn.meter, position[0], calls[%d] = %d, %d, calls[%d] + 1
  f%d(handle, c%d, s%d)]]
local ENDS = "\n  if turn.ended ~= 0 then return true end"

--- The same in an exchange whose filters are timed: C looks between two filters.
local TIMED_TURN = [[
  if C.mg_filter_next(handle, %d) ~= 0 then return true end
  f%d(handle, c%d, s%d)]]


--- The source of a function that runs filters one after the other, for entries first to last of a chain.
local function chain_source(chain, first, last, phase, meters, timed)
  local names, lines = {}, {}
  for i = first, last do
    local meter = meters[chain[i]]
    local at = meter - meters.first
    names[#names + 1] = ("f%d, c%d, s%d"):format(i, i, i)
    lines[#lines + 1] = timed and TIMED_TURN:format(meter, i, i, i)
      or TURN:format(at, meter, at + 1, at, i, i, i) .. (phase.ends and ENDS or "")
    if chain[i].global and phase.name == "request" then lines[#lines + 1] = "  C.mg_request_mark(handle)" end
  end
  return ("local C, turn, position, calls, %s = ...\nreturn function(handle)\n%s\nend\n"):format(
    table.concat(names, ", "), table.concat(lines, "\n"))
end


local function failed(handle, why)
  local text = tostring(why)
  C.mg_script_filter_failed(ffi.cast("struct mg_exchange *", handle), text, #text)
end


--- Runs a filter whose failure is passed over. The name of the chunk tells the watchdog that a kill ends here.
local function guarded(run)
  return assert(load([[
    local run, failed, pcall = ...
    return function(handle, conf, state)
      local ok, why = pcall(run, handle, conf, state)
      if not ok then failed(handle, why) end
    end]], "=(on_error: continue)", "t"))(run, failed, pcall)
end


--- A filter's function as its on_error wants it.
local function wrapped(entry, run)
  return entry.on_error == "continue" and guarded(run) or run
end


--- The same for a chunk function.
local function wrapped_chunk(entry, run)
  if entry.on_error ~= "continue" then return run end
  return assert(load([[
    local run, failed, pcall = ...
    return function(message, bytes, last, conf, state)
      local ok, given = pcall(run, message, bytes, last, conf, state)
      if ok then return given end
      failed(message, given)
    end]], "=(on_error: continue)", "t"))(run, failed, pcall)
end


local function chain_part(chain, first, last, phase, meters, timed)
  local source = chain_source(chain, first, last, phase, meters, timed)
  local values, count = { C, meters.turn, meters.turn.position, meters.calls }, 4
  for i = first, last do
    local entry = chain[i]
    local run = wrapped(entry, entry.module[phase.name])
    values[count + 1], values[count + 2], values[count + 3] = run, entry.conf, entry.state
    count = count + 3
  end
  return assert(load(source, "=(chain)", "t"))(unpack(values, 1, count))
end


--- Runs parts of a long chain in turn until one says that it has ended.
local function join_parts(parts)
  if #parts == 1 then return parts[1] end
  return function(handle)
    for i = 1, #parts do
      if parts[i](handle) then return end
    end
  end
end


--- The function that runs a whole chain.
local function chain_function(chain, phase, meters, timed)
  local parts = {}
  for first = 1, #chain, FILTERS_PER_FUNCTION do
    local last = math.min(first + FILTERS_PER_FUNCTION - 1, #chain)
    parts[#parts + 1] = chain_part(chain, first, last, phase, meters, timed)
  end
  return join_parts(parts)
end


--- The two functions of one route and phase, plain and timed: they take a handle's number. None when no filter takes
-- part.
local function phase_functions(entries, phase, meters)
  local chain = {}
  for _, entry in ipairs(entries) do
    if entry.module[phase.name] then table.insert(chain, phase.backwards and 1 or #chain + 1, entry) end
  end
  if #chain == 0 then return end
  local enter = [[
    local cast, handle_type, run = ...
    return function(number) run(cast(handle_type, number)) end]]
  local made = {}
  for i, timed in ipairs { false, true } do
    made[i] = assert(load(enter, "=(phase)", "t"))(ffi.cast, ffi.typeof(phase.handle),
      chain_function(chain, phase, meters, timed))
  end
  return made[1], made[2]
end


local function concatenated(first, second)
  local all = {}
  for _, entry in ipairs(first) do all[#all + 1] = entry end
  for _, entry in ipairs(second) do all[#all + 1] = entry end
  return all
end


--- Gives each filter of a route its meter, the same in every phase, and the route a place to count calls in.
-- @param generation the struct mg_generation that counts; nil in the builder, where nothing runs
-- @return { first = number of the first filter's meter, [entry] = number, calls = int32_t[] from the first meter on,
--   turn = the struct mg_turn of this process, one of its own in the builder }
local function metering(generation, route, entries)
  local meters = { first = 0 }
  for position, entry in ipairs(entries) do
    meters[entry] = generation and C.mg_generation_meter(generation, route, position, entry.name, #entry.name)
      or position - 1
  end
  if entries[1] then meters.first = meters[entries[1]] end
  meters.turn = generation and C.mg_filter_turn() or ffi.new("struct mg_turn")
  meters.calls = generation and C.mg_generation_counts(generation, meters.first, #entries)
    or ffi.new("int32_t[?]", #entries)
  return meters
end


--- The upstreams that a filter wants to call have to be there.
local function check_needs(config, entry)
  for _, id in ipairs(entry.module.needs and entry.module.needs.http or {}) do
    local found
    for _, route in ipairs(config.routes) do found = found or (route.id == id and route.upstream) end
    if not found then error(("%s: needs the upstream of route %s, and there is none"):format(entry.place, id), 0) end
  end
end


--- One table of phase functions for each route, and the entries of all filters.
local function build_chains(config, loader, generation)
  local global = start_filters(config.global_filters, loader, "<global>", 0)
  for _, entry in ipairs(global) do entry.global = true end -- their edits outlive a fallback
  local chains, started = { matches = {} }, concatenated(global, {})
  local stands_in = {} -- routes that are a fallback: without the global filters, which have run for the first route
  for _, route in ipairs(config.routes) do
    if route.upstream and route.upstream.fallback then stands_in[route.upstream.fallback] = true end
  end
  for i, route in ipairs(config.routes) do
    local own = start_filters(route.filters, loader, route.id, #global)
    local entries = concatenated(global, own)
    chains[i] = {}
    local meters = metering(generation, i - 1, entries)
    for _, phase in ipairs(PHASES) do
      local name = phase.name
      chains[i][name], chains[i]["timed_" .. name] = phase_functions(entries, phase, meters)
      if stands_in[route.id] then
        chains[i]["own_" .. name], chains[i]["timed_own_" .. name] = phase_functions(own, phase, meters)
      end
    end
    chains[i].entries = entries
    for _, entry in ipairs(entries) do check_needs(config, entry) end
    if route.match then
      for _, entry in ipairs(own) do
        if entry.module.match then chains.matches[#chains.matches + 1] = entry end
      end
    end
    chains[i].chunk_request = bodies.chain(entries, "request", wrapped_chunk, meters)
    chains[i].chunk_response = bodies.chain(entries, "response", wrapped_chunk, meters)
    for _, entry in ipairs(own) do started[#started + 1] = entry end
  end
  return chains, started
end


-- What stands in for a predicate ----------------------------------------------------------------------------------


--- The function that decides predicates which C cannot: (number, index) → truth. Nil when there are none.
local function opaque_function(config, functions, matches)
  local tests = {}
  for i, leaf in ipairs(config.opaques or {}) do
    if leaf["function"] then tests[i] = functions[leaf["function"]] end
  end
  for i, entry in ipairs(matches) do
    local function matches_too(request) return entry.module.match(request, entry.conf, entry.state) end
    tests[#(config.opaques or {}) + i] = matches_too
  end
  if next(tests) == nil then return nil end
  local request_type = ffi.typeof("struct mg_request *")
  return function(number, index) return tests[index + 1](ffi.cast(request_type, number)) end
end


--- Gives a generation its OPAQUE predicates, in the order of their index.
local function add_predicates(generation, config, matches)
  for _, leaf in ipairs(config.opaques or {}) do
    local test, name, value = TESTS[leaf.test] or C.MG_DECIDE_FUNCTION, leaf.name or "", leaf.value or ""
    if C.mg_generation_predicate(generation, test, name, #name, value, #value) < 0 then
      error(("predicate %s cannot be compiled"):format(leaf.predicate), 0)
    end
  end
  for _ = 1, #matches do C.mg_generation_predicate(generation, C.MG_DECIDE_FUNCTION, "", 0, "", 0) end
end


--- Runs the filters' stop functions, the last started first; every one gets its turn.
local function stop_function(started)
  return function()
    local first_failure
    for i = #started, 1, -1 do
      local entry = started[i]
      if entry.module.stop then
        local ok, why = pcall(entry.module.stop, entry.conf, entry.state)
        if not ok then first_failure = first_failure or ("%s: %s"):format(entry.place, tostring(why)) end
      end
    end
    if first_failure then error(first_failure, 0) end
  end
end


-- The journal -----------------------------------------------------------------------------------------------------


--- Tells what a route records (index -1: what reaches no route), and the names of the filters that run.
local function add_journal(generation, index, journal, filters)
  local names = {}
  for i, filter in ipairs(filters or {}) do names[i] = filter.name end
  local text = table.concat(names, ", ")
  C.mg_generation_journal(generation, index, LEVELS[journal.request.level], LEVELS[journal.response.level], text, #text)
  for side, direction in ipairs { journal.request, journal.response } do
    for _, override in ipairs(direction.overrides or {}) do
      C.mg_generation_journal_status(generation, index, side - 1, override.first, override.last, LEVELS[override.level])
    end
  end
end


-- The two ways in -------------------------------------------------------------------------------------------------


--- Proves in the builder that a configuration compiles and its filters start.
-- @param loader with the host of compile.host()
-- @return { digest = "64 hexadecimal digits" of the route table, states = what its filters share }; or nil and why
function compile.build(config, loader)
  local ok, result = pcall(function()
    local functions, why = loader:route_functions(config)
    if not functions then error(why, 0) end
    local routes = build_routes(config, loader)
    local digest = digest_of(routes)
    C.mg_routes_release(routes)
    local chains, started = build_chains(config, loader)
    opaque_function(config, functions, chains.matches)
    stop_function(started)()
    return { digest = digest, states = loader.host.guards:text(), guards = loader.host.guards:list() }
  end)
  if not ok then return nil, tostring(result) end
  return result
end


--- What filters reach of the process.
-- @param generation the struct mg_generation that is built; nil in the builder
-- @param config the canonical configuration, whose upstreams moongate.http reaches; nil in the builder
function compile.host(generation, config)
  local made, index_of = guards.new(generation), {}
  for i, route in ipairs(config and config.routes or {}) do index_of[route.id] = i - 1 end
  return {
    guards = made, time = function() return C.mg_wall_time() end,
    http = function(name, granted) return http.maker(name, granted, index_of) end,
    log = function(level, text) C.mg_script_log(handles.LEVELS[level] or 1, text, #text) end,
    strings = require "moongate.patterns",
    moongate = {
      --- Lets the gateway go on with others for so many seconds.
      sleep = function(seconds)
        if type(seconds) ~= "number" or not (seconds == seconds and seconds >= 0 and seconds < SLEEP_SECONDS_MAX) then
          error("moongate.sleep: seconds is a number from 0 to 86399", 2)
        end
        coroutine.yield("sleep", seconds * 1000)
      end,
      --- Expressions lie in C's memory, which scripts.max_memory does not see: requests make none.
      regex = function(pattern, options)
        if not made:is_loading() then error("moongate.regex: only while the filter is loaded, in init say", 2) end
        return regex.new(pattern, options)
      end,
      directory = function(path, options)
        if not made:in_init() then error("moongate.directory: only in init", 2) end
        return directories.open(path, options)
      end,
      basic_credentials = passwords.credentials,
      password_matches = passwords.matches,
      sha256 = passwords.sha256,
      limiter = made:maker("limiter"),
      breaker = made:maker("breaker"),
    },
  }
end


--- Builds a worker's generation out of a bundle.
-- @param text the bundle; @param pointer the struct mg_generation, as light userdata
-- @return list of { request, timed_request, ... } functions by route, with `opaque` and `stop`
function compile.load(text, pointer)
  require("jit.opt").start("maxtrace=65000", "maxmcode=131072")
  local bundle = require "moongate.bundle"
  local parts = assert(bundle.parse(text))
  collectgarbage() -- so that what stays is not made between what goes
  local generation = ffi.cast("struct mg_generation *", pointer)
  return compile.assemble(parts, generation, compile.host(generation, parts.config))
end


--- The same with a bundle that was taken apart, and what its filters shall reach.
function compile.assemble(parts, generation, host)
  local config = parts.config
  require("moongate.sandbox").seal(host)
  local loader = require("moongate.bundle").loader(parts, host)
  local functions = assert(loader:route_functions(config))
  C.mg_generation_routes(generation, build_routes(config, loader))
  local chains, started = build_chains(config, loader, generation)
  add_predicates(generation, config, chains.matches)
  local index_of = {}
  for i, route in ipairs(config.routes) do index_of[route.id] = i - 1 end
  for i, route in ipairs(config.routes) do
    if route.upstream then upstreams.add(generation, i - 1, route.upstream) end
    bodies.declare(generation, i - 1, chains[i].entries)
    local filters = concatenated(config.global_filters or {}, route.filters or {})
    if route.journal then add_journal(generation, i - 1, route.journal, filters) end
    local fallback = route.upstream and route.upstream.fallback
    if fallback then C.mg_generation_fallback(generation, i - 1, index_of[fallback]) end
  end
  if config.unrouted and config.unrouted.journal then add_journal(generation, -1, config.unrouted.journal) end
  chains.opaque = opaque_function(config, functions, chains.matches)
  chains.stop = stop_function(started)
  chains.release = handles_edits.release
  host.guards:finish()
  return chains
end


compile.build_routes, compile.TESTS = build_routes, TESTS -- for explain


return compile
