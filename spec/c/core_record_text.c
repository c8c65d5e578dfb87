/* core_record_text.c - heads of every mixture of lines that come once, now and then and always: what is read out of the
 * batches is what was put in, whatever was remembered, referred to or forgotten on the way. */
#include "record_text.h"

#include <unistd.h>

#include "journal_support.h"

enum { EXCHANGES = 30000, LINES_MAX = 24, KEPT = 2048, RAW_MAX = 4096, BASE = 1000, ROUNDS = 8 };

static const char *const names[2][4] = {{"accept", "user-agent", "x-request-id", "range"},
                                        {"server", "etag", "date", "x-powered-by"}};

struct life {
  char folder[256];
  struct mg_settings settings;
  struct mg_redactor *redactor;
  struct mg_texts *texts;
  struct mg_stage stage;
  struct mg_unpacker *unpacker;
  char (*raw)[MG_MESSAGES][RAW_MAX]; /* by number, the last KEPT */
  size_t (*len)[MG_MESSAGES];
  uint64_t state, unread; /* of the generator; the first exchange that was not read back */
};

static uint32_t any(struct life *life, uint32_t below)
{
  life->state = life->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(life->state >> 33) % below;
}

static void begin(struct life *life)
{
  struct mg_buf error = {0};
  char path[600];
  memset(life, 0, sizeof *life);
  fresh_folder(life->folder, "/tmp");
  mg_settings_defaults(&life->settings);
  strcpy(life->settings.fingerprint_key, "0123456789abcdef0123456789abcdef");
  unsetenv("MOONGATE_FINGERPRINT_KEY");
  life->redactor = mg_redactor_open(&life->settings, life->folder, &error);
  CHECK(life->redactor);
  life->texts = mg_texts_open(life->redactor);
  const struct mg_stage_header header = {.epoch = 1, .id_base = 1};
  snprintf(path, sizeof path, "%s/shard-000.stage", life->folder);
  CHECK_INT(mg_stage_open(&life->stage, &mg_file_system, life->folder, path, mg_stage_bytes(0), &header, 1), 0);
  life->unpacker = mg_unpacker_new();
  life->raw = calloc(KEPT, sizeof *life->raw);
  life->len = calloc(KEPT, sizeof *life->len);
  life->unread = 1;
}

static void end(struct life *life)
{
  mg_unpacker_free(&life->unpacker);
  mg_stage_close_file(&life->stage);
  mg_texts_close(&life->texts);
  mg_redactor_close(&life->redactor);
  free(life->raw);
  free(life->len);
  remove_folder(life->folder);
}

/* A line that always comes, one of few, one of more than are remembered, or one of its own. */
static int write_line(struct life *life, unsigned side, uint64_t number, char *out, size_t size)
{
  const char *name = names[side][any(life, 4)];
  switch (any(life, 8)) {
  case 0:
    return snprintf(out, size, "%s: once-%llu-%u\r\n", name, (unsigned long long)number, any(life, 1000));
  case 1:
    return snprintf(out, size, "%s: many %u\r\n", name, any(life, 6000));
  case 2:
    return snprintf(out, size, "%s: few %u\n", name, any(life, 40)); /* as old clients end lines */
  case 3:
    return snprintf(out, size, "%s:\r\n", name);
  case 4:
    return snprintf(out, size, "%s: long %0*u\r\n", name, (int)any(life, 300), any(life, 3));
  default:
    return snprintf(out, size, "%s: always\r\n", name);
  }
}

/* Requests to the upstream repeat most of the client's, answers theirs. */
static void write_heads(struct life *life, uint64_t number)
{
  char(*raw)[RAW_MAX] = life->raw[number % KEPT];
  size_t *len = life->len[number % KEPT];
  for (unsigned which = 0; which < MG_MESSAGES; which++) {
    len[which] = 0;
    if (which % 2 && any(life, 3)) {
      memcpy(raw[which], raw[which - 1], len[which - 1]);
      len[which] = len[which - 1];
      if (any(life, 2)) continue;
    }
    for (unsigned i = any(life, any(life, 10) ? LINES_MAX / 2 : 4 * LINES_MAX); i > 0 && len[which] < 2000; i--)
      len[which] += (size_t)write_line(life, which / 2, number, raw[which] + len[which], RAW_MAX - len[which]);
  }
}

static void check_block(const struct mg_scope *scope, struct mg_lines lines, struct mg_str raw)
{
  struct mg_str line;
  uint32_t count = 0;
  for (; mg_texts_next_line(&raw, &line); count++) {
    struct mg_str got = mg_scope_line(scope, lines, count);
    CHECK_INT(got.len, line.len);
    CHECK(memcmp(got.ptr, line.ptr, line.len) == 0);
  }
  CHECK_INT(lines.count, count);
}

