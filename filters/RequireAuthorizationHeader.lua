--- RequireAuthorizationHeader: turns away requests whose Authorization begins with neither "Bearer " nor "Basic ".
-- What follows is not looked at: that is for the upstream to check.
local filter = { api = 1, version = "1.0.0", schema = {} }

filter.answers = { [401] = "there is no such Authorization" }
filter.examples = { { conf = {} } }

local PLAIN = { ["content-type"] = "text/plain; charset=utf-8" }


function filter.request(req)
  local value = req:header("Authorization")
  if value and (value:sub(1, 7) == "Bearer " or value:sub(1, 6) == "Basic ") then return end
  return req:respond(401, "Authorization is missing.\n", PLAIN)
end


return filter
