--- output_files.lua - where outputs write: a stream (the standard output or one file), or files that roll.
--
-- Owns: names, rolling, what becomes of files that an earlier run left open. What is appended to :buffer() goes out at
-- the next :ready() or :flush(); a write that fails loses nothing, it is tried again.
-- Faults of the world are nil and a sentence; nil and "closed" when nobody reads any more.
-- May call: C's output functions.   Never: lose what was taken.

local ffi = require "moongate.ffi"
require "moongate.output_view" -- declares C's output functions

local C, gc = ffi.C, ffi.gc

local files = {}

local WAITING_BYTES = 65536
local EPIPE, EAGAIN = 32, 11

local error_code = ffi.new("int[1]")


local function sentence(doing, path, code)
  if code == -EPIPE and not path then return nil, "closed" end
  return nil, ("cannot %s %s: %s"):format(doing, path or "the standard output", ffi.string(C.mg_out_error(code)))
end


--- A new buffer of C's, freed with the last reference.
function files.buffer()
  return gc(C.mg_out_buffer(), C.mg_out_buffer_free)
end


--- What is in a buffer, as a string.
function files.text(buf)
  return ffi.string(C.mg_out_bytes(buf), C.mg_out_size(buf))
end


-- ---- a stream ----

local Stream = {}
Stream.__index = Stream


--- @param path a file, which is gone on with when it is there; "stdout" or nil: the standard output
function files.stream(path)
  if path == "stdout" then path = nil end
  local file = C.mg_out_file_open(path, false, error_code)
  if file == nil then return sentence("write", path, error_code[0]) end
  return setmetatable({ file = file, path = path or false, buf = C.mg_out_file_buffer(file), mark = 0 }, Stream)
end


--- A stream into a file of which nothing that was there is kept.
function files.fresh(path)
  local stream, why = files.stream(path)
  if not stream then return nil, why end
  local code = C.mg_out_file_cut(stream.file, 0)
  if code ~= 0 then return sentence("empty", path, code) end
  return stream
end


--- Writes what waits, if it has become much. @param before function called first, or nil; true, or nil and why
local function push_much(self, path, before)
  if C.mg_out_size(self.buf) < WAITING_BYTES then return true end
  if before then
    local done, why = before()
    if not done then return nil, why end
  end
  local code = C.mg_out_file_push(self.file)
  if code ~= 0 then return sentence("write", path, code) end
  return true
end


--- The buffer to append an exchange to; first what waits is written, if it has become much.
-- @param before called before that: what is written may name what must be there by then; nil: nothing is
function Stream:ready(before)
  local done, why = push_much(self, self.path, before)
  self.mark = C.mg_out_size(self.buf)
  if not done then return nil, why end
  return self.buf
end


--- Takes back what was appended since the last :ready(); nothing when that has failed.
function Stream:undo()
  if self.buf then C.mg_out_shorten(self.buf, self.mark) end
  return true
end


--- Hands on what was appended; durable: to the disk.
function Stream:flush(durable)
  local code = durable and C.mg_out_file_sync(self.file) or not durable and C.mg_out_file_push(self.file) or 0
  if code ~= 0 then return sentence("write", self.path, code) end
  return true
end


--- @param name what the file is renamed to; nil: nothing
function Stream:close(name)
  local code = C.mg_out_file_close(self.file, name)
  if code == 0 then return true end
  C.mg_out_file_drop(self.file, false)
  return sentence("write", self.path, code)
end


-- ---- files that roll ----

local Rolling = {}
Rolling.__index = Rolling


local function escaped(text) return (text:gsub("%W", "%%%0")) end


--- Where the last line ends. @param bytes a pointer; @param len how many
function files.last_line(bytes, len)
  for i = tonumber(len) - 1, 0, -1 do
    if bytes[i] == 10 then return i + 1 end
  end
  return 0
end


--- Cuts a file that was left open behind what is whole in it, and gives it its name.
local function recover_one(self, path)
  local file = C.mg_out_file_open(path, false, error_code)
  if file == nil then
    if error_code[0] == -EAGAIN then return true end -- another process writes there
    return sentence("open", path, error_code[0])
  end
  local length = ffi.new("size_t[1]")
  local bytes = C.mg_out_file_map(file, length, error_code)
  if error_code[0] ~= 0 then
    C.mg_out_file_drop(file, false)
    return sentence("read", path, error_code[0])
  end
  local keep = 0
  local name = path:gsub("%.open$", "")
  if bytes ~= nil then
    keep = self.options.recover(bytes, tonumber(length[0]), name)
    C.mg_out_file_unmap(bytes, length[0])
  end
  if keep == 0 then
    C.mg_out_file_drop(file, true)
    return true
  end
  local code = C.mg_out_file_cut(file, keep)
  if code == 0 then code = C.mg_out_file_close(file, name) end
  if code ~= 0 then
    C.mg_out_file_drop(file, false)
    return sentence("repair", path, code)
  end
  return true
