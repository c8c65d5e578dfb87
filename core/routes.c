/* routes.c - the route table of routes.h: programs of literals, and the merge of the candidates that the index names.
 * Owns: the routes' text, steps and tests, and the index.   May call: err, mem, log, route_index, libcrypto.
 * Never: allocate in a look-up, recurse deeper than MG_ROUTE_DEPTH_MAX.   Thread: built on one, read by one.
 *
 * A match is kept twice: as *steps*, the postfix program as it was given, and as *tests*, each literal with the test
 * that follows when it holds and the one when it does not; and, or, not are in those links and cost nothing later. */
#include "routes.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "log.h"
#include "route_index.h"

enum { STEP_AND = 100, STEP_OR, STEP_NOT }; /* beside enum mg_predicate_kind */
static const uint32_t NEXT_MATCH = UINT32_MAX, NEXT_FAIL = UINT32_MAX - 1;
static const uint64_t NO_KEY = UINT64_MAX;

struct step {
  size_t name, value; /* offsets into text */
  uint32_t name_len, value_len;
  uint32_t count; /* combine: how many operands */
  uint32_t span;  /* steps of the whole expression that ends here */
  uint32_t key;   /* literal: its number in the index, set by seal */
  uint16_t depth;
  uint8_t kind;
};

struct test {
  struct mg_str name, value;
  uint32_t yes, no; /* another test, NEXT_MATCH or NEXT_FAIL */
  uint32_t opaque;
  uint8_t kind;
};

struct route {
  size_t id; /* offset into text */
  uint32_t id_len;
  uint32_t first_step, step_count;
  uint32_t first_test;
};

struct mg_routes {
  struct mg_buf text, routes, steps, tests;
  struct mg_route_index *index;
  bool broken, sealed;
};

static struct route *route_at(const struct mg_routes *routes, uint32_t index)
{
  return &((struct route *)(void *)routes->routes.ptr)[index];
}

static struct step *step_at(const struct mg_routes *routes, uint32_t index)
{
  return &((struct step *)(void *)routes->steps.ptr)[index];
}

static uint32_t step_count(const struct mg_routes *routes)
{
  return (uint32_t)(routes->steps.len / sizeof(struct step));
}

static struct mg_str text_at(const struct mg_routes *routes, size_t at, size_t len)
{
  return mg_str(routes->text.ptr + at, len);
}

/* ---- building ---- */

struct mg_routes *mg_routes_new(void)
{
  struct mg_routes *routes = mg_calloc(1, sizeof *routes);
  routes->index = mg_route_index_new();
  return routes;
}

void mg_routes_free(struct mg_routes **routes)
{
  struct mg_routes *old = *routes;
  if (!old) return;
  *routes = NULL;
  mg_buf_free(&old->text);
  mg_buf_free(&old->routes);
  mg_buf_free(&old->steps);
  mg_buf_free(&old->tests);
  mg_route_index_free(&old->index);
  free(old);
}

static size_t keep_text(struct mg_routes *routes, const char *bytes, size_t len, bool lower)
{
  size_t at = routes->text.len;
  mg_buf_append(&routes->text, bytes, len);
  for (size_t i = at; lower && i < routes->text.len; i++) routes->text.ptr[i] = mg_lower(routes->text.ptr[i]);
  return at;
}

void mg_routes_begin(struct mg_routes *routes, const char *id, size_t id_len)
{
  MG_ASSERT(!routes->sealed);
  struct route route = {.id_len = (uint32_t)id_len, .first_step = step_count(routes)};
  route.id = keep_text(routes, id, id_len, false);
  mg_buf_append(&routes->routes, &route, sizeof route);
}

void mg_routes_literal(struct mg_routes *routes, int kind, const char *name, size_t name_len, const char *value,
                       size_t value_len)
{
  MG_ASSERT(!routes->sealed && routes->routes.len);
  if (kind < MG_PREDICATE_PATH || kind > MG_PREDICATE_OPAQUE) {
    routes->broken = true;
    return;
  }
  struct step step = {
      .kind = (uint8_t)kind, .span = 1, .name_len = (uint32_t)name_len, .value_len = (uint32_t)value_len};
  step.name = keep_text(routes, name, name_len, true);
  step.value = keep_text(routes, value, value_len, kind == MG_PREDICATE_HOST);
  mg_buf_append(&routes->steps, &step, sizeof step);
}

