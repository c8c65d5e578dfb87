--- tailer_conf.lua - tailer.yaml: where the journal is, where the checkpoint, and which outputs take the exchanges.
--
-- Owns: its keys, bounds and defaults; those of an output are the output's own.
-- May call: schema, yaml, tree, outputs.   Never: open an output.

local cjson = require "cjson"
local faults = require "moongate.faults"
local outputs = require "moongate.outputs"
local schema = require "moongate.schema"
local tree = require "moongate.tree"
local yaml = require "moongate.yaml"

local tailer_conf = {}

local DONE, FAILED = 0, 1
local ARCHIVED = { "warc", "json" } -- the outputs that have a section of their own


local function folder(default)
  return { type = "string", min = 1, max = 4000, pattern = "^%C+$", accepted = "a folder", default = default }
end


--- The options of a built-in output and whether it is wanted at all.
local function section(name)
  local keys = { enabled = { type = "boolean", default = true } }
  for key, spec in pairs(require("moongate.output_" .. name).options) do keys[key] = spec end
  return { type = "object", keys = keys, default = {} }
end


local SCHEMA


--- The whole file, as schema.lua has it.
function tailer_conf.schema()
  SCHEMA = SCHEMA or { type = "object", keys = {
    journal_dir = folder("/journals"),
    checkpoint_dir = folder("/checkpoints"),
    poll_interval = { type = "duration", min = "1ms", max = "1h", default = "1s",
      description = "how long a tailer sleeps at most before it looks by itself" },
    max_age = { type = "duration", min = "1s", max = "24d", default = "5m",
      description = "exchanges that take longer are delivered as incomplete" },
    max_open = { type = "integer", min = 1, max = 10000000, default = 250000,
      description = "exchanges under way; the oldest beyond are delivered as incomplete" },
    max_memory = { type = "size", min = "1mb", max = "64gb", default = "512mb",
      description = "what exchanges under way may hold; the oldest beyond are delivered as incomplete" },
    max_body = { type = "size", max = "1gb", default = "64mb", description = "what is kept of one body" },
    warc = section "warc",
    json = section "json",
    outputs = { type = "array", max = 16, default = {}, description = "further outputs, in order", items = {
      type = "object", keys = {
        output = { type = "string", required = true, pattern = "^[%w_%-]+$", accepted = "the name of an output" },
        options = { type = "map", items = "any", default = {} },
      },
    } },
  } }
  return SCHEMA
end


--- Options as one would write them again: an output reads them by its own schema.
local function as_written(values, keys)
  local written = {}
  for key, value in pairs(values) do
    local kind = key ~= "enabled" and schema.full(keys[key]).type
    if kind == "size" then
      written[key] = ("%db"):format(value)
    elseif kind == "duration" then
      written[key] = ("%dms"):format(value)
    elseif kind then
      written[key] = value
    end
  end
  return written
end


local function list_outputs(values, node, found)
  local list = {}
  for _, name in ipairs(ARCHIVED) do
    local options = values[name]
    if options.enabled then
      list[#list + 1] = { output = name, options = as_written(options, tailer_conf.schema().keys[name].keys) }
    end
  end
  for i, entry in ipairs(values.outputs) do
    local module, why = outputs.find(entry.output, ".")
    local _, fault = nil, why
    if module then _, fault = outputs.options(entry.output, module, entry.options) end
    if fault then found:add(node, ("outputs[%d]"):format(i - 1), fault) end
    list[#list + 1] = entry
  end
  if #list == 0 then found:add(node, "", "no output is enabled; accepted: warc, json, or outputs with at least one") end
  return list
end


--- Reads a tailer's file.
-- @param options.read path → bytes, or nil and why; @param options.getenv name → text or nil
-- @return its values with `outputs` as the list that is opened, or nil and a list of lines that say what is wrong
function tailer_conf.load(path, options)
  local found = faults.new(path)
  local text, why = options.read(path)
  if not text then
    found:add(nil, "", "cannot be read: " .. why)
    return nil, found:lines()
  end
  local node, fault = yaml.parse(text)
  if not node then
    found:add(fault.line and fault, "", fault.message)
    return nil, found:lines()
  end
  tree.interpolate(node, options.getenv, found)
  if tree.is_null(node) then node = { kind = "map", entries = {}, line = 1, column = 1 } end
  local values = schema.check({ faults = found, place = node }, node, tailer_conf.schema(), "")
  if values and not found:any() then values.outputs = list_outputs(values, node, found) end
  if found:any() then return nil, found:lines() end
  return values
end


local function read(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, (why:gsub("^.*: ", "")) end
  local text, failure = file:read("*a")
  file:close()
  if not text then return nil, (failure:gsub("^.*: ", "")) end
  return text
end


--- For `moongate tail --config FILE`. @param argv the file
-- @return an exit code and, when it is 0, a line per value: "name value"
function tailer_conf.main(argv)
  local values, lines = tailer_conf.load(argv[1], { read = read, getenv = os.getenv })
  if not values then
    io.stderr:write(table.concat(lines, "\n"), "\n")
    return FAILED
  end
  local told = {}
  for _, key in ipairs { "journal_dir", "checkpoint_dir" } do told[#told + 1] = key .. " " .. values[key] end
  for _, key in ipairs { "poll_interval", "max_age", "max_open", "max_memory", "max_body" } do
    told[#told + 1] = ("%s %d"):format(key, values[key])
  end
  told[#told + 1] = "outputs " .. cjson.encode(values.outputs)
  return DONE, table.concat(told, "\n") .. "\n"
end


return tailer_conf
