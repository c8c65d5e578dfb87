/* builder.c - a lua_State, a watchdog and the bundle's way out.
 * Owns: the lua_State of this process, the watchdog thread.
 * May call: mem, cli, script, kit, the Lua C API, libc.   Never: serve traffic, outlive the master that asked for a
 * bundle.
 * Thread: main; the watchdog only reads its struct and arms a hook. */
#include "builder.h"

#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "kit.h"
#include "mem.h"
#include "script.h"

enum { PROGRESS_SIZE = 512, LIMIT_DEFAULT_MS = 5000, HOOK_PATIENCE_MS = 500, ARGUMENTS_MAX = 24 + MG_WORDS_MAX };

struct watchdog {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  lua_State *L;
  struct timespec started;
  long limit_ms;
  bool finished;
  lua_Alloc alloc; /* LuaJIT's, with its context */
  void *alloc_context;
  size_t used, max;             /* bytes of L; max 0: not known yet */
  char progress[PROGRESS_SIZE]; /* what runs now, in the Lua side's words: "loading filters/x.lua" */
};

static struct timespec after(struct timespec start, long ms)
{
  start.tv_sec += ms / 1000;
  start.tv_nsec += ms % 1000 * 1000000;
  if (start.tv_nsec >= 1000000000) {
    start.tv_sec++;
    start.tv_nsec -= 1000000000;
  }
  return start;
}

static struct watchdog *watchdog_of(lua_State *L)
{
  lua_getfield(L, LUA_REGISTRYINDEX, "moongate.watchdog");
  struct watchdog *dog = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return dog;
}

/* Says which bound was passed, "longer than 5000 ms (scripts.max_load_time)", and ends the process. */
__attribute__((noreturn)) static void end_loading(struct watchdog *dog, const char *bound, const char *where)
{
  pthread_mutex_lock(&dog->lock);
  fprintf(stderr, "loading took %s and was ended; in progress: %s%s%s\n", bound,
          dog->progress[0] ? dog->progress : "reading the configuration", where ? ", at " : "", where ? where : "");
  fflush(NULL);
  _exit(MG_EXIT_FAILED);
}

__attribute__((noreturn)) static void give_up(struct watchdog *dog, const char *where)
{
  char bound[64];
  snprintf(bound, sizeof bound, "longer than %ld ms (scripts.max_load_time)", dog->limit_ms);
  end_loading(dog, bound, where);
}

/* Loading is to be bounded like everything else that runs scripts; here a process can simply end. */
static void *count_memory(void *context, void *block, size_t old_size, size_t new_size)
{
  struct watchdog *dog = context;
  if (dog->max && new_size > old_size && dog->used + (new_size - old_size) > dog->max) {
    char bound[96];
    snprintf(bound, sizeof bound, "more than %zu MB of memory (twice scripts.max_memory)", dog->max >> 20);
    end_loading(dog, bound, NULL);
  }
  void *result = dog->alloc(dog->alloc_context, block, old_size, new_size);
  if (result || !new_size) dog->used += new_size - old_size;
  return result;
}

/* Runs in Lua's thread once the limit has passed: here the line is known. */
static void on_limit(lua_State *L, lua_Debug *unused)
{
  (void)unused;
  lua_Debug at;
  char where[PROGRESS_SIZE];
  for (int level = 0; lua_getstack(L, level, &at); level++) {
    if (!lua_getinfo(L, "Sl", &at) || at.currentline <= 0) continue;
    snprintf(where, sizeof where, "%s:%d", at.short_src, at.currentline);
    give_up(watchdog_of(L), where);
  }
  give_up(watchdog_of(L), NULL);
}

static void *watch(void *context)
{
  struct watchdog *dog = context;
  sigset_t all; /* the profiler's signal is for the thread that runs Lua */
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  pthread_mutex_lock(&dog->lock);
  while (!dog->finished) {
    struct timespec deadline = after(dog->started, dog->limit_ms);
    if (pthread_cond_timedwait(&dog->changed, &dog->lock, &deadline) == ETIMEDOUT && !dog->finished) {
      lua_sethook(dog->L, on_limit, LUA_MASKCOUNT, 1);
      deadline = after(dog->started, dog->limit_ms + HOOK_PATIENCE_MS);
      while (!dog->finished && pthread_cond_timedwait(&dog->changed, &dog->lock, &deadline) != ETIMEDOUT) continue;
      if (dog->finished) break;
      pthread_mutex_unlock(&dog->lock);
      give_up(dog, NULL); /* inside one C function all this time: no hook runs there */
    }
  }
  pthread_mutex_unlock(&dog->lock);
  return NULL;
}

/* moongate_progress(text) */
static int progress(lua_State *L)
{
  struct watchdog *dog = watchdog_of(L);
  const char *text = luaL_checkstring(L, 1);
  pthread_mutex_lock(&dog->lock);
  snprintf(dog->progress, sizeof dog->progress, "%s", text);
  pthread_mutex_unlock(&dog->lock);
  return 0;
}

/* moongate_load_limit(ms, bytes): bytes is what a worker's scripts may hold. Files with the positions of all that
 * stands in them need more than what a worker makes of them: twice of it is granted. */
