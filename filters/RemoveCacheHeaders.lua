--- RemoveCacheHeaders: makes the upstream answer in full: no conditions of the client's, and no answer from a cache.
local filter = { api = 1, version = "1.0.0", schema = {} }

filter.examples = { { conf = {} } }


function filter.request(req)
  req:remove_header("If-Modified-Since")
  req:remove_header("If-None-Match")
  req:set_header("Cache-Control", "no-cache")
  req:set_header("Pragma", "no-cache")
end


return filter
