/* schedule.c - when requests are due.
 * Owns: nothing.   May call: nothing.   Never: look at a clock.   Thread: one per schedule. */
#include "schedule.h"

#include <math.h>

static const double second_ns = 1e9;

/* Between 0 and 1, never 0 (xorshift). */
static double uniform(struct bench_schedule *schedule)
{
  uint64_t x = schedule->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  schedule->random = x;
  return (double)((x >> 11) + 1) / 9007199254740993.0;
}

void bench_schedule_next(struct bench_schedule *schedule)
{
  double gap = second_ns / schedule->rate;
  if (schedule->arrival == BENCH_POISSON) gap *= -log(uniform(schedule));
  schedule->next_ns += gap;
}

/* The tick by which the connection's share of the rate has grown to one request more. */
uint64_t bench_schedule_own(const struct bench_schedule *schedule, uint64_t sent)
{
  double per_tick = schedule->rate / schedule->connections * BENCH_TICK_NS / second_ns;
  uint64_t tick = (uint64_t)ceil((double)(sent + 1) / per_tick - 1e-9);
  return schedule->start_ns + tick * BENCH_TICK_NS;
}
