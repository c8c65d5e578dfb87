/* tally.c - counting by status and by duration.
 * Owns: nothing.   May call: libc.   Never: lock, allocate.   Thread: one writer per tally; any reader. */
#include "tally.h"

enum { STATUS_SHIFT = 48 };

static const uint64_t count_mask = (1ull << STATUS_SHIFT) - 1;

/* The slot of status, or a free one; the last, where the others are taken. */
static _Atomic uint64_t *find_slot(struct mg_code_counts *counts, unsigned status, uint64_t *value)
{
  for (unsigned probe = 0; probe < MG_TALLY_CODES; probe++) {
    _Atomic uint64_t *slot = &counts->slots[(status + probe) % MG_TALLY_CODES];
    *value = atomic_load_explicit(slot, memory_order_relaxed);
    if (!*value || *value >> STATUS_SHIFT == status) return slot;
  }
  return &counts->slots[MG_TALLY_CODES];
}

void mg_tally_code(struct mg_code_counts *counts, unsigned status)
{
  uint64_t value;
  if (status >= MG_STATUS_END) status = 0;
  _Atomic uint64_t *slot = find_slot(counts, status, &value);
  if (slot == &counts->slots[MG_TALLY_CODES])
    mg_tally_add(slot, 1);
  else
    atomic_store_explicit(slot, (uint64_t)status << STATUS_SHIFT | ((value & count_mask) + 1), memory_order_relaxed);
}

void mg_tally_set_code(struct mg_code_counts *counts, unsigned status, uint64_t count)
{
  uint64_t value;
  if (status >= MG_STATUS_END) status = 0;
  _Atomic uint64_t *slot = find_slot(counts, status, &value);
  if (slot == &counts->slots[MG_TALLY_CODES]) status = 0;
  atomic_store_explicit(slot, (uint64_t)status << STATUS_SHIFT | (count & count_mask), memory_order_relaxed);
}

/* The bucket of a duration in whole microseconds, rounded up: a bucket holds (start, end]. */
static unsigned bucket_of(uint64_t us)
{
  uint64_t below = us ? us - 1 : 0;
  if (below < 1u << MG_TALLY_FIRST_BITS) return 0;
  if (below >= 1u << MG_TALLY_LAST_BITS) return MG_TALLY_BUCKETS - 1;
  unsigned power = 63 - (unsigned)__builtin_clzll(below);
  unsigned step = (unsigned)(below >> (power - MG_TALLY_STEPS_BITS)) & ((1u << MG_TALLY_STEPS_BITS) - 1);
  return 1 + ((power - MG_TALLY_FIRST_BITS) << MG_TALLY_STEPS_BITS) + step;
}

void mg_tally_duration(struct mg_tally *tally, uint64_t nanoseconds)
{
  uint64_t us = (nanoseconds + 999) / 1000;
  mg_tally_add(&tally->durations[bucket_of(us)], 1);
  mg_tally_add(&tally->duration_us, us);
}

uint64_t mg_tally_bucket_end(unsigned bucket)
{
  if (bucket == 0) return 1u << MG_TALLY_FIRST_BITS;
  if (bucket >= MG_TALLY_BUCKETS - 1) return UINT64_MAX;
  unsigned power = MG_TALLY_FIRST_BITS + ((bucket - 1) >> MG_TALLY_STEPS_BITS);
  uint64_t step = ((bucket - 1) & ((1u << MG_TALLY_STEPS_BITS) - 1)) + 1;
  return (1ull << power) + (step << (power - MG_TALLY_STEPS_BITS));
}

static uint64_t read(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void sum_codes(uint64_t by_status[MG_STATUS_END], const struct mg_code_counts *counts)
{
  for (unsigned i = 0; i <= MG_TALLY_CODES; i++) {
    uint64_t value = read(&counts->slots[i]);
    uint64_t status = value >> STATUS_SHIFT;
    if (status < MG_STATUS_END) by_status[status] += value & count_mask;
  }
}

void mg_tally_sum(struct mg_tally_sum *sum, const struct mg_tally *tally)
{
  sum->active += read(&tally->active);
  sum->tunnels += read(&tally->tunnels);
  sum->bytes_in += read(&tally->bytes_in);
  sum->bytes_out += read(&tally->bytes_out);
  sum->journal_bytes += read(&tally->journal_bytes);
  sum->duration_us += read(&tally->duration_us);
  sum_codes(sum->requests, &tally->requests);
  sum_codes(sum->upstream, &tally->upstream);
  for (unsigned i = 0; i < MG_TALLY_BUCKETS; i++) {
    uint64_t count = read(&tally->durations[i]);
    sum->durations[i] += count;
    sum->answered += count;
  }
}
