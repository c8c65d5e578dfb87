-- spec/kit/jit.lua - the built-in header filters in steady state: no trace starts or is aborted, nothing is allocated.
-- Real exchanges through a real gateway, whose filters run in this very state; run by `moongate test`.
local funcinfo = require("jit.util").funcinfo
local kit = require "moongate.test"

-- Busted looks up globals through functions of its own, which may be compiled at any time.
local attach, collectgarbage, run, tostring = jit.attach, collectgarbage, moongate_kit.run, tostring
local WARM, COUNTED = 2000, 10000
local GARBAGE_MAX = 512 -- bytes in all: of the two messages that a run returns, which may differ in length


-- Runs the chain warm, then counts what LuaJIT does. @return trace events by kind, bytes allocated
local function measure(options)
  options.bare = true
  options.request = options.request
    or "GET /a/b?x=1&y=2 HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\nX-Old: 1\r\nCookie: a=1; b=2\r\nX-Req: yes\r\n\r\n"
  options.response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: x\r\nCache-Control: no-store\r\n\r\nok"
  local session = kit.load(options)
  assert(session:run(WARM).status)
  local events = { start = 0, stop = 0, abort = 0, flush = 0, where = "" }
  local function on_trace(what, _, func)
    events[what] = (events[what] or 0) + 1
    if what == "start" then events.where = events.where .. " " .. tostring(funcinfo(func).loc) end
  end
  local function bytes_of(count)
    collectgarbage()
    collectgarbage()
    collectgarbage("stop")
    local before = collectgarbage("count")
    run(session.request, session.response, count, true)
    local after = collectgarbage("count")
    collectgarbage("restart")
    return (after - before) * 1024
  end
  jit.off(bytes_of)
  jit.off(on_trace)
  local once = bytes_of(1)
  attach(on_trace, "trace")
  local many = bytes_of(COUNTED)
  attach(on_trace)
  return events, many - once
end


local FIVE = {
  { filter = "AddRequestHeader", conf = { name = "X-Added", value = "1" } },
  { filter = "SetRequestHeader", conf = { name = "X-Set", value = "1" } },
  { filter = "RemoveRequestHeader", conf = { name = "X-Old" } },
  { filter = "SetResponseHeader", conf = { name = "X-Served-By", value = "moongate" } },
  { filter = "RemoveResponseHeader", conf = { name = "Server" } },
}

-- Every filter that only looks at heads and edits them, with options for which it does its work.
local ALL = {
  { filter = "AddRequestHeader", conf = { name = "X-A", value = "1" } },
  { filter = "AddResponseHeader", conf = { name = "X-A", value = "1" } },
  { filter = "SetRequestHeader", conf = { name = "X-A", value = "1" } },
  { filter = "SetResponseHeader", conf = { name = "X-A", value = "1" } },
  { filter = "RemoveRequestHeader", conf = { name = "X-Old" } },
  { filter = "RemoveResponseHeader", conf = { name = "Server" } },
  { filter = "AddCorrelationId", conf = {} },
  { filter = "StripPathPrefix", conf = { parts = 1 } },
  { filter = "SetStatus", conf = { status = 201 } },
  { filter = "AddQueryParameter", conf = { name = "z", value = "3" } },
  { filter = "SetQueryParameter", conf = { name = "x", value = "3" } },
  { filter = "RemoveQueryParameter", conf = { name = "x" } },
  { filter = "RemoveRequestCookie", conf = { name = "a" } },
  { filter = "SetRequestCookie", conf = { name = "a", value = "2" } },
  { filter = "SetResponseCookie", conf = { name = "a", value = "2" } },
  { filter = "RemoveCacheHeaders", conf = {} },
  { filter = "RequireRequestHeader", conf = { name = "X-Req" } },
  { filter = "RequireQueryParameter", conf = { name = "x" } },
  { filter = "RequireCookie", conf = { name = "a" } },
}


local function check_steady(options, what)
  local events, bytes = measure(options)
  local text = ("%s: %d traces started (%s), %d aborted, %d flushes, %.0f bytes allocated in %d exchanges"):format(
    what, events.start, events.where, events.abort, events.flush, bytes, COUNTED)
  assert(events.start == 0 and events.abort == 0 and events.flush == 0, text)
  assert(bytes <= GARBAGE_MAX, text)
end


describe("in steady state", function()
  it("five header filters compile once and leave no garbage", function()
    check_steady({ filters = FIVE }, "five header filters")
  end)

  for first = 1, #ALL, 10 do
    local chain, names = {}, {}
    for i = first, math.min(first + 9, #ALL) do chain[#chain + 1], names[#names + 1] = ALL[i], ALL[i].filter end
    names = table.concat(names, ", ")
    it("so does a chain of " .. names, function() check_steady({ filters = chain }, names) end)
  end

  it("a filter that makes strings is told from one that does not", function()
    local n, filter = 0, { api = 1 }
    function filter.request(req)
      n = n + 1
      req:set_header("x-n", "number " .. n)
    end
    local _, bytes = measure { filters = { { filter = filter } } }
    assert.truthy(bytes > 10 * COUNTED, bytes)
  end)

  it("a filter that cannot be compiled is told from one that can", function()
    local filter = { api = 1 }
    function filter.request(req)
      local f = function() return req end -- a closure for each request
      return f() and nil
    end
    local events, bytes = measure { filters = { { filter = filter } } }
    assert.truthy(events.abort > 0 or bytes > 10 * COUNTED)
  end)
end)
