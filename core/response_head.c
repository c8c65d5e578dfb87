/* response_head.c - response heads: the status line and how the body that follows is framed (RFC 9112, 4 and 6.3).
 * Owns: nothing.   May call: headers, fields, mem.   Never: repair an answer; a faulty one is refused as a whole.
 * Thread: any. */
#include "fields.h"
#include "http1.h"

/* The line's bytes as far as they are a status line; llhttp never sees it.
 * 1 when it is whole, 0 when it is not there yet, or an error. */
static int parse_status_line(struct mg_response_head *head, const char *bytes, size_t len, size_t *taken)
{
  static const char pattern[] = "HTTP/1.vddd"; /* v is 0 or 1, d a digit; a blank stands before the digits */
  size_t at = 0;
  for (size_t i = 0; i < sizeof pattern - 1; i++) {
    if (at == len) return 0;
    if (i == 8 && bytes[at++] != ' ') return MG_EUPBAD;
    if (at == len) return 0;
    char c = bytes[at++];
    bool ok = pattern[i] == 'd' ? c >= '0' && c <= '9' : pattern[i] == 'v' ? c == '0' || c == '1' : c == pattern[i];
    if (!ok) return MG_EUPBAD;
  }
  head->minor = (uint8_t)(bytes[7] - '0');
  head->status = (uint16_t)((bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + (bytes[11] - '0'));
  if (head->status < 100 || head->status > 599) return MG_EUPBAD;
  if (at == len) return 0;
  if (bytes[at] != ' ' && bytes[at] != '\r') return MG_EUPBAD;
  const char *start = bytes + at + (bytes[at] == ' ');
  const char *feed = memchr(start, '\n', (size_t)(bytes + len - start));
  const char *end = feed ? feed - 1 : bytes + len;
  if (feed && (end < start || *end != '\r')) return MG_EUPBAD;
  if (!feed && end > start && end[-1] == '\r') end--;
  head->reason = mg_str(start, (size_t)(end - start));
  if (!mg_header_value_ok(head->reason)) return MG_EUPBAD;
  *taken = feed ? (size_t)(feed + 1 - bytes) : len;
  return feed != NULL;
}

static bool has_no_body(const struct mg_response_head *head, int method_id)
{
  return method_id == MG_METHOD_HEAD || head->status < 200 || head->status == 204 || head->status == 304;
}

static int check_framing(struct mg_response_head *head, const struct mg_fields_summary *summary, int method_id)
{
  const struct mg_header *length = summary->length, *coding = summary->coding;
  if (summary->lengths > 1 || summary->codings > 1) return MG_EUPBAD;
  if (length && !mg_length_parse(mg_str(length->value, length->value_len), &head->content_length)) return MG_EUPBAD;
  if (coding && head->minor == 0) return MG_EUPBAD;
  if (coding && !mg_str_equal_nocase(mg_str(coding->value, coding->value_len), MG_STR("chunked"))) return MG_EUPBAD;
  head->framing = has_no_body(head, method_id) ? MG_FRAMING_NONE
                  : coding                     ? MG_FRAMING_CHUNKED
                  : length                     ? MG_FRAMING_LENGTH
                                               : MG_FRAMING_CLOSE;
  return 0;
}

/* N of "timeout=N" in a Keep-Alive line; 0 where there is none that makes sense. */
static uint32_t keep_alive_timeout(const struct mg_headers *headers)
{
  static const struct mg_str prefix = MG_STR("timeout=");
  const struct mg_header *line = mg_headers_get(headers, MG_H_KEEP_ALIVE);
  if (!line) return 0;
  struct mg_str rest = mg_str(line->value, line->value_len), member;
  while (mg_list_next(&rest, &member)) {
    uint64_t seconds;
    if (member.len <= prefix.len || !mg_equal_nocase(member.ptr, prefix.ptr, prefix.len)) continue;
    if (!mg_length_parse(mg_str(member.ptr + prefix.len, member.len - prefix.len), &seconds)) return 0;
    return seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
  }
  return 0;
}

static int check_fields(struct mg_response_head *head, int method_id)
{
  struct mg_fields_summary summary;
  mg_fields_summarise(&summary, &head->headers);
  int err = check_framing(head, &summary, method_id);
  if (err) return err;
  head->keep_alive = !summary.close && (head->minor > 0 || summary.keep_alive) && head->framing != MG_FRAMING_CLOSE &&
                     !(summary.lengths && summary.codings);
  head->upgrade = head->status == 101 && head->minor > 0 && summary.connection_upgrade && summary.upgrades == 1 &&
                  mg_str_equal_nocase(mg_str(summary.upgrade->value, summary.upgrade->value_len), MG_STR("websocket"));
  head->keep_alive_timeout_s = keep_alive_timeout(&head->headers);
  return 0;
}

int mg_response_head_parse(struct mg_response_head *head, const char *bytes, size_t len, int method_id,
                           const struct mg_head_limits *limits)
{
  struct mg_headers headers = head->headers;
  headers.count = 0;
  headers.present = 0;
  headers.names = 0;
  *head = (struct mg_response_head){.headers = headers, .reason = MG_STR("")};

  bool cut = len >= limits->head_bytes_max;
  if (cut) len = limits->head_bytes_max;
  size_t line_len;
  int done = parse_status_line(head, bytes, len, &line_len);
  if (done < 0) return done;
  long taken = 0;
  if (done > 0 && line_len < len)
    taken = mg_fields_parse(&head->headers, bytes + line_len, len - line_len, limits->header_count_max);
  if (taken == 0) return cut ? MG_EUPHEADLARGE : 0;
  if (taken == MG_EHEADCOUNT || taken == MG_EHEADLARGE) return MG_EUPHEADLARGE;
  if (taken == MG_ENOMEM) return MG_ENOMEM;
  if (taken < 0) return MG_EUPBAD;
  int err = check_fields(head, method_id);
  return err ? err : (int)(line_len + (size_t)taken);
}

int mg_response_head_keep(struct mg_response_head *head, const char *bytes, size_t len)
{
  const char *copy = mg_arena_copy(head->headers.arena, bytes, len);
  if (!copy) return MG_ENOMEM;
  mg_headers_move(&head->headers, bytes, len, copy);
  head->raw = mg_str(copy, len);
  head->reason.ptr = mg_moved(head->reason.ptr, bytes, len, copy);
  return 0;
}
