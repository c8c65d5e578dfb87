--- output_json_schema.lua - what stands in a line of `json`, as JSON Schema: `moongate schema json-line`.
--
-- journal/json-line.schema.json is this, printed. Fields may be added; to take one away or to change what it means
-- breaks those who read them.

local TIME = { type = "string", format = "date-time",
  pattern = "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z$" }
local SECONDS = { type = "number", minimum = 0 }
local COUNT = { type = "integer", minimum = 0 }
local CHECKSUM = { type = "string", pattern = "^crc32c:[0-9a-f]{8}$" }
local STATUS = { type = "integer", minimum = 100, maximum = 599 }


--- @param description of what it is; @param base a schema, which is copied
local function described(description, base)
  local copy = { description = description }
  for key, value in pairs(base) do copy[key] = value end
  return copy
end


local function text(description) return { type = "string", description = description } end
local function flag(description) return { const = true, description = description } end


local function values(description)
  return {
    type = "object", description = description,
    additionalProperties = { type = "array", items = { type = "string" }, minItems = 1 },
  }
end


--- A message: its level and what else it may have.
local function leg(description, ...)
  local properties = {
    level = { enum = { "NONE", "METADATA", "HEADERS", "FULL" }, description = "what was recorded of it" },
    protocol = text "HTTP/1.1 or HTTP/1.0",
    headers = values "from HEADERS on; names in small letters",
  }
  for _, more in ipairs { ... } do
    for name, schema in pairs(more) do properties[name] = schema end
  end
  return { type = "object", description = description, properties = properties, required = { "level" } }
end


local REQUEST = {
  method = text "as it was sent",
  path = text "without the query",
  query = text "without its question mark; values as they were recorded, fp: and a fingerprint for secret ones",
}
local RESPONSE = { status = STATUS, reason = text "the reason phrase" }
local CLIENT_SIDE = {
  header_bytes = described("of the head", COUNT),
  body_bytes = described("of the body, without the framing of chunks", COUNT),
  truncated = flag "the body did not come by to its end",
  checksum = described("CRC-32C of the body as it was recorded", CHECKSUM),
  observed_checksum = described("what it is now: the recorded body is damaged", CHECKSUM),
  body = { type = "string", contentEncoding = "base64", description = "where no archive holds it, if asked for" },
}
local TARGETS = {
  targets = { type = "array", items = { type = "string" }, minItems = 1,
    description = "where it was sent, behind those that were tried before" },
  tries = described("when there was more than one", COUNT),
}
local UPSTREAM_TIMES = {
  start = described("when the request had been sent on", TIME),
  first_byte = described("when the answer began", TIME),
  ["end"] = described("when it had been passed on", TIME),
  duration = described("seconds from start to end", SECONDS),
}

return {
  ["$schema"] = "https://json-schema.org/draft/2020-12/schema",
  title = "moongate: json line",
  description = "One recorded exchange. What is not known is left out; there is no null.",
  type = "object",
  properties = {
    request_id = described("a line that comes again has the same", { type = "string",
      pattern = "^[0-9A-HJKMNP-TV-Z]{26}$" }),
    incomplete = {
      enum = { "NO_START_EVENT", "NO_END", "NO_STATUS", "TIMED_OUT", "CAPACITY_EVICTED", "SHUTDOWN" },
      description = "why it is not whole",
    },
    route_id = text "the route's id; <unrouted>: none matched",
    start = described("when its first byte came", TIME),
    ["end"] = described("when it was over", TIME),
    duration = described("seconds from start to end", SECONDS),
    answered_by = { enum = { "UPSTREAM", "FILTER", "GATEWAY" }, description = "where the answer came from" },
    error = text "what went wrong, in one word",
    tunnel = flag "it became a tunnel",
    remote_address = text "the client's",
    remote_address_source = { enum = { "SOCKET", "X_FORWARDED_FOR", "X_REAL_IP", "UNKNOWN" },
      description = "who said so" },
    attributes = values "what filters and the gateway noted",
    client_request = leg("what the client sent", REQUEST, CLIENT_SIDE),
    upstream_request = leg("what the upstream was sent", REQUEST, TARGETS),
    upstream_response = leg("what it answered", RESPONSE, UPSTREAM_TIMES),
    client_response = leg("what the client got", RESPONSE, CLIENT_SIDE),
    warc = {
      type = "object", required = { "file", "offset", "length" },
      properties = {
        file = text "in output_dir of warc",
        offset = described("of the exchange's first record", COUNT),
        length = described("of all its records, compressed", COUNT),
      },
      description = "where the archive has it",
    },
  },
  required = { "request_id", "client_request", "client_response" },
}
