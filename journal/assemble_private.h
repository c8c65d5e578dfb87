/* assemble_private.h - what assemble.c and assemble_bound.c share. Nobody else includes it. */
#pragma once

#include "assemble.h"

enum { MG_ASSEMBLER_BUCKETS = 16384, MG_ASSEMBLER_SHARDS = 1000, MG_GIVEN_UP_MAX = 16384 };

struct mg_exchange_list {
  struct mg_found_exchange *oldest, *newest;
};

/** The exchanges of a shard that are under way, by their first entries. */
struct mg_lane {
  struct mg_exchange_list open;
  uint32_t epoch;
  uint64_t time_us;      /* of the last entry */
  bool resumed;          /* what began before the first entry is known */
  uint32_t first_epoch;  /* the first START: what has a lower number began before */
  uint64_t first_number; /* 0: none yet */
};

struct mg_assembler {
  struct mg_found_exchange *buckets[MG_ASSEMBLER_BUCKETS];
  struct mg_lane lanes[MG_ASSEMBLER_SHARDS];
  struct mg_exchange_list given_up;
  uint64_t given_up_count, open_count;
  size_t held;
  bool bounded;
  struct mg_assembler_bounds bounds;
  struct mg_pool chunks, firsts;
  bool bodies;
  bool stopped;
  bool (*done)(void *context, const struct mg_found_exchange *exchange);
  void *context;
};

/** assemble.c */
struct mg_found_exchange **mg_assembler_place(struct mg_assembler *assembler, unsigned shard, uint32_t epoch,
                                              uint64_t number);
struct mg_found_exchange *mg_assembler_add(struct mg_assembler *assembler, struct mg_found_exchange **at,
                                           unsigned shard, uint32_t epoch, uint64_t number);
/** Lets go of what an exchange holds but for itself. */
void mg_exchange_empty(struct mg_assembler *assembler, struct mg_found_exchange *exchange);
/** Takes an exchange out and frees it. */
void mg_assembler_drop(struct mg_assembler *assembler, struct mg_found_exchange *exchange);
/** Gives an exchange to done. False when it is not to be let go of: done has stopped. */
bool mg_assembler_give(struct mg_assembler *assembler, struct mg_found_exchange *exchange, enum mg_incomplete why);

/** assemble_bound.c */
void mg_exchange_list_add(struct mg_exchange_list *list, struct mg_found_exchange *exchange);
void mg_exchange_list_remove(struct mg_exchange_list *list, struct mg_found_exchange *exchange);
/** Before an entry of a new exchange: gives out what an older process of the shard left behind, and what is too much.
 * False once done has stopped. */
bool mg_assembler_make_room(struct mg_assembler *assembler, struct mg_lane *lane, uint32_t epoch);
