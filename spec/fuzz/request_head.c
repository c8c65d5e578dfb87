/* request_head.c - request heads: what is accepted is accepted once, and what goes upstream is read there as it was
 * here. */
#include "forward.h"
#include "fuzz.h"
#include "target.h"

static const struct mg_head_limits limits = {.line_bytes_max = 2000, .head_bytes_max = 8000, .header_count_max = 50};
static const struct mg_head_limits wide = {.line_bytes_max = 65536, .head_bytes_max = 1 << 20, .header_count_max = 200};

/* The gateway's own head, read by the next gateway: same message, one reading. */
static void forward_and_read_again(struct mg_request_head *head, struct mg_arena *arena, bool trusted)
{
  static char out[65536];
  struct mg_address peer;
  MUST(mg_address_parse(MG_STR("192.0.2.1"), &peer));
  mg_request_sanitise(head, trusted);
  struct mg_request_out request = {
      .method = head->method,
      .target = head->target,
      .host = head->host.len ? head->host : MG_STR("origin"),
      .headers = &head->headers,
      .peer = &peer,
      .original_host = head->host,
      .peer_trusted = trusted,
      .upgrade = head->upgrade,
      .expect = head->expects_100,
      .body = head->framing == MG_FRAMING_CHUNKED  ? MG_OUT_CHUNKED
              : head->framing == MG_FRAMING_LENGTH ? MG_OUT_LENGTH
                                                   : MG_OUT_NONE,
      .content_length = head->content_length,
  };
  size_t bound = mg_request_write_bound(&request);
  MUST(bound <= sizeof out);
  long len = mg_request_write(out, bound, &request);
  MUST(len > 0);

  struct mg_request_head again;
  mg_headers_init(&again.headers, arena);
  char *copy = fuzz_copy(out, (size_t)len);
  MUST(mg_request_head_parse(&again, copy, (size_t)len, &wide) == len);
  MUST(mg_str_equal(again.method, head->method) && mg_str_equal(again.target, head->target));
  MUST(mg_str_equal(again.host, request.host) && again.minor == 1);
  MUST(again.framing == head->framing && again.content_length == head->content_length);
  MUST(again.upgrade == head->upgrade && again.expects_100 == head->expects_100 && again.keep_alive);
  MUST(again.headers.count >= (trusted ? 2 : 4)); /* Host, and the lines that say who asked */
  free(copy);
}

static void fuzz_one(const uint8_t *bytes, size_t len)
{
  struct fuzz_arena a;
  struct mg_request_head head;
  fuzz_arena_start(&a);
  mg_headers_init(&head.headers, &a.arena);
  char *copy = fuzz_copy(bytes, len);
  int taken = mg_request_head_parse(&head, copy, len, &limits);
  MUST(taken <= (int)len);
  size_t scanned = 0;
  bool complete = mg_head_complete(copy, len, &scanned);
  if (taken > 0) {
    MUST(complete);
    fuzz_check_lines(&head.headers, copy, (size_t)taken);
    struct mg_target_parts parts;
    int err = mg_target_split(&parts, head.target, &a.arena, false);
    MUST(err == 0 || err == MG_EBADPATH);
    if (!err && head.target.ptr[0] == '/') { /* encoding and decoding again changes nothing */
      struct mg_str encoded = mg_path_encode(parts.path, &a.arena);
      struct mg_target_parts again;
      MUST(encoded.ptr && mg_target_split(&again, encoded, &a.arena, false) == 0);
      MUST(mg_str_equal(again.path, parts.path));
    }
    char *prefix = fuzz_copy(bytes, (size_t)taken - 1);
    struct mg_request_head cut;
    mg_headers_init(&cut.headers, &a.arena);
    MUST(mg_request_head_parse(&cut, prefix, (size_t)taken - 1, &limits) == 0);
    free(prefix);
    forward_and_read_again(&head, &a.arena, len % 2);
  }
  free(copy);
  fuzz_arena_end(&a);
}
