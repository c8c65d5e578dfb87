/* http1.c - request heads: the request line, the target's form, Host and framing, decided by our own rules.
 * Owns: nothing.   May call: headers, fields, target, mem.   Never: do I/O, know a route, let two readings pass.
 * Thread: any. */
#include "http1.h"

#include "fields.h"
#include "target.h"

enum { EMPTY_LINES_MAX = 4, METHOD_LEN_MAX = 32 };

/* What is left to read, and how much of it a request line may take. */
struct line {
  const char *at;
  const char *end;
  bool cut; /* end is where line_bytes_max ends, not where the bytes do */
};

static int more(const struct line *line)
{
  return line->cut ? MG_ELINELONG : 0;
}

static enum mg_method method_of(struct mg_str method)
{
  static const struct {
    struct mg_str name;
    enum mg_method id;
  } methods[] = {
      {MG_STR("GET"), MG_METHOD_GET},     {MG_STR("HEAD"), MG_METHOD_HEAD},     {MG_STR("POST"), MG_METHOD_POST},
      {MG_STR("PUT"), MG_METHOD_PUT},     {MG_STR("DELETE"), MG_METHOD_DELETE}, {MG_STR("OPTIONS"), MG_METHOD_OPTIONS},
      {MG_STR("PATCH"), MG_METHOD_PATCH}, {MG_STR("TRACE"), MG_METHOD_TRACE},   {MG_STR("CONNECT"), MG_METHOD_CONNECT},
  };
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
    if (mg_str_equal(method, methods[i].name)) return methods[i].id;
  return MG_METHOD_OTHER;
}

/* The parsers of the line's parts return 1 when their part is there and good, 0 when bytes run out before it can be
 * told, or an error. */

static int parse_method(struct mg_request_head *head, struct line *line)
{
  const char *start = line->at, *at = start;
  while (at < line->end && mg_token_bytes[(unsigned char)*at]) at++;
  size_t len = (size_t)(at - start);
  if (len > METHOD_LEN_MAX) return MG_EMETHOD;
  if (at == line->end) return more(line);
  if (*at != ' ' || !len) return MG_EBADLINE;
  head->method = mg_str(start, len);
  head->method_id = (uint8_t)method_of(head->method);
  line->at = at + 1;
  return 1;
}

/* Visible ASCII but '#': a fragment never travels, and servers disagree about what it ends. */
static int parse_target(struct mg_request_head *head, struct line *line)
{
  const char *start = line->at, *at = start;
  while (at<line->end && * at> ' ' && *at < 0x7f && *at != '#') at++;
  if (at == line->end) return more(line);
  if (*at == '#' || (unsigned char)*at >= 0x7f) return MG_EBADTARGET;
  if (*at != ' ' || at == start) return MG_EBADLINE;
  head->target = mg_str(start, (size_t)(at - start));
  line->at = at + 1;
  return 1;
}

static int parse_version(struct mg_request_head *head, struct line *line)
{
  static const char pattern[] = "HTTP/d.d\r\n";
  const char *at = line->at;
  for (size_t i = 0; i < sizeof pattern - 1; i++) {
    if (at + i == line->end) return more(line);
    char c = at[i];
    if (pattern[i] == 'd' ? c >= '0' && c <= '9' : c == pattern[i]) continue;
    return c == '\n' ? MG_ELINEEND : MG_EBADLINE;
  }
  if (at[5] != '1' || at[7] > '1') return MG_EBADVERSION;
  head->minor = (uint8_t)(at[7] - '0');
  line->at = at + sizeof pattern - 1;
  return 1;
}

/* Skips the empty lines that some clients send after a body. */
static int skip_empty_lines(const char *bytes, size_t len, size_t *skipped)
{
  size_t at = 0;
  while (at < len && (bytes[at] == '\r' || bytes[at] == '\n')) {
    if (bytes[at] == '\n') return MG_ELINEEND;
    if (at + 1 < len && bytes[at + 1] != '\n') return MG_ELINEEND;
    if (at / 2 == EMPTY_LINES_MAX) return MG_EBADLINE;
    if (at + 1 == len) return 0;
    at += 2;
  }
  *skipped = at;
  return at < len;
}

