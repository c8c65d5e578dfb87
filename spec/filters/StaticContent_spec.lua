-- spec/filters/StaticContent_spec.lua - files of a directory: what is served, what never, in parts, conditionally.
local h = require "spec.helper"
local process = require "spec.helper.process"

local BIG = 1024 * 1024 * 1024


local function write(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end


-- A folder with a little of everything; outside lies beside it.
local function site()
  local folder = h.folder()
  local root = folder .. "/site"
  for _, name in ipairs { "/site", "/outside", "/site/sub", "/site/empty", "/site/.hidden", "/site/.well-known" } do
    h.make_folder(folder .. name)
  end
  write(root .. "/index.html", "<p>home</p>")
  write(root .. "/text.txt", "0123456789")
  write(root .. "/none", "")
  write(root .. "/a b&c.unknown", "odd")
  write(root .. "/sub/default.htm", "sub")
  write(root .. "/.secret", "secret")
  write(root .. "/.hidden/x", "secret")
  write(root .. "/.well-known/token", "token")
  write(folder .. "/outside/file", "outside")
  assert(os.execute(("ln -s ../outside '%s/link' && ln -s text.txt '%s/alias'"):format(root, root)))
  assert(os.execute(("mkfifo '%s/fifo' && ln -s '%s' '%s/current'"):format(root, root, folder)))
  return root, folder
end


local function routes(root, options)
  return ([[
routes:
  - id: assets
    match: [ { PathPrefix: { prefix: /assets } } ]
    filters: [ { StripPathPrefix: { parts: 1 } }, { StaticContent: { base_directory: "%s"%s } } ]
  - id: root
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { StaticContent: { base_directory: "%s"%s } } ]
]]):format(root, options or "", root, options or "")
end


local function serve(options)
  local root, folder = site()
  return h.gateway { routes = routes(root, options), workers = 2 }, root, folder
end


local function status(gw, target, headers) return gw:get(target, headers).status end


local function request(gw, method, target, headers)
  return (gw:raw(("%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n"):format(method, target, headers or ""), method))
end

