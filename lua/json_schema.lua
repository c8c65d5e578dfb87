--- json_schema.lua - `moongate schema`: what the schemas of both files and of all filters say, as JSON Schema 2020-12.
--
-- Editors complete and check with it. It is made from the tables that the gateway checks with, so it cannot lag behind;
-- what JSON Schema has no words for (bounds of durations, references between routes) is left to `moongate check`.
-- Owns: the translation.   May call: check, catalog, schema, routes_conf, server_conf, tailer_conf.
-- Never: refuse what the gateway takes, but for rare spellings such as a quoted number.

local catalog = require "moongate.catalog"
local check = require "moongate.check"
local ecma_pattern = require "moongate.ecma_pattern"
local predicates = require "moongate.predicates"
local routes_conf = require "moongate.routes_conf"
local sandbox = require "moongate.sandbox"
local schema = require "moongate.schema"
local server_conf = require "moongate.server_conf"
local suggest = require "moongate.suggest"

local json_schema = {}

local DONE, FAILED, USAGE = 0, 1, 2
local DRAFT = "https://json-schema.org/draft/2020-12/schema"
local HEADER_NAME = "^[A-Za-z0-9!#$%&'*+\\-.^_`|~]+$"

--- YAML does not tell the text 1.0 from the number; neither does the gateway.
local TEXT = { "string", "number", "boolean" }

local translate


local function ref(name)
  return { ["$ref"] = "#/$defs/" .. name }
end


--- A value of that form, or a variable that stands for one.
local function or_variable(form)
  return { anyOf = { form, ref "variable" } }
end


local types = {}


function types.string(spec)
  return {
    type = TEXT, pattern = spec.pattern and ecma_pattern(spec.pattern), maxLength = spec.max,
    minLength = spec.min and spec.min > 0 and 1 or nil, -- ours count bytes, those of JSON Schema characters
  }
end


function types.integer(spec)
  return or_variable { type = "integer", minimum = spec.min, maximum = spec.max }
end


function types.number(spec)
  return or_variable { type = "number", minimum = spec.min, maximum = spec.max }
end


function types.boolean()
  return or_variable { type = "boolean" }
end


function types.duration(spec)
  return or_variable { type = "string", pattern = spec.none and "^(\\d+(ms|s|m|h|d)|none)$" or "^\\d+(ms|s|m|h|d)$" }
end


function types.size(spec)
  local unit = "\\d+([kKmMgG]?[bB])?"
  return or_variable {
    anyOf = {
      { type = "string", pattern = spec.none and "^(" .. unit .. "|none)$" or "^" .. unit .. "$" },
      { type = "integer", minimum = 0 },
    },
  }
end


function types.header_name()
  return or_variable { type = "string", pattern = HEADER_NAME, maxLength = 256 }
end


function types.header_value()
  return { type = TEXT }
end


function types.regexp()
  return { type = TEXT }
end


function types.enum(spec)
  return or_variable { enum = spec.enum }
end


function types.any()
  return {}
end


--- A list; where its items are plain values, one of them may stand for a list of one.
function types.array(spec)
  local item = translate(spec.items or "any")
  local list = { type = "array", items = item, minItems = spec.min, maxItems = spec.max }
  local inner = schema.full(spec.items or "any")
  if inner.read or inner.type == "object" or inner.type == "any" then return list end
  return { anyOf = { list, item } }
end


local function map_form(spec)
  local pattern = spec.pattern and ecma_pattern(spec.pattern)
  return {
    type = "object", additionalProperties = translate(spec.items or "any"),
    propertyNames = pattern and { pattern = pattern },
  }
end


