-- spec/e2e/schema_spec.lua - `moongate schema`: an independent validator agrees with the gateway on what is accepted.
local cjson = require "cjson"
local helper = require "spec.helper"
local lyaml = require "lyaml"

local ROUTE = "id: a, filters: [ { ReturnResponse: { status: 200, body: hi } } ]"

--- Routes files: what both take, and what both refuse.
local GOOD = {
  [[{ routes: [ { id: a, match: [ { PathPrefix: { prefix: /a } } ],
      filters: [ AddCorrelationId, { SetResponseHeader: { name: X-A, value: 1 }, on_error: continue, id: x } ],
      upstream: { targets: [ { url: "http://127.0.0.1:80", weight: 2 } ], timeouts: { read: 1s }, retries: 0 } } ] }]],
  [[{ routes: [ { ]] .. ROUTE .. [[,
      match: { not: { or: [ { Path: { path: /a } }, { Method: { include: GET } } ] } } } ] }]],
  [[{ version: 1.0, global_filters: [ AddCorrelationId ], routes: [ { ]] .. ROUTE .. [[ } ] }]],
  [[{ routes: [ { id: "${ID:a}", filters: [ { SetStatus: { status: "${STATUS:201}" } } ],
      upstream: { strategy: CONSISTENT_HASH, hash_on: { header: X-User },
        targets: [ { url: "unix:/a.sock" } ] } } ] }]],
  [[{ routes: [ { ]] .. ROUTE .. [[,
      journal: { response: { level: METADATA, status_overrides: { 5xx: HEADERS } } } } ] }]],
  [[{ routes: [ { id: a, filters: [ { greet: { text: hello } } ] } ] }]],
}
local BAD = {
  { "", [[{ rotes: [] }]] },
  { "routes/0", [[{ routes: [ { ]] .. ROUTE .. [[, uptream: { targets: [ { url: "http://a:1" } ] } } ] }]] },
  { "routes/0/match", [[{ routes: [ { ]] .. ROUTE .. [[, match: [ { PathPrefix: { prefx: /a } } ] } ] }]] },
  { "routes/0/match", [[{ routes: [ { ]] .. ROUTE .. [[, match: [ { Path: { path: a } } ] } ] }]] },
  { "routes/0/match", [[{ routes: [ { ]] .. ROUTE .. [[, match: [ { Pth: { path: /a } } ] } ] }]] },
  { "routes/0/filters/0", [[{ routes: [ { id: a, filters: [ { SetStatus: { status: "x" } } ] } ] }]] },
  { "routes/0/filters/0", [[{ routes: [ { id: a, filters: [ { SetStatus: { status: 99 } } ] } ] }]] },
  { "routes/0/filters/0", [[{ routes: [ { id: a, filters: [ { AddRequestHeader: { name: "a b", value: c } } ] } ] }]] },
  { "routes/0/filters/0", [[{ routes: [ { id: a, filters: [ { AddRequestHeader: { name: a } } ] } ] }]] },
  { "routes/0/filters/0", [[{ routes: [ { id: a, filters: [ AddRequestHeder ] } ] }]] },
  { "routes/0/filters/0", [[{ routes: [ { id: a, filters: [ { greet: { txt: hello } } ] } ] }]] },
  { "routes/0/upstream/strategy", [[{ routes: [ { id: a, filters: [ AddCorrelationId ],
      upstream: { strategy: RANDOM, targets: [ { url: "http://a:1" } ] } } ] }]] },
  { "routes/0/upstream/timeouts/read", [[{ routes: [ { id: a, filters: [ AddCorrelationId ],
      upstream: { timeouts: { read: 30 }, targets: [ { url: "http://a:1" } ] } } ] }]] },
}
local GREET = [[
--- greet: says hello.
local greet = { api = 1 }
greet.schema = { text = { type = "string", default = "good morning", description = "what to say" } }
function greet.request(req, conf) return req:respond(200, conf.text) end
return greet
]]


local TENANT = [[
local tenant = { api = 1 }
tenant.schema = { header = { type = "string" }, allow = { type = "array", items = "string" } }
function tenant.request() end
return tenant
]]
local DOCUMENTS = { "README.md", "filters/README.md", "filters/MIGRATING.md" }


--- The first of these that a block of a document begins with says how it becomes a whole routes file.
local WHOLE = {
  { "^routes:\n  %-", "%s" },
  { "^# yaml%-language%-server", "%s [ { " .. ROUTE .. " } ]" },
  { "^    %l+:", "routes:\n  - id: a\n    filters: [ AddCorrelationId ]\n%s" },
  { "^filters:", "global_filters:%s\nroutes: [ { " .. ROUTE .. " } ]" },
  { "^%- ", "routes: [ { " .. ROUTE .. " } ]\nglobal_filters:\n%s" },
}


