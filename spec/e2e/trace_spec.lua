-- trace_spec.lua - traceparent (W3C Trace Context): passed on, made, made anew, taken out; its ids in logs and journal.
local cjson = require "cjson"
local helper = require "spec.helper"
local process = helper.process

local ID, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
local VALID = "00-" .. ID .. "-" .. PARENT .. "-01"
local SHAPE = "^00%-(%x+)%-(%x+)%-(%x%x)$"

-- What clients send; whether level 1 calls it valid.
local SENT = {
  { "nothing", "", false },
  { "a valid one", "traceparent: " .. VALID .. "\r\ntracestate: a=1,b=2\r\n", true },
  { "one with flags that are not known", "Traceparent: 00-" .. ID .. "-" .. PARENT .. "-ff\r\n", true },
  { "one of a version to come", "traceparent: cc-" .. ID .. "-" .. PARENT .. "-01-more\r\n", true },
  { "version ff", "traceparent: ff-" .. ID .. "-" .. PARENT .. "-01\r\ntracestate: a=1\r\n", false },
  { "capitals", "traceparent: " .. VALID:upper() .. "\r\n", false },
  { "an id of zeros", "traceparent: 00-" .. ("0"):rep(32) .. "-" .. PARENT .. "-01\r\ntracestate: a=1\r\n", false },
  { "two of them", ("traceparent: " .. VALID .. "\r\n"):rep(2), false },
  { "nonsense", "traceparent: yes please\r\n", false },
  { "an empty one", "traceparent:\r\n", false },
}


local function gateway_with(tracing, more)
  local origin = helper.origin()
  local gateway = helper.gateway { routes = origin.port, server = "tracing: " .. tracing .. "\n" .. (more or "") }
  return gateway, origin
end


