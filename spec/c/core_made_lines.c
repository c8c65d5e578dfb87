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

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

/* As a filter that sets the line: true if it was found, else it is noted. */
static bool use(struct mg_made_lines *lines, struct mg_str name, struct mg_str value)
{
  if (mg_made_lines_find(lines, name, value)) return true;
  mg_made_lines_note(lines, name, value, mg_header_id(name.ptr, name.len));
  return false;
}

TEST(every_length_is_compared_to_its_last_byte)
{
  char name[64], value[64];
  for (size_t len = 1; len <= 60; len++) {
    struct mg_made_lines *lines = mg_made_lines_new();
    memset(name, 'n', sizeof name);
    memset(value, 'v', sizeof value);
    struct mg_str at_name = mg_str(name, len), at_value = mg_str(value, 60 - len);
    use(lines, at_name, at_value);
    use(lines, at_name, at_value);
    CHECK(mg_made_lines_find(lines, at_name, at_value));
    for (size_t i = 0; i < len; i++) {
      name[i] = 'm';
      CHECK(!mg_made_lines_find(lines, at_name, at_value));
      name[i] = 'n';
    }
    for (size_t i = 0; i < at_value.len; i++) {
      value[i] = 'w';
      CHECK(!mg_made_lines_find(lines, at_name, at_value));
      value[i] = 'v';
    }
    mg_made_lines_free(&lines);
  }
}

/* A few dozen constants, wherever they lie, with a value of one request only between them. */
TEST(constants_do_not_push_each_other_out)
{
  enum { CONSTANTS = 40, ROUNDS = 64 };
  srand(1);
  for (int place = 0; place < 50; place++) {
    struct mg_made_lines *lines = mg_made_lines_new();
    char *memory = malloc(1 << 20), id[16];
    char *names[CONSTANTS];
    unsigned found = 0;
    for (int i = 0; i < CONSTANTS; i++) {
      names[i] = memory + (size_t)i * 16384 + (size_t)(rand() % 500) * 32;
      snprintf(names[i], 24, "x-name-%d", i);
    }
    for (int round = 0; round < ROUNDS; round++) {
      found = 0;
      for (int i = 0; i < CONSTANTS; i++) found += use(lines, text(names[i]), text(names[i] + 2));
      snprintf(id, sizeof id, "%d-%d", place, round);
      CHECK(!use(lines, text("x-request-id"), text(id)));
    }
    CHECK_INT(found, CONSTANTS);
    free(memory);
    mg_made_lines_free(&lines);
  }
}

RUN_TESTS({"a_line_is_kept_when_it_comes_again", a_line_is_kept_when_it_comes_again},
          {"the_same_place_with_other_bytes", the_same_place_with_other_bytes},
          {"what_comes_once_takes_no_room", what_comes_once_takes_no_room}, {"a_full_memory", a_full_memory},
          {"every length is compared to its last byte", every_length_is_compared_to_its_last_byte},
          {"constants do not push each other out", constants_do_not_push_each_other_out})
