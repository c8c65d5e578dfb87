--- test_runner.lua - `moongate test`: busted with the gateway's own modules on the path.
--
-- Owns: how busted is started.   May call: busted.   Never: know a spec.

local test_runner = {}


--- Runs busted on the arguments; it ends the process with its own exit code, 0 when every spec passed.
-- @return 1 and nothing to print, when busted is not there
function test_runner.main(arguments)
  local found, runner = pcall(require, "busted.runner")
  if not found then
    io.stderr:write("moongate test: busted is not installed for Lua 5.1 (luarocks install busted): ",
      tostring(runner):match("^[^\n]*"), "\n")
    return 1
  end
  -- busted reads the global; the interpreter is this one, whatever .busted says
  rawset(_G, "arg", { [0] = "moongate test", "--ignore-lua", unpack(arguments) })
  local ok, why = pcall(runner, { standalone = false })
  if not ok and why then error(why, 0) end
  return ok and 0 or 1 -- without a reason: what failed has been printed
end


return test_runner
