--- outputs.lua - the outputs of the journal: found by name, given their options, fed with one exchange at a time.
--
-- Owns: which modules there are and the order they are served in. What a module is: journal/README.md, "Outputs".
-- All of a set or nothing takes an exchange: when one fails, it and those before it take back what they made of it.
-- May call: the modules.   Never: let an error of theirs through to C.

local faults = require "moongate.faults"
local schema = require "moongate.schema"
local suggest = require "moongate.suggest"
local tree = require "moongate.tree"

local cjson = require "cjson"

local outputs = {}

local BUILT_IN = {
  combined = "moongate.output_combined", curl = "moongate.output_curl", har = "moongate.output_har",
  json = "moongate.output_json", raw = "moongate.output_raw", warc = "moongate.output_warc",
}
local CLOSED = "closed" -- what a module says when nobody reads any more


--- The names that are always there.
function outputs.names()
  return suggest.names(BUILT_IN)
end


local function readable(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end


local function from_file(name, path)
  local chunk, why = loadfile(path)
  if not chunk then return nil, ("output %s does not load: %s"):format(name, why) end
  local ok, module = pcall(chunk)
  if not ok then return nil, ("output %s does not load: %s"):format(name, tostring(module)) end
  return module
end


local function from_path(name)
  local full_name = "moongate.outputs." .. name
  local ok, module = pcall(require, full_name)
  if ok then return module end
  local missing = tostring(module):find(("module '%s' not found"):format(full_name), 1, true)
  if not missing then return nil, ("output %s does not load: %s"):format(name, tostring(module)) end
  return nil, ("unknown output %s%s; there is %s, and outputs/%s.lua or the Lua module %s would be taken"):format(name,
    suggest.hint(name, outputs.names()), table.concat(outputs.names(), ", "), name, full_name)
end


local function author_fault(module)
  if type(module) ~= "table" then return "it does not return a table" end
  for _, name in ipairs { "open", "write" } do
    if type(module[name]) ~= "function" then return "it has no function " .. name end
  end
  for _, name in ipairs { "undo", "flush", "close" } do
    if module[name] ~= nil and type(module[name]) ~= "function" then return name .. " is not a function" end
  end
  local fault
  schema.check_author(module.options or {}, function(path, message) fault = fault or path .. ": " .. message end)
  return fault
end


--- The module of an output. @param folder where outputs/NAME.lua is looked for
-- @return the module, or nil and one sentence
function outputs.find(name, folder)
  if not name:find("^[%w_%-]+$") then return nil, ("%s is not the name of an output"):format(name) end
  local path = ("%s/outputs/%s.lua"):format(folder, name)
  if BUILT_IN[name] then
    if not readable(path) then return require(BUILT_IN[name]) end
    return nil, ("%s has the name of a built-in output; call it something else"):format(path)
  end
  local module, why
  if readable(path) then
    module, why = from_file(name, path)
  else
    module, why = from_path(name)
  end
  if not module then return nil, why or ("output %s returns nothing"):format(name) end
  local fault = author_fault(module)
  if fault then return nil, ("output %s: %s"):format(name, fault) end
  return module
end


--- Options by the module's schema, defaults filled in; nil and every fault.
-- @param given as one would write them in YAML ("256mb", "15m")
function outputs.options(name, module, given)
  local collected = faults.new("output " .. name)
  local node, why = tree.from_lua(given or {})
  if not node then return nil, ("output %s: %s"):format(name, why) end
  if next(given or {}) == nil then node = { kind = "map", entries = {} } end
  local values = schema.check({ faults = collected }, node, { type = "object", keys = module.options or {} }, "")
  if collected:any() then return nil, table.concat(collected:lines(), "\n") end
  return values
end


--- An output with its options, or nil and what speaks against it before anything is opened.
local function prepare_one(entry, folder, bit_by_bit)
  local name = tostring(entry.output)
  local module, why = outputs.find(name, folder)
  if not module then return nil, why end
  if bit_by_bit and module.whole then
    return nil, ("output %s is whole only when it is closed, so it cannot be handed over bit by bit: use moongate "
      .. "journal find or cat with --format %s"):format(name, name)
  end
  local given = entry.options or {}
  if entry.command and not entry.to and not given.output_dir and module.in_folder and module.in_folder(given) then
    return nil, ("output %s writes files into a folder: name one, --output FOLDER"):format(name)
  end
  if entry.to then -- what --output means is the module's to say
    for key, value in pairs(module.to and module.to(entry.to) or { output = entry.to }) do given[key] = value end
  end
  local options
  options, why = outputs.options(name, module, given)
  if not options then return nil, why end
  return { name = name, module = module, options = options }
end


--- Opens what was prepared: true, or nil and why.
local function open_one(one)
  local ok, state, why = pcall(one.module.open, one.options)
  if not ok then return nil, ("output %s: %s"):format(one.name, tostring(state)) end
  if state == nil then return nil, ("output %s: %s"):format(one.name, tostring(why)) end
  one.state, one.bodies = state, not one.module.bodies or one.module.bodies(one.options)
  return true
end


--- What an output has failed with, named once: it may be the message of an archive that was to be written first.
local function message(one, why)
  local text = tostring(why)
  return text:find("^output [%w_%-]+: ") and text or ("output %s: %s"):format(one.name, text)
end


--- Calls a function of an output: true, or false and a message; false alone when nobody reads any more.
local function ask(one, what, argument)
  local run = one.module[what]
  if not run then return true end
  local ok, taken, why = pcall(run, one.state, argument)
  if ok and taken then return true end
  if ok and why == CLOSED then return false end
  return false, message(one, not ok and taken or why or "failed without a reason")
end


--- All of them, those that archive first; nil and a message.
local function prepare_all(list, folder, bit_by_bit)
  local prepared = {}
  for _, entry in ipairs(list) do
    local one, why = prepare_one(entry, folder, bit_by_bit)
    if not one then return nil, why end
    table.insert(prepared, one.module.archives and 1 or #prepared + 1, one)
  end
  return prepared
end


--- Opens them in that order; nil and a message, with those that were open closed again.
local function open_all(list, folder, bit_by_bit)
  local prepared, why = prepare_all(list, folder, bit_by_bit)
  if not prepared then return nil, why end
  for i, one in ipairs(prepared) do
    local opened
    opened, why = open_one(one)
    if not opened then
      for k = 1, i - 1 do ask(prepared[k], "close") end
      return nil, why
    end
  end
  return prepared
end


--- The functions that core/output.c calls, over a list of opened outputs and the exchange they all read.
local function set_of(list, exchange)
  local count = #list
  local set = { want_bodies = false }
  for _, one in ipairs(list) do set.want_bodies = set.want_bodies or one.bodies end
  if count > 1 and list[1].module.archives then
    function exchange.settle() return ask(list[1], "flush", false) end
  end

  function set.write()
    exchange.archive = false
    for i = 1, count do
      local one = list[i]
      local ok, taken, why = pcall(one.module.write, one.state, exchange)
      if not (ok and taken) then
        for k = i, 1, -1 do ask(list[k], "undo") end
        if ok and why == CLOSED then return false end
        return false, message(one, not ok and taken or why or "took no exchange")
      end
    end
    return true
  end

  --- Asks each; what is told is the first that failed. Those behind an archive that failed are not asked: they may
  -- name what is not there.
  local function each(what, argument)
    local all, first = true, nil
    for i = 1, count do
      local done, why = ask(list[i], what, argument)
      if not done then all, first = false, first or why end
      if not done and list[i].module.archives then break end
    end
    return all, first
  end

  function set.flush(durable) return each("flush", durable) end
  function set.close() return each("close") end
  return set
end


--- Opens a set. @param config JSON as in core/output.h; @param view the struct that C fills before each write
-- @param bit_by_bit an output that is nothing before it is closed is refused
-- @return { write, flush, close, want_bodies }, or nil and a message
function outputs.open(config, folder, view, bit_by_bit)
  local ok, list = pcall(cjson.decode, config)
  if not ok or type(list) ~= "table" or #list == 0 then return nil, "no output is named" end
  local opened, why = open_all(list, folder, bit_by_bit)
  if not opened then return nil, why end
  return set_of(opened, require("moongate.output_view").new(view))
end


return outputs
