--- guards.lua - limiters and breakers: what filters ask for in `init`, the names they share it under, their methods.
--
-- A filter calls moongate.limiter{...} or moongate.breaker{...} in its init. The builder notes what is wanted (a line
-- each in the bundle's section `states`), the master makes room, a worker finds it by the same name: the route, the
-- filter's name, the how manieth of that name, and a digest of the options. A reload that changes none of these goes on
-- counting where it was.
-- Owns: the names, the methods of both handles.   May call: ffi, suggest.   Never: count anything itself.

local ffi = require "moongate.ffi"
local suggest = require "moongate.suggest"

local C = ffi.C
local guards = {}

local SOURCES = {
  client_address = C.MG_KEY_CLIENT, header = C.MG_KEY_HEADER, cookie = C.MG_KEY_COOKIE, query = C.MG_KEY_QUERY,
  attribute = C.MG_KEY_ATTRIBUTE,
}

--- What each kind is made with, in the order in which the bundle has it.
local OPTIONS = {
  limiter = { "capacity", "refill_tokens", "period", "ttl", "buckets", "ipv6_prefix" },
  breaker = { "failures", "cooldown" },
}

--- What an option is that a filter leaves out; the others it must give.
local DEFAULTS = {
  limiter = {
    refill_tokens = function(given) return given.capacity end, period = function() return 1000 end,
    ttl = function(given) return math.max(math.ceil(given.capacity / given.refill_tokens) * given.period, 30000) end,
    buckets = function() return 10000 end, ipv6_prefix = function() return 64 end,
  },
  breaker = { failures = function() return 5 end, cooldown = function() return 30000 end },
}

local limiter = {}
local breaker = {}


local function check(code, what)
  if code >= 0 then return code end
  error(("%s: %s"):format(what, code == C.MG_LUA_GONE and "the exchange has ended; a handle may not be kept"
    or code == C.MG_LUA_NOMEM and "this exchange may not use more memory" or "not possible in this phase"), 3)
end


--- Takes a token for the request's key: an attribute `rate_limit_key` that an earlier filter has set, else what source
-- ("header", "cookie", "query", "attribute") and name say, else and where that is absent the client's address.
-- @return 0, or the seconds until there will be one
-- @phases request
function limiter:take(req, source, name)
  name = name or ""
  return check(C.mg_request_take_token(req, self, SOURCES[source] or C.MG_KEY_CLIENT, name, #name), "take")
end


--- Sets X-RateLimit-Limit and X-RateLimit-Remaining on an answer whose request took a token or was refused one.
-- @phases response
function limiter:show(res)
  check(C.mg_response_show_tokens(res, self), "show")
end


--- True if the request may go on; its outcome must be told with report.
-- @phases request
function breaker:enter(req)
  return check(C.mg_request_enter(req, self), "enter") == 1
end


--- Tells the outcome, by the status of the answer; in `log`, what has not been told before. Requests that were refused,
-- and a second time, change nothing.
-- @phases response, log
function breaker:report(handle)
  check(C.mg_exchange_report(ffi.exchange_of(handle, "report"), self), "report")
end


ffi.metatype("struct mg_limiter", { __index = limiter, __metatable = false })
ffi.metatype("struct mg_breaker", { __index = breaker, __metatable = false })


--- One way of writing options down, whatever order they come in.
local function spelled(options)
  local keys, parts = {}, {}
  for key in pairs(options) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = ("%s=%.17g"):format(key, options[key]) end
  return table.concat(parts, " ")
end


local function digest(text)
  local out = ffi.new("char[65]")
  C.mg_digest(text, #text, out)
  return ffi.string(out)
end


local Guards = {}
Guards.__index = Guards


--- @param generation the struct mg_generation that a worker builds; nil in the builder, where filters get nil and only
-- the list of what they want is kept
function guards.new(generation)
  return setmetatable({ generation = generation, counts = {}, lines = {}, places = {} }, Guards)
end


--- The calls of one filter's init follow. @param scope the route's id, or "<global>"; @param position in the chain
function Guards:enter(scope, filter_name, position)
  local place = scope .. "\0" .. filter_name
  self.counts[place] = (self.counts[place] or 0) + 1
  self.place = ("%s\0%d"):format(place, self.counts[place])
  self.calls = 0
  self.where = { scope = scope, filter = filter_name, position = position }
end


function Guards:leave()
  self.place = nil
end


--- Everything is loaded: what comes now are requests.
function Guards:finish()
  self.finished = true
end


--- True until everything is loaded.
function Guards:is_loading()
  return not self.finished
end


--- True while a filter's init runs.
function Guards:in_init()
  return self.place ~= nil
end


--- What workers share under a name of its own, or nil in the builder.
function Guards:want(kind, options, size, make)
  if not self.place then error(("moongate.%s: only in init"):format(kind), 4) end
  self.calls = self.calls + 1
  local name = digest(table.concat({ kind, self.place, self.calls, spelled(options) }, "\0"))
  self.lines[#self.lines + 1] = ("%s %.0f\n"):format(name, size)
  local values = {}
  for i, key in ipairs(OPTIONS[kind]) do values[i] = ("%.17g"):format(options[key]) end
  self.places[#self.places + 1] = ("%s %s %d %s %s\t%s\n"):format(kind, name, self.where.position, self.where.filter,
    table.concat(values, " "), self.where.scope)
  if not self.generation then return nil end
  local guard = make(self.generation, name)
  if guard == nil then error(("moongate.%s: no shared memory was made for it"):format(kind), 4) end
  return guard
end


--- The options of a kind: those that are given, the others by default.
local function numbers(options, kind)
  if type(options) ~= "table" then error(("moongate.%s: takes a table of options"):format(kind), 4) end
  local values, known = {}, {}
  for _, name in ipairs(OPTIONS[kind]) do
    local value, default = options[name], DEFAULTS[kind][name]
    if value == nil and default then value = default(values) end
    if type(value) ~= "number" or not (value > 0 or value == 0 and name == "cooldown") or value == math.huge then
      error(("moongate.%s: %s must be a number above 0"):format(kind, name), 4)
    end
    values[name], known[name] = value, true
  end
  for name in pairs(options) do
    if not known[name] then
      error(("moongate.%s: unknown option %s%s"):format(kind, tostring(name),
        suggest.hint(tostring(name), OPTIONS[kind])), 4)
    end
  end
  return values
end


local KINDS = {}


--- A set of token buckets that all workers share: { capacity, refill_tokens, period (ms), ttl (ms), buckets,
-- ipv6_prefix }.
function KINDS.limiter(self, options)
  local given = numbers(options, "limiter")
  local in_c = ffi.new("struct mg_limiter_options", {
    capacity = given.capacity, refill_tokens = given.refill_tokens, period_ms = given.period, ttl_ms = given.ttl,
    buckets = given.buckets, ipv6_prefix = given.ipv6_prefix,
  })
  local size = C.mg_limiter_size(in_c)
  if size == 0 then
    error("a token comes more often than once in a nanosecond, or a bucket takes some years to fill", 3)
  end
  local made = self:want("limiter", given, size, function(generation, name)
    return C.mg_generation_limiter(generation, name, in_c)
  end)
  return made -- no tail call: an error names the line of the filter by counting functions
end


--- A circuit breaker that all workers share: { failures (in a row), cooldown (ms) }.
function KINDS.breaker(self, options)
  local given = numbers(options, "breaker")
  local in_c = ffi.new("struct mg_breaker_options", { cooldown_ms = given.cooldown, failures = given.failures })
  local made = self:want("breaker", given, C.mg_breaker_size(), function(generation, name)
    return C.mg_generation_breaker(generation, name, in_c)
  end)
  return made
end


--- moongate.limiter or moongate.breaker, for filters' init.
function Guards:maker(kind)
  return function(options)
    local made = KINDS[kind](self, options)
    return made
  end
end


--- The bundle's section `states`.
function Guards:text()
  return table.concat(self.lines)
end


--- The bundle's section `guards`: for each what it is, where it stands and what it was made with (core/components.h).
function Guards:list()
  return table.concat(self.places)
end


return guards
