-- metrics_spec.lua - what Prometheus reads: well-formed in both formats, and true.
local h = require "spec.helper"
local now = require("socket").gettime


-- Reads the text of one format strictly: samples ("name{labels}" → number) and types by family. Raises on what a parser
-- could stumble over.
local function parse(text)
  local samples, types, helps, family = {}, {}, {}, nil
  for line in text:gmatch("([^\n]*)\n") do
    local what, name, rest = line:match("^# (%u+) ([%w_]+) (.+)$")
    if what == "HELP" then
      assert(not helps[name], name .. " has two HELP lines")
      helps[name], family = rest, name
    elseif what == "TYPE" then
      assert(family == name and not types[name], "TYPE of " .. name .. " does not follow its HELP")
      types[name] = rest
    elseif line ~= "# EOF" then
      local sample, labels, value = line:match("^([%a_][%w_]*)(%b{}) (%S+)$")
      if not sample then
        sample, value = line:match("^([%a_][%w_]*) (%S+)$")
        labels = ""
      end
      assert(sample and tonumber(value), "not a sample: " .. line)
      local base = sample:gsub("_bucket$", ""):gsub("_sum$", ""):gsub("_count$", "")
      assert(sample:find(family, 1, true) == 1 or base == family, line .. " stands under " .. family)
      assert(not samples[sample .. labels], "twice: " .. line)
      samples[sample .. labels] = tonumber(value)
    end
  end
  for name in pairs(helps) do assert(types[name], name .. " has no TYPE") end
  return samples, types
end


local function scrape(gateway, accept)
  local response = gateway:manage("/metrics", { headers = accept and ("Accept: " .. accept .. "\r\n") })
  assert.equal(200, response.status)
  local samples, types = parse(response.body)
  return samples, types, response
end


-- The samples once test(samples) holds: counters follow the answers they count.
local function scrape_until(gateway, test, what)
  return h.eventually(function()
    local samples = scrape(gateway)
    return test(samples) and samples
  end, 5, what)
end


