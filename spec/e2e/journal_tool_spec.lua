-- spec/e2e/journal_tool_spec.lua - `moongate journal` on a journal that is being written.
local h = require "spec.helper"

local LEVEL = "    journal: { request: { level: METADATA }, response: { level: METADATA } }\n"


local function recording()
  local folder = h.folder() .. "/journal"
  local gateway = h.gateway {
    routes = h.route_to(h.builtin_origin().port, LEVEL), args = { "--journal", folder },
    server = "storage: { stage_size: 128kb, shard_size: 256kb }\n",
  }
  gateway.journal = folder
  return gateway
end


local function listed(gateway)
  local sum, result = 0, h.moongate { "journal", "ls", gateway.journal }
  assert.equal(0, result.code, result.err)
  for count in result.out:gmatch("(%d+) exchanges") do sum = sum + tonumber(count) end
  return sum, result.out
end


describe("moongate journal beside a gateway that records", function()
  after_each(h.cleanup)

  it("lists every exchange, those that are in the stage alone too", function()
    local gateway = recording()
    for n = 1, 30 do
      gateway:get("/status/200")
      local count, out = listed(gateway)
      assert.equal(n, count, out)
    end
  end)

  it("finds nothing wrong while segments turn over", function()
    local gateway = recording()
    local load = h.load(gateway:url("/status/200"), 2)
    for _ = 1, 15 do
      local result = h.moongate { "journal", "verify", gateway.journal }
      assert.equal(0, result.code, result.out .. result.err)
      assert.truthy(result.out:find("whole: 0 places damaged, 0 entries missing, 0 repeated", 1, true), result.out)
    end
    assert.equal(0, load.finish().bad)
    assert.truthy(listed(gateway) > 1000)
  end)

  it("says how it is used when it is asked, and when it is used wrongly", function()
    for _, words in ipairs { { "ls", "--help" }, { "verify", "--help" }, { "find", "-h" } } do
      local result = h.moongate { "journal", words[1], words[2] }
      assert.equal(0, result.code)
      assert.truthy(result.out:find("^usage: moongate journal"))
    end
    for _, words in ipairs { { "journal" }, { "journal", "blub" } } do
      local wrong = h.moongate(words)
      assert.equal(2, wrong.code)
      assert.equal("", wrong.out)
      assert.truthy(wrong.err:find("usage: moongate journal", 1, true))
    end
    local near = h.moongate { "journal", "list" }
    assert.equal(2, near.code)
    assert.equal("moongate journal: unknown command list: did you mean ls?\n", near.err)
  end)

  it("finds what no route matched under a reserved id, and shows what was noted", function()
    local folder = h.folder() .. "/journal"
    local gateway = h.gateway {
      routes = (h.route_to(1, LEVEL):gsub("prefix: /", "prefix: /api")) .. "unrouted:\n" .. LEVEL:gsub("^%s+", "  "),
      args = { "--journal", folder },
    }
    assert.equal(404, gateway:get("/other").status)
    local result = h.moongate { "journal", "find", "--route", "<unrouted>", "--json", folder }
    local one = require("cjson").decode(result.out)
    assert.equal("<unrouted>", one.route)
    local shown = h.moongate { "journal", "show", one.id, folder }
    assert.truthy(shown.out:find("\nroute      <unrouted>,", 1, true), shown.out)
    assert.truthy(shown.out:find("\nattributes gateway.unrouted.reason = no_route\n", 1, true), shown.out)
    local line = require("cjson").decode(h.moongate({ "journal", "cat", folder, "--format", "json" }).out)
    assert.equal("<unrouted>", line.route_id)
  end)

  it("takes a value behind a = as well, and says of what it does not know that it does not", function()
    local gateway = recording()
    gateway:get("/status/404")
    local function says(code, text, ...)
      local result = h.moongate { "journal", ... }
      assert.equal(code, result.code, result.err)
      assert.truthy((result.out .. result.err):find(text, 1, true), result.out .. result.err)
    end
    says(0, " 404 ", "find", "--status=404", "--path=/status", gateway.journal)
    says(2, "unknown option --statu: did you mean --status?", "find", "--statu=404", gateway.journal)
    says(2, "this command does not take: --status", "cat", "--status", "404", gateway.journal)
    says(2, "this command does not take: --format", "ls", "--format", "json", gateway.journal)
    says(2, "unknown command blub", "blub")
    says(2, "unknown command fidn: did you mean find?", "fidn", gateway.journal)
    for _, command in ipairs { "ls", "find", "cat", "verify" } do
      says(1, "cannot read /nowhere: No such file", command, "/nowhere")
    end
  end)

  it("has one form of JSON of its own, under --json", function()
    local gateway = recording()
    gateway:get("/status/404")
    local plain = h.moongate { "journal", "cat", gateway.journal }
    assert.equal(404, require("cjson").decode(plain.out).status)
    for _, command in ipairs { "cat", "find" } do
      assert.equal(plain.out, h.moongate({ "journal", command, "--json", gateway.journal }).out)
    end
  end)

  it("prints what it is asked for, in every format, or says what is missing", function()
    local gateway = recording()
    gateway:get("/status/404")
    local id = h.moongate({ "journal", "find", gateway.journal }).out:match("%S+ (%S+)")
    local function names_in(folder)
      local names = {}
      for name in require("lfs").dir(folder) do names[#names + 1] = name end
      table.sort(names)
      return names
    end
    local root, work = names_in("/"), h.folder()
    for _, words in ipairs { { "journal", "show", id }, { "journal", "find" }, { "journal", "cat" }, { "tail" } } do
      for _, format in ipairs { "json", "json:output=file", "warc", "warc:exchanges=all", "combined", "har", "curl",
        "raw" } do
        local argv = { unpack(words) }
        argv[#argv + 1], argv[#argv + 2], argv[#argv + 3] = gateway.journal, "--format", format
        local result = h.moongate(argv, { cwd = work })
        local what = ("%s: %s%s"):format(table.concat(argv, " "), result.out, result.err)
        assert.equal(result.code == 0, #result.out > 0, what)
        assert.equal(result.code == 0, result.err == "", what)
        if result.code ~= 0 then assert.truthy(result.err:find("format har", 1, true) or
          result.err:find("name one, --output FOLDER", 1, true), what) end
      end
    end
    assert.same(root, names_in("/"))
  end)
end)
