/* core_body.c - bodies in one read, in two, and byte by byte. */
#include "http1.h"

#include "t.h"

struct fixture {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[1024];
  struct mg_headers trailers;
  struct mg_body_decoder decoder;
  char *body; /* what was decoded */
  size_t body_len;
  size_t consumed;
  bool last;
};

static void set_up(struct fixture *f, enum mg_framing framing, uint64_t length)
{
  memset(f, 0, sizeof *f);
  mg_pool_init(&f->pool, 65536, 4);
  mg_arena_init(&f->arena, f->first, sizeof f->first, &f->pool, 1 << 20);
  mg_headers_init(&f->trailers, &f->arena);
  CHECK_INT(mg_body_start(&f->decoder, framing, length, &f->arena, &f->trailers), 0);
}

static void tear_down(struct fixture *f)
{
  free(f->body);
  mg_arena_reset(&f->arena, f->first, sizeof f->first);
  mg_pool_destroy(&f->pool);
}

/* Decodes a copy that ends where the bytes end, and keeps what comes out. */
static int feed(struct fixture *f, const char *bytes, size_t len)
{
  char *copy = malloc(len ? len : 1);
  struct mg_body_piece piece;
  memcpy(copy, bytes, len);
  int err = mg_body_decode(&f->decoder, copy, len, &piece);
  CHECK(piece.consumed <= len && piece.len <= piece.consumed);
  CHECK(piece.data == copy);
  f->body = realloc(f->body, f->body_len + piece.len + 1);
  memcpy(f->body + f->body_len, piece.data, piece.len);
  f->body_len += piece.len;
  f->consumed += piece.consumed;
  f->last = piece.last;
  free(copy);
  return err;
}

struct row {
  const char *why;
  const char *bytes;
  size_t len;
  const char *body; /* NULL: refused with outcome */
  int outcome;
};

#define GOOD(why, bytes, body)             \
  {                                        \
    why, bytes, sizeof(bytes) - 1, body, 0 \
  }
#define BAD(why, bytes)                               \
  {                                                   \
    why, bytes, sizeof(bytes) - 1, NULL, MG_EBADCHUNK \
  }
#define SIZE(why, line) BAD(why, line "\r\nhello\r\n0\r\n\r\n")
#define TRAILER(why, lines)                                                                                \
  {                                                                                                        \
    why, "5\r\nhello\r\n0\r\n" lines "\r\n", sizeof("5\r\nhello\r\n0\r\n" lines) + 1, NULL, MG_EBADTRAILER \
  }

