/* core_made_lines.c - lines that filters set again: found by address, judged by bytes, never changed once given out. */
#include "made_lines.h"

#include "t.h"

static bool is_made(const struct mg_header *line, const char *wanted)
{
  return line && memcmp(line->name, wanted, strlen(wanted)) == 0 &&
         line->name_len + line->value_len + (size_t)MG_HEADER_FRAME == strlen(wanted) &&
         line->flags == (MG_HEADER_RAW | MG_HEADER_OURS);
}

static void note_twice(struct mg_made_lines *lines, struct mg_str name, struct mg_str value)
{
  for (int i = 0; i < 2; i++) mg_made_lines_note(lines, name, value, mg_header_id(name.ptr, name.len));
}

TEST(a_line_is_kept_when_it_comes_again)
{
  struct mg_made_lines *lines = mg_made_lines_new();
  struct mg_str name = MG_STR("Server"), value = MG_STR("moon");
  mg_made_lines_note(lines, name, value, MG_H_SERVER);
  CHECK(!mg_made_lines_find(lines, name, value));
  mg_made_lines_note(lines, name, value, MG_H_SERVER);
  const struct mg_header *line = mg_made_lines_find(lines, name, value);
  CHECK(is_made(line, "Server: moon\r\n"));
  CHECK_INT(line->id, MG_H_SERVER);
  note_twice(lines, MG_STR("X-Debug"), MG_STR(""));
  mg_made_lines_free(&lines);
  CHECK(!lines);
}

/* Lua gives an address to another string once nobody holds the first one. */
TEST(the_same_place_with_other_bytes)
{
  struct mg_made_lines *lines = mg_made_lines_new();
  char name[] = "x-name", value[] = "first";
  note_twice(lines, mg_str(name, 6), mg_str(value, 5));
  const struct mg_header *first = mg_made_lines_find(lines, mg_str(name, 6), mg_str(value, 5));
  CHECK(is_made(first, "x-name: first\r\n"));
  memcpy(value, "other", 5);
  CHECK(!mg_made_lines_find(lines, mg_str(name, 6), mg_str(value, 5)));
  CHECK(!mg_made_lines_find(lines, mg_str(name, 6), mg_str(value, 4)));
  note_twice(lines, mg_str(name, 6), mg_str(value, 5));
  CHECK(is_made(mg_made_lines_find(lines, mg_str(name, 6), mg_str(value, 5)), "x-name: other\r\n"));
  memcpy(name, "X-name", 6); /* the spelling counts: it is what goes out */
  CHECK(!mg_made_lines_find(lines, mg_str(name, 6), mg_str(value, 5)));
  CHECK(is_made(first, "x-name: first\r\n")); /* still borrowed by somebody */
  mg_made_lines_free(&lines);
}

/* Values of one request each, at addresses that come again, leave the room to what is constant. */
TEST(what_comes_once_takes_no_room)
{
  struct mg_made_lines *lines = mg_made_lines_new();
  char value[16];
  for (unsigned i = 0; i < 100000; i++) {
    snprintf(value, sizeof value, "%09u", i);
    CHECK(!mg_made_lines_find(lines, MG_STR("x-id"), mg_str(value, 9)));
    mg_made_lines_note(lines, MG_STR("x-id"), mg_str(value, 9), MG_H_OTHER);
  }
  note_twice(lines, MG_STR("x-gateway"), MG_STR("g"));
  CHECK(is_made(mg_made_lines_find(lines, MG_STR("x-gateway"), MG_STR("g")), "x-gateway: g\r\n"));
  mg_made_lines_free(&lines);
}

/* Once it is full nothing more gets in, and what is there stays right; what is too long never gets in. */
TEST(a_full_memory)
{
  static char names[4000][16], long_value[200];
  struct mg_made_lines *lines = mg_made_lines_new();
  unsigned kept = 0;
  for (unsigned i = 0; i < 4000; i++) {
    int len = snprintf(names[i], sizeof names[i], "x-name-%u", i);
    note_twice(lines, mg_str(names[i], (size_t)len), MG_STR("the value of that name"));
  }
  for (unsigned i = 0; i < 4000; i++) {
    char wanted[64];
    struct mg_str name = mg_str(names[i], strlen(names[i]));
    const struct mg_header *line = mg_made_lines_find(lines, name, MG_STR("the value of that name"));
    if (!line) continue;
    kept++;
    snprintf(wanted, sizeof wanted, "%s: the value of that name\r\n", names[i]);
    CHECK(is_made(line, wanted));
  }
  CHECK(kept > 100 && kept <= 256);
  memset(long_value, 'v', sizeof long_value);
  note_twice(lines, MG_STR("x-long"), mg_str(long_value, sizeof long_value));
  CHECK(!mg_made_lines_find(lines, MG_STR("x-long"), mg_str(long_value, sizeof long_value)));
  mg_made_lines_free(&lines);
}

RUN_TESTS({"a_line_is_kept_when_it_comes_again", a_line_is_kept_when_it_comes_again},
          {"the_same_place_with_other_bytes", the_same_place_with_other_bytes},
          {"what_comes_once_takes_no_room", what_comes_once_takes_no_room}, {"a_full_memory", a_full_memory})