-- All values of that name: of a request, or in the lines that a client is to send.
local function values(request, name)
  local found = {}
  for _, header in ipairs(request.headers) do
    if header[1]:lower() == name then found[#found + 1] = header[2] end
  end
  return table.concat(found, "|")
end


local function sent(text, name)
  local headers = {}
  for key, value in text:gmatch("([^:\r\n]+):[ ]*(.-)\r\n") do headers[#headers + 1] = { key, value } end
  return values({ headers = headers }, name)
end


after_each(helper.cleanup)


describe("tracing.traceparent", function()
  it("pass leaves whatever comes as it is", function()
    local gateway, origin = gateway_with("{}")
    for i, case in ipairs(SENT) do
      gateway:get("/", case[2])
      for _, name in ipairs { "traceparent", "tracestate" } do
        assert.equal(sent(case[2], name), values(origin.requests[i], name), case[1])
      end
    end
  end)

  it("create keeps a valid one with its state, and makes one for what is not", function()
    local gateway, origin = gateway_with("{ traceparent: create }")
    local seen = {}
    for i, case in ipairs(SENT) do
      gateway:get("/", case[2])
      local value = values(origin.requests[i], "traceparent")
      if case[3] then
        assert.equal(sent(case[2], "traceparent"), value, case[1])
        assert.equal(sent(case[2], "tracestate"), values(origin.requests[i], "tracestate"), case[1])
      else
        local id, parent, flags = value:match(SHAPE)
        assert.is_true(id and #id == 32 and #parent == 16 and flags == "01", case[1] .. ": " .. value)
        assert.is_nil(seen[id])
        seen[id] = true
        assert.equal("", values(origin.requests[i], "tracestate"), case[1])
      end
    end
  end)

  it("restart makes a new one always, sampled or not", function()
    local gateway, origin = gateway_with("{ traceparent: restart, sampled: false }")
    for i, case in ipairs(SENT) do
      gateway:get("/", case[2])
      local id, _, flags = values(origin.requests[i], "traceparent"):match(SHAPE)
      assert.is_true(id ~= ID and flags == "00", case[1])
      assert.equal("", values(origin.requests[i], "tracestate"), case[1])
    end
  end)

  it("remove takes both headers out", function()
    local gateway, origin = gateway_with("{ traceparent: remove }")
    for i, case in ipairs(SENT) do
      gateway:get("/", case[2])
      assert.equal("", values(origin.requests[i], "traceparent") .. values(origin.requests[i], "tracestate"), case[1])
    end
  end)

  it("leaves the last word to filters", function()
    local origin = helper.origin()
    local gateway = helper.gateway {
      routes = helper.route_to(origin.port, [[
    filters: [ { SetRequestHeader: { name: traceparent, value: mine } } ]
]]),
      server = "tracing: { traceparent: create }\n",
    }
    gateway:get("/")
    assert.equal("mine", values(origin.requests[1], "traceparent"))
  end)

  it("refuses words that are none", function()
    local folder = helper.folder()
    helper.write(folder .. "/routes.yaml", helper.route_to(1))
    helper.write(folder .. "/server.yaml", "tracing: { traceparent: creat }\n")
    local result = helper.moongate({ "check", "--routes", "routes.yaml", "--server", "server.yaml" }, { cwd = folder })
    assert.equal(1, result.code)
    assert.matches("tracing.traceparent: .*create", result.err)
  end)
end)


describe("the ids of a trace", function()
  it("stand in the access log, the process log and the journal", function()
    local origin = helper.origin()
    local folder = helper.folder()
    local gateway = helper.gateway {
      routes = helper.route_to(origin.port, [[
    filters: [ tell ]
    journal: { request: { level: METADATA }, response: { level: METADATA } }
]]),
      filters = { tell = [[
return { api = 1, version = "1.0.0", request = function(req) req:log("warn", "told") error("broken") end }
]] },
      server = ("access_log: { format: json, file: %s/access }\ntracing: { traceparent: create }\n"):format(folder)
        .. "log: { format: json }\n",
      args = { "--journal", folder .. "/journal" },
    }
    gateway:get("/a", "traceparent: " .. VALID .. "\r\n")
    gateway:get("/b")
    local lines = helper.eventually(function()
      local found = {}
      for line in process.read_file(folder .. "/access"):gmatch("[^\n]+") do found[#found + 1] = cjson.decode(line) end
      return #found == 2 and found
    end, 5, "two lines")
    assert.equal(ID, lines[1].trace_id)
    assert.equal(PARENT, lines[1].parent_id)
    assert.equal(32, #lines[2].trace_id)
    assert.are_not.equal(ID, lines[2].trace_id)
    local told, failed = 0, 0
    for text in gateway:log():gmatch("[^\n]+") do
      local line = cjson.decode(text)
      for i = 1, 2 do
        if line.exchange == lines[i].id then
          assert.equal(lines[i].trace_id, line.trace)
          if line.message == "told" then told = told + 1 end
          if line.message:find("filter 1 (tell) of route all failed: ", 1, true) then failed = failed + 1 end
        end
      end
    end
    assert.same({ 2, 2 }, { told, failed })
    assert.equal(0, gateway:stop())
    local recorded = {}
    for line in helper.moongate({ "journal", "cat", folder .. "/journal" }).out:gmatch("[^\n]+") do
      local exchange = cjson.decode(line)
      recorded[exchange.id] = exchange.attributes["gateway.trace.id"]
    end
    for i = 1, 2 do assert.equal(lines[i].trace_id, recorded[lines[i].id]) end
  end)

  it("end a combined line where they are asked for", function()
    local folder = helper.folder()
    local access = "access_log: { format: combined, ids: true, file: %s/access }\n"
    local gateway = gateway_with("{}", access:format(folder))
    gateway:get("/", "traceparent: " .. VALID .. "\r\n")
    gateway:get("/")
    local text = helper.eventually(function()
      local found = process.read_file(folder .. "/access")
      return select(2, found:gsub("\n", "")) == 2 and found
    end, 5, "two lines")
    assert.matches('" id=%w+ trace=' .. ID .. "\n", text)
    assert.matches('" id=%w+ trace=%-\n', text)
  end)
end)
