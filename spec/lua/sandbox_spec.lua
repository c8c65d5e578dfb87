-- sandbox_spec.lua - what code of a user reaches, and what it cannot.
require "spec.lua.support"
local sandbox = require "moongate.sandbox"


local function run(source, options)
  options = options or {}
  options.name = options.name or "test"
  options.find_module = options.find_module or function(name) return nil, "no module " .. name end
  return sandbox.run(source, "@test.lua", options)
end


describe("a sandbox", function()
  it("holds none of what reaches out of it", function()
    for _, name in ipairs { "io", "debug", "jit", "ffi", "package", "dofile", "loadfile", "module", "collectgarbage",
      "getfenv", "setfenv", "newproxy", "gcinfo", "os.execute", "os.exit", "os.getenv", "os.remove", "os.tmpname",
      "string.dump", "math.randomseed", "moongate_embedded" } do
      assert.is_nil(run("return " .. name), name)
    end
  end)

  it("refuses bytecode and C modules", function()
    assert.is_nil(run("return load(" .. ("%q"):format(string.dump(function() end)) .. ")"))
    assert.is_nil(run("return loadstring('\\27LJ\\2')"))
    for _, name in ipairs { "ffi", "jit", "io", "os", "debug", "package", "cjson" } do
      local result, why = run(("return require '%s'"):format(name))
      assert.is_nil(result, name)
      assert.truthy(why:find("no module " .. name, 1, true), why)
    end
    local result = sandbox.run(string.dump(function() end), "@x", { name = "x", find_module = print })
    assert.is_nil(result)
  end)

  it("has its own globals and its own libraries", function()
    run("x = 1; string.find = nil; table.insert = nil; math.floor = nil; os.time = nil; _G.y = 2")
    assert.is_nil(rawget(_G, "x"))
    assert.is_function(string.find)
    assert.is_function(table.insert)
    assert.is_function(math.floor)
    assert.is_true(run("return x == nil and string.find ~= nil and table.insert ~= nil and os.time ~= nil"))
  end)

  it("bounds what one call of C has to do", function()
    for _, case in ipairs {
      { "local t = {} for _ = 1, 40 do t = { t, t } end return select(2, moongate.json.encode(t))", "too much" },
      { "local s, t = ('x'):rep(4e6), {} for i = 1, 30 do t[i] = s end return select(2, moongate.json.encode(t))",
        "too much" },
      { "local s, t = ('x'):rep(4e6), {} for i = 1, 30 do t[i] = s end return select(2, pcall(table.concat, t))",
        "longer than 64 MB" },
      { "local t = {} t[1] = t return select(2, moongate.json.encode(t))", "could not encode" },
      { "return select(2, pcall(table.insert, {}, -2 ^ 31, 1))", "position -2147483648, accepted: 1 to 2147483647" },
      { "return select(2, pcall(table.insert, {}, 2 ^ 32 + 1, 1))", "position 4294967297" },
      { "return select(2, pcall(table.insert, {}, 0 / 0, 1))", "accepted: 1 to" },
      { "return select(2, pcall(os.date, ('%c'):rep(1000)))", "at most 1024" },
    } do
      assert.truthy(run(case[1]):find(case[2], 1, true), case[1])
    end
    assert.equal('{"a":[1,2,{"b":true}]}', run("return moongate.json.encode { a = { 1, 2, { b = true } } }"))
    assert.equal("a-2-c", run("return table.concat({ 'a', 2, 'c' }, '-')"))
    assert.equal("2c", run("return table.concat({ 'a', 2, 'c' }, '', 2, 3)"))
    assert.same({ 4, 1, 2, 3 }, run("local t = { 1, 2 } table.insert(t, 3) table.insert(t, 1, 4) return t"))
    assert.same({ false, "wrong number of arguments to 'insert'" },
      run("local ok, why = pcall(table.insert, {}, 1, 2, 3) return { ok, why }"))
    assert.is_true(run([[
      local t = {}
      for i = 1, 20000 do t[i] = i * 7919 % 20011 end
      table.sort(t)
      for i = 2, #t do if t[i - 1] > t[i] then return false end end
      return true]]))
  end)

  it("has an xpcall that hands over arguments, results and errors", function()
    assert.same({ true, 1, 2 }, run("return { xpcall(function(...) return ... end, error, 1, 2) }"))
    assert.same({ false, "x!" }, run([[
      return { xpcall(function() error("x", 0) end, function(why) return why .. "!" end) }]]))
    assert.is_false(run("return (xpcall(function() error('x') end, function() error('y') end))"))
  end)

  it("keeps the names of the gateway's own chunks to the gateway", function()
    local where = run([[return select(2, pcall(load("error('x')", "=(on_error: continue)")))]])
    assert.equal("(load):1: x", where)
  end)

  it("loads text with the sandbox's globals", function()
    assert.equal(7, run("z = 7 return load('return z')()"))
    assert.equal(8, run("return load(function() local t = part part = nil return t end, 'x', 't', { w = 8 }) == nil "
      .. "and 0 or load('return w', 'x', 'bt', { w = 8 })()"))
    assert.is_true(run("return load('return io')() == nil and load('return debug', 'x', 't')() == nil"))
  end)

  it("caps what one call of string.rep makes", function()
    local result, why = run("return ('x'):len() and string.rep('x', 1e9)")
    assert.is_nil(result)
    assert.truthy(why:find("test.lua:1: string.rep: the result would have 1000000000 bytes", 1, true), why)
    assert.equal("xxx", run("return string.rep('x', 3)"))
    assert.equal("", run("return string.rep('', 1e9 * 0)"))
  end)

  it("reports faults with file and line, whatever was raised", function()
    assert.same({ nil, "test.lua:2: boom" }, { run("\nerror('boom')") })
    assert.truthy(select(2, run("x = = 1")):find("^test.lua:1: "))
    assert.same({ nil, "test.lua: raised a table instead of a message" }, { run("error({})") })
  end)

  it("gives json that answers nil and why instead of raising", function()
    assert.equal('{"a":1}', run("return moongate.json.encode({ a = 1 })"))
    assert.equal(2, run("return moongate.json.decode('[1,2]')[2]"))
    assert.is_true(run("local v, why = moongate.json.decode('{') return v == nil and why:find('decode') ~= nil"))
    assert.is_true(run("local v, why = moongate.json.encode(print) return v == nil and why:find('encode') ~= nil"))
  end)

  it("logs and tells time through its host", function()
    local lines = {}
    local host = { log = function(level, text) lines[#lines + 1] = level .. " " .. text end,
      time = function() return 1.5 end, moongate = { sleep = function() return "slept" end } }
    assert.equal("1.5 slept", run([[
      moongate.log.warn("a")
      moongate.log("error", "b")
      print("c", nil, 1)
      return moongate.time() .. " " .. moongate.sleep()]], { host = host }))
    assert.same({ "warn test: a", "error test: b", "info test: c\tnil\t1" }, lines)
    local _, why = run("moongate.log('loud', 'x')", { host = host })
    assert.truthy(why:find("no level loud", 1, true), why)
  end)

  it("replaces functions of string by the host's", function()
    local host = { strings = { find = function() return "ours" end } }
    assert.equal("ours", run("return string.find('a', 'b')", { host = host }))
  end)

  it("requires each module once, inside the same sandbox", function()
    local loads = 0
    local options = { find_module = function(name)
      loads = loads + 1
      if name == "a" then return "count = (count or 0) + 1 return { n = count, io = io }", "@a.lua" end
      if name == "loop" then return "require 'loop'", "@loop.lua" end
      if name == "bad" then return "x = = 1", "@bad.lua" end
      return nil, "no module " .. name
    end }
    assert.is_true(run("local a = require 'a' return a == require 'a' and count == 1 and a.io == nil", options))
    assert.equal(1, loads)
    assert.truthy(select(2, run("require 'loop'", options)):find("module loop requires itself", 1, true))
    assert.truthy(select(2, run("require 'bad'", options)):find("bad.lua:1: ", 1, true))
    assert.truthy(select(2, run("\nrequire 'none'", options)):find("test.lua:2: no module none", 1, true))
    assert.is_true(run("return require('string') == string and require('bit').band(3, 1) == 1", options))
  end)

  it("has coroutines that cannot yield past their own", function()
    local own = "local c = coroutine.wrap(function() coroutine.yield(1) coroutine.yield(2) end) return c() + c()"
    assert.equal(3, run(own))
    local past = "return pcall(coroutine.yield, 'op') and 'escaped' or 'kept'"
    local body = coroutine.create(function() return run(past) end)
    local _, result = coroutine.resume(body)
    assert.equal("kept", result)
    assert.truthy(select(2, run("coroutine.yield(1)")):find("test.lua:1: yield outside of a coroutine", 1, true))
    assert.truthy(select(2, run("coroutine.wrap(function() error('x') end)()")):find("test.lua:1: x", 1, true))
  end)
end)


describe("sealing", function()
  -- What methods of strings are belongs to the whole VM, so this runs in a VM of its own.
  it("takes dump from the methods of strings, caps rep and hides their metatable", function()
    local script = os.tmpname()
    local file = assert(io.open(script, "w"))
    file:write([[
      require "spec.lua.support"
      local sandbox = require "moongate.sandbox"
      sandbox.seal({ strings = { find = function() return "ours" end } })
      local ok, why = sandbox.run([=[
        assert(getmetatable("") == false)
        assert(not pcall(setmetatable, "", {}))
        assert(("").dump == nil)
        assert(not pcall(function() return ("x"):rep(1e9) end))
        assert(("x"):find("y") == "ours")
        string.upper = function() return "changed" end
        assert(("x"):upper() == "X")
        return true
      ]=], "@t", { name = "t", find_module = print })
      print(ok, why)]])
    file:close()
    local pipe = assert(io.popen("LUA_PATH='./?.lua;;' luajit " .. script .. " 2>&1"))
    local output = pipe:read("*a")
    pipe:close()
    os.remove(script)
    assert.equal("true\tnil\n", output)
  end)
end)
