-- spec/e2e/record_bodies_spec.lua - the journal has the request's body as the client sent it and the response's as the
-- client got it, whatever filters make of either.
local h = require "spec.helper"
local cjson = require "cjson"


local HELD = [[
local f = { api = 1, body = { request = "buffer", response = "buffer" } }
function f.request(req) req:set_body("<" .. req:body() .. ">") end
function f.response(res) res:set_body("[" .. res:body() .. "]") end
return f
]]

local DOUBLE = [[
local f = { api = 1, body = { request = "stream", response = "stream" } }
function f.chunk(message, bytes, last) return bytes .. bytes end
return f
]]

local REFUSE = [[
local f = { api = 1 }
function f.request(req) return req:respond(403, "no") end
return f
]]

local HELD_AND_REFUSED = [[
local f = { api = 1, body = { request = "buffer" } }
function f.request(req) return req:respond(403, "no") end
return f
]]

local WAITS = [[
local f = { api = 1, body = { request = "stream" } }
function f.chunk(req, bytes, last)
  moongate.sleep(0.02)
  return bytes:upper()
end
return f
]]

local WAITS_AND_LOOKS = WAITS:gsub("return bytes:upper%(%)", "")

local ROUTES = [[
routes:
  - id: all
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ it ]
    journal: { request: { level: FULL }, response: { level: FULL } }
    upstream: { targets: %s }
]]

local FRAMINGS = {
  ["with a length"] = function(parts)
    local body = table.concat(parts)
    return ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"):format(#body), { body }
  end,
  ["chunked"] = function(parts)
    local chunks = {}
    for i, part in ipairs(parts) do chunks[i] = ("%x\r\n%s\r\n"):format(#part, part) end
    chunks[#chunks + 1] = "0\r\n\r\n"
    return "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunks
  end,
}


-- A gateway whose route runs one filter and records everything, before an upstream that answers with what it got.
local function recording(filter, dead_target)
  local origin = h.origin(function(stream, request) stream:send(h.http.answer(200, request.body)) end)
  local folder = h.folder() .. "/journal"
  local targets = ('[ { url: "http://127.0.0.1:%d" } ]'):format(origin.port)
  if dead_target then targets = targets:gsub("%[", '[ { url: "http://127.0.0.1:1" },') end
  local args = { "--journal", folder }
  local gateway = h.gateway { routes = ROUTES:format(targets), filters = { it = filter }, args = args }
  return gateway, folder, origin
end


local function recorded(folder)
  local list = {}
  local out = h.moongate({ "journal", "cat", folder }).out
  for line in out:gmatch("[^\n]+") do list[#list + 1] = cjson.decode(line) end
  local verify = h.moongate { "journal", "verify", folder }
  assert.equal(0, verify.code, verify.out .. verify.err)
  return list
end


-- Sends a request in as many writes as asked for, so that its body comes with the head or behind it.
local function ask(gateway, framing, parts, slowly)
  local head, pieces = FRAMINGS[framing](parts)
  local client = gateway:connect()
  if not slowly then
    client:send(head .. table.concat(pieces))
  else
    client:send(head)
    for _, piece in ipairs(pieces) do
      h.sleep(0.03)
      client:send(piece)
    end
  end
  return client:response(), client
end


describe("a body in the journal", function()
  after_each(h.cleanup)

  for framing in pairs(FRAMINGS) do
    for _, slowly in ipairs { false, true } do
      local how = framing .. (slowly and ", behind the head" or ", with the head")

      it("is what the client sent and got where filters hold and change it: " .. how, function()
        local gateway, folder, origin = recording(HELD)
        local response = ask(gateway, framing, { "hello", " world" }, slowly)
        assert.equal("<hello world>", origin.requests[1].body)
        assert.equal("[<hello world>]", response.body)
        local one = recorded(folder)[1]
        assert.equal("hello world", one.request.body)
        assert.equal(11, one.request.body_bytes)
        assert.equal("[<hello world>]", one.response.body)
        assert.is_nil(one.request.body_damaged or one.response.body_damaged)
      end)

      it("is what the client sent where it is changed as it passes: " .. how, function()
        local gateway, folder = recording(DOUBLE)
        local response = ask(gateway, framing, { "ab", "cd" }, slowly)
        local one = recorded(folder)[1]
        assert.equal("abcd", one.request.body)
        assert.equal(4, one.request.body_bytes)
        assert.equal(response.body, one.response.body)
      end)

      it("is there once where a filter waits with it: " .. how, function()
        local gateway, folder, origin = recording(WAITS)
        ask(gateway, framing, { "ab", "cd", "ef" }, slowly)
        assert.equal("ABCDEF", origin.requests[1].body)
        assert.equal("abcdef", recorded(folder)[1].request.body)
      end)

      it("passes a filter that waits with it and leaves it: " .. how, function()
        local gateway, folder, origin = recording(WAITS_AND_LOOKS)
        ask(gateway, framing, { "ab", "cd", "ef" }, slowly)
        assert.equal("abcdef", origin.requests[1].body)
        assert.equal("abcdef", recorded(folder)[1].request.body)
      end)

      it("is there where a filter holds it and answers: " .. how, function()
        local gateway, folder = recording(HELD_AND_REFUSED)
        assert.equal(403, ask(gateway, framing, { "one", "two" }, slowly).status)
        assert.equal("onetwo", recorded(folder)[1].request.body)
      end)
    end

    it("is there as far as it has come where a filter answers at once: " .. framing, function()
      local gateway, folder = recording(REFUSE)
      local response, client = ask(gateway, framing, { "one", "two" })
      assert.equal(403, response.status)
      client:send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n") -- what was skipped does not cost the connection
      assert.equal(403, client:response().status)
      local list = recorded(folder)
      assert.equal("onetwo", list[1].request.body)
      assert.equal(2, #list)
    end)
  end

  it("is there once where the first target does not answer", function()
    local gateway, folder, origin = recording(HELD, true)
    for _, body in ipairs { "one", "two", "three", "four" } do
      assert.equal(200, ask(gateway, "with a length", { body }).status)
    end
    assert.equal(4, #origin.requests)
    local bodies = {}
    for i, one in ipairs(recorded(folder)) do bodies[i] = one.request.body end
    assert.same({ "one", "two", "three", "four" }, bodies)
  end)

  it("is there as far as it came where the client goes away while it is held", function()
    local gateway, folder = recording(HELD)
    local client = gateway:connect()
    client:send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nthe beginning")
    h.sleep(0.1)
    client:close()
    h.eventually(function()
      local one = recorded(folder)[1]
      return one and one.request.body == "the beginning"
    end)
  end)
end)
