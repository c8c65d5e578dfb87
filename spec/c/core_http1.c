/* core_http1.c - request heads: one table row for each rule, every row also cut at each byte. */
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

struct row {
  const char *why;
  const char *bytes;
  size_t len;
  int outcome; /* 0: good */
};

#define ROW(why, bytes, outcome)           \
  {                                        \
    why, bytes, sizeof(bytes) - 1, outcome \
  }
#define LINE(why, line, outcome) ROW(why, line "\r\nHost: a.test\r\n\r\n", outcome)
#define FIELDS(why, fields, outcome) ROW(why, "POST /x HTTP/1.1\r\nHost: a.test\r\n" fields "\r\n\r\n", outcome)
#define HOST(why, host, outcome) ROW(why, "GET / HTTP/1.1\r\nHost: " host "\r\n\r\n", outcome)

static const struct row rows[] = {
    LINE("plain", "GET / HTTP/1.1", 0),
    LINE("1.0", "GET / HTTP/1.0", 0),
    LINE("query", "GET /a?b=c/../%zz HTTP/1.1", 0),
    LINE("unknown method", "PROPFIND /a HTTP/1.1", 0),
    LINE("every tchar", "X!#$%&'*+-.^_`|~9 /a HTTP/1.1", 0),
    LINE("32 bytes of method", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.1", 0),
    LINE("33 bytes of method", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1", MG_EMETHOD),
    LINE("one empty line first", "\r\nGET / HTTP/1.1", 0),
    LINE("four empty lines first", "\r\n\r\n\r\n\r\nGET / HTTP/1.1", 0),
    LINE("five empty lines first", "\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1", MG_EBADLINE),
    LINE("bare LF first", "\nGET / HTTP/1.1", MG_ELINEEND),
    LINE("bare CR first", "\rGET / HTTP/1.1", MG_ELINEEND),
    LINE("blank first", " GET / HTTP/1.1", MG_EBADLINE),
    LINE("control byte first", "\1GET / HTTP/1.1", MG_EBADLINE),
    LINE("NUL first", "\0GET / HTTP/1.1", MG_EBADLINE),
    LINE("TLS hello", "\x16\x03\x01\x02\x00", MG_EBADLINE),
    LINE("colon in the method", "GET: / HTTP/1.1", MG_EBADLINE),
    LINE("two blanks", "GET  / HTTP/1.1", MG_EBADLINE),
    LINE("two blanks before the version", "GET /  HTTP/1.1", MG_EBADLINE),
    LINE("tab", "GET\t/ HTTP/1.1", MG_EBADLINE),
    LINE("tab before the version", "GET /\tHTTP/1.1", MG_EBADLINE),
    LINE("vertical tab", "GET /\vHTTP/1.1 HTTP/1.1", MG_EBADLINE),
    LINE("blank in the target", "GET /a /b HTTP/1.1", MG_EBADLINE),
    LINE("blank behind the version", "GET / HTTP/1.1 ", MG_EBADLINE),
    LINE("NUL in the target", "GET /a\0b HTTP/1.1", MG_EBADLINE),
    LINE("control byte in the target", "GET /a\1b HTTP/1.1", MG_EBADLINE),
    LINE("CR in the target", "GET /a\rb HTTP/1.1", MG_EBADLINE),
    LINE("DEL in the target", "GET /a\x7f HTTP/1.1", MG_EBADTARGET),
    LINE("high byte in the target", "GET /\xc3\xa9 HTTP/1.1", MG_EBADTARGET),
    LINE("fragment", "GET /a#b HTTP/1.1", MG_EBADTARGET),
    LINE("0.9", "GET /a", MG_EBADLINE),
    LINE("no target", "GET HTTP/1.1", MG_EBADLINE),
    LINE("answer for a request", "HTTP/1.1 200 OK", MG_EBADLINE),
    LINE("2.0", "GET / HTTP/2.0", MG_EBADVERSION),
    LINE("3.7", "GET / HTTP/3.7", MG_EBADVERSION),
    LINE("1.2", "GET / HTTP/1.2", MG_EBADVERSION),
    LINE("0.9 spelt out", "GET / HTTP/0.9", MG_EBADVERSION),
    LINE("1.10", "GET / HTTP/1.10", MG_EBADLINE),
    LINE("01.1", "GET / HTTP/01.1", MG_EBADLINE),
    LINE("lower case", "GET / http/1.1", MG_EBADLINE),
    LINE("junk behind the version", "GET / HTTP/1.1x", MG_EBADLINE),
    LINE("other protocol", "GET / RTSP/1.0", MG_EBADLINE),
    LINE("HTTP/2 preface", "PRI * HTTP/2.0", MG_EBADVERSION),
    ROW("bare LF ends the line", "GET / HTTP/1.1\nHost: a.test\r\n\r\n", MG_ELINEEND),
    ROW("bare CR ends the line", "GET / HTTP/1.1\rHost: a.test\r\n\r\n", MG_EBADLINE),
    LINE("CONNECT", "CONNECT a.test:80 HTTP/1.1", MG_ECONNECT),
    LINE("TRACE", "TRACE / HTTP/1.1", MG_ETRACE),
    LINE("trace", "tRaCe / HTTP/1.1", MG_ETRACE),

    LINE("relative target", "GET a/b HTTP/1.1", MG_EBADTARGET),
    LINE("asterisk", "OPTIONS * HTTP/1.1", 0),
    LINE("asterisk but not OPTIONS", "GET * HTTP/1.1", MG_EBADTARGET),
    LINE("asterisk with more", "OPTIONS *x HTTP/1.1", MG_EBADTARGET),
    LINE("absolute", "GET http://a.test/x HTTP/1.1", 0),
    LINE("absolute, default port", "GET HTTP://A.test:80/x HTTP/1.1", 0),
    LINE("absolute, no path", "GET http://a.test HTTP/1.1", 0),
    LINE("absolute, other host", "GET http://b.test/x HTTP/1.1", MG_EHOSTMISMATCH),
    LINE("absolute, other port", "GET http://a.test:81/x HTTP/1.1", MG_EHOSTMISMATCH),
    LINE("absolute, user information", "GET http://u@a.test/x HTTP/1.1", MG_EBADTARGET),
    LINE("absolute, no host", "GET http:///x HTTP/1.1", MG_EBADTARGET),
    LINE("https", "GET https://a.test/x HTTP/1.1", MG_EBADTARGET),
    LINE("ftp", "GET ftp://a.test/x HTTP/1.1", MG_EBADTARGET),
    ROW("absolute without Host", "GET http://a.test/ HTTP/1.1\r\n\r\n", MG_EBADHOST),

    ROW("no Host", "GET / HTTP/1.1\r\nX-A: 1\r\n\r\n", MG_EBADHOST),
    ROW("no Host in 1.0", "GET / HTTP/1.0\r\n\r\n", 0),
    ROW("empty Host in 1.0", "GET / HTTP/1.0\r\nHost:\r\n\r\n", 0),
    HOST("port", "Shop.a.test:8443", 0),
    HOST("IPv6", "[::1]:8080", 0),
    HOST("IPv4", "127.0.0.1", 0),
    HOST("underscore", "a_b.test", 0),
    HOST("blanks around", " \t a.test \t", 0),
    HOST("empty", "", MG_EBADHOST),
    HOST("port alone", ":80", MG_EBADHOST),
    HOST("two", "a.test\r\nHost: a.test", MG_EBADHOST),
    HOST("two, the second hidden", "a.test\r\nX-A: 1\r\nhOsT: b.test", MG_EBADHOST),
    HOST("list", "a.test,b.test", MG_EBADHOST),
    HOST("blank inside", "a.test b.test", MG_EBADHOST),
    HOST("user information", "u@a.test", MG_EBADHOST),
    HOST("port that is a word", "a.test:http", MG_EBADHOST),
    HOST("port too large", "a.test:65536", MG_EBADHOST),
    HOST("two ports", "a.test:80:81", MG_EBADHOST),
    HOST("slash", "a.test/x", MG_EBADHOST),
    HOST("backslash", "a.test\\x", MG_EBADHOST),
    HOST("question mark", "a.test?x", MG_EBADHOST),
    HOST("number sign", "a.test#x", MG_EBADHOST),
    HOST("escape", "a%2etest", MG_EBADHOST),
    HOST("unclosed bracket", "[::1", MG_EBADHOST),
    HOST("something behind the bracket", "[::1]x", MG_EBADHOST),
    HOST("bad literal", "[::g]", MG_EBADHOST),
    HOST("zone", "[fe80::1%25eth0]", MG_EBADHOST),
    HOST("bare IPv6", "::1", MG_EBADHOST),
    HOST("high byte", "g\xc3\xa4te.test", MG_EBADHOST),

    FIELDS("empty value", "X-Empty:\r\nX-Blank: \t\r\nX: y", 0),
    FIELDS("no blank", "X-A:1", 0),
    FIELDS("blanks around", "X-A: \t one  two \t ", 0),
    FIELDS("TAB inside", "X-A: one\ttwo", 0),
    FIELDS("high bytes in a value", "X-A: caf\xe9 \x80\xff", 0),
    FIELDS("blank before the colon", "X-A : 1", MG_EBADHEADER),
    FIELDS("TAB before the colon", "X-A\t: 1", MG_EBADHEADER),
    FIELDS("blank in the name", "X A: 1", MG_EBADHEADER),
    FIELDS("no colon", "this is no header", MG_EBADHEADER),
    FIELDS("no colon, one word", "X-A", MG_EBADHEADER),
    FIELDS("empty name", ": 1", MG_EBADHEADER),
    FIELDS("NUL in the name", "X\0A: 1", MG_EBADHEADER),
    FIELDS("0x85 in the name", "Content-Length\x85: 5", MG_EBADHEADER),
    FIELDS("delimiter in the name", "X(y): 1", MG_EBADHEADER),
    FIELDS("bracket in the name", "X[a]: 1", MG_EBADHEADER),
    FIELDS("quoted name", "\"X\": 1", MG_EBADHEADER),
    FIELDS("NUL in the value", "X-A: a\0b", MG_EBADHEADER),
    FIELDS("control byte in the value", "X-A: a\x0b", MG_EBADHEADER),
    FIELDS("DEL in the value", "X-A: a\x7f", MG_EBADHEADER),
    FIELDS("fold", "X-A: one\r\n two", MG_EFOLD),
    FIELDS("fold with a TAB", "X-A: one\r\n\ttwo", MG_EFOLD),
    FIELDS("fold before the value", "X-A:\r\n one", MG_EFOLD),
    FIELDS("fold of a blank", "X-A: one\r\n ", MG_EFOLD),
    FIELDS("fold of an empty value", "X-A:\r\n ", MG_EFOLD),
    FIELDS("fold hides a length", "X-A: one\r\n Content-Length: 5", MG_EFOLD),
    ROW("fold of the first line", "GET / HTTP/1.1\r\n Host: a.test\r\nX: y\r\n\r\n", MG_EFOLD),
    FIELDS("bare LF ends a line", "X-A: 1\nX-B: 2", MG_ELINEEND),
    FIELDS("bare CR inside", "X-A: 1\rX-B: 2", MG_ELINEEND),
    FIELDS("CR CR LF", "X-A: 1\r", MG_ELINEEND),
    ROW("bare LF ends the head", "GET / HTTP/1.1\r\nHost: a.test\r\n\nGET", MG_ELINEEND),
    ROW("CR X does not end the head", "GET / HTTP/1.1\r\nHost: a.test\r\n\rX", MG_ELINEEND),

    FIELDS("length", "Content-Length: 5", 0),
    FIELDS("length 0", "Content-Length: 0", 0),
    FIELDS("length with blanks", "Content-Length: \t 5 \t", 0),
    FIELDS("length with zeros", "Content-Length: 0005", 0),
    FIELDS("largest length", "Content-Length: 9223372036854775807", 0),
    FIELDS("2^63", "Content-Length: 9223372036854775808", MG_EBADLENGTH),
    FIELDS("2^64 + 5", "Content-Length: 18446744073709551621", MG_EBADLENGTH),
    FIELDS("20 digits", "Content-Length: 00000000000000000005", MG_EBADLENGTH),
    FIELDS("empty length", "Content-Length:", MG_EBADLENGTH),
    FIELDS("plus", "Content-Length: +5", MG_EBADLENGTH),
    FIELDS("minus", "Content-Length: -0", MG_EBADLENGTH),
    FIELDS("hexadecimal", "Content-Length: 0x5", MG_EBADLENGTH),
    FIELDS("letters behind", "Content-Length: 5z", MG_EBADLENGTH),
    FIELDS("dot", "Content-Length: 5.0", MG_EBADLENGTH),
    FIELDS("exponent", "Content-Length: 1e1", MG_EBADLENGTH),
    FIELDS("quoted", "Content-Length: \"5\"", MG_EBADLENGTH),
    FIELDS("blank inside", "Content-Length: 5 0", MG_EBADLENGTH),
    FIELDS("underscore", "Content-Length: 1_0", MG_EBADLENGTH),
    FIELDS("list", "Content-Length: 5, 5", MG_EBADLENGTH),
    FIELDS("list that ends in a comma", "Content-Length: 5,", MG_EBADLENGTH),
    FIELDS("two equal", "Content-Length: 5\r\nContent-Length: 5", MG_EBADLENGTH),
    FIELDS("two that differ", "Content-Length: 5\r\nX: y\r\ncontent-length: 6", MG_EBADLENGTH),
    FIELDS("a lookalike is no second length", "Content-Length: 5\r\nContent_Length: 6", 0),

    FIELDS("chunked", "Transfer-Encoding: chunked", 0),
    FIELDS("CHUNKED", "tRANSFER-eNCODING:CHUNKED ", 0),
    FIELDS("empty coding", "Transfer-Encoding:", MG_EBADTE),
    FIELDS("other coding", "Transfer-Encoding: xchunked", MG_EBADTE),
    FIELDS("identity", "Transfer-Encoding: identity", MG_EBADTE),
    FIELDS("not last", "Transfer-Encoding: chunked, identity", MG_EBADTE),
    FIELDS("gzip first", "Transfer-Encoding: gzip, chunked", MG_EBADTE),
    FIELDS("twice in a line", "Transfer-Encoding: chunked, chunked", MG_EBADTE),
    FIELDS("empty member", "Transfer-Encoding: ,chunked", MG_EBADTE),
    FIELDS("parameter", "Transfer-Encoding: chunked;q=1", MG_EBADTE),
    FIELDS("blank inside coding", "Transfer-Encoding: chun ked", MG_EBADTE),
    FIELDS("colon before", "Transfer-Encoding: :chunked", MG_EBADTE),
    FIELDS("0x85 behind", "Transfer-Encoding: chunked\x85", MG_EBADTE),
    FIELDS("Kelvin sign",
           "Transfer-Encoding: chun\xe2\x84\xaa"
           "ed",
           MG_EBADTE),
    FIELDS("vertical tab behind", "Transfer-Encoding: chunked\v", MG_EBADHEADER),
    FIELDS("NUL behind", "Transfer-Encoding: chunked\0", MG_EBADHEADER),
    FIELDS("two lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", MG_EBADTE),
    FIELDS("two lines, one empty", "Transfer-Encoding: chunked\r\nTransfer-Encoding:", MG_EBADTE),
    FIELDS("both", "Content-Length: 5\r\nTransfer-Encoding: chunked", MG_ECLTE),
    FIELDS("both, other order", "Transfer-Encoding: chunked\r\nContent-Length: 5", MG_ECLTE),
    FIELDS("both and hop-by-hop", "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
           MG_ECLTE),
    ROW("chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", MG_EBADTE),

    FIELDS("expectation", "Expect: 100-Continue", 0),
    FIELDS("other expectation", "Expect: magic", MG_EBADEXPECT),
    FIELDS("expectation with more", "Expect: y 100-continue", MG_EBADEXPECT),
    FIELDS("two expectations", "Expect: 100-continue\r\nExpect: magic", MG_EBADEXPECT),
    ROW("expectation in 1.0", "POST / HTTP/1.0\r\nExpect: magic\r\n\r\n", 0),
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

TEST(every_rule)
{
  for (size_t i = 0; i < ROW_COUNT; i++) {
    struct fixture f;
    char *copy;
    set_up(&f);
    int got = parse(&f, rows[i].bytes, rows[i].len, &limits, &copy);
    int wanted = rows[i].outcome ? rows[i].outcome : (int)rows[i].len;
    if (got != wanted) fprintf(stderr, "%s: %d\n", rows[i].why, got);
    CHECK_INT(got, wanted);
    free(copy);
    tear_down(&f);
  }
}

TEST(every_rule_cut_at_each_byte)
{
  for (size_t i = 0; i < ROW_COUNT; i++) {
    bool refused = false;
    for (size_t len = 0; len < rows[i].len; len++) {
      struct fixture f;
      char *copy;
      set_up(&f);
      int got = parse(&f, rows[i].bytes, len, &limits, &copy);
      if (got > 0 || (got < 0 && got != rows[i].outcome) || (refused && !got))
        fprintf(stderr, "%s, %zu bytes: %d\n", rows[i].why, len, got);
      CHECK(got <= 0);
      CHECK(got == 0 || got == rows[i].outcome);
      CHECK(!refused || got); /* hopeless once, hopeless with more */
      refused = got < 0;
      free(copy);
      tear_down(&f);
    }
  }
}

TEST(what_follows_is_left_alone)
{
  for (size_t i = 0; i < ROW_COUNT; i++) {
    if (rows[i].outcome) continue;
    struct fixture f;
    char *copy, *joined = malloc(rows[i].len * 2);
    memcpy(joined, rows[i].bytes, rows[i].len);
    memcpy(joined + rows[i].len, rows[i].bytes, rows[i].len);
    set_up(&f);
    CHECK_INT(parse(&f, joined, rows[i].len * 2, &limits, &copy), (int)rows[i].len);
    free(copy);
    free(joined);
    tear_down(&f);
  }
}

RUN_TESTS({"every rule", every_rule}, {"every rule, cut at each byte", every_rule_cut_at_each_byte},
          {"what follows is left alone", what_follows_is_left_alone})