--- Every example of a routes file in the documents, as files of their own.
local function documented()
  local found = {}
  for _, path in ipairs(DOCUMENTS) do
    for block in assert(helper.process.read_file(path)):gmatch("```yaml\n(.-)```") do
      for _, form in ipairs(WHOLE) do
        if block:find(form[1]) then
          found[#found + 1] = form[2]:format((block:gsub("^filters:", "")))
          break
        end
      end
    end
  end
  return found
end


--- A Python that has jsonschema, or nil.
local function validator()
  for _, python in ipairs { "/usr/bin/python3", "python3" } do
    if os.execute(python .. " -c 'import jsonschema.validators' >/dev/null 2>&1") == 0 then return python end
  end
end


describe("moongate schema", function()
  local folder

  before_each(function()
    folder = helper.folder()
    helper.make_folder(folder .. "/filters")
    helper.write(folder .. "/filters/greet.lua", GREET)
  end)

  after_each(helper.cleanup)

  local function schema(which)
    local run = helper.moongate { "schema", "--routes", folder .. "/routes.yaml", which }
    assert.equal("", run.err)
    assert.equal(0, run.code)
    return run.out
  end

  --- What the validator says of documents in YAML, a list of lines.
  local function validated(which, documents)
    local argv = { assert(validator()), "spec/helper/validate.py", folder .. "/schema.json" }
    helper.write(argv[3], schema(which))
    for i, document in ipairs(documents) do
      argv[i + 3] = ("%s/%d.json"):format(folder, i)
      helper.write(argv[i + 3], cjson.encode(lyaml.load(document)))
    end
    local run = helper.execute(argv)
    assert.equal(0, run.code, run.err)
    local lines = {}
    for line in run.out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    return lines
  end

  local function gateway_takes(document)
    helper.write(folder .. "/routes.yaml", document .. "\n")
    local run = helper.moongate({ "check", "--routes", folder .. "/routes.yaml" },
      { env = { UPSTREAM_PASSWORD = "secret" } })
    return run.code == 0, run.err
  end

  it("describes every filter and predicate that is found, the user's too", function()
    local document = cjson.decode(schema("routes"))
    assert.equal("https://json-schema.org/draft/2020-12/schema", document["$schema"])
    local filters = document["$defs"].filter.anyOf[2].properties
    assert.equal("good morning", filters.greet.properties.text.default)
    assert.equal("what to say", filters.greet.properties.text.description)
    assert.equal("Says hello.", filters.greet.description)
    assert.same({ "name", "value" }, filters.SetRequestHeader.required)
    assert.is_false(filters.SetRequestHeader.additionalProperties)
    assert.same({ "prefix" }, document["$defs"].condition.properties.PathPrefix.required)
  end)

  it("agrees with the gateway about routes files", function()
    if not validator() then return pending("no Python with jsonschema: apt-get install python3-jsonschema") end
    local documents = {}
    for i, document in ipairs(GOOD) do documents[i] = document end
    for _, document in ipairs(BAD) do documents[#documents + 1] = document[2] end
    for i, line in ipairs(validated("routes", documents)) do
      local taken, why = gateway_takes(documents[i])
      local bad = BAD[i - #GOOD]
      assert.equal(bad == nil, taken, documents[i] .. "\n" .. why)
      assert.equal(bad and ("refused: " .. bad[1]) or "accepted", line:sub(1, bad and #bad[1] + 9 or -1), documents[i])
    end
  end)

  it("takes the file that names every filter and every predicate", function()
    if not validator() then return pending("no Python with jsonschema: apt-get install python3-jsonschema") end
    local file = assert(io.open("spec/lua/fixtures/everything.yaml"))
    local text = file:read("*a")
    file:close()
    assert.same({ "accepted" }, validated("routes", { text }))
  end)

  it("takes every example of the documents, as the gateway does", function()
    helper.write(folder .. "/filters/tenant.lua", TENANT)
    helper.write(folder .. "/filters/greet.lua", (GREET:gsub("schema = {", 'schema = { times = "integer",')))
    local documents = documented()
    assert.is_true(#documents > 40, #documents .. " examples")
    for i, document in ipairs(documents) do
      documents[i] = document:gsub("/var/www/shop", folder):gsub("route_id: sorry", "route_id: a2")
      if document:find("fallback", 1, true) then
        documents[i] = documents[i] .. "  - { id: a2, filters: [ AddCorrelationId ], match: [] }\n"
      end
    end
    for _, document in ipairs(documents) do
      local taken, why = gateway_takes(document)
      assert(taken, document .. "\n" .. why)
    end
    if not validator() then return pending("no Python with jsonschema: apt-get install python3-jsonschema") end
    for i, line in ipairs(validated("routes", documents)) do assert.equal("accepted", line, documents[i]) end
  end)

  it("agrees with the gateway about server.yaml", function()
    if not validator() then return pending("no Python with jsonschema: apt-get install python3-jsonschema") end
    assert.same({
      "accepted", "accepted", "refused: server/port", "refused: ", "refused: limits/max_header_size",
      "refused: http/encoded_slash",
    }, validated("server", {
      "{ server: { port: 8080, idle_timeout: 30s }, limits: { max_entity_size: none, trusted_proxies: 10.0.0.0/8 } }",
      "{ storage: { sync: 100ms }, server: { port: '${PORT:80}' } }",
      "{ server: { port: 70000 } }", "{ sever: { port: 80 } }", "{ limits: { max_header_size: much } }",
      "{ http: { encoded_slash: drop } }",
    }))
  end)

  it("prints both as one object, and refuses other words", function()
    local both = cjson.decode(schema(nil))
    assert.equal("moongate: routes", both.routes.title)
    assert.equal("moongate: server", both.server.title)
    assert.equal(2, helper.moongate({ "schema", "rotes" }).code)
    assert.equal(2, helper.moongate({ "schema", "routes", "server" }).code)
  end)

  it("leaves out a file that is no filter, and says so", function()
    helper.write(folder .. "/filters/broken.lua", "return { api = 1, reqest = function() end }\n")
    local run = helper.moongate { "schema", "routes", "--routes", folder .. "/routes.yaml" }
    assert.equal(0, run.code)
    assert.truthy(run.err:find("filter broken is left out: filters/broken.lua:1: unknown function reqest", 1, true))
    assert.is_nil(cjson.decode(run.out)["$defs"].filter.anyOf[2].properties.broken)
  end)
end)
