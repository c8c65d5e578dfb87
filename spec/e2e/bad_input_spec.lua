-- spec/e2e/bad_input_spec.lua - what people get wrong on the command line and in files: one clear message, one code.
local h = require "spec.helper"

local GOOD = [[
routes:
  - id: a
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: a } } ]
]]

local function with_filter(name) return (GOOD:gsub("%[ { Return.*", "[ " .. name .. " ]\n")) end

-- { what, files, arguments beside run --routes routes.yaml, exit code, words of the message }
local ROWS = {
  { "no routes file", {}, {}, 1, { "routes.yaml" } },
  { "an empty routes file", { ["routes.yaml"] = "" }, {}, 1, { "routes.yaml", "empty" } },
  { "a file that is not YAML", { ["routes.yaml"] = "routes: [\n  - }" }, {}, 1, { "routes.yaml:" } },
  { "binary bytes", { ["routes.yaml"] = "\0\1\2\255" }, {}, 1, { "routes.yaml" } },
  { "a list instead of a map", { ["routes.yaml"] = "- a\n- b\n" }, {}, 1, { "routes.yaml:1", "list" } },
  { "no routes in it", { ["routes.yaml"] = "routes: []\n" }, {}, 1, { "routes" } },
  { "an unknown key", { ["routes.yaml"] = GOOD:gsub("match", "mtach") }, {}, 1,
    { "routes.yaml:3", "mtach", "match", "routes[0]" } },
  { "a wrong type", { ["routes.yaml"] = GOOD:gsub("status: 200", "status: fine") }, {}, 1,
    { "routes.yaml:4", "fine" } },
  { "an unknown filter", { ["routes.yaml"] = GOOD:gsub("ReturnResponse", "ReturnRespnose") }, {}, 1,
    { "ReturnRespnose", "ReturnResponse" } },
  { "an unknown predicate", { ["routes.yaml"] = GOOD:gsub("PathPrefix", "PathPerfix") }, {}, 1,
    { "PathPerfix", "PathPrefix" } },
  { "an id twice", { ["routes.yaml"] = GOOD .. GOOD:gsub("routes:\n", "") }, {}, 1, { "a" } },
  { "a key twice", { ["routes.yaml"] = GOOD:gsub("  %- id: a\n", "  - id: a\n    id: b\n") }, {}, 1,
    { "routes.yaml:3", "id" } },
  { "a second document", { ["routes.yaml"] = GOOD .. "---\n" .. GOOD }, {}, 1, { "document" } },
  { "a duration without unit", { ["routes.yaml"] = GOOD, ["server.yaml"] = "server: { idle_timeout: 30 }\n" },
    { "--server", "server.yaml" }, 1, { "server.yaml:1", "idle_timeout", "30" } },
  { "a port out of range", { ["routes.yaml"] = GOOD, ["server.yaml"] = "server: { port: 70000 }\n" },
    { "--server", "server.yaml" }, 1, { "server.yaml:1", "70000", "65535" } },
  { "a server file that is not there", { ["routes.yaml"] = GOOD }, { "--server", "none.yaml" }, 1, { "none.yaml" } },
  { "HTTP/2", { ["routes.yaml"] = GOOD, ["server.yaml"] = "http: { enable_http2: true }\n" },
    { "--server", "server.yaml" }, 1, { "enable_http2" } },
  { "a target with TLS", { ["routes.yaml"] = h.route_to(1):gsub("http:", "https:") }, {}, 1, { "https" } },
  { "a Lua filter with a syntax error", { ["routes.yaml"] = with_filter("mine"),
    ["filters/mine.lua"] = "return {\n\n" }, {}, 1, { "mine.lua:" } },
  { "a Lua filter that fails in init", { ["routes.yaml"] = with_filter("mine"), ["filters/mine.lua"] =
    "local f = { api = 1 }\nfunction f.init() local x = nil; return x.y end\nfunction f.request() end\nreturn f\n" },
    {}, 1, { "mine.lua:2", "init" } },
  { "a Lua filter that returns nothing", { ["routes.yaml"] = with_filter("mine"),
    ["filters/mine.lua"] = "local x = 1\n" }, {}, 1, { "mine" } },
  { "a misspelt function in a filter", { ["routes.yaml"] = with_filter("mine"), ["filters/mine.lua"] =
    "local f = { api = 1 }\nfunction f.respnose() end\nreturn f\n" }, {}, 1, { "respnose", "response" } },
  { "a filter named like a built-in", { ["routes.yaml"] = GOOD, ["filters/SetStatus.lua"] = "return { api = 1 }\n" },
    {}, 1, { "SetStatus" } },
  { "a filter that never finishes loading", { ["routes.yaml"] = with_filter("mine"), ["server.yaml"] =
    "scripts: { max_load_time: 1s }\n", ["filters/mine.lua"] = "while true do end\n" },
    { "--server", "server.yaml" }, 1, { "mine" } },
  { "a filter that takes all memory while it loads", { ["routes.yaml"] = with_filter("mine"), ["server.yaml"] =
    "scripts: { max_memory: 4mb }\n", ["filters/mine.lua"] = "local t = {}\nfor i = 1, 1e9 do t[i] = { i } end\n" },
    { "--server", "server.yaml" }, 1, { "8 MB", "scripts.max_memory", "loading filters/mine.lua" } },
  { "an unknown option", { ["routes.yaml"] = GOOD }, { "--prot", "80" }, 2, { "--prot", "--port" } },
  { "no workers", { ["routes.yaml"] = GOOD }, { "--workers", "0" }, 2, { "workers" } },
  { "a port that is no number", { ["routes.yaml"] = GOOD }, { "--port", "http" }, 2, { "http" } },
}


