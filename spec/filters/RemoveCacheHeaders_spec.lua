-- spec/filters/RemoveCacheHeaders_spec.lua - no conditions and no caches on the way upstream.
local h = require "spec.helper"



describe("RemoveCacheHeaders", function()
  after_each(h.cleanup)

  it("asks the upstream for the whole answer", function()
    local origin = h.origin(h.answer(200, "x", { "Cache-Control: max-age=60" }))
    local gateway = h.gateway { routes = h.route_to(origin.port, "    filters: [ RemoveCacheHeaders ]\n") }
    local response = gateway:get("/", "If-None-Match: \"a\"\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
      .. "Cache-Control: max-stale\r\nIf-Match: \"b\"\r\n")
    local request = origin.requests[1]
    assert.same({}, request:values("if-none-match"))
    assert.same({}, request:values("if-modified-since"))
    assert.same({ '"b"' }, request:values("if-match"))
    assert.same({ "no-cache" }, request:values("cache-control"))
    assert.same({ "no-cache" }, request:values("pragma"))
    assert.same({ "max-age=60" }, response:values("cache-control"))
  end)
end)
