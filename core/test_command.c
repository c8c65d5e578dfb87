/* test_command.c - a lua_State with the test kit, and busted in it.
 * Owns: the lua_State of this process.   May call: script, kit.   Never: know a spec.   Thread: the main thread. */
#include "test_command.h"

#include <stdio.h>

#include "cli.h"
#include "kit.h"
#include "log.h"
#include "mem.h"
#include "script.h"

int mg_test_main(int argc, char **argv)
{
  lua_State *L = mg_script_open();
  if (!L) {
    fprintf(stderr, "moongate: cannot start Lua\n");
    return MG_EXIT_FAILED;
  }
  mg_log_setup(MG_LOG_ERROR, "test");
  mg_kit_install(L);
  struct mg_buf output = {0}, error = {0};
  int code = MG_EXIT_DONE;
  if (mg_script_run_command(L, "test_runner", argc - 1, argv + 1, &code, &output, &error) != 0) {
    fprintf(stderr, "moongate test: %.*s\n", (int)error.len, error.ptr);
    code = MG_EXIT_FAILED;
  }
  mg_kit_close(L);
  lua_close(L);
  mg_buf_free(&output);
  mg_buf_free(&error);
  return code;
}
