--- SimpleMetrics: accepted so that routes files that name it run unchanged. Every route is measured anyway: requests,
-- statuses, times and sizes are on the management port, with this filter and without it.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  period = { type = "duration", min = 1, default = "2m", description = "has no effect" },
  interval = { type = "duration", min = 1, default = "1s", description = "has no effect" },
}

filter.examples = { { conf = {} } }


function filter.init()
end


return filter
