--- RequireQueryParameter: turns away requests without a query parameter.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", min = 1, required = true, description = "name of the parameter, plain" },
  reject_status_code = {
    type = "integer", min = 200, max = 599, default = 400, description = "status of the refusal",
  },
}

filter.answers = { reject_status_code = "there is no such parameter" }
filter.examples = { { conf = { name = "page" } } }

local PLAIN = { ["content-type"] = "text/plain; charset=utf-8" }


function filter.init(conf)
  return ("The query parameter %s is missing.\n"):format(conf.name)
end


function filter.request(req, conf, refusal)
  if not req:has_query(conf.name) then return req:respond(conf.reject_status_code, refusal, PLAIN) end
end


return filter
