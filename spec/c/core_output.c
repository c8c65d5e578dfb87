/* core_output.c - what outputs see of an exchange, and the texts they are given. */
#include "output_private.h"

#include "t.h"

static struct mg_str of(struct mg_out_text text)
{
  return mg_str(text.ptr, text.len);
}

static struct mg_out_exchange view_of(const char *line, const char *status_line)
{
  struct mg_out_exchange view;
  struct mg_found_exchange ex = {.id = "01M8QBCKKK000DWQ98XVMT8D6Z", .started = true, .ended = true, .flags = 1};
  ex.line = mg_str(line, strlen(line));
  ex.client_status = mg_str(status_line, strlen(status_line));
  mg_output_view(&ex, MG_COMPLETE, &view);
  return view;
}

TEST(request_lines)
{
  static const struct {
    const char *line, *method, *target, *path, *query, *protocol;
  } cases[] = {
      {"GET /a?b=c HTTP/1.1", "GET", "/a?b=c", "/a", "b=c", "HTTP/1.1"},
      {"GET /? HTTP/1.1", "GET", "/?", "/", "", "HTTP/1.1"},
      {"GET /a?b?c HTTP/1.0", "GET", "/a?b?c", "/a", "b?c", "HTTP/1.0"},
      {"GET http://h:1/x?y HTTP/1.1", "GET", "http://h:1/x?y", "/x", "y", "HTTP/1.1"},
      {"GET http://h HTTP/1.1", "GET", "http://h", "/", "", "HTTP/1.1"},
      {"GET http://h?q HTTP/1.1", "GET", "http://h?q", "", "q", "HTTP/1.1"},
      {"OPTIONS * HTTP/1.1", "OPTIONS", "*", "*", "", "HTTP/1.1"},
      {"GET", "GET", "", "", "", ""},
      {"", "", "", "", "", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mg_out_exchange view = view_of(cases[i].line, "");
    const struct mg_out_leg *leg = &view.legs[MG_OUT_CLIENT_REQUEST];
    CHECK_STR(of(leg->method), cases[i].method);
    CHECK_STR(of(leg->target), cases[i].target);
    CHECK_STR(of(leg->path), cases[i].path);
    CHECK_STR(of(leg->query), cases[i].query);
    CHECK_STR(of(leg->protocol), cases[i].protocol);
  }
}

TEST(status_lines)
{
  static const struct {
    const char *line, *protocol, *reason;
    int status;
  } cases[] = {
      {"HTTP/1.1 404 Not Found", "HTTP/1.1", "Not Found", 404},
      {"HTTP/1.1 204 ", "HTTP/1.1", "", 204},
      {"HTTP/1.1 204", "HTTP/1.1", "", 204},
      {"", "", "", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mg_out_exchange view = view_of("", cases[i].line);
    const struct mg_out_leg *leg = &view.legs[MG_OUT_CLIENT_RESPONSE];
    CHECK_STR(of(leg->protocol), cases[i].protocol);
    CHECK_STR(of(leg->reason), cases[i].reason);
    CHECK_INT(leg->status, cases[i].status);
  }
}

TEST(whether_it_is_whole)
{
  struct mg_out_exchange view;
  struct mg_found_exchange ex = {.started = true, .ended = true};
  mg_output_view(&ex, MG_COMPLETE, &view);
  CHECK_INT(view.incomplete, MG_COMPLETE);
  ex.ended = false;
  mg_output_view(&ex, MG_COMPLETE, &view);
  CHECK_INT(view.incomplete, MG_NO_END);
  mg_output_view(&ex, MG_TIMED_OUT, &view);
  CHECK_INT(view.incomplete, MG_TIMED_OUT);
  ex = (struct mg_found_exchange){.ended = true};
  mg_output_view(&ex, MG_COMPLETE, &view);
  CHECK_INT(view.incomplete, MG_NO_START);
  CHECK(!view.legs[MG_OUT_UPSTREAM_REQUEST].present);
}

TEST(what_a_damaged_body_has_now)
{
  struct mg_out_exchange view;
  struct mg_found_exchange ex = {.started = true, .ended = true, .request_level = 3, .crcs = 1, .crc = {1, 0}};
  mg_buf_append(&ex.body[0], "hello", 5);
  ex.body_recorded[0] = 5;
  ex.body_damaged[0] = true;
  mg_output_view(&ex, MG_COMPLETE, &view);
  const struct mg_out_leg *leg = &view.legs[MG_OUT_CLIENT_REQUEST];
  CHECK(leg->has_body && leg->has_crc && leg->damaged);
  CHECK_INT(leg->crc, 1);
  CHECK_INT(leg->observed, 0x9a71bb4c); /* CRC-32C of "hello" */
  ex.body_recorded[0] = 9;              /* it was not asked for, or is not all here */
  mg_output_view(&ex, MG_COMPLETE, &view);
  CHECK(!leg->has_body);
  mg_buf_free(&ex.body[0]);
}

TEST(utf8)
{
  static const struct {
    const char *bytes;
    bool yes;
  } cases[] = {
      {"", true},
      {"plain", true},
      {"\xc3\xa9", true},
      {"\xe2\x82\xac", true},
      {"\xff", false},
      {"\xc3", false},
      {"\xc0\x80", false},
      {"\xe0\x80\x80", false},
      {"\xe9t", false},
      {"\xed\xa0\x80", false},
      {"\xf0\x9f\x8c\x99", true},
      {"\xf0\x80\x80\x80", false},
      {"\xf4\x90\x80\x80", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    CHECK_INT(mg_out_is_utf8(cases[i].bytes, strlen(cases[i].bytes)), cases[i].yes);
}

TEST(texts)
{
  struct mg_buf out = {0};
  mg_out_json(&out, "A\"\\\n\x01\xe9\x7f", 7, true);
  CHECK_STR(mg_str(out.ptr, out.len), "\"a\\\"\\\\\\n\\u0001\xc3\xa9\\u007f\"");
  out.len = 0;
  mg_out_escaped(&out, "a\"\\\t\x01\xe9", 6);
  CHECK_STR(mg_str(out.ptr, out.len), "a\\\"\\\\\\t\\x01\\xe9");
  out.len = 0;
  mg_out_base32_sha256(&out, "", 0); /* RFC 4648, 6, over FIPS 180's empty message */
  CHECK_STR(mg_str(out.ptr, out.len), "4OYMIQUY7QOBJGX36TEJS35ZEQT24QPEMSNZGTFESWMRW6CSXBKQ====");
  out.len = 0;
  mg_out_seconds(&out, 1234567.0);
  CHECK_STR(mg_str(out.ptr, out.len), "1.234567");
  out.len = 0;
  mg_buf_append(&out, "b\na\nc", 5);
  mg_out_sort_lines(&out);
  CHECK_STR(mg_str(out.ptr, out.len), "a\nb\nc");
  mg_buf_free(&out);
}

TEST(records_packed_and_unpacked)
{
  for (int kind = MG_OUT_ZSTD; kind <= MG_OUT_GZIP; kind++) {
    struct mg_out_packer *packer = mg_out_packer_new(kind, 9);
    struct mg_buf packed = {0}, plain = {0}, big = {0};
    for (int i = 0; i < 50000; i++) mg_buf_printf(&big, "%d,", i * 7919);
    CHECK(mg_out_pack(packer, &packed, "one", 3));
    size_t first = packed.len;
    CHECK(mg_out_pack(packer, &packed, big.ptr, big.len));
    CHECK_INT(mg_out_unpack(packer, packed.ptr, packed.len, &plain), first);
    CHECK_STR(mg_str(plain.ptr, plain.len), "one");
    CHECK_INT(mg_out_unpack(packer, packed.ptr + first, packed.len - first, &plain), packed.len - first);
    CHECK(plain.len == big.len && memcmp(plain.ptr, big.ptr, big.len) == 0);
    CHECK_INT(mg_out_unpack(packer, packed.ptr + first, packed.len - first - 1, &plain), 0);
    packed.ptr[first + 1000] ^= 1;
    CHECK_INT(mg_out_unpack(packer, packed.ptr + first, packed.len - first, &plain), 0);
    CHECK_INT(mg_out_unpack(packer, "nonsense", 8, &plain), 0);
    mg_out_packer_free(packer);
    mg_buf_free(&packed);
    mg_buf_free(&plain);
    mg_buf_free(&big);
  }
}

RUN_TESTS({"request_lines", request_lines}, {"status_lines", status_lines},
          {"whether_it_is_whole", whether_it_is_whole}, {"what_a_damaged_body_has_now", what_a_damaged_body_has_now},
          {"utf8", utf8}, {"texts", texts}, {"records_packed_and_unpacked", records_packed_and_unpacked})
