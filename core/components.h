/* components.h - the limiters and breakers of filters as the master sees them: where they stand, and how they are.
 *
 * The bundle's section `guards` has a line for each: kind, name (states.h), position in the route's chain, filter,
 * what it was made with, a tab and the route. Thread: the loop thread. */
#pragma once

#include "breaker.h"
#include "limiter.h"
#include "shm.h"

enum mg_component_kind { MG_COMPONENT_LIMITER, MG_COMPONENT_BREAKER };

enum { MG_COMPONENT_VALUES = 2, MG_COMPONENT_FILTER_SIZE = 76 };

struct mg_component {
  enum mg_component_kind kind;
  unsigned position;   /* from 1, global filters first */
  struct mg_str route; /* empty: a global filter, which is one for all routes */
  char filter[MG_COMPONENT_FILTER_SIZE];
  union {
    struct {
      const struct mg_limiter_table *table;
      struct mg_limiter_rules rules;
      uint64_t buckets;
      uint64_t tracked, counted_ns; /* what was counted last, and when: it takes a walk through the table */
    } limiter;
    struct {
      const struct mg_breaker_cell *cell;
      uint64_t cooldown_ms;
    } breaker;
  };
};

struct mg_components {
  struct mg_buf text; /* routes point into it */
  struct mg_component *list;
  unsigned count;
};

/** How one is at the moment. */
struct mg_component_view {
  unsigned level; /* 0 well; 1: a full limiter, a breaker that tries; 2: an open breaker */
  uint64_t values[MG_COMPONENT_VALUES];
  char detail[96]; /* of a level above 0 */
};

/** The names of a kind's values. */
const char *const *mg_component_value_names(enum mg_component_kind kind);

/** Replaces what components (zeroed before the first time) holds by what the section says; what is not in shared
 * memory is left out. */
void mg_components_read(struct mg_components *components, const struct mg_shm *shm, struct mg_str section);
void mg_components_free(struct mg_components *components);

void mg_component_look(struct mg_component *component, struct mg_component_view *view);
