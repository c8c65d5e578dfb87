--- examples.lua - what a filter's table says about its use: `examples` and `answers`.
--
--   filter.answers  = { [429] = "no token is left", status = "always" }   -- a status, or the option that sets it
--   filter.examples = { {                                    -- the first one stands in the reference
--     conf = { header = "X-Tenant" },
--     request = { method = "GET", target = "/", headers = { ["X-Tenant"] = "acme" }, body = "" },
--     response = { status = 200, headers = {}, body = "ok" },                 -- the upstream's
--     expect = {                                             -- without it the example is not run
--       status = 200, headers = { ["X-Served-By"] = "a", Server = false }, body = "ok",     -- false: not there
--       upstream = { method = "GET", target = "/", headers = {}, body = "" },  -- false: not asked
--     },
--   } }
--
-- Owns: their form, and what is expected of a run. A filter that refuses the options of its own example, or does not do
-- what it says, is at fault.   May call: schema, test (where moongate_kit is there).   Never: print.

local schema = require "moongate.schema"
local suggest = require "moongate.suggest"
local tree = require "moongate.tree"

local examples = {}

local EXAMPLE = { conf = "table", request = "table", response = "table", expect = "table" }
local REQUEST = { method = "string", target = "string", headers = "table", body = "string" }
local RESPONSE = { status = "number", headers = "table", body = "string" }
local EXPECT = { status = "number", headers = "table", body = "string", upstream = "table" }


--- Whether a table holds nothing but what is known, in the right types. false may stand for "not there".
local function check_form(value, known, place, add)
  for _, key in ipairs(suggest.names(value)) do
    local wanted = known[key]
    if not wanted then
      add(("%s: unknown key %s%s"):format(place, key, suggest.hint(key, suggest.names(known))))
    elseif type(value[key]) ~= wanted and value[key] ~= false then
      add(("%s.%s is a %s, accepted: a %s"):format(place, key, type(value[key]), wanted))
    end
  end
end


local function check_messages(example, place, add)
  check_form(example, EXAMPLE, place, add)
  for key, known in pairs { request = REQUEST, response = RESPONSE, expect = EXPECT } do
    if type(example[key]) == "table" then check_form(example[key], known, place .. "." .. key, add) end
  end
  local upstream = type(example.expect) == "table" and example.expect.upstream
  if type(upstream) == "table" then check_form(upstream, REQUEST, place .. ".expect.upstream", add) end
end


--- Checks the options of one example as if they stood in a routes file.
local function check_conf(module, conf, place, add)
  local node, unfit = tree.from_lua(conf)
  if not node then return add(("%s holds %s"):format(place, unfit)) end
  local collector = { list = {} }
  function collector.add(self, _, path, message)
    self.list[#self.list + 1] = message
    add(("%s: %s"):format(path, message))
  end
  schema.check({ faults = collector }, node, { type = "object", keys = module.schema or {} }, place)
end


local function check_examples(module, add)
  for i, example in ipairs(module.examples or {}) do
    local place = ("examples[%d]"):format(i)
    if type(example) ~= "table" then
      add(("%s is a %s, accepted: a table with conf = { options }"):format(place, type(example)))
    else
      check_messages(example, place, add)
      if type(example.conf or {}) == "table" then check_conf(module, example.conf or {}, place .. ".conf", add) end
    end
  end
end


local function check_answers(module, add)
  for key, text in pairs(module.answers or {}) do
    local status = type(key) == "number" and key >= 100 and key <= 599
    if not status and not (module.schema and module.schema[key]) then
      add(("answers: %s is neither a status nor an option"):format(tostring(key)))
    elseif type(text) ~= "string" then
      add(("answers: %s is a %s, accepted: text"):format(tostring(key), type(text)))
    end
  end
end


--- Everything that is wrong with the examples and answers of a filter whose schema is right.
-- @param add function(message), called for every fault
function examples.check(module, add)
  if type(module.examples or {}) == "table" then check_examples(module, add) end
  if type(module.answers or {}) == "table" then check_answers(module, add) end
end


-- Running ---------------------------------------------------------------------------------------------------------


local function head_of(first, headers, body)
  local lines = { first }
  for _, name in ipairs(suggest.names(headers)) do
    local values = type(headers[name]) == "table" and headers[name] or { headers[name] }
    for _, value in ipairs(values) do lines[#lines + 1] = ("%s: %s"):format(name, tostring(value)) end
  end
  if body then lines[#lines + 1] = ("Content-Length: %d"):format(#body) end
  return table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
end


local function request_bytes(request)
  local headers, has_host = request.headers or {}, false
  for name in pairs(headers) do has_host = has_host or name:lower() == "host" end
  local first = ("%s %s HTTP/1.1"):format(request.method or "GET", request.target or "/")
  return head_of(has_host and first or first .. "\r\nHost: example.com", headers, request.body)
end


local function response_bytes(response)
  return head_of(("HTTP/1.1 %d Example"):format(response.status or 200), response.headers or {}, response.body or "ok")
end


--- Compares a message with what is expected of it. @param fields names of what stands in the message itself
local function compare(expected, message, fields, place, add)
  for _, field in ipairs(fields) do
    local wanted, got = expected[field], message[field]
    if wanted ~= nil and wanted ~= got then
      add(("%s%s: expected %s, got %s"):format(place, field, tostring(wanted), tostring(got)))
    end
  end
  for _, name in ipairs(suggest.names(expected.headers or {})) do
    local wanted, got = expected.headers[name], message:header(name)
    if wanted == false then wanted = nil end
    if got ~= (wanted and tostring(wanted)) then
      add(("%sheader %s: expected %s, got %s"):format(place, name, tostring(wanted or "none"), tostring(got or "none")))
    end
  end
end


local function compare_run(expected, result, add)
  if not result.response then return add("the client got no answer") end
  compare(expected, result.response, { "status", "body" }, "", add)
  if expected.upstream == false and result.upstream then add("upstream: expected not to be asked, but it was") end
  if not expected.upstream then return end
  if not result.upstream then return add("upstream: expected to be asked, but it was not") end
  compare(expected.upstream, result.upstream, { "method", "target", "body" }, "upstream: ", add)
end


--- Runs what a filter's examples say, in a real gateway on loopback sockets.
-- @param name of the filter; @param module its table; @param folder where the user's filters are
-- @param add function(message), called for everything that is not as an example says
function examples.run(name, module, folder, add)
  for i, example in ipairs(module.examples or {}) do
    if example.expect then
      local function failed(message)
        add(("examples[%d]: %s"):format(i, message))
      end
      local ok, result = pcall(require("moongate.test").run, {
        filter = name, conf = example.conf, folder = folder, request = request_bytes(example.request or {}),
        response = response_bytes(example.response or {}),
      })
      if ok then compare_run(example.expect, result, failed) else failed(tostring(result)) end
    end
  end
end


return examples
