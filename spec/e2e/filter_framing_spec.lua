-- filter_framing_spec.lua - whatever filters do with bodies, every message stays framed: each shape of request against
-- each of answer, with bodies held, streamed or left alone, and a second request behind it on the same connection.
local h = require "spec.helper"


local MODES = {
  alone = "local f = { api = 1 }\nfunction f.request() end\nreturn f\n",
  held = [[
local f = { api = 1, body = { request = "buffer", response = "buffer" } }
function f.request(req) req:set_body("<" .. req:body() .. ">") end
function f.response(res) res:set_body("[" .. res:body() .. "]") end
return f
]],
  streamed = [[
local f = { api = 1, body = { request = "stream", response = "stream" } }
function f.chunk(message, bytes, last) return bytes .. (last and "!" or "") end
return f
]],
  waiting = [[
local f = { api = 1, body = { request = "stream", response = "stream" } }
function f.chunk(message, bytes, last)
  moongate.sleep(0.001)
  if last then return bytes .. "!" end
end
return f
]],
}

-- What each mode makes of a body of a request, and of an answer.
local MADE = {
  alone = function(body) return body, body end,
  held = function(body) return "<" .. body .. ">", "[" .. body .. "]" end,
  streamed = function(body) return body .. "!", body .. "!" end,
}
MADE.waiting = MADE.streamed

local REQUESTS = {
  { name = "GET", line = "GET /%s HTTP/1.1", head = "", rest = "" },
  { name = "HEAD", line = "HEAD /%s HTTP/1.1", head = "", rest = "" },
  { name = "DELETE without a body", line = "DELETE /%s HTTP/1.1", head = "", rest = "" },
  { name = "POST of no bytes", line = "POST /%s HTTP/1.1", head = "Content-Length: 0\r\n", rest = "", body = "" },
  { name = "POST with a length", line = "POST /%s HTTP/1.1", head = "Content-Length: 3\r\n", rest = "abc",
    body = "abc" },
  { name = "POST in chunks", line = "POST /%s HTTP/1.1", head = "Transfer-Encoding: chunked\r\n",
    rest = "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", body = "abc" },
  { name = "PUT of no chunks", line = "PUT /%s HTTP/1.1", head = "Transfer-Encoding: chunked\r\n", rest = "0\r\n\r\n",
    body = "" },
  { name = "HTTP/1.0 POST of no bytes", line = "POST /%s HTTP/1.0",
    head = "Connection: keep-alive\r\nContent-Length: 0\r\n", rest = "", body = "" },
  { name = "HTTP/1.0 POST with a length", line = "POST /%s HTTP/1.0",
    head = "Connection: keep-alive\r\nContent-Length: 3\r\n", rest = "abc", body = "abc" },
  { name = "HTTP/1.0 POST without a word", line = "POST /%s HTTP/1.0", head = "Connection: keep-alive\r\n", rest = "" },
}

local ANSWERS = {
  { name = "200 with a length", status = 200, bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    body = "hello" },
  { name = "200 of no bytes", status = 200, bytes = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", body = "" },
  { name = "200 in chunks", status = 200,
    bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", body = "hello" },
  { name = "201 of no chunks", status = 201,
    bytes = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", body = "" },
  { name = "204", status = 204, bytes = "HTTP/1.1 204 No Content\r\n\r\n", bodiless = true },
  { name = "304", status = 304, bytes = "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n", bodiless = true },
  { name = "304 with a length", status = 304, bytes = "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    bodiless = true },
}


-- An upstream that answers /N with the answer of that number, and to HEAD with its head alone.
local function origin_of_all()
  return h.origin(function(stream, request)
    local answer = ANSWERS[tonumber(request.target:match("^/(%d+)$"))]
    local bytes = answer and answer.bytes or h.http.answer(200, "next")
    stream:send(request.method == "HEAD" and bytes:match("^.-\r\n\r\n") or bytes)
  end)
end


-- Sends request for answer number and, behind it, one more. The two answers.
local function ask(gateway, request, number)
  local client = gateway:connect()
  client:send(request.line:format(number) .. "\r\nHost: a\r\n" .. request.head .. "\r\n" .. request.rest)
  local first = client:response(request.line:match("^%u+"))
  if first and first.complete and first:header("connection") == "close" then return first, "closed" end
  client:send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
  return first, client:response()
end


describe("bodies in the hands of filters stay framed:", function()
  after_each(h.cleanup)

  for mode, source in pairs(MODES) do
    for _, request in ipairs(REQUESTS) do
      it(("%s, %s"):format(mode, request.name), function()
        local origin = origin_of_all()
        local routes = h.route_to(origin.port, "    filters: [ it ]\n")
        local gateway = h.gateway { routes = routes, filters = { it = source } }
        local head_only = request.name == "HEAD"
        for number, answer in ipairs(ANSWERS) do
          local seen = #origin.requests
          local first, second = ask(gateway, request, number)
          assert.equal(answer.status, first and first.status, answer.name)
          if not answer.bodiless and not head_only then
            local _, made = MADE[mode](answer.body)
            assert.equal(made, first.body, answer.name)
          end
          local got = origin.requests[seen + 1]
          if request.body then
            assert.equal((MADE[mode](request.body)), got.body, answer.name)
          elseif mode ~= "held" then
            assert.equal("none", got.framing, answer.name)
          end
          if second ~= "closed" then
            local _, made = MADE[mode]("next")
            assert.equal(made, second and second.body, "behind " .. answer.name)
          end
        end
      end)
    end
  end

  it("a filter that gives a status without a body one with a body, and the other way round", function()
    local turn = [[
local f = { api = 1, body = { response = "%s" } }
function f.response(res) res:set_status(res:status() == 200 and 204 or 200) end
%s
return f
]]
    local add = "function f.chunk(res, bytes, last) return last and bytes .. '!' end"
    for mode, chunk in pairs { buffer = "", stream = add } do
      local origin = origin_of_all()
      local gateway = h.gateway {
        routes = h.route_to(origin.port, "    filters: [ turn ]\n"), filters = { turn = turn:format(mode, chunk) },
      }
      local client = gateway:connect()
      for number, answer in ipairs(ANSWERS) do
        client:send(("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"):format(number))
        local response = client:response()
        local wanted = answer.status == 200 and 204 or 200
        assert.equal(wanted, response.status, answer.name)
        if answer.bodiless then assert.equal(mode == "stream" and "!" or "", response.body) end
      end
    end
  end)
end)
