-- spec/e2e/hot_path_spec.lua - what the chains of header filters cost once they are warm: no trace is started or ended
-- early, and Lua makes no garbage. Measured inside a worker, whose compile.lua gets a few lines more for that.
local h = require "spec.helper"

local WARM, MEASURED = 2000, 10000

-- Counts trace events; says at WARM calls of a route's request function and MEASURED calls later what there has been.
local PROBE = [[


local traces = { start = 0, stop = 0, abort = 0 }
require("jit").attach(function(what) traces[what] = (traces[what] or 0) + 1 end, "trace")


local function report(calls)
  local text = ("probe %d: %.0f bytes, %d started, %d aborted"):format(calls, collectgarbage("count") * 1024,
    traces.start, traces.abort)
  C.mg_script_log(1, text, #text)
end


local load_generation = compile.load


function compile.load(...)
  local chains = load_generation(...)
  local calls = 0
  local function probe()
    calls = calls + 1
    -- The watchdog's samples make traces end early now and then, by the clock: not what is measured here.
    if calls == 1 then require("jit.profile").stop() end
    if calls == WARM then
      report(calls)
      collectgarbage("stop")
      report(calls)
    elseif calls == WARM + MEASURED then
      report(calls)
      collectgarbage("restart")
    end
  end
  require("jit").off(report)
  require("jit").off(probe)
  for _, name in ipairs { "request", "timed_request" } do
    local run = chains[1][name]
    chains[1][name] = function(number)
      probe()
      run(number)
    end
    require("jit").off(chains[1][name]) -- as C does, it calls the chain from outside of any trace
  end
  return chains
end


return compile
]]

local CHAINS = {
  ["headers, requests and answers"] = [[
      - AddCorrelationId
      - AddRequestHeader: { name: X-A, value: "1" }
      - SetRequestHeader: { name: X-B, value: "2" }
      - RemoveRequestHeader: { name: X-C }
      - RemoveCacheHeaders
      - AddResponseHeader: { name: X-D, value: "1" }
      - SetResponseHeader: { name: X-E, value: "2" }
      - RemoveResponseHeader: { name: X-F }
      - SetStatus: { status: 200 }
      - SetResponseCookie: { name: seen, value: "1" }
]],
  ["limiters and breakers"] = [[
      - RateLimiter: { capacity: 1000000, refill_tokens: 1, refill_period: 1s }
      - RateLimiter: { capacity: 1000000, refill_tokens: 1, refill_period: 1s, key: { header: User-Agent } }
      - RateLimiter: { capacity: 1000000, refill_tokens: 1, refill_period: 1s, key: { query: q } }
      - RateLimiter: { capacity: 1000000, refill_tokens: 1, refill_period: 1s, key: { cookie: id } }
      - CircuitBreaker: { failure_threshold: 5, cooldown_period: 1s }
]],
  ["requirements, cookies and parameters"] = [[
      - RequireRequestHeader: { name: User-Agent }
      - RequireMatchRequestHeader: { name: User-Agent, regexp: '[a-z]+' }
      - RequireQueryParameter: { name: q }
      - RequireMatchQueryParameter: { name: q, regexp: '\d+' }
      - RequireCookie: { name: id }
      - RequireMatchCookie: { name: id, regexp: '[a-z]+' }
      - SetRequestCookie: { name: a, value: "1" }
      - RemoveRequestCookie: { name: id }
      - SetQueryParameter: { name: b, value: "1" }
      - AddQueryParameter: { name: c, value: "1" }
      - RemoveQueryParameter: { name: q }
      - RequestSizeLimit: { max_size: 1kb }
      - InjectBasicAuth: { username: a, password: b }
]],
}


-- A copy of the gateway's Lua files whose compile.lua ends with the probe.
local function probed_files()
  local folder = h.folder()
  for _, name in ipairs { "lua", "filters" } do
    assert(os.execute(("cp -r %s %s/"):format(name, folder)) == 0)
  end
  local path = folder .. "/lua/compile.lua"
  local probe = PROBE:gsub("%f[%a]WARM%f[%A]", tostring(WARM)):gsub("%f[%a]MEASURED%f[%A]", tostring(MEASURED))
  local source, count = h.process.read_file(path):gsub("\nreturn compile\n$", function() return probe end)
  assert.equal(1, count)
  h.write(path, source)
  return folder
end


-- The numbers of the n-th line of the probe.
local function line_of(gateway, n)
  local at = 0
  for bytes, started, aborted in gateway:log():gmatch("probe %d+: (%d+) bytes, (%d+) started, (%d+) aborted") do
    at = at + 1
    if at == n then return { bytes = tonumber(bytes), started = tonumber(started), aborted = tonumber(aborted) } end
  end
end


describe("a chain of filters that is warm", function()
  after_each(h.cleanup)

  for what, filters in pairs(CHAINS) do
    it("starts no trace, ends none early and makes no garbage: " .. what, function()
      local gateway = h.gateway {
        routes = h.route_to(h.builtin_origin().port, "    filters:\n" .. filters),
        env = { MOONGATE_LUA_PATH = probed_files() },
      }
      local client = gateway:connect()
      local request = "GET /fixed/64?q=1 HTTP/1.1\r\nHost: a\r\nUser-Agent: spec\r\nCookie: id=abc\r\n\r\n"
      for _ = 1, WARM + MEASURED do
        client:send(request)
        assert.equal(200, client:response().status)
      end
      local before = h.eventually(function() return line_of(gateway, 2) end, 5, "the probe's second line")
      local after = h.eventually(function() return line_of(gateway, 3) end, 5, "the probe's last line")
      assert.is_true(before.started > 0)
      assert.equal(before.started, after.started)
      assert.equal(before.aborted, after.aborted)
      -- What the second line itself cost is in the difference: a few strings.
      assert.is_true(after.bytes - before.bytes < 1024, ("%d bytes"):format(after.bytes - before.bytes))
    end)
  end
end)
