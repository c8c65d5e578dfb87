/* histogram.h - counts of durations in logarithmic buckets, for percentiles that are exact to less than 0.1 %.
 *
 * Every power of two is cut into 1,024 buckets, so a bucket is never wider than 1/1024 of what it holds; a percentile
 * is its bucket's middle. Values up to 2^40 ns (18 minutes) are told apart, larger ones counted as that.
 * Thread: one per histogram. */
#pragma once

#include <stdint.h>

enum {
  BENCH_SUB_BITS = 10,
  BENCH_VALUE_BITS = 40,
  BENCH_BUCKETS = (BENCH_VALUE_BITS - BENCH_SUB_BITS + 1) << BENCH_SUB_BITS
};

struct bench_histogram {
  uint64_t count;
  uint64_t least, most; /* exact */
  double sum;
  uint64_t buckets[BENCH_BUCKETS];
};

struct bench_histogram *bench_histogram_new(void);
void bench_histogram_free(struct bench_histogram **histogram);
void bench_histogram_add(struct bench_histogram *histogram, uint64_t value);

/** The value below or at which `share` (0 to 1) of all values lie: the one at rank ceil(share * count). 0 when empty.
 * */
uint64_t bench_histogram_at(const struct bench_histogram *histogram, double share);

/** Mean of all values; 0 when empty. */
double bench_histogram_mean(const struct bench_histogram *histogram);
