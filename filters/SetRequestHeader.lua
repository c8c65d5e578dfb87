--- SetRequestHeader: replaces all lines of a header of the request on its way upstream.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "header_name", edits = "set", required = true, description = "name of the header" },
  value = { type = "header_value", required = true, description = "its only value" },
}

filter.examples = { { conf = { name = "X-Served-For", value = "shop" } } }


function filter.request(req, conf)
  req:set_header(conf.name, conf.value)
end


return filter
