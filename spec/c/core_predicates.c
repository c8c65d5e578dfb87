/* core_predicates.c - conditions decided in C: every value of a name must pass. */
#include "predicates.h"

#include "err.h"
#include "t.h"

static struct mg_pool pool;
static char first[16384];
static struct mg_arena arena;

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

/* A request with two Cookie lines and two lines of X-Tag. */
static struct mg_predicate_subject subject_of(struct mg_headers *headers, struct mg_address *client,
                                              const char *address)
{
  mg_pool_init(&pool, 4096, 0);
  mg_arena_init(&arena, first, sizeof first, &pool, 0);
  mg_headers_init(headers, &arena);
  CHECK_INT(mg_headers_push(headers, MG_STR("X-Tag"), MG_STR("ab"), MG_H_OTHER), 0);
  CHECK_INT(mg_headers_push(headers, MG_STR("Cookie"), MG_STR("a=1; b=2"), MG_H_OTHER), 0);
  CHECK_INT(mg_headers_push(headers, MG_STR("x-tag"), MG_STR("ac"), MG_H_OTHER), 0);
  CHECK_INT(mg_headers_push(headers, MG_STR("cookie"), MG_STR("b=3"), MG_H_OTHER), 0);
  *client = (struct mg_address){0};
  if (*address) CHECK(mg_address_parse(text(address), client));
  return (struct mg_predicate_subject){.path = MG_STR("/api/v1/users"),
                                       .query = MG_STR("a=1&flag&b=x%20y&b=x+y&c=1&c=2&d=%FF"),
                                       .headers = headers,
                                       .client = client,
                                       .arena = &arena};
}

static int decide(int test, const char *name, const char *value, const char *address)
{
  struct mg_headers headers;
  struct mg_address client;
  struct mg_predicate_subject subject = subject_of(&headers, &client, address);
  struct mg_predicates *predicates = mg_predicates_new();
  CHECK_INT(mg_predicates_add(predicates, MG_TEST_FUNCTION, MG_STR(""), MG_STR("")), 0);
  CHECK_INT(mg_predicates_add(predicates, test, text(name), text(value)), 0);
  CHECK_INT(mg_predicates_decide(predicates, 0, &subject), MG_EAGAIN_LATER);
  int result = mg_predicates_decide(predicates, 1, &subject);
  mg_predicates_free(&predicates);
  CHECK(predicates == NULL);
  return result;
}

TEST(decisions)
{
  static const struct {
    int test;
    const char *name, *value;
    int holds;
  } rows[] = {{MG_TEST_PATH_MATCHES, "", "/api/v\\d/.*", 1},
              {MG_TEST_PATH_MATCHES, "", "/api/v\\d", 0},
              {MG_TEST_HEADER_MATCHES, "x-tag", "a[bc]", 1},
              {MG_TEST_HEADER_MATCHES, "x-tag", "ab", 0}, /* the other line does not */
              {MG_TEST_HEADER_MATCHES, "x-tag", "a", 0},
              {MG_TEST_HEADER_MATCHES, "x-none", ".*", 0},
              {MG_TEST_HAS_QUERY, "flag", "", 1},
              {MG_TEST_HAS_QUERY, "fla", "", 0},
              {MG_TEST_QUERY, "a", "1", 1},
              {MG_TEST_QUERY, "flag", "", 1},
              {MG_TEST_QUERY, "b", "x y", 1},
              {MG_TEST_QUERY, "c", "1", 0},
              {MG_TEST_QUERY, "none", "", 0},
              {MG_TEST_QUERY_MATCHES, "c", "\\d", 1},
              {MG_TEST_QUERY_MATCHES, "b", "x.y", 1},
              {MG_TEST_QUERY_MATCHES, "d", ".*", 0}, /* no UTF-8 */
              {MG_TEST_HAS_COOKIE, "a", "", 1},
              {MG_TEST_HAS_COOKIE, "c", "", 0},
              {MG_TEST_COOKIE, "a", "1", 1},
              {MG_TEST_COOKIE, "b", "2", 0},
              {MG_TEST_COOKIE_MATCHES, "b", "[23]", 1},
              {MG_TEST_COOKIE_MATCHES, "b", "2", 0},
              {MG_TEST_CLIENT_IN, "", "10.0.0.0/8", 1},
              {MG_TEST_CLIENT_IN, "", "10.1.2.3", 1},
              {MG_TEST_CLIENT_IN, "", "10.1.2.4", 0},
              {MG_TEST_CLIENT_IN, "", "::/0", 1},
              {MG_TEST_CLIENT_IN, "", "fd00::/8", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int got = decide(rows[i].test, rows[i].name, rows[i].value, "10.1.2.3");
    if (got != rows[i].holds) fprintf(stderr, "row %zu\n", i);
    CHECK_INT(got, rows[i].holds);
  }
  CHECK_INT(decide(MG_TEST_CLIENT_IN, "", "fd00::/8", "fd12::1"), 1);
  CHECK_INT(decide(MG_TEST_CLIENT_IN, "", "::/0", ""), 0); /* a unix socket has no address */
}

TEST(a_pattern_over_budget_is_an_error)
{
  struct mg_headers headers;
  struct mg_address client;
  struct mg_predicate_subject subject = subject_of(&headers, &client, "::1");
  struct mg_predicates *predicates = mg_predicates_new();
  subject.path = MG_STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!");
  CHECK_INT(mg_predicates_add(predicates, MG_TEST_PATH_MATCHES, MG_STR(""), MG_STR("(a+)+[bc]")), 0);
  CHECK_INT(mg_predicates_decide(predicates, 0, &subject), MG_EREGEX);
  mg_predicates_free(&predicates);
}

TEST(what_cannot_be_compiled)
{
  struct mg_predicates *predicates = mg_predicates_new();
  CHECK_INT(mg_predicates_add(predicates, MG_TEST_PATH_MATCHES, MG_STR(""), MG_STR("(")), MG_EINTERNAL);
  CHECK_INT(mg_predicates_add(predicates, MG_TEST_CLIENT_IN, MG_STR(""), MG_STR("10.0.0.0/33")), MG_EINTERNAL);
  CHECK_INT(mg_predicates_add(predicates, MG_TEST_CLIENT_IN + 1, MG_STR(""), MG_STR("")), MG_EINTERNAL);
  mg_predicates_free(&predicates);
  mg_predicates_free(&predicates);
}

RUN_TESTS({"decisions", decisions}, {"a pattern over budget is an error", a_pattern_over_budget_is_an_error},
          {"what cannot be compiled", what_cannot_be_compiled})
