--- SetStatus: changes the status that the client gets.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  status = { type = "integer", min = 200, max = 599, required = true, description = "the new status" },
}

filter.examples = { { conf = { status = 202 } } }


function filter.response(res, conf)
  res:set_status(conf.status)
end


return filter
