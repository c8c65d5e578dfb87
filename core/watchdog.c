/* watchdog.c - the timer, the hook and the profiler of watchdog.h.
 * Owns: SIGVTALRM, SIGPROF, the timer, the hook of the VM that runs.   May call: Lua C API, libc.
 * Never: touch a VM from another thread, unwind what is not Lua.   Thread: the loop's, its signal handler included. */
#include "watchdog.h"

#include <errno.h>
#include <luajit.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "err.h"
#include "log.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Signals and hooks bring no argument along. Set by the one watchdog of this process. */
static struct mg_watchdog *bound;

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now); /* may be called from a signal handler */
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the hook --------------------------------------------------------------------------------- */

static void set_hook(struct mg_watchdog *watchdog, lua_Hook hook)
{
  lua_sethook(watchdog->L, hook, hook ? LUA_MASKCOUNT : 0, hook ? 1 : 0);
}

void mg_watchdog_disarm(struct mg_watchdog *watchdog)
{
  watchdog->armed = false;
  watchdog->raised = false;
  watchdog->starved = false;
  set_hook(watchdog, NULL);
}

/* Code that runs for on_error: continue has a kill behind it: the rest of the call gets its own time. */
static void forgive(struct mg_watchdog *watchdog)
{
  if (watchdog->starved) lua_gc(watchdog->L, LUA_GCCOLLECT, 0);
  watchdog->seen_ns = now_ns();
  atomic_signal_fence(memory_order_seq_cst);
  mg_watchdog_disarm(watchdog);
}

static void on_instruction(lua_State *L, lua_Debug *frame)
{
  struct mg_watchdog *watchdog = bound;
  if (!watchdog->armed || !lua_getinfo(L, "Sl", frame)) return;
  if (strcmp(frame->source, MG_WATCHDOG_FORGIVES) == 0) {
    if (watchdog->raised) forgive(watchdog);
    return;
  }
  int limit_ms = (int)(watchdog->limit_ns / 1000000);
  if (!watchdog->raised) watchdog->kills++;
  watchdog->raised = true;
  const char *text = watchdog->starved ? lua_pushfstring(L, "not enough memory (scripts.max_memory)")
                                       : lua_pushfstring(L, "ended after scripts.max_call_time (%d ms)", limit_ms);
  if (frame->currentline > 0) lua_pushfstring(L, "%s:%d: %s", frame->short_src, frame->currentline, text);
  lua_error(L);
}

void mg_watchdog_starve(struct mg_watchdog *watchdog)
{
  if (!(watchdog->call & 1)) return;
  watchdog->starved = true;
  watchdog->armed = true;
  set_hook(watchdog, on_instruction);
  if (watchdog->profiled == watchdog->L) raise(SIGPROF); /* compiled code sees the profiler's tick at its next line */
}

/* Repeated at every tick while the call is late: setting a hook races with LuaJIT's own changes of the same flags in
 * the code this interrupts, and what is lost once is set the next time. */
static void on_tick(int signal_number)
{
  (void)signal_number;
  struct mg_watchdog *watchdog = bound;
  int saved = errno;
  uint64_t call = watchdog ? watchdog->call : 0;
  if (call & 1) {
    uint64_t now = now_ns();
    if (call != watchdog->seen_call) {
      watchdog->seen_call = call;
      watchdog->seen_ns = now;
    } else if (now - watchdog->seen_ns >= watchdog->limit_ns) {
      watchdog->armed = true;
      set_hook(watchdog, on_instruction);
    }
  }
  errno = saved;
}

/* --- the timer -------------------------------------------------------------------------------- */

enum { TICK_MS_MAX = 10 };

static int start_timer(struct mg_watchdog *watchdog, uint64_t limit_ms)
{
  uint64_t tick_ms = limit_ms / 10 ? limit_ms / 10 : 1;
  if (tick_ms > TICK_MS_MAX) tick_ms = TICK_MS_MAX;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
  event.sigev_notify_thread_id = gettid();
  const struct timespec tick = {.tv_nsec = (long)tick_ms * 1000000};
  const struct itimerspec period = {.it_interval = tick, .it_value = tick};
  timer_t timer;
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer)) return MG_EINTERNAL;
  watchdog->timer = timer;
  watchdog->ticking = true;
  return timer_settime(timer, 0, &period, NULL) ? MG_EINTERNAL : 0;
}

int mg_watchdog_open(struct mg_watchdog *watchdog, uint64_t limit_ms)
{
  MG_ASSERT(!bound);
  *watchdog = (struct mg_watchdog){.limit_ns = limit_ms * 1000000};
  signal(SIGPROF, SIG_IGN); /* what the profiler goes back to when it stops: a last tick must not end the process */
  bound = watchdog;
  if (!limit_ms) return 0;
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGPROF);
  if (sigaction(SIGVTALRM, &action, NULL)) return MG_EINTERNAL;
  return start_timer(watchdog, limit_ms);
}

void mg_watchdog_close(struct mg_watchdog *watchdog)
{
  mg_watchdog_profile(watchdog, NULL);
  if (watchdog->ticking) timer_delete(watchdog->timer);
  watchdog->ticking = false;
  signal(SIGVTALRM, SIG_IGN);
  bound = NULL;
}

/* --- the profiler ----------------------------------------------------------------------------- */

/* What the profiler would report is of no interest; that traces leave for it is. */
static void on_sample(void *data, lua_State *L, int samples, int state)
{
  (void)data, (void)L, (void)samples, (void)state;
}

void mg_watchdog_profile(struct mg_watchdog *watchdog, lua_State *L)
{
  lua_State *before = watchdog->profiled;
  if (before) {
    luaJIT_profile_stop(before); /* also flushes its traces */
    luaJIT_setmode(before, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  }
  watchdog->profiled = L;
  if (!L) return;
  luaJIT_profile_start(L, "li10", on_sample, NULL);
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
}

void mg_watchdog_forget(struct mg_watchdog *watchdog, lua_State *L)
{
  if (watchdog->profiled == L) mg_watchdog_profile(watchdog, NULL);
  if (watchdog->L == L) watchdog->L = NULL;
}
