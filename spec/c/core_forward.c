/* core_forward.c - what passes, and the heads that go out, byte for byte. */
#include "forward.h"

#include "t.h"

static const struct mg_head_limits limits = {.line_bytes_max = 16384, .head_bytes_max = 65536, .header_count_max = 200};

struct fixture {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[8192];
  struct mg_request_head request;
  struct mg_response_head response;
  struct mg_address peer;
};

static void set_up(struct fixture *f)
{
  mg_pool_init(&f->pool, 65536, 4);
  mg_arena_init(&f->arena, f->first, sizeof f->first, &f->pool, 1 << 20);
  mg_headers_init(&f->request.headers, &f->arena);
  mg_headers_init(&f->response.headers, &f->arena);
  CHECK(mg_address_parse(MG_STR("127.0.0.1"), &f->peer));
}

static void tear_down(struct fixture *f)
{
  mg_arena_reset(&f->arena, f->first, sizeof f->first);
  mg_pool_destroy(&f->pool);
}

static struct mg_str text(const char *literal)
{
  return mg_str(literal, strlen(literal));
}

/* Parses "POST /x" with fields and takes out what may not pass. */
static void read_request(struct fixture *f, const char *fields, bool peer_trusted)
{
  static char bytes[2048];
  int len = snprintf(bytes, sizeof bytes, "POST /x HTTP/1.1\r\nHost: a.test:81\r\n%s\r\n", fields);
  CHECK_INT(mg_request_head_parse(&f->request, bytes, (size_t)len, &limits), len);
  mg_request_sanitise(&f->request, peer_trusted);
}

static struct mg_request_out request_out(const struct fixture *f)
{
  return (struct mg_request_out){.method = f->request.method,
                                 .target = f->request.target,
                                 .host = f->request.host,
                                 .headers = &f->request.headers,
                                 .peer = &f->peer,
                                 .original_host = f->request.host};
}

/* Writes into exactly the room that is needed, after every smaller room was refused and the bound was seen to hold. */
static const char *write_request(const struct mg_request_out *out)
{
  static char head[8192];
  size_t bound = mg_request_write_bound(out);
  CHECK(bound < sizeof head);
  long len = mg_request_write(head, bound, out);
  CHECK(len > 0);
  for (long room = 0; room < len; room++) {
    char *small = malloc((size_t)room + 1);
    CHECK_INT(mg_request_write(small, (size_t)room, out), -1);
    free(small);
  }
  char *exact = malloc((size_t)len);
  CHECK_INT(mg_request_write(exact, (size_t)len, out), len);
  CHECK_INT(memcmp(exact, head, (size_t)len), 0);
  free(exact);
  head[len] = '\0';
  return head;
}

#define OURS                        \
  "X-Forwarded-For: 127.0.0.1\r\n"  \
  "X-Forwarded-Proto: http\r\n"     \
  "X-Forwarded-Host: a.test:81\r\n" \
  "X-Forwarded-Port: 81\r\n"        \
  "X-Forwarded-Server: a.test\r\n"
#define START "POST /x HTTP/1.1\r\nHost: a.test:81\r\n"

