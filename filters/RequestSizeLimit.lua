--- RequestSizeLimit: answers requests with 413 whose body is larger. An announced length is looked at before anything
-- is sent; a body without one is counted as it passes, and the upstream then sees its request broken off.
-- limits.max_entity_size of server.yaml holds besides.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  max_size = { type = "size", min = 1, required = true, description = "bytes that a body may have" },
}

filter.answers = { [413] = "the body is larger" }
filter.examples = { { conf = { max_size = "1mb" } } }

local PLAIN = { ["content-type"] = "text/plain; charset=utf-8" }


function filter.request(req, conf)
  if not req:limit_body(conf.max_size) then return req:respond(413, "The request body is too large.\n", PLAIN) end
end


return filter
