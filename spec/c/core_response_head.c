/* core_response_head.c - status lines, framing by status and method, and what an answer says about its connection. */
#include "http1.h"

#include "t.h"

static const struct mg_head_limits limits = {.line_bytes_max = 65536, .head_bytes_max = 65536, .header_count_max = 200};

struct fixture {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[8192];
  struct mg_response_head head;
};

static void set_up(struct fixture *f)
{
  mg_pool_init(&f->pool, 65536, 4);
  mg_arena_init(&f->arena, f->first, sizeof f->first, &f->pool, 1 << 20);
  mg_headers_init(&f->head.headers, &f->arena);
}

static void tear_down(struct fixture *f)
{
  mg_arena_reset(&f->arena, f->first, sizeof f->first);
  mg_pool_destroy(&f->pool);
}

/* Parses a copy that ends where the bytes end; the head's text is only good until the next call. */
static int parse(struct fixture *f, const char *bytes, size_t len, int method_id)
{
  static char *copy;
  free(copy);
  copy = malloc(len ? len : 1);
  memcpy(copy, bytes, len);
  return mg_response_head_parse(&f->head, copy, len, method_id, &limits);
}

struct row {
  const char *why;
  const char *bytes;
  size_t len;
  bool good;
};

#define GOOD(why, bytes)                \
  {                                     \
    why, bytes, sizeof(bytes) - 1, true \
  }
#define BAD(why, bytes)                  \
  {                                      \
    why, bytes, sizeof(bytes) - 1, false \
  }
#define LINE_GOOD(why, line) GOOD(why, line "\r\nX-A: 1\r\n\r\n")
#define LINE_BAD(why, line) BAD(why, line "\r\nX-A: 1\r\n\r\n")
#define FIELDS_GOOD(why, fields) GOOD(why, "HTTP/1.1 200 OK\r\n" fields "\r\n\r\n")
#define FIELDS_BAD(why, fields) BAD(why, "HTTP/1.1 200 OK\r\n" fields "\r\n\r\n")

