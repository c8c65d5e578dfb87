-- server_conf_spec.lua - server.yaml: defaults that equal those of core/settings.h, bounds, refusals.
local support = require "spec.lua.support"
local conf = require "moongate.conf"
local server_conf = require "moongate.server_conf"


local function load(text, variables)
  local settings, lines = conf.load_server("server.yaml", support.options({ ["server.yaml"] = text }, variables))
  return settings, settings and "" or table.concat(lines, "\n")
end


-- Keys that are absent where the core has a zero.
local WITHOUT_DEFAULT = {
  ["server.workers"] = true, ["storage.shard_count"] = true, ["storage.journal_security.fingerprint_key"] = true,
}

-- key → { type, default } of core/settings.h.
local function core_settings()
  local found, count = {}, 0
  local text = assert(support.file("core/settings.h"))
  for kind, key, default in text:gmatch('X%((%u+), [%w_]+, "([%w_.]+)", ([^)]+)%)') do
    found[key] = { kind = kind, default = default:match('^"(.*)"$') or default }
    count = count + 1
  end
  return found, count
end

-- { what, file, words of the one message }
local REFUSED = {
  { "HTTP/2", "http: { enable_http2: true }", "http.enable_http2: http.enable_http2: true is not supported yet" },
  { "an unknown section", "sever: {}", "unknown option sever (did you mean server?)" },
  { "an unknown key", "server: { idle_timout: 1s }", "(did you mean idle_timeout?)" },
  { "a port out of range", "server: { port: 70000 }", 'found "70000", accepted: a whole number from 1 to 65535' },
  { "no workers", "server: { workers: 0 }", "server.workers" },
  { "a duration without unit", "server: { idle_timeout: 30 }", "(the unit is missing)" },
  { "a timeout of a year", "server: { idle_timeout: 365d }", "server.idle_timeout" },
  { "a head that is too small", "limits: { max_header_size: 100 }", "from 1kb to 1mb" },
  { "a network that is none", "limits: { trusted_proxies: [ 10.0.0.0/33 ] }", "limits.trusted_proxies[0]" },
  { "a host name as a proxy", "limits: { trusted_proxies: [ proxy.local ] }", "an address or a network" },
  { "a short key", "storage: { journal_security: { fingerprint_key: hunter2 } }", "found a secret value" },
  { "a shard count between powers", "storage: { shard_count: 6 }", "a power of two such as 4 or 8" },
  { "a shard size between blocks", "storage: { shard_size: 100001 }", "a multiple of 32kb such as 98304 or 131072" },
  { "both lists of headers", "storage: { journal_security: { safe_request_headers: a, "
    .. "additional_safe_request_headers: b } }", "exclude each other" },
  { "an escaped parameter", "storage: { journal_security: { safe_query_parameters: [ a%20b ] } }", 'accepted: "a b"' },
  { "calls that outlast a worker", "scripts: { max_call_time: 3s }",
    "scripts: found max_call_time 3s and stuck_after 2s; accepted: a max_call_time below stuck_after" },
  { "a way to sync that there is not", "storage: { sync: always }", "process, group, or an interval" },
}


describe("server.yaml", function()
  it("has the defaults of core/settings.h, for every one of its keys and no other", function()
    local core, count = core_settings()
    local settings = assert(conf.load_server(nil, support.options({})))
    local listed = 0
    for _, key in ipairs(server_conf.CORE_KEYS) do
      if type(settings[key]) ~= "table" then
        listed = listed + 1
        assert.truthy(core[key], key .. " is not in core/settings.h")
        local expected = WITHOUT_DEFAULT[key] and "nil" or core[key].default
        assert.equal(expected, tostring(settings[key]), key)
      end
    end
    assert.equal(count, listed)
  end)

  it("gives milliseconds, bytes, flags and lists", function()
    local settings = assert(load([[
server: { port: 80, idle_timeout: 1m, workers: 4 }
http: { encoded_slash: refuse }
limits: { max_header_size: 8KB, max_entity_size: 2mb, trusted_proxies: [ 10.0.0.0/8, "::1", fd00::/8, 1.2.3.4 ] }
proxy: { max_exchange_time: 1h }
storage: { sync: 100ms, journal_security: { fingerprint_key: "0123456789abcdef0123456789abcdef" } }
]]))
    assert.equal(80, settings["server.port"])
    assert.equal(60000, settings["server.idle_timeout"])
    assert.equal(4, settings["server.workers"])
    assert.is_true(settings["http.encoded_slash_refused"])
    assert.equal(8192, settings["limits.max_header_size"])
    assert.equal(2097152, settings["limits.max_entity_size"])
    assert.equal(3600000, settings["proxy.max_exchange_time"])
    assert.equal(100, settings["storage.sync"])
    assert.equal("0123456789abcdef0123456789abcdef", settings["storage.journal_security.fingerprint_key"])
    assert.same({ "10.0.0.0/8", "::1", "fd00::/8", "1.2.3.4" }, settings["limits.trusted_proxies"])
  end)

  it("may leave sections empty", function()
    assert.equal(8888, assert(load("server:\nlimits: ~\n"))["server.port"])
  end)

  it("takes none where there may be no limit, and only there", function()
    assert.equal(0, assert(load("limits: { max_entity_size: none }"))["limits.max_entity_size"])
    local _, lines = load("server: { idle_timeout: none }")
    assert.truthy(lines:find("server.idle_timeout", 1, true), lines)
  end)

  it("reads variables before it reads numbers", function()
    assert.equal(99, assert(load("server: { port: '${PORT:80}' }", { PORT = "99" }))["server.port"])
    local _, lines = load("server: { port: '${PORT}' }", { PORT = "secret words" })
    assert.is_nil(lines:find("secret words", 1, true), lines)
  end)

  for _, row in ipairs(REFUSED) do
    it("is refused with " .. row[1], function()
      local settings, lines = load(row[2] .. "\n")
      assert.is_nil(settings)
      assert.truthy(lines:find(row[3], 1, true), lines)
      assert.truthy(lines:find("^server.yaml:1:%d+: "), lines)
      assert.is_nil(lines:find("\n", 1, true), lines)
      assert.is_nil(lines:find("hunter2", 1, true), lines)
    end)
  end

  it("knows addresses from what only looks like them", function()
    for _, address in ipairs { "1.2.3.4", "::", "::1", "fe80::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "10.0.0.0/0" } do
      assert.truthy(load(("limits: { trusted_proxies: '%s' }"):format(address)), address)
    end
    for _, address in ipairs { "1.2.3", "1.2.3.256", "01.2.3.4", "1:2", ":::", "1::2::3", "1:2:3:4:5:6:7:8:9", "g::1",
      "::1/129", "1.2.3.4/", "12345::1", "1:2:3:4:5:6:7:8::", "[::1]" } do
      assert.is_nil((load(("limits: { trusted_proxies: '%s' }"):format(address))), address)
    end
  end)
end)
