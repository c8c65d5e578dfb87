-- metrics_tailers_spec.lua - tailers as the management port shows them: how far they are, and that one is missed.
local cjson = require "cjson"
local h = require "spec.helper"


local function sample(gateway, name, tailer)
  return tonumber(gateway:manage("/metrics").body:match(
    ("\n%s{tailer=\"%s\"} (%%S+)\n"):format(name, (tailer:gsub("%p", "%%%0")))))
end


local function problems(gateway)
  local found = {}
  for _, problem in ipairs(cjson.decode(gateway:manage("/health").body).problems) do
    if problem.component == "tailer" then found[#found + 1] = problem.detail end
  end
  return found
end


-- A gateway that is told of one tailer, whose folder is given.
local function start(folder)
  return h.gateway {
    routes = h.route_to(h.origin().port, "    journal: { request: { level: METADATA } }\n"),
    server = ("management: { tailers: [ %q ] }\n"):format(folder), args = { "--journal", folder .. "/journal" },
  }
end


local function report(age, stalled)
  return cjson.encode {
    pid = 1, time_us = (os.time() - age) * 1e6, lag_entries = 42, lag_seconds = 1.5, delivered_total = 7,
    stalled = stalled or cjson.null,
  }
end


-- { what, the file's text or nil, words of the problem or nil }
local CASES = {
  { "without its file", nil, "its status cannot be read: No such file or directory" },
  { "whose file is something else", '{"a": "lag_entries"}', "its status file is not one of moongate tail" },
  { "whose file has impossible numbers", '{"time_us":1e999,"lag_entries":-1,"lag_seconds":0,"delivered_total":0}',
    "its status file is not one of moongate tail" },
  { "that has fallen silent", report(600), "has said nothing for 6%d%d seconds" },
  { "that stands still", report(0, "the output refuses"), "stands still: the output refuses" },
  { "that is well", report(0), nil },
}


describe("a tailer", function()
  after_each(h.cleanup)

  for _, row in ipairs(CASES) do
    it(row[1] .. (row[3] and " is a warning" or " is none"), function()
      local folder = h.folder()
      if row[2] then h.write(folder .. "/status.json", row[2]) end
      local gateway = start(folder)
      local found = problems(gateway)
      assert.equal(row[3] and 1 or 0, #found)
      if row[3] then assert.truthy(found[1]:find(row[3]), found[1]) end
      assert.equal(row[3] and 0 or 1, sample(gateway, "moongate_tailer_up", folder))
    end)
  end

  it("is shown with its lag and what it has delivered", function()
    local folder = h.folder()
    h.write(folder .. "/status.json", report(0))
    local gateway = start(folder)
    assert.equal(42, sample(gateway, "moongate_tailer_lag_entries", folder))
    assert.equal(1.5, sample(gateway, "moongate_tailer_lag_seconds", folder))
    assert.equal(7, sample(gateway, "moongate_tailer_delivered_total", folder))
    local tailer = cjson.decode(gateway:manage("/status.json").body).journal.tailers[1]
    assert.same({ name = folder, lag_entries = 42, lag_seconds = 1.5, delivered = 7 }, tailer)
  end)

  it("that runs is followed", function()
    local folder = h.folder()
    local gateway = start(folder)
    h.make_folder(folder .. "/at")
    for _ = 1, 5 do gateway:get("/") end
    local executable = h.process.absolute(os.getenv("MOONGATE") or "build/moongate")
    h.spawn({ executable, "tail", folder .. "/journal", "--follow", "--from", "start", "--checkpoint", folder .. "/at",
      "--output", folder .. "/out", "--status-file", folder .. "/status.json" }, { name = "tail" })
    h.eventually(function() return sample(gateway, "moongate_tailer_delivered_total", folder) == 5 end, 10,
      "all five to be delivered")
    h.eventually(function() return sample(gateway, "moongate_tailer_lag_entries", folder) == 0 end, 5, "no lag")
    assert.same({}, problems(gateway))
  end)

  it("cannot be a pipe that holds the master up", function()
    local folder = h.folder()
    h.execute { "mkfifo", folder .. "/status.json" }
    local gateway = start(folder)
    assert.truthy(problems(gateway)[1]:find("its status cannot be read"))
    assert.equal(200, gateway:manage("/health", { seconds = 2 }).status)
  end)
end)
