--- Cors: answers preflights and says on every answer which pages may read it (the CORS protocol of the Fetch standard).
-- A preflight is OPTIONS with Origin and Access-Control-Request-Method; every other OPTIONS goes upstream. An origin
-- that is not allowed gets no policy: the browser then keeps the answer from the page.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  allowed_origins = {
    type = "array", items = "string", min = 1, required = true,
    description = "origins such as https://app.example, a list or one text with commas; * is all",
  },
  allowed_methods = { type = "array", items = "string", description = "methods that preflights are told" },
  allowed_headers = { type = "array", items = "string", description = "request headers that preflights are told" },
  max_age = {
    type = "string", pattern = "^%d+%l*$", description = "how long a preflight's answer is good for: 30m, or seconds",
  },
  allow_credentials = { type = "boolean", default = false, description = "whether cookies may come along" },
}

filter.answers = { [204] = "to a preflight" }
filter.examples = { { conf = {
  allowed_origins = { "https://app.example" },
  allowed_methods = { "GET", "POST" },
  max_age = "30m",
} } }

local MILLISECONDS = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000, [""] = 1000 }


--- The words of a list whose items may hold several, with commas between them.
local function words_of(list)
  local words = {}
  for _, item in ipairs(list or {}) do
    for word in item:gmatch("[^,%s]+") do words[#words + 1] = word end
  end
  return words
end


local function seconds_of(text)
  local digits, unit = text:match("^(%d+)(%l*)$")
  local factor = MILLISECONDS[unit]
  if not factor then error(("max_age is %s; accepted: a duration such as 30m, or seconds"):format(text), 0) end
  return ("%d"):format(math.floor(tonumber(digits) * factor / 1000))
end


--- The headers that a preflight from an allowed origin is answered with, besides those of every answer.
local function policy_of(conf)
  local policy = {}
  local methods, headers = words_of(conf.allowed_methods), words_of(conf.allowed_headers)
  if #methods > 0 then policy["Access-Control-Allow-Methods"] = table.concat(methods, ", ") end
  if #headers > 0 then policy["Access-Control-Allow-Headers"] = table.concat(headers, ", ") end
  if conf.max_age then policy["Access-Control-Max-Age"] = seconds_of(conf.max_age) end
  return policy
end


function filter.init(conf)
  local state = { allowed = {}, policy = policy_of(conf) }
  for _, origin in ipairs(words_of(conf.allowed_origins)) do
    if origin == "*" then state.all = true end
    state.allowed[origin] = true
  end
  if next(state.allowed) == nil then error("allowed_origins names no origin", 0) end
  if state.all and conf.allow_credentials then
    error("allowed_origins * goes with allow_credentials: false only; name the origins", 0)
  end
  return state
end


--- The Origin of a request; several lines are none that could be allowed. Nil when there is none.
local function origin_of(req)
  local values = req:header_values("Origin")
  return #values > 0 and table.concat(values, ", ") or nil
end


local function is_allowed(state, origin)
  return state.all or state.allowed[origin] == true
end


function filter.request(req, _, state)
  if not req:has("Origin") or req:method() ~= "OPTIONS" or not req:has("Access-Control-Request-Method") then return end
  return req:respond(204, "", is_allowed(state, origin_of(req)) and state.policy or nil)
end


--- Says that the answer depends on Origin, beside what the upstream says that it depends on.
local function add_vary(res)
  local values = res:header_values("Vary")
  for _, value in ipairs(values) do
    for word in value:gmatch("[^,%s]+") do
      if word == "*" or word:lower() == "origin" then return end
    end
  end
  values[#values + 1] = "Origin"
  res:set_header("Vary", table.concat(values, ", "))
end


function filter.response(res, conf, state)
  if not state.all then add_vary(res) end
  local origin = origin_of(res:request())
  if not origin then return end
  local allowed = is_allowed(state, origin)
  if allowed then
    res:set_header("Access-Control-Allow-Origin", state.all and "*" or origin)
  else
    res:remove_header("Access-Control-Allow-Origin")
  end
  if allowed and conf.allow_credentials then
    res:set_header("Access-Control-Allow-Credentials", "true")
  else
    res:remove_header("Access-Control-Allow-Credentials")
  end
end


return filter
