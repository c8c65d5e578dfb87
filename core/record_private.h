/* record_private.h - what record.c and record_entry.c share. Nobody else includes it. */
#pragma once

#include "entry.h"
#include "exchange.h"
#include "record.h"
#include "record_text.h"
#include "shard.h"
#include "sieve.h"

enum mg_on_full { MG_FULL_REFUSE, MG_FULL_DROP, MG_FULL_BLOCK };

enum { MG_CONTEXTS = 64, MG_GAP_REASONS = MG_GAP_BODY_LOST + 1 };

/* Where the block of a route, its filters, the generation and a client stands. */
struct mg_context {
  struct mg_place place;
  const struct mg_plan *plan;
  uint64_t generation;
  struct mg_address client;
  uint8_t client_source;
};

/* Exchanges that were not, or not wholly, recorded, which is not said yet. While there is no room only those without
 * space come one after another, so each reason has its own. */
struct mg_gap {
  uint64_t first, count;
};

struct mg_recorder {
  /* What every entry needs, in as few lines of the cache as it takes. */
  struct mg_stage *stage; /* the shard's */
  struct mg_texts *texts;
  struct mg_shard *shard;
  uint64_t number; /* of the last exchange */
  uint64_t id_base;
  uint64_t plain_bytes;   /* of all entries of exchanges that have ended */
  unsigned reserve;       /* slots kept for exchanges that have begun */
  uint8_t on_full;        /* enum mg_on_full */
  bool group;             /* START must be on the disk before anything goes upstream */
  bool has_gaps;          /* there may be some that are not said */
  bool rest_runs;         /* the timer of batches at rest */
  struct mg_sieve *sieve; /* NULL: nothing is compressed */
  struct mg_redactor *redactor;
  struct mg_gateway *gateway;
  uv_async_t *synced; /* from the shard's thread; NULL without group */
  uint64_t *waiting;  /* handles of exchanges that wait for a sync */
  unsigned waiting_count, waiting_capacity;
  uv_timer_t *rest; /* runs while a slot is open that nobody closes for being full */
  uint64_t rest_gen;
  unsigned rest_ticks;
  bool counts_on; /* what follows is known: what the slot's workers before this one had counted */
  uint64_t bytes_before, plain_bytes_before, repairs_before;
  struct mg_gap gaps[MG_GAP_REASONS]; /* by reason */
  struct mg_context contexts[MG_CONTEXTS];
};

/** Microseconds since 1970 of a moment on uv_hrtime's clock, told by the exchange's start. */
uint64_t mg_record_time_us(const struct mg_exchange *ex, uint64_t ns);

/* record_entry.c: each writes one entry (and what does not fit into it before). False when no slot is free. */
bool mg_record_put_start(struct mg_recorder *recorder, struct mg_exchange *ex, const struct mg_journal_plan *plan);
bool mg_record_put_end(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned request_level,
                       unsigned response_level);
bool mg_record_put_drop(struct mg_recorder *recorder, struct mg_exchange *ex);
bool mg_record_put_gap(struct mg_recorder *recorder, uint64_t time_us, uint64_t first, uint64_t count, uint8_t reason);
bool mg_record_put_piece(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned side, struct mg_str bytes);