--- A map with known keys. Empty (null) stands for an empty map, so it is accepted where no key must be there.
local function object_form(spec)
  local properties, required = {}, {}
  for _, name in ipairs(suggest.names(spec.keys)) do
    local key = schema.full(spec.keys[name])
    properties[name] = translate(key)
    if key.required and key.default == nil then required[#required + 1] = name end
  end
  local must = #required > 0
  return {
    type = must and "object" or { "object", "null" }, properties = properties, additionalProperties = false,
    required = must and required or nil,
  }
end


function types.object(spec)
  return (spec.keys and object_form or map_form)(spec)
end


types.map = types.object


--- One schema as JSON Schema.
function translate(spec)
  spec = schema.full(spec)
  if type(spec.like) == "string" then return ref(spec.like) end
  if spec.like then return translate(spec.like) end
  local form = spec.enum and types.enum(spec) or types[spec.type](spec)
  form.description = spec.description or (spec.accepted and "accepted: " .. spec.accepted)
  if type(spec.default) ~= "table" then form.default = spec.default end
  return form
end


--- A condition of a route: a map of predicates and operators.
local function condition_form()
  local group = { anyOf = { { type = "array", items = ref "condition", minItems = 1 }, ref "condition" } }
  local properties = { ["and"] = group, ["or"] = group, ["not"] = group }
  for name, keys in pairs(predicates.KEYS) do
    properties[name] = object_form { keys = keys }
  end
  return { type = "object", properties = properties, additionalProperties = false, minProperties = 1 }
end


--- A filter: its name, or a map of its name to its options with what may stand beside it.
local function filter_form(filters)
  local names, properties = {}, {}
  for i, filter in ipairs(filters) do
    names[i] = filter.name
    local form = object_form { keys = filter.module.schema or {} }
    form.description = filter.sentence
    properties[filter.name] = form
  end
  for key, spec in pairs(routes_conf.FILTER_SIBLINGS) do properties[key] = translate(spec) end
  local map = { type = "object", properties = properties, additionalProperties = false, minProperties = 1 }
  return { anyOf = { { enum = names }, map } }
end


--- @param filters of catalog.read
function json_schema.routes(filters)
  local document = translate(routes_conf.SCHEMA)
  document["$schema"], document.title = DRAFT, "moongate: routes"
  document.description = "Routes are tried in order; the first whose match holds takes the request."
  document["$defs"] = {
    condition = condition_form(),
    match = { -- empty: never
      anyOf = { { type = "array", items = ref "condition" }, ref "condition", { type = "object", maxProperties = 0 } },
    },
    filter = filter_form(filters),
    variable = { type = "string", pattern = "\\$\\{", description = "${NAME} or ${NAME:default}" },
  }
  return document
end


local function settings_document(spec, title)
  local document = translate(spec)
  document["$schema"], document.title = DRAFT, title
  document["$defs"] = {
    variable = { type = "string", pattern = "\\$\\{", description = "${NAME} or ${NAME:default}" },
  }
  return document
end


function json_schema.server() return settings_document(server_conf.SCHEMA, "moongate: server") end


function json_schema.tailer()
  return settings_document(require("moongate.tailer_conf").schema(), "moongate: tailer")
end


local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n" }


local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end


--- JSON with two blanks for each level and keys in order, so that versions of it can be compared.
local function render(value, indent)
  local kind = type(value)
  if kind == "string" then return quoted(value) end
  if kind ~= "table" then return kind == "number" and ("%.14g"):format(value) or tostring(value) end
  local inner, parts = indent .. "  ", {}
  if value[1] ~= nil then
    for i, item in ipairs(value) do parts[i] = inner .. render(item, inner) end
    return "[\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "]"
  end
  for _, key in ipairs(suggest.names(value)) do
    parts[#parts + 1] = ("%s%s: %s"):format(inner, quoted(key), render(value[key], inner))
  end
  return #parts == 0 and "{}" or "{\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "}"
end


local WORDS = { routes = true, server = true, tailer = true, both = true, ["json-line"] = true }


--- The command: `moongate schema [routes|server|tailer|json-line]`; without a word the gateway's two files as one.
function json_schema.main(argv)
  local options, words = check.arguments(argv)
  local which = options and (words[1] or "both")
  if not options or #words > 1 or not WORDS[which] then
    io.stderr:write("moongate schema: takes routes, server, tailer or json-line, or nothing for the first two\n")
    return USAGE
  end
  sandbox.seal()
  local documents = {}
  if which == "json-line" then
    documents[which] = require "moongate.output_json_schema"
  elseif which == "tailer" then
    documents.tailer = json_schema.tailer()
  elseif which ~= "server" then
    local filters, unusable = catalog.read(options)
    for _, filter in ipairs(unusable) do
      io.stderr:write(("moongate schema: warning: filter %s is left out: %s\n"):format(filter.name, filter.why))
    end
    documents.routes = json_schema.routes(filters)
  end
  if which == "server" or which == "both" then documents.server = json_schema.server() end
  local written, why = io.stdout:write(render(documents[which] or documents, ""), "\n")
  if written then return DONE end
  io.stderr:write("moongate schema: ", why, "\n")
  return FAILED
end


return json_schema
