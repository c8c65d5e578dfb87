--- server_conf.lua - what may stand in server.yaml, as a flat map of settings.
--
-- Owns: sections, keys, bounds and defaults. The keys that the data path reads are those of core/settings.h, whose
-- defaults these must equal (spec/lua/server_conf_spec.lua compares them).
-- Pure.

local network = require "moongate.network"
local schema = require "moongate.schema"
local tree = require "moongate.tree"
local units = require "moongate.units"

local server_conf = {}

local KEY_CHARACTERS_MIN = 32
local TOKEN_CHARACTERS_MIN = 16
local SEGMENT_BLOCK = 32 * 1024
local DAYS_24 = "24d"


local function duration(default, min)
  return { type = "duration", min = min or "1ms", max = DAYS_24, default = default }
end


local function optional_duration(default)
  return { type = "duration", max = DAYS_24, default = default, none = true }
end


local function count(default, min, max)
  return { type = "integer", min = min or 1, max = max, default = default }
end


local function size(default, min, max)
  return { type = "size", min = min, max = max, default = default }
end


local function port(default)
  return count(default, 1, 65535)
end


local function flag(default)
  return { type = "boolean", default = default }
end


local function host(default)
  local pattern = "^[%w%-_%.:%[%]]+$"
  return { type = "string", max = 255, pattern = pattern, accepted = "a host name or address", default = default }
end


local function refuse_http2(value)
  if value then return nil, "http.enable_http2: true is not supported yet; accepted: false" end
  return value
end


local TOKEN = { type = "string", pattern = "^[%w!#$%%&'*+%-.^_`|~]+$", accepted = "a header name" }
local HEADER_NAMES = { type = "array", items = TOKEN, default = {} }


local function check_parameter(value)
  if not value:find("%%%x%x") then return value end
  local decoded = value:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  return nil, ('names are compared decoded; accepted: "%s"'):format(decoded)
end


local function check_security(value, context, node, path)
  for _, side in ipairs { "request", "response" } do
    local replaced, added = "safe_" .. side .. "_headers", "additional_safe_" .. side .. "_headers"
    if #(value[replaced] or {}) > 0 and #(value[added] or {}) > 0 then
      context.faults:add(node, path, ("%s and %s exclude each other; accepted: one of them"):format(replaced, added))
    end
  end
  return value
end


--- A worker that runs one call for so long gives no sign of life, and would be replaced before the call is ended.
local function check_scripts(value, context, node, path)
  local call, stuck = value.max_call_time, value.stuck_after
  if type(call) ~= "number" or type(stuck) ~= "number" or call < stuck then return value end
  local text = "found max_call_time %s and stuck_after %s; accepted: a max_call_time below stuck_after, after which a "
    .. "worker is replaced"
  context.faults:add(node, path, text:format(units.duration_text(call), units.duration_text(stuck)))
  return value
end


local function check_power_of_two(value)
  local lower = 2 ^ math.floor(math.log(value) / math.log(2) + 1e-9)
  if value == lower then return value end
  return nil, ("found %d, accepted: a power of two such as %d or %d"):format(value, lower, lower * 2)
end


local function check_shard_size(value)
  if value % SEGMENT_BLOCK == 0 then return value end
  local lower = value - value % SEGMENT_BLOCK
  local text = "found %d bytes, accepted: a multiple of 32kb such as %d or %d"
  return nil, text:format(value, lower, lower + SEGMENT_BLOCK)
end


local SYNC = "process, group, or an interval such as 100ms"


--- "process", "group", "interval", or a duration such as 100ms, which is an interval.
local function read_sync(context, node, path)
  local text = node.text
  if text == "process" or text == "group" then return text end
  return schema.check(context, node, {
    type = "duration", min = "1ms", max = "1h", accepted = SYNC,
  }, path)
end


