/* predicates.h - conditions of routes that the literal table of routes.h cannot hold: regular expressions,
 * parameters, cookies, networks. A generation has one list of them, built once; routes name them by index as OPAQUE.
 * Also what filters ask of the same things: whether every value of a name passes.
 * Thread: built on one, read by one. */
#pragma once

#include "address.h"
#include "headers.h"
#include "mem.h"
#include "regex.h"

enum mg_predicate_test {
  MG_TEST_FUNCTION, /* decided by a function in Lua: not here */
  MG_TEST_PATH_MATCHES,
  MG_TEST_HEADER_MATCHES,
  MG_TEST_HAS_QUERY,
  MG_TEST_QUERY,
  MG_TEST_QUERY_MATCHES,
  MG_TEST_HAS_COOKIE,
  MG_TEST_COOKIE,
  MG_TEST_COOKIE_MATCHES,
  MG_TEST_CLIENT_IN
};

/** What is tested. All borrowed for the call. */
struct mg_predicate_subject {
  struct mg_str path; /* decoded */
  struct mg_str query;
  const struct mg_headers *headers;
  const struct mg_address *client;
  struct mg_arena *arena; /* takes decoded parameters */
};

/** What every value of a name must be: that text, a text that the expression matches, or anything (both NULL). */
struct mg_value_check {
  const struct mg_str *text;
  struct mg_regex *regex;
};

struct mg_predicates;

struct mg_predicates *mg_predicates_new(void);
void mg_predicates_free(struct mg_predicates **predicates);

/** Adds the next one; copies name (of a header, parameter or cookie) and value (a text, pattern, address or
 * network). 0, or MG_EINTERNAL for what cannot be compiled. */
int mg_predicates_add(struct mg_predicates *predicates, int test, struct mg_str name, struct mg_str value);

/** 1 if predicate index holds, 0 if not, MG_EREGEX, MG_ENOMEM; MG_EAGAIN_LATER if it is a function. */
int mg_predicates_decide(const struct mg_predicates *predicates, unsigned index,
                         const struct mg_predicate_subject *subject);

/** 1 if the name is there and every one of its values passes; 0 if not; MG_EREGEX, MG_ENOMEM. Names of headers have
 * no case. */
int mg_header_passes(const struct mg_headers *headers, struct mg_str name, const struct mg_value_check *check);
int mg_query_passes(struct mg_str query, struct mg_str name, const struct mg_value_check *check,
                    struct mg_arena *arena);
int mg_cookie_passes(const struct mg_headers *headers, struct mg_str name, const struct mg_value_check *check);
