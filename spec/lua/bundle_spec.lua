-- bundle_spec.lua - what a builder packs is what a worker unpacks.
local support = require "spec.lua.support"
local bundle = require "moongate.bundle"
local conf = require "moongate.conf"

local FILES = {
  ["conf/routes.yaml"] = [[
routes:
  - id: a
    match: [ { Host: { hosts: [ h, i ] } }, { not: { Path: { path: "/\"\\\n\u00e9" } } } ]
    filters: [ tenant ]
    upstream: { targets: [ { url: "http://b" }, { url: "http://a:81" }, { url: "http://b:80/x" } ] }
  - id: b
    match: []
    upstream: { targets: { url: "unix:/run/x" } }
]],
  ["conf/filters/tenant.lua"] = "local w = require 'words'\nreturn { api = 1, version = w, log = function() end }\n",
  ["conf/filters/words.lua"] = "return '9'",
  ["conf/server.yaml"] = "limits: { trusted_proxies: [ 10.0.0.0/8, '::1' ] }\nserver: { idle_timeout: 1s }\n",
}


local function load_all(routes)
  local options = support.options(FILES)
  local read, sources = bundle.recorder(options.read)
  options.read = read
  local settings = assert(conf.load_server("conf/server.yaml", options))
  local loaded = assert(conf.load_routes(routes or "conf/routes.yaml", options))
  return {
    settings = settings, config = loaded.config, sources = sources, digest = ("0"):rep(64), states = "", guards = "",
  }
end


describe("a bundle", function()
  it("has the sections of core/bundle.h in their order, the end included", function()
    local text = bundle.emit(load_all())
    local names, at = {}, select(2, text:find("moongate-bundle 1\n", 1, true)) + 1
    while at <= #text do
      local name, length, after = text:match("^([^\n]+) (%d+)\n()", at)
      names[#names + 1] = name
      at = after + length
      assert.equal("\n", text:sub(at, at))
      at = at + 1
    end
    assert.same({ "settings", "targets", "states", "guards", "routes", "health", "overview", "digest", "config",
      "source conf/filters/tenant.lua", "source conf/filters/words.lua", "end" }, names)
  end)

  it("gives back the same configuration", function()
    local parts = load_all()
    local back = assert(bundle.parse(bundle.emit(parts)))
    assert.same(parts.config, back.config)
    assert.same(parts.sources, back.sources)
    assert.equal(parts.digest, back.digest)
  end)

  it("is the same bytes for the same files", function()
    assert.equal(bundle.emit(load_all()), bundle.emit(load_all()))
  end)

  it("lists settings as lines and every target once, in the order of the file", function()
    local back = assert(bundle.parse(bundle.emit(load_all())))
    assert.equal("b:80\na:81\nunix:/run/x\n", back.targets)
    for _, line in ipairs { "server.idle_timeout=1000\n", "limits.trusted_proxies=10.0.0.0/8\n",
      "limits.trusted_proxies=::1\n", "http.encoded_slash_refused=false\n", "server.host=0.0.0.0\n" } do
      assert.truthy(back.settings:find(line, 1, true), line)
    end
    assert.is_nil(back.settings:find("workers", 1, true))
    assert.is_nil(back.settings:find("shard_count", 1, true))
  end)

  it("is all that its loader reads", function()
    local back = assert(bundle.parse(bundle.emit(load_all())))
    local loader = bundle.loader(back)
    assert.equal("9", assert(loader:module(back.config.routes[1].filters[1])).version)
    assert.is_nil((loader:load("words")))
  end)

  it("carries a Lua routes file, whose functions are fetched again", function()
    FILES["conf/routes.lua"] = "return { routes = { { id = 'a', match = { function(x) return x end }, "
      .. "filters = { function() return require('filters.words') end } } } }"
    local back = assert(bundle.parse(bundle.emit(load_all("conf/routes.lua"))))
    local functions = assert(bundle.loader(back):route_functions(back.config))
    assert.equal("x", functions[back.config.opaques[1]["function"]]("x"))
  end)

  it("that is cut anywhere is refused", function()
    local text = bundle.emit(load_all())
    for length = 1, #text - 1, 7 do assert.is_nil((bundle.parse(text:sub(1, length)))) end
    local parts, why = bundle.parse("moongate-bundle 2\n")
    assert.is_nil(parts)
    assert.equal("not a bundle of this version", why)
  end)
end)


describe("the JSON of a configuration", function()
  it("keeps every byte, number and list", function()
    local value = { a = "\0\1\"\\/\127\195\169\255", b = { 1, 2.5, -3, 1e14, 0.1 },
      c = { op = "or", { k = 1 }, { k = 2 } }, d = true, e = {}, f = { { {} } } }
    assert.same(value, bundle.decode_config(bundle.encode_config(value)))
  end)

  it("refuses what it cannot carry", function()
    assert.has_error(function() bundle.encode_config({ a = print }) end, "a function has no place in a configuration")
  end)
end)
