/* script_memory.h - a bound on what a lua_State may hold.
 *
 * Counts around LuaJIT's own allocator. The bound holds only while scripts run: what C does with a state outside of a
 * protected call cannot fail. A script that wants more is ended with "not enough memory": by a failed allocation
 * where nothing is compiled, else by the watchdog at its next line, because LuaJIT does not survive every such
 * failure inside of compiled code. Afterwards all that is unreachable is collected, and a state that stays full is
 * worn: its owner should replace it.
 * Thread: the state's. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "watchdog.h"

struct mg_script_memory {
  lua_Alloc alloc; /* LuaJIT's */
  void *context;   /* its own */
  size_t used;     /* since mg_script_memory_watch */
  size_t max;
  struct mg_watchdog *watchdog; /* that ends a script which wants more; NULL where nothing is compiled */
  size_t check_at;              /* more than this is looked at once no script runs */
  bool limited;                 /* a script runs */
  bool exceeded;                /* one wanted more than max */
  bool worn;                    /* three quarters are in use, and reachable */
};

/** Counts L's memory from now on. memory lives at least until mg_script_memory_leave. max 0: no bound. */
void mg_script_memory_watch(struct mg_script_memory *memory, lua_State *L, size_t max);

/** Gives L its own allocator back, for lua_close. */
void mg_script_memory_leave(struct mg_script_memory *memory, lua_State *L);

/** Collects what is unreachable and judges the rest; the slow part of mg_script_memory_check. */
void mg_script_memory_collect(struct mg_script_memory *memory, lua_State *L);

/** After a script has run. */
static inline void mg_script_memory_check(struct mg_script_memory *memory, lua_State *L)
{
  if (memory->used > memory->check_at || memory->exceeded) mg_script_memory_collect(memory, L);
}
