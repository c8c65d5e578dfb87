--- RemoveRequestCookie: drops a cookie on its way upstream; the others stay.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", pattern = "^[^%s%c;=,]+$", required = true, description = "name of the cookie" },
}

filter.examples = { { conf = { name = "tracking" } } }


function filter.request(req, conf)
  req:remove_cookie(conf.name)
end


return filter
