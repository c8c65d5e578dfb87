/* limiter.h - token buckets by key in memory that processes share.
 *
 * A bucket is one 64-bit word: the moment at which it will be full again (GCRA's theoretical arrival time), moved by
 * compare-and-swap. A word in the past is a full bucket, so that forgetting it loses nothing.
 * Pure: time comes in, nothing is allocated. Thread: any; processes may call it on the same table at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem.h"

enum { MG_LIMITER_BUCKETS_MAX = 2000000 };

struct mg_limiter_table; /* zero bytes are an empty one */

/** What a table is asked with. Times are in nanoseconds, tokens come singly and evenly. */
struct mg_limiter_rules {
  uint64_t interval; /* between two tokens, in sixteenths of a nanosecond */
  uint64_t burst;    /* an empty bucket's way to a full one, same unit */
  uint64_t ttl_ns;   /* a key unseen for so long begins anew */
  uint32_t sets;     /* of the table */
  uint32_t ways;     /* buckets in each set */
};

struct mg_limiter_outcome {
  bool passed;
  uint64_t remaining; /* tokens left */
  uint64_t wait_ns;   /* until the next one, when not passed */
};

struct mg_limiter_facts {
  uint64_t tracked;  /* keys whose buckets are not full */
  uint64_t rejected; /* since the table was made */
};

/** Rules for capacity tokens, refill_tokens of which come in period_ms. buckets: how many keys there is room for, 1 to
 * MG_LIMITER_BUCKETS_MAX. False when a token would come more than once in a nanosecond, or time cannot hold it. */
bool mg_limiter_rules(struct mg_limiter_rules *rules, double capacity, double refill_tokens, double period_ms,
                      double ttl_ms, uint32_t buckets);

/** The size of a table for these rules. */
size_t mg_limiter_bytes(const struct mg_limiter_rules *rules);

/** A key's number: SipHash-2-4 with a seed that clients do not know; never 0. */
uint64_t mg_limiter_hash(const uint64_t seed[2], struct mg_str key);

/** Takes a token from the bucket of hash at now_ns (one clock for all callers). Never gives more than the rules say to
 * keys that have their place; a key pushed out of a full set by others begins anew. */
struct mg_limiter_outcome mg_limiter_take(struct mg_limiter_table *table, const struct mg_limiter_rules *rules,
                                          uint64_t hash, uint64_t now_ns);

/** Callers that were not given a token, since the table was made. */
uint64_t mg_limiter_rejected(const struct mg_limiter_table *table);
/** Counts; walks the whole table. */
struct mg_limiter_facts mg_limiter_facts(const struct mg_limiter_table *table, const struct mg_limiter_rules *rules,
                                         uint64_t now_ns);
