-- spec/e2e/origin_spec.lua - the built-in origin: every path, and clients that are slow, hasty or wrong.
local socket = require "socket"
local h = require "spec.helper"

local LINE = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n"

local function pattern(size) return LINE:rep(math.ceil(size / #LINE)):sub(1, size) end

describe("moongate origin", function()
  local origin, client

  before_each(function()
    origin = h.builtin_origin()
    client = assert(h.connect(origin.port))
  end)

  after_each(h.cleanup)

  -- The process's largest memory so far, in KiB.
  local function peak_memory()
    return tonumber(h.process.read_file(("/proc/%d/status"):format(origin.child.pid)):match("VmHWM:%s*(%d+)"))
  end

  it("echoes head and body, of any method, on one connection", function()
    local head = "BREW /tea?x=1 HTTP/1.1\r\nHost:  a \r\nX-Odd:\tb\r\nContent-Length: 4\r\n\r\n"
    client:send(head .. "milk" .. "GET / HTTP/1.1\r\nHost: b\r\n\r\n")
    assert.equal(head .. "milk", client:response().body)
    assert.equal("GET / HTTP/1.1\r\nHost: b\r\n\r\n", client:response().body)
  end)

  it("reads chunked bodies, pipelined and cut at any byte", function()
    local request = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    client:send(request .. request)
    for _ = 1, 2 do assert.matches("\r\n\r\nabcde$", client:response().body) end
    for i = 1, #request do
      client:send(request:sub(i, i))
      if i % 16 == 0 then h.sleep(0.001) end
    end
    assert.matches("\r\n\r\nabcde$", client:response().body)
  end)

  it("answers many pipelined requests in order", function()
    local requests = {}
    for i = 1, 2000 do requests[i] = ("GET /bytes/%d HTTP/1.1\r\nHost: a\r\n\r\n"):format(i % 50) end
    h.net.spawn(function() client:send(table.concat(requests)) end)
    for i = 1, 2000 do assert.equal(pattern(i % 50), client:response().body) end
  end)

  it("sends the same bytes by length, in chunks and until it closes", function()
    for _, size in ipairs { 0, 1, 65535, 65536, 65537, 300000 } do
      local by_length = client:get("/bytes/" .. size)
      assert.equal("length", by_length.framing)
      assert.is_true(by_length.body == pattern(size))
      local chunked = client:get("/chunked/" .. size)
      assert.equal("chunked", chunked.framing)
      assert.is_true(chunked.body == pattern(size))
    end
    local closed = client:get("/close/100000")
    assert.is_true(closed.body == pattern(100000))
    assert.is_true(client:is_closed())
  end)

  it("answers HEAD with the head alone", function()
    client:send("HEAD /bytes/77 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /x HTTP/1.1\r\nHost: a\r\n\r\n")
    assert.equal("77", client:response("HEAD"):header("content-length"))
    assert.equal(200, client:response("HEAD").status)
    assert.equal("", client.buffer)
  end)

  it("waits, answers with any status, and declines an upgrade", function()
    local began = socket.gettime()
    assert.equal("waited 30 ms\n", client:get("/delay/30").body)
    assert.is_true(socket.gettime() - began >= 0.029)
    assert.equal(404, client:get("/status/404").status)
    assert.equal(204, client:get("/status/204").status)
    assert.equal(304, client:get("/status/304").status)
    assert.equal("status 599\n", client:get("/status/599").body)
    assert.equal(200, client:get("/", "Connection: Upgrade\r\nUpgrade: websocket\r\n").status)
    assert.equal(200, client:get("/").status)
  end)

  it("lists header lines as they came", function()
    local response = client:get("/headers", 'X-A: b"c\\\r\nx-a:\t1 \r\nX-B: \195\169\r\n')
    assert.equal("application/json", response:header("content-type"))
    assert.equal('[["Host", "gateway.test"],\n ["X-A", "b\\"c\\\\"],\n ["x-a", "1"],\n ["X-B", "\\u00c3\\u00a9"]]\n',
      response.body)
  end)

  it("sends events in time", function()
    client:send("GET /sse/3 HTTP/1.1\r\nHost: a\r\n\r\n")
    local head = h.http.read_response_head(client)
    assert.equal("text/event-stream", head:header("content-type"))
    assert.matches("id: 1\ndata: event 1\n\n", client:take_until("1\n\n\r\n"))
    assert.is_nil(client.buffer:find("event 2", 1, true))
    assert.matches("event 3\n\n\r\n0\r\n\r\n$", client:take_until("\r\n0\r\n\r\n"))
    assert.equal(200, client:get("/").status)
  end)

  it("hashes an upload, with or without being asked first", function()
    local hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" -- of "abc", FIPS 180-2
    client:send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
    assert.equal(('{"bytes": 3, "sha256": "%s"}\n'):format(hash), client:response().body)
    client:send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert.equal("HTTP/1.1 100 Continue\r\n\r\n", client:take_until("\r\n\r\n"))
    client:send("abc")
    assert.equal(('{"bytes": 3, "sha256": "%s"}\n'):format(hash), client:response().body)
  end)

  it("speaks HTTP/1.0", function()
    client:send("GET /bytes/2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    local kept = client:response()
    assert.equal("keep-alive", kept:header("connection"))
    client:send("GET /chunked/5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    local closed = client:response()
    assert.equal("close", closed:header("connection"))
    assert.equal("01234", closed.body)
  end)

  it("refuses what it cannot read, says why, and closes", function()
    local cases = {
      [400] = { "GET /\r\n\r\n", "G(T / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "\1 / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "GET /bytes/x HTTP/1.1\r\n\r\n",
        "GET /status/99 HTTP/1.1\r\n\r\n", "GET /bytes/99999999999999999999 HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" },
      [413] = { "POST / HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n" .. ("x"):rep(9000000) },
      [431] = { "GET / HTTP/1.1\r\nX: " .. ("x"):rep(70000) .. "\r\n\r\n", "GET /" .. ("x"):rep(70000) },
    }
    for status, requests in pairs(cases) do
      for _, request in ipairs(requests) do
        local one = assert(h.connect(origin.port))
        h.net.spawn(function() one:send(request) end)
        local response = one:response()
        assert.equal(status, response.status, request:sub(1, 60))
        assert.equal("close", response:header("connection"))
        assert.is_true(one:is_closed())
      end
    end
    assert.equal(200, client:get("/").status)
  end)

  it("holds no memory for a client that does not read, nor for one that sends much", function()
    client:get("/bytes/1000000")
    local before = peak_memory()
    client:send("GET /bytes/1073741824 HTTP/1.1\r\nHost: a\r\n\r\n")
    h.http.read_response_head(client)
    h.sleep(0.2)
    local sender = assert(h.connect(origin.port))
    sender:send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n")
    local piece = ("x"):rep(1048576)
    for _ = 1, 64 do sender:send(piece) end
    assert.matches('"bytes": 67108864', sender:response().body)
    if not h.sanitized then assert.is_true(peak_memory() - before < 4096) end
    assert.equal(200, assert(h.connect(origin.port)):get("/").status)
  end)

  it("survives clients that vanish at any moment", function()
    local beginnings = { "", "GET", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc" }
    for _, path in ipairs { "delay/20", "sse/5", "bytes/99999999", "chunked/99999999" } do
      beginnings[#beginnings + 1] = ("GET /%s HTTP/1.1\r\n\r\n"):format(path)
    end
    for _, bytes in ipairs(beginnings) do
      for _, way in ipairs { "close", "reset" } do
        local one = assert(h.connect(origin.port))
        one:send(bytes)
        h.sleep(0.01)
        one[way](one)
      end
    end
    h.sleep(0.15)
    assert.equal(200, client:get("/").status)
    assert.is_nil(origin.child:poll())
  end)

  it("ends on SIGTERM, connections and all", function()
    client:send("GET /delay/60000 HTTP/1.1\r\nHost: a\r\n\r\n")
    h.sleep(0.05)
    origin.child:signal(h.process.TERM)
    assert.equal(0, h.eventually(function() return origin.child:poll() end, 5, "the origin to end"))
    assert.is_true(client:is_closed())
    assert.equal("", origin.child:errors())
  end)

  it("says that a port is taken", function()
    local second = h.moongate { "origin", "--port", tostring(origin.port) }
    assert.equal(1, second.code)
    assert.matches("cannot listen on 127.0.0.1 port " .. origin.port .. ": address already in use", second.err, 1, true)
  end)
end)
