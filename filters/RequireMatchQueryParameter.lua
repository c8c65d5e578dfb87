--- RequireMatchQueryParameter: turns away requests without a query parameter whose every value matches as a whole.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  name = { type = "string", min = 1, required = true, description = "name of the parameter, plain" },
  regexp = { type = "regexp", required = true, secret = true, description = "what each value must match" },
  reject_status_code = {
    type = "integer", min = 200, max = 599, default = 400, description = "status of the refusal",
  },
}

filter.answers = { reject_status_code = "there is no such parameter, or one that does not match" }
filter.examples = { { conf = { name = "page", regexp = "[0-9]+" } } }

local PLAIN = { ["content-type"] = "text/plain; charset=utf-8" }


function filter.init(conf)
  return {
    regex = assert(moongate.regex(conf.regexp, { whole = true })),
    refusal = ("The query parameter %s is missing or not as required.\n"):format(conf.name),
  }
end


function filter.request(req, conf, state)
  if not req:query_matches(conf.name, state.regex) then
    return req:respond(conf.reject_status_code, state.refusal, PLAIN)
  end
end


return filter