static const struct row rows[] = {
    GOOD("empty", "0\r\n\r\n", ""),
    GOOD("one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello"),
    GOOD("two chunks", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
    GOOD("upper case", "A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
    GOOD("lower case", "a\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
    GOOD("leading zeros", "0005\r\nhello\r\n000\r\n\r\n", "hello"),
    GOOD("16 digits", "0000000000000005\r\nhello\r\n0\r\n\r\n", "hello"),
    GOOD("data that looks like an end", "5\r\n0\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n"),
    GOOD("extension", "5;a=b\r\nhello\r\n0;c\r\n\r\n", "hello"),
    GOOD("two extensions", "5;a;b=c\r\nhello\r\n0\r\n\r\n", "hello"),
    GOOD("extension with blanks", "5 ; a = b ; c\r\nhello\r\n0\r\n\r\n", "hello"),
    GOOD("quoted extension", "5;a=\"\\\"; \xe9\t\"\r\nhello\r\n0\r\n\r\n", "hello"),
    GOOD("blank behind a quoted one", "5;a=\"b\" ;c\r\nhello\r\n0\r\n\r\n", "hello"),
    GOOD("trailer", "5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-B:2\r\n\r\n", "hello"),

    SIZE("no size", ""),
    SIZE("minus", "-5"),
    SIZE("plus", "+5"),
    SIZE("0x", "0x5"),
    SIZE("digit separator", "0_5"),
    SIZE("blank first", " 5"),
    SIZE("tab first", "\t5"),
    SIZE("blank behind", "5 "),
    SIZE("NUL behind", "5\0"),
    SIZE("word", "xyz"),
    SIZE("letter behind", "5g"),
    SIZE("17 digits", "00000000000000005"),
    SIZE("2^64 + 5", "10000000000000005"),
    SIZE("2^64 - 1", "ffffffffffffffff"),
    SIZE("2^63", "8000000000000000"),
    SIZE("empty extension", "5;"),
    SIZE("empty second extension", "5;a;"),
    SIZE("extension without a value", "5;a="),
    SIZE("extension without a name", "5;=b"),
    SIZE("blank in an extension", "5;a b"),
    SIZE("control byte in an extension", "5;a\1"),
    SIZE("NUL in an extension", "5;a\0b"),
    SIZE("bare CR in an extension", "5;a\rb"),
    SIZE("bare LF in an extension", "5;a\nb"),
    SIZE("unclosed quote", "5;a=\""),
    SIZE("bare LF in a quote", "5;a=\"\n\""),
    SIZE("escaped LF in a quote", "5;a=\"\\\n\""),
    SIZE("text behind a quote", "5;a=\"b\"c"),
    SIZE("blank at the end of extensions", "5;a=b "),
    BAD("bare LF behind a size", "5\nhello\r\n0\r\n\r\n"),
    BAD("bare CR behind a size", "5\rhello\r\n0\r\n\r\n"),
    BAD("CR CR behind a size", "5\r\rhello\r\n0\r\n\r\n"),
    BAD("data too long", "5\r\nhelloXX0\r\n\r\n"),
    BAD("data without a line end", "5\r\nhello0\r\n\r\n"),
    BAD("bare LF behind data", "5\r\nhello\n0\r\n\r\n"),
    BAD("CR X behind data", "5\r\nhello\rX0\r\n\r\n"),
    BAD("empty line before the last chunk", "5\r\nhello\r\n\r\n0\r\n\r\n"),
    BAD("bare LF behind the last size", "0\n\r\n"),

    TRAILER("bare LF", "X: y\n"),
    TRAILER("bare LF as the end", "X: y\r\n\n"),
    TRAILER("bare CR", "X: a\rb\r\n"),
    TRAILER("blank before the colon", "X : y\r\n"),
    TRAILER("no colon", "GET / HTTP/1.1\r\n"),
    TRAILER("empty name", ": y\r\n"),
    TRAILER("fold", "X: a\r\n b\r\n"),
    TRAILER("fold of nothing", " X: a\r\n"),
    TRAILER("control byte", "X: a\1\r\n"),
    TRAILER("LF at once", "\n"),
    TRAILER("CR X", "\rX"),
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static void check_outcome(const struct row *row, const struct fixture *f, int err)
{
  if (err != row->outcome) fprintf(stderr, "%s: %d\n", row->why, err);
  CHECK_INT(err, row->outcome);
  if (!row->body) return;
  CHECK_STR(mg_str(f->body, f->body_len), row->body);
  CHECK(f->last && f->decoder.done);
  CHECK_INT(f->consumed, row->len);
  CHECK_INT(f->decoder.body_size, f->body_len);
}

TEST(chunks_in_one_read)
{
  for (size_t i = 0; i < ROW_COUNT; i++) {
    struct fixture f;
    set_up(&f, MG_FRAMING_CHUNKED, 0);
    int err = feed(&f, rows[i].bytes, rows[i].len);
    check_outcome(&rows[i], &f, err);
    tear_down(&f);
  }
}

TEST(chunks_in_two_reads)
{
  for (size_t i = 0; i < ROW_COUNT; i++)
    for (size_t cut = 0; cut < rows[i].len; cut++) {
      struct fixture f;
      set_up(&f, MG_FRAMING_CHUNKED, 0);
      int err = feed(&f, rows[i].bytes, cut);
      CHECK(err == 0 || err == rows[i].outcome);
      CHECK(!f.last);
      if (!err) CHECK_INT(mg_body_end(&f.decoder), MG_ETRUNCATED); /* cut short anywhere, it is never whole */
      if (!err) err = feed(&f, rows[i].bytes + cut, rows[i].len - cut);
      check_outcome(&rows[i], &f, err);
      tear_down(&f);
    }
}

TEST(chunks_byte_by_byte)
{
  for (size_t i = 0; i < ROW_COUNT; i++) {
    struct fixture f;
    int err = 0;
    set_up(&f, MG_FRAMING_CHUNKED, 0);
    for (size_t at = 0; at < rows[i].len && !err; at++) err = feed(&f, rows[i].bytes + at, 1);
    check_outcome(&rows[i], &f, err);
    tear_down(&f);
  }
}

TEST(what_follows_is_not_consumed)
{
  struct fixture f;
  const char *bytes = "5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, bytes, strlen(bytes)), 0);
  CHECK_INT(f.consumed, 15);
  CHECK_INT(feed(&f, bytes, strlen(bytes)), 0); /* and more is not looked at */
  CHECK_INT(f.consumed, 15);
  CHECK(f.last);
  CHECK_INT(mg_body_end(&f.decoder), 0);
  tear_down(&f);
}

TEST(five_thousand_chunks)
{
  static char bytes[5000 * 6 + 5];
  struct fixture f;
  for (int i = 0; i < 5000; i++) memcpy(bytes + i * 6, "1\r\na\r\n", 6);
  memcpy(bytes + 30000, "0\r\n\r\n", 5);
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, bytes, sizeof bytes), 0);
  CHECK_INT(f.body_len, 5000);
  CHECK_INT(memcmp(f.body, bytes + 3, 1), 0);
  CHECK(f.last);
  tear_down(&f);
}

TEST(a_fault_keeps_what_came_before)
{
  struct fixture f;
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, "5\r\nhello\r\nzz\r\n", 14), MG_EBADCHUNK);
  CHECK_STR(mg_str(f.body, f.body_len), "hello");
  CHECK(!f.last);
  CHECK_INT(mg_body_end(&f.decoder), MG_ETRUNCATED);
  tear_down(&f);
}

