--- AddResponseHeader: adds a line to a header of the answer; lines that are there stay.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "header_name", edits = "set", required = true, description = "name of the header" },
  value = { type = "header_value", required = true, description = "value of the new line" },
}

filter.examples = { { conf = { name = "Vary", value = "Accept" } } }


function filter.response(res, conf)
  res:add_header(conf.name, conf.value)
end


return filter
