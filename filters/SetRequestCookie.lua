--- SetRequestCookie: gives a cookie one value on its way upstream, whatever the client sent under that name.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", pattern = "^[^%s%c;=,]+$", required = true, description = "name of the cookie" },
  value = {
    type = "string", pattern = "^[^%c;]*$", required = true, secret = true, description = "its only value",
  },
}

filter.examples = { { conf = { name = "region", value = "eu" } } }


function filter.request(req, conf)
  req:set_cookie(conf.name, conf.value)
end


return filter
