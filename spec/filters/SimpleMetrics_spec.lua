-- spec/filters/SimpleMetrics_spec.lua - a name that routes files of other gateways have.
local h = require "spec.helper"


describe("SimpleMetrics", function()
  after_each(h.cleanup)

  it("is accepted with its options and changes nothing", function()
    local gateway = h.gateway { routes = "global_filters: [ SimpleMetrics: { period: 2m, interval: 1s } ]\n"
      .. h.route_to(h.origin().port, "    filters: [ SimpleMetrics ]\n") }
    assert.equal("hello\n", gateway:get("/").body)
  end)
end)
