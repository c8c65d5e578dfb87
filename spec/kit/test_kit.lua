-- spec/kit/test_kit.lua - the kit that users test filters with; run by `moongate test`.
local kit = require "moongate.test"


describe("moongate.test", function()
  it("runs a built-in filter by name and shows both sides", function()
    local result = kit.run {
      filter = "AddRequestHeader", conf = { name = "X-A", value = "1" },
      request = "POST /p?q=1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
      response = "HTTP/1.1 201 Created\r\nX-B: 1\r\nX-B: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    }
    assert.equal("POST", result.upstream.method)
    assert.equal("/p?q=1", result.upstream.target)
    assert.equal("1", result.upstream:header("x-a"))
    assert.equal("hello", result.upstream.body)
    assert.equal(201, result.status)
    assert.same({ "1", "2" }, result.response:values("x-b"))
    assert.equal("abc", result.response.body)
  end)

  it("runs a filter that is a table, with its options, notes and logs", function()
    local filter = { api = 1, schema = { limit = { type = "integer", default = 3 } } }
    function filter.init(conf) return { twice = conf.limit * 2 } end
    function filter.request(req, conf, state)
      req:set_attribute("limit", conf.limit .. "/" .. state.twice)
      req:log("warn", "seen")
      if req:header("x-stop") then return req:respond(403, "no\n", { ["x-why"] = "stop" }) end
    end
    function filter.response(res) res:set_header("x-source", res:source()) end
    local through = kit.run { filter = filter }
    assert.equal(200, through.status)
    assert.equal("ok", through.response.body)
    assert.equal("upstream", through.response:header("X-Source"))
    assert.same({ limit = "3/6" }, through.attributes)
    assert.same({ { level = "warn", text = "seen" } }, through.logs)
    local stopped = kit.run { filter = filter, conf = { limit = 5 },
      request = "GET / HTTP/1.1\r\nHost: a\r\nX-Stop: 1\r\n\r\n" }
    assert.equal(403, stopped.status)
    assert.is_nil(stopped.upstream)
    assert.equal("no\n", stopped.response.body)
    assert.equal("stop", stopped.response:header("x-why"))
    assert.same({ limit = "5/10", ["gateway.shortcircuit.name"] = "filter-1" }, stopped.attributes)
  end)

  it("waits where the filter waits", function()
    local filter = { api = 1 }
    function filter.request(req) req:set_header("x-kept", "1") end
    local sleeper = "local f = { api = 1 } function f.request() moongate.sleep(0.05) end return f"
    local path = os.tmpname()
    os.remove(path)
    local lfs = require "lfs"
    local here = lfs.currentdir()
    lfs.mkdir(path)
    lfs.mkdir(path .. "/filters")
    local file = assert(io.open(path .. "/filters/sleeper.lua", "w"))
    file:write(sleeper)
    file:close()
    lfs.chdir(path)
    local ok, result = pcall(kit.run, { filters = { { filter = "sleeper" }, { filter = filter } } })
    lfs.chdir(here)
    os.remove(path .. "/filters/sleeper.lua")
    lfs.rmdir(path .. "/filters")
    lfs.rmdir(path)
    assert(ok, result)
    assert.equal("1", result.upstream:header("x-kept"))
  end)

  it("refuses wrong options as the gateway would, and unknown words", function()
    for _, case in ipairs {
      { { filter = "AddRequestHeader", conf = { nmae = "x" } }, "did you mean name?" },
      { { filter = "AddRequestHeadr" }, "did you mean AddRequestHeader or SetRequestHeader?" },
      { { filter = { api = 2, request = print } }, "this version has api = 1" },
      { { filter = { api = 1, reqest = print } }, "did you mean request?" },
      { { filtre = "x" }, "unknown option filtre" },
      { {}, "filter is a filter's name or its table" },
    } do
      local ok, why = pcall(kit.run, case[1])
      assert.is_false(ok)
      assert.truthy(tostring(why):find(case[2], 1, true), tostring(why))
    end
  end)

  it("says of wrong options what is wrong, not where in a file that nobody wrote", function()
    local ok, why = pcall(kit.run, { filter = "SetStatus", conf = { status = "high" } })
    assert.is_false(ok)
    assert.equal('moongate.test: filters[0].SetStatus.status: found "high", accepted: a whole number from 200 to 599',
      tostring(why))
  end)

  it("begins anew with what counts", function()
    local conf = { capacity = 1, refill_tokens = 1, refill_period = "1h" }
    for _ = 1, 3 do
      local session = kit.load { filter = "RateLimiter", conf = conf }
      assert.equal(200, session:run().status)
      assert.equal(429, session:run().status)
    end
  end)

  it("answers what a filter asks by moongate.http, and shows it", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(require("lfs").mkdir(folder))
    local file = assert(io.open(folder .. "/asks.lua", "w"))
    file:write([[
      local f = { api = 1, needs = { http = { "authz", "other" } } }
      function f.request(req)
        local answer = moongate.http("authz", { path = "/check?a=1", headers = { ["x-user"] = req:header("x-user") } })
        if answer.status ~= 200 then return req:respond(403, answer.body) end
        req:set_header("x-scope", answer.headers["x-scope"])
      end
      return f]])
    file:close()
    local function run(answer)
      return kit.run { filter = "asks", folder = folder, request = "GET / HTTP/1.1\r\nHost: a\r\nX-User: me\r\n\r\n",
        http = { authz = answer, other = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" } }
    end
    local passed = run "HTTP/1.1 200 OK\r\nX-Scope: all\r\nContent-Length: 2\r\n\r\nok"
    assert.equal("all", passed.upstream:header("x-scope"))
    assert.equal("/check?a=1", passed.http.authz.target)
    assert.equal("me", passed.http.authz:header("x-user"))
    assert.is_nil(passed.http.other)
    local refused = run "HTTP/1.1 401 No\r\n\r\nnot you"
    assert.equal(403, refused.status)
    assert.equal("not you", refused.response.body)
    assert.is_nil(refused.upstream)
    os.remove(folder .. "/asks.lua")
    require("lfs").rmdir(folder)
  end)

  it("shows what failures cost", function()
    local filter = { api = 1, request = function() error("broken") end }
    local failed = kit.run { filter = filter }
    assert.equal(500, failed.status)
    assert.is_nil(failed.upstream)
    assert.equal(200, kit.run({ filter = filter, on_error = "continue" }).status)
    assert.equal(500, kit.run({ filter = { api = 1, request = function() while true do end end } }).status)
    local refused = kit.run { filter = filter, request = "GET / HTTP/1.1\r\n\r\n" }
    assert.equal(400, refused.status)
  end)

  it("answers HEAD and bodies that end with the connection", function()
    local head = kit.run { filter = "SetStatus", conf = { status = 202 },
      request = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", response = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" }
    assert.equal(202, head.status)
    assert.equal("", head.response.body)
    local closed = kit.run { filter = "SetStatus", conf = { status = 202 }, response = "HTTP/1.1 200 OK\r\n\r\nall" }
    assert.equal("all", closed.response.body)
  end)
end)
