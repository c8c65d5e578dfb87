/* routes.h - the literal route table: which route a request belongs to, found without Lua.
 *
 * Built once per generation, then read-only. Every route is filed under its rarest literal (exact path, path prefix,
 * host, header value, method), so that the cost of a look-up does not grow with the number of routes; the candidates
 * are then tested in file order and the first whole match wins. `not` and Lua predicates file a route under "always".
 * Thread: built on one, read by one. */
#pragma once

#include "headers.h"
#include "mem.h"

struct mg_routes;

enum mg_predicate_kind {
  MG_PREDICATE_PATH,       /* value: decoded path equals */
  MG_PREDICATE_PREFIX,     /* value: decoded path begins with (plain string prefix) */
  MG_PREDICATE_SEGMENTS,   /* value: as PREFIX, but only at a '/' or the end */
  MG_PREDICATE_HOST,       /* value: host without port, without case; "*.a.com": one or more labels before .a.com */
  MG_PREDICATE_METHOD,     /* value: method, exact */
  MG_PREDICATE_HEADER,     /* name, value: every line of that name has that value, and there is one */
  MG_PREDICATE_HAS_HEADER, /* name */
  MG_PREDICATE_OPAQUE      /* decided by the caller (regular expressions, cookies, Lua); value: its index, decimal */
};

enum { MG_ROUTE_DEPTH_MAX = 64 }; /* and/or/not within one another */

/** What a look-up reads. All borrowed for the call. */
struct mg_route_query {
  struct mg_str path; /* decoded */
  struct mg_str host; /* without port */
  struct mg_str method;
  const struct mg_headers *headers;
  /* Decides an OPAQUE predicate: 1 true, 0 false, negative error (ends the look-up with it). Asked in file order, and
   * only where the literals before it in its route left it to decide. */
  int (*opaque)(void *context, unsigned index);
  void *context;
};

#pragma GCC visibility push(default) /* Lua builds the table (lua/moongate_ffi.h) */

struct mg_routes *mg_routes_new(void);

/** Adds the next route, in file order; copies id. Its match is then given in postfix order by mg_routes_literal,
 * mg_routes_combine and ended by mg_routes_end; a route without any never matches. */
void mg_routes_begin(struct mg_routes *routes, const char *id, size_t id_len);
void mg_routes_literal(struct mg_routes *routes, int kind, const char *name, size_t name_len, const char *value,
                       size_t value_len);
enum mg_combine { MG_COMBINE_AND, MG_COMBINE_OR, MG_COMBINE_NOT };
void mg_routes_combine(struct mg_routes *routes, int combine, unsigned count);
void mg_routes_end(struct mg_routes *routes);
/** Builds the index; nothing can be added afterwards. 0 or MG_EINTERNAL when the postfix program of a route is not one
 * expression, or one that is nested deeper than MG_ROUTE_DEPTH_MAX. */
int mg_routes_seal(struct mg_routes *routes);

/** SHA-256 over the canonical form of all routes, as 64 hexadecimal digits and a NUL. */
void mg_routes_digest(const struct mg_routes *routes, char out[65]);

#pragma GCC visibility pop

void mg_routes_free(struct mg_routes **routes);

unsigned mg_routes_count(const struct mg_routes *routes);
struct mg_str mg_routes_id(const struct mg_routes *routes, unsigned index);

/** The index of the first route that matches, MG_ENOROUTE, or the error of an opaque predicate. Allocates nothing. */
int mg_routes_find(const struct mg_routes *routes, const struct mg_route_query *query);

/** 1 if route index matches the query, 0 if not, or the error of an opaque predicate (for explain). */
int mg_routes_test(const struct mg_routes *routes, unsigned index, const struct mg_route_query *query);
