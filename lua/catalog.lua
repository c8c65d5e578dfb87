--- catalog.lua - `moongate filters`: which filters are found, where, and what they take.
--
-- Owns: how a filter describes itself (its table and the comment at the top of its file) and how that is printed.
-- May call: check, filter_loader, schema.   Never: run a filter's functions.

local check = require "moongate.check"
local filter_loader = require "moongate.filter_loader"
local sandbox = require "moongate.sandbox"
local schema = require "moongate.schema"
local suggest = require "moongate.suggest"

local catalog = {}

local DONE, FAILED, USAGE = 0, 1, 2


--- The comment at the top of a file, as one text without the file's name.
local function top_comment(source, name)
  local lines = {}
  for line in (source .. "\n"):gmatch("(.-)\n") do
    local text = line:match("^%-%-%-?%s?(.*)$")
    if text then
      lines[#lines + 1] = text
    elseif line ~= "" or #lines > 0 then
      break
    end
  end
  local text = table.concat(lines, " "):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
  local title, behind = text:match("^(%S-):? [%-%s]*()")
  if title == name or title and title:match("[^/]*$") == name .. ".lua" then text = text:sub(behind) end
  return (text:gsub("^%l", string.upper))
end


--- The first sentence of a text: up to a full stop that a capital or the end follows.
local function first_sentence(text)
  return text:match("^(.-%.) %u") or text
end


local function place_of(loader, path)
  local embedded = path:match("^embedded:")
  return embedded and "built in" or loader:shown(path)
end


local function describe(loader, name)
  local path, source = loader:find(name)
  if not path then return nil, source end
  local module, why = loader:load(name)
  if not module then return nil, why end
  local text = module.description or top_comment(source, name)
  return {
    name = name, module = module, place = place_of(loader, path), text = text, sentence = first_sentence(text),
  }
end


--- Every filter that the configuration could name, sorted.
-- @param options of check.arguments; with --markdown the built-in ones alone
-- @return list of filters, and list of { name, why } for those that cannot be used
function catalog.read(options)
  local routes = options["--routes"] or check.default_routes()
  local loading = check.options()
  loading.folder = (routes:match("^(.*/)[^/]*$") or "") .. "filters"
  if options["--markdown"] then loading.folder, loading.search = nil, {} end
  local loader = filter_loader.new(loading)
  local filters, unusable = {}, {}
  for _, name in ipairs(loader:names()) do
    local filter, why = describe(loader, name)
    if filter then
      filters[#filters + 1] = filter
    else
      unusable[#unusable + 1] = { name = name, why = why }
    end
  end
  return filters, unusable
end


--- The functions of a filter, in the order of filter_loader.PHASES.
local function functions_of(filter)
  local names = {}
  for _, phase in ipairs(filter_loader.PHASES) do
    if filter.module[phase.name] then names[#names + 1] = phase.name end
  end
  return names
end


local TYPES = {
  duration = "a duration such as 30s", size = "a size such as 32kb", regexp = "a regular expression",
  header_name = "a header name", header_value = "text", string = "text",
}


local function bounds_of(spec)
  local unit = spec.type == "string" and " bytes" or ""
  if spec.min and spec.max then return (", %s to %s%s"):format(spec.min, spec.max, unit) end
  if spec.type == "string" and spec.min == 1 then return ", not empty" end
  if spec.min then return (", at least %s%s"):format(spec.min, unit) end
  return spec.max and (", at most %s%s"):format(spec.max, unit) or ""
end


--- What an option takes, in one phrase.
local function type_words(spec)
  spec = schema.full(spec)
  if spec.items and not spec.keys then
    return ("%s, each %s"):format(spec.type == "array" and "a list" or "a map", type_words(spec.items))
  end
  local short = not (spec.enum or spec.accepted or spec.pattern) and TYPES[spec.type]
  return short and short .. bounds_of(spec) or schema.accepted(spec)
end


--- Options as { name, type, note, description }, those inside a map behind it with a dotted name.
local function options_of(keys, prefix, list)
  list = list or {}
  for _, name in ipairs(suggest.names(keys or {})) do
    local spec = schema.full(keys[name])
    local note = spec.required and "required" or ""
    if spec.default ~= nil and type(spec.default) ~= "table" then note = "default " .. tostring(spec.default) end
    list[#list + 1] = {
      name = (prefix or "") .. name, type = type_words(spec), note = note, description = spec.description or "",
    }
    if spec.keys then options_of(spec.keys, (prefix or "") .. name .. ".", list) end
  end
  return list
end


local function answers_of(filter)
  local statuses = {}
  for status in pairs(filter.module.answers or {}) do statuses[#statuses + 1] = status end
  table.sort(statuses, function(a, b) return tostring(a) < tostring(b) end)
  local lines = {}
  for i, status in ipairs(statuses) do lines[i] = { tostring(status), filter.module.answers[status] } end
  return lines
end


--- What a filter declares that it reaches beyond headers, in words; nil when that is nothing.
local function needs_of(filter)
  local parts = {}
  for _, field in ipairs { "body", "needs" } do
    for _, key in ipairs(suggest.names(filter.module[field] or {})) do
      local value = filter.module[field][key]
      if type(value) == "table" then value = table.concat(value, ", ") end
      parts[#parts + 1] = ("%s %s: %s"):format(field, key, tostring(value))
    end
  end
  return #parts > 0 and table.concat(parts, "; ") or nil
end


local PLAIN = "^[%a/][%w/_.%-]*$"
local WORDS = { ["true"] = true, ["false"] = true, null = true, yes = true, no = true, on = true, off = true, y = true,
  n = true }


--- A value in YAML's one-line form.
local function flow(value)
  if type(value) == "string" then
    if value:find(PLAIN) and not WORDS[value:lower()] then return value end
    return '"' .. value:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
  end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, item in ipairs(value) do parts[i] = flow(item) end
  if #parts > 0 then return "[ " .. table.concat(parts, ", ") .. " ]" end
  for _, key in ipairs(suggest.names(value)) do parts[#parts + 1] = ("%s: %s"):format(key, flow(value[key])) end
  return #parts > 0 and "{ " .. table.concat(parts, ", ") .. " }" or "{}"
end


--- The filter as it stands in YAML, with the options of its first example; nil without one.
local function example_of(filter)
  local example = filter.module.examples and filter.module.examples[1]
  if not example then return nil end
  local conf = example.conf or {}
  return next(conf) == nil and "- " .. filter.name or ("- %s: %s"):format(filter.name, flow(conf))
end


local function short_lines(add, filter)
  add("%s%s  %s", filter.name, filter.module.version and " " .. filter.module.version or "", filter.place)
  if filter.sentence ~= "" then add("  %s", filter.sentence) end
  local names = {}
  for _, option in ipairs(options_of(filter.module.schema)) do
    local inside = option.name:find(".", 1, true)
    names[#names + 1] = not inside and option.name .. (option.note == "required" and " (required)" or "") or nil
  end
  add("  functions  %s", table.concat(functions_of(filter), ", "))
  if #names > 0 then add("  options    %s", table.concat(names, ", ")) end
  local needs = needs_of(filter)
  if needs then add("  needs      %s", needs) end
end


local function long_lines(add, filter)
  add("%s%s  %s", filter.name, filter.module.version and " " .. filter.module.version or "", filter.place)
  if filter.text ~= "" then add("  %s", filter.text) end
  add("functions")
  add("  %s", table.concat(functions_of(filter), ", "))
  local options = options_of(filter.module.schema)
  if #options > 0 then add("options") end
  for _, option in ipairs(options) do
    add("  %s: %s%s", option.name, option.type, option.note ~= "" and "; " .. option.note or "")
    if option.description ~= "" then add("      %s", option.description) end
  end
  local answers, needs, example = answers_of(filter), needs_of(filter), example_of(filter)
  if #answers > 0 then add("answers") end
  for _, answer in ipairs(answers) do add("  %s  %s", answer[1], answer[2]) end
  if needs then add("needs\n  %s", needs) end
  if example then add("in YAML\n  %s", example) end
end


--- Text for a cell of a table in Markdown.
local function cell(text)
  return (text:gsub("|", "\\|"):gsub("[<>*_]", "\\%0"))
end


local function markdown_lines(add, filter)
  add("### %s\n\n%s\n", filter.name, (filter.text:gsub("[<>]", "\\%0")))
  add("Functions: `%s`.", table.concat(functions_of(filter), "`, `"))
  for _, answer in ipairs(answers_of(filter)) do
    add(tonumber(answer[1]) and "Answers %s: %s." or "Answers with `%s`: %s.", answer[1], answer[2])
  end
  add("")
  local options = options_of(filter.module.schema)
  if #options > 0 then add("| option | takes | | |\n|---|---|---|---|") end
  for _, option in ipairs(options) do
    add("| `%s` | %s | %s | %s |", option.name, cell(option.type), cell(option.note), cell(option.description))
  end
  if #options > 0 then add("") end
  local example = example_of(filter)
  if example then add("```yaml\n%s\n```\n", example) end
end


local function text_of(filters, each)
  local lines = {}
  local function add(format, ...)
    lines[#lines + 1] = select("#", ...) > 0 and format:format(...) or format
  end
  for _, filter in ipairs(filters) do each(add, filter) end
  return (table.concat(lines, "\n"):gsub("\n*$", "\n"))
end


local function of_name(filters, name)
  for _, filter in ipairs(filters) do
    if filter.name == name then return { filter } end
  end
end


local function complain(text)
  io.stderr:write("moongate filters: ", text, "\n")
end


--- The filters that were asked for, and how they are to be printed; or nil and why.
local function selection(options, words, filters, unusable)
  if not words[1] then return filters, options["--markdown"] and markdown_lines or short_lines end
  local one = of_name(filters, words[1])
  if one then return one, long_lines end
  local names = {}
  for i, filter in ipairs(filters) do names[i] = filter.name end
  for _, filter in ipairs(unusable) do
    if filter.name == words[1] then return nil, filter.why end
  end
  return nil, ("no filter %s%s"):format(words[1], suggest.hint(words[1], names))
end


--- The command: `moongate filters [NAME | --markdown]`.
function catalog.main(argv)
  local options, words = check.arguments(argv)
  if not options or #words > 1 then
    complain(options and "takes one name" or words)
    return USAGE
  end
  if options["--markdown"] and words[1] then
    complain("takes a name or --markdown, which prints all that are built in")
    return USAGE
  end
  sandbox.seal()
  local filters, unusable = catalog.read(options)
  local chosen, how = selection(options, words, filters, unusable)
  if not chosen then
    complain(how)
    return FAILED
  end
  io.stdout:write(text_of(chosen, how))
  for _, filter in ipairs(#words == 0 and unusable or {}) do
    complain(("%s cannot be used as a filter: %s"):format(filter.name, filter.why))
  end
  return DONE
end


return catalog
