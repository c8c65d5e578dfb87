--- BasicAuth: lets only users with a password through; the hashes are bcrypt's, as `htpasswd -B` writes them.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  users = {
    type = "array", items = "string", min = 1, required = true, secret = true,
    description = "user:hash, the hash of bcrypt ($2a$, $2b$, $2x$ or $2y$)",
  },
  realm = { type = "string", default = "Secure Area", description = "what browsers show when they ask" },
  forward_credentials = {
    type = "boolean", default = false, description = "leave the Authorization header for the upstream",
  },
}

filter.answers = {
  [401] = "who asks is not one of the users, or has another password",
  [503] = "too many passwords are being checked",
}
filter.examples = { { conf = {
  users = { "ada:$2y$05$ORmD6YhJEd8PVBHhTsKtpeaTyMn5mexXbpc4Asq/Hts3/X1DaZDSW" },
  realm = "Back office",
} } }

local CACHE_ENTRIES_MAX = 1024
local CACHE_IDLE_SECONDS = 15 * 60
local TEXT = { ["content-type"] = "text/plain; charset=utf-8" }


-- Options ---------------------------------------------------------------------------------------------------------


--- The cost of a bcrypt hash, or nil and what is wrong with it. The hash itself is in no message.
local function cost_of(hash)
  local cost, rest = hash:match("^%$2[abxy]%$(%d%d)%$([%w./]+)$")
  if not cost then
    local kinds = hash:find("^%$apr1%$") or hash:find("^{") or hash:find("^%$%d%$")
    return nil, kinds and "is not of bcrypt, the only kind that is accepted (htpasswd -B)"
      or "is not user:hash with a hash of bcrypt"
  end
  if #rest ~= 53 then return nil, "has a hash that is cut short or too long" end
  cost = tonumber(cost, 10)
  if cost < 4 or cost > 31 then return nil, "has a cost outside of 4 to 31" end
  return cost
end


--- Hashes by user, and the highest cost.
local function read_users(list)
  local hashes, highest = {}, 4
  for i, entry in ipairs(list) do
    local place = ("users[%d] "):format(i - 1)
    local user, hash = entry:match("^([^:%c]+):(.*)$")
    if not user then error(place .. "is not user:hash", 0) end
    local cost, why = cost_of(hash)
    if not cost then error(place .. why, 0) end
    if hashes[user] then error(place .. "names a user for the second time", 0) end
    hashes[user] = hash
    highest = math.max(highest, cost)
  end
  return hashes, highest
end


function filter.init(conf)
  if conf.realm:find("[^\32-\126]") then error("realm holds characters that cannot be shown", 0) end
  local hashes, highest = read_users(conf.users)
  local realm = conf.realm:gsub("\\", "\\\\"):gsub('"', '\\"')
  return {
    hashes = hashes,
    -- What an unknown user's password is tried against, so that the answer takes as long as for a known one.
    dummy = ("$2b$%02d$%s"):format(highest, ("."):rep(53)),
    challenge = {
      ["content-type"] = TEXT["content-type"], ["www-authenticate"] = ('Basic realm="%s"'):format(realm),
    },
    used = {}, -- digest of credentials that were right → when they last came
    count = 0,
  }
end


-- Credentials that were right -------------------------------------------------------------------------------------


local function forget(state, key)
  state.used[key] = nil
  state.count = state.count - 1
end


local function is_remembered(state, key, now)
  local used = state.used[key]
  if not used then return false end
  if now - used > CACHE_IDLE_SECONDS then
    forget(state, key)
    return false
  end
  state.used[key] = now
  return true
end


local function remember(state, key, now)
  if not state.used[key] then
    if state.count >= CACHE_ENTRIES_MAX then
      local oldest
      for candidate, used in pairs(state.used) do
        if not oldest or used < state.used[oldest] then oldest = candidate end
      end
      forget(state, oldest)
    end
    state.count = state.count + 1
  end
  state.used[key] = now
end


-- Requests --------------------------------------------------------------------------------------------------------


--- True, false, or nil when the machine has too many passwords to hash.
local function verify(req, state, user, password)
  local key = moongate.sha256(user .. ":" .. password)
  if is_remembered(state, key, moongate.time()) then return true end
  local matches, busy = moongate.password_matches(req, password, state.hashes[user] or state.dummy)
  if busy then return nil end
  if not (matches and state.hashes[user]) then return false end
  remember(state, key, moongate.time())
  return true
end


--- What another filter has put in the header's place stays.
local function drop_credentials(req)
  if req:upstream_header("authorization") == req:header("authorization") then req:remove_header("authorization") end
end


function filter.request(req, conf, state)
  local user, password = moongate.basic_credentials(req)
  if not user then return req:respond(401, "authentication is required\n", state.challenge) end
  local right = verify(req, state, user, password)
  if right == nil then
    return req:respond(503, "too many logins at once\n", {
      ["content-type"] = TEXT["content-type"], ["retry-after"] = "1",
    })
  end
  if not right then return req:respond(401, "authentication is required\n", state.challenge) end
  req:set_attribute("gateway.auth.basic.user", user)
  if not conf.forward_credentials then drop_credentials(req) end
end


return filter
