--- SetQueryParameter: gives a query parameter one value on its way upstream; all that the client sent go.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", min = 1, required = true, description = "name of the parameter, plain" },
  value = { type = "string", required = true, description = "its only value, plain; the gateway encodes it" },
}

filter.examples = { { conf = { name = "page_size", value = "50" } } }


function filter.request(req, conf)
  req:set_query(conf.name, conf.value)
end


return filter
