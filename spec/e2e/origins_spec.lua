-- spec/e2e/origins_spec.lua - real servers behind the gateway, and whether two of them ever disagree about what came.
local h = require "spec.helper"
local odd = require "spec.helper.odd"

local NODE = [[
const http = require("http");
let seen = 0;
const reading = new WeakSet();  // sockets whose request has been counted and is not answered yet
const server = http.createServer((request, response) => {
  if (request.url === "/seen") return response.end(String(seen));
  seen++;
  reading.add(request.socket);
  response.on("finish", () => reading.delete(request.socket));
  let size = 0;
  request.on("data", (piece) => { size += piece.length; });
  request.on("end", () => response.end(`${request.method} ${request.url} ${size}\n`));
});
server.on("clientError", (error, socket) => {
  if (!reading.has(socket) && error.code !== "ECONNRESET") seen++;
  socket.destroy();
});
server.listen(0, "127.0.0.1", () => console.log("listening on 127.0.0.1:" + server.address().port));
]]

local PYTHON = [[
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        size = int(self.headers.get("Content-Length", 0))
        body = "{} {} {}\n".format(self.command, self.path, len(self.rfile.read(size))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("listening on 127.0.0.1:{}".format(server.server_port), flush=True)
server.serve_forever()
]]

local NGINX = [[
daemon off; pid FOLDER/pid; error_log FOLDER/error.log; worker_processes 1;
events {}
http {
  client_body_temp_path FOLDER/b; proxy_temp_path FOLDER/p; fastcgi_temp_path FOLDER/f; uwsgi_temp_path FOLDER/u;
  scgi_temp_path FOLDER/s; log_format line $request_uri; access_log FOLDER/access.log line;
  keepalive_requests 100000;
  server { listen 127.0.0.1:PORT; location / { return 200 "$request_method $request_uri $content_length\n"; } }
}
]]


local function script(runtime, name, source)
  local folder = h.folder()
  h.write(folder .. "/" .. name, source)
  local child = h.spawn({ runtime, folder .. "/" .. name }, { folder = folder, name = "server" })
  local port = h.eventually(function() return child:output():match("127%.0%.0%.1:(%d+)") end, 10, runtime)
  return tonumber(port)
end


local function nginx()
  local folder = h.folder()
  local probe = h.net.listen(function() end)
  probe.close()
  h.write(folder .. "/nginx.conf", (NGINX:gsub("FOLDER", folder):gsub("PORT", tostring(probe.port))))
  local program = h.process.find_program("nginx") or "/usr/sbin/nginx"
  h.spawn({ program, "-c", folder .. "/nginx.conf", "-e", folder .. "/error.log" }, { folder = folder, name = "nginx" })
  h.eventually(function()
    local stream = h.net.connect(probe.port)
    return stream and (stream:close() or true)
  end, 10, "nginx")
  return probe.port, folder .. "/access.log"
end


describe("behind the gateway", function()
  after_each(h.cleanup)

  local SERVERS = {
    { "Node", function() return script("node", "server.js", NODE) end },
    { "Python", function() return script("python3", "server.py", PYTHON) end },
    { "nginx", nginx },
  }
  for _, server in ipairs(SERVERS) do
    it(server[1] .. " serves GET and POST on kept connections", function()
      local gateway = h.gateway((server[2]()))
      local client = gateway:connect()
      for i = 1, 100 do
        assert.matches(("^GET /%d "):format(i), client:get("/" .. i).body)
        client:send(("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"):format(i, ("x"):rep(i)))
        assert.equal(("POST /p %d\n"):format(i), client:response().body)
      end
    end)
  end
end)


-- Sends bytes through a gateway and leaves time for whatever they start.
local function send_odd(gateway, bytes)
  local client = gateway:connect()
  client:send(bytes)
  client:response("GET", 1.5)
  client:close()
end


describe("two servers behind two gateways", function()
  after_each(h.cleanup)

  it("read the same number of requests from whatever comes", function()
    local node_port = script("node", "server.js", NODE)
    local nginx_port, log = nginx()
    local server = "http: { request_parse_timeout: 1s, request_body_timeout: 1s }\n"
    local to_node = h.gateway { routes = node_port, server = server }
    local to_nginx = h.gateway { routes = nginx_port, server = server }
    local function node_seen() return tonumber(to_node:get("/seen").body) end
    local function nginx_seen() return select(2, h.process.read_file(log):gsub("\n", "\n")) end
    local disagreements = {}
    for _, rows in ipairs { odd.REFUSED, odd.BAD_CHUNKS, odd.PASSED } do
      for _, row in ipairs(rows) do
        local bytes = rows == odd.BAD_CHUNKS and odd.CHUNKED .. row[2] or row[2]
        bytes = bytes .. (rows == odd.PASSED and "" or "GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
        local node_before, nginx_before = node_seen(), nginx_seen()
        send_odd(to_node, bytes)
        send_odd(to_nginx, bytes)
        h.sleep(0.02)
        local by_node, by_nginx = node_seen() - node_before, nginx_seen() - nginx_before
        -- Of a broken body a server may see the beginning or nothing; a second request it may not see.
        local most, apart = math.max(by_node, by_nginx), by_node ~= by_nginx
        if rows == odd.BAD_CHUNKS then apart = most > 1 end
        if apart then
          disagreements[#disagreements + 1] = ("%s: Node read %d, nginx %d"):format(row[1], by_node, by_nginx)
        end
      end
    end
    assert.same({}, disagreements)
  end)
end)
