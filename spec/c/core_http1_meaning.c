/* core_http1_meaning.c - what a good request head says, and the bounds it is held to. */
#include "http1.h"

#include "t.h"

static const struct mg_head_limits limits = {.line_bytes_max = 16384, .head_bytes_max = 32768, .header_count_max = 100};

struct fixture {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[4096];
  struct mg_request_head head;
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

/* Parses a copy that ends where the bytes end, so that a read behind them is seen. The copy is the caller's to free. */
static int parse(struct fixture *f, const char *bytes, size_t len, const struct mg_head_limits *bounds, char **copy)
{
  *copy = malloc(len ? len : 1);
  memcpy(*copy, bytes, len);
  return mg_request_head_parse(&f->head, *copy, len, bounds);
}

/* Parses a good head into f; its bytes are a literal and stay. */
static struct mg_request_head *good(struct fixture *f, const char *bytes)
{
  set_up(f);
  CHECK_INT(mg_request_head_parse(&f->head, bytes, strlen(bytes), &limits), (int)strlen(bytes));
  return &f->head;
}

TEST(parts)
{
  struct fixture f;
  const struct mg_request_head *head = good(&f, "PUT /a/b?c HTTP/1.1\r\nHost: A.test:81\r\nX-A: \t1 \r\nX-B:\r\n\r\n");
  CHECK_STR(head->method, "PUT");
  CHECK_INT(head->method_id, MG_METHOD_PUT);
  CHECK_STR(head->target, "/a/b?c");
  CHECK_STR(head->authority, "");
  CHECK_STR(head->host, "A.test:81");
  CHECK_INT(head->minor, 1);
  CHECK_INT(head->framing, MG_FRAMING_NONE);
  CHECK(head->keep_alive && !head->expects_100 && !head->upgrade);
  CHECK_INT(head->headers.count, 3);
  const struct mg_header *items = head->headers.items;
  CHECK_STR(mg_str(items[1].name, items[1].name_len), "X-A");
  CHECK_STR(mg_str(items[1].value, items[1].value_len), "1");
  CHECK_STR(mg_str(items[2].value, items[2].value_len), "");
  CHECK_INT(items[0].flags, MG_HEADER_RAW);
  CHECK_INT(items[1].flags, 0);
  CHECK_INT(items[2].flags, 0);
  tear_down(&f);
}

TEST(absolute_forms)
{
  static const struct {
    const char *line, *target, *authority;
  } forms[] = {
      {"GET http://a.test/x?y", "/x?y", "a.test"},  {"GET hTTp://A.TEST:80", "/", "A.TEST:80"},
      {"GET http://a.test?q=/", "/?q=/", "a.test"}, {"OPTIONS http://a.test", "*", "a.test"},
      {"OPTIONS http://a.test/", "/", "a.test"},
  };
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    struct fixture f;
    char bytes[128];
    snprintf(bytes, sizeof bytes, "%s HTTP/1.1\r\nHost: a.test\r\n\r\n", forms[i].line);
    const struct mg_request_head *head = good(&f, bytes);
    CHECK_STR(head->target, forms[i].target);
    CHECK_STR(head->authority, forms[i].authority);
    CHECK_STR(head->host, "a.test");
    tear_down(&f);
  }
  struct fixture f;
  CHECK_STR(good(&f, "GET http://b.test/ HTTP/1.0\r\n\r\n")->host, "b.test");
  tear_down(&f);
}

