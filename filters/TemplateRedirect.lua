--- TemplateRedirect: redirects what a regular expression finds in the path to a place that is made of what was found.
-- What stands before and after the match is carried along, the query is not. Only the template decides which site the
-- client is sent to: a result that would lead elsewhere is answered with 400.
local filter = { api = 1, version = "1.0.0" }

filter.schema = {
  source = { type = "regexp", required = true, description = "what is looked for in the decoded path" },
  target = {
    type = "string", pattern = "^%C+$", required = true,
    description = "a path, http://host..., https://host... or //host...; $1 or ${name} for a group, \\$ for a dollar",
  },
  status = { type = "integer", min = 300, max = 399, default = 302, description = "status of the redirect" },
}

filter.answers = { status = "the path matches", [400] = "the result would lead elsewhere" }
filter.examples = { { conf = { source = "^/old/(.*)$", target = "/new/$1", status = 301 } } }

local PLAIN = { ["content-type"] = "text/plain; charset=utf-8" }
local SCHEME = "^%a[%w+.%-]*:"


local function escape(c)
  return ("%%%02X"):format(c:byte())
end


--- Percent-encodes captured text; an encoded slash, which stays encoded in a decoded path, stays as it is.
local function encode(text, kept)
  text = text:gsub("%%2[Ff]", "\0"):gsub(kept, escape)
  return (text:gsub("%z", "%%2F"))
end


local function for_path(text)
  return encode(text, "[^%w%-._~!$&'()*+,;=:@/%z]")
end


local function for_query(text)
  return encode(text, "[^%w%-._~/%z]")
end


--- The part of a template that names the site: scheme and host as they stand, "" for a path. Raises for anything else.
local function origin_of(pieces)
  local first = type(pieces[1]) == "string" and pieces[1] or ""
  if not first:find(SCHEME) and first:sub(1, 2) ~= "//" then return "" end
  local scheme = first:match("^[Hh][Tt][Tt][Pp][Ss]?://") or first:match("^//")
  if not scheme then error("target: accepted: a path, or what begins with http://, https:// or //", 0) end
  local host = first:match("^[^/?#\\]*", #scheme + 1)
  if not host:find("^[%w%-._~%[%]:]+$") then error("target: a host of letters, digits, dots, dashes is missing", 0) end
  if #scheme + #host == #first and pieces[2] then error("target: a group in the host lets clients choose it", 0) end
  return scheme .. host
end


function filter.init(conf)
  if conf.target:find("^%s") or conf.target:find("%s$") then error("target: blanks at its beginning or end", 0) end
  local regex = assert(moongate.regex(conf.source))
  local pieces, why = regex:replacement(conf.target)
  if not pieces then error("target: " .. why, 0) end
  local origin = origin_of(pieces)
  if origin ~= "" then pieces[1] = pieces[1]:sub(#origin + 1) end
  return { regex = regex, pieces = pieces, origin = origin }
end


--- The result without its origin, once as it is and once encoded for where each part stands.
local function expand(state, path, first, last)
  local raw, encoded = { path:sub(1, first - 1) }, { for_path(path:sub(1, first - 1)) }
  local encode_next = for_path
  for _, piece in ipairs(state.pieces) do
    if type(piece) == "string" then
      raw[#raw + 1], encoded[#encoded + 1] = piece, piece:gsub("[^\33-\126]", escape)
      if piece:find("[?#]") then encode_next = for_query end
    else
      local text = state.regex:group(path, piece) or ""
      raw[#raw + 1], encoded[#encoded + 1] = text, encode_next(text)
    end
  end
  local tail = path:sub(last + 1)
  raw[#raw + 1], encoded[#encoded + 1] = tail, encode_next(tail)
  return table.concat(raw), table.concat(encoded)
end


--- True if text, behind the template's origin, still leads there.
local function stays(origin, text)
  if origin ~= "" then return text == "" or text:find("^[/?#]") ~= nil end
  return text:find("^/") ~= nil and not text:find("^/[/\\]")
end


function filter.request(req, conf, state)
  local path = req:path()
  local first, last = state.regex:find(path)
  if not first then return end
  local raw, encoded = expand(state, path, first, last)
  if not stays(state.origin, raw) or not stays(state.origin, encoded) then
    return req:respond(400, "That path leads nowhere.\n", PLAIN)
  end
  return req:respond(conf.status, "", { location = state.origin .. encoded })
end


return filter