static int parse_line(struct mg_request_head *head, const char *bytes, size_t len, const struct mg_head_limits *limits,
                      const char **rest)
{
  size_t room = (size_t)limits->line_bytes_max + 2; /* and its line end */
  struct line line = {.at = bytes, .end = bytes + (len < room ? len : room), .cut = len >= room};
  int done = parse_method(head, &line);
  if (done > 0) done = parse_target(head, &line);
  if (done > 0) done = parse_version(head, &line);
  *rest = line.at;
  return done;
}

static int refuse_method(const struct mg_request_head *head)
{
  if (head->method_id == MG_METHOD_CONNECT) return MG_ECONNECT;
  if (mg_str_equal_nocase(head->method, MG_STR("TRACE"))) return MG_ETRACE;
  return 0;
}

/* "http://authority/path?query" into authority and an origin-form target (RFC 9112, 3.2.2). */
static int split_absolute(struct mg_request_head *head)
{
  static const struct mg_str scheme = MG_STR("http://");
  struct mg_str target = head->target, host, port;
  if (target.len < scheme.len || !mg_equal_nocase(target.ptr, scheme.ptr, scheme.len)) return MG_EBADTARGET;
  const char *start = target.ptr + scheme.len, *end = target.ptr + target.len, *at = start;
  while (at < end && *at != '/' && *at != '?') at++;
  head->authority = mg_str(start, (size_t)(at - start));
  if (!mg_authority_split(head->authority, &host, &port)) return MG_EBADTARGET;
  head->target = mg_str(at, (size_t)(end - at));
  if (!head->target.len) {
    head->target = head->method_id == MG_METHOD_OPTIONS ? MG_STR("*") : MG_STR("/");
  } else if (*at == '?') {
    char *copy = mg_arena_alloc(head->headers.arena, head->target.len + 1);
    if (!copy) return MG_ENOMEM;
    copy[0] = '/';
    memcpy(copy + 1, at, head->target.len);
    head->target = mg_str(copy, head->target.len + 1);
  }
  return 0;
}

static int check_target(struct mg_request_head *head)
{
  if (head->target.ptr[0] == '/') return 0;
  if (mg_str_equal(head->target, MG_STR("*"))) return head->method_id == MG_METHOD_OPTIONS ? 0 : MG_EBADTARGET;
  return split_absolute(head);
}

static bool same_authority(struct mg_str a, struct mg_str b)
{
  struct mg_str a_host, a_port, b_host, b_port;
  if (!mg_authority_split(a, &a_host, &a_port) || !mg_authority_split(b, &b_host, &b_port)) return false;
  if (!a_port.len) a_port = MG_STR("80");
  if (!b_port.len) b_port = MG_STR("80");
  return mg_str_equal_nocase(a_host, b_host) && mg_str_equal(a_port, b_port);
}

static int check_host(struct mg_request_head *head, const struct mg_fields_summary *summary)
{
  struct mg_str host, port;
  if (summary->hosts > 1) return MG_EBADHOST;
  if (!summary->hosts) {
    if (head->minor > 0) return MG_EBADHOST;
    head->host = head->authority;
    return 0;
  }
  head->host = mg_str(summary->host->value, summary->host->value_len);
  if (!head->host.len && head->minor == 0) {
    head->host = head->authority;
    return 0;
  }
  if (!mg_authority_split(head->host, &host, &port)) return MG_EBADHOST;
  if (head->authority.len && !same_authority(head->authority, head->host)) return MG_EHOSTMISMATCH;
  return 0;
}

