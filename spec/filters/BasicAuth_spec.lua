-- spec/filters/BasicAuth_spec.lua - users with bcrypt hashes; hashing happens while others are served.
local h = require "spec.helper"
local base64 = require("mime").b64
local now = require("socket").gettime

local HASHES = {
  secret = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
  ["pa:ss word"] = "$2y$05$abcdefghijklmnopqrstuuDvFYunEEkRAUw6hKd4mLN/wdxTQz.ki",
  slow = "$2a$11$abcdefghijklmnopqrstuunCeKINGCIR2HCghh6O3jDKZvMFq0Aja", -- a tenth of a second and more
}


local function filter(users, more)
  local list = {}
  for user, password in pairs(users) do list[#list + 1] = ("'%s:%s'"):format(user, HASHES[password]) end
  return ("{ BasicAuth: { users: [ %s ]%s } }"):format(table.concat(list, ", "), more or "")
end


local function routes(port, filters)
  return ([[
routes:
  - id: guarded
    match: [ { PathPrefix: { prefix: /guarded } } ]
    filters: [ %s ]
    upstream: { targets: [ { url: "http://127.0.0.1:%d" } ] }
  - id: free
    match: [ { PathPrefix: { prefix: / } } ]
    filters: [ { ReturnResponse: { status: 200, body: free } } ]
]]):format(filters, port)
end


local function as(user, password, scheme)
  return ("Authorization: %s %s\r\n"):format(scheme or "Basic", base64(user .. ":" .. password))
end


local function guarded(users, more, others)
  local origin = h.origin()
  local gw = h.gateway { routes = routes(origin.port, (others or "") .. filter(users, more)), workers = 2 }
  return gw, origin
end

describe("BasicAuth", function()
  after_each(h.cleanup)

  it("lets who has the password through and takes the header away; others get 401 and a challenge", function()
    local gw, origin = guarded({ ann = "secret", bob = "pa:ss word" })
    for _ = 1, 3 do
      assert.equal(200, gw:get("/guarded", as("ann", "secret")).status)
      assert.equal(200, gw:get("/guarded", as("bob", "pa:ss word", "bAsIc")).status)
    end
    for _, request in ipairs(origin.requests) do assert.is_nil(request:header("authorization")) end
    for _, headers in ipairs {
      "", as("ann", "Secret"), as("ann", ""), as("bob", "secret"), as("eve", "secret"), as("", "secret"),
      as("ann", "secret", "Bearer"), "Authorization: Basic\r\n", "Authorization: Basic ?\r\n",
      "Authorization: Basic " .. base64("ann") .. "\r\n", "Authorization: Basic " .. base64("ann:secret\0") .. "\r\n",
      as("ann", "secret") .. as("ann", "secret"), as("ann", ("x"):rep(600)),
    } do
      local refused = gw:get("/guarded", headers)
      assert.equal(401, refused.status, headers)
      assert.equal('Basic realm="Secure Area"', refused:header("www-authenticate"))
    end
    assert.equal(6, #origin.requests)
  end)

  it("forwards the credentials where it is told to, and never removes what another filter has set", function()
    local gw, origin = guarded({ ann = "secret" }, ", forward_credentials: true")
    assert.equal(200, gw:get("/guarded", as("ann", "secret")).status)
    assert.truthy(as("ann", "secret"):find(origin.requests[1]:header("authorization"), 1, true))
    local set = "{ SetRequestHeader: { name: Authorization, value: Bearer token } }"
    for _, order in ipairs { { others = set .. ", " }, { after = ", " .. set } } do
      local upstream = h.origin()
      local other = h.gateway {
        routes = routes(upstream.port, (order.others or "") .. filter { ann = "secret" } .. (order.after or "")),
      }
      assert.equal(200, other:get("/guarded", as("ann", "secret")).status)
      assert.equal("Bearer token", upstream.requests[1]:header("authorization"))
    end
  end)

  it("escapes its realm and names the user to later filters", function()
    local origin = h.origin()
    local gw = h.gateway {
      routes = routes(origin.port, filter({ ann = "secret" }, [[, realm: 'a "b" \c']]) .. ", who"),
      filters = { who = "return { api = 1, request = function(req) "
        .. "req:set_header('x-user', req:attribute('gateway.auth.basic.user')) end }" },
    }
    assert.equal([[Basic realm="a \"b\" \\c"]], gw:get("/guarded"):header("www-authenticate"))
    assert.equal(200, gw:get("/guarded", as("ann", "secret")).status)
    assert.equal("ann", origin.requests[1]:header("x-user"))
  end)

  it("puts a fingerprint of the user into the journal, never the name", function()
    local origin, folder = h.origin(), h.folder()
    local levels = "    journal: { request: { level: METADATA }, response: { level: METADATA } }\n"
    local text = routes(origin.port, filter { annabella = "secret" }):gsub("    upstream:", levels .. "%0", 1)
    local gw = h.gateway {
      routes = text, server = "storage: { compression: none }\n", args = { "--journal", folder .. "/journal" },
    }
    assert.equal(200, gw:get("/guarded", as("annabella", "secret")).status)
    assert.equal(0, gw:stop())
    local pipe = assert(io.popen(("cat '%s'/journal/*/* '%s'/journal/* 2>/dev/null"):format(folder, folder)))
    local bytes = pipe:read("*a")
    pipe:close()
    assert.truthy(bytes:find("gateway.auth.basic.user", 1, true))
    assert.truthy(bytes:find("fp:", 1, true))
    assert.is_nil(bytes:find("annabella", 1, true))
  end)

  it("serves others while it hashes, and remembers what was right", function()
    local gw = guarded({ ann = "slow" })
    local first = gw:connect()
    first:send("GET /guarded HTTP/1.1\r\nHost: a\r\n" .. as("ann", "slow") .. "\r\n")
    local began = now()
    for _ = 1, 10 do assert.equal(200, gw:get("/").status) end
    local others_took = now() - began
    assert.equal(200, first:response().status)
    local all_took = now() - began
    assert.is_true(others_took < all_took, ("%f, %f"):format(others_took, all_took))
    for _ = 1, 6 do gw:get("/guarded", as("ann", "slow")) end -- now both workers know
    began = now()
    for _ = 1, 10 do assert.equal(200, gw:get("/guarded", as("ann", "slow")).status) end
    assert.is_true(now() - began < all_took, "ten remembered ones take less than one that is hashed")
  end)

  it("answers 503 when too many come at once, and goes on", function()
    local gw = guarded({ ann = "slow" })
    local clients = {}
    for i = 1, 24 do
      clients[i] = gw:connect()
      clients[i]:send("GET /guarded HTTP/1.1\r\nHost: a\r\n" .. as("ann", "wrong" .. i) .. "\r\n")
    end
    local counts = {}
    for _, client in ipairs(clients) do
      local answer = client:response()
      counts[answer.status] = (counts[answer.status] or 0) + 1
      if answer.status == 503 then assert.equal("1", answer:header("retry-after")) end
    end
    assert.equal(24, (counts[401] or 0) + (counts[503] or 0))
    assert.is_true((counts[503] or 0) > 0 and (counts[401] or 0) > 0)
    assert.equal(200, gw:get("/guarded", as("ann", "slow")).status)
  end)

  it("survives clients that leave and reloads that come while it hashes", function()
    local gw, origin = guarded({ ann = "slow" })
    local staying = {}
    for i = 1, 12 do
      local client = gw:connect()
      client:send("GET /guarded HTTP/1.1\r\nHost: a\r\n" .. as("ann", i % 2 == 0 and "slow" or "x") .. "\r\n")
      if i % 3 == 0 then client:reset() elseif i % 3 == 1 then staying[#staying + 1] = client else client:close() end
    end
    gw:write_routes(routes(origin.port, filter { ann = "secret" }))
    assert.equal(0, gw:control("reload").code)
    for _, client in ipairs(staying) do
      local answer = client:response()
      assert.truthy(({ [200] = true, [401] = true, [503] = true })[answer.status])
    end
    h.eventually(function() return gw:get("/guarded", as("ann", "slow")).status == 401 end, 5)
    assert.equal(200, gw:get("/guarded", as("ann", "secret")).status)
  end)

  it("finishes what it hashes when told to stop, and ends when told twice", function()
    for times = 1, 2 do
      local gw = guarded({ ann = "slow" })
      local clients = {}
      for i = 1, 6 do
        clients[i] = gw:connect()
        clients[i]:send("GET /guarded HTTP/1.1\r\nHost: a\r\n" .. as("ann", "slow") .. "\r\n")
      end
      h.sleep(0.05)
      gw.may_end = true
      gw.child:signal(h.process.TERM)
      if times == 1 then
        for _, client in ipairs(clients) do
          local answer = client:response()
          assert.truthy(({ [200] = true, [503] = true })[answer.status])
        end
        assert.equal(0, h.eventually(function() return gw.child:poll() end, 10, "the drain to end"))
      else
        h.sleep(0.02)
        gw.child:signal(h.process.TERM)
        h.eventually(function() return gw.child:poll() end, 5, "the second signal to end it")
      end
      assert.is_nil(gw:log():find("Sanitizer", 1, true))
    end
  end)

  it("refuses options that are wrong, with their place and without their secrets", function()
    local good = "ann:" .. HASHES.secret
    for users, why in pairs {
      ["[ 'ann' ]"] = "users[0] is not user:hash",
      ["[ 'ann:secretword' ]"] = "users[0] is not user:hash with a hash of bcrypt",
      ["[ 'ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=' ]"] = "users[0] is not of bcrypt",
      ["[ 'ann:$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00' ]"] = "users[0] is not of bcrypt",
      ["[ '" .. good .. "', 'ann:" .. HASHES.slow .. "' ]"] = "users[1] names a user for the second time",
      ["[ 'ann:$2b$03$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW' ]"] = "cost outside of 4 to 31",
      ["[ '" .. good:sub(1, -2) .. "' ]"] = "cut short",
      ["[]"] = "users",
      ["[ '" .. good .. "' ], realm: \"a\\u0007\""] = "realm",
    } do
      local folder = h.folder()
      h.write(folder .. "/routes.yaml", routes(1, "{ BasicAuth: { users: " .. users .. " } }"))
      local checked = h.moongate { "check", "--routes", folder .. "/routes.yaml" }
      assert.equal(1, checked.code, users)
      assert.truthy(checked.err:find(why, 1, true), checked.err)
      assert.truthy(checked.err:find("routes.yaml:4:", 1, true), checked.err)
      assert.is_nil(checked.err:find("secretword", 1, true))
      assert.is_nil(checked.err:find("2r9Of", 1, true))
    end
  end)
end)
