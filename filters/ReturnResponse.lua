--- ReturnResponse: answers at once, without an upstream. Response filters still run.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  status = { type = "integer", min = 200, max = 599, required = true, description = "status of the answer" },
  body = { type = "string", required = true, description = "body of the answer" },
  content_type = {
    type = "header_value", default = "text/plain; charset=utf-8", description = "type of the body",
  },
}

filter.answers = { status = "always" }
filter.examples = { { conf = { status = 200, body = "ok\n" } } }


function filter.init(conf)
  return { ["content-type"] = conf.content_type }
end


function filter.request(req, conf, headers)
  return req:respond(conf.status, conf.body, headers)
end


return filter
