--- target_url.lua - the address of an upstream target as a user writes it.
--
-- Pure. http://host[:port][/path] or unix:/path; what a URL could also hold (user, query, fragment) means nothing here.

local target_url = {}

target_url.ACCEPTED = "http://host[:port][/path] or unix:/path/to.sock"

local PATH_MAX_UNIX = 107 -- what sun_path holds


local function unix_target(path)
  if path:sub(1, 1) ~= "/" then return nil, "the path of a unix socket must be absolute" end
  if #path > PATH_MAX_UNIX then return nil, "the path of a unix socket may have at most 107 bytes" end
  if path:find("[%c%s]") then return nil, "the path of a unix socket may hold no blanks" end
  return { key = "unix:" .. path, authority = "localhost", path_prefix = "" }
end


--- True for a name or IPv4 address as a URL may carry it: letters, digits, '-', '_' and single dots.
local function is_name(host)
  return host:find("^[%w%-_%.]+$") ~= nil and not host:find("..", 1, true) and host:sub(1, 1) ~= "."
end


local function split_authority(authority)
  local host, port = authority:match("^(%[[%x:%.]+%])(.*)$")
  if not host then
    host, port = authority:match("^([^:]*)(.*)$")
    if not is_name(host) then return nil, ('"%s" is not a host name or address'):format(host) end
  end
  if port == "" then return host:lower(), nil end
  local number = port:match("^:(%d+)$")
  number = number and tonumber(number, 10)
  if not number or number < 1 or number > 65535 then return nil, "the port must be a number from 1 to 65535" end
  return host:lower(), number
end


--- Reads a target's address.
-- @return { key, authority, path_prefix } (see conf.lua), or nil and what is wrong with it
function target_url.parse(text)
  local scheme, rest = text:match("^(%a[%w+.-]*):(.*)$")
  scheme = scheme and scheme:lower()
  if scheme == "unix" then return unix_target(rest) end
  if scheme == "https" then return nil, "https:// targets are not supported yet" end
  if scheme ~= "http" or rest:sub(1, 2) ~= "//" then return nil, "no target address" end
  local authority, path = rest:match("^//([^/?#]*)(.*)$")
  if authority:find("@", 1, true) then return nil, "a target may hold no user and password" end
  if path:find("[?#]") then return nil, "a target may hold no query and no fragment" end
  if path:find("[^%w%-%._~!$&'()*+,;=:@%%/]") then return nil, "the path holds bytes that must be percent-encoded" end
  local host, port = split_authority(authority)
  if not host then return nil, port end
  return {
    key = ("%s:%d"):format(host, port or 80),
    authority = port and port ~= 80 and ("%s:%d"):format(host, port) or host,
    path_prefix = (path:gsub("/+$", "")),
  }
end


return target_url
