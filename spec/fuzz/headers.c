/* headers.c - edits of a header list, as filters make them, and the heads written from it: no order of edits makes a
 * head that its reader takes for anything but one message. The input is a program: a byte that says what to do, then
 * a name and a value, each up to a newline; what may not be in a header is refused before it gets there, as it is
 * for filters. */
#include "forward.h"
#include "fuzz.h"

static const struct mg_head_limits wide = {
    .line_bytes_max = 65536, .head_bytes_max = 1 << 20, .header_count_max = 65535};

struct program {
  const char *at;
  const char *end;
};

static struct mg_str take_word(struct program *program)
{
  const char *start = program->at;
  while (program->at < program->end && *program->at != '\n') program->at++;
  struct mg_str word = mg_str(start, (size_t)(program->at - start));
  if (program->at < program->end) program->at++;
  return word;
}

static void count_lines(const struct mg_headers *list, struct mg_str name, unsigned wanted)
{
  unsigned from = 0, count = 0;
  while (mg_headers_next(list, name, &from)) count++;
  MUST(count == wanted);
}

static void run(struct program *program, struct mg_headers *list)
{
  while (program->at < program->end && list->count < 60) {
    int what = *program->at++ % 4;
    struct mg_str name = take_word(program), value = take_word(program);
    value = mg_trim(value);
    if (!mg_header_name_ok(name) || !mg_header_value_ok(value)) continue;
    switch (what) {
    case 0:
      MUST(mg_headers_add(list, name, value) == 0);
      break;
    case 1:
      MUST(mg_headers_set(list, name, value) == 0);
      count_lines(list, name, 1);
      break;
    case 2:
      mg_headers_remove(list, name);
      count_lines(list, name, 0);
      break;
    default:
      MUST(mg_headers_push(list, name, value, mg_header_id(name.ptr, name.len)) == 0);
      break;
    }
  }
}

static char out[1 << 20];

static void write_request(struct mg_headers *list, struct mg_arena *arena, int choices)
{
  struct mg_request_head again;
  struct mg_address peer;
  MUST(mg_address_parse(MG_STR("192.0.2.1"), &peer));
  enum mg_body_out body = choices & 3;
  if (body == MG_OUT_CLOSE) body = MG_OUT_NONE;
  struct mg_request_out request = {.method = MG_STR("PUT"),
                                   .target = MG_STR("/"),
                                   .host = MG_STR("a.test"),
                                   .headers = list,
                                   .peer = &peer,
                                   .original_host = MG_STR("b.test:81"),
                                   .peer_trusted = choices & 4,
                                   .upgrade = choices & 8,
                                   .expect = choices & 16,
                                   .te_trailers = choices & 32,
                                   .body = body,
                                   .content_length = 1234567};
  size_t bound = mg_request_write_bound(&request);
  MUST(bound <= sizeof out);
  long len = mg_request_write(out, bound, &request);
  MUST(len > 0);
  MUST(mg_request_write(out, (size_t)len, &request) == len);
  MUST(mg_request_write(out, (size_t)len / 2, &request) == -1);
  MUST(mg_request_write(out, bound, &request) == len);
  mg_headers_init(&again.headers, arena);
  MUST(mg_request_head_parse(&again, out, (size_t)len, &wide) == len);
  MUST(mg_str_equal(again.host, MG_STR("a.test")));
  MUST(again.framing == (body == MG_OUT_LENGTH    ? MG_FRAMING_LENGTH
                         : body == MG_OUT_CHUNKED ? MG_FRAMING_CHUNKED
                                                  : MG_FRAMING_NONE));
  MUST(again.upgrade == request.upgrade && again.expects_100 == request.expect && again.keep_alive);
}

static void write_response(struct mg_headers *list, struct mg_arena *arena, int choices)
{
  struct mg_response_head again;
  struct mg_response_out response = {.status = 200,
                                     .reason = MG_STR("Fine"),
                                     .headers = list,
                                     .body = choices & 3,
                                     .content_length = 1234567,
                                     .client_minor = choices & 4 ? 0 : 1,
                                     .close = choices & 8};
  size_t bound = mg_response_write_bound(&response);
  MUST(bound <= sizeof out);
  long len = mg_response_write(out, bound, &response);
  MUST(len > 0);
  MUST(mg_response_write(out, (size_t)len, &response) == len);
  MUST(mg_response_write(out, (size_t)len - 1, &response) == -1);
  mg_headers_init(&again.headers, arena);
  MUST(mg_response_write(out, bound, &response) == len);
  MUST(mg_response_head_parse(&again, out, (size_t)len, MG_METHOD_GET, &wide) == len);
  MUST(again.framing == (response.body == MG_OUT_LENGTH                                  ? MG_FRAMING_LENGTH
                         : response.body == MG_OUT_CHUNKED && response.client_minor == 1 ? MG_FRAMING_CHUNKED
                                                                                         : MG_FRAMING_CLOSE));
  MUST(!response.close || !again.keep_alive);
}

static void fuzz_one(const uint8_t *bytes, size_t len)
{
  struct fuzz_arena a;
  struct mg_headers list;
  if (len < 1) return;
  char *copy = fuzz_copy(bytes, len);
  struct program program = {.at = copy + 1, .end = copy + len};
  fuzz_arena_start(&a);
  mg_headers_init(&list, &a.arena);
  run(&program, &list);
  write_request(&list, &a.arena, bytes[0]);
  write_response(&list, &a.arena, bytes[0]);
  fuzz_arena_end(&a);
  free(copy);
}
