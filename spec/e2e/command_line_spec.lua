-- spec/e2e/command_line_spec.lua - what every command makes of its options, and of a folder that holds no journal.
-- The options are those that a command's own help names: one that is added is asked, too.
local h = require "spec.helper"

local FLAGS = { ["--json"] = true, ["--follow"] = true, ["--dry-run"] = true, ["--drop-unread"] = true,
  ["--markdown"] = true }

local COMMANDS = {
  { "run" }, { "check" }, { "explain" }, { "filters" }, { "schema" }, { "demo" }, { "origin" }, { "reload" },
  { "status" }, { "stop" }, { "journal", "find" }, { "tail" }, { "reap" },
}


local function run(command, ...)
  local words = { unpack(command) }
  for _, word in ipairs { ... } do words[#words + 1] = word end
  return h.moongate(words)
end


-- The options that a command's help names, in order of their appearance.
local function options_of(command)
  local help, seen, list = run(command, "--help"), {}, {}
  assert.equal(0, help.code, help.err)
  for name in help.out:gmatch("%f[%-%w](%-%-%l[%l%-]+)") do
    if not seen[name] then list[#list + 1] = name end
    seen[name] = true
  end
  return list
end


describe("on the command line", function()
  after_each(h.cleanup)

  local function refused(command, text, ...)
    local result = run(command, ...)
    local what = ("%s %s: %s%s"):format(table.concat(command, " "), table.concat({ ... }, " "), result.out, result.err)
    assert.equal(2, result.code, what)
    assert.equal("", result.out, what)
    assert.truthy(result.err:find(text), what)
    assert.equal(1, select(2, result.err:gsub("\n", "")), what)
  end

  for _, command in ipairs(COMMANDS) do
    it("options of " .. table.concat(command, " ") .. " have their value, and those that are none a hint", function()
      refused(command, "unknown option %-%-zzzzzz\n", "--zzzzzz")
      refused(command, "unknown option %-%-zzzzzz\n", "--zzzzzz=3")
      for _, name in ipairs(options_of(command)) do
        local escaped = name:gsub("%-", "%%-")
        if FLAGS[name] then
          refused(command, escaped .. " takes no value\n", name .. "=1")
        else
          refused(command, escaped .. " needs a value\n", name)
          refused(command, escaped .. " %l+ a ", name .. "=")
        end
        refused(command, "unknown option " .. escaped .. "x: did you mean " .. escaped .. "%?\n", name .. "x=1")
      end
    end)
  end

  it("help is asked for at any place", function()
    for _, words in ipairs { { "run", "--port", "0" }, { "status", "--json" }, { "journal", "find", "--status", "5xx" },
      { "journal" }, { "tail", "--follow" }, { "reap", "--ttl", "7d" } } do
      for _, help in ipairs { "--help", "-h" } do
        local result = run(words, help)
        assert.equal(0, result.code, result.err)
        assert.equal("", result.err)
        assert.truthy(result.out:find(words[1], 1, true), result.out)
      end
    end
  end)

  it("a value stands behind a = or is the next word", function()
    for _, words in ipairs { { "--status", "5xx" }, { "--status=5xx" } } do
      for _, command in ipairs { { "journal", "find" }, { "tail" } } do
        assert.truthy(run(command, "/nowhere", unpack(words)).err:find("cannot read .*/nowhere: No such file"))
      end
    end
    for _, words in ipairs { { "--ttl", "7d" }, { "--ttl=7d" } } do
      assert.truthy(run({ "reap" }, "/nowhere", unpack(words)).err:find("cannot read .*/nowhere: No such file"))
    end
  end)
end)


describe("a folder without a journal", function()
  after_each(h.cleanup)

  it("is told by every command that reads one", function()
    local folder = h.folder()
    for _, words in ipairs { { "journal", "ls" }, { "journal", "find" }, { "journal", "cat" }, { "journal", "verify" },
      { "journal", "show", "01M8Q68QNP00091YSMBC0KDASB" }, { "tail" }, { "reap", "--ttl", "7d" } } do
      local result = run(words, folder)
      assert.equal(1, result.code, table.concat(words, " "))
      assert.equal("", result.out)
      assert.truthy(result.err:find("there is no journal in " .. folder .. "\n", 1, true), result.err)
    end
  end)

  it("is waited for by a tailer that follows", function()
    local folder = h.folder()
    local child = h.spawn { h.executable, "tail", "--follow", folder }
    h.eventually(function() return child:errors():find("no journal in " .. folder .. " yet", 1, true) end, 5, "a word")
    local level = "    journal: { request: { level: METADATA }, response: { level: METADATA } }\n"
    local gateway = h.gateway { routes = h.route_to(1, level), args = { "--journal", folder } }
    assert.equal(502, gateway:get("/").status)
    h.eventually(function() return child:output():find('"status":502', 1, true) end, 10, "the exchange")
    child:signal(h.process.TERM)
    assert.equal(0, h.eventually(function() return child:poll() end, 5, "its end"))
  end)
end)
