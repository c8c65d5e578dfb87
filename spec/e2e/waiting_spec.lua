-- spec/e2e/waiting_spec.lua - filters that wait: nobody else does, and what happens meanwhile meets no stale filter.
local h = require "spec.helper"
local now = require("socket").gettime

local SLEEPER = [[
local f = { api = 1 }
function f.request(req)
  moongate.sleep(0.4)
  req:set_header("x-slept", "yes")
end
function f.response(res) res:set_header("x-response", "ran") end
function f.log(ex) moongate.log("info", "logged " .. tostring(ex:error())) end
return f
]]


local function gateway(options)
  local origin = h.origin()
  options = options or {}
  options.routes = h.route_to(origin.port, "    filters: [ sleeper ]\n")
  options.filters = { sleeper = options.source or SLEEPER }
  options.workers = 1
  return h.gateway(options), origin
end

describe("a filter that waits", function()
  after_each(h.cleanup)

  it("holds up its own exchange alone", function()
    local gw, origin = gateway()
    local clients = {}
    local began = now()
    for i = 1, 20 do
      clients[i] = gw:connect()
      clients[i]:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    end
    for _, client in ipairs(clients) do assert.equal(200, client:response().status) end
    local took = now() - began
    assert.is_true(took >= 0.4 and took < 4, tostring(took))
    for _, request in ipairs(origin.requests) do assert.equal("yes", request:header("x-slept")) end
  end)

  it("waits as long as it says, to the millisecond, by a clock that has fractions", function()
    local gw = gateway { source = [[
      return { api = 1, request = function(req)
        local asked = tonumber(req:header("x-asked"))
        local began = moongate.time()
        moongate.sleep(asked)
        req:respond(200, ("%.6f %.6f"):format(began, moongate.time() - began))
      end }]] }
    for _, asked in ipairs { 0, 0.0004, 0.001, 0.005, 0.02, 0.07 } do
      local least = math.huge
      for _ = 1, 10 do
        local body = gw:get("/", ("X-Asked: %g\r\n"):format(asked)).body
        local began, took = body:match("^(%S+) (%S+)$")
        assert.is_true(math.abs(now() - tonumber(began)) < 5, body)
        assert.is_true(tonumber(took) >= asked - 0.0002, body)
        least = math.min(least, tonumber(took))
      end
      assert.is_true(least < asked + 0.01, ("%g s took %g s"):format(asked, least))
    end
  end)

  it("that sleeps without end leaves the loop to the others", function()
    local gw = gateway { source = [[
      return { api = 1, request = function(req)
        if req:header("x-wake") then return req:respond(204) end
        for _ = 1, 2000 do moongate.sleep(0) end
      end }]] }
    local client = gw:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ = 1, 20 do assert.equal(204, gw:get("/", "X-Wake: 1\r\n").status) end
    client:close()
  end)

  it("ends on its generation when a reload comes", function()
    local gw, origin = gateway()
    local client = gw:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.sleep(0.1)
    gw:write_filter("sleeper", "return { api = 1, request = function(req) req:set_header('x-slept', 'no') end }")
    assert.equal(0, gw:control("reload").code)
    assert.equal(200, gw:get("/").status)
    assert.equal("no", origin.requests[1]:header("x-slept"))
    assert.equal("ran", client:response():header("x-response"))
    assert.equal("yes", origin.requests[2]:header("x-slept"))
  end)

  it("is part of how long its exchange took, to log functions too", function()
    local gw = gateway { source = [[
      return { api = 1,
        request = function() moongate.sleep(0.3) end,
        log = function(ex) moongate.log("info", ("took %d us"):format(ex:duration_us())) end }]] }
    assert.equal(200, gw:get("/").status)
    local took = tonumber(h.eventually(function() return gw:log():match("took (%d+) us") end, 5, "the log line"))
    assert.is_true(took >= 300000 and took < 5000000, tostring(took))
  end)

  it("keeps the lines that it set before it waited, whatever is loaded meanwhile", function()
    local gw, origin = gateway { source = [[
      local f = { api = 1 }
      function f.request(req)
        req:set_header("x-before", "set before")
        if req:has("x-wait") then moongate.sleep(0.4) end
        req:set_header("x-after", "set after")
      end
      function f.response(res)
        res:set_header("x-before", "set before")
        if res:request():has("x-wait") then moongate.sleep(0.4) end
        res:set_header("x-after", "set after")
      end
      return f]] }
    for _ = 1, 5 do assert.equal(200, gw:get("/").status) end -- what is constant is known by now
    local client = gw:connect()
    client:send("GET / HTTP/1.1\r\nHost: a\r\nX-Wait: 1\r\n\r\n")
    for i = 1, 5 do
      h.sleep(0.12)
      gw:write_filter("sleeper", ("return { api = 1, request = function(req) req:set_header('x-new', '%d') end }")
        :format(i))
      assert.equal(0, gw:control("reload").code)
      assert.equal(200, gw:get("/").status)
    end
    local response = client:response()
    local request = h.eventually(function()
      for _, one in ipairs(origin.requests) do if one:header("x-wait") then return one end end
    end, 5, "the request that waited")
    for _, message in ipairs { request, response } do
      assert.equal("set before", message:header("x-before"))
      assert.equal("set after", message:header("x-after"))
    end
  end)

  it("is dropped when its client leaves; log runs once, nothing reaches the upstream", function()
    local gw, origin = gateway()
    for i = 1, 6 do
      local client = gw:connect()
      client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      h.sleep(0.05)
      if i % 2 == 0 then client:reset() else client:close() end
    end
    h.eventually(function() return select(2, gw:log():gsub("logged reset", "")) >= 3 end, 5, "the log of the resets")
    h.sleep(0.6)
    assert.is_nil(gw:log():find(" failed: ", 1, true))
    assert.is_true(#origin.requests <= 3) -- a client that only ended its side may still read an answer
    assert.equal(200, gw:get("/").status)
  end)

  it("is dropped when its request's body comes too late, and its response filters run", function()
    local gw, origin = gateway {
      server = "http: { request_body_timeout: 200ms }\n", source = SLEEPER:gsub("0%.4", "30"),
    }
    local client = gw:connect()
    client:send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
    local answer = client:response(nil, 10)
    assert.equal(408, answer.status)
    assert.equal("ran", answer:header("x-response"))
    assert.equal(0, #origin.requests)
  end)
end)
