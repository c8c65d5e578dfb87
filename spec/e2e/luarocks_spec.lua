-- spec/e2e/luarocks_spec.lua - the gateway as a rock; a filter as a rock from a rocks server, which is a folder here.
-- Building the gateway takes minutes: only with MOONGATE_TEST_LUAROCKS=1, as `sh rockspec/setup test` sets it.
local lfs = require "lfs"
local helper = require "spec.helper"

local NO_LUAROCKS = "luarocks-5.1 is not installed: apt-get install luarocks"
local SAMPLE, SAMPLE_SPEC = "spec/rocks/moongate-filter-stamp", "moongate-filter-stamp-1.2.0-1.rockspec"
local executable = helper.process.absolute(os.getenv("MOONGATE") or "build/moongate")


describe("LuaRocks", function()
  local folder

  before_each(function()
    folder = helper.folder()
  end)

  after_each(helper.cleanup)

  --- Runs a program that must succeed.
  local function run(argv, options)
    options = options or {}
    options.env = options.env or { HOME = folder }
    local done = helper.execute(argv, options)
    assert.equal(0, done.code, table.concat(argv, " ") .. "\n" .. done.out .. done.err)
    return done.out
  end

  --- Packs the sample filter and puts it onto a server. @return the server's folder
  local function serve_sample()
    local server, maker = folder .. "/server", folder .. "/maker"
    helper.make_folder(server)
    run { "cp", "-r", SAMPLE, maker }
    run({ "luarocks-5.1", "make", SAMPLE_SPEC, "--tree", folder .. "/made" }, { cwd = maker })
    run({ "luarocks-5.1", "pack", "moongate-filter-stamp", "--tree", folder .. "/made" }, { cwd = server })
    run { "luarocks-admin-5.1", "make_manifest", "--lua-version", "5.1", server }
    return server
  end

  local function install_sample(tree)
    run { "luarocks-5.1", "install", "moongate-filter-stamp", "--only-server", serve_sample(), "--tree", tree }
  end

  local function stamped(port)
    return helper.route_to(port, "    filters: [ { stamp: { header: X-Asked } } ]\n")
  end

  it("brings a filter from a server, which is then named in YAML and nothing else", function()
    if not helper.process.find_program("luarocks-5.1") then return pending(NO_LUAROCKS) end
    local origin = helper.origin()
    local gateway = helper.gateway { routes = helper.route_to(origin.port), env = { HOME = folder } }
    assert.equal(200, gateway:get("/").status)
    install_sample(folder .. "/.luarocks") -- where `luarocks install --local` puts it
    gateway:write_routes(stamped(origin.port))
    local reloaded = gateway:control("reload")
    assert.equal(0, reloaded.code, reloaded.err)
    assert.equal("once", gateway:get("/"):header("x-asked"))
    assert.equal("twice", gateway:get("/"):header("x-asked"))
    local listed = run({ "./" .. "moongate", "filters", "stamp" }, { cwd = executable:match("^(.*)/") })
    assert.truthy(listed:find("stamp 1.2.0  " .. folder .. "/.luarocks/share/lua/5.1/moongate/filters/stamp.lua\n", 1,
      true), listed)
  end)

  it("finds filters in the tree that the executable is installed in", function()
    if not helper.process.find_program("luarocks-5.1") then return pending(NO_LUAROCKS) end
    local tree = folder .. "/tree"
    install_sample(tree)
    if not lfs.attributes(tree .. "/bin", "mode") then helper.make_folder(tree .. "/bin") end
    run { "cp", executable, tree .. "/bin/moongate" }
    helper.write(folder .. "/routes.yaml", stamped(9))
    local checked = run { tree .. "/bin/moongate", "check", "--routes", folder .. "/routes.yaml" }
    assert.truthy(checked:find("filters  stamp\n", 1, true), checked)
  end)

  it("builds and installs the gateway, and its demonstration runs from the tree", function()
    if not helper.process.find_program("luarocks-5.1") then return pending(NO_LUAROCKS) end
    if os.getenv("MOONGATE_TEST_LUAROCKS") ~= "1" then return pending("MOONGATE_TEST_LUAROCKS is not 1") end
    if helper.sanitized then return pending("builds the same thing whatever MOONGATE is") end
    local source, tree = folder .. "/source", folder .. "/tree"
    helper.make_folder(source)
    run { "cp", "-r", "CMakeLists.txt", "core", "journal", "lua", "filters", "bench", "rockspec", "README.md", source }
    run({ "luarocks-5.1", "make", "rockspec/moongate-dev-1.rockspec", "--tree", tree }, { cwd = source, seconds = 600 })
    for _, path in ipairs { "bin/moongate", "share/lua/5.1/moongate/handles.lua",
      "share/lua/5.1/moongate/filters/SetStatus.lua" } do
      assert.equal("file", lfs.attributes(tree .. "/" .. path, "mode"), path)
    end
    local demo = helper.spawn({ tree .. "/bin/moongate", "demo", "--port", "0" }, { env = { TMPDIR = folder } })
    local port = helper.eventually(function()
      return demo:output():find("Ctrl-C ends", 1, true) and demo:output():match("listening on 127%.0%.0%.1:(%d+)")
    end, 10, "the demonstration to be ready")
    local client = assert(helper.connect(tonumber(port)))
    assert.equal(200, client:get("/hello").status)
    client:close()
    demo:signal(helper.process.TERM)
    assert.equal(0, helper.eventually(function() return demo:poll() end, 10))
  end)
end)
