/* route_index.h - which routes could match a request: routes filed under literals, found again without looking at the
 * others. Used by routes.c alone.
 *
 * Order of calls: new, key for every literal, file for every route in file order, seal, then gather.
 * Thread: built on one, read by one. */
#pragma once

#include "routes.h"

struct mg_route_index;

/** A run of route indexes, ascending. */
struct mg_route_cursor {
  const uint32_t *at;
  const uint32_t *end;
};

enum { MG_ROUTE_CURSORS_MAX = 64 };

struct mg_route_index *mg_route_index_new(void);
void mg_route_index_free(struct mg_route_index **index);

/** The number of the key for a literal of a route. Borrows name (lower case) and value for the index's life. */
uint32_t mg_route_index_key(struct mg_route_index *index, int kind, struct mg_str name, struct mg_str value,
                            uint32_t route);

/** How many routes hold that key. */
uint32_t mg_route_index_sharing(const struct mg_route_index *index, uint32_t key);

enum { MG_ROUTE_KEY_ALWAYS = 0 }; /* the key of routes that every request must be tested against */

/** Files a route under a key. */
void mg_route_index_file(struct mg_route_index *index, uint32_t key, uint32_t route);

void mg_route_index_seal(struct mg_route_index *index);

/** Fills cursors with the runs that hold every route which can match the query (and some that cannot). Returns how
 * many, or -1 when there are more than MG_ROUTE_CURSORS_MAX. */
int mg_route_index_gather(const struct mg_route_index *index, const struct mg_route_query *query,
                          struct mg_route_cursor cursors[MG_ROUTE_CURSORS_MAX]);
