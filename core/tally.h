/* tally.h - what is counted per route: answers by status, bytes, how long exchanges took.
 *
 * One tally per route and worker in shared memory. Its worker is the only writer and uses plain relaxed stores; the
 * master reads. A tally is found by the route's id, so it goes on counting across reloads and a worker's death.
 * Thread: one writer; any reader. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum {
  MG_TALLY_CODES = 32,     /* different statuses that one tally tells apart */
  MG_TALLY_FIRST_BITS = 4, /* the first bucket ends at 2^4 us */
  MG_TALLY_LAST_BITS = 24, /* the last but one at 2^24 us */
  MG_TALLY_STEPS_BITS = 2, /* 2^2 buckets for each power of two between them */
  MG_TALLY_BUCKETS = ((MG_TALLY_LAST_BITS - MG_TALLY_FIRST_BITS) << MG_TALLY_STEPS_BITS) + 2,
  MG_STATUS_END = 600
};

/** Counts by status. A slot is status << 48 | count, so that both are read at once; the last one takes what found no
 * slot, as status 0. */
struct mg_code_counts {
  _Atomic uint64_t slots[MG_TALLY_CODES + 1];
};

struct mg_tally {
  _Alignas(64) _Atomic uint64_t active; /* exchanges that run */
  _Atomic uint64_t tunnels;             /* of them, those that have become tunnels are counted here alone */
  _Atomic uint64_t bytes_in;            /* bodies, from clients and to them */
  _Atomic uint64_t bytes_out;
  _Atomic uint64_t journal_bytes; /* recorded, before compression */
  _Atomic uint64_t duration_us;   /* of all answered exchanges together */
  struct mg_code_counts requests; /* as clients got them */
  struct mg_code_counts upstream; /* as upstreams gave them, before any filter */
  _Atomic uint64_t durations[MG_TALLY_BUCKETS];
};

/** Plain numbers: several workers' tallies added up. Status 0 holds what could not be told apart. */
struct mg_tally_sum {
  uint64_t active, tunnels, bytes_in, bytes_out, journal_bytes, duration_us;
  uint64_t requests[MG_STATUS_END];
  uint64_t upstream[MG_STATUS_END];
  uint64_t durations[MG_TALLY_BUCKETS];
  uint64_t answered; /* all of durations */
};

static inline void mg_tally_add(_Atomic uint64_t *counter, uint64_t by)
{
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/** Counts one answer of that status. */
void mg_tally_code(struct mg_code_counts *counts, unsigned status);

/** Makes count the number of answers of that status; as long as there are slots, statuses are told apart. */
void mg_tally_set_code(struct mg_code_counts *counts, unsigned status, uint64_t count);

/** Counts one finished exchange's time. */
void mg_tally_duration(struct mg_tally *tally, uint64_t nanoseconds);

/** The longest time, in microseconds, that bucket holds; UINT64_MAX for the last. */
uint64_t mg_tally_bucket_end(unsigned bucket);

/** Adds a tally to sum (zeroed by the caller before the first). */
void mg_tally_sum(struct mg_tally_sum *sum, const struct mg_tally *tally);