--- Empty: no token.
local function check_token(value)
  if value == "" or (#value >= TOKEN_CHARACTERS_MIN and #value <= 255 and not value:find("[^%w%-._~+/=]")) then
    return value
  end
  return nil, "found a secret value, accepted: 16 to 255 letters, digits and - . _ ~ + / ="
end


local SECURITY = {
  fingerprint_key = {
    type = "string", min = KEY_CHARACTERS_MIN, secret = true, accepted = "at least 32 characters",
  },
  additional_safe_request_headers = HEADER_NAMES,
  additional_safe_response_headers = HEADER_NAMES,
  safe_request_headers = HEADER_NAMES,
  safe_response_headers = HEADER_NAMES,
  safe_query_parameters = {
    type = "array", items = { type = "string", min = 1, check = check_parameter }, default = {},
  },
  safe_query_parameters_case_sensitive = flag(false),
}

local SECTIONS = {
  server = {
    host = host("0.0.0.0"),
    port = port(8888),
    workers = count(nil, 1, 256), -- none: as many as processors this process may use
    max_connections = count(20000),
    idle_timeout = duration("30s"),
    backlog = count(1000, 1, 65535),
    drain_timeout = duration("30s"),
  },
  management = {
    host = host("127.0.0.1"),
    port = port(18888),
    request_parse_timeout = duration("2s"),
    idle_timeout = duration("30s"),
    max_connections = count(64),
    allowed_hosts = { type = "array", items = host(), max = 32, default = {} },
    token = { type = "string", secret = true, default = "", check = check_token },
    show_bodies = flag(false),
    tailers = { type = "array", items = { type = "string", min = 1, max = 255 }, max = 16, default = {} },
  },
  log = { -- what the gateway itself has to say, on standard error
    level = { type = "enum", enum = { "debug", "info", "warn", "error" }, default = "info" },
    format = { type = "enum", enum = { "text", "json" }, default = "text" },
  },
  access_log = {
    format = { type = "enum", enum = { "off", "combined", "json" }, default = "off" },
    file = { type = "string", max = 255, default = "" }, -- none: standard output
    ids = flag(false), -- the exchange's id and its trace's at the end of combined lines
  },
  tracing = {
    traceparent = { type = "enum", enum = { "pass", "create", "restart", "remove" }, default = "pass" },
    sampled = flag(true), -- the flag in those that are made here
  },
  http = {
    enable_http2 = { type = "boolean", default = false, check = refuse_http2 },
    request_parse_timeout = duration("2s"),
    request_body_timeout = duration("30s"),
    min_body_rate = { type = "size", default = 240 },
    encoded_slash = { type = "enum", enum = { "keep", "refuse" }, default = "keep" },
  },
  limits = {
    max_request_line = size("16kb", "256b", "1mb"),
    max_header_size = size("32kb", "1kb", "1mb"),
    max_header_count = count(100, 1, 1000),
    max_entity_size = { type = "size", min = "1kb", default = "none", none = true },
    max_held_body = { type = "size", min = "1kb", max = "1gb", default = "1mb" },
    trusted_proxies = { type = "array", items = { type = "string", check = network.check }, max = 64, default = {} },
  },
  proxy = {
    max_connections_per_target = count(4096),
    max_queue_size = count(1000, 0),
    max_request_time = duration("60s"),
    max_exchange_time = optional_duration("none"),
    ttl = duration("30s"),
  },
  upstream = { resolve_interval = duration("30s", "1s") },
  scripts = {
    max_call_time = duration("200ms"),
    max_load_time = duration("5s"),
    stuck_after = duration("2s"),
    max_generations = count(4, 2, 64),
    max_memory = size("256mb", "1mb"),
  },
  storage = {
    work_dir = { type = "string", min = 1, default = "journals" },
    shard_size = {
      type = "size", min = "64kb", max = 2 ^ 31 - SEGMENT_BLOCK, default = "64mb", check = check_shard_size,
    },
    shard_count = { type = "integer", min = 1, max = 64, check = check_power_of_two },
    stage_size = size("1mb", "64kb", "64mb"),
    pre_fault = flag(false),
    compression = { type = "enum", enum = { "zstd", "none" }, default = "zstd" },
    compression_level = count(1, -7, 19),
    on_full = { type = "enum", enum = { "refuse", "drop", "block" }, default = "refuse" },
    sync = { read = read_sync, default = "process", like = { type = "string", accepted = SYNC } },
    journal_security = { type = "object", keys = SECURITY, default = {}, check = check_security },
  },
}


local SECTION_CHECKS = { scripts = check_scripts }


local function file_schema()
  local keys = {}
  for section, section_keys in pairs(SECTIONS) do
    keys[section] = { type = "object", keys = section_keys, default = {}, check = SECTION_CHECKS[section] }
  end
  return { type = "object", keys = keys }
end


--- The whole file.
server_conf.SCHEMA = file_schema()


--- The settings that the processes read, in the order in which a bundle lists them: those of core/settings.h.
server_conf.CORE_KEYS = {
  "server.host", "server.port", "server.workers", "server.max_connections", "server.idle_timeout", "server.backlog",
  "server.drain_timeout", "management.host", "management.port", "management.request_parse_timeout",
  "management.idle_timeout", "management.max_connections", "management.token", "management.allowed_hosts",
  "management.show_bodies", "management.tailers",
  "log.level", "log.format", "access_log.format", "access_log.file", "access_log.ids",
  "tracing.traceparent", "tracing.sampled",
  "http.request_parse_timeout",
  "http.request_body_timeout", "http.min_body_rate", "http.encoded_slash_refused", "limits.max_request_line",
  "limits.max_header_size", "limits.max_header_count", "limits.max_entity_size", "limits.max_held_body",
  "limits.trusted_proxies",
  "proxy.max_connections_per_target", "proxy.max_queue_size", "proxy.max_request_time", "proxy.max_exchange_time",
  "proxy.ttl", "upstream.resolve_interval", "storage.work_dir", "storage.shard_size", "storage.stage_size",
  "storage.shard_count", "storage.pre_fault", "storage.compression", "storage.compression_level", "storage.on_full",
  "storage.sync",
  "storage.journal_security.fingerprint_key", "storage.journal_security.safe_query_parameters_case_sensitive",
  "storage.journal_security.safe_request_headers", "storage.journal_security.safe_response_headers",
  "storage.journal_security.additional_safe_request_headers",
  "storage.journal_security.additional_safe_response_headers", "storage.journal_security.safe_query_parameters",
  "scripts.max_call_time", "scripts.max_load_time", "scripts.stuck_after",
  "scripts.max_generations", "scripts.max_memory",
}


local function flatten(settings, prefix, values)
  for key, value in pairs(values) do
    if type(value) == "table" and value[1] == nil and next(value) ~= nil then
      flatten(settings, prefix .. key .. ".", value)
    else
      settings[prefix .. key] = value
    end
  end
end


--- Checks server.yaml. Without a file the defaults are the settings.
-- @param node its tree, or nil; @param faults where everything wrong is added
-- @return flat settings ("server.port" → 8888), or nil when there are faults
function server_conf.check(node, faults)
  node = node or assert(tree.from_lua({}))
  local values = schema.check({ faults = faults, place = node }, node, server_conf.SCHEMA, "")
  if not values or faults:any() then return nil end
  local settings = {}
  flatten(settings, "", values)
  settings["http.encoded_slash_refused"] = settings["http.encoded_slash"] == "refuse"
  return settings
end


return server_conf
