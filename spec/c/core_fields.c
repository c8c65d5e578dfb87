/* core_fields.c - the summary of framing lines, lengths, and blocks that end early. */
#include "fields.h"

#include "err.h"
#include "t.h"

struct fixture {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[4096];
  struct mg_headers list;
};

static void set_up(struct fixture *f)
{
  mg_pool_init(&f->pool, 65536, 4);
  mg_arena_init(&f->arena, f->first, sizeof f->first, &f->pool, 1 << 20);
  mg_headers_init(&f->list, &f->arena);
}

static void tear_down(struct fixture *f)
{
  mg_arena_reset(&f->arena, f->first, sizeof f->first);
  mg_pool_destroy(&f->pool);
}

TEST(blocks)
{
  struct fixture f;
  set_up(&f);
  CHECK_INT(mg_fields_parse(&f.list, "\r\nmore", 6, 10), 2);
  CHECK_INT(f.list.count, 0);
  CHECK_INT(mg_fields_parse(&f.list, "A: 1\r\nB:2 \r\n\r\nC: 3", 18, 10), 14);
  CHECK_INT(f.list.count, 2);
  CHECK_INT(mg_fields_parse(&f.list, "A: 1\r\n\r\n", 8, 2), MG_EHEADCOUNT);
  CHECK_INT(mg_fields_parse(&f.list, "A: 1\r\nB", 7, 10), 0);
  tear_down(&f);
}

TEST(raw_lines_are_marked)
{
  static const struct {
    const char *bytes;
    int flags;
  } lines[] = {
      {"A: 1\r\n\r\n", MG_HEADER_RAW},
      {"A: \r\n\r\n", MG_HEADER_RAW},
      {"A: 1  2\r\n\r\n", MG_HEADER_RAW},
      {"A:1\r\n\r\n", 0},
      {"A:  1\r\n\r\n", 0},
      {"A:\t1\r\n\r\n", 0},
      {"A: 1 \r\n\r\n", 0},
      {"A:\r\n\r\n", 0},
      {"A:  \r\n\r\n", 0},
  };
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    struct fixture f;
    set_up(&f);
    CHECK_INT(mg_fields_parse(&f.list, lines[i].bytes, strlen(lines[i].bytes), 10), (long)strlen(lines[i].bytes));
    CHECK_INT(f.list.items[0].flags, lines[i].flags);
    tear_down(&f);
  }
}

TEST(a_name_has_at_most_64_kb)
{
  struct fixture f;
  static char bytes[70000];
  set_up(&f);
  memset(bytes, 'n', sizeof bytes);
  memcpy(bytes + 65535, ": v\r\n\r\n", 7);
  CHECK_INT(mg_fields_parse(&f.list, bytes, sizeof bytes, 10), 65542);
  CHECK_INT(f.list.items[0].name_len, 65535);
  memcpy(bytes + 65535, "n: v\r\n\r\n", 8);
  CHECK_INT(mg_fields_parse(&f.list, bytes, sizeof bytes, 10), MG_EHEADLARGE);
  tear_down(&f);
}

TEST(summaries)
{
  struct fixture f;
  struct mg_fields_summary summary;
  const char *bytes = "Host: a\r\nContent-Length: 1\r\nhost: b\r\nConnection: x, Close\r\nTransfer-Encoding: c\r\n"
                      "Connection: Keep-Alive,upgrade\r\nUpgrade: u\r\nExpect: 100-CONTINUE\r\nExpect: y\r\n\r\n";
  set_up(&f);
  CHECK_INT(mg_fields_parse(&f.list, bytes, strlen(bytes), 100), (long)strlen(bytes));
  mg_fields_summarise(&summary, &f.list);
  CHECK_INT(summary.hosts, 2);
  CHECK(summary.host == &f.list.items[2]);
  CHECK_INT(summary.lengths, 1);
  CHECK_INT(summary.codings, 1);
  CHECK_INT(summary.upgrades, 1);
  CHECK_INT(summary.expects, 2);
  CHECK_INT(summary.expects_100, 1);
  CHECK(summary.close && summary.keep_alive && summary.connection_upgrade);
  tear_down(&f);
}

TEST(lengths)
{
  uint64_t length = 7;
  CHECK(mg_length_parse(MG_STR("0"), &length));
  CHECK_INT(length, 0);
  CHECK(mg_length_parse(MG_STR("9223372036854775807"), &length));
  CHECK(length == INT64_MAX);
  length = 7;
  static const char *const bad[] = {"",
                                    "9223372036854775808",
                                    "9999999999999999999",
                                    "00000000000000000001",
                                    "+1",
                                    "-1",
                                    "1 ",
                                    " 1",
                                    "1,1",
                                    "0x1",
                                    "1e1",
                                    "\xb2"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CHECK(!mg_length_parse(mg_str(bad[i], strlen(bad[i])), &length));
  CHECK(!mg_length_parse(mg_str("1\0", 2), &length));
  CHECK_INT(length, 7);
}

RUN_TESTS({"blocks", blocks}, {"raw lines are marked", raw_lines_are_marked},
          {"a name has at most 64 KB", a_name_has_at_most_64_kb}, {"summaries", summaries}, {"lengths", lengths})
