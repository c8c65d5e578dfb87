--- RewritePath: replaces what a regular expression finds in the path, everywhere in it, on the way upstream.
-- It works on the decoded path as the filters before it have left it, and the result is encoded again. A path that
-- could be read in more than one way (with a dot segment, say) is answered with 400.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  regexp = { type = "regexp", required = true, description = "what is looked for" },
  replacement = {
    type = "string", required = true,
    description = "what comes in its place: $1 or ${name} for a group, \\ before what is meant literally",
  },
}

filter.answers = { [400] = "the new path could be read in more than one way" }
filter.examples = { { conf = { regexp = "^/v1/(.*)$", replacement = "/api/$1" } } }


function filter.init(conf)
  local regex = assert(moongate.regex(conf.regexp))
  local replacement, why = regex:replacement(conf.replacement)
  if not replacement then error("replacement: " .. why, 0) end
  return { regex = regex, replacement = replacement }
end


function filter.request(req, _, state)
  local path, count = state.regex:replace(req:upstream_path(), state.replacement)
  if count == 0 then return end
  if not pcall(req.set_path, req, path) then
    return req:respond(400, "The rewritten path could be read in more than one way.\n",
      { ["content-type"] = "text/plain; charset=utf-8" })
  end
end


return filter
