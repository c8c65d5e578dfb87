-- filter_loader_spec.lua - where filters are found, and which tables are filters.
local support = require "spec.lua.support"
local filter_loader = require "moongate.filter_loader"

local GOOD = "return { api = 1, request = function() end }"


local function loader_of(files, options)
  options = options or {}
  options.read = support.reader(files)
  options.folder = options.folder or "conf/filters"
  options.search = options.search or { "/tree/?.lua", "/tree/?/init.lua" }
  return filter_loader.new(options)
end


local function load(source, more)
  local files = { ["conf/filters/mine.lua"] = source }
  for path, bytes in pairs(more or {}) do files[path] = bytes end
  return loader_of(files):load("mine")
end

-- { what, source, words of the message }
local REFUSED = {
  { "a syntax error", "return {\n\n", "filters/mine.lua:3: unexpected symbol" },
  { "an error while it loads", "local x\nreturn x.y", "filters/mine.lua:2: attempt to index" },
  { "nothing", "local x = 1", "filters/mine.lua: returns nothing, a filter returns its table" },
  { "a function", "return print", "returns a function, a filter returns its table" },
  { "no api", "return { request = function() end }", "api is missing, this version has api = 1" },
  { "another api", "return { api = 2, request = function() end }", "api is 2, this version has api = 1" },
  { "a misspelt function", "local f = { api = 1 }\nfunction f.respnose() end\nreturn f",
    "filters/mine.lua:2: unknown function respnose (did you mean response?)" },
  { "a helper in its table", "return { api = 1, request = function() end,\n parse_it = function() end }",
    "filters/mine.lua:2: unknown function parse_it; functions of a filter: init, match, request, upstream" },
  { "chunk and no body", "return { api = 1, chunk = function() end }", "chunk needs body = { request = \"stream\" }" },
  { "a body in no known way", "return { api = 1, body = { request = 'hold' }, request = function() end }",
    "body.request: found hold, accepted: none, buffer, stream" },
  { "a word for a function", "return { api = 1, request = 'x' }", "request must be a function, found a string" },
  { "no function", "return { api = 1 }", "has no function; functions of a filter: init, match" },
  { "a misspelt field", "return { api = 1, shcema = {}, log = function() end }", "shcema (did you mean schema?)" },
  { "a schema that is none", "return { api = 1, schema = 'x', log = function() end }", "schema must be a table" },
  { "a wrong schema word", "return { api = 1, schema = { a = { type = 'sting' } }, log = function() end }",
    "schema.a: unknown type sting (did you mean string?)" },
  { "a capability that nobody has", "return { api = 1, needs = { disk = {} }, log = function() end }",
    "needs: unknown capability disk; accepted: files, http" },
  { "a capability that is not granted by halves", "return { api = 1, needs = { files = 1 }, log = function() end }",
    "needs.files: found a number, accepted: true" },
  { "a module that is not there", "require 'helper'\n" .. GOOD,
    "filters/mine.lua:1: require: no module helper beside filters/mine.lua" },
  { "a module outside", "require '../secret'\n" .. GOOD, "../secret is not a module name" },
}


describe("a filter with", function()
  for _, row in ipairs(REFUSED) do
    it(row[1] .. " is refused", function()
      local module, why = load(row[2])
      assert.is_nil(module)
      assert.truthy(why:find(row[3], 1, true), why)
    end)
  end

  it("several faults names them all", function()
    local _, why = load("return { request = 1, foo = function() end }")
    local _, newlines = why:gsub("\n", "")
    assert.equal(2, newlines, why)
  end)
end)