-- Writes files below a fresh folder and runs moongate there.
local function run_in(files, args, options)
  local folder = h.folder()
  h.make_folder(folder .. "/filters")
  for name, text in pairs(files) do h.write(folder .. "/" .. name, text) end
  options = options or {}
  options.cwd = folder
  return h.moongate(args, options), folder
end


describe("bad input at the start:", function()
  after_each(h.cleanup)

  it("no routes file, and none was named", function()
    local result = h.moongate({ "check" }, { cwd = h.folder() })
    assert.equal(1, result.code)
    assert.truthy(result.err:find("routes.yaml: cannot be read", 1, true), result.err)
    assert.truthy(result.err:find("--routes or MOONGATE_ROUTES_CONFIG", 1, true), result.err)
    local named = h.moongate({ "check", "--routes", "none.yaml" }, { cwd = h.folder() })
    assert.equal("none.yaml: cannot be read: No such file or directory\n", named.err)
  end)

  for _, row in ipairs(ROWS) do
    local what, files, extra, code, words = unpack(row)
    it(what, function()
      local args = { "run", "--routes", "routes.yaml", "--host", "127.0.0.1", "--control", "c.sock" }
      local has_port = false
      for _, arg in ipairs(extra) do
        args[#args + 1] = arg
        has_port = has_port or arg == "--port"
      end
      if not has_port then args[#args + 1], args[#args + 2] = "--port", "0" end
      local result = run_in(files, args, { seconds = 15 })
      assert.equal(code, result.code, result.err)
      assert.equal("", result.out)
      for _, word in ipairs(words) do
        assert.truthy(result.err:find(word, 1, true), ("%q is not in: %s"):format(word, result.err))
      end
      assert.is_nil(result.err:find("stack traceback", 1, true), result.err)
      local _, lines = result.err:gsub("\n", "\n")
      assert.is_true(lines <= 12, "too long: " .. result.err)
    end)
  end

  it("all structural faults are named in one go", function()
    local result = run_in({ ["routes.yaml"] = GOOD:gsub("match", "mtach"):gsub("status", "statsu") },
      { "check", "--routes", "routes.yaml" })
    assert.equal(1, result.code)
    assert.truthy(result.err:find("mtach", 1, true), result.err)
    assert.truthy(result.err:find("statsu", 1, true), result.err)
  end)

  it("an unreadable file and a folder without permission", function()
    if not h.process.is_root() then return end -- cannot become somebody else
    local folder = h.folder()
    h.write(folder .. "/routes.yaml", GOOD)
    h.process.chmod(folder .. "/routes.yaml", 0)
    h.process.chmod(folder, 493) -- 0755
    local unreadable = h.moongate({ "check", "--routes", folder .. "/routes.yaml" }, { uid = 65534 })
    assert.equal(1, unreadable.code)
    assert.truthy(unreadable.err:find("routes.yaml", 1, true), unreadable.err)
    assert.truthy(unreadable.err:lower():find("permission", 1, true), unreadable.err)
    h.process.chmod(folder, 448) -- 0700
    local hidden = h.moongate({ "check", "--routes", folder .. "/routes.yaml" }, { uid = 65534 })
    assert.equal(1, hidden.code)
    assert.truthy(hidden.err:lower():find("permission", 1, true), hidden.err)
  end)

  it("a folder of filters without permission", function()
    if not h.process.is_root() then return end
    local folder = h.folder()
    h.write(folder .. "/routes.yaml", with_filter("mine"))
    h.make_folder(folder .. "/filters")
    h.write(folder .. "/filters/mine.lua", "return { api = 1, request = function() end }\n")
    h.process.chmod(folder, 493) -- 0755
    h.process.chmod(folder .. "/filters", 448) -- 0700
    local result = h.moongate({ "check", "--routes", folder .. "/routes.yaml" }, { uid = 65534 })
    assert.equal(1, result.code)
    assert.truthy(result.err:find("filters/mine.lua cannot be read: Permission denied\n", 1, true), result.err)
    assert.is_nil(result.err:find("traceback", 1, true), result.err)
  end)

  it("a port that another program uses", function()
    local other = h.origin()
    local result = run_in({ ["routes.yaml"] = GOOD }, { "run", "--routes", "routes.yaml", "--host", "127.0.0.1",
      "--port", tostring(other.port), "--control", "c.sock" }, { seconds = 15 })
    assert.equal(1, result.code)
    assert.truthy(result.err:find(tostring(other.port), 1, true), result.err)
  end)
end)


describe("the command line", function()
  after_each(h.cleanup)

  it("suggests the nearest command and exits 2", function()
    local result = h.moongate { "rnu" }
    assert.equal(2, result.code)
    assert.truthy(result.err:find("run", 1, true), result.err)
    assert.equal(2, h.moongate({}).code)
  end)

  it("explains a command that is asked for help", function()
    for _, word in ipairs { "--help", "-h" } do
      local result = h.moongate { "run", word }
      assert.equal(0, result.code)
      assert.truthy(result.out:find("--management-port N", 1, true), result.out)
      assert.is_nil(result.out:find("explain", 1, true), result.out)
    end
  end)

  it("prints a version", function()
    local result = h.moongate { "version" }
    assert.equal(0, result.code)
    assert.truthy(result.out:find("%d+%.%d+%.%d+"))
  end)

  it("checks good files, prints the route table, exits 0", function()
    local result = run_in({ ["routes.yaml"] = GOOD }, { "check", "--routes", "routes.yaml" })
    assert.equal(0, result.code, result.err)
    assert.truthy(result.out:find("ReturnResponse", 1, true), result.out)
  end)

  it("says so when no gateway answers at a control socket", function()
    for _, command in ipairs { "status", "reload", "stop" } do
      local folder = h.folder()
      local result = h.moongate { command, "--control", folder .. "/none.sock" }
      assert.equal(1, result.code, command)
      assert.truthy(result.err:find("none.sock", 1, true), result.err)
    end
  end)
end)
