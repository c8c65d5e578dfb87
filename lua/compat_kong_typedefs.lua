--- compat_kong_typedefs.lua - `require "kong.db.schema.typedefs"` of a Kong plugin's schema: types of options.
--
-- Runs in a filter's sandbox. What is about Kong's own entities (consumers, protocols) stands beside `config` and is
-- not looked at. Pure.

local TOKEN = "^[%w!#$%%&'*+%-.^_`|~]+$"

local typedefs = {
  no_consumer = {}, no_route = {}, no_service = {}, no_consumer_group = {}, protocols = {}, protocols_http = {},
  header_name = { type = "string", match = TOKEN },
  http_method = { type = "string", match = "^%u+$" },
  host = { type = "string", match = "^[%w%-_%.:%[%]]+$" },
  path = { type = "string", match = "^/" },
  url = { type = "string", match = "^%a[%w+.%-]*://[^%s]+$" },
  port = { type = "integer", between = { 0, 65535 } },
  timeout = { type = "integer", between = { 0, 2147483646 } },
}

--- `typedefs.port { default = 80 }` is the type with more words. A wrong name is an error, not a type that takes all.
local with_words = {
  __call = function(base, words)
    local spec = {}
    for word, value in pairs(base) do spec[word] = value end
    for word, value in pairs(words) do spec[word] = value end
    return spec
  end,
}
for _, spec in pairs(typedefs) do setmetatable(spec, with_words) end

return setmetatable(typedefs, {
  __index = function(_, name)
    error(("typedefs.%s is not offered by moongate.compat.kong"):format(tostring(name)), 2)
  end,
})
