/* components.c - a bundle's guards found in shared memory, and read.
 * Owns: the list, a copy of the section.   May call: mem, limiter, breaker, states.   Never: change a guard.
 * Thread: the loop thread.   Ends: mg_components_free(). */
#include "components.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "states.h"

enum { LINE_MAX = 512, NUMBERS = 6, COUNTED_FOR_NS = 500000000 };

const char *const *mg_component_value_names(enum mg_component_kind kind)
{
  static const char *const names[][MG_COMPONENT_VALUES] = {
      [MG_COMPONENT_LIMITER] = {"rejected_requests", "tracked_clients"},
      [MG_COMPONENT_BREAKER] = {"consecutive_failures", "rejected_requests"},
  };
  return names[kind];
}

/* --- reading a bundle --------------------------------------------------------------------------------------------- */

/* limiter NAME POSITION FILTER CAPACITY REFILL PERIOD TTL BUCKETS PREFIX
 * breaker NAME POSITION FILTER FAILURES COOLDOWN */
static bool read_words(struct mg_component *component, const struct mg_shm *shm, const char *words)
{
  char kind[16], name[72];
  double n[NUMBERS] = {0};
  int count = sscanf(words, "%15s %71s %u %75s %lf %lf %lf %lf %lf %lf", kind, name, &component->position,
                     component->filter, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]);
  struct mg_str state = mg_str(name, strlen(name));
  if (count == 4 + 6 && strcmp(kind, "limiter") == 0) {
    component->kind = MG_COMPONENT_LIMITER;
    component->limiter.buckets = (uint64_t)n[4];
    if (!mg_limiter_rules(&component->limiter.rules, n[0], n[1], n[2], n[3], (uint32_t)n[4])) return false;
    component->limiter.table = mg_states_find(shm, state, mg_limiter_bytes(&component->limiter.rules));
    return component->limiter.table != NULL;
  }
  if (count != 4 + 2 || strcmp(kind, "breaker") != 0) return false;
  component->kind = MG_COMPONENT_BREAKER;
  component->breaker.cooldown_ms = (uint64_t)n[1];
  component->breaker.cell = mg_states_find(shm, state, sizeof *component->breaker.cell);
  return component->breaker.cell != NULL;
}

static bool read_line(struct mg_component *component, const struct mg_shm *shm, struct mg_str line)
{
  char words[LINE_MAX];
  const char *tab = memchr(line.ptr, '\t', line.len);
  if (!tab || (size_t)(tab - line.ptr) >= sizeof words) return false;
  size_t len = (size_t)(tab - line.ptr);
  memcpy(words, line.ptr, len);
  words[len] = '\0';
  component->route = mg_str(tab + 1, line.len - len - 1);
  if (mg_str_equal(component->route, MG_STR("<global>"))) component->route.len = 0;
  return read_words(component, shm, words);
}

void mg_components_read(struct mg_components *components, const struct mg_shm *shm, struct mg_str section)
{
  unsigned lines = 0;
  mg_components_free(components);
  mg_buf_append(&components->text, section.ptr, section.len);
  struct mg_str rest = mg_str(components->text.ptr, components->text.len);
  for (size_t i = 0; i < rest.len; i++) lines += rest.ptr[i] == '\n';
  components->list = mg_calloc(lines + 1, sizeof *components->list);
  while (rest.len) {
    const char *end = memchr(rest.ptr, '\n', rest.len);
    if (!end) return;
    size_t len = (size_t)(end - rest.ptr);
    if (read_line(&components->list[components->count], shm, mg_str(rest.ptr, len)))
      components->count++;
    else
      components->list[components->count] = (struct mg_component){0};
    rest = mg_str(end + 1, rest.len - len - 1);
  }
}

void mg_components_free(struct mg_components *components)
{
  free(components->list);
  mg_buf_free(&components->text);
  *components = (struct mg_components){0};
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static uint64_t monotonic_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void look_at_limiter(struct mg_component *component, struct mg_component_view *view)
{
  uint64_t now_ns = monotonic_ns(), tracked = component->limiter.tracked;
  if (!component->limiter.counted_ns || now_ns - component->limiter.counted_ns > COUNTED_FOR_NS) {
    tracked = mg_limiter_facts(component->limiter.table, &component->limiter.rules, now_ns).tracked;
    component->limiter.tracked = tracked;
    component->limiter.counted_ns = now_ns;
  }
  view->values[0] = mg_limiter_rejected(component->limiter.table);
  view->values[1] = tracked;
  if (tracked < component->limiter.buckets) return;
  view->level = 1;
  snprintf(view->detail, sizeof view->detail, "%llu clients are tracked, as many as max_buckets allows",
           (unsigned long long)tracked);
}

static void look_at_breaker(const struct mg_component *component, struct mg_component_view *view)
{
  uint32_t failures;
  const struct mg_breaker_cell *cell = component->breaker.cell;
  enum mg_breaker_state state = mg_breaker_state(cell, &failures);
  view->values[0] = failures;
  view->values[1] = atomic_load_explicit(&cell->rejected, memory_order_relaxed);
  if (state == MG_BREAKER_CLOSED) return;
  view->level = state == MG_BREAKER_OPEN ? 2 : 1;
  if (state == MG_BREAKER_HALF_OPEN) {
    snprintf(view->detail, sizeof view->detail, "the circuit is half open: one request tries");
    return;
  }
  char text[16];
  struct tm utc;
  uint64_t now_ms = monotonic_ns() / 1000000, since_ms = mg_breaker_until(cell) - component->breaker.cooldown_ms;
  time_t since = time(NULL) - (time_t)(now_ms > since_ms ? (now_ms - since_ms) / 1000 : 0);
  strftime(text, sizeof text, "%H:%M:%SZ", gmtime_r(&since, &utc));
  snprintf(view->detail, sizeof view->detail, "the circuit is open since %s", text);
}

void mg_component_look(struct mg_component *component, struct mg_component_view *view)
{
  *view = (struct mg_component_view){0};
  if (component->kind == MG_COMPONENT_LIMITER)
    look_at_limiter(component, view);
  else
    look_at_breaker(component, view);
}
