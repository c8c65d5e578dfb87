--- support.lua - what the specs of lua/ share: the modules under their names, files from memory, loaded configurations.
local support = {}


--- moongate.NAME is lua/NAME.lua of this working tree, as it is in the executable.
local function find_module(name)
  local file = name:match("^moongate%.([%w_]+)$")
  if not file then return nil end
  return assert(loadfile("lua/" .. file .. ".lua"))
end

table.insert(package.loaders, 2, find_module)


function support.file(path)
  local file = io.open(path, "rb")
  if not file then return nil, "No such file or directory" end
  local bytes = file:read("*a")
  file:close()
  return bytes
end


--- A function that reads from a table of path → bytes, and built-in filters from the working tree.
function support.reader(files)
  return function(path)
    local embedded = path:match("^embedded:(.*)$")
    if embedded then return support.file(embedded) end
    if files[path] then return files[path] end
    return nil, "No such file or directory"
  end
end


--- Options for conf.load_*: files from memory, variables from a table.
function support.options(files, variables)
  return {
    read = support.reader(files),
    getenv = function(name) return (variables or {})[name] end,
    search = { "rocks/?.lua" },
  }
end


--- Loads a routes file whose text is given. files: other files; name: routes.yaml unless given.
function support.routes(text, files, variables, name)
  local all = { [name or "routes.yaml"] = text }
  for path, bytes in pairs(files or {}) do all[path] = bytes end
  return require("moongate.conf").load_routes(name or "routes.yaml", support.options(all, variables))
end


--- The faults of a routes file as one text.
function support.faults(...)
  local loaded, lines = support.routes(...)
  assert(not loaded, "the file was accepted")
  return table.concat(lines, "\n")
end


return support
