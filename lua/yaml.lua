--- yaml.lua - YAML text as a tree of positioned nodes (tree.lua).
--
-- Owns: what of YAML is accepted. One document, unique keys that are plain values, aliases to what stands above them;
-- no tags and no merge keys. Scalars keep the text that the author wrote: what it means is the schema's business, so
-- yes, no, on, off and 012 never turn into something else.
-- May call: the event parser of lyaml.   Never: read files.

local parser = require "yaml".parser

local yaml = {}

local DEPTH_MAX = 64
local NODES_MAX = 1000000 -- aliases counted as often as they are used: nothing small may unfold into something huge


local Reader = {}
Reader.__index = Reader


--- A fault ends the reading of one file by throwing itself; yaml.parse catches it.
local function refuse(line, column, message)
  error({ line = line, column = column, message = message }, 0)
end


local function place(event)
  return event.start_mark.line + 1, event.start_mark.column + 1
end


--- The nth line of a text, or nil.
local function line_of(text, number)
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number - 1
    if number == 0 then return line end
  end
end


--- libyaml's sentence, taken apart: "problem at document: 1, line: 2, column: 3\ncontext at line: 1, column: 1".
-- @param source the whole file, for a look at the line
local function refuse_syntax(text, source)
  local problem = text:match("^(.-) at document") or text:match("^[^\n]+") or text
  local line, column = text:match("line: (%d+), column: (%d+)")
  local context, context_line = text:match("\n(.-) at line: (%d+)")
  if context then problem = ("%s, %s that begins in line %s"):format(problem, context, context_line) end
  local found = line and line_of(source, tonumber(line))
  if found and found:find("${", 1, true) then
    problem = problem .. '; inside of { } or [ ], write "${...}" with quotes'
  elseif found and found:sub(tonumber(column), tonumber(column)) == "\t" then
    problem = problem .. "; this is a tab, YAML is indented with spaces"
  end
  refuse(tonumber(line), tonumber(column), "not valid YAML: " .. problem)
end


--- The parser's own faults are texts: yaml.parse takes what is thrown while parsing is set for one of them.
function Reader:next()
  self.parsing = true
  local event = self.events()
  self.parsing = false
  return event
end


--- Every node goes through here once, and once more for each alias to it.
function Reader:count(node, size)
  self.total = self.total + size
  if self.total > NODES_MAX then refuse(node.line, node.column, "more than 1000000 values in one file") end
end


local function check_tag(event)
  if event.tag then
    local line, column = place(event)
    refuse(line, column, ("tag %s: tags are not supported; quote the value to make it text"):format(event.tag))
  end
end


function Reader:read_array(node, depth)
  while true do
    local event = self:next()
    if event.type == "SEQUENCE_END" then return end
    node.items[#node.items + 1] = self:read(event, depth)
  end
end


--- The key of a map's entry. @return key, line, column
local function read_key(event, seen)
  local line, column = place(event)
  if event.type ~= "SCALAR" then refuse(line, column, "a key must be a single word or text") end
  check_tag(event)
  local key = event.value
  if key == "<<" and event.style == "PLAIN" then
    refuse(line, column, "merge keys (<<) are not supported; write the keys out")
  end
  if seen[key] then
    refuse(line, column, ("key %s stands twice in one map, first in line %d"):format(key, seen[key]))
  end
  seen[key] = line
  return key, line, column
end


function Reader:read_map(node, depth)
  local seen, entries = {}, node.entries
  while true do
    local event = self:next()
    if event.type == "MAPPING_END" then return end
    local key, line, column = read_key(event, seen)
    entries[#entries + 1] = { key = key, line = line, column = column, node = self:read(self:next(), depth) }
  end
end


function Reader:read_alias(event)
  local line, column = place(event)
  local target = self.anchors[event.anchor]
  if not target then
    refuse(line, column, ("alias *%s: no anchor &%s stands above it"):format(event.anchor, event.anchor))
  end
  if target == "open" then refuse(line, column, ("alias *%s stands inside what it refers to"):format(event.anchor)) end
  self:count({ line = line, column = column }, target.size)
  return target
end


--- One node, from the event that begins it.
function Reader:read(event, depth)
  if event.type == "ALIAS" then return self:read_alias(event) end
  local line, column = place(event)
  local node -- made in one go: there are many
  if event.type == "SCALAR" then
    node = { kind = "scalar", line = line, column = column, text = event.value, plain = event.style == "PLAIN" }
  elseif event.type == "SEQUENCE_START" then
    node = { kind = "array", line = line, column = column, items = {} }
  else
    node = { kind = "map", line = line, column = column, entries = {} }
  end
  check_tag(event)
  self:count(node, 1)
  if depth > DEPTH_MAX then refuse(line, column, "nested deeper than 64 levels") end
  local anchor, before = event.anchor, self.total
  if anchor then self.anchors[anchor] = "open" end
  if node.items then self:read_array(node, depth + 1) end
  if node.entries then self:read_map(node, depth + 1) end
  if anchor then
    node.size = self.total - before + 1
    self.anchors[anchor] = node
  end
  return node
end


function Reader:read_document()
  local event = self:next()
  if event.type == "STREAM_START" then event = self:next() end
  if event.type == "STREAM_END" then refuse(1, 1, "the file is empty") end
  local root = self:read(self:next(), 1)
  self:next() -- DOCUMENT_END
  local after = self:next()
  if after.type ~= "STREAM_END" then
    local line, column = place(after)
    refuse(line, column, "a second document begins here; one file holds one document")
  end
  if root.kind == "scalar" and root.plain and root.text == "" then refuse(1, 1, "the file is empty") end
  return root
end


--- libyaml names no line for bytes that cannot be text, so they are looked for first.
local function check_bytes(text)
  local bad = text:find("[%z\1-\8\11\12\14-\31\127]")
  if not bad then return end
  local before = text:sub(1, bad - 1)
  local _, newlines = before:gsub("\n", "")
  local column = #before:match("[^\n]*$") + 1
  refuse(newlines + 1, column, ("byte %d is a control character: this is not a text file"):format(text:byte(bad)))
end


--- Reads one document.
-- @param text the bytes of the file
-- @return the root node, or nil and a fault { line, column, message } (line and column nil where the parser gives none)
function yaml.parse(text)
  local reader = setmetatable({ anchors = {}, total = 0 }, Reader)
  local ok, result = pcall(function()
    check_bytes(text)
    reader.events = parser(text)
    return reader:read_document()
  end)
  if ok then return result end
  if reader.parsing then
    ok, result = pcall(refuse_syntax, tostring(result), text)
    assert(not ok)
  end
  if type(result) ~= "table" then error(result, 0) end
  return nil, result
end


return yaml
