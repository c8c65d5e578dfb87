/* predicates.c - conditions with regular expressions, parameters, cookies and networks, decided without Lua.
 * Owns: the list, its texts, its compiled expressions.   May call: regex, cookie, query, address, headers.
 * Never: allocate from the heap while it decides.   Thread: built on one, read by one. */
#include "predicates.h"

#include <stdlib.h>

#include "cookie.h"
#include "err.h"
#include "query.h"

struct predicate {
  enum mg_predicate_test test;
  struct mg_str name, value; /* owned */
  struct mg_regex *regex;
  struct mg_network network;
};

struct mg_predicates {
  struct predicate *items;
  unsigned count;
};

/* --- the list ----------------------------------------------------------------------------------------------------- */

struct mg_predicates *mg_predicates_new(void)
{
  return mg_calloc(1, sizeof(struct mg_predicates));
}

void mg_predicates_free(struct mg_predicates **pointer)
{
  struct mg_predicates *predicates = *pointer;
  *pointer = NULL;
  if (!predicates) return;
  for (unsigned i = 0; i < predicates->count; i++) {
    free((char *)predicates->items[i].name.ptr);
    free((char *)predicates->items[i].value.ptr);
    mg_regex_release(predicates->items[i].regex);
  }
  free(predicates->items);
  free(predicates);
}

static bool is_regex(enum mg_predicate_test test)
{
  return test == MG_TEST_PATH_MATCHES || test == MG_TEST_HEADER_MATCHES || test == MG_TEST_QUERY_MATCHES ||
         test == MG_TEST_COOKIE_MATCHES;
}

int mg_predicates_add(struct mg_predicates *predicates, int test, struct mg_str name, struct mg_str value)
{
  char error[8];
  if (test < MG_TEST_FUNCTION || test > MG_TEST_CLIENT_IN) return MG_EINTERNAL;
  struct predicate item = {.test = (enum mg_predicate_test)test};
  if (test == MG_TEST_CLIENT_IN && !mg_network_parse(value, &item.network)) return MG_EINTERNAL;
  if (is_regex(item.test)) item.regex = mg_regex_new(value.ptr, value.len, true, error, sizeof error);
  if (is_regex(item.test) && !item.regex) return MG_EINTERNAL;
  item.name = mg_str(mg_strndup(name.ptr, name.len), name.len);
  item.value = mg_str(mg_strndup(value.ptr, value.len), value.len);
  predicates->items = mg_realloc(predicates->items, (predicates->count + 1) * sizeof item);
  predicates->items[predicates->count++] = item;
  return 0;
}

/* --- deciding ----------------------------------------------------------------------------------------------------- */

static int passes(const struct mg_value_check *check, struct mg_str value)
{
  if (check->text) return mg_str_equal(value, *check->text);
  return check->regex ? mg_regex_test(check->regex, value.ptr, value.len, 0) : 1;
}

int mg_header_passes(const struct mg_headers *headers, struct mg_str name, const struct mg_value_check *check)
{
  int result = 0;
  unsigned from = 0;
  const struct mg_header *line;
  while ((line = mg_headers_next(headers, name, &from))) {
    result = passes(check, mg_str(line->value, line->value_len));
    if (result <= 0) return result;
  }
  return result;
}

int mg_query_passes(struct mg_str query, struct mg_str name, const struct mg_value_check *check, struct mg_arena *arena)
{
  int result = 0;
  struct mg_query_pair pair;
  while (mg_query_next(&query, &pair)) {
    if (!mg_query_word_is(pair.name, name)) continue;
    if (check->text) {
      result = mg_query_word_is(pair.value, *check->text);
    } else if (check->regex) {
      struct mg_str value = mg_query_decode(pair.value, arena);
      result = value.ptr ? passes(check, value) : MG_ENOMEM;
    } else {
      result = 1;
    }
    if (result <= 0) return result;
  }
  return result;
}

int mg_cookie_passes(const struct mg_headers *headers, struct mg_str name, const struct mg_value_check *check)
{
  int result = 0;
  unsigned from = 0;
  const struct mg_header *line;
  while ((line = mg_headers_next(headers, MG_STR("cookie"), &from))) {
    struct mg_str rest = mg_str(line->value, line->value_len), found, value;
    while (mg_cookie_next(&rest, &found, &value)) {
      if (!mg_str_equal(found, name)) continue;
      result = passes(check, value);
      if (result <= 0) return result;
    }
  }
  return result;
}

int mg_predicates_decide(const struct mg_predicates *predicates, unsigned index,
                         const struct mg_predicate_subject *subject)
{
  if (!predicates || index >= predicates->count) return MG_EAGAIN_LATER;
  const struct predicate *item = &predicates->items[index];
  const struct mg_value_check any = {0}, equal = {.text = &item->value}, match = {.regex = item->regex};
  switch (item->test) {
  case MG_TEST_PATH_MATCHES:
    return mg_regex_test(item->regex, subject->path.ptr, subject->path.len, 0);
  case MG_TEST_HEADER_MATCHES:
    return mg_header_passes(subject->headers, item->name, &match);
  case MG_TEST_HAS_QUERY:
    return mg_query_passes(subject->query, item->name, &any, subject->arena);
  case MG_TEST_QUERY:
    return mg_query_passes(subject->query, item->name, &equal, subject->arena);
  case MG_TEST_QUERY_MATCHES:
    return mg_query_passes(subject->query, item->name, &match, subject->arena);
  case MG_TEST_HAS_COOKIE:
    return mg_cookie_passes(subject->headers, item->name, &any);
  case MG_TEST_COOKIE:
    return mg_cookie_passes(subject->headers, item->name, &equal);
  case MG_TEST_COOKIE_MATCHES:
    return mg_cookie_passes(subject->headers, item->name, &match);
  case MG_TEST_CLIENT_IN:
    return subject->client->text_len && mg_network_has(&item->network, subject->client);
  default:
    return MG_EAGAIN_LATER;
  }
}
