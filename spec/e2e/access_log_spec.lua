-- access_log_spec.lua - one line per request, in either format, to standard output or a file that can be moved away.
local h = require "spec.helper"
local json = require "cjson"


local function read(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local text = file:read("*a")
  file:close()
  return text
end


-- The lines of text() once there are count of them.
local function lines_of(text, count)
  local lines
  h.eventually(function()
    lines = {}
    for line in text():gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
    return #lines >= count
  end, 5, count .. " lines")
  assert.equal(count, #lines)
  return lines
end


local function gateway_with(format, options)
  options = options or {}
  options.file = h.folder() .. "/access.log"
  local gateway = h.gateway {
    routes = options.routes or h.origin(options.handler).port, workers = options.workers,
    server = ("access_log: { format: %s, file: %s }\n"):format(format, options.file),
    args = { "--management-port", "0" },
  }
  return gateway, function() return read(options.file) end, options.file
end


describe("the access log", function()
  after_each(h.cleanup)

  it("is off by default", function()
    local gateway = h.gateway(h.origin().port)
    gateway:get("/")
    h.sleep(0.3)
    assert.is_nil(gateway.child:output():find("GET", 1, true))
  end)

  it("writes the combined format, and nothing that a client sends breaks a line", function()
    local gateway, text = gateway_with("combined")
    gateway:get("/a%22b?x=%0a", 'User-Agent: a\\b"\r\nReferer: http://r/\r\n')
    gateway:raw("GET  / HTTP/1.1\r\n\r\n")
    gateway:raw("GET /nowhere/../x HTTP/1.0\r\n\r\n")
    local lines = lines_of(text, 3)
    local client, time, request, status, bytes, referer, agent = lines[1]:match(
      '^(%S+) %- %- %[(%d%d/%a%a%a/%d%d%d%d:%d%d:%d%d:%d%d %+0000)%] "(.-)" (%d+) (%d+) "(.-)" "(.-)"$')
    assert.equal("127.0.0.1", client)
    assert.truthy(time)
    assert.equal("GET /a%22b?x=%0a HTTP/1.1", request)
    assert.equal("200", status)
    assert.equal("6", bytes)
    assert.equal("http://r/", referer)
    assert.equal("a\\x5Cb\\x22", agent)
    assert.truthy(lines[2]:find('"-" 400 ', 1, true), lines[2])
    assert.truthy(lines[3]:find('"GET /nowhere/../x HTTP/1.0" 400 ', 1, true), lines[3])
  end)

  it("writes JSON that says who answered, through which route, and why not", function()
    local closed = h.origin()
    closed.close()
    local origin = h.origin(h.answer(201, "12345"))
    local gateway, text = gateway_with("json", { routes = ([[
routes:
  - { id: gone, match: [ { Path: { path: /gone } } ], upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] } }
  - id: fixed
    match: [ { Path: { path: /fixed } } ]
    filters: [ ReturnResponse: { status: 202, body: ok } ]
  - { id: all, match: [ { PathPrefix: { prefix: /x } } ], upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] } }
]]):format(closed.port, origin.port) })
    for _, target in ipairs { "/x?q=1", "/gone", "/fixed", "/none" } do
      gateway:get(target, "User-Agent: \255\"\r\n")
    end
    local entries = {}
    for i, line in ipairs(lines_of(text, 4)) do entries[i] = json.decode(line) end
    local first = entries[1]
    assert.truthy(first.time:find("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$"))
    assert.equal(26, #first.id)
    assert.truthy(first.duration_us > 0)
    assert.equal("\195\191\"", first.user_agent)
    local function shown(entry)
      return { entry.target, entry.status, entry.source, entry.route or "-", entry.error or "-", entry.response_bytes }
    end
    assert.same({ "/x?q=1", 201, "upstream", "all", "-", 5 }, shown(first))
    assert.equal("127.0.0.1:" .. origin.port, first.upstream)
    assert.same({ "/gone", 502, "gateway", "gone", "upstream_connect" }, { unpack(shown(entries[2]), 1, 5) })
    assert.same({ "/fixed", 202, "filter", "fixed", "-", 2 }, shown(entries[3]))
    assert.same({ "/none", 404, "gateway", "-", "no_route" }, { unpack(shown(entries[4]), 1, 5) })
  end)

  it("goes to standard output where no file is named", function()
    local gateway = h.gateway {
      routes = h.origin().port, server = "access_log: { format: combined }\n", args = { "--management-port", "0" },
    }
    gateway:get("/")
    h.eventually(function() return gateway.child:output():find('"GET / HTTP/1.1" 200 6', 1, true) end, 5, "the line")
  end)

  it("keeps lines whole in a pipe that several workers write to and nobody reads in time", function()
    local folder = h.folder()
    local pipe, out = folder .. "/pipe", folder .. "/out"
    assert.equal(0, h.execute({ "mkfifo", pipe }).code)
    h.spawn { "sh", "-c", ("exec <>%s; sleep 3; dd bs=4096 of=%s"):format(pipe, out) }
    local gateway = h.gateway {
      routes = h.route_to(h.builtin_origin().port), workers = 2,
      server = ("access_log: { format: combined, file: %s }\n"):format(pipe), args = { "--management-port", "0" },
    }
    local clients, headers, count = {}, ("User-Agent: %s\r\n"):format(("x"):rep(999)), 0
    for i = 1, 16 do clients[i] = gateway:connect() end
    for _ = 1, 40 do
      for _, client in ipairs(clients) do
        assert.equal(200, client:get("/", headers).status)
        count = count + 1
      end
    end
    for _, line in ipairs(lines_of(function() return read(out) end, count)) do
      assert.truthy(line:find('^127%.0%.0%.1 [^"]+ "GET / HTTP/1%.1" 200 %d+ "%-" "x+"$'), line)
    end
  end)

  it("is continued in a new file after SIGUSR1, without losing a line", function()
    local gateway, text, file = gateway_with("combined", { workers = 2 })
    for _ = 1, 20 do gateway:get("/before") end
    assert(os.rename(file, file .. ".1"))
    for _ = 1, 20 do gateway:get("/between") end
    lines_of(function() return read(file .. ".1") end, 40)
    gateway.child:signal(h.process.USR1)
    h.eventually(function() return io.open(file) end, 5, "the new file")
    h.sleep(0.3)
    for _ = 1, 20 do gateway:get("/after") end
    lines_of(function() return read(file .. ".1") .. text() end, 60)
    assert.is_nil(read(file .. ".1"):find("/after", 1, true))
    assert.is_nil(text():find("/before", 1, true))
  end)

  it("has every line when the gateway stops", function()
    local gateway, text = gateway_with("combined")
    local client = gateway:connect()
    for _ = 1, 50 do assert.equal(200, client:get("/").status) end
    assert.equal(0, gateway:stop())
    lines_of(text, 50)
  end)

  it("is an error at the start when its file cannot be opened", function()
    local folder = h.folder()
    h.write(folder .. "/routes.yaml", h.route_to(9))
    h.write(folder .. "/server.yaml", "access_log: { format: json, file: /nowhere/at/all.log }\n")
    local run = h.moongate { "run", "--routes", folder .. "/routes.yaml", "--server", folder .. "/server.yaml",
      "--port", "0", "--control", folder .. "/c.sock" }
    assert.equal(1, run.code)
    assert.truthy(run.err:find("cannot open the access log /nowhere/at/all.log: No such file", 1, true), run.err)
  end)
end)
