--- passwords.lua - credentials of a request, and passwords against their hashes without holding up the gateway.
--
-- Owns: moongate.basic_credentials, moongate.password_matches, moongate.sha256.   May call: ffi.
-- Never: keep a password.

local ffi = require "moongate.ffi"

local C = ffi.C
local length = ffi.length
local passwords = {}


--- The user and password of a request that has exactly one Authorization line, of the scheme Basic, well-formed; else
-- nil.
-- @phases request, response, log
function passwords.credentials(req)
  local text = C.mg_request_basic_credentials(req, length)
  if text == nil then
    if length[0] < 0 then error("basic_credentials: the exchange has ended, or may not use more memory", 2) end
    return nil
  end
  return ffi.string(text, length[0]):match("^(%C-):(%C*)$")
end


--- True if hash (as of crypt(3), "$2b$12$...") is that of password. The filter waits for a thread that finds out.
-- @return true or false; or nil and "busy" when too much else is being hashed
-- @phases request, response
function passwords.matches(req, password, hash)
  local code = C.mg_request_check_password(req, password, #password, hash, #hash)
  if code == C.MG_LUA_VALUE then return false end -- longer than any password can be
  if code < 0 then error("password_matches: not possible in this phase", 2) end
  coroutine.yield("job")
  local result = C.mg_request_job_result(req)
  if result == C.MG_LUA_BUSY then return nil, "busy" end
  return result == 1
end


--- SHA-256 of a text, as 64 hexadecimal digits.
function passwords.sha256(text)
  local out = ffi.new("char[65]")
  C.mg_digest(text, #text, out)
  return ffi.string(out, 64)
end


return passwords
