-- spec/helper/tailing.lua - a gateway that records and tailers of its journal, for the specs of tail and reap.
-- Owns: nothing; what it starts is ended by helper.cleanup.
local h = require "spec.helper"
local cjson = require "cjson"
local lfs = require "lfs"
local luassert = require "luassert"

local tailing = {}

local LEVELS = [[
    journal:
      request: { level: METADATA }
      response: { level: METADATA }
]]


-- A gateway in front of a small origin that records; .journal is the folder. options as of h.gateway, and port.
function tailing.gateway(options)
  options = options or {}
  local folder = h.folder()
  options.routes = h.route_to(options.port or h.builtin_origin().port, LEVELS)
  options.args = { "--journal", folder .. "/journal" }
  local gateway = h.gateway(options)
  gateway.journal = folder .. "/journal"
  return gateway
end


-- n requests, one after the other, on one connection.
function tailing.request(gateway, n)
  local client = gateway:connect()
  for i = 1, n do client:get("/" .. i) end
  client:close()
end


-- Every line of JSON in text, decoded; a torn last one is left out.
function tailing.decode(text)
  local list = {}
  for line in text:gmatch("([^\n]+)\n") do list[#list + 1] = cjson.decode(line) end
  return list
end


-- Runs a tailer to its end: as h.moongate, with the decoded lines in .list.
function tailing.run(args, options)
  local result = h.moongate({ "tail", unpack(args) }, options)
  result.list = result.out:sub(1, 1) == "{" and tailing.decode(result.out) or {}
  return result
end


-- Starts a tailer that goes on; .list() is what it has written, .stop() its exit code after SIGTERM.
function tailing.start(args, options)
  local child = h.spawn({ h.executable, "tail", "--follow", unpack(args) }, options)
  local tailer = { child = child }
  function tailer.list() return tailing.decode(child:output()) end
  function tailer.stop()
    child:signal(h.process.TERM)
    return h.eventually(function() return child:poll() end, 10, "the tailer to end")
  end
  return tailer
end


-- How often each id is in a list.
function tailing.count(list)
  local counts, distinct = {}, 0
  for _, exchange in ipairs(list) do
    local id = exchange.request_id
    if not counts[id] then distinct = distinct + 1 end
    counts[id] = (counts[id] or 0) + 1
  end
  return counts, distinct
end


-- The ids of all exchanges in a journal, by another reader.
function tailing.ids(journal)
  local ids, n = {}, 0
  for line in h.moongate({ "journal", "cat", journal }).out:gmatch("[^\n]+") do
    ids[cjson.decode(line).id] = true
    n = n + 1
  end
  return ids, n
end


-- Asserts that a list has every exchange of the journal; returns how many it has more than once.
function tailing.complete(list, journal)
  local counts, distinct = tailing.count(list)
  local ids, n = tailing.ids(journal)
  for id in pairs(ids) do assert(counts[id], "not delivered: " .. id) end
  luassert.equal(n, distinct)
  return #list - distinct
end


-- Files in folder whose names match pattern, sorted.
function tailing.files(folder, pattern)
  local names = {}
  for name in lfs.dir(folder) do
    if name:find(pattern) then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end


-- What all JSON files in folder hold.
function tailing.delivered(folder)
  local list = {}
  for _, name in ipairs(tailing.files(folder, "%.jsonl")) do
    for _, exchange in ipairs(tailing.decode(h.process.read_file(folder .. "/" .. name))) do
      list[#list + 1] = exchange
    end
  end
  return list
end


return tailing