/* RFC 9112, 6: one reading or none. */
static int check_framing(struct mg_request_head *head, const struct mg_fields_summary *summary)
{
  head->framing = MG_FRAMING_NONE;
  if (summary->codings && summary->lengths) return MG_ECLTE;
  if (summary->codings) {
    const struct mg_header *coding = summary->coding;
    if (summary->codings > 1 || head->minor == 0) return MG_EBADTE;
    if (!mg_str_equal_nocase(mg_str(coding->value, coding->value_len), MG_STR("chunked"))) return MG_EBADTE;
    head->framing = MG_FRAMING_CHUNKED;
  } else if (summary->lengths) {
    const struct mg_header *length = summary->length;
    if (summary->lengths > 1) return MG_EBADLENGTH;
    if (!mg_length_parse(mg_str(length->value, length->value_len), &head->content_length)) return MG_EBADLENGTH;
    head->framing = MG_FRAMING_LENGTH;
  }
  return 0;
}

static int check_fields(struct mg_request_head *head)
{
  struct mg_fields_summary summary;
  mg_fields_summarise(&summary, &head->headers);
  int err = check_framing(head, &summary);
  if (!err) err = check_host(head, &summary);
  if (err) return err;
  bool modern = head->minor > 0;
  head->keep_alive = !summary.close && (modern || summary.keep_alive);
  if (modern && summary.expects_100 < summary.expects) return MG_EBADEXPECT;
  head->expects_100 = modern && summary.expects > 0;
  head->upgrade = modern && summary.connection_upgrade && summary.upgrades == 1 &&
                  mg_str_equal_nocase(mg_str(summary.upgrade->value, summary.upgrade->value_len), MG_STR("websocket"));
  return 0;
}

int mg_request_head_parse(struct mg_request_head *head, const char *bytes, size_t len,
                          const struct mg_head_limits *limits)
{
  struct mg_headers headers = head->headers;
  headers.count = 0;
  headers.present = 0;
  headers.names = 0;
  const struct mg_str none = MG_STR("");
  *head = (struct mg_request_head){.headers = headers, .method = none, .target = none, .authority = none, .host = none};

  size_t skipped = 0;
  int done = skip_empty_lines(bytes, len, &skipped);
  if (done <= 0) return done;
  const char *start = bytes + skipped, *rest;
  len -= skipped;
  bool cut = len >= limits->head_bytes_max;
  done = parse_line(head, start, len, limits, &rest);
  if (done <= 0) return done == 0 && cut ? MG_EHEADLARGE : done;
  int err = refuse_method(head);
  if (!err) err = check_target(head);
  if (err) return err;

  size_t line_len = (size_t)(rest - start);
  if (cut) len = limits->head_bytes_max;
  if (line_len >= len) return cut ? MG_EHEADLARGE : 0;
  long taken = mg_fields_parse(&head->headers, rest, len - line_len, limits->header_count_max);
  if (taken < 0) return (int)taken;
  if (taken == 0) return cut ? MG_EHEADLARGE : 0;
  err = check_fields(head);
  return err ? err : (int)(skipped + line_len + (size_t)taken);
}

bool mg_head_complete(const char *bytes, size_t len, size_t *scanned)
{
  size_t at = *scanned;
  while (at < len) {
    const char *found = memchr(bytes + at, '\n', len - at);
    if (!found) break;
    size_t i = (size_t)(found - bytes);
    at = i + 1;
    bool after_cr = i > 0 && bytes[i - 1] == '\r';
    bool ends_empty_line = i > 2 && bytes[i - 2] == '\n';
    if (!after_cr || ends_empty_line) {
      *scanned = at;
      return true;
    }
  }
  *scanned = len;
  return false;
}

int mg_request_head_keep(struct mg_request_head *head, const char *bytes, size_t len)
{
  const char *copy = mg_arena_copy(head->headers.arena, bytes, len);
  if (!copy) return MG_ENOMEM;
  mg_headers_move(&head->headers, bytes, len, copy);
  head->raw = mg_str(copy, len);
  head->method.ptr = mg_moved(head->method.ptr, bytes, len, copy);
  head->target.ptr = mg_moved(head->target.ptr, bytes, len, copy);
  head->authority.ptr = mg_moved(head->authority.ptr, bytes, len, copy);
  head->host.ptr = mg_moved(head->host.ptr, bytes, len, copy);
  return 0;
}
