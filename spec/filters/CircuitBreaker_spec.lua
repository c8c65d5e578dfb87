-- spec/filters/CircuitBreaker_spec.lua - failures in a row open it for all workers; one probe closes it.
local h = require "spec.helper"

local BROKEN = h.answer(500, "broken\n")


local function routes(port, options, more)
  return h.route_to(port, ("    filters: [ { CircuitBreaker: { %s } }%s ]\n"):format(options, more or ""))
end


-- A gateway on two workers before an origin that answers with origin.says, or lets origin.says do so.
local function broken(options, more)
  local upstream = { says = BROKEN }
  local origin = h.origin(function(stream, request, n)
    if type(upstream.says) == "function" then return upstream.says(stream, request, n) end
    stream:send(upstream.says)
  end)
  upstream.requests = origin.requests
  return h.gateway { routes = routes(origin.port, options, more), workers = 2 }, upstream, origin
end


local function statuses(gw, count)
  local list = {}
  for i = 1, count do list[i] = gw:get("/").status end
  return list
end

describe("CircuitBreaker", function()
  after_each(h.cleanup)

  it("opens after so many failures in a row, whichever worker had them, and keeps the upstream in peace", function()
    local gw, upstream = broken("failure_threshold: 4, cooldown_period: 1h")
    assert.same({ 500, 500, 500 }, statuses(gw, 3))
    upstream.says = h.answer(404, "x") -- no failure
    assert.same({ 404 }, statuses(gw, 1))
    upstream.says = BROKEN
    assert.same({ 500, 500, 500, 500, 503, 503, 503, 503 }, statuses(gw, 8))
    assert.equal(8, #upstream.requests)
    local refused = gw:get("/")
    assert.equal("3600", refused:header("retry-after"))
    assert.truthy(refused:header("content-type"):find("text/plain", 1, true))
  end)

  it("lets one request try after the cooldown, while others are refused, and closes when it went well", function()
    local gw, upstream = broken("failure_threshold: 2, cooldown_period: 300ms")
    assert.same({ 500, 500, 503 }, statuses(gw, 3))
    h.sleep(0.35)
    assert.same({ 500, 503, 503 }, statuses(gw, 3)) -- the probe failed; its own refusals are not counted
    h.sleep(0.35)
    local go_on = false
    upstream.says = function(stream)
      h.wait_for(function() return go_on end, 5)
      stream:send(h.answer(200, "well\n"))
    end
    local probe = gw:connect()
    probe:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.eventually(function() return #upstream.requests == 4 end, 5)
    h.sleep(0.4) -- longer than the cooldown: it is still the only one
    assert.same({ 503, 503, 503, 503 }, statuses(gw, 4))
    go_on = true
    assert.equal(200, probe:response().status)
    assert.same({ 200, 200, 200, 200 }, statuses(gw, 4))
  end)

  it("takes a probe whose client has left, or whose worker has died, for none", function()
    local gw, upstream = broken("failure_threshold: 1, cooldown_period: 200ms")
    assert.same({ 500, 503 }, statuses(gw, 2))
    upstream.says = function(stream) h.wait_for(function() return stream.gone end, 5) return false end
    for round = 1, 2 do
      h.sleep(0.25)
      local before = #upstream.requests
      local probe = gw:connect()
      probe:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      h.eventually(function() return #upstream.requests > before end, 5)
      assert.equal(503, gw:get("/").status)
      if round == 1 then
        probe:reset()
      else
        local before_death = gw:workers()
        for _, pid in ipairs(before_death) do gw:kill_worker(pid) end
        h.eventually(function() return #gw:workers() == 2 and gw:workers()[1] ~= before_death[1] end, 10)
      end
    end
    upstream.says = h.answer(200, "well\n")
    h.eventually(function()
      local answer = gw:get("/")
      return answer and answer.status == 200
    end, 5)
  end)

  it("counts what the client gets: a filter's status, no upstream, a filter that fails", function()
    local gw = broken("failure_threshold: 2, cooldown_period: 1h", ", { SetStatus: { status: 200 } }")
    assert.same({ 200, 200, 200, 200 }, statuses(gw, 4))
    local other, _, origin = broken("failure_threshold: 2, cooldown_period: 1h")
    origin.close()
    assert.same({ 502, 502, 503 }, statuses(other, 3))
    local failing = h.gateway {
      routes = routes(1, "failure_threshold: 2, cooldown_period: 1h", ", bad"), workers = 2,
      filters = { bad = "return { api = 1, request = function() error('no') end }" },
    }
    assert.same({ 500, 500, 503 }, statuses(failing, 3))
  end)

  it("stays open across a reload that does not change it", function()
    local gw, upstream, origin = broken("failure_threshold: 2, cooldown_period: 1h")
    assert.same({ 500, 500, 503 }, statuses(gw, 3))
    upstream.says = h.answer(200, "well\n")
    local same = "failure_threshold: 2, cooldown_period: 1h"
    gw:write_routes(routes(origin.port, same, ", { SetStatus: { status: 503 } }"))
    assert.equal(0, gw:control("reload").code)
    assert.same({ 503, 503 }, statuses(gw, 2))
    assert.equal(2, #upstream.requests)
    gw:write_routes(routes(origin.port, "failure_threshold: 3, cooldown_period: 1h"))
    assert.equal(0, gw:control("reload").code)
    assert.same({ 200, 200 }, statuses(gw, 2))
  end)
end)
