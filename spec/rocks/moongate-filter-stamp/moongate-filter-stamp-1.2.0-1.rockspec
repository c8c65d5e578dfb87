rockspec_format = "3.0"
package = "moongate-filter-stamp"
version = "1.2.0-1"

source = { url = "moongate-filter-stamp-1.2.0.tar.gz" }

description = { summary = "A filter for moongate that counts answers in words", license = "MIT" }

dependencies = { "lua == 5.1" }

build = {
  type = "builtin",
  modules = {
    ["moongate.filters.stamp"] = "stamp.lua",
    stamp_words = "stamp_words.lua",
  },
}
