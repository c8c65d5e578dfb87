/* generation.c - building a generation out of a bundle.
 * Owns: the lua_State, route table and plans until they are freed.   May call: script, routes, bundle, Lua C API.
 * Never: touch the loop (it runs on a helper thread).   Thread: one at a time. */
#pragma GCC visibility push(default)
#include <stddef.h>
#include <stdint.h>

#include "moongate_ffi.h"
#pragma GCC visibility pop

#include "generation.h"

#include <lauxlib.h>
#include <luajit.h>
#include <stdlib.h>

#include "bundle.h"
#include "gateway.h"
#include "guard.h"
#include "log.h"

/* --- called by lua/compile.lua while it builds -------------------------------------------------------------------- */

void mg_routes_release(struct mg_routes *routes)
{
  mg_routes_free(&routes);
}

void mg_generation_routes(struct mg_generation *generation, struct mg_routes *routes)
{
  generation->routes = routes;
  generation->plan_count = mg_routes_count(routes);
  generation->plans = mg_calloc(generation->plan_count + 1, sizeof *generation->plans);
  for (unsigned i = 0; i < generation->plan_count; i++) generation->plans[i].fallback = -1;
}

int mg_generation_upstream(struct mg_generation *generation, unsigned route, const struct mg_upstream_options *options,
                           const char *hash_name, size_t hash_name_len)
{
  if (route >= generation->plan_count) return MG_EINTERNAL;
  struct mg_group *group = &generation->plans[route].group;
  group->strategy = (uint8_t)options->strategy;
  group->host_is_target = options->host == 1;
  group->connect_ms = (uint64_t)options->connect_ms;
  group->read_ms = (uint64_t)options->read_ms;
  group->retries = (unsigned)options->retries;
  group->health = (struct mg_passive_health){.failures_max = (unsigned)options->failures,
                                             .within_ms = (uint64_t)options->failures_ms,
                                             .rest_ms = (uint64_t)options->down_for_ms};
  group->slow_start_ms = (uint64_t)options->slow_start_ms;
  group->connections_max = (unsigned)options->connections_max;
  group->queue_max = options->queue_max;
  group->hash_on = (uint8_t)options->hash_on;
  group->hash_name = mg_str(mg_strndup(hash_name, hash_name_len), hash_name_len);
  return 0;
}

int mg_generation_bodies(struct mg_generation *generation, unsigned route, int holds_request, int holds_answer,
                         int reads_answer)
{
  if (route >= generation->plan_count) return MG_EINTERNAL;
  struct mg_plan *plan = &generation->plans[route];
  plan->holds_request = holds_request != 0;
  plan->holds_answer = holds_answer != 0;
  plan->reads_answer = reads_answer != 0;
  return 0;
}

/* Of a route, or of what reaches none (-1). */
static struct mg_journal_plan *journal_of(struct mg_generation *generation, int route)
{
  if (route < 0) return &generation->unrouted;
  return (unsigned)route < generation->plan_count ? &generation->plans[route].journal : NULL;
}

int mg_generation_journal(struct mg_generation *generation, int route, int request, int response, const char *filters,
                          size_t filters_len)
{
  struct mg_journal_plan *plan = journal_of(generation, route);
  if (!plan) return MG_EINTERNAL;
  free((char *)plan->filters.ptr);
  plan->filters = mg_str(mg_strndup(filters, filters_len), filters_len);
  mg_journal_plan_level(plan, 0, (unsigned)request);
  mg_journal_plan_level(plan, 1, (unsigned)response);
  return 0;
}

int mg_generation_journal_status(struct mg_generation *generation, int route, int side, int first, int last, int level)
{
  struct mg_journal_plan *plan = journal_of(generation, route);
  if (!plan) return MG_EINTERNAL;
  mg_journal_plan_override(plan, (unsigned)side, (unsigned)first, (unsigned)last, (unsigned)level);
  return 0;
}

int mg_generation_fallback(struct mg_generation *generation, unsigned route, unsigned fallback)
{
  if (route >= generation->plan_count || fallback >= generation->plan_count) return MG_EINTERNAL;
  generation->plans[route].fallback = (int)fallback;
  return 0;
}

int mg_generation_target(struct mg_generation *generation, unsigned route, const char *key, size_t key_len,
                         const char *authority, size_t authority_len, const char *path_prefix, size_t path_prefix_len,
                         unsigned weight)
{
  if (route >= generation->plan_count) return MG_EINTERNAL;
  struct mg_group *group = &generation->plans[route].group;
  return mg_group_add(group, mg_str(key, key_len), mg_str(authority, authority_len),
                      mg_str(path_prefix, path_prefix_len), weight)
             ? 0
             : MG_EINTERNAL;
}