/* Reads the closed slots back. */
static void read_back(struct life *life)
{
  uint64_t gen;
  for (const uint8_t *slot; (slot = mg_stage_oldest(&life->stage, &gen)); mg_stage_retire(&life->stage, gen)) {
    struct mg_batch header;
    struct mg_scope scope = {0};
    struct mg_plain_entry plain;
    struct mg_entry entry;
    CHECK(mg_unpack_slot(life->unpacker, slot, &header));
    mg_scope_start(&scope, &header);
    for (int result; (result = mg_unpack_next(life->unpacker, &plain)) != 0; life->unread++) {
      CHECK_INT(result, 1);
      CHECK(mg_entry_decode(&scope, &plain, &entry));
      CHECK_INT(entry.number, life->unread);
      for (unsigned which = 0; which < MG_MESSAGES; which++)
        check_block(&scope, entry.block[which],
                    mg_str(life->raw[entry.number % KEPT][which], life->len[entry.number % KEPT][which]));
    }
    mg_scope_free(&scope);
  }
}

/* As END has them, all blocks found before the first is written. False: there was no room. */
static bool put(struct life *life, uint64_t number)
{
  struct mg_stage *stage = &life->stage;
  struct mg_text_block blocks[MG_MESSAGES];
  size_t bound = 400;
  mg_texts_begin(life->texts);
  for (unsigned which = 0; which < MG_MESSAGES; which++) {
    struct mg_str raw = mg_str(life->raw[number % KEPT][which], life->len[number % KEPT][which]);
    blocks[which] = mg_texts_find_block(life->texts, which, raw);
    CHECK(blocks[which].fits);
    bound += blocks[which].bound;
  }
  uint8_t *start = mg_stage_begin(stage, bound, BASE + number, number);
  if (!start) return false;
  uint8_t *at = mg_prefix_put(stage, start, BASE + number, number);
  *at++ = MG_LEVEL_HEADERS | MG_LEVEL_HEADERS << 2 | MG_HAS_HEADERS;
  at = mg_varint_put(at, 200);
  at = mg_varint_put(at, MG_END_SAME_LINE | MG_END_SAME_STATUS);
  for (int i = 0; i < 7; i++) at = mg_varint_put(at, 0);
  for (int i = 0; i < 3; i++) at = mg_texts_put(life->texts, stage, at, MG_TEXT_PLAIN, MG_STR("HTTP/1.1 200 OK"));
  *at++ = (1 << MG_MESSAGES) - 1;
  for (unsigned which = 0; which < MG_MESSAGES; which++)
    at = mg_texts_put_block(life->texts, stage, at, &blocks[which]);
  CHECK((size_t)(at - start) <= bound);
  mg_stage_commit(stage, (size_t)(at - start), MG_ENTRY_END, 0, 200);
  return true;
}

TEST(what_is_put_is_read)
{
  struct life life;
  begin(&life);
  for (uint64_t number = 1; number <= EXCHANGES; number++) {
    write_heads(&life, number);
    read_back(&life);
    CHECK(put(&life, number));
  }
  mg_stage_end_slot(&life.stage);
  read_back(&life);
  CHECK_INT(life.unread, EXCHANGES + 1);
  end(&life);
}

/* What comes once takes its bytes; what comes again takes a reference, also when thousands came once in between. */
TEST(what_comes_again_is_known)
{
  struct life life;
  begin(&life);
  char once[64];
  for (unsigned round = 0; round < ROUNDS; round++) {
    for (unsigned i = 0; i < 3000; i++) {
      snprintf(once, sizeof once, "accept: %u.%u\r\n", round, i);
      struct mg_text_block block = mg_texts_find_block(life.texts, MG_CLIENT_REQUEST, mg_str(once, strlen(once)));
      uint8_t *at = mg_stage_begin(&life.stage, 400, BASE, 1);
      if (!at) at = (read_back(&life), mg_stage_begin(&life.stage, 400, BASE, 1));
      at = mg_texts_put_block(life.texts, &life.stage, at, &block);
    }
    static const char again[] = "user-agent: the same as ever, and as long as such lines are\r\n";
    for (unsigned i = 0; i < 2; i++) {
      char raw[128];
      uint8_t bytes[400];
      int len = snprintf(raw, sizeof raw, "%srange: %u.%u\r\n", again, round, i);
      struct mg_text_block block = mg_texts_find_block(life.texts, MG_CLIENT_REQUEST, mg_str(raw, (size_t)len));
      size_t size = (size_t)(mg_texts_put_block(life.texts, &life.stage, bytes, &block) - bytes);
      CHECK(size < sizeof again / 2 || (round < ROUNDS - 1 && i == 0));
    }
  }
  end(&life);
}

RUN_TESTS({"what_is_put_is_read", what_is_put_is_read}, {"what_comes_again_is_known", what_comes_again_is_known})
