--- ffi.lua - the one place where Lua sees C: the declarations of moongate_ffi.h and the scratch that calls share.
--
-- Owns: the only `require "ffi"`. May call: the functions of moongate_ffi.h.   Never: reach filters.

local ffi = require "ffi"

local ABI = 1

local header = moongate_embedded("lua/moongate_ffi.h")
ffi.cdef((header:gsub("#pragma once", "", 1)))

local C = ffi.C
if C.MG_ABI ~= ABI then
  error(("the Lua files are for ABI %d, the executable has %d"):format(ABI, tonumber(C.MG_ABI)))
end

--- Makes what a further header declares known as well (output_ffi.h: only where exchanges of the journal go out).
local function declare(name)
  ffi.cdef((moongate_embedded("lua/" .. name):gsub("#pragma once", "", 1)))
end


local REQUEST, RESPONSE = ffi.typeof("struct mg_request *"), ffi.typeof("struct mg_response *")
local EXCHANGE = ffi.typeof("struct mg_exchange *")


--- The exchange behind a handle of any kind. Whatever else it is given is refused: a number, say, that a filter wants
-- taken for the handle of an exchange that is not its own.
-- @param method what was called, for the message
local function exchange_of(handle, method)
  if not (ffi.istype(REQUEST, handle) or ffi.istype(RESPONSE, handle) or ffi.istype(EXCHANGE, handle)) then
    error(("%s: called on a %s, not on a handle"):format(method, type(handle)), 3)
  end
  return ffi.cast(EXCHANGE, handle)
end


return {
  C = C,
  declare = declare,
  exchange_of = exchange_of,
  cast = ffi.cast,
  gc = ffi.gc,
  metatype = ffi.metatype,
  new = ffi.new,
  string = ffi.string,
  typeof = ffi.typeof,
  length = ffi.new("int[1]"), -- where C puts the length of a text, or an error below zero
}
