--- RemoveRequestHeader: removes all lines of a header of the request on its way upstream.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "header_name", edits = "lines", required = true, description = "name of the header" },
}

filter.examples = { { conf = { name = "X-Debug" } } }


function filter.request(req, conf)
  req:remove_header(conf.name)
end


return filter
