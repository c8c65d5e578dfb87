--- StaticContent: answers with the files of a directory, at the path that the filters before have left.
local filter = { api = 1, version = "1.0.0", needs = { files = true } }

filter.schema = {
  base_directory = {
    type = "string", min = 1, required = true, description = "where the files are; must be there at the start",
  },
  follow_symlinks = {
    type = "boolean", default = false, description = "follow links below base_directory, wherever they lead",
  },
  list_directory = { type = "boolean", default = false, description = "show a directory that has no welcome file" },
  serve_hidden_files = {
    type = "boolean", default = false, description = "serve names that begin with a dot; .well-known always is",
  },
}

filter.answers = {
  [302] = "a directory is asked for without its last slash",
  [304] = "the client has the file already",
  [403] = "a name that is not to be served",
  [404] = "there is no such file",
  [405] = "neither GET nor HEAD",
  [416] = "no part of the file is meant",
  [503] = "the file cannot be read now",
}
filter.examples = { { conf = { base_directory = "/var/www/shop" } } }

local WELCOME = { "index.html", "index.htm", "default.html", "default.htm" }

local TYPES = {
  avif = "image/avif", bmp = "image/bmp", bz2 = "application/x-bzip2", css = "text/css", csv = "text/csv",
  doc = "application/msword", epub = "application/epub+zip", gif = "image/gif", gz = "application/gzip",
  htm = "text/html", html = "text/html", ico = "image/x-icon", ics = "text/calendar", jar = "application/java-archive",
  jpeg = "image/jpeg", jpg = "image/jpeg", js = "text/javascript", json = "application/json",
  map = "application/json", md = "text/markdown", mjs = "text/javascript", mp3 = "audio/mpeg", mp4 = "video/mp4",
  mpeg = "video/mpeg", oga = "audio/ogg", ogg = "audio/ogg", ogv = "video/ogg", otf = "font/otf",
  pdf = "application/pdf", png = "image/png", rtf = "application/rtf", svg = "image/svg+xml",
  tar = "application/x-tar", tif = "image/tiff", tiff = "image/tiff", ttf = "font/ttf", txt = "text/plain",
  wasm = "application/wasm", wav = "audio/wav", weba = "audio/webm", webm = "video/webm",
  webmanifest = "application/manifest+json", webp = "image/webp", woff = "font/woff", woff2 = "font/woff2",
  xhtml = "application/xhtml+xml", xml = "application/xml", zip = "application/zip",
}

local TEXT = "text/plain; charset=utf-8"
local ANSWERS = {
  none = { 404, "not found\n" }, refused = { 403, "forbidden\n" }, gone = { 503, "not available\n" },
  busy = { 503, "not available\n" },
}


function filter.init(conf)
  return {
    directory = moongate.directory(conf.base_directory, { follow_symlinks = conf.follow_symlinks }),
    warned = false, -- that base_directory is gone
  }
end


-- Times -----------------------------------------------------------------------------------------------------------

local MONTHS = {
  Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9, Oct = 10, Nov = 11, Dec = 12,
}