describe("the loader", function()
  it("finds filters in the folder, in LuaRocks trees and in the executable", function()
    local files = { ["conf/filters/mine.lua"] = GOOD, ["/tree/moongate/filters/rocky.lua"] = GOOD,
      ["embedded:filters/Ours.lua"] = GOOD }
    local loader = loader_of(files)
    loader.read = function(path) return files[path] end
    for name, path in pairs { mine = "conf/filters/mine.lua", rocky = "/tree/moongate/filters/rocky.lua",
      Ours = "embedded:filters/Ours.lua" } do
      assert.is_table(assert(loader:load(name)), name)
      assert.equal(path, loader.files[name])
    end
  end)

  it("prefers the folder to a tree, and refuses the name of a built-in filter", function()
    local files = { ["conf/filters/x.lua"] = GOOD, ["/tree/moongate/filters/x.lua"] = "return 1",
      ["conf/filters/Ours.lua"] = GOOD .. " --", ["embedded:filters/Ours.lua"] = GOOD }
    local loader = loader_of(files)
    loader.read = function(path) return files[path] end
    assert.truthy(loader:load("x"))
    local module, why = loader:load("Ours")
    assert.is_nil(module)
    assert.equal("conf/filters/Ours.lua has the name of a built-in filter; give it another name", why)
  end)

  it("takes a copy of a built-in filter for that filter", function()
    local files = { ["conf/filters/SetStatus.lua"] = GOOD, ["embedded:filters/SetStatus.lua"] = GOOD }
    local loader = loader_of(files, { is_built_in = function(name) return name == "SetStatus" end })
    loader.read = function(path) return files[path] end
    assert.same({}, loader:clashes())
    assert.is_table(assert(loader:load("SetStatus")))
    assert.equal("embedded:filters/SetStatus.lua", loader.files.SetStatus)
  end)

  it("says why a file cannot be read, and does not look elsewhere", function()
    local loader = loader_of({})
    loader.read = function(path)
      if path == "conf/filters/x.lua" then return nil, "Permission denied", 13 end
      return path == "/tree/moongate/filters/x.lua" and GOOD or nil, "No such file or directory", 2
    end
    local module, why = loader:load("x")
    assert.is_nil(module)
    assert.equal("conf/filters/x.lua cannot be read: Permission denied", why)
  end)

  it("refuses bytecode by the name of its file", function()
    local _, why = load(string.dump(function() end))
    assert.equal("filters/mine.lua: is bytecode, accepted: Lua as text", why)
  end)

  it("suggests the nearest of the filters that are there", function()
    local loader = loader_of({}, {
      list = function(folder) return folder == "conf/filters" and { "tenant.lua", "notes.txt" } or nil end,
      is_built_in = function(name) return name == "SetStatus" end,
    })
    local _, why = loader:load("tennant")
    assert.equal("unknown filter tennant (did you mean tenant?); moongate filters shows those that are there", why)
    _, why = loader:load("setstatus")
    assert.truthy(why:find("(did you mean SetStatus?)", 1, true), why)
  end)

  it("loads a module beside the filter or from a tree, once for each filter", function()
    local files = {
      ["conf/filters/lib/words.lua"] = "return { hello = require('lib.more') }",
      ["conf/filters/lib/lib/more.lua"] = "return 'near'",
      ["/tree/lib/more.lua"] = "return 'tree'", ["/tree/pkg/init.lua"] = "return 'package'",
    }
    local module = assert(load("local w, p = require 'lib.words', require 'pkg'\n"
      .. "return { api = 1, version = w.hello .. ' ' .. p, log = function() end }", files))
    assert.equal("tree package", module.version)
  end)

  it("runs a filter once, in a sandbox of its own", function()
    local source = "return { api = 1, version = tostring(n), log = function() end }"
    local files = { ["conf/filters/a.lua"] = "n = (n or 0) + 1 " .. source, ["conf/filters/b.lua"] = source }
    local loader = loader_of(files)
    assert.equal("1", loader:load("a").version)
    assert.equal(loader:load("a"), loader:load("a"))
    assert.equal("nil", loader:load("b").version)
  end)

  it("says what it runs before it runs it", function()
    local said = {}
    loader_of({ ["conf/filters/a.lua"] = GOOD }, { progress = function(text) said[#said + 1] = text end }):load("a")
    assert.same({ "loading filters/a.lua" }, said)
  end)

  it("with a fixed list knows nothing else", function()
    local loader = loader_of({ ["conf/filters/a.lua"] = GOOD, ["conf/filters/b.lua"] = GOOD },
      { files = { a = "conf/filters/a.lua" } })
    assert.truthy(loader:load("a"))
    local module, why = loader:load("b")
    assert.is_nil(module)
    assert.equal("filter b is not part of this configuration", why)
  end)
end)


describe("the built-in filters", function()
  local lfs = require "lfs"

  it("are all on the list of names, and load", function()
    local listed = {}
    for _, name in ipairs(filter_loader.BUILT_IN) do listed[name] = true end
    for file in lfs.dir("filters") do
      local name = file:match("^(.*)%.lua$")
      if name then
        assert.is_true(listed[name], name .. " is not in filter_loader.BUILT_IN")
        assert(loader_of({}):load(name))
      end
    end
  end)
end)
