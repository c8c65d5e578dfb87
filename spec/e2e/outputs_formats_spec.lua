-- spec/e2e/outputs_formats_spec.lua - the forms of the journal in the hands of other people's code: warcio, the HAR
-- schema, jq, JSON Schema, GoAccess, curl. What a machine does not have is left out, and said.
-- MOONGATE_TEST_EXCHANGES: how many mixed exchanges are recorded (300; 10000 takes minutes).
local h = require "spec.helper"
local cjson = require "cjson"
local mime = require "mime"

local COUNT = tonumber(os.getenv("MOONGATE_TEST_EXCHANGES")) or 300
local TOOLS = "build/spec-outputs"
local LEVELS = [[
    journal:
      request: { level: FULL }
      response: { level: FULL }
]]
local UPGRADE = "GET /chat HTTP/1.1\r\nHost: archive.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
  .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"


local function run(...)
  return h.execute({ ... }, { seconds = 300 })
end


local function has(program)
  return run("sh", "-c", "command -v " .. program).code == 0
end


--- Installs verify.mjs and its packages, once for each package.json; its path, or nil and why not.
local function install_node_tools()
  if not has "node" or not has "npm" then return nil, "node and npm are not here" end
  local command = ([[
    set -e
    mkdir -p %s && cp spec/outputs/verify.mjs %s/
    cmp -s spec/outputs/package.json %s/package.json && [ -d %s/node_modules/warcio ] && exit 0
    cp spec/outputs/package.json %s/ && cd %s
    timeout 120 npm install --no-audit --no-fund --no-package-lock --loglevel=error
  ]]):format(TOOLS, TOOLS, TOOLS, TOOLS, TOOLS, TOOLS)
  local done = run("sh", "-c", command)
  if done.code ~= 0 then return nil, "npm install failed: " .. done.err:sub(1, 200) end
  return TOOLS .. "/verify.mjs"
end


local installed


--- Where verify.mjs is; nil and why it is not. What failed is not tried again: it may take minutes to fail.
local function node_tools()
  installed = installed or { install_node_tools() }
  return installed[1], installed[2]
end


-- ---- traffic of every kind ----

math.randomseed(7)


local function noise(length)
  local bytes = {}
  for i = 1, length do bytes[i] = string.char(math.random(0, 255)) end
  return table.concat(bytes)
end


local function get(path, headers)
  return ("GET %s HTTP/1.1\r\nHost: archive.test\r\n%s\r\n"):format(path, headers or "")
end


-- What is asked, what the upstream answers, and the body that the client gets (nil: none is recorded).
local KINDS = {
  function(i)
    local body = ("page %d, ünïcode\n"):format(i)
    return get("/text/" .. i, "User-Agent: test/1\r\nReferer: http://a.test/\"x\"\r\n"), h.answer(200, body), body
  end,
  function(i)
    local body = noise(1 + i % 700)
    return get("/binary/" .. i), h.answer(200, body, { "Content-Type: application/octet-stream" }), body
  end,
  function(i)
    local one, two = noise(100), "1f\r\nlooks like a chunk " .. i
    return get("/chunked/" .. i), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/x\r\n\r\n"
      .. h.chunk(one) .. h.chunk(two) .. "0\r\n\r\n", one .. two
  end,
  function(i)
    local sent = noise(300)
    return ("POST /post/%d?a=b&c=%%20d HTTP/1.1\r\nHost: archive.test\r\nContent-Length: %d\r\n\r\n%s"):format(i, #sent,
      sent), h.answer(201, "made"), "made"
  end,
  function(i)
    return ("PUT /chunks/%d HTTP/1.1\r\nHost: archive.test\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n"):format(i,
      h.chunk("it's $HOME \"quoted\" `" .. i)), h.answer(200, "it's said " .. i), "it's said " .. i
  end,
  function(i)
    return ("HEAD /head/%d HTTP/1.1\r\nHost: archive.test\r\n\r\n"):format(i),
      "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
  end,
  function(i)
    return get("/same/" .. i, 'If-None-Match: "x"\r\n'), 'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n'
  end,
  function(i) return get("/empty/" .. i), "HTTP/1.1 204 No Content\r\n\r\n" end,
  function()
    local body = ("the same payload again. "):rep(20)
    return get("/repeated"), h.answer(200, body), body
  end,
  function(i)
    return get("/odd/" .. i, "X-Latin: gr\252n\r\nX-Empty:\r\nUser-Agent: \\back\"slash\r\n"),
      h.answer(404, "gone\r\n\r\n\0nul", { "X-Odd: \228\246", "Set-Cookie: a=b; Path=/" }), "gone\r\n\r\n\0nul"
  end,
}


