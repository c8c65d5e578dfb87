/* meter.h - what each filter of each route costs: calls, errors, kills, busy time. Always on.
 *
 * A table per worker in shared memory. Its worker is the only writer, with plain relaxed stores; the master reads. A
 * meter is found by route and filter, so it goes on counting across reloads and a worker's death. Busy time is
 * counted in ticks of a clock that is cheap to read, and turned into seconds by comparing two readings of both
 * clocks; of a filter that is called often, one exchange in 16 is timed and counts for 16. Calls of the
 * others are added once a second.
 * Thread: one writer; any reader. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mem.h"

enum { MG_METERS_MAX = 1024, MG_METER_NAME_SIZE = 76 };

struct mg_meter {
  _Alignas(64) _Atomic uint64_t calls;
  _Atomic uint64_t errors; /* kills included */
  _Atomic uint64_t kills;
  _Atomic uint64_t busy; /* ticks */
  _Atomic uint32_t used; /* stored with release once the names are there */
  char route[MG_METER_NAME_SIZE];
  char filter[MG_METER_NAME_SIZE];
};

struct mg_meters {
  _Atomic uint64_t ticks_first, ns_first, ticks_last, ns_last;
  bool tsc;                           /* ticks are the processor's time stamps, else nanoseconds */
  struct mg_meter all[MG_METERS_MAX]; /* hashed; the last takes what finds no place, as "*" */
};

/** What all workers have counted of one filter of one route. */
struct mg_meter_sum {
  const char *route, *filter;
  uint64_t calls, errors, kills;
  double busy_s;
};

/** Chooses the clock, if that has not been done, and reads both clocks; to be repeated now and then. The worker. */
void mg_meters_tick(struct mg_meters *meters);

/** The meter of a filter of a route, made when it is new. Long names are cut. The worker. */
struct mg_meter *mg_meters_get(struct mg_meters *meters, struct mg_str route, struct mg_str filter);

/** Calls each(context, sum) for every filter and route that any of count tables knows, in the order of their names. Any
 * process. */
void mg_meters_sum(struct mg_meters *const *tables, unsigned count,
                   void (*each)(void *context, const struct mg_meter_sum *sum), void *context);

/** Nanoseconds of CLOCK_MONOTONIC. */
uint64_t mg_meter_nanoseconds(void);

static inline uint64_t mg_meter_ticks(const struct mg_meters *meters)
{
#if defined(__x86_64__)
  if (__builtin_expect(meters->tsc, true)) return __builtin_ia32_rdtsc();
#endif
  return mg_meter_nanoseconds();
}

static inline void mg_meter_add(_Atomic uint64_t *counter, uint64_t by)
{
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}
