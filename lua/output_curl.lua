--- output_curl.lua - `curl`: the client's request of an exchange as a command for a POSIX shell.
--
-- What the journal only has as a fingerprint ("fp:" and 11 characters) becomes a variable of the shell, named after
-- the header or the parameter of the query: nothing secret is in the command, and it runs once they are set. What curl
-- would send by itself and the client did not is turned off.

local ffi = require "moongate.ffi"
local files = require "moongate.output_files"

local C = ffi.C

local curl = {}

curl.options = {
  output = { type = "string", default = "stdout", description = "stdout, or a file, which is added to" },
}

local FINGERPRINT = "fp:" .. ("[%w_%-]"):rep(11)
local CURLS_OWN = { "Accept", "User-Agent" }
local SHELLS_OWN = { PATH = true, HOME = true, IFS = true, ENV = true, PWD = true, USER = true, UID = true }
local FRAMING = { host = true, ["content-length"] = true, connection = true, ["keep-alive"] = true,
  ["proxy-connection"] = true }


function curl.open(options)
  local out, why = files.stream(options.output)
  if not out then return nil, why end
  return { out = out }
end


local function single(text)
  return "'" .. text:gsub("'", [['\'']]) .. "'"
end


--- The name of the variable that stands for one fingerprint: NAME, or NAME_2 when NAME stands for another.
local function variable(names, name, fingerprint)
  local base = name:upper():gsub("[^A-Z0-9]", "_"):gsub("^(%d)", "_%1")
  if SHELLS_OWN[base] then base = base .. "_VALUE" end
  local word, n = base, 1
  while names[word] and names[word] ~= fingerprint do
    n = n + 1
    word = base .. "_" .. n
  end
  if not names[word] then
    names[word] = fingerprint
    names[#names + 1] = word
  end
  return word
end


--- Text as one word of the shell, with variables for what is not known.
-- @param label function(text before) → what the variable is named after
local function word(names, text, label)
  local parts, from = {}, 1
  while true do
    local first, last = text:find(FINGERPRINT, from)
    if not first then break end
    if first > from then parts[#parts + 1] = single(text:sub(from, first - 1)) end
    parts[#parts + 1] = ('"$%s"'):format(variable(names, label(text:sub(1, first - 1)), text:sub(first, last)))
    from = last + 1
  end
  if from <= #text or from == 1 then parts[#parts + 1] = single(text:sub(from)) end
  return table.concat(parts)
end


--- Of "http://h/p?a=1&page=" it is "QUERY_page".
local function parameter_of(before)
  return "QUERY_" .. (before:match("[?&]([^=&]*)=[^&]*$") or "VALUE")
end


local function url_of(names, request)
  local host, target = request:header("host"), request.target or "/"
  if not target:find("^/") then target = target:match("^%a+://[^/?]*(.*)$") or "/" end
  if host then return word(names, ("http://%s%s"):format(host, target), parameter_of) end
  names[#names + 1] = "TARGET_HOST"
  return [['http://'"$TARGET_HOST"]] .. word(names, target, parameter_of)
end


local function header_options(names, request, add)
  local seen = {}
  for name, value in request:headers() do
    local lower = name:lower()
    seen[lower] = true
    if not FRAMING[lower] then
      local function label() return name end
      add("-H " .. (value == "" and single(name .. ";") or word(names, name .. ": " .. value, label)))
    end
  end
  return seen
end


--- What curl would add: an option that keeps it from that.
local function silence(seen, has_body, add)
  for _, name in ipairs(CURLS_OWN) do
    if not seen[name:lower()] then add(("-H '%s:'"):format(name)) end
  end
  if not has_body then return end
  if not seen["content-type"] then add "-H 'Content-Type:'" end
  if not seen.expect then add "-H 'Expect:'" end
end


local function base64(bytes)
  local buf = files.buffer()
  C.mg_out_base64(buf, bytes, #bytes)
  return files.text(buf)
end


--- The body, in the command where it is text, else through a pipe: what goes before curl, and the option.
local function body_of(body)
  if body:find("^[\t\n\32-\126]*$") and body:sub(1, 1) ~= "@" then return "", "--data-binary " .. single(body) end
  return ("printf %%s %s | base64 -d | "):format(base64(body)), "--data-binary @-"
end


--- The command, without a line end; nil when the request was not recorded.
function curl.command(exchange)
  local request = exchange.request
  local method, target = request.method, request.target
  if not method or not target then return nil end
  local names, lines, before = {}, {}, ""
  local function add(option) lines[#lines + 1] = option end
  local url = url_of(names, request)
  add("curl --globoff --path-as-is" .. (request.protocol == "HTTP/1.0" and " --http1.0" or ""))
  local body = request.body
  if body == "" then body = nil end
  if method == "HEAD" then
    add "--head"
  elseif method ~= (body and "POST" or "GET") then
    add("-X " .. single(method))
  end
  if target == "*" then add "--request-target '*'" end
  local seen = header_options(names, request, add)
  if request.level == "HEADERS" or request.level == "FULL" then silence(seen, body ~= nil, add) end
  if body then
    local option
    before, option = body_of(body)
    add(option)
  end
  add(url)
  return before .. table.concat(lines, " \\\n  "), names
end


local function comment(exchange, names, missing_body)
  local text = ("# %s %s"):format(exchange.id, exchange.status or exchange.incomplete or "")
  if #names > 0 then text = text .. "; to be set: " .. table.concat(names, ", ") end
  if missing_body then text = text .. "; its body was not recorded" end
  return text
end


function curl.write(state, exchange)
  local buf, why = state.out:ready()
  if not buf then return nil, why end
  local command, names = curl.command(exchange)
  local text = ("# %s: its request was not recorded\n"):format(exchange.id)
  if command then
    local request = exchange.request
    local missing = request.body_bytes > 0 and #(request.body or "") < request.body_bytes
    text = comment(exchange, names, missing) .. "\n" .. command .. "\n"
  end
  C.mg_out_put(buf, text, #text)
  return true
end


function curl.undo(state) return state.out:undo() end
function curl.flush(state, durable) return state.out:flush(durable) end
function curl.close(state) return state.out:close() end


return curl