TEST(sizes_add_up_below_2_63)
{
  struct fixture f;
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, "5\r\nhello\r\n7fffffffffffffff\r\n", 28), MG_EBADCHUNK);
  tear_down(&f);
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, "7fffffffffffffff\r\nhello", 23), 0);
  CHECK_STR(mg_str(f.body, f.body_len), "hello");
  tear_down(&f);
}

TEST(extensions_are_bounded)
{
  struct fixture f;
  char line[1024];
  int err = 0, lines = 0;
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  int len = sprintf(line, "1;a=%0900d\r\nx\r\n", 0);
  while (!err && lines < 100) err = feed(&f, line, (size_t)len), lines++;
  CHECK_INT(err, MG_EBADCHUNK);
  CHECK(lines > 16);
  tear_down(&f);

  /* signed chunks of 64 KB go on for ever */
  static char chunk[70000];
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  len = sprintf(chunk, "10000;chunk-signature=%064d\r\n", 0);
  memcpy(chunk + len + 65536, "\r\n", 2);
  for (int i = 0; i < 1000; i++) CHECK_INT(feed(&f, chunk, (size_t)len + 65538), 0);
  CHECK_INT(f.decoder.body_size, 65536000);
  tear_down(&f);
}

static const char *dump(const struct mg_headers *list)
{
  static char out[512];
  char *at = out;
  *at = '\0';
  for (unsigned i = 0; i < list->count; i++)
    at += sprintf(at, "%.*s=%.*s;", list->items[i].name_len, list->items[i].name, (int)list->items[i].value_len,
                  list->items[i].value);
  return out;
}

TEST(trailers)
{
  struct fixture f;
  const char *bytes =
      "0\r\nX-Sum: 1\r\nContent-Length: 50\r\ntransfer-encoding: chunked\r\nHost: evil\r\nX-Forwarded-For: 6\r\n"
      "x_forwarded_for: 6\r\nX-Real-IP: 6\r\nConnection: close\r\nAuthorization: a\r\nSet-Cookie: b\r\n"
      "Content_Length: 7\r\nTrailer: t\r\nServer-Timing: x\r\n\r\n";
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, bytes, strlen(bytes)), 0);
  CHECK(f.last);
  CHECK_STR(mg_str(dump(&f.trailers), strlen(dump(&f.trailers))), "X-Sum=1;Server-Timing=x;");
  tear_down(&f);
}

