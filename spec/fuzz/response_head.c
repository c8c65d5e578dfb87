/* response_head.c - response heads: what is accepted reaches the client as one answer, framed as it was read. */
#include "forward.h"
#include "fuzz.h"

static const struct mg_head_limits limits = {.line_bytes_max = 8000, .head_bytes_max = 8000, .header_count_max = 50};
static const struct mg_head_limits wide = {.line_bytes_max = 65536, .head_bytes_max = 65536, .header_count_max = 200};

static void forward_and_read_again(struct mg_response_head *head, struct mg_arena *arena)
{
  static char out[65536];
  mg_response_sanitise(head);
  struct mg_response_out response = {
      .status = head->status,
      .reason = head->reason,
      .headers = &head->headers,
      .body = head->framing == MG_FRAMING_NONE     ? MG_OUT_NONE
              : head->framing == MG_FRAMING_LENGTH ? MG_OUT_LENGTH
                                                   : MG_OUT_CHUNKED,
      .content_length = head->content_length,
      .client_minor = 1,
      .upgrade = head->upgrade,
  };
  size_t bound = mg_response_write_bound(&response);
  MUST(bound <= sizeof out);
  long len = mg_response_write(out, bound, &response);
  MUST(len > 0);
  struct mg_response_head again;
  mg_headers_init(&again.headers, arena);
  char *copy = fuzz_copy(out, (size_t)len);
  MUST(mg_response_head_parse(&again, copy, (size_t)len, MG_METHOD_GET, &wide) == len);
  MUST(again.status == head->status && again.upgrade == head->upgrade);
  if (head->framing == MG_FRAMING_LENGTH)
    MUST(again.framing == MG_FRAMING_LENGTH && again.content_length == head->content_length);
  if (head->framing == MG_FRAMING_CHUNKED || head->framing == MG_FRAMING_CLOSE)
    MUST(again.framing == MG_FRAMING_CHUNKED && again.keep_alive);
  free(copy);
}

static void fuzz_one(const uint8_t *bytes, size_t len)
{
  struct fuzz_arena a;
  struct mg_response_head head;
  fuzz_arena_start(&a);
  mg_headers_init(&head.headers, &a.arena);
  char *copy = fuzz_copy(bytes, len);
  int taken = mg_response_head_parse(&head, copy, len, MG_METHOD_GET, &limits);
  MUST(taken <= (int)len);
  MUST(taken >= 0 || taken == MG_EUPBAD || taken == MG_EUPHEADLARGE);
  if (taken > 0) {
    fuzz_check_lines(&head.headers, copy, (size_t)taken);
    char *prefix = fuzz_copy(bytes, (size_t)taken - 1);
    struct mg_response_head cut;
    mg_headers_init(&cut.headers, &a.arena);
    MUST(mg_response_head_parse(&cut, prefix, (size_t)taken - 1, MG_METHOD_GET, &limits) == 0);
    free(prefix);
    forward_and_read_again(&head, &a.arena);
  }
  free(copy);
  fuzz_arena_end(&a);
}
