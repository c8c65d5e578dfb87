--- RemoveQueryParameter: removes every query parameter of a name on its way upstream.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", min = 1, required = true, description = "name of the parameter, plain" },
}

filter.examples = { { conf = { name = "utm_source" } } }


function filter.request(req, conf)
  req:remove_query(conf.name)
end


return filter