void mg_routes_combine(struct mg_routes *routes, int combine, unsigned count)
{
  MG_ASSERT(!routes->sealed && routes->routes.len);
  uint32_t first = route_at(routes, mg_routes_count(routes) - 1)->first_step;
  uint32_t end = step_count(routes), at = end, depth = 0;
  bool whole =
      combine == MG_COMBINE_NOT ? count == 1 : count > 0 && (combine == MG_COMBINE_AND || combine == MG_COMBINE_OR);
  for (unsigned i = 0; whole && i < count; i++) {
    whole = at > first;
    if (!whole) break;
    const struct step *operand = step_at(routes, at - 1);
    if (operand->depth > depth) depth = operand->depth;
    at -= operand->span;
  }
  if (!whole || depth == MG_ROUTE_DEPTH_MAX) {
    routes->broken = true;
    return;
  }
  struct step step = {
      .kind = (uint8_t)(STEP_AND + combine), .count = count, .span = end - at + 1, .depth = (uint16_t)(depth + 1)};
  mg_buf_append(&routes->steps, &step, sizeof step);
}

void mg_routes_end(struct mg_routes *routes)
{
  MG_ASSERT(!routes->sealed && routes->routes.len);
  struct route *route = route_at(routes, mg_routes_count(routes) - 1);
  uint32_t end = step_count(routes);
  route->step_count = end - route->first_step;
  if (route->step_count && step_at(routes, end - 1)->span != route->step_count) routes->broken = true;
}

/* ---- sealing ---- */

static bool read_opaque_index(struct mg_str text, uint32_t *index)
{
  *index = 0;
  for (size_t i = 0; i < text.len; i++) {
    if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
    *index = *index * 10 + (uint32_t)(text.ptr[i] - '0');
  }
  return text.len > 0 && text.len <= 9;
}

/* Appends the tests of the expression that ends at step `at`; returns its first one. Operands are met last to first,
 * the order in which the follower of each is known. */
static uint32_t emit_tests(struct mg_routes *routes, uint32_t at, uint32_t yes, uint32_t no)
{
  const struct step *step = step_at(routes, at);
  if (step->kind == STEP_NOT) return emit_tests(routes, at - 1, no, yes);
  if (step->kind == STEP_AND || step->kind == STEP_OR) {
    bool is_and = step->kind == STEP_AND;
    uint32_t next = is_and ? yes : no, operand = at - 1;
    for (uint32_t i = 0; i < step->count; i++) {
      next = is_and ? emit_tests(routes, operand, next, no) : emit_tests(routes, operand, yes, next);
      operand -= step_at(routes, operand)->span;
    }
    return next;
  }
  struct test test = {.kind = step->kind, .yes = yes, .no = no};
  test.name = text_at(routes, step->name, step->name_len);
  test.value = text_at(routes, step->value, step->value_len);
  if (step->kind == MG_PREDICATE_OPAQUE && !read_opaque_index(test.value, &test.opaque)) routes->broken = true;
  mg_buf_append(&routes->tests, &test, sizeof test);
  return (uint32_t)(routes->tests.len / sizeof test) - 1;
}

static void find_keys(struct mg_routes *routes, uint32_t index)
{
  const struct route *route = route_at(routes, index);
  for (uint32_t i = route->first_step; i < route->first_step + route->step_count; i++) {
    struct step *step = step_at(routes, i);
    if (step->kind >= MG_PREDICATE_OPAQUE) continue;
    struct mg_str name = text_at(routes, step->name, step->name_len);
    step->key =
        mg_route_index_key(routes->index, step->kind, name, text_at(routes, step->value, step->value_len), index);
  }
}

/* How many routes share the keys under which the expression that ends at `at` can be filed: those of the operand with
 * the fewest for and, all together for or; NO_KEY where nothing must be there (not) or nobody can tell (opaque). */
