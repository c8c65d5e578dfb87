/* script.h - lua_States: the embedded modules, protected calls on pooled coroutines, failures as text.
 *
 * The only door from C into Lua. No Lua error passes through C code of ours: every call is protected, and its
 * failure is a value.
 * Thread: one per lua_State at a time. */
#pragma once

#include <lua.h>
#include <stdint.h>

#include "err.h"
#include "mem.h"
#include "script_memory.h"
#include "watchdog.h"

enum { MG_COROUTINES_MAX = 256 };

/** A lua_State and its idle coroutines. */
struct mg_script {
  lua_State *L;
  lua_State *idle[MG_COROUTINES_MAX]; /* anchored in the registry */
  int refs[MG_COROUTINES_MAX];
  unsigned idle_count;
  struct mg_watchdog *watchdog; /* that limits its calls; NULL for none */
  unsigned kills;               /* how often the last call, or a filter in it, was ended for its length */
  struct mg_script_memory memory;
  bool borrowed; /* the state outlives this */
};

/** A call that has yielded. */
struct mg_coroutine {
  lua_State *L;
  int ref;
};

/** A state with Lua's libraries and the embedded modules under `moongate.*` (from $MOONGATE_LUA_PATH instead, where
 * that is set). NULL when memory is short. */
lua_State *mg_script_open(void);

/** Runs require("moongate." .. module).main(argv): its first result is *code, its second, if a string, is appended
 * to output. 0, or MG_ESCRIPT with a message in error. */
int mg_script_run_command(lua_State *L, const char *module, int argc, char **argv, int *code, struct mg_buf *output,
                          struct mg_buf *error);

/** Calls the function behind ref with one number, on a pooled coroutine. MG_OK; MG_EAGAIN_LATER when it yielded
 * (*waiting is then the caller's to resume or drop, and what it yielded is on waiting->L's stack); MG_ESCRIPT with
 * a message in error. */
int mg_script_call(struct mg_script *script, int ref, double argument, struct mg_coroutine *waiting,
                   struct mg_buf *error);
/** Goes on with a call that waited. As mg_script_call. */
int mg_script_resume(struct mg_script *script, struct mg_coroutine *waiting, struct mg_buf *error);
/** Calls the function behind ref with a number and an index; 1 or 0 by the truth of its result, or MG_ESCRIPT. It
 * may not yield. */
int mg_script_ask(struct mg_script *script, int ref, double argument, unsigned index, struct mg_buf *error);
/** What to add to a filter's error message that misses what the sandbox does not have; "" mostly. */
const char *mg_script_hint(const char *message);
/** What a call waits for, by what it yielded: ("sleep", milliseconds), or ("job"), ("call") for one that it has
 * prepared. */
enum mg_wait { MG_WAIT_NOTHING, MG_WAIT_SLEEP, MG_WAIT_JOB, MG_WAIT_CALL };
enum mg_wait mg_coroutine_waits(const struct mg_coroutine *waiting, double *milliseconds);
/** Drops a call that waited. */
void mg_script_drop(struct mg_script *script, struct mg_coroutine *waiting);

void mg_script_close(struct mg_script *script);
