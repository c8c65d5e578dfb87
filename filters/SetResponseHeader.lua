--- SetResponseHeader: replaces all lines of a header of the answer.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "header_name", edits = "set", required = true, description = "name of the header" },
  value = { type = "header_value", required = true, description = "its only value" },
}

filter.examples = { { conf = { name = "Cache-Control", value = "no-store" } } }


function filter.response(res, conf)
  res:set_header(conf.name, conf.value)
end


return filter
