/* watchdog.h - ends calls into Lua that take too long, also where LuaJIT has compiled them.
 *
 * A timer on the loop thread's own processor time interrupts it every few milliseconds while it is busy, so an idle
 * worker pays nothing. What it finds running past the limit gets a count hook, which raises at the next instruction
 * and again after every pcall, until control is back in C. Compiled code does not look at hooks; it does leave its
 * trace for the line-mode profiler, which therefore runs on one VM, the newest generation's. Older ones are
 * interpreted.
 * Not ended: one long call of a C function; those that scripts reach are bounded.
 * Thread: the loop's. One per process, as LuaJIT's profiler is. */
#pragma once

#include <lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** Code of ours that a kill does not reach: a chunk of this name has caught it on behalf of `on_error: continue`, and
 * the call goes on with a fresh limit. Scripts cannot give a chunk this name. */
#define MG_WATCHDOG_FORGIVES "=(on_error: continue)"

struct mg_watchdog {
  volatile uint64_t call; /* odd while Lua runs, one more at each door: a late tick cannot hit the next call */
  lua_State *L;           /* whose VM it runs in */
  volatile bool armed;    /* the hook is set */
  bool raised;            /* and has raised */
  bool starved;           /* for memory, not for its length */
  unsigned kills;         /* in this call */
  uint64_t seen_call;     /* what the last tick found */
  uint64_t seen_ns;       /* when it did for the first time */
  uint64_t limit_ns;
  lua_State *profiled; /* the VM whose compiled code can be interrupted; NULL for none */
  void *timer;         /* timer_t */
  bool ticking;
};

/** Starts the timer of the calling thread, which becomes the only one that runs Lua under watch. limit_ms 0: no limit.
 * 0 or MG_EINTERNAL. */
int mg_watchdog_open(struct mg_watchdog *watchdog, uint64_t limit_ms);

/** Turns L's compiler on and makes its compiled code interruptible; the VM before it is interpreted from now on. L
 * NULL: none. */
void mg_watchdog_profile(struct mg_watchdog *watchdog, lua_State *L);

/** Forgets L's VM, which is about to be closed. */
void mg_watchdog_forget(struct mg_watchdog *watchdog, lua_State *L);

void mg_watchdog_close(struct mg_watchdog *watchdog);

/** Ends the call that runs, for wanting more memory than it may have. For an allocator, which cannot raise from
 * compiled code. */
void mg_watchdog_starve(struct mg_watchdog *watchdog);

/** The slow part of mg_watchdog_leave. */
void mg_watchdog_disarm(struct mg_watchdog *watchdog);

/** Lua begins to run in L's VM. */
static inline void mg_watchdog_enter(struct mg_watchdog *watchdog, lua_State *L)
{
  watchdog->L = L;
  watchdog->kills = 0;
  atomic_signal_fence(memory_order_seq_cst);
  watchdog->call++;
}

/** Control is back in C. How often the call, or a filter in it, was ended. */
static inline unsigned mg_watchdog_leave(struct mg_watchdog *watchdog)
{
  watchdog->call++;
  atomic_signal_fence(memory_order_seq_cst);
  if (watchdog->armed) mg_watchdog_disarm(watchdog);
  return watchdog->kills;
}
