/* core_routes.c - the route table against single cases, and against a plain evaluation of random expressions. */
#include "routes.h"

#include "err.h"
#include "mem.h"
#include "t.h"

#define LITERAL(routes, kind, name, value) \
  mg_routes_literal(routes, MG_PREDICATE_##kind, name, strlen(name), value, strlen(value))

static struct mg_header line(const char *name, const char *value)
{
  return (struct mg_header){
      .name = name, .value = value, .value_len = (uint32_t)strlen(value), .name_len = (uint16_t)strlen(name)};
}

static struct mg_str text(const char *string)
{
  return mg_str(string, strlen(string));
}

static void begin(struct mg_routes *routes, const char *id)
{
  mg_routes_begin(routes, id, strlen(id));
}

/* A table with one route that holds one literal; true if a query without headers meets it. */
static bool meets(int kind, const char *wanted, struct mg_route_query query)
{
  struct mg_routes *routes = mg_routes_new();
  begin(routes, "only");
  mg_routes_literal(routes, kind, "", 0, wanted, strlen(wanted));
  mg_routes_end(routes);
  CHECK_INT(mg_routes_seal(routes), 0);
  int found = mg_routes_find(routes, &query);
  CHECK(found == 0 || found == MG_ENOROUTE);
  CHECK_INT(mg_routes_test(routes, 0, &query), found == 0);
  mg_routes_free(&routes);
  CHECK(routes == NULL);
  return found == 0;
}

static struct mg_route_query at(const char *path, const char *host, const char *method)
{
  return (struct mg_route_query){.path = text(path), .host = text(host), .method = text(method)};
}

TEST(path_literals)
{
  CHECK(meets(MG_PREDICATE_PATH, "/a", at("/a", "h", "GET")));
  CHECK(!meets(MG_PREDICATE_PATH, "/a", at("/a/", "h", "GET")));
  CHECK(!meets(MG_PREDICATE_PATH, "/a", at("/A", "h", "GET")));
  CHECK(meets(MG_PREDICATE_PREFIX, "/a", at("/a", "h", "GET")));
  CHECK(meets(MG_PREDICATE_PREFIX, "/a", at("/ab", "h", "GET")));
  CHECK(!meets(MG_PREDICATE_PREFIX, "/ab", at("/a", "h", "GET")));
  CHECK(meets(MG_PREDICATE_SEGMENTS, "/a", at("/a", "h", "GET")));
  CHECK(meets(MG_PREDICATE_SEGMENTS, "/a", at("/a/b", "h", "GET")));
  CHECK(!meets(MG_PREDICATE_SEGMENTS, "/a", at("/ab", "h", "GET")));
  CHECK(meets(MG_PREDICATE_SEGMENTS, "/a/", at("/a/b", "h", "GET")));
  CHECK(!meets(MG_PREDICATE_SEGMENTS, "/a/", at("/a", "h", "GET")));
  CHECK(meets(MG_PREDICATE_SEGMENTS, "/", at("/a", "h", "GET")));
}

TEST(hosts_and_methods)
{
  CHECK(meets(MG_PREDICATE_HOST, "Example.com", at("/", "eXample.COM", "GET")));
  CHECK(!meets(MG_PREDICATE_HOST, "example.com", at("/", "www.example.com", "GET")));
  CHECK(meets(MG_PREDICATE_HOST, "*.example.com", at("/", "www.Example.com", "GET")));
  CHECK(meets(MG_PREDICATE_HOST, "*.example.com", at("/", "a.b.example.com", "GET")));
  CHECK(!meets(MG_PREDICATE_HOST, "*.example.com", at("/", "example.com", "GET")));
  CHECK(!meets(MG_PREDICATE_HOST, "*.example.com", at("/", ".example.com", "GET")));
  CHECK(!meets(MG_PREDICATE_HOST, "*.example.com", at("/", "wwwexample.com", "GET")));
  CHECK(!meets(MG_PREDICATE_HOST, ".example.com", at("/", "www.example.com", "GET")));
  CHECK(meets(MG_PREDICATE_HOST, "[::1]", at("/", "[::1]", "GET")));
  CHECK(!meets(MG_PREDICATE_HOST, "a", at("/", "", "GET")));
  CHECK(meets(MG_PREDICATE_METHOD, "GET", at("/", "h", "GET")));
  CHECK(!meets(MG_PREDICATE_METHOD, "GET", at("/", "h", "get")));
}

TEST(headers_need_every_line)
{
  struct mg_routes *routes = mg_routes_new();
  begin(routes, "acme");
  LITERAL(routes, HEADER, "X-Tenant", "acme");
  mg_routes_end(routes);
  begin(routes, "any");
  LITERAL(routes, HAS_HEADER, "x-tenant", "");
  mg_routes_end(routes);
  CHECK_INT(mg_routes_seal(routes), 0);
  struct mg_header lines[] = {line("accept", "*/*"), line("x-TENANT", "acme"), line("x-tenant", "acme")};
  struct mg_headers headers = {.items = lines, .count = 3};
  struct mg_route_query query = at("/", "h", "GET");
  CHECK_INT(mg_routes_find(routes, &query), MG_ENOROUTE);
  query.headers = &headers;
  CHECK_INT(mg_routes_find(routes, &query), 0);
  lines[2] = line("X-Tenant", "Acme");
  CHECK_INT(mg_routes_find(routes, &query), 1);
  lines[2].flags = MG_HEADER_GONE;
  CHECK_INT(mg_routes_find(routes, &query), 0);
  lines[1].flags = MG_HEADER_GONE;
  CHECK_INT(mg_routes_find(routes, &query), MG_ENOROUTE);
  mg_routes_free(&routes);
}

TEST(file_order_decides)
{
  struct mg_routes *routes = mg_routes_new();
  begin(routes, "never");
  mg_routes_end(routes);
  begin(routes, "long");
  LITERAL(routes, PREFIX, "", "/api/v1");
  LITERAL(routes, METHOD, "", "POST");
  mg_routes_combine(routes, MG_COMBINE_AND, 2);
  mg_routes_end(routes);
  begin(routes, "short");
  LITERAL(routes, PREFIX, "", "/api");
  mg_routes_end(routes);
  begin(routes, "hidden");
  LITERAL(routes, PATH, "", "/api/v1/x");
  mg_routes_end(routes);
  begin(routes, "rest");
  LITERAL(routes, PATH, "", "/private");
  mg_routes_combine(routes, MG_COMBINE_NOT, 1);
  mg_routes_end(routes);
  CHECK_INT(mg_routes_seal(routes), 0);
  CHECK_INT(mg_routes_count(routes), 5);
  CHECK_STR(mg_routes_id(routes, 3), "hidden");
  struct mg_route_query post = at("/api/v1/x", "h", "POST"), get = at("/api/v1/x", "h", "GET");
  struct mg_route_query other = at("/", "h", "GET"), private = at("/private", "h", "GET");
  CHECK_INT(mg_routes_find(routes, &post), 1);
  CHECK_INT(mg_routes_find(routes, &get), 2);
  CHECK_INT(mg_routes_test(routes, 3, &get), 1);
  CHECK_INT(mg_routes_find(routes, &other), 4);
  CHECK_INT(mg_routes_find(routes, &private), MG_ENOROUTE);
  mg_routes_free(&routes);
}

struct oracle {
  int answers[3];
  unsigned asked;
};

static int answer(void *context, unsigned index)
{
  struct oracle *oracle = context;
  oracle->asked++;
  return oracle->answers[index];
}

TEST(opaque_predicates_are_asked_in_order_and_only_where_needed)
{
  struct mg_routes *routes = mg_routes_new();
  begin(routes, "a");
  LITERAL(routes, PREFIX, "", "/a");
  LITERAL(routes, OPAQUE, "", "0");
  mg_routes_combine(routes, MG_COMBINE_AND, 2);
  mg_routes_end(routes);
  begin(routes, "b");
  LITERAL(routes, OPAQUE, "", "1");
  mg_routes_end(routes);
  begin(routes, "c");
  LITERAL(routes, PREFIX, "", "/");
  LITERAL(routes, OPAQUE, "", "2");
  mg_routes_combine(routes, MG_COMBINE_OR, 2);
  mg_routes_end(routes);
  CHECK_INT(mg_routes_seal(routes), 0);
  struct oracle oracle = {.answers = {0, 0, MG_EREGEX}};
  struct mg_route_query query = at("/b", "h", "GET");
  query.opaque = answer;
  query.context = &oracle;
  CHECK_INT(mg_routes_find(routes, &query), 2);
  CHECK_INT(oracle.asked, 1);
  query.path = text("/a");
  oracle.answers[1] = MG_EREGEX;
  CHECK_INT(mg_routes_find(routes, &query), MG_EREGEX);
  CHECK_INT(oracle.asked, 3);
  oracle.answers[0] = 1;
  CHECK_INT(mg_routes_find(routes, &query), 0);
  CHECK_INT(oracle.asked, 4);
  query.opaque = NULL;
  CHECK_INT(mg_routes_test(routes, 1, &query), MG_EINTERNAL);
  mg_routes_free(&routes);
}

/* An opaque predicate in front counts how many routes a look-up tested. */
TEST(only_routes_that_share_a_key_are_tested)
{
  enum { ROUTES = 1000 };
  struct mg_routes *routes = mg_routes_new();
  char value[40];
  for (int i = 0; i < ROUTES; i++) {
    int kind = (int[]){MG_PREDICATE_PREFIX, MG_PREDICATE_PATH, MG_PREDICATE_HOST, MG_PREDICATE_HEADER}[i % 4];
    snprintf(value, sizeof value, kind <= MG_PREDICATE_PREFIX ? "/v%d/" : "v%d", i);
    begin(routes, value);
    LITERAL(routes, OPAQUE, "", "0");
    LITERAL(routes, PREFIX, "", "/");
    mg_routes_literal(routes, kind, "x-tenant", 8, value, strlen(value));
    mg_routes_combine(routes, MG_COMBINE_AND, 3);
    mg_routes_end(routes);
  }
  CHECK_INT(mg_routes_seal(routes), 0);
  struct mg_header tenant = line("X-Tenant", "v43");
  struct mg_headers headers = {.items = &tenant, .count = 1};
  struct oracle oracle = {.answers = {1}};
  struct mg_route_query query = at("/v81/", "V42", "GET");
  query.headers = &headers;
  query.opaque = answer;
  query.context = &oracle;
  CHECK_INT(mg_routes_find(routes, &query), 42);
  CHECK_INT(oracle.asked, 1);
  oracle.answers[0] = 0;
  CHECK_INT(mg_routes_find(routes, &query), MG_ENOROUTE);
  CHECK_INT(oracle.asked, 1 + 3); /* 42, 43, 81 */
  mg_routes_free(&routes);
}

static int seal_of(void (*build)(struct mg_routes *routes))
{
  struct mg_routes *routes = mg_routes_new();
  begin(routes, "before");
  LITERAL(routes, PATH, "", "/before");
  mg_routes_end(routes);
  begin(routes, "odd");
  build(routes);
  mg_routes_end(routes);
  int outcome = mg_routes_seal(routes);
  mg_routes_free(&routes);
  return outcome;
}

static void two_expressions(struct mg_routes *routes)
{
  LITERAL(routes, PATH, "", "/a");
  LITERAL(routes, PATH, "", "/b");
}

static void operand_of_another_route(struct mg_routes *routes)
{
  LITERAL(routes, PATH, "", "/a");
  mg_routes_combine(routes, MG_COMBINE_AND, 2);
}

static void empty_and(struct mg_routes *routes)
{
  mg_routes_combine(routes, MG_COMBINE_AND, 0);
}

static void unknown_kind(struct mg_routes *routes)
{
  mg_routes_literal(routes, 99, "", 0, "", 0);
}

static void opaque_without_index(struct mg_routes *routes)
{
  LITERAL(routes, OPAQUE, "", "x");
}

static void nest(struct mg_routes *routes, int depth)
{
  LITERAL(routes, PATH, "", "/a");
  for (int i = 0; i < depth; i++) mg_routes_combine(routes, MG_COMBINE_NOT, 1);
}

static void deepest(struct mg_routes *routes)
{
  nest(routes, MG_ROUTE_DEPTH_MAX);
}

static void too_deep(struct mg_routes *routes)
{
  nest(routes, MG_ROUTE_DEPTH_MAX + 1);
}

TEST(programs_that_are_not_one_expression)
{
  CHECK_INT(seal_of(two_expressions), MG_EINTERNAL);
  CHECK_INT(seal_of(operand_of_another_route), MG_EINTERNAL);
  CHECK_INT(seal_of(empty_and), MG_EINTERNAL);
  CHECK_INT(seal_of(unknown_kind), MG_EINTERNAL);
  CHECK_INT(seal_of(opaque_without_index), MG_EINTERNAL);
  CHECK_INT(seal_of(deepest), 0);
  CHECK_INT(seal_of(too_deep), MG_EINTERNAL);
}

static void digest_of(const char *id, const char *name, const char *value, char out[65])
{
  struct mg_routes *routes = mg_routes_new();
  begin(routes, id);
  LITERAL(routes, HEADER, name, value);
  mg_routes_end(routes);
  CHECK_INT(mg_routes_seal(routes), 0);
  mg_routes_digest(routes, out);
  mg_routes_free(&routes);
}

TEST(digest_tells_tables_apart)
{
  char one[65], same[65], moved[65], other[65];
  digest_of("r", "ab", "c", one);
  digest_of("r", "AB", "c", same);
  digest_of("r", "a", "bc", moved);
  digest_of("s", "ab", "c", other);
  CHECK_INT(strlen(one), 64);
  CHECK_INT(strspn(one, "0123456789abcdef"), 64);
  CHECK_INT(strcmp(one, same), 0);
  CHECK(strcmp(one, moved) != 0);
  CHECK(strcmp(one, other) != 0);
}

/* ---- random tables: the index must agree with testing every route in turn, and programs with their own tree ---- */

static uint64_t seed = 20240611;

static unsigned below(unsigned limit)
{
  seed ^= seed << 13; /* xorshift64 */
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (unsigned)(seed % limit);
}

static const char *const paths[] = {"/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/abc/d", "/b", "/b/a", "/c"};
static const char *const hosts[] = {"a.com", "b.a.com", "c.b.a.com", "A.com",    "[::1]",
                                    "x",     "*.a.com", "*.com",     "*.b.a.com"};
static const char *const methods[] = {"GET", "POST", "get"};
static const char *const names[] = {"x-a", "X-A", "x-b", "accept", "x-tenant"};
static const char *const values[] = {"1", "2", ""};

#define ANY(list) ((list)[below(sizeof(list) / sizeof *(list))])

/* The same literals judged without the table. */
static bool plain_literal(int kind, const char *name, const char *value, const struct mg_route_query *query)
{
  struct mg_str path = query->path, host = query->host, wanted = text(value);
  bool begins = path.len >= wanted.len && strncmp(path.ptr, value, wanted.len) == 0;
  bool all = true, some = false;
  switch (kind) {
  case MG_PREDICATE_PATH:
    return mg_str_equal(path, wanted);
  case MG_PREDICATE_PREFIX:
    return begins;
  case MG_PREDICATE_SEGMENTS:
    return begins && (wanted.len == path.len || value[wanted.len - 1] == '/' || path.ptr[wanted.len] == '/');
  case MG_PREDICATE_HOST:
    if (value[0] != '*') return mg_str_equal_nocase(host, wanted);
    return host.len >= wanted.len &&
           strncasecmp(host.ptr + host.len - (wanted.len - 1), value + 1, wanted.len - 1) == 0;
  case MG_PREDICATE_METHOD:
    return mg_str_equal(query->method, wanted);
  default:
    break;
  }
  for (unsigned i = 0; i < query->headers->count; i++) {
    const struct mg_header *header = &query->headers->items[i];
    if (!mg_str_equal_nocase(mg_str(header->name, header->name_len), text(name))) continue;
    some = true;
    all = all && mg_str_equal(mg_str(header->value, header->value_len), wanted);
  }
  return kind == MG_PREDICATE_HAS_HEADER ? some : some && all;
}

/* Adds a random expression to the route; its value for each query is left in truth. */
static void random_expression(struct mg_routes *routes, int depth, const struct mg_route_query *queries, unsigned count,
                              bool *truth)
{
  unsigned shape = depth ? below(6) : 9;
  if (shape < 2) {
    unsigned operands = 1 + below(3);
    bool more[64];
    random_expression(routes, depth - 1, queries, count, truth);
    for (unsigned i = 1; i < operands; i++) {
      random_expression(routes, depth - 1, queries, count, more);
      for (unsigned j = 0; j < count; j++) truth[j] = shape ? truth[j] || more[j] : truth[j] && more[j];
    }
    mg_routes_combine(routes, shape ? MG_COMBINE_OR : MG_COMBINE_AND, operands);
    return;
  }
  if (shape == 2) {
    random_expression(routes, depth - 1, queries, count, truth);
    for (unsigned j = 0; j < count; j++) truth[j] = !truth[j];
    mg_routes_combine(routes, MG_COMBINE_NOT, 1);
    return;
  }
  int kind = (int)below(MG_PREDICATE_OPAQUE);
  const char *name = ANY(names), *value = ANY(values);
  if (kind <= MG_PREDICATE_SEGMENTS) value = ANY(paths);
  if (kind == MG_PREDICATE_HOST) value = ANY(hosts);
  if (kind == MG_PREDICATE_METHOD) value = ANY(methods);
  mg_routes_literal(routes, kind, name, strlen(name), value, strlen(value));
  for (unsigned j = 0; j < count; j++) truth[j] = plain_literal(kind, name, value, &queries[j]);
}

TEST(agrees_with_plain_evaluation)
{
  enum { TABLES = 300, ROUTES = 24, QUERIES = 64 };
  static struct mg_header lines[QUERIES][4];
  static struct mg_headers headers[QUERIES];
  static struct mg_route_query queries[QUERIES];
  unsigned met = 0;
  for (int table = 0; table < TABLES; table++) {
    int wanted[QUERIES];
    for (unsigned j = 0; j < QUERIES; j++) {
      headers[j] = (struct mg_headers){.items = lines[j], .count = (uint16_t)below(5)};
      for (unsigned i = 0; i < headers[j].count; i++) lines[j][i] = line(ANY(names), ANY(values));
      queries[j] = at(ANY(paths), hosts[below(6)], ANY(methods));
      queries[j].headers = &headers[j];
      wanted[j] = MG_ENOROUTE;
    }
    struct mg_routes *routes = mg_routes_new();
    for (int i = 0; i < ROUTES; i++) {
      bool truth[QUERIES] = {0};
      begin(routes, "r");
      if (below(20)) random_expression(routes, 4, queries, QUERIES, truth);
      mg_routes_end(routes);
      for (unsigned j = 0; j < QUERIES; j++)
        if (truth[j] && wanted[j] == MG_ENOROUTE) wanted[j] = i;
    }
    CHECK_INT(mg_routes_seal(routes), 0);
    for (unsigned j = 0; j < QUERIES; j++) {
      CHECK_INT(mg_routes_find(routes, &queries[j]), wanted[j]);
      met += wanted[j] > 0;
    }
    mg_routes_free(&routes);
  }
  CHECK(met > TABLES * QUERIES / 4); /* the tables are not all caught by their first route */
}

TEST(more_runs_than_the_merge_holds)
{
  enum { NAMES = 100 };
  static char names_of[NAMES][16];
  static struct mg_header lines[NAMES];
  struct mg_routes *routes = mg_routes_new();
  for (int i = 0; i < NAMES; i++) {
    snprintf(names_of[i], sizeof names_of[i], "x-%d", i);
    lines[i] = line(names_of[i], "1");
    begin(routes, names_of[i]);
    LITERAL(routes, HAS_HEADER, names_of[i], "");
    LITERAL(routes, METHOD, "", "PUT");
    mg_routes_combine(routes, MG_COMBINE_AND, 2);
    mg_routes_end(routes);
  }
  begin(routes, "last");
  LITERAL(routes, HEADER, "x-99", "1");
  mg_routes_end(routes);
  CHECK_INT(mg_routes_seal(routes), 0);
  struct mg_headers headers = {.items = lines, .count = NAMES};
  struct mg_route_query query = at("/", "h", "GET");
  query.headers = &headers;
  CHECK_INT(mg_routes_find(routes, &query), NAMES);
  headers.count = NAMES - 1;
  CHECK_INT(mg_routes_find(routes, &query), MG_ENOROUTE);
  mg_routes_free(&routes);
}

TEST(ten_thousand_routes)
{
  enum { ROUTES = 10000 };
  struct mg_routes *routes = mg_routes_new();
  char prefix[40], host[40];
  for (int i = 0; i < ROUTES; i++) {
    snprintf(prefix, sizeof prefix, "/api/get/r%d/", i);
    snprintf(host, sizeof host, "h%d.example.com", i);
    begin(routes, prefix);
    LITERAL(routes, PREFIX, "", i % 2 ? prefix : "/");
    LITERAL(routes, HOST, "", i % 2 ? "h" : host);
    mg_routes_combine(routes, MG_COMBINE_AND, 2);
    mg_routes_end(routes);
  }
  CHECK_INT(mg_routes_seal(routes), 0);
  for (int i = 0; i < ROUTES; i += 7) {
    snprintf(prefix, sizeof prefix, "/api/get/r%d/x", i);
    snprintf(host, sizeof host, "H%d.example.com", i);
    struct mg_route_query query = at(prefix, i % 2 ? "H" : host, "GET");
    CHECK_INT(mg_routes_find(routes, &query), i);
  }
  mg_routes_free(&routes);
}

RUN_TESTS({"path literals", path_literals}, {"hosts and methods", hosts_and_methods},
          {"headers need every line", headers_need_every_line}, {"file order decides", file_order_decides},
          {"opaque predicates are asked in order and only where needed",
           opaque_predicates_are_asked_in_order_and_only_where_needed},
          {"only routes that share a key are tested", only_routes_that_share_a_key_are_tested},
          {"programs that are not one expression", programs_that_are_not_one_expression},
          {"digest tells tables apart", digest_tells_tables_apart},
          {"agrees with plain evaluation", agrees_with_plain_evaluation},
          {"more runs than the merge holds", more_runs_than_the_merge_holds},
          {"ten thousand routes", ten_thousand_routes})
