--- SetResponseCookie: adds a Set-Cookie line to the answer; those of the upstream stay.
local filter = { api = 1, version = "1.0.0" }

local PLAIN = "^[^%c;]*$" -- what cannot end the attribute that it stands in

filter.schema = {
  name = { type = "header_name", required = true, description = "name of the cookie" },
  value = { type = "string", pattern = PLAIN, required = true, secret = true, description = "its value, as it stands" },
  domain = { type = "string", pattern = PLAIN, min = 1, description = "hosts that get it back; absent: this one" },
  path = { type = "string", pattern = PLAIN, min = 1, description = "paths that get it back" },
  max_age = { type = "duration", description = "how long it is kept, in whole seconds; absent: the browser's session" },
  secure = { type = "boolean", default = true, description = "over TLS only" },
  http_only = { type = "boolean", default = true, description = "out of reach of scripts in the page" },
  same_site = {
    type = "string", pattern = "^%a+$", default = "Lax", description = "Strict, Lax or None, in any letter case",
  },
}

filter.examples = { { conf = { name = "seen", value = "1", max_age = "1h", same_site = "Strict" } } }

local SAME_SITE = { strict = "Strict", lax = "Lax", none = "None" }


function filter.init(conf)
  local same_site = SAME_SITE[conf.same_site:lower()]
  if not same_site then error(("same_site is %s; accepted: Strict, Lax, None"):format(conf.same_site), 0) end
  if same_site == "None" and not conf.secure then
    error("same_site None needs secure: true; browsers refuse the cookie otherwise", 0)
  end
  local line = { ("%s=%s"):format(conf.name, conf.value) }
  if conf.domain then line[#line + 1] = "Domain=" .. conf.domain end
  if conf.path then line[#line + 1] = "Path=" .. conf.path end
  if conf.max_age then line[#line + 1] = ("Max-Age=%d"):format(math.floor(conf.max_age / 1000)) end
  if conf.secure then line[#line + 1] = "Secure" end
  if conf.http_only then line[#line + 1] = "HttpOnly" end
  line[#line + 1] = "SameSite=" .. same_site
  return table.concat(line, "; ")
end


function filter.response(res, _, line)
  res:add_header("Set-Cookie", line)
end


return filter
