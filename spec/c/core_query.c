/* core_query.c - parameters read and changed. */
#include "query.h"

#include "t.h"

static struct mg_pool pool;
static char first[8192];

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

static struct mg_arena *fresh(struct mg_arena *arena)
{
  mg_pool_init(&pool, 4096, 0);
  mg_arena_init(arena, first, sizeof first, &pool, 0);
  return arena;
}

TEST(parameters_are_read)
{
  struct mg_arena arena;
  struct mg_str query = MG_STR("&a=1&b=x+y%20z&c&d=&%65=e%zz&a=2&f=g=h&=i"), value;
  static const struct {
    const char *name, *value;
  } parameters[] = {
      {"a", "1"}, {"b", "x y z"}, {"c", ""}, {"d", ""}, {"e", "e%zz"}, {"f", "g=h"}, {"", "i"},
  };
  for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
    CHECK(mg_query_get(query, text(parameters[i].name), fresh(&arena), &value));
    CHECK_STR(value, parameters[i].value);
  }
  CHECK(!mg_query_get(query, MG_STR("A"), fresh(&arena), &value));
  CHECK(!mg_query_get(query, MG_STR("aa"), fresh(&arena), &value));
  CHECK(!mg_query_get(MG_STR(""), MG_STR("a"), fresh(&arena), &value));
  CHECK(!mg_query_get(MG_STR(""), MG_STR(""), fresh(&arena), &value));
}

TEST(pairs_come_in_order)
{
  struct mg_str rest = MG_STR("&&a=1&b&=&c==2&");
  static const char *const wholes[] = {"a=1", "b", "=", "c==2"}, *const names[] = {"a", "b", "", "c"},
                           *const values[] = {"1", "", "", "=2"};
  struct mg_query_pair pair;
  for (size_t i = 0; i < 4; i++) {
    CHECK(mg_query_next(&rest, &pair));
    CHECK_STR(pair.whole, wholes[i]);
    CHECK_STR(pair.name, names[i]);
    CHECK_STR(pair.value, values[i]);
  }
  CHECK(!mg_query_next(&rest, &pair));
}

TEST(escapes_at_the_end_stay)
{
  CHECK(mg_query_word_is(MG_STR("a%"), MG_STR("a%")));
  CHECK(mg_query_word_is(MG_STR("a%4"), MG_STR("a%4")));
  CHECK(mg_query_word_is(MG_STR("%4a+%2B"), MG_STR("J +")));
  CHECK(!mg_query_word_is(MG_STR("ab"), MG_STR("a")));
  CHECK(!mg_query_word_is(MG_STR("a"), MG_STR("ab")));
}

TEST(parameters_are_changed)
{
  struct mg_arena arena;
  static const struct {
    const char *query;
    enum mg_query_op op;
    const char *name, *value, *result;
  } rows[] = {{"", MG_QUERY_SET, "a", "1", "a=1"},
              {"a=0&b=2&a=3", MG_QUERY_SET, "a", "1", "a=1&b=2"},
              {"b=%7e&c", MG_QUERY_SET, "a", "1", "b=%7e&c&a=1"},
              {"x&%61=0&y", MG_QUERY_SET, "a", "&= +;\xc3\xa9/?", "x&a=%26%3D%20%2B%3B%C3%A9%2F%3F&y"},
              {"a=0", MG_QUERY_ADD, "a", "1", "a=0&a=1"},
              {"", MG_QUERY_ADD, "a b", "", "a%20b="},
              {"a=0&b&a&a=", MG_QUERY_REMOVE, "a", "", "b"},
              {"a=0", MG_QUERY_REMOVE, "a", "", ""},
              {"&&b=1&&", MG_QUERY_REMOVE, "a", "", "b=1"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    CHECK_STR(mg_query_edit(text(rows[i].query), rows[i].op, text(rows[i].name), text(rows[i].value), fresh(&arena)),
              rows[i].result);
}

TEST(a_full_arena_is_said)
{
  struct mg_arena arena;
  char small[8];
  struct mg_str value;
  mg_pool_init(&pool, 4096, 0);
  mg_arena_init(&arena, small, sizeof small, &pool, 0);
  CHECK(!mg_query_edit(MG_STR("a=0123456789"), MG_QUERY_SET, MG_STR("b"), MG_STR("c"), &arena).ptr);
  CHECK(!mg_query_get(MG_STR("a=0123456789"), MG_STR("a"), &arena, &value));
}

RUN_TESTS({"parameters are read", parameters_are_read}, {"pairs come in order", pairs_come_in_order},
          {"escapes at the end stay", escapes_at_the_end_stay}, {"parameters are changed", parameters_are_changed},
          {"a full arena is said", a_full_arena_is_said})