local function method_of(request) return request:match("^(%u+)") end


--- Records COUNT exchanges of all kinds, one tunnel and one that never ends. The journal's folder, how many there are
-- by status, and the bodies that clients got.
local function record()
  local answers, held = {}, false
  local origin = h.origin(function(stream, request)
    if request.target == "/held" then
      held = true
      h.sleep(20)
      return false
    end
    if request.target == "/chat" then
      stream:send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
      stream:send(stream:take(7))
      return false
    end
    stream:send(table.remove(answers, 1))
  end)
  local folder = h.folder() .. "/journal"
  local gateway = h.gateway { routes = h.route_to(origin.port, LEVELS), args = { "--journal", folder } }
  local statuses, bodies = {}, {}
  local client = gateway:connect()
  for i = 1, COUNT do
    local request, answer, body = KINDS[i % #KINDS + 1](i)
    answers[1] = answer
    client:send(request)
    local response = assert(client:response(method_of(request)))
    statuses[response.status] = (statuses[response.status] or 0) + 1
    assert.equal(body or "", response.body)
    bodies[#bodies + 1] = body
  end
  local tunnel = gateway:connect()
  tunnel:send(UPGRADE)
  assert.equal(101, tunnel:response().status)
  tunnel:send("\129\5hello")
  assert.equal("\129\5hello", tunnel:take(7))
  tunnel:close()
  gateway:connect():send(get("/held"))
  h.eventually(function() return held end, 10, "the request that never ends")
  gateway:kill_worker(gateway:workers()[1])
  h.eventually(function() return #gateway:workers() == 1 end, 10, "another worker")
  gateway:stop()
  return folder, statuses, bodies
end


local function journal(folder, format, ...)
  local result = h.moongate({ "journal", "cat", folder, "--format", format, ... }, { seconds = 300 })
  assert.equal(0, result.code, result.err)
  assert.equal("", result.err)
  return result.out
end


local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end


local function sorted(list)
  table.sort(list)
  return list
end


describe("exchanges of every kind", function()
  local folder, statuses, bodies
  after_each(h.cleanup)

  -- One recording for all: made in the first test, kept beside the temporary folders that cleanup removes.
  local kept = os.tmpname()
  os.remove(kept)
  setup(function()
    folder, statuses, bodies = record()
    os.execute(("mkdir -p '%s' && cp -r '%s' '%s'"):format(kept, folder, kept))
    folder = kept .. "/journal"
    h.cleanup()
  end)
  teardown(function() os.execute(("rm -rf '%s'"):format(kept)) end)

  it("are lines of JSON that hold to the schema, with every body as the client got it", function()
    local text, got, counted, incomplete = journal(folder, "json:bodies"), {}, {}, {}
    local ids, tunnels = {}, 0
    for line in text:gmatch("[^\n]+") do
      local exchange = cjson.decode(line)
      assert.is_nil(ids[exchange.request_id])
      ids[exchange.request_id] = true
      if exchange.incomplete then
        incomplete[#incomplete + 1] = exchange.incomplete
      elseif exchange.tunnel then
        tunnels = tunnels + 1
      else
        local status = exchange.client_response.status
        counted[status] = (counted[status] or 0) + 1
        local body = exchange.client_response.body
        got[#got + 1] = body and mime.unb64(body)
        assert.equal(exchange.client_response.body_bytes, body and #mime.unb64(body) or 0)
      end
    end
    assert.same(statuses, counted)
    assert.same({ "NO_END" }, incomplete)
    assert.equal(1, tunnels)
    assert.same(sorted(bodies), sorted(got))
  end)

  it("hold to the shipped schema, which is what the command prints", function()
    local printed = h.moongate { "schema", "json-line" }
    assert.equal(0, printed.code, printed.err)
    assert.equal(read("journal/json-line.schema.json"), printed.out)
    local there = h.execute { "/usr/bin/python3", "-c", "import jsonschema; jsonschema.Draft202012Validator" }
    if there.code ~= 0 then return pending("python3-jsonschema is not here") end
    local work, argv = h.folder(), { "/usr/bin/python3", "spec/helper/validate.py", "journal/json-line.schema.json" }
    local n = 0
    for line in journal(folder, "json:bodies"):gmatch("[^\n]+") do
      n = n + 1
      if n <= 40 or n > COUNT then
        h.write(("%s/%d.json"):format(work, n), line)
        argv[#argv + 1] = ("%s/%d.json"):format(work, n)
      end
    end
    h.write(work .. "/wrong.json", '{"request_id":"x","client_request":{},"client_response":{"level":"FULL"}}')
    argv[#argv + 1] = work .. "/wrong.json"
    local verdicts = h.execute(argv).out
    assert.equal(#argv - 4, select(2, verdicts:gsub("accepted", "")), verdicts)
    assert.truthy(verdicts:find("refused: [^\n]*\n?$"), verdicts)
  end)

  it("are counted alike by jq", function()
    if not has "jq" then return pending("jq is not here") end
    h.write(folder .. ".jsonl", journal(folder, "json"))
    local result = run("jq", "-s", "-c",
      "map(select(.incomplete == null and .tunnel == null)) | group_by(.client_response.status)"
      .. " | map({(.[0].client_response.status | tostring): length}) | add", folder .. ".jsonl")
    assert.equal(0, result.code, result.err)
    local expected = {}
    for status, count in pairs(statuses) do expected[tostring(status)] = count end
    assert.same(expected, cjson.decode(result.out))
  end)

  it("are WARC records whose digests and links another reader verifies", function()
    local verify, why = node_tools()
    if not verify then return pending(why) end
    local work = h.folder()
    journal(folder, "warc:compression=gzip,cdxj_index", "--output", work .. "/gzip")
    journal(folder, "warc:max_file_size=64kb", "--output", work .. "/zstd")
    local result = run("sh", "-c", ("node %s warc %s/gzip/*.warc.gz"):format(verify, work))
    assert.equal(0, result.code, result.err)
    local found = cjson.decode(result.out)
    assert.equal(COUNT + 1, found.exchanges)
    assert.equal(statuses[304], found.statuses["304"])
    assert.equal(1, found.statuses["101"])
    assert.equal(statuses[204], found.statuses["204"])
    assert.equal(3 * (COUNT / #KINDS - 1), found.types.revisit) -- the repeated payload, "made" and "gone"
    assert.equal(found.records - found.types.warcinfo, found.blockDigests)
    local index = run("sh", "-c", ("node %s index %s/gzip/*.cdxj %s/gzip"):format(verify, work, work))
    assert.equal(0, index.code, index.err)
    assert.equal(COUNT + 1, cjson.decode(index.out).lines)
    if not has "zstd" then return pending("zstd is not here") end
    local unpack_all = ("for f in %s/zstd/*.zst; do zstd -qdk $f || exit 1; done"):format(work)
    result = run("sh", "-c", ("%s; node %s warc %s/zstd/*.warc"):format(unpack_all, verify, work))
    assert.equal(0, result.code, result.err)
    local same = cjson.decode(result.out)
    assert.equal(found.exchanges, same.exchanges)
    assert.same(found.statuses, same.statuses)
    assert.is_true(same.types.warcinfo > 1, "no file was rolled")
    assert.is_nil(run("sh", "-c", "ls " .. work .. "/*/").out:find("%.open"))
  end)

  it("are a HAR that holds to its schema and opens again with every body", function()
    local verify, why = node_tools()
    if not verify then return pending(why) end
    local path = h.folder() .. "/all.har"
    journal(folder, "har", "--output", path)
    local result = run("node", verify, "har", path)
    assert.equal(0, result.code, result.err)
    local found = cjson.decode(result.out)
    assert.equal(COUNT + 2, found.entries)
    assert.is_true(found.base64 >= COUNT / #KINDS)
    local count = 0
    for _ in pairs(found.bodies) do count = count + 1 end
    assert.equal(#bodies, count)
  end)

  it("are an access log that GoAccess reads to its last line", function()
    local text = journal(folder, "combined")
    assert.equal(COUNT + 1, select(2, text:gsub("\n", "")))
    assert.truthy(text:find([["http://a.test/\"x\"" "]], 1, true) or text:find([["fp:]], 1, true))
    if not has "goaccess" then return pending("goaccess is not here") end
    h.write(folder .. ".log", text)
    local result = run("goaccess", folder .. ".log", "--log-format=COMBINED", "--no-global-config", "-o",
      folder .. ".json")
    assert.equal(0, result.code, result.err .. result.out)
    local general = cjson.decode(read(folder .. ".json")).general
    assert.equal(COUNT + 1, general.total_requests)
    assert.equal(COUNT + 1, general.valid_requests)
    assert.equal(0, general.failed_requests)
  end)
end)


describe("a request played again", function()
  after_each(h.cleanup)

  it("is the same to the server, byte for byte of its body, and holds no secret", function()
    local origin = h.builtin_origin()
    local folder = h.folder() .. "/journal"
    local gateway = h.gateway { routes = h.route_to(origin.port, LEVELS), args = { "--journal", folder } }
    local first, requests = {}, {
      get("/echo/1?a=%20b&token=geheim", "Authorization: Bearer geheim\r\nAccept: text/x\r\nX-Empty:\r\n"),
      "POST /echo/2 HTTP/1.1\r\nHost: archive.test\r\nContent-Length: 13\r\n\r\nit's $a \"b\"\n\\",
      "PUT /echo/3 HTTP/1.1\r\nHost: archive.test\r\nContent-Type: x/y\r\nContent-Length: 256\r\n\r\n" .. noise(256),
      "POST /echo/4 HTTP/1.1\r\nHost: archive.test\r\nContent-Length: 5\r\n\r\n@file",
      "DELETE /echo/[5]%2F{a} HTTP/1.0\r\nHost: archive.test\r\n\r\n",
    }
    for i, request in ipairs(requests) do
      local client = gateway:connect()
      client:send(request)
      first[i] = assert(client:response()).body
      client:close()
    end
    local commands = {}
    h.eventually(function()
      commands = {}
      local text = ("\n" .. journal(folder, "curl")):gsub("\n# ", "\0# ")
      for command in text:gmatch("%Z+") do commands[#commands + 1] = command .. "\n" end
      return #commands == #requests
    end, 5, "the commands")
    for i, command in ipairs(commands) do
      assert.is_nil(command:find("geheim", 1, true))
      command = command:gsub("archive%.test", "127.0.0.1:" .. gateway.port)
      local script = h.folder() .. "/play.sh"
      h.write(script, "AUTHORIZATION='Bearer geheim' QUERY_TOKEN=geheim QUERY_A=%20b\n" .. command)
      local again = run("sh", script)
      assert.equal(0, again.code, again.err)
      local function plain(text)
        return (text:gsub("127%.0%.0%.1:%d+", "archive.test"):gsub("X%-Forwarded[^\n]*\n", ""))
      end
      assert.equal(plain(first[i]), plain(again.out))
    end
  end)
end)
