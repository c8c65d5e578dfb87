--- AddRequestHeader: adds a line to a header of the request on its way upstream; lines that are there stay.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "header_name", edits = "lines", required = true, description = "name of the header" },
  value = { type = "header_value", required = true, description = "value of the new line" },
}

filter.examples = { { conf = { name = "X-Served-For", value = "shop" } } }


function filter.request(req, conf)
  req:add_header(conf.name, conf.value)
end


return filter
