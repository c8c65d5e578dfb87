--- AddCorrelationId: gives the exchange's id to the upstream and to the client, as X-Correlation-Id.
-- A value that the client sent is replaced, unless trust_incoming is set: then it is passed on and echoed.
local filter = { api = 1, version = "1.0.0" }

local HEADER = "X-Correlation-Id"

filter.schema = {
  trust_incoming = { type = "boolean", default = false, description = "keep a value that the client sent" },
}

filter.examples = { { conf = { trust_incoming = true } } }


function filter.request(req, conf)
  if conf.trust_incoming and req:has(HEADER) then return end
  req:set_id_header(HEADER)
end


function filter.response(res, conf)
  if conf.trust_incoming and res:copy_request_header(HEADER) then return end
  res:set_id_header(HEADER)
end


return filter