TEST(request_lines)
{
  static const struct {
    const char *why, *fields, *passed;
  } rows[] = {
      {"nothing", "", ""},
      {"untouched, in order", "X-C: 1\r\nX-A: 2\r\nX-B: 3\r\n", "X-C: 1\r\nX-A: 2\r\nX-B: 3\r\n"},
      {"case of names", "X-CamelCase-nAmE: 1\r\n", "X-CamelCase-nAmE: 1\r\n"},
      {"blanks", "X-A:1\r\nX-B: \t 2 3 \t\r\nX-C:\r\nX-D: 4\r\n", "X-A: 1\r\nX-B: 2 3\r\nX-C: \r\nX-D: 4\r\n"},
      {"high bytes", "X-A: caf\xe9\r\n", "X-A: caf\xe9\r\n"},
      {"authorization", "Authorization: b\r\n", "Authorization: b\r\n"},
      {"cookies", "Cookie: a=1\r\nCookie: b=2\r\n", "Cookie: a=1\r\nCookie: b=2\r\n"},
      {"connection", "X-A: 1\r\nConnection: keep-alive\r\nX-B: 2\r\n", "X-A: 1\r\nX-B: 2\r\n"},
      {"nominated", "Connection: X-Foo\r\nX-Foo: 1\r\nX-Bar: 2\r\n", "X-Bar: 2\r\n"},
      {"nominated before", "X-Foo: 0\r\nConnection: x-foo\r\nX-Foo: 1\r\nX-A: 1\r\n", "X-A: 1\r\n"},
      {"nominated twice", "Connection: X-Foo\r\nX-Foo: 1\r\nConnection: ,X-Bar,,\r\nX-Bar: 2\r\n", ""},
      {"nominated host and framing", "Connection: Host, Content-Length, Transfer-Encoding\r\nContent-Length: 0\r\n",
       ""},
      {"keep-alive", "Keep-Alive: timeout=5\r\n", ""},
      {"proxy", "Proxy-Connection: x\r\nProxy-Authorization: y\r\n", ""},
      {"te", "Connection: TE\r\nTE: trailers, deflate;q=0.5\r\n", ""},
      {"bare te", "TE: deflate\r\n", ""},
      {"bare upgrade", "Upgrade: foo/1\r\n", ""},
      {"h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n", ""},
      {"expectation", "Expect: 100-continue\r\n", ""},
      {"lookalikes", "Content_Length: 5\r\nTransfer_Encoding: chunked\r\n", ""},
      {"trailer without trailers", "Trailer: X-T\r\n", ""},
      {"claims",
       "Forwarded: for=6\r\nX-Forwarded-For: 6\r\nx-forwarded-proto: https\r\nX-Forwarded-Host: evil\r\n"
       "X-Forwarded-Port: 6\r\nX-Forwarded-Server: evil\r\nX-Forwarded-Prefix: /\r\nx_forwarded_for: 6\r\n"
       "X-Real-IP: 6\r\nX_Real_IP: 6\r\nX-Client-IP: 6\r\nTrue-Client-IP: 6\r\nX-Cluster-Client-IP: 6\r\n"
       "X-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX-A: 1\r\n",
       "X-A: 1\r\n"},
      {"nominated claim", "Connection: X-Forwarded-For\r\nX-Forwarded-For: 6\r\n", ""},
      {"via", "Via: 1.1 x\r\n", "Via: 1.1 x\r\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    char wanted[2048];
    set_up(&f);
    read_request(&f, rows[i].fields, false);
    snprintf(wanted, sizeof wanted, START "%s" OURS "\r\n", rows[i].passed);
    struct mg_request_out out = request_out(&f);
    const char *got = write_request(&out);
    if (strcmp(got, wanted) != 0) fprintf(stderr, "%s\n", rows[i].why);
    CHECK_STR(text(got), wanted);
    tear_down(&f);
  }
}

TEST(a_trusted_peer_is_believed)
{
  struct fixture f;
  set_up(&f);
  read_request(&f,
               "X-Forwarded-For: 1.1.1.1\r\nx-forwarded-for:2.2.2.2\r\nX-Forwarded-Proto: https\r\n"
               "X-Forwarded-Host: b.test\r\nX-Real-IP: 1.1.1.1\r\nForwarded: for=x\r\n",
               true);
  struct mg_request_out out = request_out(&f);
  out.peer_trusted = true;
  CHECK_STR(text(write_request(&out)),
            START "X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\nX-Real-IP: 1.1.1.1\r\nForwarded: for=x\r\n"
                  "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 127.0.0.1\r\n"
                  "X-Forwarded-Port: 81\r\nX-Forwarded-Server: a.test\r\n\r\n");
  tear_down(&f);
}

TEST(claims_of_a_trusted_peer_cannot_be_nominated_away)
{
  struct fixture f;
  set_up(&f);
  read_request(&f, "Connection: X-Forwarded-For, x-real-ip, X-A\r\nX-Forwarded-For: 1.1.1.1\r\nX-A: 1\r\n", true);
  struct mg_request_out out = request_out(&f);
  out.peer_trusted = true;
  CHECK(strstr(write_request(&out), "\r\nX-Forwarded-For: 1.1.1.1, 127.0.0.1\r\n"));
  CHECK(!strstr(write_request(&out), "X-A"));
  tear_down(&f);
}

TEST(lines_of_filters_stand)
{
  struct fixture f;
  set_up(&f);
  read_request(&f, "X-A: 1\r\nX-Forwarded-Proto: https\r\nX-B: 2\r\n", false);
  CHECK_INT(mg_headers_set(&f.request.headers, MG_STR("X-Forwarded-Proto"), MG_STR("wss")), 0);
  CHECK_INT(mg_headers_set(&f.request.headers, MG_STR("X-B"), MG_STR("3")), 0);
  CHECK_INT(mg_headers_add(&f.request.headers, MG_STR("x-forwarded-for"), MG_STR("9.9.9.9")), 0);
  CHECK_INT(mg_headers_add(&f.request.headers, MG_STR("content-length"), MG_STR("9")), 0);
  CHECK_INT(mg_headers_add(&f.request.headers, MG_STR("Connection"), MG_STR("x")), 0);
  struct mg_request_out out = request_out(&f);
  CHECK_STR(text(write_request(&out)),
            START "X-A: 1\r\nX-B: 3\r\nX-Forwarded-Proto: wss\r\nX-Forwarded-For: 9.9.9.9, 127.0.0.1\r\n"
                  "X-Forwarded-Host: a.test:81\r\nX-Forwarded-Port: 81\r\nX-Forwarded-Server: a.test\r\n\r\n");
  tear_down(&f);
}

TEST(claims_that_were_left_in_do_not_pass)
{
  struct fixture f;
  const char *bytes = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6\r\nX-Forwarded-Proto: https\r\n\r\n";
  set_up(&f);
  CHECK_INT(mg_request_head_parse(&f.request, bytes, strlen(bytes), &limits), (int)strlen(bytes));
  struct mg_request_out out = request_out(&f);
  const char *got = write_request(&out);
  CHECK(strstr(got, "\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"));
  CHECK(!strstr(got, "https"));
  tear_down(&f);
}

TEST(hosts_and_ports)
{
  static const struct {
    const char *host;
    uint16_t listen_port;
    const char *lines;
  } rows[] = {
      {"a.test", 0, "X-Forwarded-Host: a.test\r\nX-Forwarded-Port: 80\r\nX-Forwarded-Server: a.test\r\n"},
      {"a.test", 8888, "X-Forwarded-Host: a.test\r\nX-Forwarded-Port: 8888\r\nX-Forwarded-Server: a.test\r\n"},
      {"a.test:81", 8888, "X-Forwarded-Host: a.test:81\r\nX-Forwarded-Port: 81\r\nX-Forwarded-Server: a.test\r\n"},
      {"[::1]:81", 0, "X-Forwarded-Host: [::1]:81\r\nX-Forwarded-Port: 81\r\nX-Forwarded-Server: [::1]\r\n"},
      {"", 8888, "X-Forwarded-Port: 8888\r\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    char wanted[512];
    set_up(&f);
    read_request(&f, "", false);
    struct mg_request_out out = request_out(&f);
    out.original_host = text(rows[i].host);
    out.listen_port = rows[i].listen_port;
    snprintf(wanted, sizeof wanted, START "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n%s\r\n",
             rows[i].lines);
    CHECK_STR(text(write_request(&out)), wanted);
    tear_down(&f);
  }
}

TEST(a_peer_without_an_address)
{
  struct fixture f;
  set_up(&f);
  f.peer = (struct mg_address){0};
  read_request(&f, "X-Forwarded-For: 1.1.1.1\r\n", true);
  struct mg_request_out out = request_out(&f);
  CHECK(!strstr(write_request(&out), "X-Forwarded-For"));
  out.peer_trusted = true;
  CHECK(strstr(write_request(&out), "\r\nX-Forwarded-For: 1.1.1.1\r\n"));
  tear_down(&f);
}

TEST(request_ends)
{
  struct fixture f;
  set_up(&f);
  read_request(&f, "Trailer: X-T\r\nTransfer-Encoding: chunked\r\n", false);
  struct mg_request_out out = request_out(&f);
  out.body = MG_OUT_CHUNKED;
  CHECK_STR(text(write_request(&out)), START "Trailer: X-T\r\n" OURS "Transfer-Encoding: chunked\r\n\r\n");
  out.body = MG_OUT_LENGTH;
  out.content_length = UINT64_MAX;
  out.expect = true;
  CHECK_STR(text(write_request(&out)),
            START OURS "Content-Length: 18446744073709551615\r\nExpect: 100-continue\r\n\r\n");
  out.body = MG_OUT_NONE;
  out.expect = false;
  out.te_trailers = true;
  CHECK_STR(text(write_request(&out)), START OURS "Connection: TE\r\nTE: trailers\r\n\r\n");
  out.upgrade = true;
  CHECK_STR(text(write_request(&out)), START OURS "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  tear_down(&f);
}

/* Parses an answer of that status with fields and takes out what may not pass. */
static struct mg_response_out read_response(struct fixture *f, int status, const char *fields)
{
  static char bytes[2048];
  int len = snprintf(bytes, sizeof bytes, "HTTP/1.1 %d Why\r\n%s\r\n", status, fields);
  CHECK_INT(mg_response_head_parse(&f->response, bytes, (size_t)len, MG_METHOD_GET, &limits), len);
  mg_response_sanitise(&f->response);
  return (struct mg_response_out){
      .status = f->response.status, .reason = f->response.reason, .headers = &f->response.headers, .client_minor = 1};
}

static const char *write_response(const struct mg_response_out *out)
{
  static char head[8192];
  size_t bound = mg_response_write_bound(out);
  CHECK(bound < sizeof head);
  long len = mg_response_write(head, bound, out);
  CHECK(len > 0);
  for (long room = 0; room < len; room++) {
    char *small = malloc((size_t)room + 1);
    CHECK_INT(mg_response_write(small, (size_t)room, out), -1);
    free(small);
  }
  head[len] = '\0';
  return head;
}

TEST(response_lines)
{
  static const struct {
    const char *why, *fields, *passed;
  } rows[] = {
      {"cookies apart", "Set-Cookie: b=1\r\nX-A: 1\r\nSet-Cookie: a=2\r\n",
       "Set-Cookie: b=1\r\nX-A: 1\r\nSet-Cookie: a=2\r\n"},
      {"server and date", "Server: up/1\r\nDate: x\r\n", "Server: up/1\r\nDate: x\r\n"},
      {"empty value", "X-Empty:\r\nX-After: 1\r\n", "X-Empty: \r\nX-After: 1\r\n"},
      {"nominated", "Connection: X-Foo\r\nX-Foo: 1\r\nX-Bar: 2\r\n", "X-Bar: 2\r\n"},
      {"nominated length", "Connection: Content-Length\r\nContent-Length: 5\r\n", ""},
      {"keep-alive", "Connection: keep-alive\r\nKeep-Alive: timeout=77\r\n", ""},
      {"proxy-connection", "Proxy-Connection: keep-alive\r\n", ""},
      {"upgrade", "Connection: Upgrade\r\nUpgrade: h2,h2c\r\n", ""},
      {"te", "TE: x\r\n", ""},
      {"trailer without trailers", "Trailer: X-T\r\n", ""},
      {"framing", "Content-Length: 5\r\n", ""},
      {"forwarding lines are no claims here", "X-Forwarded-Host: a\r\n", "X-Forwarded-Host: a\r\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    char wanted[1024];
    set_up(&f);
    struct mg_response_out out = read_response(&f, 200, rows[i].fields);
    snprintf(wanted, sizeof wanted, "HTTP/1.1 200 Why\r\n%s\r\n", rows[i].passed);
    if (strcmp(write_response(&out), wanted) != 0) fprintf(stderr, "%s\n", rows[i].why);
    CHECK_STR(text(write_response(&out)), wanted);
    tear_down(&f);
  }
}

TEST(response_ends)
{
  struct fixture f;
  set_up(&f);
  struct mg_response_out out = read_response(&f, 200, "Content-Length: 99\r\nTrailer: X-T\r\n");
  out.body = MG_OUT_LENGTH;
  out.content_length = 5;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\nContent-Length: 5\r\n\r\n");
  out.keep_alive_1_0 = true;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n");
  out.close = true;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
  out.keep_alive_1_0 = out.close = false;
  out.body = MG_OUT_CHUNKED;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n");
  out.client_minor = 0; /* never chunked to HTTP/1.0 */
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\nConnection: close\r\n\r\n");
  out.body = MG_OUT_CLOSE;
  out.client_minor = 1;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\nConnection: close\r\n\r\n");
  out.body = MG_OUT_NONE;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\n\r\n");
  out.keep_length = true;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 200 Why\r\nContent-Length: 99\r\n\r\n");
  out.status = 204; /* which has no length at all */
  out.reason = MG_STR("");
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 204 No Content\r\n\r\n");
  out.status = 299;
  out.keep_length = false;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 299 \r\n\r\n");
  tear_down(&f);
}

TEST(a_length_beside_chunked_is_not_quoted)
{
  struct fixture f;
  set_up(&f);
  struct mg_response_out out = read_response(&f, 304, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
  out.keep_length = true;
  CHECK_STR(text(write_response(&out)), "HTTP/1.1 304 Why\r\n\r\n");
  tear_down(&f);
}

TEST(a_switch)
{
  struct fixture f;
  set_up(&f);
  struct mg_response_out out =
      read_response(&f, 101,
                    "Connection: Upgrade, X-A\r\nUpgrade: websocket\r\nX-A: 1\r\nSec-WebSocket-Accept: s\r\n"
                    "Content-Length: 5\r\n");
  CHECK(f.response.upgrade);
  out.upgrade = true;
  CHECK_STR(text(write_response(&out)),
            "HTTP/1.1 101 Why\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s\r\nConnection: Upgrade\r\n\r\n");
  tear_down(&f);
}

TEST(trailers)
{
  struct fixture f;
  char out[64];
  set_up(&f);
  CHECK_INT(mg_trailers_write(out, sizeof out, &f.request.headers), 5);
  CHECK_INT(memcmp(out, "0\r\n\r\n", 5), 0);
  CHECK_INT(mg_headers_push(&f.request.headers, MG_STR("X-T"), MG_STR("1"), MG_H_OTHER), 0);
  CHECK_INT(mg_headers_add(&f.request.headers, MG_STR("X-U"), MG_STR("2")), 0);
  long len = mg_trailers_write(out, sizeof out, &f.request.headers);
  CHECK_STR(mg_str(out, (size_t)len), "0\r\nX-T: 1\r\nX-U: 2\r\n\r\n");
  CHECK_INT(mg_trailers_write(out, (size_t)len - 1, &f.request.headers), -1);
  tear_down(&f);
}

TEST(phrases)
{
  CHECK_STR(text(mg_reason_phrase(200)), "OK");
  CHECK_STR(text(mg_reason_phrase(431)), "Request Header Fields Too Large");
  CHECK_STR(text(mg_reason_phrase(299)), "");
}

RUN_TESTS({"request lines", request_lines}, {"a trusted peer is believed", a_trusted_peer_is_believed},
          {"claims of a trusted peer cannot be nominated away", claims_of_a_trusted_peer_cannot_be_nominated_away},
          {"lines of filters stand", lines_of_filters_stand},
          {"claims that were left in do not pass", claims_that_were_left_in_do_not_pass},
          {"hosts and ports", hosts_and_ports}, {"a peer without an address", a_peer_without_an_address},
          {"request ends", request_ends}, {"response lines", response_lines}, {"response ends", response_ends},
          {"a switch", a_switch}, {"a length beside chunked is not quoted", a_length_beside_chunked_is_not_quoted},
          {"trailers", trailers}, {"phrases", phrases})
