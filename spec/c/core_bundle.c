/* core_bundle.c - reading bundles: whole, cut at every byte, malformed. */
#include "bundle.h"

#include "t.h"

static const char sample[] = "moongate-bundle 1\n"
                             "settings 13\nserver.port=1\n"
                             "targets 0\n\n"
                             "source filters/a b.lua 9\nreturn {}\n"
                             "end 0\n\n";

static struct mg_str text(const char *string)
{
  return mg_str(string, strlen(string));
}

/* Reads to the end; returns how many sections came and whether the bundle was whole. */
static int read_all(struct mg_str bytes, bool *whole)
{
  struct mg_bundle_cursor cursor;
  struct mg_str name, body;
  int count = 0;
  *whole = false;
  if (!mg_bundle_open(&cursor, bytes)) return -1;
  while (mg_bundle_next(&cursor, &name, &body, whole)) count++;
  return count;
}

TEST(sections_in_order)
{
  struct mg_bundle_cursor cursor;
  struct mg_str name, body;
  bool whole;
  CHECK(mg_bundle_open(&cursor, text(sample)));
  CHECK(mg_bundle_next(&cursor, &name, &body, &whole));
  CHECK_STR(name, "settings");
  CHECK_STR(body, "server.port=1");
  CHECK(mg_bundle_next(&cursor, &name, &body, &whole));
  CHECK_STR(name, "targets");
  CHECK_STR(body, "");
  CHECK(mg_bundle_next(&cursor, &name, &body, &whole));
  CHECK_STR(name, "source filters/a b.lua");
  CHECK_STR(body, "return {}");
  CHECK(!mg_bundle_next(&cursor, &name, &body, &whole));
  CHECK(whole);
  CHECK(!mg_bundle_next(&cursor, &name, &body, &whole));
  CHECK(whole);
}

TEST(one_section_by_name)
{
  CHECK_STR(mg_bundle_section(text(sample), text("source filters/a b.lua")), "return {}");
  CHECK_STR(mg_bundle_section(text(sample), text("settings")), "server.port=1");
  CHECK(mg_bundle_section(text(sample), text("targets")).ptr != NULL);
  CHECK(mg_bundle_section(text(sample), text("digest")).ptr == NULL);
  CHECK(mg_bundle_section(text("other 1\n"), text("settings")).ptr == NULL);
}

TEST(cut_at_every_byte_is_never_whole)
{
  bool whole;
  size_t len = strlen(sample);
  CHECK_INT(read_all(mg_str(sample, len), &whole), 3);
  CHECK(whole);
  for (size_t i = 0; i < len; i++) {
    char *copy = malloc(i + !i); /* of exactly that size, so that a read past it is seen */
    memcpy(copy, sample, i);
    CHECK(read_all(mg_str(copy, i), &whole) <= 3);
    CHECK(!whole);
    free(copy);
  }
}

TEST(malformed_bundles)
{
  static const char *const bad[] = {
      "moongate-bundle 1\nsettings\nend 0\n\n",
      "moongate-bundle 1\nsettings x\nend 0\n\n",
      "moongate-bundle 1\nsettings \nend 0\n\n",
      "moongate-bundle 1\n 3\nabc\nend 0\n\n",
      "moongate-bundle 1\nsettings -1\nend 0\n\n",
      "moongate-bundle 1\nsettings 3\nabcd\nend 0\n\n",
      "moongate-bundle 1\nsettings 99999999999999999999999\nabc\nend 0\n\n",
      "moongate-bundle 1\nsettings 18446744073709551615\nabc\nend 0\n\n",
      "moongate-bundle 1\nend 1\nx\n",
      "moongate-bundle 1\nend 0\n\nmore",
  };
  bool whole;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_INT(read_all(text(bad[i]), &whole), 0);
    CHECK(!whole);
  }
  CHECK_INT(read_all(text("moongate-bundle 2\nend 0\n\n"), &whole), -1);
}

RUN_TESTS({"sections in order", sections_in_order}, {"one section by name", one_section_by_name},
          {"cut at every byte is never whole", cut_at_every_byte_is_never_whole},
          {"malformed bundles", malformed_bundles})
