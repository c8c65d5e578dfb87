-- dashboard_spec.lua - the page of the management port: whole in itself, allowed by its own policy, true in a browser.
local h = require "spec.helper"

local CHROMIUM = { "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
  "--virtual-time-budget=9000", "--dump-dom" }


-- The page as a browser shows it after some rounds, and what it wrote to its console; nil without a browser.
local function browse(gateway)
  if os.execute("command -v chromium >/dev/null 2>&1") ~= 0 then return nil end
  local argv = { unpack(CHROMIUM) }
  argv[#argv + 1] = "--user-data-dir=" .. h.folder()
  argv[#argv + 1] = ("http://127.0.0.1:%d/"):format(gateway:management_port())
  local shown = h.execute(argv, { seconds = 60 })
  assert.equal(0, shown.code, shown.err)
  return shown.out, shown.err:match("CONSOLE[^\n]*")
end


describe("the dashboard", function()
  after_each(h.cleanup)

  it("needs nothing from elsewhere and puts no text into markup", function()
    local page = h.gateway(h.origin().port):manage("/").body
    for _, attribute in ipairs { "src", "href", "action" } do
      for value in page:gmatch("%s" .. attribute .. '="([^"]*)"') do assert.truthy(value:find("^data:"), value) end
    end
    for _, word in ipairs { "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "@import",
      "url(", " style=", " onclick=" } do
      assert.is_nil(page:find(word, 1, true), word)
    end
    assert.truthy(page:find('<html lang="en">', 1, true))
    assert.truthy(page:find('name="viewport"', 1, true))
  end)

  it("has its one script and its one style named by hash in the policy", function()
    local response = h.gateway(h.origin().port):manage("/")
    local policy, file = response:header("content-security-policy"), h.folder() .. "/part"
    for _, part in ipairs { "script", "style" } do
      local text, rest = response.body:match("<" .. part .. ">(.-)</" .. part .. ">(.*)")
      assert.is_nil(rest:find("<" .. part, 1, true))
      h.write(file, text)
      local hash = h.execute({ "sh", "-c", "openssl dgst -sha256 -binary " .. file .. " | base64" }).out:match("%S+")
      assert.truthy(policy:find(("%s-src 'sha256-%s'"):format(part, hash), 1, true), part)
    end
  end)

  it("shows routes, problems and the reason of a refused reload without a complaint", function()
    local gateway = h.gateway { routes = h.route_to(h.origin().port):gsub("id: all", 'id: "<b>all</b>"') }
    gateway:get("/")
    gateway:write_routes("routes: 7\n")
    gateway:control("reload")
    local page, complaint = browse(gateway)
    if not page then return pending("chromium is not installed") end
    assert.is_nil(complaint)
    for _, text in ipairs { "▲ WARN", "&lt;b&gt;all&lt;/b&gt;", "path begins with /", "▲ the last reload was refused",
      "routes: found", "✔ serving", "Recorded exchanges" } do
      assert.truthy(page:find(text, 1, true), text)
    end
    assert.truthy(page:find('aria-label="Requests per second: 2xx', 1, true))
    assert.truthy(page:find('<path class="s2"', 1, true))
  end)
end)