int mg_generation_predicate(struct mg_generation *generation, int test, const char *name, size_t name_len,
                            const char *value, size_t value_len)
{
  if (!generation->predicates) generation->predicates = mg_predicates_new();
  return mg_predicates_add(generation->predicates, test, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_generation_meter(struct mg_generation *generation, unsigned route, unsigned position, const char *name,
                        size_t name_len)
{
  unsigned count = generation->metered_count;
  if (!(count & (count - 1))) /* room for a power of two */
    generation->metered = mg_realloc(generation->metered, (count ? count * 2 : 1) * sizeof *generation->metered);
  generation->metered[count] =
      (struct mg_metered){.name = mg_strndup(name, name_len), .route = route, .position = position};
  return (int)generation->metered_count++;
}

int32_t *mg_generation_counts(struct mg_generation *generation, unsigned first, unsigned count)
{
  struct mg_counts *counts = mg_calloc(1, sizeof *counts + count * sizeof *counts->calls);
  *counts = (struct mg_counts){.next = generation->counts, .first = first, .count = count};
  generation->counts = counts;
  return counts->calls;
}

void mg_generation_meter_calls(struct mg_generation *generation)
{
  for (struct mg_counts *counts = generation->counts; counts; counts = counts->next) {
    for (unsigned i = 0; i < counts->count; i++) {
      if (!counts->calls[i]) continue;
      mg_meter_add(&generation->metered[counts->first + i].meter->calls, (uint32_t)counts->calls[i]);
      counts->calls[i] = 0;
    }
  }
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* The function in field name of the table at the top, as a registry reference; 0 for none. */
static int reference(lua_State *L, const char *name)
{
  lua_getfield(L, -1, name);
  if (lua_isfunction(L, -1)) return luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pop(L, 1);
  return 0;
}

/* The two functions of a phase. */
static struct mg_chain chain(lua_State *L, const char *name)
{
  char timed[32];
  snprintf(timed, sizeof timed, "timed_%s", name);
  return (struct mg_chain){.plain = reference(L, name), .timed = reference(L, timed)};
}

/* Keeps the functions in the table at the top. */
static void keep(lua_State *L, struct mg_generation *generation)
{
  luaL_checktype(L, -1, LUA_TTABLE);
  generation->opaque_ref = reference(L, "opaque");
  generation->stop_ref = reference(L, "stop");
  generation->release_ref = reference(L, "release");
  for (unsigned i = 0; i < generation->plan_count; i++) {
    struct mg_plan *plan = &generation->plans[i];
    lua_rawgeti(L, -1, (int)i + 1);
    plan->request = chain(L, "request");
    plan->response = chain(L, "response");
    plan->log = chain(L, "log");
    plan->upstream = chain(L, "upstream");
    plan->chunk_request_ref = reference(L, "chunk_request");
    plan->chunk_response_ref = reference(L, "chunk_response");
    plan->own_request = chain(L, "own_request");
    plan->own_response = chain(L, "own_response");
    plan->own_log = chain(L, "own_log");
    lua_pop(L, 1);
  }
}

/* Calls require("moongate.compile").load(bundle, generation) and keeps the functions it returns. */
static int load(lua_State *L)
{
  struct mg_generation *generation = lua_touserdata(L, 1);
  struct mg_str *bundle = lua_touserdata(L, 2);
  lua_settop(L, 0);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moongate.compile");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "load");
  lua_pushlstring(L, bundle->ptr, bundle->len);
  lua_pushlightuserdata(L, generation);
  lua_call(L, 2, 1);
  keep(L, generation);
  return 0;
}

/* Gives each plan its id out of the bundle's section `routes`. */
static bool name_plans(struct mg_generation *generation, struct mg_str bundle, struct mg_buf *error)
{
  struct mg_str section = mg_bundle_section(bundle, MG_STR("routes"));
  mg_buf_append(&generation->ids, section.ptr, section.len);
  struct mg_str rest = mg_str(generation->ids.ptr, generation->ids.len);
  for (unsigned i = 0; i < generation->plan_count; i++) {
    const char *end = rest.len ? memchr(rest.ptr, '\n', rest.len) : NULL;
    if (!end) {
      mg_buf_printf(error, "the bundle names fewer routes than it has");
      return false;
    }
    size_t len = (size_t)(end - rest.ptr);
    generation->plans[i].id = mg_str(rest.ptr, len);
    rest = mg_str(end + 1, rest.len - len - 1);
  }
  return true;
}

static bool digest_matches(const struct mg_generation *generation, struct mg_str bundle, struct mg_buf *error)
{
  char digest[65];
  if (!generation->routes) {
    mg_buf_printf(error, "no routes were built");
    return false;
  }
  mg_routes_digest(generation->routes, digest);
  struct mg_str wanted = mg_bundle_section(bundle, MG_STR("digest"));
  if (mg_str_equal(wanted, mg_str(digest, 64))) return true;
  mg_buf_printf(error, "the route table differs from the builder's (%s, not %.*s)", digest, (int)wanted.len,
                wanted.ptr);
  return false;
}

struct mg_generation *mg_generation_build(struct mg_str bundle, uint64_t number, uint64_t memory_max,
                                          struct mg_buf *error)
{
  struct mg_generation *generation = mg_calloc(1, sizeof *generation);
  generation->made_lines = mg_made_lines_new();
  generation->number = number;
  lua_State *L = generation->script.L = mg_script_open();
  if (!L) {
    mg_buf_printf(error, "no memory for a Lua state");
    mg_generation_free(&generation);
    return NULL;
  }
  struct mg_script_memory *memory = &generation->script.memory;
  mg_script_memory_watch(memory, L, memory_max);
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF); /* on from the switch on, in the loop's thread */
  lua_pushcfunction(L, load);
  lua_pushlightuserdata(L, generation);
  lua_pushlightuserdata(L, &bundle);
  memory->limited = true;
  int failed = lua_pcall(L, 2, 0, 0);
  memory->limited = false;
  if (failed) {
    const char *message = lua_tostring(L, -1);
    mg_buf_printf(error, "%s%s", message ? message : "(error value is not text)",
                  memory->exceeded ? " (more than scripts.max_memory)" : "");
    mg_generation_free(&generation);
  } else if (!digest_matches(generation, bundle, error) || !name_plans(generation, bundle, error)) {
    mg_generation_free(&generation);
  } else {
    lua_gc(L, LUA_GCCOLLECT, 0);
  }
  return generation;
}

struct mg_generation *mg_generation_borrow(lua_State *L, int build, struct mg_str bundle, uint64_t number,
                                           struct mg_buf *error)
{
  struct mg_generation *generation = mg_calloc(1, sizeof *generation);
  generation->made_lines = mg_made_lines_new();
  generation->number = number;
  generation->script.L = L;
  generation->script.borrowed = true;
  lua_pushvalue(L, build);
  lua_pushlightuserdata(L, generation);
  if (lua_pcall(L, 1, 1, 0)) {
    const char *message = lua_tostring(L, -1);
    mg_buf_printf(error, "%s", message ? message : "(error value is not text)");
    mg_generation_free(&generation);
  } else {
    keep(L, generation);
    if (!name_plans(generation, bundle, error)) mg_generation_free(&generation);
  }
  lua_pop(L, 1);
  return generation;
}

void mg_generation_start(struct mg_generation *generation, struct mg_watchdog *watchdog)
{
  generation->script.watchdog = generation->script.memory.watchdog = watchdog;
  mg_watchdog_profile(watchdog, generation->script.L);
}

void mg_generation_stop(struct mg_generation *generation)
{
  struct mg_coroutine waiting = {0};
  struct mg_buf error = {0};
  if (!generation->stop_ref) return;
  int result = mg_script_call(&generation->script, generation->stop_ref, (double)generation->number, &waiting, &error);
  if (result == MG_EAGAIN_LATER) mg_script_drop(&generation->script, &waiting);
  if (result) mg_log(MG_LOG_WARN, "a filter's stop failed: %.*s", (int)error.len, error.ptr);
  mg_buf_free(&error);
}

void mg_generation_free(struct mg_generation **pointer)
{
  struct mg_generation *generation = *pointer;
  *pointer = NULL;
  mg_script_close(&generation->script);
  for (unsigned i = 0; i < generation->plan_count; i++) {
    mg_group_free(&generation->plans[i].group);
    mg_journal_plan_free(&generation->plans[i].journal);
  }
  mg_journal_plan_free(&generation->unrouted);
  free(generation->plans);
  if (generation->metered_count && generation->metered[0].meter) mg_generation_meter_calls(generation);
  for (unsigned i = 0; i < generation->metered_count; i++) free(generation->metered[i].name);
  free(generation->metered);
  mg_made_lines_free(&generation->made_lines);
  while (generation->counts) {
    struct mg_counts *counts = generation->counts;
    generation->counts = counts->next;
    free(counts);
  }
  mg_guards_free(&generation->guards);
  mg_buf_free(&generation->ids);
  if (generation->routes) mg_routes_free(&generation->routes);
  mg_predicates_free(&generation->predicates);
  free(generation);
}
