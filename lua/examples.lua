--- examples.lua - what a filter's table says about its use: `examples` and `answers`.
--
--   filter.examples = { { conf = { capacity = 20 }, ... }, ... }    -- the first one stands in the reference
--   filter.answers  = { [429] = "no token is left", status = "always" }   -- a status, or the option that sets it
--
-- Owns: their form. An example whose options the filter itself would refuse is a fault of the filter.
-- Pure.

local schema = require "moongate.schema"
local tree = require "moongate.tree"

local examples = {}


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
    local conf = type(example) == "table" and (example.conf or {})
    if type(conf) ~= "table" then
      add(place .. " is not a table with conf = { options }")
    else
      check_conf(module, conf, place .. ".conf", add)
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


return examples
