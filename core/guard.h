/* guard.h - the limiters and breakers of a generation's filters, as one worker holds them.
 *
 * What they count is in memory that all workers share; a guard is the way to it and the rules, made while the
 * generation is built and freed with it. Thread: the builder's helper thread, then the loop's. */
#pragma once

#include "breaker.h"
#include "limiter.h"

enum mg_guard_kind { MG_GUARD_LIMITER = 0x4c696d69, MG_GUARD_BREAKER = 0x42726561 };

struct mg_guard {
  struct mg_guard *next;
  uint32_t kind; /* enum mg_guard_kind; says what a pointer from Lua is */
};

struct mg_limiter {
  struct mg_guard guard;
  struct mg_limiter_rules rules;
  struct mg_limiter_table *table;
  uint64_t seed[2];
  uint64_t capacity;
  unsigned ipv6_prefix; /* of a client address that is the key */
};

struct mg_breaker {
  struct mg_guard guard;
  struct mg_breaker_rules rules;
  struct mg_breaker_cell *cell;
};

/** Frees all of a generation's. */
void mg_guards_free(struct mg_guard **first);
