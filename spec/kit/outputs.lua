-- spec/kit/outputs.lua - the journal's outputs over exchanges made by hand; run by `moongate test`.
local cjson = require "cjson"
local ffi = require "ffi"

local view = require "moongate.output_view"
local outputs = require "moongate.outputs"
local json = require "moongate.output_json"
local curl = require "moongate.output_curl"
local files = require "moongate.output_files"
local warc = require "moongate.output_warc"
local recovery = require "moongate.output_warc_recovery"
local index = require "moongate.output_warc_index"

local C = ffi.C
local START = 1796079600123456


local function folder()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir -p '" .. path .. "'") == 0)
  return path
end


local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end


local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end


local function list(path)
  local names, pipe = {}, assert(io.popen("ls -1 '" .. path .. "'"))
  for name in pipe:lines() do names[#names + 1] = name end
  pipe:close()
  return names
end


-- A struct and what keeps its texts alive.
local anchors = {}


local function set(text, value)
  anchors[#anchors + 1] = value
  text.ptr, text.len = value, #value
end


local function texts(values)
  local array = ffi.new("struct mg_out_text[?]", #values)
  anchors[#anchors + 1] = array
  for i, value in ipairs(values) do set(array[i - 1], value) end
  return array, #values
end


local function fill_leg(leg, fields)
  leg.present, leg.whole = true, true
  for name, value in pairs(fields) do
    if name == "headers" then
      leg.headers, leg.header_count = texts(value)
    elseif type(value) == "string" then
      set(leg[name], value)
    else
      leg[name] = value
    end
  end
end


-- @param fields of the exchange; legs: { [0] = fields of the client's request, ... }
local function exchange(fields, legs)
  local raw = ffi.new("struct mg_out_exchange")
  anchors[#anchors + 1] = raw
  set(raw.id, "01M8QBCKKK000DWQ98XVMT8D6Z")
  raw.started, raw.ended, raw.status, raw.start = true, true, 200, START
  raw["end"] = START + 1234
  for name, value in pairs(fields or {}) do
    if type(value) == "string" then set(raw[name], value) else raw[name] = value end
  end
  local given = legs or {}
  fill_leg(raw.legs[0], given[0] or { level = 1, line = "GET / HTTP/1.1", method = "GET", target = "/", path = "/",
    protocol = "HTTP/1.1" })
  fill_leg(raw.legs[3], given[3] or { level = 1, line = "HTTP/1.1 200 OK", protocol = "HTTP/1.1", status = 200,
    reason = "OK" })
  for which = 1, 2 do
    if given[which] then fill_leg(raw.legs[which], given[which]) end
  end
  return view.new(raw), raw
end


local function line_of(one, bodies)
  local buf = files.buffer()
  json.line(buf, one, bodies)
  local text = files.text(buf)
  assert.equal("\n", text:sub(-1))
  return cjson.decode(text), text
end


local FULL_REQUEST = {
  level = 3, line = "POST /a?b=c HTTP/1.1", method = "POST", target = "/a?b=c", path = "/a", query = "b=c",
  protocol = "HTTP/1.1", headers = { "Host: a.test", "X-A: 1", "x-a: 2", "X-Latin: gr\252n", "No-Colon" },
  header_bytes = 90, body_bytes = 5, body = "hello", has_body = true, has_crc = true, crc = 0x12345678,
}


describe("a line of JSON", function()
  it("has what is always there, and nothing that is not known", function()
    assert.same({ request_id = "01M8QBCKKK000DWQ98XVMT8D6Z", start = "2026-11-30T23:00:00.123456Z",
      ["end"] = "2026-11-30T23:00:00.124690Z", duration = 0.001234, answered_by = "UPSTREAM",
      client_request = { level = "METADATA", method = "GET", path = "/", protocol = "HTTP/1.1", header_bytes = 0,
        body_bytes = 0 },
      client_response = { level = "METADATA", protocol = "HTTP/1.1", status = 200, reason = "OK", header_bytes = 0,
        body_bytes = 0 } }, (line_of(exchange())))
  end)

  it("writes durations with six decimals", function()
    assert.truthy(select(2, line_of(exchange({ ["end"] = START + 5 }))):find('"duration":0.000005,', 1, true))
  end)

  it("says why an exchange is not whole", function()
    for number, word in ipairs { "NO_START_EVENT", "NO_END", "TIMED_OUT", "CAPACITY_EVICTED", "SHUTDOWN" } do
      local line = line_of(exchange { incomplete = number, ended = false, status = 0 })
      assert.equal(word, line.incomplete)
      assert.is_nil(line["end"])
      assert.is_nil(line.answered_by)
      assert.is_nil(line.client_response.body_bytes)
    end
    assert.equal("NO_STATUS", (line_of(exchange { status = 0 })).incomplete)
  end)

  it("has headers as lists under small names, and ISO-8859-1 as UTF-8", function()
    local line = line_of(exchange(nil, { [0] = FULL_REQUEST }))
    assert.same({ host = { "a.test" }, ["x-a"] = { "1", "2" }, ["x-latin"] = { "grün" }, ["no-colon"] = { "" } },
      line.client_request.headers)
  end)

  it("has the body where it is asked for and no archive has it", function()
    local one = exchange(nil, { [0] = FULL_REQUEST })
    local line = line_of(one)
    assert.is_nil(line.client_request.body)
    assert.equal("crc32c:12345678", line.client_request.checksum)
    assert.is_nil(line.client_request.observed_checksum)
    assert.equal("aGVsbG8=", line_of(one, true).client_request.body)
    one.archive = { file = "a.warc.zst", offset = 12, length = 345 }
    line = line_of(one, true)
    assert.is_nil(line.client_request.body)
    assert.same({ file = "a.warc.zst", offset = 12, length = 345 }, line.warc)
  end)

  it("has both checksums of a damaged body, and says where a body broke off", function()
    local one, raw = exchange(nil, { [0] = FULL_REQUEST })
    raw.legs[0].damaged, raw.legs[0].observed, raw.legs[0].whole = true, 0xdeadbeef, false
    local request = line_of(one).client_request
    assert.equal("crc32c:deadbeef", request.observed_checksum)
    assert.is_true(request.truncated)
  end)

  it("has the upstream's side with its times when it was proxied", function()
    local line = line_of(exchange({ upstream = "10.0.0.1:80", sent = START + 10, first_byte = START + 100, tries = 2 },
      { [1] = { level = 1, method = "GET", path = "/x" }, [2] = { level = 1, status = 503, reason = "No" } }))
    assert.same({ level = "METADATA", method = "GET", path = "/x", targets = { "10.0.0.1:80" }, tries = 2 },
      line.upstream_request)
    assert.same({ level = "METADATA", status = 503, reason = "No", start = "2026-11-30T23:00:00.123466Z",
      first_byte = "2026-11-30T23:00:00.123556Z", ["end"] = "2026-11-30T23:00:00.124690Z", duration = 0.001224 },
      line.upstream_response)
  end)

  it("has attributes as lists, and the targets that were tried where targets are", function()
    local one, raw = exchange({ upstream = "10.0.0.2:80" }, { [1] = { level = 1, method = "GET" } })
    raw.attributes, raw.attribute_count = texts { "gateway.target", "10.0.0.1:80", "a", "1", "b", "2", "a", "3" }
    local line = line_of(one)
    assert.same({ a = { "1", "3" }, b = { "2" } }, line.attributes)
    assert.same({ "10.0.0.1:80", "10.0.0.2:80" }, line.upstream_request.targets)
    raw.attribute_count = 2
    line = line_of(one)
    assert.is_nil(line.attributes)
    assert.same({ "10.0.0.1:80", "10.0.0.2:80" }, line.upstream_request.targets)
  end)

  it("knows dates to the end of the calendar", function()
    local buf = files.buffer()
    for seconds, text in pairs {
      [0] = "1970-01-01T00:00:00", [951782400] = "2000-02-29T00:00:00", [1709164800] = "2024-02-29T00:00:00",
      [4107542399] = "2100-02-28T23:59:59", [4107542400] = "2100-03-01T00:00:00",
    } do
      C.mg_out_shorten(buf, 0)
      C.mg_out_time(buf, seconds * 1e6 + 7)
      assert.equal(text .. ".000007Z", files.text(buf))
    end
  end)
end)


describe("a set of outputs", function()
  local function fake(name, fail_at)
    local seen = { name = name, written = {}, undone = 0 }
    local module = { open = function() return seen end }
    function module.write(state, one)
      state.written[#state.written + 1] = one.id
      if #state.written == fail_at then return nil, "no room" end
      return true
    end
    function module.undo(state)
      state.undone = state.undone + 1
      table.remove(state.written)
      return true
    end
    package.loaded["moongate.outputs." .. name] = module
    return seen, module
  end

  local function open(config, raw)
    return outputs.open(cjson.encode(config), folder(), raw)
  end

  it("takes back what earlier ones have when a later one fails, and can be asked again", function()
    local _, raw = exchange()
    local first, second = fake("first_test"), fake("second_test", 2)
    local made = assert(open({ { output = "first_test" }, { output = "second_test" } }, raw))
    assert.is_true(made.write())
    local taken, why = made.write()
    assert.is_false(taken)
    assert.equal("output second_test: no room", why)
    assert.equal(1, #first.written)
    assert.equal(1, first.undone)
    assert.equal(1, second.undone)
  end)

  it("serves those that archive first", function()
    local _, raw = exchange()
    local order = {}
    for _, name in ipairs { "tells_test", "keeps_test" } do
      local _, module = fake(name)
      module.archives = name == "keeps_test"
      module.write = function() order[#order + 1] = name return true end
    end
    local made = assert(open({ { output = "tells_test" }, { output = "keeps_test" } }, raw))
    made.write()
    assert.same({ "keeps_test", "tells_test" }, order)
  end)

  it("turns an error of a module into a message, and a closed pipe into an end without one", function()
    local _, raw = exchange()
    local _, broken = fake "broken_test"
    broken.write = function() error "oops" end
    local taken, why = assert(open({ { output = "broken_test" } }, raw)).write()
    assert.is_false(taken)
    assert.truthy(why:find("output broken_test: .*oops"))
    broken.write = function() return nil, "closed" end
    taken, why = assert(open({ { output = "broken_test" } }, raw)).write()
    assert.is_false(taken)
    assert.is_nil(why)
  end)

  it("refuses names and options with what was probably meant", function()
    local _, raw = exchange()
    local function why(...) return select(2, open({ ... }, raw)) end
    assert.truthy(why({ output = "jsn" }):find("unknown output jsn (did you mean json?)", 1, true))
    assert.truthy(why({ output = "../x" }):find("is not the name of an output", 1, true))
    assert.truthy(why({ output = "json", options = { outputt = "file" } }):find("did you mean output?", 1, true))
    assert.truthy(why({ output = "json", options = { max_file_size = "1b" } }):find("at least 4kb", 1, true))
    fake("shy_test").write = nil
    package.loaded["moongate.outputs.shy_test"] = { open = function() end }
    assert.truthy(why({ output = "shy_test" }):find("it has no function write", 1, true))
  end)
end)


describe("files that roll", function()
  it("get their names when they are full, old or closed, and none when they are empty", function()
    local path = folder()
    local state = assert(json.open { output = "file", output_dir = path, file_prefix = "t", max_file_size = 300,
      max_file_age = 1e9 })
    local one = exchange()
    for _ = 1, 3 do assert(json.write(state, one)) end
    assert.equal(3, #list(path))
    assert.equal(1, #table.concat(list(path), " "):gsub("[^%s]*%.jsonl%.open", "\0"):gsub("[^%z]", ""))
    assert(json.flush(state, true))
    assert(json.close(state))
    for _, name in ipairs(list(path)) do
      assert.truthy(name:find("^t%-%d+%-%x+%-%x+%-4%x+%-[89ab]%x+%-%x+%.jsonl$"), name)
      assert.equal(1, select(2, read(path .. "/" .. name):gsub("\n", "")))
    end
    state = assert(json.open { output = "file", output_dir = path, file_prefix = "t", max_file_size = 300,
      max_file_age = 1e9 })
    assert(json.close(state))
    assert.equal(3, #list(path))
  end)

  it("lose a torn last line, and nothing else, when they are found open", function()
    local path = folder()
    local name = path .. "/t-1-aa-bb.jsonl"
    write(name .. ".open", '{"a":1}\n{"a":2}\n{"a"')
    write(path .. "/t-2-aa-bb.jsonl.open", '{"never ended')
    write(path .. "/other-1-aa-bb.jsonl.open", '{"not ours')
    assert(json.open { output = "file", output_dir = path, file_prefix = "t", max_file_size = 300, max_file_age = 1e9 })
    assert.equal('{"a":1}\n{"a":2}\n', read(name))
    assert.same({ "other-1-aa-bb.jsonl.open", "t-1-aa-bb.jsonl" }, list(path))
  end)

  it("keep what a full disk does not take, and write it when there is room", function()
    local stream = assert(files.stream "/dev/full")
    local buf = assert(stream:ready())
    C.mg_out_put(buf, "kept", 4)
    local done, why = stream:flush(false)
    assert.is_nil(done)
    assert.truthy(why:find("cannot write /dev/full: No space left", 1, true))
    assert.equal("kept", files.text(stream:ready()))
    C.mg_out_file_drop(stream.file, false)
  end)
end)


describe("a WARC file", function()
  local function opened(path, more)
    local options = { exchanges = "all", output_dir = path, file_prefix = "t", max_file_size = 1e9, max_file_age = 1e9,
      compression = "gzip", zstd_level = 3, dedup_cache_entries = 2, cdxj_index = true, bodies = true }
    for name, value in pairs(more or {}) do options[name] = value end
    return assert(warc.open(options))
  end

  local function answer(body)
    return { level = 3, line = "HTTP/1.1 200 OK", status = 200, headers = { "Content-Type: text/x; a=b" }, body = body,
      body_bytes = #body, has_body = true }
  end

  local function text_of(path)
    local pipe = assert(io.popen("gzip -dc '" .. path .. "'"))
    local text = pipe:read("*a")
    pipe:close()
    return text
  end

  it("remembers as many payloads as it may", function()
    local path = folder()
    local state = opened(path)
    for _, body in ipairs { "a", "a", "b", "c", "a", "c" } do
      assert(warc.write(state, (exchange(nil, { [0] = FULL_REQUEST, [3] = answer(body) }))))
    end
    assert(warc.close(state))
    local text = text_of(path .. "/" .. list(path)[2])
    assert.equal(2, select(2, text:gsub("WARC%-Type: revisit", "")))
  end)

  it("does not store a damaged body, nor exchanges without an end", function()
    local path = folder()
    local state = opened(path)
    local one, raw = exchange(nil, { [0] = FULL_REQUEST })
    raw.legs[0].damaged = true
    assert(warc.write(state, one))
    assert(warc.write(state, (exchange { ended = false, incomplete = 2 })))
    assert(warc.close(state))
    local text = text_of(path .. "/" .. list(path)[2])
    assert.truthy(text:find("WARC-Moongate-Checksum-Mismatch: true", 1, true))
    assert.is_nil(text:find("hello", 1, true))
    assert.equal(2, select(2, text:gsub("WARC%-Moongate%-Sequence", "")))
  end)

  it("takes the last exchange back, payload and index included", function()
    local path = folder()
    local state = opened(path)
    local one = exchange(nil, { [0] = FULL_REQUEST, [3] = answer "same" })
    assert(warc.write(state, one))
    local archive = one.archive
    assert(warc.undo(state))
    assert(warc.write(state, one))
    assert.same(archive.offset, one.archive.offset)
    assert(warc.close(state))
    local text = text_of(path .. "/" .. list(path)[2])
    assert.is_nil(text:find("revisit", 1, true))
    assert.equal(1, select(2, read(path .. "/" .. list(path)[1]):gsub("\n", "")))
  end)

  it("that was torn anywhere is cut behind its last whole exchange, and its index is the same", function()
    local path = folder()
    local state = opened(path)
    local ends = { 0 }
    for i = 1, 3 do
      local one = exchange(nil, { [0] = FULL_REQUEST, [3] = answer(("%d"):format(i)) })
      assert(warc.write(state, one))
      ends[#ends + 1] = one.archive.offset + one.archive.length
    end
    assert(warc.close(state))
    local names = list(path)
    local whole, lines = read(path .. "/" .. names[2]), read(path .. "/" .. names[1])
    for cut = 0, #whole, 41 do
      local torn = folder()
      write(torn .. "/" .. names[2] .. ".open", whole:sub(1, cut))
      assert(warc.close(opened(torn)))
      local expected = 0
      for i, finish in ipairs(ends) do
        if finish <= cut then expected = i - 1 end
      end
      local left = list(torn)
      assert.equal(expected == 0 and 0 or 2, #left, ("cut %d of %s"):format(cut, table.concat(ends, " ")))
      if expected > 0 then
        assert.equal(ends[expected + 1], #read(torn .. "/" .. names[2]))
        assert.equal(expected, select(2, read(torn .. "/" .. names[1]):gsub("\n", "")))
      end
    end
    local again = folder()
    write(again .. "/" .. names[2] .. ".open", whole)
    assert(warc.close(opened(again)))
    assert.equal(lines, read(again .. "/" .. names[1]))
  end)

  it("has keys by which pywb finds a URL", function()
    for url, key in pairs {
      ["http://www.Example.com/A?b=2&a=1"] = "com,example)/a?a=1&b=2",
      ["http://a.b.example.org:8080/x/"] = "org,example,b,a:8080)/x",
      ["http://example.org:80"] = "org,example)/",
      ["http://127.0.0.1:81/"] = "127.0.0.1:81)/",
      ["http://[::1]:81/x"] = "[::1]:81)/x",
    } do
      assert.equal(key, index.key(url, "GET"))
    end
    assert.equal("org,example)/?__wb_method=post&q=1", index.key("http://example.org/?q=1", "POST"))
    assert.equal("text/html", recovery.mime "text/html; charset=x")
  end)
end)


describe("a command for curl", function()
  it("quotes everything, and has a name for what is secret", function()
    local one = exchange(nil, { [0] = { level = 3, line = "PUT /p HTTP/1.0", method = "PUT",
      target = "/it's?path=fp:AAAAAAAAAAA&b=fp:BBBBBBBBBBB&b=fp:CCCCCCCCCCC", protocol = "HTTP/1.0",
      headers = { "Host: h.test", "Authorization: fp:DDDDDDDDDDD", "X-Empty: ", "Cookie: a=fp:EEEEEEEEEEE; $b=`c`" },
      body = "@it's\n", body_bytes = 6, has_body = true } })
    local command, names = curl.command(one)
    assert.same({ "QUERY_PATH", "QUERY_B", "QUERY_B_2", "AUTHORIZATION", "COOKIE" }, { unpack(names) })
    assert.equal([[
printf %s QGl0J3MK | base64 -d | curl --globoff --path-as-is --http1.0 \
  -X 'PUT' \
  -H 'Authorization: '"$AUTHORIZATION" \
  -H 'X-Empty;' \
  -H 'Cookie: a='"$COOKIE"'; $b=`c`' \
  -H 'Accept:' \
  -H 'User-Agent:' \
  -H 'Content-Type:' \
  -H 'Expect:' \
  --data-binary @- \
  'http://h.test/it'\''s?path='"$QUERY_PATH"'&b='"$QUERY_B"'&b='"$QUERY_B_2"]], command)
  end)
end)
