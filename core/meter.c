/* meter.c - tables of meters, and their sums.
 * Owns: nothing.   May call: mem, libc.   Never: lock, allocate, forget a meter.   Thread: one writer per table; any
 * reader. */
#include "meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char clock_source[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

uint64_t mg_meter_nanoseconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The kernel trusts the time stamps of all processors to agree, or it would not keep time by them. */
static bool kernel_uses_tsc(void)
{
  char text[16] = "";
  FILE *file = fopen(clock_source, "r");
  if (!file) return false;
  bool is = fgets(text, sizeof text, file) && strncmp(text, "tsc\n", 5) == 0;
  fclose(file);
  return is;
}

void mg_meters_tick(struct mg_meters *meters)
{
  bool first = !atomic_load_explicit(&meters->ns_first, memory_order_relaxed);
  if (first) meters->tsc = kernel_uses_tsc();
  uint64_t ticks = mg_meter_ticks(meters), ns = mg_meter_nanoseconds();
  if (first) {
    atomic_store_explicit(&meters->ticks_first, ticks, memory_order_relaxed);
    atomic_store_explicit(&meters->ns_first, ns, memory_order_relaxed);
  }
  atomic_store_explicit(&meters->ticks_last, ticks, memory_order_relaxed);
  atomic_store_explicit(&meters->ns_last, ns, memory_order_relaxed);
}

/* --- finding ---------------------------------------------------------------------------------- */

static void cut(char out[MG_METER_NAME_SIZE], struct mg_str name)
{
  size_t len = name.len < MG_METER_NAME_SIZE - 1 ? name.len : MG_METER_NAME_SIZE - 1;
  memcpy(out, name.ptr, len);
  memset(out + len, 0, MG_METER_NAME_SIZE - len);
}

static uint32_t hash_of(const char *route, const char *filter)
{
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (; *route; route++) hash = (hash ^ (uint8_t)*route) * 16777619u;
  hash *= 16777619u;
  for (; *filter; filter++) hash = (hash ^ (uint8_t)*filter) * 16777619u;
  return hash;
}

/* The cell of those names, or the first free one of their probe sequence; NULL when the table is full. */
static struct mg_meter *probe(struct mg_meters *meters, const char *route, const char *filter)
{
  uint32_t at = hash_of(route, filter);
  for (unsigned i = 0; i < MG_METERS_MAX - 1; i++) {
    struct mg_meter *meter = &meters->all[(at + i) % (MG_METERS_MAX - 1)];
    if (!atomic_load_explicit(&meter->used, memory_order_acquire)) return meter;
    if (strcmp(meter->route, route) == 0 && strcmp(meter->filter, filter) == 0) return meter;
  }
  return NULL;
}

struct mg_meter *mg_meters_get(struct mg_meters *meters, struct mg_str route, struct mg_str filter)
{
  char names[2][MG_METER_NAME_SIZE];
  cut(names[0], route);
  cut(names[1], filter);
  struct mg_meter *meter = probe(meters, names[0], names[1]);
  if (!meter) {
    meter = &meters->all[MG_METERS_MAX - 1];
    strcpy(names[0], "*");
    strcpy(names[1], "*");
  }
  if (!atomic_load_explicit(&meter->used, memory_order_relaxed)) {
    memcpy(meter->route, names[0], sizeof meter->route);
    memcpy(meter->filter, names[1], sizeof meter->filter);
    atomic_store_explicit(&meter->used, 1, memory_order_release);
  }
  return meter;
}

/* --- adding up -------------------------------------------------------------------------------- */

static uint64_t read(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static double seconds_per_tick(const struct mg_meters *meters)
{
  uint64_t ticks = read(&meters->ticks_last) - read(&meters->ticks_first);
  uint64_t ns = read(&meters->ns_last) - read(&meters->ns_first);
  return ticks ? (double)ns / 1e9 / (double)ticks : 0;
}

static void add(struct mg_meter_sum *sum, const struct mg_meter *meter, double tick_s)
{
  sum->calls += read(&meter->calls);
  sum->errors += read(&meter->errors);
  sum->kills += read(&meter->kills);
  sum->busy_s += (double)read(&meter->busy) * tick_s;
}

/* The cell with the names of meter, if that table has one. */
static const struct mg_meter *same(struct mg_meters *table, const struct mg_meter *meter)
{
  bool rest = meter->route[0] == '*' && meter->filter[0] == '*';
  const struct mg_meter *found = rest ? &table->all[MG_METERS_MAX - 1] : probe(table, meter->route, meter->filter);
  return found && atomic_load_explicit(&found->used, memory_order_acquire) ? found : NULL;
}

static bool is_in_earlier(struct mg_meters *const *tables, unsigned count, const struct mg_meter *meter)
{
  for (unsigned i = 0; i < count; i++)
    if (same(tables[i], meter)) return true;
  return false;
}

static int by_name(const void *a, const void *b)
{
  const struct mg_meter_sum *x = a, *y = b;
  int order = strcmp(x->route, y->route);
  return order ? order : strcmp(x->filter, y->filter);
}

void mg_meters_sum(struct mg_meters *const *tables, unsigned count,
                   void (*each)(void *context, const struct mg_meter_sum *sum), void *context)
{
  struct mg_buf sums = {0};
  for (unsigned t = 0; t < count; t++) {
    for (unsigned i = 0; i < MG_METERS_MAX; i++) {
      const struct mg_meter *meter = &tables[t]->all[i];
      if (!atomic_load_explicit(&meter->used, memory_order_acquire) || is_in_earlier(tables, t, meter)) continue;
      struct mg_meter_sum sum = {.route = meter->route, .filter = meter->filter};
      for (unsigned other = t; other < count; other++) {
        const struct mg_meter *found = same(tables[other], meter);
        if (found) add(&sum, found, seconds_per_tick(tables[other]));
      }
      mg_buf_append(&sums, (const char *)&sum, sizeof sum);
    }
  }
  struct mg_meter_sum *all = (struct mg_meter_sum *)(void *)sums.ptr;
  size_t found = sums.len / sizeof *all;
  if (found) qsort(all, found, sizeof *all, by_name);
  for (size_t i = 0; i < found; i++) each(context, &all[i]);
  mg_buf_free(&sums);
}
