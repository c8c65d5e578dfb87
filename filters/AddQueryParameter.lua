--- AddQueryParameter: adds a parameter to the query on its way upstream; those of the same name stay.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", min = 1, required = true, description = "name of the parameter, plain" },
  value = { type = "string", required = true, description = "its value, plain; the gateway encodes it" },
}

filter.examples = { { conf = { name = "source", value = "gateway" } } }


function filter.request(req, conf)
  req:add_query(conf.name, conf.value)
end


return filter