static const struct row rows[] = {
    LINE_GOOD("plain", "HTTP/1.1 200 OK"),
    LINE_GOOD("1.0", "HTTP/1.0 200 OK"),
    LINE_GOOD("empty reason", "HTTP/1.1 200 "),
    LINE_GOOD("no reason", "HTTP/1.1 200"),
    LINE_GOOD("high bytes in the reason", "HTTP/1.1 200 \xd6K"),
    LINE_GOOD("blanks in the reason", "HTTP/1.1 404 Not  Found "),
    LINE_GOOD("unregistered status", "HTTP/1.1 299 Odd"),
    LINE_GOOD("599", "HTTP/1.1 599 X"),
    GOOD("no lines", "HTTP/1.1 200 OK\r\n\r\n"),
    LINE_BAD("no status line", "<html>hello</html>"),
    LINE_BAD("banner", "SSH-2.0-x"),
    LINE_BAD("other protocol", "ICY 200 OK"),
    LINE_BAD("lower case", "http/1.1 200 OK"),
    LINE_BAD("1.9", "HTTP/1.9 200 OK"),
    LINE_BAD("2.0", "HTTP/2.0 200 OK"),
    LINE_BAD("11", "HTTP/11 200 OK"),
    LINE_BAD("two digits", "HTTP/1.1 20 OK"),
    LINE_BAD("four digits", "HTTP/1.1 2000 OK"),
    LINE_BAD("no digits", "HTTP/1.1 abc OK"),
    LINE_BAD("sign", "HTTP/1.1 +20 OK"),
    LINE_BAD("099", "HTTP/1.1 099 X"),
    LINE_BAD("600", "HTTP/1.1 600 X"),
    LINE_BAD("999", "HTTP/1.1 999 X"),
    LINE_BAD("two blanks", "HTTP/1.1  200 OK"),
    LINE_BAD("tab", "HTTP/1.1\t200 OK"),
    LINE_BAD("tab behind the status", "HTTP/1.1 200\tOK"),
    LINE_BAD("NUL in the reason", "HTTP/1.1 200 O\0K"),
    LINE_BAD("CR in the reason", "HTTP/1.1 200 O\rK"),
    LINE_BAD("DEL in the reason", "HTTP/1.1 200 O\x7fK"),
    LINE_BAD("empty line first", "\r\nHTTP/1.1 200 OK"),
    BAD("bare LF ends the line", "HTTP/1.1 200 OK\nX-A: 1\r\n\r\n"),
    BAD("bare LF ends the line without a reason", "HTTP/1.1 200\nX-A: 1\r\n\r\n"),

    FIELDS_GOOD("empty value", "X-Empty:\r\nX-After: 1"),
    FIELDS_GOOD("high bytes", "X-A: caf\xe9 \x80\xff"),
    FIELDS_BAD("bare LF", "X-A: 1\nX-B: 2"),
    FIELDS_BAD("no colon", "this is no header"),
    FIELDS_BAD("blank in the name", "Bad Name: x"),
    FIELDS_BAD("blank before the colon", "X-A : 1"),
    FIELDS_BAD("NUL in the value", "X-A: a\0b"),
    FIELDS_BAD("bare CR in the value", "X-A: a\rb"),
    FIELDS_BAD("fold", "X-A: one\r\n two"),
    FIELDS_BAD("fold first", " X-A: 1"),
    FIELDS_BAD("empty name", ": 1"),

    FIELDS_GOOD("length", "Content-Length: 5"),
    FIELDS_GOOD("both framings", "Content-Length: 300\r\nTransfer-Encoding: chunked"),
    FIELDS_GOOD("chunked", "Transfer-Encoding: Chunked"),
    FIELDS_BAD("two equal lengths", "Content-Length: 5\r\nContent-Length: 5"),
    FIELDS_BAD("two lengths that differ", "Content-Length: 5\r\nContent-Length: 6"),
    FIELDS_BAD("list", "Content-Length: 5, 6"),
    FIELDS_BAD("word", "Content-Length: abc"),
    FIELDS_BAD("plus", "Content-Length: +5"),
    FIELDS_BAD("2^64 + 5", "Content-Length: 18446744073709551621"),
    FIELDS_BAD("empty length", "Content-Length:"),
    FIELDS_BAD("other coding", "Transfer-Encoding: foo"),
    FIELDS_BAD("other coding beside a length", "Transfer-Encoding: foo\r\nContent-Length: 3"),
    FIELDS_BAD("chunked not last", "Transfer-Encoding: chunked, foo"),
    FIELDS_BAD("gzip first", "Transfer-Encoding: gzip, chunked"),
    FIELDS_BAD("two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    BAD("chunked in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

TEST(every_rule)
{
  for (size_t i = 0; i < ROW_COUNT; i++) {
    struct fixture f;
    set_up(&f);
    int got = parse(&f, rows[i].bytes, rows[i].len, MG_METHOD_GET);
    if (got != (rows[i].good ? (int)rows[i].len : MG_EUPBAD)) fprintf(stderr, "%s: %d\n", rows[i].why, got);
    CHECK_INT(got, rows[i].good ? (int)rows[i].len : MG_EUPBAD);
    tear_down(&f);
  }
}

TEST(every_rule_cut_at_each_byte)
{
  for (size_t i = 0; i < ROW_COUNT; i++) {
    bool refused = false;
    for (size_t len = 0; len < rows[i].len; len++) {
      struct fixture f;
      set_up(&f);
      int got = parse(&f, rows[i].bytes, len, MG_METHOD_GET);
      if (got && (rows[i].good || got != MG_EUPBAD)) fprintf(stderr, "%s, %zu bytes: %d\n", rows[i].why, len, got);
      CHECK(got == 0 || (!rows[i].good && got == MG_EUPBAD));
      CHECK(!refused || got);
      refused = got < 0;
      tear_down(&f);
    }
  }
}

TEST(parts)
{
  struct fixture f;
  const char *bytes = "HTTP/1.0 404 Not Found\r\nX-A: 1\r\n\r\nbody";
  set_up(&f);
  CHECK_INT(parse(&f, bytes, strlen(bytes), MG_METHOD_GET), (int)strlen(bytes) - 4);
  CHECK_INT(f.head.status, 404);
  CHECK_INT(f.head.minor, 0);
  CHECK_STR(f.head.reason, "Not Found");
  CHECK_INT(f.head.headers.count, 1);
  CHECK_INT(parse(&f, "HTTP/1.1 200\r\n\r\n", 16, MG_METHOD_GET), 16);
  CHECK_STR(f.head.reason, "");
  tear_down(&f);
}

TEST(framing_and_reuse)
{
  static const struct {
    const char *bytes;
    int method_id, framing;
    uint64_t length;
    bool keep_alive;
  } answers[] = {
      {"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\n", MG_METHOD_GET, MG_FRAMING_LENGTH, 5, true},
      {"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n", MG_METHOD_GET, MG_FRAMING_LENGTH, 0, true},
      {"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n", MG_METHOD_GET, MG_FRAMING_CHUNKED, 0, true},
      {"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", MG_METHOD_GET, MG_FRAMING_CHUNKED,
       3, false},
      {"HTTP/1.1 200 X\r\n\r\n", MG_METHOD_GET, MG_FRAMING_CLOSE, 0, false},
      {"HTTP/1.1 200 X\r\nContent-Length: 1234\r\n\r\n", MG_METHOD_HEAD, MG_FRAMING_NONE, 1234, true},
      {"HTTP/1.1 200 X\r\n\r\n", MG_METHOD_HEAD, MG_FRAMING_NONE, 0, true},
      {"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n", MG_METHOD_HEAD, MG_FRAMING_NONE, 0, true},
      {"HTTP/1.1 204 X\r\n\r\n", MG_METHOD_POST, MG_FRAMING_NONE, 0, true},
      {"HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n", MG_METHOD_GET, MG_FRAMING_NONE, 5, true},
      {"HTTP/1.1 304 X\r\nContent-Length: 5000\r\n\r\n", MG_METHOD_GET, MG_FRAMING_NONE, 5000, true},
      {"HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n", MG_METHOD_GET, MG_FRAMING_NONE, 0, true},
      {"HTTP/1.1 103 X\r\nContent-Length: 5\r\n\r\n", MG_METHOD_GET, MG_FRAMING_NONE, 5, true},
      {"HTTP/1.1 205 X\r\nContent-Length: 0\r\n\r\n", MG_METHOD_GET, MG_FRAMING_LENGTH, 0, true},
      {"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", MG_METHOD_GET, MG_FRAMING_LENGTH, 5, false},
      {"HTTP/1.1 200 X\r\nConnection: x\r\nConnection: keep-alive, CLOSE\r\nContent-Length: 5\r\n\r\n", MG_METHOD_GET,
       MG_FRAMING_LENGTH, 5, false},
      {"HTTP/1.0 200 X\r\nContent-Length: 5\r\n\r\n", MG_METHOD_GET, MG_FRAMING_LENGTH, 5, false},
      {"HTTP/1.0 200 X\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\n", MG_METHOD_GET, MG_FRAMING_LENGTH, 5,
       true},
      {"HTTP/1.0 200 X\r\nConnection: keep-alive\r\n\r\n", MG_METHOD_GET, MG_FRAMING_CLOSE, 0, false},
  };
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    struct fixture f;
    set_up(&f);
    CHECK_INT(parse(&f, answers[i].bytes, strlen(answers[i].bytes), answers[i].method_id),
              (int)strlen(answers[i].bytes));
    CHECK_INT(f.head.framing, answers[i].framing);
    CHECK_INT(f.head.content_length, answers[i].length);
    CHECK_INT(f.head.keep_alive, answers[i].keep_alive);
    tear_down(&f);
  }
}

TEST(switches)
{
  static const struct {
    const char *bytes;
    bool upgrade;
  } answers[] = {
      {"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", true},
      {"HTTP/1.1 101 X\r\nConnection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n\r\n", true},
      {"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: foo/9\r\n\r\n", false},
      {"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket, foo\r\n\r\n", false},
      {"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: foo\r\n\r\n", false},
      {"HTTP/1.1 101 X\r\nConnection: Upgrade\r\n\r\n", false},
      {"HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n", false},
      {"HTTP/1.0 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false},
      {"HTTP/1.1 200 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false},
  };
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    struct fixture f;
    set_up(&f);
    CHECK_INT(parse(&f, answers[i].bytes, strlen(answers[i].bytes), MG_METHOD_GET), (int)strlen(answers[i].bytes));
    CHECK_INT(f.head.upgrade, answers[i].upgrade);
    tear_down(&f);
  }
}

TEST(keep_alive_timeouts)
{
  static const struct {
    const char *value;
    uint32_t seconds;
  } values[] = {
      {"timeout=5", 5},
      {"max=100, Timeout=77", 77},
      {"timeout=5, max=1000", 5},
      {"max=100", 0},
      {"timeout=", 0},
      {"timeout=-1", 0},
      {"timeout=5s", 0},
      {"timeout", 0},
      {"xtimeout=5", 0},
      {"", 0},
      {"timeout=99999999999", UINT32_MAX},
      {"timeout=0", 0},
  };
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    struct fixture f;
    char bytes[128];
    snprintf(bytes, sizeof bytes, "HTTP/1.1 204 X\r\nKeep-Alive: %s\r\n\r\n", values[i].value);
    set_up(&f);
    CHECK_INT(parse(&f, bytes, strlen(bytes), MG_METHOD_GET), (int)strlen(bytes));
    CHECK_INT(f.head.keep_alive_timeout_s, values[i].seconds);
    tear_down(&f);
  }
}

TEST(bounds)
{
  static char bytes[80000];
  struct fixture f;
  set_up(&f);
  memset(bytes, 'a', sizeof bytes);
  memcpy(bytes, "HTTP/1.1 200 OK\r\nX-A: ", 22);
  memcpy(bytes + 65536 - 4, "\r\n\r\n", 4);
  CHECK_INT(parse(&f, bytes, sizeof bytes, MG_METHOD_GET), 65536);
  memset(bytes + 65536 - 4, 'a', 4);
  memcpy(bytes + 65537 - 4, "\r\n\r\n", 4);
  CHECK_INT(parse(&f, bytes, sizeof bytes, MG_METHOD_GET), MG_EUPHEADLARGE);
  CHECK_INT(parse(&f, bytes, 65536, MG_METHOD_GET), MG_EUPHEADLARGE);
  CHECK_INT(parse(&f, bytes, 65535, MG_METHOD_GET), 0);
  memset(bytes + 13, 'a', 10000); /* a status line without an end */
  CHECK_INT(parse(&f, bytes, sizeof bytes, MG_METHOD_GET), MG_EUPHEADLARGE);

  char *at = bytes + sprintf(bytes, "HTTP/1.1 200 OK\r\n");
  for (int i = 0; i < 200; i++) at += sprintf(at, "X: y\r\n");
  strcpy(at, "\r\n");
  CHECK_INT(parse(&f, bytes, strlen(bytes), MG_METHOD_GET), (int)strlen(bytes));
  strcpy(at, "X: y\r\n\r\n");
  CHECK_INT(parse(&f, bytes, strlen(bytes), MG_METHOD_GET), MG_EUPHEADLARGE);
  tear_down(&f);
}

RUN_TESTS({"every rule", every_rule}, {"every rule, cut at each byte", every_rule_cut_at_each_byte}, {"parts", parts},
          {"framing and reuse", framing_and_reuse}, {"switches", switches},
          {"keep-alive timeouts", keep_alive_timeouts}, {"bounds", bounds})
