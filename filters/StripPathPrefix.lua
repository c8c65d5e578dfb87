--- StripPathPrefix: drops the first segments of the path that goes upstream; with too few of them, "/" is left.
-- It works on the path as the filters before it have left it.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  parts = { type = "integer", min = 1, required = true, description = "how many segments to drop" },
}

filter.examples = { { conf = { parts = 1 } } }


--- Where the path begins that is left of `path` without its first `parts` segments, or nil when nothing is left.
local function rest_of(path, parts)
  local at = 1
  for _ = 1, parts do
    at = path:find("/", at + 1, true)
    if not at then return nil end
  end
  return at
end


function filter.request(req, conf)
  local path = req:upstream_path()
  local at = rest_of(path, conf.parts)
  req:set_path(at and path:sub(at) or "/")
end


return filter
