-- spec/e2e/bodies_spec.lua - bodies of any length and framing, whole or cut short, fast or slow; memory stays flat.
local h = require "spec.helper"

local MEGABYTE = 1024 * 1024
-- 64 MB in an ordinary run; MOONGATE_TEST_BODY_BYTES=1073741824 for the big one.
local BIG = tonumber(os.getenv("MOONGATE_TEST_BODY_BYTES")) or 64 * MEGABYTE
local FLAT = 8 * MEGABYTE


local function sha256_of(command)
  local pipe = assert(io.popen(command .. " | sha256sum"))
  local digest = pipe:read("*a"):match("^%x+")
  pipe:close()
  return digest
end


-- Watches the private memory of the gateway's first worker while fn's child runs; returns the growth.
local function growth_while(gateway, running)
  local pid = gateway:workers()[1]
  local before, most = assert(h.process.private_bytes(pid)), 0
  h.eventually(function()
    most = math.max(most, h.process.private_bytes(pid) or 0)
    return not running()
  end, 300, "the transfer")
  return most - before
end


describe("bodies", function()
  after_each(h.cleanup)

  it("pass chunked as chunked, with whole chunks or with many small ones, both ways", function()
    local origin = h.origin(function(stream, request)
      stream:send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
      for i = 1, #request.body, 7 do stream:send(h.chunk(request.body:sub(i, i + 6))) end
      stream:send("0\r\n\r\n")
    end)
    local gateway = h.gateway(origin.port)
    local body, pieces = ("0123456789abcdef"):rep(300), {}
    for i = 1, #body, 11 do pieces[#pieces + 1] = h.chunk(body:sub(i, i + 10)) end
    local response = gateway:raw("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. table.concat(pieces) .. "0\r\n\r\n")
    assert.equal("chunked", origin.requests[1].framing)
    assert.equal(body, origin.requests[1].body)
    assert.equal("chunked", response.framing)
    assert.equal(body, response.body)
    assert.is_true(response.complete)
  end)

  it("arrive whole when every byte comes alone", function()
    local origin = h.origin(function(stream, request)
      for byte in h.answer(200, request.body):gmatch(".") do
        stream:send(byte)
        h.sleep(0.001)
      end
    end)
    local gateway = h.gateway(origin.port)
    local client = gateway:connect()
    for byte in ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"):gmatch(".") do
      client:send(byte)
      h.sleep(0.001)
    end
    assert.equal("abc", client:response().body)
  end)

  it("relay trailers", function()
    local origin = h.origin("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. h.chunk("abc") .. "0\r\nX-Sum: 3\r\n\r\n")
    local gateway = h.gateway(origin.port)
    local response = gateway:get("/", "TE: trailers\r\nConnection: TE\r\n")
    assert.is_true(response.complete)
    assert.same({ { "X-Sum", "3" } }, response.trailers)
  end)

  it("never look complete upstream when the client left", function()
    local seen = {}
    local origin = h.origin(function(stream, request)
      h.http.read_body(stream, request, 5)
      seen[#seen + 1] = request
      return false
    end, { body = false })
    local gateway = h.gateway(origin.port)
    for _, head in ipairs { "Content-Length: 100\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" } do
      local client = gateway:connect()
      client:send("POST / HTTP/1.1\r\nHost: a\r\n" .. head)
      h.sleep(0.1)
      client:close()
    end
    h.eventually(function() return #seen == 2 end, 5, "both requests to end upstream")
    assert.is_false(seen[1].complete)
    assert.is_false(seen[2].complete)
  end)

  it("never look complete to the client when the upstream left", function()
    local answers = {
      ["/length"] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
      ["/chunked"] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    }
    local origin = h.origin(function(stream, request)
      stream:send(answers[request.target])
      return false
    end)
    local gateway = h.gateway(origin.port)
    for target in pairs(answers) do
      local response = gateway:get(target)
      assert.equal(200, response.status)
      assert.equal("abc", response.body)
      assert.is_false(response.complete, target)
      assert.equal("closed", response.ended)
    end
  end)

  it("hold the upstream back when the client reads slowly, without keeping the answer in memory", function()
    local sent = 0
    local origin = h.origin(function(stream)
      stream:send(("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"):format(BIG))
      local block = ("x"):rep(MEGABYTE)
      for _ = 1, BIG / MEGABYTE do
        if not stream:send(block, 60) then return false end
        sent = sent + MEGABYTE
      end
    end)
    local gateway = h.gateway(origin.port)
    local pid = gateway:workers()[1]
    local before = h.process.private_bytes(pid)
    local client = gateway:connect { receive_buffer = 65536 }
    client:send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    h.sleep(1)
    assert.is_true(sent < BIG / 2, ("the upstream could send %d bytes to a client that reads nothing"):format(sent))
    assert.is_true(h.process.private_bytes(pid) - before < FLAT)
    local head = h.http.read_response_head(client)
    assert.equal(200, head.status)
    local got = #client.buffer
    client.buffer = ""
    while got < BIG do
      assert(client:fill(20))
      got = got + #client.buffer
      client.buffer = ""
    end
    assert.equal(BIG, got)
    assert.is_true(h.process.private_bytes(pid) - before < FLAT)
  end)

  it("hold the client back when the upstream reads slowly", function()
    local go = false
    local origin = h.origin(function(stream, request)
      h.eventually(function() return go end, 20, "the spec to let the upstream read")
      local left = tonumber(request:header("content-length")) - #stream.buffer
      stream.buffer = ""
      while left > 0 do
        assert(stream:fill(20))
        left, stream.buffer = left - #stream.buffer, ""
      end
      stream:send(h.answer(200, "got it"))
    end, { body = false })
    local gateway = h.gateway(origin.port)
    local pid = gateway:workers()[1]
    local before = h.process.private_bytes(pid)
    local client = gateway:connect()
    client:send(("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"):format(BIG))
    local ok, err, sent = client:send(("x"):rep(BIG), 1)
    assert.is_nil(ok)
    assert.equal("timeout", err)
    assert.is_true(h.process.private_bytes(pid) - before < FLAT)
    go = true
    assert(client:send(("x"):rep(BIG - sent), 60))
    assert.equal("got it", client:response().body)
  end)

  it("come through with the same SHA-256 and flat memory when they are big: download", function()
    local origin = h.builtin_origin()
    local gateway = h.gateway(origin.port)
    local path = "/bytes/" .. BIG
    local wanted = sha256_of(("curl -s http://127.0.0.1:%d%s"):format(origin.port, path))
    local out = h.folder() .. "/digest"
    local child = h.spawn { "sh", "-c", ("curl -s --max-time 280 %s | sha256sum > %s"):format(gateway:url(path), out) }
    local growth = growth_while(gateway, function() return not child:poll() end)
    assert.equal(wanted, h.process.read_file(out):match("^%x+"))
    assert.is_true(growth < FLAT, ("the worker grew by %d bytes"):format(growth))
  end)

  it("come through with the same SHA-256 and flat memory when they are big: upload", function()
    local origin = h.builtin_origin()
    local gateway = h.gateway(origin.port)
    local folder = h.folder()
    os.execute(("head -c %d /dev/urandom > %s/body"):format(BIG, folder))
    local wanted = sha256_of(("cat %s/body"):format(folder))
    for _, coding in ipairs { "Content-Length:", "Transfer-Encoding: chunked" } do
      local extra = coding:find("chunked") and "-H 'Transfer-Encoding: chunked'" or ""
      local child = h.spawn { "sh", "-c", ("curl -s --max-time 280 -H Expect: %s -T %s/body %s > %s/answer")
        :format(extra, folder, gateway:url("/upload"), folder) }
      local growth = growth_while(gateway, function() return not child:poll() end)
      local answer = h.process.read_file(folder .. "/answer")
      assert.truthy(answer:find(wanted, 1, true), coding .. " gave " .. answer)
      assert.truthy(answer:find(tostring(BIG), 1, true), answer)
      assert.is_true(growth < FLAT, ("the worker grew by %d bytes"):format(growth))
    end
  end)
end)
