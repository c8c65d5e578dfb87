-- units_spec.lua - durations, sizes and the nearest known word.
require "spec.lua.support"
local suggest = require "moongate.suggest"
local units = require "moongate.units"


describe("units", function()
  it("read durations with a mandatory unit", function()
    local expected = { ["1ms"] = 1, ["2s"] = 2000, ["3m"] = 180000, ["1h"] = 3600000, ["24d"] = 2073600000, ["0s"] = 0 }
    for text, value in pairs(expected) do assert.equal(value, units.duration(text), text) end
    for _, text in ipairs { "", "5", "s", "1.5s", "-1s", "1 s", "1S", "1week", "1e3s", "99999999999999999d" } do
      assert.is_nil(units.duration(text), text)
    end
  end)

  it("read sizes with an optional unit in any case", function()
    local expected = { ["0"] = 0, ["512"] = 512, ["1b"] = 1, ["2kb"] = 2048, ["3MB"] = 3145728, ["1Gb"] = 1073741824 }
    for text, value in pairs(expected) do assert.equal(value, units.size(text), text) end
    for _, text in ipairs { "", "kb", "1k", "1.5kb", "-1", "1 kb", "1tb", "0x10" } do
      assert.is_nil(units.size(text), text)
    end
  end)

  it("write both in the largest unit that is exact", function()
    assert.equal("30s", units.duration_text(30000))
    assert.equal("1500ms", units.duration_text(1500))
    assert.equal("0ms", units.duration_text(0))
    assert.equal("32kb", units.size_text(32768))
    assert.equal("100b", units.size_text(100))
  end)
end)


describe("the nearest known word", function()
  local WORDS = { "path", "prefix", "idle_timeout", "PathPrefix", "id" }

  it("is found past a typing error, swapped letters, case and separators", function()
    for found, meant in pairs { paht = "path", prefx = "prefix", idleTimeout = "idle_timeout", ["idle-timeout"] =
      "idle_timeout", PathPerfix = "PathPrefix", pathprefix = "PathPrefix" } do
      assert.equal(meant, suggest.nearest(found, WORDS), found)
    end
  end)

  it("is not invented", function()
    for _, found in ipairs { "upstream", "x", "", "timeout" } do
      assert.is_nil(suggest.nearest(found, WORDS), found)
    end
    assert.equal("", suggest.hint("upstream", WORDS))
    assert.equal(" (did you mean path?)", suggest.hint("paht", WORDS))
  end)
end)
