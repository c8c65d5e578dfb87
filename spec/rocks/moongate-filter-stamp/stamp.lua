--- stamp: says on every answer how often it has been asked, in words of a module of its own.
local words = require "stamp_words"

local stamp = { api = 1, version = "1.2.0" }

stamp.schema = {
  header = { type = "header_name", default = "X-Stamp", description = "where it says so" },
}


function stamp.init()
  return { count = 0 }
end


function stamp.response(res, conf, state)
  state.count = state.count + 1
  res:set_header(conf.header, words.times(state.count))
end


return stamp
