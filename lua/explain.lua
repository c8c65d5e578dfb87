--- explain.lua - `moongate explain METHOD URL`: which route such a request takes, why not the ones before, what runs.
--
-- Owns: what a person is told. The request is read, and each predicate tested, by the C code that does so for traffic.
-- May call: check, compile, ffi.   Never: run a filter, open a connection.

local check = require "moongate.check"
local compile = require "moongate.compile"
local ffi = require "moongate.ffi"
local filter_loader = require "moongate.filter_loader"
local predicates = require "moongate.predicates"
local sandbox = require "moongate.sandbox"

local C = ffi.C
local explain = {}

local DONE, FAILED, USAGE = 0, 1, 2
local PEER = "127.0.0.1"
local VERDICTS = { [true] = "yes", [false] = "no", undecided = "?" }
local GROUPS = { ["and"] = "all of", ["or"] = "any of", ["not"] = "not" }


--- METHOD URL and -H 'Name: value'. @return { method, target, host, headers }, or nil and why
local function read_words(words)
  local plain, headers = {}, {}
  local i = 1
  while i <= #words do
    if words[i] == "-H" then
      i = i + 1
      local name, value = words[i]:match("^([^:]*):[ \t]*(.*)$")
      if not name then return nil, ("-H takes 'Name: value', not \"%s\""):format(words[i]) end
      headers[#headers + 1] = { name = name, value = value }
    else
      plain[#plain + 1] = words[i]
    end
    i = i + 1
  end
  if #plain ~= 2 then return nil, "takes a method and a URL: moongate explain GET http://example.com/path" end
  local scheme, authority, target = plain[2]:match("^(%a[%w+.-]*)://([^/?#]*)(.*)$")
  if scheme and scheme:lower() ~= "http" and scheme:lower() ~= "https" then
    return nil, ("takes an http:// or https:// URL or a path, not %s://"):format(scheme)
  end
  target = (target or plain[2]):gsub("#.*$", "")
  if not target:find("^[/*]") then target = "/" .. target end
  return { method = plain[1], target = target, host = authority or "localhost", headers = headers }
end


--- The request as it would arrive. A Host given with -H stands in place of the URL's.
local function head_of(request)
  local lines = { ("%s %s HTTP/1.1"):format(request.method, request.target) }
  local has_host = false
  for _, header in ipairs(request.headers) do
    has_host = has_host or header.name:lower() == "host"
    lines[#lines + 1] = ("%s: %s"):format(header.name, header.value)
  end
  if not has_host then table.insert(lines, 2, "Host: " .. request.host) end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end


local function limits_of(settings)
  local limits = ffi.new("struct mg_sample_limits")
  limits.line_bytes_max = settings["limits.max_request_line"]
  limits.head_bytes_max = settings["limits.max_header_size"]
  limits.header_count_max = settings["limits.max_header_count"]
  limits.entity_bytes_max = settings["limits.max_entity_size"]
  limits.refuse_encoded_slash = settings["http.encoded_slash_refused"] and 1 or 0
  return limits
end


local function fault_words(code)
  local status, word = ffi.new("int[1]"), ffi.new("const char *[1]")
  local sentence = ffi.string(C.mg_fault_text(code, status, word))
  return ("%d (%s): %s"):format(status[0], ffi.string(word[0]), sentence)
end


--- Reads the request by the gateway's rules. @return struct mg_sample; or nil and the refusal in words
local function sample_of(request, config, settings, client)
  local head = head_of(request)
  local sample = ffi.gc(C.mg_sample_new(head, #head), C.mg_sample_free)
  C.mg_sample_peer(sample, client, #client)
  for _, network in ipairs(settings["limits.trusted_proxies"] or {}) do C.mg_sample_trust(sample, network, #network) end
  for _, leaf in ipairs(config.opaques) do
    local test = compile.TESTS[leaf.test] or C.MG_DECIDE_FUNCTION
    local name, value = leaf.name or "", leaf.value or ""
    if C.mg_sample_predicate(sample, test, name, #name, value, #value) < 0 then
      error(("predicate %s cannot be compiled"):format(leaf.predicate), 0)
    end
  end
  local code = C.mg_sample_read(sample, limits_of(settings))
  if code < 0 then return nil, fault_words(code) end
  return sample
end


local function text_of(sample, which)
  local text = C.mg_sample_text(sample, which, ffi.length)
  return text ~= nil and ffi.string(text, ffi.length[0]) or ""
end


--- Puts every leaf of a match into a list, each as a route of its own, so that the route table can be asked about it.
local function collect_leaves(match, leaves)
  if match.op then
    for _, child in ipairs(match) do collect_leaves(child, leaves) end
  else
    leaves[#leaves + 1] = { id = tostring(#leaves), match = match }
  end
end


local function verdict(sample, routes, index)
  local result = C.mg_sample_test(sample, routes, index)
  if result < 0 then error(fault_words(result), 0) end
  if result == C.MG_SAMPLE_UNDECIDED then return "undecided" end
  return result == 1
end


--- What every leaf of a match says: leaf → true, false or "undecided".
local function leaf_verdicts(sample, match)
  local leaves, verdicts = {}, {}
  collect_leaves(match, leaves)
  local routes = ffi.gc(compile.build_routes { routes = leaves }, C.mg_routes_release)
  for i, leaf in ipairs(leaves) do verdicts[leaf.match] = verdict(sample, routes, i - 1) end
  return verdicts
end


--- What a part of a match says, given its leaves.
local function part_verdict(match, verdicts)
  if not match.op then return verdicts[match] end
  if match.op == "not" then
    local inner = part_verdict(match[1], verdicts)
    return inner == "undecided" and inner or not inner
  end
  local deciding, result = match.op == "or", match.op == "and"
  for _, child in ipairs(match) do
    local inner = part_verdict(child, verdicts)
    if inner == deciding then return deciding end
    if inner == "undecided" then result = inner end
  end
  return result
end


--- One line for each predicate, those of a group further to the right.
local function match_lines(add, match, verdicts, depth)
  local word = VERDICTS[part_verdict(match, verdicts)]
  local text = match.op and GROUPS[match.op] or predicates.words(match)
  add("%s%-4s%s", ("  "):rep(depth), word, text)
  for _, child in ipairs(match.op and match or {}) do match_lines(add, child, verdicts, depth + 1) end
end


local function route_lines(add, sample, route, said)
  add("  %-4s%s", VERDICTS[said], route.id)
  if not route.match then return add("      no  never: a route without match") end
  local verdicts = leaf_verdicts(sample, route.match)
  if route.match.op ~= "and" then return match_lines(add, route.match, verdicts, 3) end
  for _, child in ipairs(route.match) do match_lines(add, child, verdicts, 3) end
end


--- The functions of a filter that run for an exchange, in their order.
local function phases_of(loader, filter)
  local module, names = loader:module(filter), {}
  for _, phase in ipairs(filter_loader.PHASES) do
    local per_exchange = phase.name ~= "init" and phase.name ~= "stop"
    if per_exchange and module and module[phase.name] then names[#names + 1] = phase.name end
  end
  return table.concat(names, ", ")
end


local function filter_lines(add, loaded, route)
  local lists = { { loaded.config.global_filters, ", global" }, { route.filters, "" } }
  local count = 0
  for _, list in ipairs(lists) do
    for _, filter in ipairs(list[1]) do
      count = count + 1
      local kept = filter.on_error == "continue" and ", on_error continue" or ""
      add("  %-26s %s%s%s", filter.name, phases_of(loaded.loader, filter), kept, list[2])
    end
  end
  if count == 0 then add("  none") end
end


local function target_lines(add, route)
  local upstream = route.upstream
  if not upstream then return add("  none: a filter answers") end
  for _, target in ipairs(upstream.targets) do
    add("  %s%s", target.url, target.weight ~= 1 and (", weight %d"):format(target.weight) or "")
  end
  if #upstream.targets > 1 then add("  one of them by %s", upstream.strategy) end
  if upstream.fallback then add("  route %s while none is up", upstream.fallback) end
end


local function route_place(config, route)
  return route.line and ("%s:%d"):format(config.file, route.line) or config.file
end


--- Asks every route in order.
-- @return the first that matches, or nil; whether one before it is undecided; what the look-up of traffic gives
local function walk_routes(add, sample, config)
  local routes = ffi.gc(compile.build_routes(config), C.mg_routes_release)
  local undecided = false
  local outcome = C.mg_sample_find(sample, routes)
  for i, route in ipairs(config.routes) do
    local said = verdict(sample, routes, i - 1)
    route_lines(add, sample, route, said)
    if said == true then return route, undecided, outcome end
    undecided = undecided or said == "undecided"
  end
  return nil, undecided, outcome
end


--- The whole answer.
-- @param loaded of check.load; @param request of read_words; @param client the address that it comes from
-- @return text, and whether a route takes the request
local function describe(loaded, request, client)
  local lines = {}
  local function add(format, ...)
    lines[#lines + 1] = format:format(...)
  end
  local sample, refusal = sample_of(request, loaded.config, loaded.settings, client)
  add("%s %s", request.method, request.target)
  if not sample then
    add("refused before any route with %s", refusal)
    return table.concat(lines, "\n") .. "\n", false
  end
  add("  host    %s", text_of(sample, C.MG_SAMPLE_HOST))
  add("  path    %s", text_of(sample, C.MG_SAMPLE_PATH))
  add("  client  %s", text_of(sample, C.MG_SAMPLE_CLIENT))
  add("routes of %s, first match wins", loaded.config.file)
  local route, undecided, outcome = walk_routes(add, sample, loaded.config)
  if undecided then add("  ?   is decided by a function of the routes file, which only a real request can ask") end
  if not route then
    add("no route%s", undecided and ", unless one marked ? takes the request" or ": " .. fault_words(outcome))
    return table.concat(lines, "\n") .. "\n", false
  end
  add("%s %s (%s)", undecided and "route, if none above it takes the request," or "route", route.id,
    route_place(loaded.config, route))
  add("filters, in this order; on the answer in reverse")
  filter_lines(add, loaded, route)
  add("targets")
  target_lines(add, route)
  return table.concat(lines, "\n") .. "\n", true
end


local function complain(prefix, lines)
  for _, line in ipairs(lines) do io.stderr:write(prefix, line, "\n") end
end


local function is_address(text)
  local sample = ffi.gc(C.mg_sample_new("", 0), C.mg_sample_free)
  return C.mg_sample_peer(sample, text, #text) == 0
end


--- The command. @return 0 when a route takes the request; 1 when none does, or it or the configuration is refused
function explain.main(argv)
  local options, words = check.arguments(argv)
  local request, why
  if options then request, why = read_words(words) end
  local client = options and options["--client"] or PEER
  if request and not is_address(client) then
    request, why = nil, ("--client takes an IP address, not %s"):format(client)
  end
  if not request then
    complain("moongate explain: ", { why or words })
    return USAGE
  end
  sandbox.seal()
  local loaded, lines = check.load(options["--routes"] or check.default_routes(),
    options["--server"] or check.default_server())
  if not loaded then
    complain("", lines)
    return FAILED
  end
  local text, found = describe(loaded, request, client)
  io.stdout:write(text)
  return found and DONE or FAILED
end


return explain
