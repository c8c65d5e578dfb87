/* histogram.c - durations in logarithmic buckets.
 * Owns: its counts.   May call: mem.   Never: keep single values.   Thread: one per histogram. */
#include "histogram.h"

#include <math.h>
#include <stdlib.h>

#include "mem.h"

struct bench_histogram *bench_histogram_new(void)
{
  struct bench_histogram *histogram = mg_calloc(1, sizeof *histogram);
  histogram->least = UINT64_MAX;
  return histogram;
}

void bench_histogram_free(struct bench_histogram **histogram)
{
  free(*histogram);
  *histogram = NULL;
}

/* Below 2^10 each value has a bucket of its own; from there on the highest bit picks the octave, the ten below it the
 * bucket. */
static unsigned bucket_of(uint64_t value)
{
  if (value >> BENCH_SUB_BITS == 0) return (unsigned)value;
  if (value >> BENCH_VALUE_BITS) return BENCH_BUCKETS - 1;
  unsigned shift = 63 - (unsigned)__builtin_clzll(value) - BENCH_SUB_BITS;
  return (shift << BENCH_SUB_BITS) + (unsigned)(value >> shift);
}

static uint64_t middle_of(unsigned bucket)
{
  if (bucket >> BENCH_SUB_BITS < 2) return bucket; /* buckets of one value */
  unsigned shift = (bucket >> BENCH_SUB_BITS) - 1;
  uint64_t low = (uint64_t)(bucket - (shift << BENCH_SUB_BITS)) << shift;
  return low + ((1ull << shift) - 1) / 2;
}

void bench_histogram_add(struct bench_histogram *histogram, uint64_t value)
{
  histogram->count++;
  histogram->sum += (double)value;
  if (value < histogram->least) histogram->least = value;
  if (value > histogram->most) histogram->most = value;
  histogram->buckets[bucket_of(value)]++;
}

uint64_t bench_histogram_at(const struct bench_histogram *histogram, double share)
{
  if (histogram->count == 0) return 0;
  uint64_t rank = (uint64_t)ceil(share * (double)histogram->count * (1 - 1e-12)); /* 0.057 * 1000 is a little over 57 */
  if (rank < 1) rank = 1;
  if (rank >= histogram->count) return histogram->most;
  uint64_t seen = 0;
  for (unsigned i = 0; i < BENCH_BUCKETS; i++) {
    seen += histogram->buckets[i];
    if (seen < rank) continue;
    uint64_t value = middle_of(i);
    return value < histogram->least ? histogram->least : value > histogram->most ? histogram->most : value;
  }
  return histogram->most;
}

double bench_histogram_mean(const struct bench_histogram *histogram)
{
  return histogram->count ? histogram->sum / (double)histogram->count : 0;
}
