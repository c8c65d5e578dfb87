--- upstreams.lua - the upstream of a route, from the canonical configuration into a generation.
--
-- Owns: the numbers that C has for strategies and hash keys.   May call: ffi.   Never: resolve a name, connect.

local ffi = require "moongate.ffi"

local C = ffi.C
local upstreams = {}

local PASSIVE = { failures = 5, within = 10000, down_for = 5000 } -- where a route says nothing of passive_health
local HASHES = { header = C.MG_HASH_HEADER, cookie = C.MG_HASH_COOKIE, query = C.MG_HASH_QUERY }
local STRATEGIES = { ROUND_ROBIN = 0, LEAST_REQUESTS = 1, CONSISTENT_HASH = 2 }


--- What CONSISTENT_HASH goes by: kind and name.
local function hash_key(hash_on)
  for name, kind in pairs(HASHES) do
    if hash_on and hash_on[name] then return kind, hash_on[name] end
  end
  return C.MG_HASH_CLIENT, ""
end


--- Gives a route of a generation its upstream.
-- @param index of the route, from 0; @param upstream of the canonical configuration
function upstreams.add(generation, index, upstream)
  local options = ffi.new("struct mg_upstream_options")
  options.strategy = STRATEGIES[upstream.strategy] or 0
  options.host = upstream.host == "target" and 1 or 0
  options.connect_ms = upstream.timeouts.connect
  options.read_ms = upstream.timeouts.read
  options.retries = upstream.retries or 0
  local passive = upstream.passive_health
  if passive then
    options.failures, options.failures_ms, options.down_for_ms = passive.failures, passive.within, passive.down_for
  else
    options.failures, options.failures_ms, options.down_for_ms = PASSIVE.failures, PASSIVE.within, PASSIVE.down_for
  end
  options.slow_start_ms = upstream.slow_start or 0
  options.connections_max = upstream.max_connections or 0
  options.queue_max = upstream.max_queue_size or -1
  local hash_kind, hash_name = hash_key(upstream.hash_on)
  options.hash_on = hash_kind
  C.mg_generation_upstream(generation, index, options, hash_name, #hash_name)
  for _, target in ipairs(upstream.targets) do
    local prefix = target.path_prefix or ""
    local added = C.mg_generation_target(generation, index, target.key, #target.key, target.authority,
      #target.authority, prefix, #prefix, target.weight or 1)
    if added < 0 then error("an upstream has too many targets", 0) end
  end
end


return upstreams