local function two_routes(port)
  return ([[
routes:
  - id: 'say "hi" \ now'
    match: [ { PathPrefix: { prefix: /a } } ]
    filters: [ SetStatus: { status: 418 } ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
  - id: b
    match: [ { PathPrefix: { prefix: /b } } ]
    filters: [ ReturnResponse: { status: 202, body: ok } ]
]]):format(port)
end


describe("/metrics", function()
  after_each(h.cleanup)

  it("counts answers by route and status, as the upstream gave them and as the client got them", function()
    local origin = h.origin(function(stream, request)
      stream:send(h.answer(request.target == "/a/bad" and 500 or 200, "12345"))
    end)
    local gateway = h.gateway { routes = two_routes(origin.port), workers = 2 }
    for _, target in ipairs { "/a", "/a", "/a/bad", "/b", "/nowhere" } do gateway:get(target) end
    local samples = scrape_until(gateway, function(s) return s["moongate_requests_total"] == 5 end, "five requests")
    local a = [[route="say \"hi\" \\ now"]]
    assert.equal(3, samples["moongate_route_requests_total{" .. a .. ',code="418"}'])
    assert.equal(2, samples["moongate_route_upstream_responses_total{" .. a .. ',code="200"}'])
    assert.equal(1, samples["moongate_route_upstream_responses_total{" .. a .. ',code="500"}'])
    assert.equal(15, samples["moongate_route_response_body_bytes_total{" .. a .. "}"])
    assert.equal(1, samples['moongate_route_requests_total{route="b",code="202"}'])
    assert.is_nil(samples['moongate_route_upstream_responses_total{route="b",code="202"}'])
    assert.equal(1, samples["moongate_unrouted_requests_total"])
    assert.equal(1, samples['moongate_errors_total{reason="no_route"}'])
    assert.equal(0, samples["moongate_route_active_requests{" .. a .. "}"])
    assert.equal(1, samples['moongate_worker_up{worker="1"}'])
    assert.equal(1, samples["moongate_ready"])
  end)

  it("tells what each filter of each route costs", function()
    local failing = "return { api = 1, version = '1', request = function() error('no') end }"
    local gateway = h.gateway {
      routes = h.route_to(h.origin().port, "    filters: [ SetStatus: { status: 418 }, failing ]\n"),
      filters = { failing = failing },
    }
    gateway:get("/")
    gateway:get("/")
    local function sum(samples, name)
      local total = 0
      for sample, value in pairs(samples) do
        if sample:find("^moongate_filter_" .. name .. "_total{route=\"all\"") then total = total + value end
      end
      return total
    end
    scrape_until(gateway, function(s)
      return sum(s, "errors") == 2 and sum(s, "calls") >= 2 and sum(s, "busy_seconds") > 0
    end, "calls, failures and time")
  end)

  it("has a histogram whose buckets grow from 256 us to 16.8 s and end at the count", function()
    local origin = h.origin(function(stream, request)
      if request.target == "/slow" then h.sleep(0.3) end
      stream:send(h.answer(200, "x"))
    end)
    local gateway = h.gateway(origin.port)
    for _ = 1, 5 do gateway:get("/") end
    gateway:get("/slow")
    local name = "moongate_route_request_duration_seconds"
    local samples = scrape_until(gateway, function(s) return s[name .. '_count{route="all"}'] == 6 end, "six requests")
    local before, buckets = 0, 0
    for bits = 8, 24 do
      local value = samples[('%s_bucket{route="all",le="%.6f"}'):format(name, 2 ^ bits / 1e6)]
      assert.truthy(value >= before, bits)
      before, buckets = value, buckets + 1
    end
    assert.equal(17, buckets)
    assert.equal(6, samples[name .. '_bucket{route="all",le="+Inf"}'])
    assert.equal(5, samples[('%s_bucket{route="all",le="0.262144"}'):format(name)])
    assert.truthy(samples[name .. '_sum{route="all"}'] >= 0.3)
    assert.truthy(samples[name .. '_sum{route="all"}'] < 3)
  end)

  it("shows what runs, also as a tunnel, and forgets it with a worker that died", function()
    local go = false
    local gateway = h.gateway(h.origin(function(stream)
      h.eventually(function() return go end, 20, "the spec")
      stream:send(h.answer(200, "x"))
    end).port)
    local client = gateway:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    scrape_until(gateway, function(s) return s['moongate_route_active_requests{route="all"}'] == 1 end, "it to run")
    for _, pid in ipairs(gateway:workers()) do gateway:kill_worker(pid) end
    local samples = scrape_until(gateway, function(s)
      return s['moongate_route_active_requests{route="all"}'] == 0
        and s['moongate_worker_restarts_total{worker="0"}'] == 1
    end, "the replacement")
    assert.equal(0, samples["moongate_exchanges_active"])
    go = true
  end)

  it("goes on counting a route across reloads and a worker's death", function()
    local origin = h.origin()
    local gateway = h.gateway(origin.port)
    local function total(samples) return samples['moongate_route_requests_total{route="all",code="200"}'] end
    gateway:get("/")
    scrape_until(gateway, function(s) return total(s) == 1 end, "the first")
    gateway:write_routes("version: '2'\n" .. h.route_to(origin.port))
    assert.equal(0, gateway:control("reload").code)
    gateway:get("/")
    scrape_until(gateway, function(s) return total(s) == 2 and s["moongate_generation"] == 2 end, "the second")
    for _, pid in ipairs(gateway:workers()) do gateway:kill_worker(pid) end
    h.eventually(function() return gateway:get("/") end, 10, "the replacement")
    scrape_until(gateway, function(s) return total(s) >= 3 end, "the third")
    gateway:write_routes("routes: 7\n")
    assert.equal(1, gateway:control("reload").code)
    scrape_until(gateway, function(s)
      return s["moongate_routes_config_rejected"] == 1 and s["moongate_gateway_health"] == 1 and
        s["moongate_reloads_refused_total"] >= 1
    end, "the refusal")
  end)

  it("counts what is recorded, and how much room is left for it", function()
    local folder = h.folder()
    local gateway = h.gateway {
      routes = h.route_to(h.origin().port, "    journal: { request: { level: METADATA } }\n"),
      args = { "--journal", folder },
    }
    gateway:get("/")
    local samples = scrape_until(gateway, function(s)
      return s["moongate_journal_exchanges_total"] == 1 and s["moongate_journal_bytes_total"] > 0
        and s["moongate_journal_plain_bytes_total"] > 0
    end, "the record")
    assert.equal(0, samples["moongate_journal_exchanges_dropped_total"])
    assert.truthy(samples["moongate_journal_available_bytes"] > 0)
    local plain = samples["moongate_journal_plain_bytes_total"]
    assert.truthy(plain > 40 and plain < 4000, plain)
    assert.equal(plain, samples['moongate_route_journal_bytes_total{route="all"}'])
    assert.equal(samples["moongate_journal_bytes_total"], samples['moongate_journal_shard_bytes_total{worker="0"}'])
    local slots, used = samples['moongate_journal_stage_slots{worker="0"}'],
      samples['moongate_journal_stage_slots_used{worker="0"}']
    assert.truthy(slots >= 2 and used <= slots, ("%d of %d"):format(used, slots))
    gateway:kill_worker(gateway:workers()[1])
    h.eventually(function() return gateway:get("/") end, 10, "the replacement")
    scrape_until(gateway, function(s)
      local now_plain, now_bytes = s["moongate_journal_plain_bytes_total"], s["moongate_journal_bytes_total"]
      assert(now_plain >= plain and now_bytes >= samples["moongate_journal_bytes_total"], "a counter went down")
      return now_plain > plain
    end, "the replacement's record")
  end)

  it("is OpenMetrics for those who ask for it", function()
    local gateway = h.gateway(h.origin().port)
    gateway:get("/")
    local samples, types, response = scrape(gateway, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert.truthy(response:header("content-type"):find("application/openmetrics-text; version=1.0.0", 1, true))
    assert.truthy(response.body:find("\n# EOF\n$"))
    assert.equal("counter", types.moongate_requests)
    assert.equal("histogram", types.moongate_route_request_duration_seconds)
    assert.truthy(samples.moongate_requests_total)
    local _, plain, text = scrape(gateway)
    assert.equal("counter", plain.moongate_requests_total)
    assert.equal("text/plain; version=0.0.4; charset=utf-8", text:header("content-type"))
  end)

  it("passes Prometheus' own check where that is installed", function()
    local promtool = os.getenv("MOONGATE_PROMTOOL") or "promtool"
    if os.execute(("command -v %s >/dev/null 2>&1"):format(promtool)) ~= 0 then return end
    local gateway = h.gateway { routes = h.origin().port, workers = 2 }
    gateway:get("/")
    local file = h.folder() .. "/metrics"
    h.write(file, gateway:manage("/metrics").body)
    local checked = h.execute { "sh", "-c", ("%s check metrics <%s"):format(promtool, file) }
    assert.equal("", checked.out .. checked.err)
    assert.equal(0, checked.code)
  end)

  it("of a thousand routes is there in a moment", function()
    local port, routes = h.origin().port, { "routes:\n" }
    for i = 1, 1000 do
      routes[#routes + 1] = ("  - { id: r%d, match: [ { Path: { path: /%d } } ], upstream: { targets: [ { url: "
        .. '"http://127.0.0.1:%d" } ] } }\n'):format(i, i, port)
    end
    local gateway = h.gateway { routes = table.concat(routes), workers = 2 }
    gateway:get("/1000")
    local best = math.huge
    for _ = 1, 5 do
      local begin = now()
      local body = gateway:manage("/metrics").body
      best = math.min(best, now() - begin)
      assert.truthy(body:find('moongate_route_requests_total{route="r1000",code="200"} 1\n', 1, true))
      h.sleep(0.12)
    end
    assert.truthy(best < (h.sanitized and 2 or 0.1), ("%.0f ms"):format(best * 1000))
  end)
end)
