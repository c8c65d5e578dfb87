--- InjectBasicAuth: gives the request a user and a password for the upstream, in place of what the client sent.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  username = {
    type = "string", pattern = "^[^%c:]*$", required = true, description = "name of the user, without a colon",
  },
  password = { type = "string", pattern = "^%C*$", required = true, secret = true, description = "the password" },
}

filter.examples = { { conf = { username = "gateway", password = "${UPSTREAM_PASSWORD}" } } }

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


--- Base 64 (RFC 4648, 4).
local function encode(text)
  local out = {}
  for at = 1, #text, 3 do
    local a, b, c = text:byte(at, at + 2)
    local bits = a * 65536 + (b or 0) * 256 + (c or 0)
    for place = 1, 4 do
      local index = math.floor(bits / 64 ^ (4 - place)) % 64
      local missing = (place == 3 and not b) or (place == 4 and not c)
      out[#out + 1] = missing and "=" or ALPHABET:sub(index + 1, index + 1)
    end
  end
  return table.concat(out)
end


function filter.init(conf)
  return "Basic " .. encode(conf.username .. ":" .. conf.password)
end


function filter.request(req, _, credentials)
  req:set_header("Authorization", credentials)
end


return filter
