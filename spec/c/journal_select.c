/* journal_select.c - what is asked for, read and compared. */
#include "select.h"

#include "t.h"

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

TEST(a_status_is_a_number_or_a_class)
{
  static const struct {
    const char *text;
    bool read;
    unsigned first, last;
  } cases[] = {{"404", true, 404, 404}, {"5xx", true, 500, 599}, {"1XX", true, 100, 199}, {"", false, 0, 0},
               {"40", false, 0, 0},     {"4040", false, 0, 0},   {"600", false, 0, 0},    {"099", false, 0, 0},
               {"4x4", false, 0, 0},    {"40x", false, 0, 0},    {"4/4", false, 0, 0},    {"-50", false, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mg_selection selection = {0};
    CHECK_INT(mg_selection_status(&selection, text(cases[i].text)), cases[i].read);
    CHECK_INT(selection.status_first, cases[i].first);
    CHECK_INT(selection.status_last, cases[i].last);
  }
}

TEST(since_is_a_span_or_a_moment)
{
  const uint64_t now = 2000000000ull * 1000000;
  static const struct {
    const char *text;
    bool read;
    uint64_t seconds;
  } cases[] = {{"30s", true, 1999999970},
               {"10m", true, 1999999400},
               {"2h", true, 1999992800},
               {"1d", true, 1999913600},
               {"99999999d", true, 0},
               {"2026-11-30T21:00:00Z", true, 1796072400},
               {"2026-11-30T21:00:00", true, 1796072400},
               {"1950-01-01T00:00:00Z", true, 0},
               {"", false, 0},
               {"s", false, 0},
               {"10", false, 0},
               {"-10m", false, 0},
               {"1.5h", false, 0},
               {"9999999999999999999d", false, 0},
               {"2026-11-30T21:00:00+01:00", false, 0},
               {"yesterday", false, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mg_selection selection = {0};
    CHECK_INT(mg_selection_since(&selection, text(cases[i].text), now), cases[i].read);
    CHECK_INT(selection.since_us, cases[i].seconds * 1000000);
  }
}

TEST(an_id_is_taken_apart_and_compared)
{
  struct mg_exchange_id id;
  CHECK(mg_exchange_id_read(&id, text("01M8Q43S7V001G000000000005")));
  CHECK_INT(id.start_ms, 1796072400123);
  CHECK_INT(id.shard, 3);
  CHECK_INT(id.low, 5);
  CHECK(!mg_exchange_id_read(&id, text("8ZZZZZZZZZZZZZZZZZZZZZZZZZ")));
  CHECK(!mg_exchange_id_read(&id, text("0000000001000300000000000")));
  CHECK(!mg_exchange_id_read(&id, text("0000000001000300000000000I")));
  CHECK(!mg_exchange_id_read(&id, mg_str("0000000001000300000000000\0", 26)));
}

TEST(an_exchange_is_taken_when_all_of_it_fits)
{
  struct mg_found_exchange ex = {.ended = true,
                                 .status = 503,
                                 .start_us = 1000,
                                 .id = "01KBBZK9Z40007ZZZZZZZZZZZZ",
                                 .line = MG_STR("GET /a/b?c HTTP/1.1"),
                                 .route = MG_STR("all")};
  const struct {
    struct mg_selection selection;
    bool taken;
  } cases[] = {{{.since_us = 0}, true},
               {{.path = MG_STR("/a/b?")}, true},
               {{.path = MG_STR("/b")}, false},
               {{.path = MG_STR("/a/b?c HTTP/1.1 ")}, false},
               {{.route = MG_STR("all")}, true},
               {{.route = MG_STR("al")}, false},
               {{.status_first = 500, .status_last = 599}, true},
               {{.status_first = 404, .status_last = 404}, false},
               {{.since_us = 1000}, true},
               {{.since_us = 1001}, false},
               {{.id = MG_STR("01KBBZK9Z40007ZZZZZZZZZZZZ")}, true},
               {{.id = MG_STR("01KBBZK9Z40007ZZZZZZZZZZZY")}, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    CHECK_INT(mg_selection_takes(&cases[i].selection, &ex), cases[i].taken);
  ex.ended = false;
  CHECK(!mg_selection_takes(&cases[6].selection, &ex));
  ex.line = mg_str("", 0);
  CHECK(!mg_selection_takes(&cases[1].selection, &ex));
}

RUN_TESTS({"a status is a number or a class", a_status_is_a_number_or_a_class},
          {"since is a span or a moment", since_is_a_span_or_a_moment},
          {"an id is taken apart and compared", an_id_is_taken_apart_and_compared},
          {"an exchange is taken when all of it fits", an_exchange_is_taken_when_all_of_it_fits})
