-- metrics_prometheus_spec.lua - Prometheus itself scrapes a gateway, and every metric can be asked for. Where it is
-- installed.
local cjson = require "cjson"
local h = require "spec.helper"

local CONFIG = [[
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: moongate
    static_configs: [ { targets: [ "127.0.0.1:%d" ] } ]
]]


local function free_port()
  local server = h.net.listen(function() end)
  local port = server.port
  server.close()
  return port
end


local function start_prometheus(target)
  local folder, port = h.folder(), free_port()
  h.write(folder .. "/prometheus.yml", CONFIG:format(target))
  h.spawn({ "prometheus", "--config.file=" .. folder .. "/prometheus.yml", "--storage.tsdb.path=" .. folder .. "/data",
    "--web.listen-address=127.0.0.1:" .. port, "--log.level=warn" }, { name = "prometheus" })
  return port
end


-- The result of a query; nil while nobody answers.
local function query(port, expression)
  local client = h.connect(port)
  if not client then return nil end
  client:send(("GET /api/v1/query?query=%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"):format(expression))
  local response = client:response()
  client:close()
  local answer = response and response.status == 200 and cjson.decode(response.body)
  return answer and answer.data.result
end


describe("Prometheus", function()
  after_each(h.cleanup)

  it("scrapes a gateway and answers a query for every metric", function()
    if os.execute("command -v prometheus >/dev/null 2>&1") ~= 0 then return pending("prometheus is not installed") end
    local folder = h.folder()
    h.write(folder .. "/status.json", cjson.encode { time_us = (os.time() + 60) * 1e6, lag_entries = 1, lag_seconds = 1,
      delivered_total = 1 })
    local guards = "    filters: [ { RateLimiter: { capacity: 9, refill_tokens: 9, refill_period: 1s } } ]\n"
    local gateway = h.gateway {
      routes = h.route_to(h.origin().port, guards .. "    journal: { request: { level: HEADERS } }\n"), workers = 2,
      server = ("management: { tailers: [ %q ] }\n"):format(folder), args = { "--journal", folder .. "/journal" },
    }
    for _ = 1, 5 do gateway:get("/") end
    local port = start_prometheus(gateway:management_port())
    h.eventually(function()
      local result = query(port, "up")
      return result and result[1] and result[1].value[2] == "1"
    end, 30, "the first scrape")
    local asked = {}
    for name in gateway:manage("/metrics").body:gmatch("\n(moongate_[%w_]+)[{ ]") do
      local result = asked[name] or query(port, name)
      asked[name] = result
      assert.truthy(result and #result > 0, name)
    end
    local total = query(port, "sum(moongate_route_requests_total)")
    assert.equal("5", total[1].value[2])
    local p99 = query(port, "histogram_quantile(0.99,sum(moongate_route_request_duration_seconds_bucket)by(le))")
    assert.truthy(tonumber(p99[1].value[2]) < 16.8)
  end)
end)