TEST(framing)
{
  struct fixture f;
  const struct mg_request_head *head = good(&f, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0058\r\n\r\n");
  CHECK_INT(head->framing, MG_FRAMING_LENGTH);
  CHECK_INT(head->content_length, 58);
  tear_down(&f);
  head = good(&f, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n");
  CHECK_INT(head->framing, MG_FRAMING_CHUNKED);
  tear_down(&f);
  head = good(&f, "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n");
  CHECK_INT(head->framing, MG_FRAMING_NONE);
  tear_down(&f);
}

TEST(connections)
{
  static const struct {
    const char *fields;
    int minor;
    bool keep_alive, upgrade;
  } heads[] = {
      {"", 1, true, false},
      {"", 0, false, false},
      {"Connection: keep-alive\r\n", 0, true, false},
      {"Connection: keep-alive\r\nConnection: foo, Close\r\n", 0, false, false},
      {"Connection: foo\r\nConnection: close\r\n", 1, false, false},
      {"Connection: closed\r\n", 1, true, false},
      {"Proxy-Connection: close\r\n", 1, true, false},
      {"Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n", 1, true, true},
      {"Connection: Upgrade\r\nUpgrade: websocket\r\n", 0, false, false},
      {"Upgrade: websocket\r\n", 1, true, false},
      {"Connection: Upgrade\r\n", 1, true, false},
      {"Connection: Upgrade\r\nUpgrade: h2c\r\n", 1, true, false},
      {"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n", 1, true, false},
      {"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", 1, true, false},
      {"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n", 1, true, false},
  };
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    struct fixture f;
    char bytes[256];
    snprintf(bytes, sizeof bytes, "GET / HTTP/1.%d\r\nHost: a\r\n%s\r\n", heads[i].minor, heads[i].fields);
    const struct mg_request_head *head = good(&f, bytes);
    CHECK_INT(head->keep_alive, heads[i].keep_alive);
    CHECK_INT(head->upgrade, heads[i].upgrade);
    tear_down(&f);
  }
}

TEST(expectations)
{
  struct fixture f;
  CHECK(good(&f, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n")->expects_100);
  tear_down(&f);
  CHECK(!good(&f, "POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")->expects_100);
  tear_down(&f);
}

TEST(an_error_leaves_the_line)
{
  struct fixture f;
  const char *bytes = "DELETE /a HTTP/1.0\r\nbad line\r\n\r\n";
  set_up(&f);
  CHECK_INT(mg_request_head_parse(&f.head, bytes, strlen(bytes), &limits), MG_EBADHEADER);
  CHECK_STR(f.head.method, "DELETE");
  CHECK_STR(f.head.target, "/a");
  CHECK_INT(f.head.minor, 0);
  tear_down(&f);
}

/* Writes "GET /" with a target of target_len bytes, then fields lines, then the end. */
static size_t write_head(char *out, size_t target_len, size_t fields, size_t value_len)
{
  char *at = out;
  at += sprintf(at, "GET /");
  memset(at, 'u', target_len - 1);
  at += target_len - 1;
  at += sprintf(at, " HTTP/1.1\r\nHost: a\r\n");
  for (size_t i = 1; i < fields; i++) {
    at += sprintf(at, "X-A: ");
    memset(at, 'v', value_len);
    at += value_len;
    at += sprintf(at, "\r\n");
  }
  at += sprintf(at, "\r\n");
  return (size_t)(at - out);
}

TEST(bounds)
{
  static char bytes[70000];
  struct fixture f;
  char *copy;
  struct mg_head_limits small = {.line_bytes_max = 100, .head_bytes_max = 1000, .header_count_max = 10};

  /* the line: "GET " target " HTTP/1.1" has 100 bytes with a target of 87 */
  size_t len = write_head(bytes, 87, 1, 0);
  set_up(&f);
  CHECK_INT(parse(&f, bytes, len, &small, &copy), (int)len);
  free(copy);
  len = write_head(bytes, 88, 1, 0);
  CHECK_INT(parse(&f, bytes, len, &small, &copy), MG_ELINELONG);
  free(copy);
  CHECK_INT(parse(&f, bytes, 102, &small, &copy), MG_ELINELONG); /* as soon as it cannot end in time */
  free(copy);
  CHECK_INT(parse(&f, bytes, 101, &small, &copy), 0);
  free(copy);

  /* line and headers together */
  len = write_head(bytes, 10, 2, 1000 - 42);
  small.head_bytes_max = (uint32_t)len;
  CHECK_INT(parse(&f, bytes, len, &small, &copy), (int)len);
  free(copy);
  small.head_bytes_max = (uint32_t)len - 1;
  CHECK_INT(parse(&f, bytes, len, &small, &copy), MG_EHEADLARGE);
  free(copy);
  CHECK_INT(parse(&f, bytes, len - 1, &small, &copy), MG_EHEADLARGE);
  free(copy);
  CHECK_INT(parse(&f, bytes, len - 2, &small, &copy), 0);
  free(copy);

  /* a line may be longer than the head, but then the head's bound is met first */
  small.head_bytes_max = 50;
  len = write_head(bytes, 87, 1, 0);
  CHECK_INT(parse(&f, bytes, 49, &small, &copy), 0);
  free(copy);
  CHECK_INT(parse(&f, bytes, 50, &small, &copy), MG_EHEADLARGE);
  free(copy);

  /* lines */
  small.head_bytes_max = 1000;
  len = write_head(bytes, 10, 10, 1);
  CHECK_INT(parse(&f, bytes, len, &small, &copy), (int)len);
  CHECK_INT(f.head.headers.count, 10);
  free(copy);
  len = write_head(bytes, 10, 11, 1);
  CHECK_INT(parse(&f, bytes, len, &small, &copy), MG_EHEADCOUNT);
  free(copy);
  tear_down(&f);
}

TEST(large_heads_are_refused_early)
{
  static char bytes[300100];
  struct fixture f;
  set_up(&f);
  memset(bytes, 'a', sizeof bytes);
  memcpy(bytes, "GET / HTTP/1.1\r\nHost: a\r\nX-A: ", 30);
  CHECK_INT(mg_request_head_parse(&f.head, bytes, sizeof bytes, &limits), MG_EHEADLARGE);
  memcpy(bytes, "GET / HTTP/1.1\r\nHost: a\r\nXXXXX", 30);
  CHECK_INT(mg_request_head_parse(&f.head, bytes, sizeof bytes, &limits), MG_EHEADLARGE);
  memcpy(bytes, "GET /aaaaaaaaa", 14);
  memset(bytes + 14, 'a', 40);
  CHECK_INT(mg_request_head_parse(&f.head, bytes, sizeof bytes, &limits), MG_ELINELONG);
  memset(bytes, 'M', 60);
  CHECK_INT(mg_request_head_parse(&f.head, bytes, sizeof bytes, &limits), MG_EMETHOD);
  tear_down(&f);
}

TEST(a_full_arena_is_said)
{
  struct mg_pool pool;
  struct mg_arena arena;
  struct mg_request_head head;
  char first[16];
  const char *bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  mg_pool_init(&pool, 256, 1);
  mg_arena_init(&arena, first, sizeof first, &pool, 0);
  mg_headers_init(&head.headers, &arena);
  CHECK_INT(mg_request_head_parse(&head, bytes, strlen(bytes), &limits), MG_ENOMEM);
}

TEST(parsing_again_takes_no_more_memory)
{
  struct fixture f;
  const char *bytes = "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n\r\n";
  set_up(&f);
  for (size_t len = 0; len < strlen(bytes); len++) CHECK_INT(mg_request_head_parse(&f.head, bytes, len, &limits), 0);
  const char *next = f.arena.next;
  CHECK_INT(mg_request_head_parse(&f.head, bytes, strlen(bytes), &limits), (int)strlen(bytes));
  CHECK(f.arena.next == next);
  CHECK_INT(f.head.headers.count, 2);
  tear_down(&f);
}

TEST(the_end_of_a_head)
{
  static const struct {
    const char *bytes;
    size_t ends; /* after so many bytes; 0: never */
  } heads[] = {
      {"GET / HTTP/1.1\r\nHost: a\r\n\r\nmore", 27},
      {"GET / HTTP/1.1\r\nHost: a\r\n", 0},
      {"GET / HTTP/1.1\nHost: a", 15},
      {"GET / HTTP/1.1\r\nHost: a\r\n\n", 26},
      {"\nGET", 1},
      {"", 0},
  };
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    size_t scanned = 0, ended = 0;
    for (size_t len = 0; len <= strlen(heads[i].bytes) && !ended; len++) {
      char *copy = malloc(len + 1);
      memcpy(copy, heads[i].bytes, len);
      if (mg_head_complete(copy, len, &scanned)) ended = len;
      CHECK_INT(scanned, len);
      free(copy);
    }
    CHECK_INT(ended, heads[i].ends);
    scanned = 0;
    CHECK_INT(mg_head_complete(heads[i].bytes, strlen(heads[i].bytes), &scanned), heads[i].ends > 0);
  }
}

RUN_TESTS({"parts", parts}, {"absolute forms", absolute_forms}, {"framing", framing}, {"connections", connections},
          {"expectations", expectations}, {"an error leaves the line", an_error_leaves_the_line}, {"bounds", bounds},
          {"large heads are refused early", large_heads_are_refused_early},
          {"a full arena is said", a_full_arena_is_said},
          {"parsing again takes no more memory", parsing_again_takes_no_more_memory},
          {"the end of a head", the_end_of_a_head})