static uint64_t key_cost(const struct mg_routes *routes, uint32_t at)
{
  const struct step *step = step_at(routes, at);
  if (step->kind == STEP_NOT || step->kind == MG_PREDICATE_OPAQUE) return NO_KEY;
  if (step->kind < MG_PREDICATE_OPAQUE) return mg_route_index_sharing(routes->index, step->key);
  uint64_t least = NO_KEY, sum = 0;
  uint32_t operand = at - 1;
  for (uint32_t i = 0; i < step->count; i++) {
    uint64_t cost = key_cost(routes, operand);
    if (cost < least) least = cost;
    sum = cost == NO_KEY || sum == NO_KEY ? NO_KEY : sum + cost;
    operand -= step_at(routes, operand)->span;
  }
  return step->kind == STEP_AND ? least : sum;
}

/* Files a route under the keys that key_cost counted. */
static void file_route(const struct mg_routes *routes, uint32_t at, uint32_t route)
{
  const struct step *step = step_at(routes, at);
  if (step->kind < MG_PREDICATE_OPAQUE) {
    mg_route_index_file(routes->index, step->key, route);
    return;
  }
  uint64_t least = NO_KEY;
  uint32_t operand = at - 1, rarest = operand;
  for (uint32_t i = 0; i < step->count; i++) {
    if (step->kind == STEP_OR) {
      file_route(routes, operand, route);
    } else {
      uint64_t cost = key_cost(routes, operand);
      if (cost < least) {
        least = cost;
        rarest = operand;
      }
    }
    operand -= step_at(routes, operand)->span;
  }
  if (step->kind == STEP_AND) file_route(routes, rarest, route);
}

int mg_routes_seal(struct mg_routes *routes)
{
  MG_ASSERT(!routes->sealed);
  unsigned count = mg_routes_count(routes);
  for (unsigned i = 0; !routes->broken && i < count; i++) {
    struct route *route = route_at(routes, i);
    uint32_t end = route->first_step + route->step_count;
    route->first_test = route->step_count ? emit_tests(routes, end - 1, NEXT_MATCH, NEXT_FAIL) : NEXT_FAIL;
    find_keys(routes, i);
  }
  if (routes->broken) return MG_EINTERNAL;
  for (unsigned i = 0; i < count; i++) {
    const struct route *route = route_at(routes, i);
    if (!route->step_count) continue;
    uint32_t last = route->first_step + route->step_count - 1;
    if (key_cost(routes, last) == NO_KEY)
      mg_route_index_file(routes->index, MG_ROUTE_KEY_ALWAYS, i);
    else
      file_route(routes, last, i);
  }
  mg_route_index_seal(routes->index);
  routes->sealed = true;
  return 0;
}

unsigned mg_routes_count(const struct mg_routes *routes)
{
  return (unsigned)(routes->routes.len / sizeof(struct route));
}

struct mg_str mg_routes_id(const struct mg_routes *routes, unsigned index)
{
  MG_ASSERT(index < mg_routes_count(routes));
  const struct route *route = route_at(routes, index);
  return text_at(routes, route->id, route->id_len);
}

/* ---- testing ---- */

static bool has_prefix(struct mg_str path, struct mg_str prefix)
{
  return path.len >= prefix.len && memcmp(path.ptr, prefix.ptr, prefix.len) == 0;
}

static bool has_segments(struct mg_str path, struct mg_str prefix)
{
  if (!has_prefix(path, prefix)) return false;
  return path.len == prefix.len || path.ptr[prefix.len] == '/' || (prefix.len && prefix.ptr[prefix.len - 1] == '/');
}

static bool is_host(struct mg_str host, struct mg_str wanted)
{
  if (wanted.len <= 2 || wanted.ptr[0] != '*') return mg_str_equal_nocase(host, wanted);
  size_t suffix_len = wanted.len - 1;
  return host.len > suffix_len && mg_equal_nocase(host.ptr + host.len - suffix_len, wanted.ptr + 1, suffix_len);
}

/* Every line of that name has the value (any if NULL), and there is one. */
static bool has_header(const struct mg_headers *headers, struct mg_str name, const struct mg_str *value)
{
  bool found = false;
  for (unsigned i = 0; headers && i < headers->count; i++) {
    const struct mg_header *line = &headers->items[i];
    if (line->name_len != name.len || line->flags & MG_HEADER_GONE) continue;
    if (!mg_equal_nocase(line->name, name.ptr, name.len)) continue;
    if (value && !mg_str_equal(mg_str(line->value, line->value_len), *value)) return false;
    found = true;
  }
  return found;
}