--- Days from 1970-01-01 to a date of the Gregorian calendar.
local function days_of(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  local leaps = math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
  return 365 * year + leaps + math.floor((153 * (month - 3) + 2) / 5) + day - 719469
end


--- Seconds since 1970 of an HTTP date in any of its three forms (RFC 9110, 5.6.7); nil when it is none.
local function parse_date(text)
  local day, month, year, clock = text:match("^%a%a%a, (%d%d) (%a%a%a) (%d%d%d%d) (%d%d:%d%d:%d%d) GMT$")
  if not day then
    day, month, year, clock = text:match("^%a+, (%d%d)%-(%a%a%a)%-(%d%d) (%d%d:%d%d:%d%d) GMT$")
    year = year and (tonumber(year) < 70 and 2000 or 1900) + tonumber(year)
  end
  if not day then
    month, day, clock, year = text:match("^%a%a%a (%a%a%a) ([ %d]%d) (%d%d:%d%d:%d%d) (%d%d%d%d)$")
  end
  if not day or not MONTHS[month] then return nil end
  local hours, minutes, seconds = clock:match("(%d%d):(%d%d):(%d%d)")
  return days_of(tonumber(year), MONTHS[month], tonumber(day)) * 86400 + hours * 3600 + minutes * 60 + seconds
end


-- Conditions and ranges -------------------------------------------------------------------------------------------


--- True if a list of entity tags names tag; the comparison is weak (RFC 9110, 13.1.2).
local function lists_tag(list, tag)
  if list:match("^%s*%*%s*$") then return true end
  for candidate in list:gmatch('"[^"]*"') do
    if candidate == tag then return true end
  end
  return false
end


local function is_unchanged(req, tag, changed)
  if req:has("if-none-match") then
    return lists_tag(table.concat(req:header_values("if-none-match"), ","), tag)
  end
  local since = req:header("if-modified-since")
  local seconds = since and parse_date(since)
  return seconds ~= nil and math.floor(changed / 1000) <= seconds
end


--- The one range that is asked for: first byte and how many; nil for the whole file; false when there is no such part.
local function wanted_range(req, tag, size)
  if req:method() ~= "GET" or not req:has("range") then return nil end
  if req:has("if-range") and not req:header_is("if-range", tag) then return nil end
  local ranges = req:header_values("range")
  local first, last = ranges[1]:match("^bytes=(%d*)%-(%d*)$")
  if #ranges > 1 or not first or (first == "" and last == "") then return nil end
  if first == "" then
    local count = math.min(tonumber(last, 10), size)
    if count == 0 then return false end
    return size - count, count
  end
  first = tonumber(first, 10)
  last = last ~= "" and tonumber(last, 10) or size - 1
  if first >= size then return false end
  if last < first then return nil end
  return first, math.min(last, size - 1) - first + 1
end


-- Answers ---------------------------------------------------------------------------------------------------------


local function refuse(req, state, conf, why)
  if why == "gone" and not state.warned then
    state.warned = true
    moongate.log("warn", ("base_directory %s is not there any more"):format(conf.base_directory))
  end
  local answer = ANSWERS[why]
  return req:respond(answer[1], answer[2], { ["content-type"] = TEXT })
end


local function send(req, directory, path, size, changed)
  local tag = ('"%x-%x"'):format(size, changed)
  local headers = {
    ["etag"] = tag, ["last-modified"] = os.date("!%a, %d %b %Y %H:%M:%S GMT", math.floor(changed / 1000)),
    ["accept-ranges"] = "bytes",
  }
  if is_unchanged(req, tag, changed) then return req:respond(304, "", headers) end
  local first, count = wanted_range(req, tag, size)
  if first == false then
    headers["content-range"] = ("bytes */%d"):format(size)
    headers["content-type"] = TEXT
    return req:respond(416, "no such part\n", headers)
  end
  headers["content-type"] = TYPES[(path:match("%.([^./]+)$") or ""):lower()] or "application/octet-stream"
  if not first then return directory:send(req, 200, 0, size, headers) end
  headers["content-range"] = ("bytes %d-%d/%d"):format(first, first + count - 1, size)
  return directory:send(req, 206, first, count, headers)
end


--- To the same target with a slash behind its path. Several slashes at its start would name another host.
local function redirect(req)
  local path, query = req:raw_target():match("^([^?]*)(.*)$")
  return req:respond(302, "", { ["location"] = path:gsub("^/+", "/") .. "/" .. query })
end


local function escaped(text)
  return (text:gsub("[&<>\"']", function(c) return ("&#%d;"):format(c:byte()) end))
end


local function as_link(name)
  return (name:gsub("[^%w%-._~/]", function(c) return ("%%%02X"):format(c:byte()) end))
end


local function list(req, state, conf, path)
  local lines = {}
  local title = escaped(req:path())
  if path ~= "" then lines[1] = '<li><a href="../">../</a></li>' end
  for _, name in ipairs(state.directory:list(req, path)) do
    if conf.serve_hidden_files or name:sub(1, 1) ~= "." or name == ".well-known/" then
      lines[#lines + 1] = ('<li><a href="./%s">%s</a></li>'):format(as_link(name), escaped(name))
    end
  end
  local body = ("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>%s</title></head>\n<body><h1>%s</h1>\n"
    .. "<ul>\n%s\n</ul>\n</body></html>\n"):format(title, title, table.concat(lines, "\n"))
  return req:respond(200, body, { ["content-type"] = "text/html; charset=utf-8" })
end


local function show_directory(req, state, conf, path)
  if req:path():sub(-1) ~= "/" then return redirect(req) end
  if path ~= "" and path:sub(-1) ~= "/" then path = path .. "/" end
  for _, name in ipairs(WELCOME) do
    local kind, size, changed = state.directory:open(req, path .. name)
    if kind == "file" then return send(req, state.directory, name, size, changed) end
    if not kind and size ~= "none" then return refuse(req, state, conf, size) end
  end
  if conf.list_directory then return list(req, state, conf, path) end
  return refuse(req, state, conf, "refused")
end


local function has_hidden(path)
  for name in path:gmatch("[^/]+") do
    if name:sub(1, 1) == "." and name ~= ".well-known" then return true end
  end
  return false
end


function filter.request(req, conf, state)
  local method = req:method()
  if method ~= "GET" and method ~= "HEAD" then
    return req:respond(405, "only GET and HEAD\n", { ["content-type"] = TEXT, ["allow"] = "GET, HEAD" })
  end
  local path = req:upstream_path():sub(2)
  if not conf.serve_hidden_files and has_hidden(path) then return refuse(req, state, conf, "none") end
  local kind, size, changed = state.directory:open(req, path)
  if kind == "file" then return send(req, state.directory, path, size, changed) end
  if kind == "directory" then return show_directory(req, state, conf, path) end
  return refuse(req, state, conf, size)
end


return filter