end


local function recover(self)
  local options, names = self.options, files.buffer()
  local code = C.mg_out_folder_list(options.folder, names)
  if code ~= 0 then return sentence("read", options.folder, code) end
  local pattern = ("^%s%%-%%d+%%-[%%x%%-]+%s%%.open$"):format(escaped(options.prefix), escaped(options.suffix))
  for name in files.text(names):gmatch("%Z+") do
    if name:find(pattern) then
      local done, why = recover_one(self, options.folder .. "/" .. name)
      if not done then return nil, why end
    end
  end
  return true
end


--- Files `<prefix>-<ms>-<uuid><suffix>`, with ".open" behind it while they are written.
-- @param options folder, prefix, suffix, max_size (bytes), max_age (ms);
--   recover(bytes, len, name) → how much of a file that was left open is whole, 0: nothing;
--   begin(buf, name): what a file begins with, or nil; sealing(name) → true, or nil and why, before it gets its name
function files.rolling(options)
  local code = C.mg_out_folder_make(options.folder)
  if code ~= 0 then return sentence("write to", options.folder, code) end
  local self = setmetatable({ options = options, file = false, buf = false, mark = 0, name = false, born = 0,
    empty = 0 }, Rolling)
  local done, why = recover(self)
  if not done then return nil, why end
  return self
end


local function begin(self)
  local options, unique = self.options, files.buffer()
  C.mg_out_uuid(unique)
  self.born = C.mg_out_now()
  local name = ("%s-%.0f-%s%s"):format(options.prefix, math.floor(self.born / 1000), files.text(unique), options.suffix)
  local path = options.folder .. "/" .. name
  local file = C.mg_out_file_open(path .. ".open", true, error_code)
  if file == nil then return sentence("make", path .. ".open", error_code[0]) end
  self.file, self.buf, self.name, self.path = file, C.mg_out_file_buffer(file), name, path
  if options.begin then options.begin(self.buf, name) end
  self.empty = C.mg_out_file_size(file)
  return true
end


--- Seals the file that is open, if there is one: an empty one is removed.
local function seal(self)
  if not self.file then return true end
  local options = self.options
  if C.mg_out_file_size(self.file) <= self.empty then
    C.mg_out_file_drop(self.file, true)
  else
    local code = C.mg_out_file_sync(self.file)
    if code ~= 0 then return sentence("write", self.path .. ".open", code) end
    if options.sealing then
      local done, why = options.sealing(self.path)
      if not done then return nil, why end
    end
    code = C.mg_out_file_close(self.file, self.path)
    if code ~= 0 then return sentence("name", self.path, code) end
  end
  self.file, self.buf = false, false
  return true
end


local function is_due(self)
  local options, size = self.options, C.mg_out_file_size(self.file)
  if size <= self.empty then return false end
  return size >= options.max_size or C.mg_out_now() - self.born >= options.max_age * 1000
end


--- Rolls when that is due, and writes what waits when it is much.
local function make_ready(self, before)
  if self.file and is_due(self) then
    local done, why = true, nil
    if before then done, why = before() end
    if done then done, why = seal(self) end
    if not done then return nil, why end
  end
  if not self.file then return begin(self) end
  return push_much(self, self.path .. ".open", before)
end


--- The buffer to append an exchange to: of a new file when the old one is full or old. before: as of a stream's.
function Rolling:ready(before)
  local done, why = make_ready(self, before)
  if self.buf then self.mark = C.mg_out_size(self.buf) end
  if not done then return nil, why end
  return self.buf
end


Rolling.undo = Stream.undo


--- Where the next byte will stand in the file.
function Rolling:offset()
  return C.mg_out_file_size(self.file)
end


function Rolling:flush(durable)
  if not self.file then return true end
  local code = durable and C.mg_out_file_sync(self.file) or not durable and C.mg_out_file_push(self.file) or 0
  if code ~= 0 then return sentence("write", self.path .. ".open", code) end
  if is_due(self) then return seal(self) end
  return true
end


function Rolling:close()
  return seal(self)
end


return files
