-- spec/e2e/outputs_recipes_spec.lua - the recipes of journal/README.md, as far as this machine has what they need.
local h = require "spec.helper"
local cjson = require "cjson"
local lyaml = require "yaml"

local document = h.process.read_file("journal/README.md"):match("\n## Recipes\n.*")


--- The blocks of a language, in order.
local function blocks(language)
  local list = {}
  for block in document:gmatch("\n```" .. language .. "\n(.-)```") do list[#list + 1] = block end
  return list
end


describe("the recipes", function()
  after_each(h.cleanup)

  it("are YAML", function()
    local list = blocks "yaml"
    assert.equal(4, #list)
    for _, block in ipairs(list) do
      local parser, events = lyaml.parser(block), 0
      for _ in parser do events = events + 1 end
      assert.truthy(events > 10)
    end
  end)

  it("begin with a tailer.yaml that runs", function()
    local folder, origin = h.folder(), h.origin(h.answer(200, "hello\n"))
    local gateway = h.gateway { routes = h.route_to(origin.port, "    journal: { response: { level: FULL } }\n"),
      args = { "--journal", folder .. "/journal" } }
    gateway:get("/x")
    gateway:stop()
    h.write(folder .. "/tailer.yaml", (blocks "yaml"[1]:gsub("/var/lib/moongate", folder)))
    local result = h.moongate { "tail", "--config", folder .. "/tailer.yaml" }
    assert.equal(0, result.code, result.err)
    local made = h.execute({ "sh", "-c", ("cd %s && ls json warc"):format(folder) }).out
    for _, ending in ipairs { "jsonl", "warc%.gz", "cdxj" } do
      assert.truthy(made:find("%." .. ending .. "\n"), made)
    end
  end)

  it("make rows of the columns that the table has", function()
    if h.execute({ "sh", "-c", "command -v jq" }).code ~= 0 then return pending("jq is not here") end
    local folder, origin = h.folder(), h.origin(h.answer(200, "hello\n"))
    local gateway = h.gateway { routes = h.route_to(origin.port, "    journal: { response: { level: METADATA } }\n"),
      args = { "--journal", folder .. "/journal" } }
    gateway:get("/x?a=b")
    gateway:stop()
    h.write(folder .. "/lines", h.moongate({ "journal", "cat", "--format", "json", folder .. "/journal" }).out)
    h.write(folder .. "/exchanges.jq", blocks "jq"[1])
    local result = h.execute { "jq", "-c", "-f", folder .. "/exchanges.jq", folder .. "/lines" }
    assert.equal(0, result.code, result.err)
    local row, columns = cjson.decode(result.out), {}
    for name in blocks "sql"[1]:match("%((.-)%) ENGINE"):gsub("%b()", ""):gmatch("([%l_]+) %u") do
      columns[name] = true
      assert.is_not_nil(row[name], name)
    end
    for name in pairs(row) do assert.is_true(columns[name], name) end
    assert.equal("/x", row.path)
    assert.equal(200, row.status)
    assert.equal(6, row.response_bytes)
    assert.truthy(row.start:find("^%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d$"))
  end)
end)
