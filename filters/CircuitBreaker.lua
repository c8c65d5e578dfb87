--- CircuitBreaker: after so many answers of 500 and above in a row it answers 503 itself, then lets one request try.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  failure_threshold = {
    type = "integer", min = 1, max = 1000000, required = true, description = "failures in a row",
  },
  cooldown_period = {
    type = "duration", min = "1ms", required = true, description = "how long nothing is let through",
  },
}

filter.answers = { [503] = "the circuit is open" }
filter.examples = { { conf = { failure_threshold = 5, cooldown_period = "30s" } } }


function filter.init(conf)
  return moongate.breaker { failures = conf.failure_threshold, cooldown = conf.cooldown_period }
end


function filter.request(req, conf, breaker)
  if breaker:enter(req) then return end
  return req:respond(503, "the circuit is open\n", {
    ["content-type"] = "text/plain; charset=utf-8",
    ["retry-after"] = ("%d"):format(math.ceil(conf.cooldown_period / 1000)),
  })
end


function filter.response(res, _, breaker)
  breaker:report(res)
end


--- What had no answer, or one that no response filter saw.
function filter.log(ex, _, breaker)
  breaker:report(ex)
end


return filter
