--- RequireCookie: turns away requests without a cookie.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", pattern = "^[^%s%c;=,]+$", required = true, description = "name of the cookie" },
  reject_status_code = {
    type = "integer", min = 200, max = 599, default = 400, description = "status of the refusal",
  },
}

filter.answers = { reject_status_code = "there is no such cookie" }
filter.examples = { { conf = { name = "session", reject_status_code = 401 } } }

local PLAIN = { ["content-type"] = "text/plain; charset=utf-8" }


function filter.init(conf)
  return ("The cookie %s is missing.\n"):format(conf.name)
end


function filter.request(req, conf, refusal)
  if not req:has_cookie(conf.name) then return req:respond(conf.reject_status_code, refusal, PLAIN) end
end


return filter
