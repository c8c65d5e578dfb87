-- spec/e2e/everything_spec.lua - a routes file with every predicate and every filter is accepted by the executable, and
-- what it says is what a gateway does.
local h = require "spec.helper"

local FILE = "spec/lua/fixtures/everything.yaml"

-- { request line and header lines, status, body or location }
local ROWS = {
  { "GET /literal HTTP/1.1\r\nHost: a.example.com\r\nX-Key: one\r\nX-Other: 1\r\n", 200, "literals\n" },
  { "PUT /literal HTTP/1.1\r\nHost: example.com\r\nX-Key: one\r\nX-Other: 1\r\n", 404 },
  { "GET /items/12 HTTP/1.1\r\nHost: a\r\nCookie: version=v2\r\n", 200, "expressions\n" },
  { "GET /items/12?version=v3 HTTP/1.1\r\nHost: a\r\n", 404 },
  { "GET /values?debug=on&flag HTTP/1.1\r\nHost: a\r\nCookie: session=abc; theme=dark\r\n", 200, "values\n" },
  { "GET /values?debug=on HTTP/1.1\r\nHost: a\r\nCookie: session=abc; theme=dark\r\n", 404 },
  { "GET /old/a%20b HTTP/1.1\r\nHost: a\r\n", 301, "https://new.example/a%20b" },
  { "GET /guarded?key=abc HTTP/1.1\r\nHost: a\r\nX-Key: abc\r\nCookie: key=abc\r\n", 401 },
  { "GET /guarded?key=abc HTTP/1.1\r\nHost: a\r\nX-Key: 1\r\nCookie: key=abc\r\n", 403 },
  { "GET /edited/v1 HTTP/1.1\r\nHost: a\r\n", 201 },
  { "OPTIONS /shared HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n", 204 },
}


describe("the file with everything", function()
  after_each(h.cleanup)

  it("passes moongate check, without a warning", function()
    local result = h.moongate { "check", "--routes", FILE }
    assert.equal(0, result.code, result.err)
    assert.equal("", result.err)
  end)

  it("does what it says", function()
    local gateway = h.gateway { routes = h.process.read_file(FILE) }
    for _, row in ipairs(ROWS) do
      local response = gateway:raw(row[1] .. "\r\n")
      assert.equal(row[2], response.status, row[1])
      if row[3] then assert.equal(row[3], response:header("location") or response.body) end
      assert.equal(row[2] ~= 404, response:header("x-correlation-id") ~= nil, row[1])
    end
  end)
end)