describe("StaticContent", function()
  after_each(h.cleanup)

  it("serves a file with its type, tag and date, and HEAD as GET without the body", function()
    local gw = serve()
    local answer = gw:get("/text.txt")
    assert.equal(200, answer.status)
    assert.equal("0123456789", answer.body)
    assert.equal("text/plain", answer:header("content-type"))
    assert.equal("bytes", answer:header("accept-ranges"))
    assert.equal("nosniff", answer:header("x-content-type-options"))
    assert.truthy(answer:header("etag"):find('^"a%-%x+"$'))
    assert.truthy(answer:header("last-modified"):find("^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$"))
    local head = request(gw, "HEAD", "/text.txt")
    assert.equal("10", head:header("content-length"))
    assert.equal(answer:header("etag"), head:header("etag"))
    assert.equal("odd", gw:get("/a%20b&c.unknown").body)
    assert.equal("application/octet-stream", gw:get("/a%20b&c.unknown"):header("content-type"))
    assert.equal("0", gw:get("/none"):header("content-length"))
    assert.equal("0123456789", gw:get("/assets/text.txt").body)
    local refused = request(gw, "POST", "/text.txt", "Content-Length: 0\r\n")
    assert.equal(405, refused.status)
    assert.equal("GET, HEAD", refused:header("allow"))
  end)

  it("never leaves its directory, and shows no hidden file but .well-known", function()
    local gw, root, folder = serve()
    for _, target in ipairs {
      "/nothing", "/text.txt/", "/text.txt/x", "/.secret", "/.hidden/x", "/sub/.x", "/fifo", "/link/file", "/alias",
      "/%2e%2e/outside/file", "//etc/passwd", "/etc/passwd", "/text.txt%00", "/" .. ("x"):rep(300),
    } do
      local answer = gw:get(target)
      assert.is_true(answer.status == 404 or answer.status == 400, target .. " " .. answer.status)
    end
    assert.equal("token", gw:get("/.well-known/token").body)
    gw:write_routes(routes(root, ", follow_symlinks: true, serve_hidden_files: true"))
    assert.equal(0, gw:control("reload").code)
    assert.equal("outside", gw:get("/link/file").body)
    assert.equal("0123456789", gw:get("/alias").body)
    assert.equal("secret", gw:get("/.secret").body)
    assert.equal(404, status(gw, "/fifo"))
    assert.equal(404, status(gw, "//etc/passwd") == 400 and 404 or status(gw, "//etc/passwd"))
    gw:write_routes(routes(folder .. "/current")) -- the base itself may be a link, and may be turned
    assert.equal(0, gw:control("reload").code)
    assert.equal("0123456789", gw:get("/text.txt").body)
    assert(os.execute(("ln -sfn '%s/outside' '%s/current'"):format(folder, folder)))
    assert.equal("outside", gw:get("/file").body)
    assert(os.remove(folder .. "/current"))
    assert.equal(404, status(gw, "/file"))
  end)

  it("sends directories to their slash, shows a welcome file, else a list where that is on", function()
    local gw, root = serve()
    assert.equal("<p>home</p>", gw:get("/").body)
    assert.equal("text/html", gw:get("/"):header("content-type"))
    local moved = gw:get("/sub?x=1/2")
    assert.equal(302, moved.status)
    assert.equal("/sub/?x=1/2", moved:header("location"))
    assert.equal("/assets/", gw:get("/assets"):header("location"))
    assert.equal("sub", gw:get("/assets/sub/").body)
    assert.equal(403, status(gw, "/empty/"))
    os.remove(root .. "/index.html")
    gw:write_routes(routes(root, ", list_directory: true"))
    assert.equal(0, gw:control("reload").code)
    local list = gw:get("/")
    assert.equal("text/html; charset=utf-8", list:header("content-type"))
    assert.truthy(list.body:find('<a href="./a%20b%26c.unknown">a b&#38;c.unknown</a>', 1, true), list.body)
    assert.truthy(list.body:find('./.well-known/', 1, true))
    assert.truthy(list.body:find("sub/.*text%.txt"))
    for _, name in ipairs { "secret", "alias", "link", "fifo", ".." } do
      assert.is_nil(list.body:find(name, 1, true), name)
    end
    assert.truthy(gw:get("/empty/").body:find('<a href="../">', 1, true))
  end)

  it("answers 304 to who has it already; tags go before dates", function()
    local gw = serve()
    local first = gw:get("/text.txt")
    local tag, date = first:header("etag"), first:header("last-modified")
    local function with(...) return status(gw, "/text.txt", table.concat({ ... }, "\r\n") .. "\r\n") end
    assert.equal(304, with("If-None-Match: " .. tag))
    assert.equal(304, with('If-None-Match: "x", W/' .. tag))
    assert.equal(304, with('If-None-Match: "x"', "If-None-Match: " .. tag))
    assert.equal(304, with("If-None-Match: *"))
    assert.equal(200, with('If-None-Match: "x"'))
    assert.equal(200, with('If-None-Match: "x"', "If-Modified-Since: " .. date))
    assert.equal(304, with("If-Modified-Since: " .. date))
    assert.equal(304, with("If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"))
    assert.equal(200, with("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT"))
    assert.equal(200, with("If-Modified-Since: Thursday, 01-Jan-70 00:00:00 GMT"))
    assert.equal(304, with("If-Modified-Since: Fri Jan  1 00:00:00 2100"))
    assert.equal(200, with("If-Modified-Since: yesterday"))
    local kept = gw:get("/text.txt", "If-None-Match: " .. tag .. "\r\n")
    assert.equal(tag, kept:header("etag"))
    assert.equal("", kept.body)
  end)

  it("sends one part where one is asked for", function()
    local gw = serve()
    local tag = gw:get("/text.txt"):header("etag")
    for range, expected in pairs {
      ["bytes=0-0"] = "0", ["bytes=2-5"] = "2345", ["bytes=7-"] = "789", ["bytes=-3"] = "789",
      ["bytes=-99"] = "0123456789", ["bytes=5-999999999999999999999"] = "56789",
    } do
      local answer = gw:get("/text.txt", "Range: " .. range .. "\r\n")
      assert.equal(206, answer.status, range)
      assert.equal(expected, answer.body)
      local first = ("0123456789"):find(expected, 1, true) - 1
      assert.equal(("bytes %d-%d/10"):format(first, first + #expected - 1), answer:header("content-range"))
    end
    for _, range in ipairs { "bytes=10-", "bytes=10-20", "bytes=-0" } do
      local answer = gw:get("/text.txt", "Range: " .. range .. "\r\n")
      assert.equal(416, answer.status, range)
      assert.equal("bytes */10", answer:header("content-range"))
    end
    for _, range in ipairs { "bytes=0-1,3-4", "bytes=5-2", "bytes=a-b", "bytes=-", "lines=0-1", "bytes 0-1" } do
      local answer = gw:get("/text.txt", "Range: " .. range .. "\r\n")
      assert.equal(200, answer.status, range)
      assert.equal("0123456789", answer.body)
    end
    assert.equal(206, status(gw, "/text.txt", "Range: bytes=0-1\r\nIf-Range: " .. tag .. "\r\n"))
    assert.equal(200, status(gw, "/text.txt", 'Range: bytes=0-1\r\nIf-Range: "x"\r\n'))
    assert.equal(200, status(gw, "/text.txt", "Range: bytes=0-1\r\nIf-Range: W/" .. tag .. "\r\n"))
    assert.equal(200, request(gw, "HEAD", "/text.txt", "Range: bytes=0-1\r\n").status)
    assert.equal(416, status(gw, "/none", "Range: bytes=0-\r\n"))
  end)

  it("sends large files whole, to many at once, on kept connections", function()
    local gw, root = serve()
    local bytes = {}
    for i = 1, 40000 do bytes[i] = ("%08d line of a file that is not small\n"):format(i) end
    bytes = table.concat(bytes)
    write(root .. "/large.txt", bytes)
    local client = gw:connect()
    for _ = 1, 3 do
      assert.is_true(client:get("/large.txt").body == bytes)
      assert.equal(bytes:sub(100001, 900000), client:get("/large.txt", "Range: bytes=100000-899999\r\n").body)
      assert.equal("0123456789", client:get("/text.txt").body)
    end
    local clients = {}
    for i = 1, 8 do
      clients[i] = gw:connect()
      clients[i]:send("GET /large.txt HTTP/1.1\r\nHost: a\r\n\r\n")
    end
    for _, other in ipairs(clients) do assert.is_true(other:response().body == bytes) end
  end)

  it("sends what only the disk has, and serves others meanwhile", function()
    local gw, root = serve()
    local bytes = ("0123456789abcdef"):rep(65536 * 3)
    write(root .. "/cold", bytes)
    assert(os.execute(("sync '%s/cold' && dd if='%s/cold' iflag=nocache count=0 status=none"):format(root, root)))
    local client = gw:connect()
    client:send("GET /cold HTTP/1.1\r\nHost: a\r\n\r\n")
    assert.equal("0123456789", gw:get("/text.txt").body)
    assert.is_true(client:response().body == bytes)
  end)

  it("keeps its memory flat with a gigabyte for a slow reader, and lets go when that one leaves", function()
    local gw, root = serve()
    local file = assert(io.open(root .. "/giga", "wb"))
    file:seek("set", BIG - 1)
    file:write("x")
    file:close()
    local pid = gw:workers()[1]
    local function resident()
      local text = process.read_file("/proc/" .. pid .. "/status") or ""
      return tonumber(text:match("VmRSS:%s+(%d+)"))
    end
    local clients = {}
    for i = 1, 8 do
      clients[i] = gw:connect()
      clients[i]:send("GET /giga HTTP/1.1\r\nHost: a\r\n\r\n")
    end
    for _, client in ipairs(clients) do assert.truthy(client:take(1000)) end
    local before = resident()
    for _ = 1, 20 do
      for _, client in ipairs(clients) do client:take(100000) end
    end
    assert.equal("0123456789", gw:get("/text.txt").body)
    assert.is_true(resident() - before < 8192, ("%d KB more"):format(resident() - before))
    for i, client in ipairs(clients) do
      if i % 2 == 0 then client:reset() else client:close() end
    end
    assert.equal("0123456789", gw:get("/text.txt").body)
  end)

  it("runs response filters on what it sends, and refuses a base that is not there", function()
    local root = site()
    local gw = h.gateway {
      routes = routes(root):gsub("filters: %[", "filters: [ { SetResponseHeader: { name: X-A, value: b } },"),
    }
    assert.equal("b", gw:get("/text.txt"):header("x-a"))
    local folder = h.folder()
    h.write(folder .. "/routes.yaml", routes(root .. "/nowhere"))
    local checked = h.moongate { "check", "--routes", folder .. "/routes.yaml" }
    assert.equal(1, checked.code)
    assert.truthy(checked.err:find("nowhere is not a directory", 1, true), checked.err)
  end)
end)
