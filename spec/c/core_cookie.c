/* core_cookie.c - cookies read, set, removed. */
#include "cookie.h"

#include "err.h"
#include "t.h"

static struct mg_pool pool;
static char first[8192];
static struct mg_arena arena;

/* A list with Cookie lines, which are split at '|', and one line of another name. */
static struct mg_headers lines_of(const char *cookies)
{
  struct mg_headers list;
  mg_pool_init(&pool, 4096, 0);
  mg_arena_init(&arena, first, sizeof first, &pool, 0);
  mg_headers_init(&list, &arena);
  CHECK_INT(mg_headers_push(&list, MG_STR("x-a"), MG_STR("a=1"), MG_H_OTHER), 0);
  while (*cookies) {
    size_t len = strcspn(cookies, "|");
    CHECK_INT(mg_headers_push(&list, MG_STR("Cookie"), mg_str(cookies, len), MG_H_OTHER), 0);
    cookies += len + (cookies[len] == '|');
  }
  return list;
}

/* The Cookie lines of a list, joined by '|'. */
static struct mg_str joined(const struct mg_headers *list)
{
  static char out[512];
  size_t len = 0;
  unsigned from = 0;
  const struct mg_header *line;
  while ((line = mg_headers_next(list, MG_STR("cookie"), &from))) {
    if (len) out[len++] = '|';
    memcpy(out + len, line->value, line->value_len);
    len += line->value_len;
  }
  return mg_str(out, len);
}

TEST(cookies_are_read)
{
  static const struct {
    const char *lines, *name, *value; /* value NULL: not there */
  } rows[] = {
      {"a=1; b=2", "a", "1"}, {"a=1; b=2", "b", "2"},    {"a=1|b=2", "b", "2"}, {"a=1;b=2 ; c=\"3\"", "c", "\"3\""},
      {"a=1; a=2", "a", "1"}, {"a; b=2", "a", NULL},     {"", "a", NULL},       {"aa=1", "a", NULL},
      {"A=1", "a", NULL},     {" ;; a=b=c", "a", "b=c"}, {"a=", "a", ""},       {"ab=1; a=2", "a", "2"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct mg_headers list = lines_of(rows[i].lines);
    struct mg_str value;
    bool found = mg_cookie_get(&list, mg_str(rows[i].name, strlen(rows[i].name)), &value);
    CHECK_INT(found, rows[i].value != NULL);
    if (found) CHECK_STR(value, rows[i].value);
  }
}

TEST(cookies_are_set_and_removed)
{
  static const struct {
    const char *lines, *name, *value, *result; /* value NULL: removed */
  } rows[] = {{"", "a", "1", "a=1"},
              {"b=2", "a", "1", "b=2; a=1"},
              {"a=0;b=2;a=3", "a", "1", "a=1; b=2"},
              {"b=2|a=0", "a", "1", "b=2|a=1"},
              {"b=2|c=3", "a", "1", "b=2|c=3; a=1"},
              {"a=0|a=5; c=3", "a", "1", "a=1|c=3"},
              {"a=0; b=2; plain", "a", NULL, "b=2; plain"},
              {"a=0", "a", NULL, ""},
              {"a=0|b=2", "a", NULL, "b=2"},
              {"a=0|a=1", "a", "much longer than it was", "a=much longer than it was"},
              {"x;y;z;w;v", "a", "1", "x; y; z; w; v; a=1"},
              {"b=2", "a", NULL, "b=2"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct mg_headers list = lines_of(rows[i].lines);
    struct mg_str value = mg_str(rows[i].value, rows[i].value ? strlen(rows[i].value) : 0);
    CHECK_INT(mg_cookie_set(&list, mg_str(rows[i].name, strlen(rows[i].name)), rows[i].value ? &value : NULL), 0);
    CHECK_STR(joined(&list), rows[i].result);
    unsigned from = 0;
    CHECK(mg_headers_next(&list, MG_STR("x-a"), &from) != NULL);
  }
}

TEST(what_cannot_stand_in_a_line)
{
  CHECK(mg_cookie_name_ok(MG_STR("a.b-c")));
  CHECK(!mg_cookie_name_ok(MG_STR("")) && !mg_cookie_name_ok(MG_STR("a b")) && !mg_cookie_name_ok(MG_STR("a=b")) &&
        !mg_cookie_name_ok(MG_STR("a;b")) && !mg_cookie_name_ok(MG_STR("a\n")));
  CHECK(mg_cookie_value_ok(MG_STR("")) && mg_cookie_value_ok(MG_STR("a=b c")));
  CHECK(!mg_cookie_value_ok(MG_STR("a;b")) && !mg_cookie_value_ok(MG_STR("a\rb")));
}

RUN_TESTS({"cookies are read", cookies_are_read}, {"cookies are set and removed", cookies_are_set_and_removed},
          {"what cannot stand in a line", what_cannot_stand_in_a_line})
