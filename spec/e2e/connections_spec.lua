-- spec/e2e/connections_spec.lua - many clients that hold a connection and say nothing.
local h = require "spec.helper"

local WANTED = 10000
local BYTES_EACH = 2048

-- Opens connections, sends a request on each, reads the answers, says how many it has, then holds them.
local HOLD = [[
import resource, socket, sys, time

port, wanted = int(sys.argv[1]), int(sys.argv[2])
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
wanted = min(wanted, hard // 2 - 200)  # the gateway keeps half of its descriptors for upstreams
held = []
for _ in range(wanted):
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    if not client.recv(4096).startswith(b"HTTP/1.1 200"):
        break
    held.append(client)
print("held", len(held), flush=True)
time.sleep(60)
]]


describe("idle connections", function()
  after_each(h.cleanup)

  it(("by the thousand cost at most %d bytes each"):format(BYTES_EACH), function()
    local gateway = h.gateway { server = "server: { max_connections: 20000, idle_timeout: 120s }\n", routes = [[
routes:
  - id: stub
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: x } } ]
]] }
    local pid = gateway:workers()[1]
    for _ = 1, 50 do gateway:get("/") end
    local before = h.process.private_bytes(pid)
    local folder = h.folder()
    h.write(folder .. "/hold.py", HOLD)
    local child = h.spawn({ "python3", folder .. "/hold.py", tostring(gateway.port), tostring(WANTED) },
      { folder = folder, name = "hold" })
    local held = tonumber(h.eventually(function() return child:output():match("held (%d+)") end, 60, "connections"))
    assert.is_true(held >= 1000, "only " .. held .. " connections")
    local each = (h.process.private_bytes(pid) - before) / held
    if not h.sanitized then assert.is_true(each <= BYTES_EACH, ("%d bytes for each of %d"):format(each, held)) end
    assert.equal(200, gateway:get("/").status)
    child:destroy()
    h.eventually(function() return h.process.descriptors(pid) < 100 end, 20, "the connections to end")
  end)
end)
