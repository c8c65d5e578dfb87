--- RequireRequestHeader: turns away requests without a header of the request.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "header_name", required = true, description = "name of the header" },
  reject_status_code = {
    type = "integer", min = 200, max = 599, default = 400, description = "status of the refusal",
  },
}

filter.answers = { reject_status_code = "there is no such header" }
filter.examples = { { conf = { name = "X-Api-Key", reject_status_code = 401 } } }

local PLAIN = { ["content-type"] = "text/plain; charset=utf-8" }


function filter.init(conf)
  return ("The header %s is missing.\n"):format(conf.name)
end


function filter.request(req, conf, refusal)
  if not req:has(conf.name) then return req:respond(conf.reject_status_code, refusal, PLAIN) end
end


return filter
