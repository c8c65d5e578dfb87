--- network.lua - addresses and networks as they stand in a configuration.
-- Pure.

local network = {}


local function is_ipv4(text)
  local parts = 0
  for part in (text .. "."):gmatch("([^.]*)%.") do
    parts = parts + 1
    local leading_zero = #part > 1 and part:byte() == 48
    if not part:find("^%d%d?%d?$") or leading_zero or tonumber(part, 10) > 255 then return false end
  end
  return parts == 4
end


--- The number of 16-bit groups in one side of an IPv6 address, or nil when it is malformed.
local function groups_of(text, last)
  if text == "" then return 0 end
  local groups = 0
  local rest = text
  local v4 = last and text:match("([^:]*)$")
  if v4 and v4:find(".", 1, true) then
    if not is_ipv4(v4) then return nil end
    groups, rest = 2, text:sub(1, -#v4 - 2)
    if rest == "" then return groups end
  end
  for group in (rest .. ":"):gmatch("([^:]*):") do
    if not group:find("^%x%x?%x?%x?$") then return nil end
    groups = groups + 1
  end
  return groups
end


local function is_ipv6(text)
  local head, tail = text:match("^(.-)::(.*)$")
  if not head then return groups_of(text, true) == 8 end
  local before, after = groups_of(head, false), groups_of(tail, true)
  return before ~= nil and after ~= nil and before + after < 8
end


--- An address, or a network such as 10.0.0.0/8: the value itself, or nil and a message.
function network.check(value)
  local address, prefix = value:match("^([^/]+)/(%d%d?%d?)$")
  address = address or value
  local bits = (is_ipv4(address) and 32) or (address:find(":", 1, true) and is_ipv6(address) and 128)
  if bits and (not prefix or tonumber(prefix, 10) <= bits) then return value end
  return nil, ('found "%s", accepted: an address or a network such as 10.0.0.0/8 or fd00::/8'):format(value)
end


return network
