-- spec/e2e/filter_bodies_spec.lua - filters that hold bodies, change them as they pass, look at a try, decide a match.
local h = require "spec.helper"


local HOLD = [[
local f = { api = 1, body = { request = "buffer", response = "buffer" } }
function f.request(req) req:set_body("<" .. req:body() .. ">") end
function f.response(res) res:set_body("[" .. res:body() .. "]") end
return f
]]

local SHOUT = [[
local f = { api = 1, body = { response = "stream" } }
function f.chunk(res, bytes, last) return bytes:upper() .. (last and "!" or "") end
return f
]]

local DOUBLE = [[
local f = { api = 1, body = { request = "stream" } }
function f.chunk(req, bytes, last) return bytes .. bytes end
return f
]]

local SLOW = [[
local f = { api = 1, body = { response = "stream" } }
function f.chunk(res, bytes, last)
  moongate.sleep(0.05)
  return bytes
end
return f
]]


local function gateway_with(list, sources, handler, server, options)
  local origin = h.origin(handler, options)
  local gateway = h.gateway {
    routes = h.route_to(origin.port, "    filters: " .. list .. "\n"), filters = sources, server = server,
  }
  return gateway, origin
end


local function post(gateway, body)
  return (gateway:raw(("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"):format(#body, body)))
end


describe("a body in the hands of filters", function()
  after_each(h.cleanup)

  it("is held whole, changed, and framed anew both ways", function()
    local gateway, origin = gateway_with("[ hold ]", { hold = HOLD })
    local response = post(gateway, "abc")
    assert.equal("<abc>", origin.requests[1].body)
    assert.equal("5", origin.requests[1]:header("content-length"))
    assert.equal("identity", origin.requests[1]:header("accept-encoding"))
    assert.truthy(response.body:find("^%[.*%]$"))
    assert.equal(tostring(#response.body), response:header("content-length"))
  end)

  it("is held when it comes in chunks and in pieces", function()
    local gateway, origin = gateway_with("[ hold ]", { hold = HOLD })
    local client = gateway:connect()
    client:send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    h.sleep(0.05)
    client:send("2\r\nde\r\n0\r\n\r\n")
    assert.equal(200, client:response().status)
    assert.equal("<abcde>", origin.requests[1].body)
  end)

  it("larger than limits.max_held_body is refused by that name", function()
    local gateway, origin = gateway_with("[ hold ]", { hold = HOLD }, nil, "limits: { max_held_body: 1kb }\n")
    local response = post(gateway, ("x"):rep(2000))
    assert.equal(413, response.status)
    assert.truthy(response.body:find("limits.max_held_body", 1, true))
    assert.equal(0, #origin.requests)
  end)

  it("passes through chunk functions piece by piece", function()
    local gateway = gateway_with("[ shout ]", { shout = SHOUT },
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert.equal("ABCDE!", gateway:get("/").body)
    assert.equal("ABCDE!", gateway:get("/").body)
  end)

  it("may grow on its way upstream", function()
    local gateway, origin = gateway_with("[ double ]", { double = DOUBLE })
    assert.equal(200, post(gateway, "abc").status)
    assert.equal("abcabc", origin.requests[1].body)
    assert.equal("chunked", origin.requests[1]:header("transfer-encoding"))
  end)

  it("waits while its chunk function sleeps", function()
    local gateway = gateway_with("[ slow ]", { slow = SLOW },
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    assert.equal("hello", gateway:get("/").body)
  end)

  it("has no length to promise to HEAD once filters change it", function()
    local gateway = gateway_with("[ shout ]", { shout = SHOUT },
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    local response = gateway:raw("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD")
    assert.equal(200, response.status)
    assert.is_nil(response:header("content-length"))
  end)

  it("keeps its filters apart where the answer comes while one waits with a piece of the request", function()
    local source = [[
local f = { api = 1, body = { request = "stream", response = "%s" } }
function f.chunk(message, bytes, last)
  if bytes == "def" then moongate.sleep(0.2) end
  return bytes:upper()
end
function f.response(res) res:set_header("x-ran", "yes") end
function f.log(ex) moongate.log("info", "logged " .. tostring(ex:status())) end
return f
]]
    for _, mode in ipairs { "stream", "buffer" } do
      for _, last in ipairs { "0\r\n\r\n", "" } do
        local gateway = gateway_with("[ it ]", { it = source:format(mode) }, function(stream)
          h.sleep(0.1)
          stream:send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
          h.sleep(0.3)
          return false
        end, nil, { body = false })
        local client = gateway:connect()
        client:send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        h.sleep(0.05)
        client:send("3\r\ndef\r\n" .. last)
        local response = client:response()
        assert.same({ 200, "yes", mode == "stream" and "OK" or "ok" },
          { response.status, response:header("x-ran"), response.body })
        h.eventually(function() return gateway.child:errors():find("logged 200", 1, true) end, 5, "the log function")
        client:close()
      end
    end
  end)

  it("waits outside where its chunk function is slower than who sends it", function()
    local slow = [[
local f = { api = 1, body = { request = "stream", response = "stream" } }
function f.chunk(message, bytes, last) moongate.sleep(0.1) return bytes end
return f
]]
    local megabyte = ("x"):rep(2 ^ 20)
    local gateway = gateway_with("[ slow ]", { slow = slow }, function(stream)
      stream:send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
      while stream:send(megabyte, 1) do h.sleep(0) end -- as much as is taken
      return false
    end, nil, { body = false })
    local client = gateway:connect()
    client:send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
    for _ = 1, 30 do client:send(megabyte, 0.05) end
    local worker = assert(gateway:control("status").out:match("worker 0 +pid (%d+)"))
    local most = tonumber(h.execute({ "grep", "VmHWM", "/proc/" .. worker .. "/status" }).out:match("%d+"))
    client:close()
    assert.is_true(most < 40000, most .. " KiB")
  end)

  it("of a filter that fails is a 500, or passes unchanged where on_error says continue", function()
    local bad = 'local f = { api = 1, body = { response = "stream" } }\nfunction f.chunk() error("no") end\nreturn f\n'
    local answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    local gateway = gateway_with("[ bad ]", { bad = bad }, answer)
    assert.equal(500, gateway:get("/").status)
    local lenient = gateway_with("[ { bad: {}, on_error: continue } ]", { bad = bad }, answer)
    assert.equal("hello", lenient:get("/").body)
  end)

  it("is refused at load where declaration and functions disagree", function()
    for source, message in pairs {
      ['return { api = 1, body = { response = "stream" }, request = function() end }'] = "needs the function chunk",
      ['return { api = 1, chunk = function() end }'] = "chunk needs body",
      ['return { api = 1, body = { reply = "stream" }, chunk = function() end }'] = "unknown key reply",
      ['return { api = 1, body = { request = "hold" }, request = function() end }'] = "found hold",
    } do
      local folder = h.folder()
      h.write(folder .. "/routes.yaml", h.route_to(1, "    filters: [ f ]\n"))
      require("lfs").mkdir(folder .. "/filters")
      h.write(folder .. "/filters/f.lua", source)
      local result = h.moongate { "check", "--routes", folder .. "/routes.yaml" }
      assert.equal(1, result.code)
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
  end)
end)


describe("a filter's upstream function", function()
  after_each(h.cleanup)

  it("runs for every try, and its edits are dropped before the next", function()
    local filter = [[
      local f = { api = 1 }
      function f.upstream(req) req:add_header("x-try", tostring(req:try())) end
      return f]]
    local origin, gone = h.origin(), h.origin()
    gone.close()
    local routes = ("routes:\n  - id: a\n    match: [ { PathPrefix: { prefix: / } } ]\n    filters: [ count ]\n" ..
      "    upstream: { targets: [ { url: \"http://127.0.0.1:%d\" }, { url: \"http://127.0.0.1:%d\" } ] }\n"):format(
      gone.port, origin.port)
    local gateway = h.gateway { routes = routes, filters = { count = filter } }
    assert.equal(200, gateway:get("/").status)
    local values = origin.requests[1]:values("x-try")
    assert.equal(1, #values)
    assert.equal("2", values[1])
  end)
end)


describe("a filter's match function", function()
  after_each(h.cleanup)

  it("has to agree with the route's predicates", function()
    local filter = 'local f = { api = 1 }\nfunction f.match(req) return req:header_is("x-beta", "1") end\nreturn f\n'
    local origin = h.origin()
    local routes = h.route_to(origin.port, "    filters: [ beta ]\n")
    local gateway = h.gateway { routes = routes, filters = { beta = filter } }
    assert.equal(404, gateway:get("/").status)
    assert.equal(200, gateway:get("/", "X-Beta: 1\r\n").status)
  end)
end)