static int load_limit(lua_State *L)
{
  struct watchdog *dog = watchdog_of(L);
  lua_Number ms = luaL_checknumber(L, 1), bytes = luaL_checknumber(L, 2);
  luaL_argcheck(L, ms >= 1 && ms <= 86400000, 1, "milliseconds expected");
  luaL_argcheck(L, bytes >= 1 && bytes <= 1e15, 2, "bytes expected");
  dog->max = (size_t)bytes * 2;
  pthread_mutex_lock(&dog->lock);
  dog->limit_ms = (long)ms;
  pthread_cond_signal(&dog->changed);
  pthread_mutex_unlock(&dog->lock);
  return 0;
}

static int watchdog_start(struct watchdog *dog, lua_State *L, long limit_ms)
{
  pthread_condattr_t clock;
  *dog = (struct watchdog){.L = L, .limit_ms = limit_ms};
  pthread_mutex_init(&dog->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&dog->changed, &clock);
  pthread_condattr_destroy(&clock);
  clock_gettime(CLOCK_MONOTONIC, &dog->started);
  dog->used = (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  dog->alloc = lua_getallocf(L, &dog->alloc_context);
  lua_setallocf(L, count_memory, dog);
  lua_pushlightuserdata(L, dog);
  lua_setfield(L, LUA_REGISTRYINDEX, "moongate.watchdog");
  lua_pushcfunction(L, progress);
  lua_setglobal(L, "moongate_progress");
  lua_pushcfunction(L, load_limit);
  lua_setglobal(L, "moongate_load_limit");
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF); /* compiled code would not see the hook */
  return pthread_create(&dog->thread, NULL, watch, dog);
}

static void watchdog_stop(struct watchdog *dog)
{
  pthread_mutex_lock(&dog->lock);
  dog->finished = true;
  pthread_cond_signal(&dog->changed);
  pthread_mutex_unlock(&dog->lock);
  pthread_join(dog->thread, NULL);
  pthread_cond_destroy(&dog->changed);
  pthread_mutex_destroy(&dog->lock);
}

static int write_bundle(int fd, const char *bytes, size_t len)
{
  while (len) {
    ssize_t written = write(fd, bytes, len);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fprintf(stderr, "moongate check: cannot write the bundle: %s\n", strerror(errno));
      return MG_EXIT_FAILED;
    }
    bytes += written;
    len -= (size_t)written;
  }
  return MG_EXIT_DONE;
}

/* What Lua is told: the options as given, with the files that C has chosen. */
static int list_arguments(const struct mg_options *options, char numbers[4][24], char *out[ARGUMENTS_MAX])
{
  int count = 0;
  const struct {
    const char *name;
    const char *text;
    long number;
  } given[] = {
      {"--routes", options->routes, MG_UNSET},
      {"--server", options->server, MG_UNSET},
      {"--host", options->host, MG_UNSET},
      {"--port", NULL, options->port},
      {"--client", options->client, MG_UNSET},
      {"--workers", NULL, options->workers},
      {"--management-port", NULL, options->management_port},
      {"--bundle-fd", NULL, options->bundle_fd},
  };
  int number = 0;
  for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
    if (!given[i].text && given[i].number == MG_UNSET) continue;
    out[count++] = (char *)given[i].name;
    if (given[i].text) {
      out[count++] = (char *)given[i].text;
      continue;
    }
    snprintf(numbers[number], sizeof numbers[number], "%ld", given[i].number);
    out[count++] = numbers[number++];
  }
  if (options->markdown) out[count++] = (char *)"--markdown";
  if (options->word_count) out[count++] = (char *)"--";
  for (unsigned i = 0; i < options->word_count; i++) out[count++] = (char *)options->words[i];
  return count;
}

int mg_builder_main(const char *module, unsigned more, int argc, char **argv)
{
  struct mg_options options;
  char numbers[4][24], *arguments[ARGUMENTS_MAX];
  int code = mg_cli_parse(&options, MG_OPTIONS_CHECK | more, argc, argv);
  if (code == MG_EXIT_DONE) code = mg_cli_files(&options);
  if (code != MG_EXIT_DONE) return code;
  if (options.bundle_fd >= 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  lua_State *L = mg_script_open();
  if (!L) {
    fprintf(stderr, "moongate: cannot start Lua\n");
    return MG_EXIT_FAILED;
  }
  struct watchdog dog;
  if (watchdog_start(&dog, L, options.load_limit_ms >= 0 ? options.load_limit_ms : LIMIT_DEFAULT_MS) != 0) {
    fprintf(stderr, "moongate: cannot start a thread\n");
    lua_close(L);
    return MG_EXIT_FAILED;
  }
  struct mg_buf bundle = {0}, error = {0};
  mg_kit_install(L); /* for the filters' examples */
  int count = list_arguments(&options, numbers, arguments);
  if (mg_script_run_command(L, module, count, arguments, &code, &bundle, &error) != 0) {
    fprintf(stderr, "moongate %s: %.*s\n", argv[0], (int)error.len, error.ptr);
    code = MG_EXIT_FAILED;
  }
  watchdog_stop(&dog);
  mg_kit_close(L);
  lua_setallocf(L, dog.alloc, dog.alloc_context);
  lua_close(L);
  if (code == MG_EXIT_DONE && options.bundle_fd >= 0)
    code = write_bundle((int)options.bundle_fd, bundle.ptr, bundle.len);
  mg_buf_free(&bundle);
  mg_buf_free(&error);
  return code;
}
