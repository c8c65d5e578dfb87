-- spec/e2e/outputs_own_spec.lua - outputs of users, and what goes wrong with outputs: messages and exit codes.
local h = require "spec.helper"

local LEVELS = [[
    journal:
      request: { level: HEADERS }
      response: { level: HEADERS }
]]


--- Records exchanges; the folder of the journal.
local function record(count)
  local origin = h.origin(function(stream, request)
    if request.target == "/slow" then h.sleep(0.3) end
    stream:send(h.answer(200, "hello\n"))
  end)
  local folder = h.folder() .. "/journal"
  local gateway = h.gateway { routes = h.route_to(origin.port, LEVELS), args = { "--journal", folder } }
  local client = gateway:connect()
  for i = 1, count do
    client:send(("GET /%d HTTP/1.1\r\nHost: a\r\nUser-Agent: x/%d\r\n\r\n"):format(i, i))
    assert.equal(200, client:response().status)
  end
  assert.equal(200, client:get("/slow", "User-Agent: slow/1\r\n").status)
  gateway:stop()
  return folder
end


local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end


local function cat(folder, cwd, ...)
  return h.moongate({ "journal", "cat", folder, ... }, { cwd = cwd })
end


describe("an output of a user", function()
  after_each(h.cleanup)

  it("runs as journal/README.md prints it", function()
    local folder, work = record(3), h.folder()
    local source = read("journal/README.md"):match("```lua\n(%-%- outputs/slow%.lua.-)```")
    h.make_folder(work .. "/outputs")
    h.write(work .. "/outputs/slow.lua", source)
    local result = cat(folder, work, "--format", "slow:longer_than=250ms", "--output", work .. "/slow.log")
    assert.equal(0, result.code, result.err)
    local lines = read(work .. "/slow.log")
    assert.truthy(lines:find("^%d%d%d%d%-%d%d%-%d%dT%S+Z 0%.[3-9]%d%d s 200 GET /slow HTTP/1%.1 slow/1\n$"), lines)
  end)

  it("is refused with one sentence when it is no output, fails when it fails", function()
    local folder, work = record(1), h.folder()
    h.make_folder(work .. "/outputs")
    for source, why in pairs {
      ["return {"] = "output odd does not load: ./outputs/odd.lua:1:",
      ["error 'oops'"] = "output odd does not load: ./outputs/odd.lua:1: oops",
      ["return 7"] = "output odd: it does not return a table",
      ["return { open = print }"] = "output odd: it has no function write",
      ["return { open = print, write = print, options = { a = { type = 'sting' } } }"] = "did you mean string?",
      ["return { open = function() return nil, 'no such place' end, write = print }"] = "output odd: no such place",
      ["return { open = tostring, write = function() return nil, 'no room' end }"] = "output odd: no room",
      ["return { open = function() return 1 end, write = function() error 'oops' end }"] = "outputs/odd.lua:1: oops",
      ["return { open = function() return 1 end, write = function() end }"] = "output odd: took no exchange",
    } do
      h.write(work .. "/outputs/odd.lua", source)
      local result = cat(folder, work, "--format", "odd")
      assert.equal(1, result.code, source)
      assert.truthy(result.err:find(why, 1, true), result.err)
      assert.equal(1, select(2, result.err:gsub("\n", "")), result.err)
    end
  end)

  it("does not take the name of a built-in one", function()
    local folder, work = record(1), h.folder()
    h.make_folder(work .. "/outputs")
    h.write(work .. "/outputs/json.lua", "return {}")
    local result = cat(folder, work, "--format", "json")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("./outputs/json.lua has the name of a built-in output", 1, true), result.err)
  end)
end)


describe("an output that cannot write", function()
  after_each(h.cleanup)

  it("says so once and fails", function()
    local folder = record(1)
    for _, case in ipairs {
      { { "--format", "jsno" }, "unknown output jsno (did you mean json?)" },
      { { "--format", "json:body" }, "unknown option body; known options: bodies, file_prefix" },
      { { "--format", "json:output=disk" }, "found \"disk\", accepted: stdout, file" },
      { { "--format", "har", "--output", "/nowhere/x.har" }, "cannot write /nowhere/x.har.open: No such file" },
      { { "--format", "warc" }, "output warc writes files into a folder: name one, --output FOLDER" },
      { { "--format", "json:output=file" }, "output json writes files into a folder" },
      { { "--format", "json", "--output", "/proc/x" }, "output json: cannot write to /proc/x" },
      { { "--format", "combined", "--output", "/dev/full" }, "cannot write /dev/full: No space left on device" },
    } do
      local result = cat(folder, nil, unpack(case[1]))
      assert.equal(1, result.code, result.err)
      assert.truthy(result.err:find(case[2], 1, true), result.err)
      assert.equal(1, select(2, result.err:gsub("\n", "")), result.err)
    end
    assert.equal(2, cat(folder, nil, "--output", "x").code)
  end)

  it("ends without a word when the reader of its pipe goes", function()
    local folder = record(700)
    local executable = h.process.absolute(os.getenv("MOONGATE") or "build/moongate")
    for _, form in ipairs { "json", "combined", "raw", "har", "curl" } do
      local command = ("{ %s journal cat %s --format %s; echo $? >&2; } | head -c 20 >/dev/null"):format(executable,
        folder, form)
      local result = h.execute { "sh", "-c", command }
      assert.equal("0\n", result.err, form)
    end
  end)
end)