static int holds(const struct test *test, const struct mg_route_query *query)
{
  switch ((enum mg_predicate_kind)test->kind) {
  case MG_PREDICATE_PATH:
    return mg_str_equal(query->path, test->value);
  case MG_PREDICATE_PREFIX:
    return has_prefix(query->path, test->value);
  case MG_PREDICATE_SEGMENTS:
    return has_segments(query->path, test->value);
  case MG_PREDICATE_HOST:
    return is_host(query->host, test->value);
  case MG_PREDICATE_METHOD:
    return mg_str_equal(query->method, test->value);
  case MG_PREDICATE_HEADER:
    return has_header(query->headers, test->name, &test->value);
  case MG_PREDICATE_HAS_HEADER:
    return has_header(query->headers, test->name, NULL);
  case MG_PREDICATE_OPAQUE:
    return query->opaque ? query->opaque(query->context, test->opaque) : MG_EINTERNAL;
  }
  return MG_EINTERNAL;
}

int mg_routes_test(const struct mg_routes *routes, unsigned index, const struct mg_route_query *query)
{
  MG_ASSERT(routes->sealed && index < mg_routes_count(routes));
  const struct test *tests = (const struct test *)(const void *)routes->tests.ptr;
  uint32_t at = route_at(routes, index)->first_test;
  while (at < NEXT_FAIL) {
    int outcome = holds(&tests[at], query);
    if (outcome < 0) return outcome;
    at = outcome ? tests[at].yes : tests[at].no;
  }
  return at == NEXT_MATCH;
}

/* More runs than the merge takes at once, which needs a request that carries the keys of very many kinds of route. */
static int find_among_all(const struct mg_routes *routes, const struct mg_route_query *query)
{
  for (unsigned i = 0; i < mg_routes_count(routes); i++) {
    int outcome = mg_routes_test(routes, i, query);
    if (outcome) return outcome < 0 ? outcome : (int)i;
  }
  return MG_ENOROUTE;
}

int mg_routes_find(const struct mg_routes *routes, const struct mg_route_query *query)
{
  MG_ASSERT(routes->sealed);
  struct mg_route_cursor runs[MG_ROUTE_CURSORS_MAX];
  int count = mg_route_index_gather(routes->index, query, runs);
  if (count < 0) return find_among_all(routes, query);
  for (;;) {
    uint32_t next = UINT32_MAX;
    for (int i = 0; i < count; i++)
      if (runs[i].at < runs[i].end && *runs[i].at < next) next = *runs[i].at;
    if (next == UINT32_MAX) return MG_ENOROUTE;
    int outcome = mg_routes_test(routes, next, query);
    if (outcome) return outcome < 0 ? outcome : (int)next;
    for (int i = 0; i < count; i++)
      while (runs[i].at < runs[i].end && *runs[i].at <= next) runs[i].at++;
  }
}

/* ---- digest ---- */

static void describe_step(const struct mg_routes *routes, const struct step *step, struct mg_buf *out)
{
  if (step->kind >= STEP_AND) {
    mg_buf_printf(out, "%u of %u\n", step->kind, step->count);
    return;
  }
  mg_buf_printf(out, "%u %u:", step->kind, step->name_len);
  mg_buf_append(out, routes->text.ptr + step->name, step->name_len);
  mg_buf_printf(out, " %u:", step->value_len);
  mg_buf_append(out, routes->text.ptr + step->value, step->value_len);
  mg_buf_append(out, "\n", 1);
}

void mg_routes_digest(const struct mg_routes *routes, char out[65])
{
  struct mg_buf form = {0};
  for (unsigned i = 0; i < mg_routes_count(routes); i++) {
    const struct route *route = route_at(routes, i);
    mg_buf_printf(&form, "route %u:", route->id_len);
    mg_buf_append(&form, routes->text.ptr + route->id, route->id_len);
    mg_buf_printf(&form, " %u\n", route->step_count);
    for (uint32_t j = 0; j < route->step_count; j++)
      describe_step(routes, step_at(routes, route->first_step + j), &form);
  }
  unsigned char hash[EVP_MAX_MD_SIZE];
  int done = EVP_Digest(form.len ? form.ptr : "", form.len, hash, NULL, EVP_sha256(), NULL);
  MG_ASSERT(done == 1);
  for (int i = 0; i < 32; i++) snprintf(out + 2 * i, 3, "%02x", hash[i]);
  mg_buf_free(&form);
}
