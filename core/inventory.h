/* inventory.h - what the configuration in force consists of, as far as the master has to know: the ids of its routes,
 * the keys of its targets, its description for people.
 *
 * Read from a bundle; all text is borrowed from the inventory. Thread: the loop thread. */
#pragma once

#include "components.h"
#include "shm.h"

struct mg_inventory {
  struct mg_buf text; /* copies of the bundle's sections */
  struct mg_str *routes;
  unsigned route_count;
  struct mg_str *targets;
  unsigned target_count;
  struct mg_str overview; /* a JSON object */
  struct mg_components components;
};

/** Gives every route of a bundle its tallies, before any worker looks for them. */
void mg_inventory_prepare(struct mg_shm *shm, unsigned workers, struct mg_str bundle);

/** Replaces what inventory (zeroed before the first time) holds by what bundle says. */
void mg_inventory_read(struct mg_inventory *inventory, const struct mg_shm *shm, struct mg_str bundle);
void mg_inventory_free(struct mg_inventory *inventory);

/** What all workers have counted of a route. */
void mg_inventory_sum(const struct mg_shm *shm, unsigned workers, struct mg_str route, struct mg_tally_sum *sum);
