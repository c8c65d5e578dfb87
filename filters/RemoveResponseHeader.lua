--- RemoveResponseHeader: removes all lines of a header of the answer.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "header_name", edits = "set", required = true, description = "name of the header" },
}

filter.examples = { { conf = { name = "X-Powered-By" } } }


function filter.response(res, conf)
  res:remove_header(conf.name)
end


return filter