TEST(trailers_can_be_dropped)
{
  struct fixture f;
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  f.decoder.chunked = NULL;
  CHECK_INT(mg_body_start(&f.decoder, MG_FRAMING_CHUNKED, 0, &f.arena, NULL), 0);
  CHECK_INT(feed(&f, "0\r\nX: y\r\n\r\n", 11), 0);
  CHECK(f.last);
  CHECK_INT(mg_body_start(&f.decoder, MG_FRAMING_CHUNKED, 0, &f.arena, NULL), 0);
  CHECK_INT(feed(&f, "0\r\nX : y\r\n\r\n", 12), MG_EBADTRAILER);
  tear_down(&f);
}

TEST(trailers_are_bounded)
{
  struct fixture f;
  int err = 0, lines = 0;
  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, "0\r\n", 3), 0);
  for (; !err && lines < 100000; lines++) err = feed(&f, "X-Long-Trailer: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", 51);
  CHECK_INT(err, MG_EBADTRAILER);
  CHECK(lines > 100);
  tear_down(&f);

  set_up(&f, MG_FRAMING_CHUNKED, 0);
  CHECK_INT(feed(&f, "0\r\n", 3), 0);
  for (lines = 0; lines < 65; lines++) CHECK_INT(feed(&f, "X: y\r\n", 6), 0);
  CHECK_INT(feed(&f, "\r\n", 2), MG_EBADTRAILER);
  tear_down(&f);
}

TEST(memory_for_chunks_can_run_out)
{
  struct mg_pool pool;
  struct mg_arena arena;
  struct mg_body_decoder decoder;
  char first[8];
  mg_pool_init(&pool, 256, 1);
  mg_arena_init(&arena, first, sizeof first, &pool, 0);
  CHECK_INT(mg_body_start(&decoder, MG_FRAMING_CHUNKED, 0, &arena, NULL), MG_ENOMEM);
  CHECK_INT(mg_body_start(&decoder, MG_FRAMING_LENGTH, 5, &arena, NULL), 0);
}

TEST(lengths)
{
  struct fixture f;
  set_up(&f, MG_FRAMING_LENGTH, 5);
  CHECK_INT(feed(&f, "hel", 3), 0);
  CHECK(!f.last);
  CHECK_INT(mg_body_end(&f.decoder), MG_ETRUNCATED);
  CHECK_INT(feed(&f, "loGET", 5), 0);
  CHECK(f.last);
  CHECK_INT(f.consumed, 5);
  CHECK_STR(mg_str(f.body, f.body_len), "hello");
  CHECK_INT(mg_body_end(&f.decoder), 0);
  tear_down(&f);
}

TEST(no_body)
{
  static const enum mg_framing framings[] = {MG_FRAMING_NONE, MG_FRAMING_LENGTH};
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    set_up(&f, framings[i], 0);
    CHECK(f.decoder.done);
    CHECK_INT(feed(&f, "GET", 3), 0);
    CHECK(f.last);
    CHECK_INT(f.consumed, 0);
    CHECK_INT(mg_body_end(&f.decoder), 0);
    tear_down(&f);
  }
}

TEST(until_close)
{
  struct fixture f;
  set_up(&f, MG_FRAMING_CLOSE, 0);
  CHECK_INT(feed(&f, "hello", 5), 0);
  CHECK_INT(feed(&f, " world", 6), 0);
  CHECK(!f.last && !f.decoder.done);
  CHECK_STR(mg_str(f.body, f.body_len), "hello world");
  CHECK_INT(f.decoder.body_size, 11);
  CHECK_INT(mg_body_end(&f.decoder), 0);
  CHECK(f.decoder.done);
  tear_down(&f);
}

RUN_TESTS({"chunks in one read", chunks_in_one_read}, {"chunks in two reads", chunks_in_two_reads},
          {"chunks byte by byte", chunks_byte_by_byte}, {"what follows is not consumed", what_follows_is_not_consumed},
          {"five thousand chunks", five_thousand_chunks},
          {"a fault keeps what came before", a_fault_keeps_what_came_before},
          {"sizes add up below 2^63", sizes_add_up_below_2_63}, {"extensions are bounded", extensions_are_bounded},
          {"trailers", trailers}, {"trailers can be dropped", trailers_can_be_dropped},
          {"trailers are bounded", trailers_are_bounded},
          {"memory for chunks can run out", memory_for_chunks_can_run_out}, {"lengths", lengths}, {"no body", no_body},
          {"until close", until_close})
