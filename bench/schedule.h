/* schedule.h - when requests are due: moments that follow from the rate alone, not from what has been answered.
 *
 * Pure: the clock is the caller's. Thread: one per schedule. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_TICK_NS = 10000000 };

enum bench_arrival {
  BENCH_EVEN,    /* equal gaps, any free connection */
  BENCH_POISSON, /* exponential gaps, any free connection */
  BENCH_TICKS    /* each connection its share, every 10 ms, one after another: as generators do on a coarse timer */
};

struct bench_schedule {
  enum bench_arrival arrival;
  double rate; /* requests per second; 0: whenever a connection is free */
  unsigned connections;
  uint64_t start_ns;
  double next_ns;  /* of the next request, after start_ns */
  uint64_t random; /* not 0 */
};

/** True if each connection has requests of its own, in ticks. */
static inline bool bench_schedule_ticks(const struct bench_schedule *schedule)
{
  return schedule->arrival == BENCH_TICKS && schedule->rate > 0;
}

/** When the next request is due, whichever connection takes it. */
static inline uint64_t bench_schedule_due(const struct bench_schedule *schedule)
{
  return schedule->start_ns + (uint64_t)schedule->next_ns;
}

/** Goes on to the request after it. */
void bench_schedule_next(struct bench_schedule *schedule);

/** In ticks: when the request of a connection is due that has been given `sent` before. */
uint64_t bench_schedule_own(const struct bench_schedule *schedule, uint64_t sent);
