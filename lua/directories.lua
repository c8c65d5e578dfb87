--- directories.lua - directories whose files filters answer with.
--
-- A filter names a directory in its init; what it opens later lies below it. Files go out without passing through Lua.
-- Owns: moongate.directory and its methods.   May call: ffi.   Never: read a file's bytes.

local ffi = require "moongate.ffi"
local handles = require "moongate.handles"

local C = ffi.C
local length = ffi.length
local directories = {}
local Directory = {}
local METATABLE = { __index = Directory, __metatable = false } -- of its own: the methods are out of the filters' reach

local FAILURES = {
  [C.MG_FOUND_NONE] = "none", [C.MG_FOUND_REFUSED] = "refused", [C.MG_FOUND_GONE] = "gone",
  [C.MG_FOUND_BUSY] = "busy",
}

local paths = setmetatable({}, { __mode = "k" }) -- directory → { path, follow }, out of the filters' reach


--- A directory, which must be there.
-- @param options.follow_symlinks true: links below it are followed, wherever they lead
function directories.open(path, options)
  if type(path) ~= "string" or path == "" or path:find("%z") then error("moongate.directory: the path is a text", 2) end
  if C.mg_directory_exists(path) == 0 then error(("%s is not a directory"):format(path), 2) end
  local directory = setmetatable({}, METATABLE)
  paths[directory] = { path = path, follow = options and options.follow_symlinks and 1 or 0 }
  return directory
end


local function own(directory)
  return paths[directory] or error("not a directory of moongate.directory", 3)
end


--- Opens what is at path, relative to the directory.
-- @return "file", its size, its time of change in milliseconds since 1970; "directory"; or nil and "none" (also for
--   what is neither, and behind links that are not followed), "refused", "gone" (the directory itself) or "busy"
-- @phases request
function Directory:open(req, path)
  local at = own(self)
  local found = C.mg_request_open_file(req, at.path, path, #path, at.follow)
  if found < 0 then error("open: not possible in this phase", 2) end
  if found == C.MG_FOUND_DIRECTORY then return "directory" end
  if found ~= C.MG_FOUND_FILE then return nil, FAILURES[found] end
  return "file", C.mg_request_file_size(req), C.mg_request_file_mtime(req)
end


--- Answers with size bytes from first (0 is the first of all) of the file that open has found last.
-- @param headers as of respond
-- @phases request
function Directory:send(req, status, first, size, headers)
  own(self)
  local code = C.mg_request_send_file(req, status, first, size)
  if code == C.MG_LUA_NOMEM then error("send: filters read this answer, and it is too large to be held", 2) end
  if code < 0 then error("send: no file is open, or it has been answered before", 2) end
  handles.add_answer_headers(req, headers)
  return true
end


--- The names in the directory at path, those of directories with a slash behind; sorted, directories first.
-- @phases request
function Directory:list(req, path)
  local at = own(self)
  local text = C.mg_request_list_directory(req, at.path, path, #path, at.follow, length)
  if text == nil and length[0] < 0 then error("list: too many names", 2) end
  local names = {}
  for name in (text ~= nil and ffi.string(text, length[0]) or ""):gmatch("[^\n]+") do names[#names + 1] = name end
  table.sort(names, function(a, b)
    local a_is, b_is = a:byte(-1) == 47, b:byte(-1) == 47
    if a_is ~= b_is then return a_is end
    return a < b
  end)
  return names
end


return directories
