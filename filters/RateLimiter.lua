--- RateLimiter: a token bucket for each client, shared by all workers; without a token the answer is 429.
local filter = { api = 1, version = "1.0.0" }

local TTL_MIN = 30000

filter.schema = {
  capacity = { type = "integer", min = 1, required = true, description = "tokens that a full bucket holds" },
  refill_tokens = { type = "integer", min = 1, required = true, description = "tokens that come in one refill_period" },
  refill_period = { type = "duration", min = "1ms", required = true, description = "they come evenly spread over it" },
  max_buckets = { type = "integer", min = 1, max = 2000000, default = 10000, description = "clients to keep count of" },
  max_bucket_ttl = {
    type = "duration", min = "1s",
    description = "a client unseen for so long begins anew; default: the time to fill a bucket",
  },
  ipv6_prefix_length = {
    type = "integer", min = 1, max = 128, default = 64, description = "IPv6 clients that share one",
  },
  key = {
    type = "object",
    keys = {
      client_address = "boolean",
      header = "header_name",
      cookie = { type = "string", min = 1 },
      query = { type = "string", min = 1 },
      attribute = { type = "string", min = 1 },
    },
    description = "what tells clients apart; where a request lacks it, and by default, its address",
  },
}

filter.answers = { [429] = "no token is left" }
filter.examples = { { conf = {
  capacity = 20,
  refill_tokens = 10,
  refill_period = "1s",
  key = { header = "X-Api-Key" },
} } }


--- The kind and name of the key. An attribute `rate_limit_key` goes before either.
local function read_key(key)
  local source, name, count = nil, nil, 0
  for kind, value in pairs(key or {}) do
    if value then source, name, count = kind, value, count + 1 end
  end
  if count > 1 then error("key: only one of client_address, header, cookie, query and attribute can be given", 0) end
  if source == "client_address" then name = nil end
  return source, name
end


function filter.init(conf)
  local source, name = read_key(conf.key)
  local time_to_fill = math.ceil(conf.capacity / conf.refill_tokens) * conf.refill_period
  local limiter = moongate.limiter {
    capacity = conf.capacity, refill_tokens = conf.refill_tokens, period = conf.refill_period,
    ttl = conf.max_bucket_ttl or math.max(time_to_fill, TTL_MIN), buckets = conf.max_buckets,
    ipv6_prefix = conf.ipv6_prefix_length,
  }
  return { limiter = limiter, source = source, name = name }
end


function filter.request(req, _, state)
  local wait = state.limiter:take(req, state.source, state.name)
  if wait > 0 then
    return req:respond(429, "too many requests\n", {
      ["content-type"] = "text/plain; charset=utf-8", ["retry-after"] = ("%d"):format(math.floor(wait) + 1),
    })
  end
end


function filter.response(res, _, state)
  state.limiter:show(res)
end


return filter
