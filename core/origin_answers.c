/* origin_answers.c - what the built-in origin says, path by path.
 * Owns: the hash of an upload.   May call: mem, log, forward (phrases), libcrypto, origin.c's two functions.
 * Never: read or close a socket.   Thread: the loop thread. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "forward.h"
#include "log.h"
#include "origin_conn.h"

struct origin_path {
  const char *prefix;
  uint64_t number_min, number_max; /* no number where both are 0 */
  void (*answer)(struct origin_conn *conn);
  bool hashes;
};

static bool is_head_request(const struct origin_conn *conn)
{
  return mg_str_equal(conn->method, MG_STR("HEAD"));
}

static const char *date_now(struct origin *origin)
{
  time_t now = time(NULL);
  if (now != origin->date_at) {
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(origin->date, sizeof origin->date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    origin->date_at = now;
  }
  return origin->date;
}

static void write_head(struct origin_conn *conn, int status, const char *type, enum origin_framing framing,
                       uint64_t length)
{
  bool old = conn->parser.http_major == 1 && conn->parser.http_minor == 0;
  if (framing == ORIGIN_CHUNKED && old) framing = ORIGIN_UNTIL_CLOSE;
  if (framing == ORIGIN_UNTIL_CLOSE) conn->keep_alive = false;
  conn->framing = framing;
  mg_buf_printf(&conn->out, "HTTP/1.1 %d %s\r\nServer: moongate-origin\r\nDate: %s\r\nContent-Type: %s\r\n", status,
                mg_reason_phrase(status), date_now(conn->origin), type);
  if (framing == ORIGIN_LENGTH && status != 204 && status != 304)
    mg_buf_printf(&conn->out, "Content-Length: %llu\r\n", (unsigned long long)length);
  if (framing == ORIGIN_CHUNKED) mg_buf_printf(&conn->out, "Transfer-Encoding: chunked\r\n");
  if (!conn->keep_alive || old)
    mg_buf_printf(&conn->out, "Connection: %s\r\n", conn->keep_alive ? "keep-alive" : "close");
  mg_buf_append(&conn->out, "\r\n", 2);
}

static void answer_bytes_of(struct origin_conn *conn, int status, const char *type, const struct mg_buf *body)
{
  write_head(conn, status, type, ORIGIN_LENGTH, body->len);
  if (!is_head_request(conn) && status != 204 && status != 304) mg_buf_append(&conn->out, body->ptr, body->len);
}

void origin_answer_text(struct origin_conn *conn, int status, const char *text)
{
  struct mg_buf body = {0};
  mg_buf_printf(&body, "%s\n", text);
  answer_bytes_of(conn, status, "text/plain; charset=utf-8", &body);
  mg_buf_free(&body);
}

/* ---- the paths ---- */

static void answer_generated(struct origin_conn *conn, enum origin_framing framing)
{
  write_head(conn, 200, "application/octet-stream", framing, conn->number);
  if (is_head_request(conn)) return;
  conn->left = conn->number;
  if (conn->framing == ORIGIN_CHUNKED && !conn->left) mg_buf_append(&conn->out, "0\r\n\r\n", 5);
}

static void answer_bytes(struct origin_conn *conn)
{
  answer_generated(conn, ORIGIN_LENGTH);
}

static void answer_chunked(struct origin_conn *conn)
{
  answer_generated(conn, ORIGIN_CHUNKED);
}

static void answer_close(struct origin_conn *conn)
{
  answer_generated(conn, ORIGIN_UNTIL_CLOSE);
}

static void answer_delay(struct origin_conn *conn)
{
  origin_wait(conn, conn->number);
}

static void answer_status(struct origin_conn *conn)
{
  char text[32];
  snprintf(text, sizeof text, "status %d", (int)conn->number);
  origin_answer_text(conn, (int)conn->number, text);
}

static void answer_upload(struct origin_conn *conn)
{
  unsigned char hash[EVP_MAX_MD_SIZE];
  char hex[65];
  MG_ASSERT(EVP_DigestFinal_ex(conn->hash, hash, NULL) == 1);
  for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", hash[i]);
  struct mg_buf body = {0};
  mg_buf_printf(&body, "{\"bytes\": %llu, \"sha256\": \"%s\"}\n", (unsigned long long)conn->body_size, hex);
  answer_bytes_of(conn, 200, "application/json", &body);
  mg_buf_free(&body);
}

static void append_json(struct mg_buf *out, struct mg_str text)
{
  mg_buf_append(out, "\"", 1);
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c < 0x20 || c >= 0x7f) /* bytes beyond ASCII are read as ISO-8859-1 */
      mg_buf_printf(out, "\\u%04x", c);
    else
      mg_buf_printf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
  }
  mg_buf_append(out, "\"", 1);
}

static struct mg_str trim(const char *from, const char *to)
{
  while (from < to && (*from == ' ' || *from == '\t')) from++;
  while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r')) to--;
  return mg_str(from, (size_t)(to - from));
}

/* An array of [name, value]: order and repetition are what one wants to see. */
static void answer_headers(struct origin_conn *conn)
{
  struct mg_buf body = {0};
  const char *line = memchr(conn->head.ptr, '\n', conn->head.len), *end = conn->head.ptr + conn->head.len;
  for (line++; line < end; line++) {
    const char *next = memchr(line, '\n', (size_t)(end - line));
    const char *colon = next ? memchr(line, ':', (size_t)(next - line)) : NULL;
    if (!colon) break;
    mg_buf_append(&body, body.len ? ",\n [" : "[[", body.len ? 4 : 2);
    append_json(&body, trim(line, colon));
    mg_buf_append(&body, ", ", 2);
    append_json(&body, trim(colon + 1, next));
    mg_buf_append(&body, "]", 1);
    line = next;
  }
  mg_buf_printf(&body, body.len ? "]\n" : "[]\n");
  answer_bytes_of(conn, 200, "application/json", &body);
  mg_buf_free(&body);
}

static void append_event(struct origin_conn *conn)
{
  char event[64];
  unsigned number = ++conn->events_sent;
  int len = snprintf(event, sizeof event, "id: %u\ndata: event %u\n\n", number, number);
  bool chunked = conn->framing == ORIGIN_CHUNKED;
  mg_buf_printf(&conn->out, chunked ? "%x\r\n%s\r\n" : "%.0x%s", (unsigned)(chunked ? len : 0), event);
}

static void answer_events(struct origin_conn *conn)
{
  write_head(conn, 200, "text/event-stream", ORIGIN_CHUNKED, 0);
  if (is_head_request(conn)) return;
  conn->events_left = (unsigned)conn->number;
  conn->events_sent = 0;
  origin_wait(conn, 0);
}

static void answer_echo(struct origin_conn *conn)
{
  write_head(conn, 200, "text/plain; charset=utf-8", ORIGIN_LENGTH, conn->head.len + conn->body.len);
  if (is_head_request(conn)) return;
  mg_buf_append(&conn->out, conn->head.ptr, conn->head.len);
  mg_buf_append(&conn->out, conn->body.ptr, conn->body.len);
}

static const struct origin_path paths[] = {
    {"/bytes/", 0, INT64_MAX, answer_bytes, false}, {"/chunked/", 0, INT64_MAX, answer_chunked, false},
    {"/close/", 0, INT64_MAX, answer_close, false}, {"/delay/", 0, 600000, answer_delay, false},
    {"/status/", 200, 599, answer_status, false},   {"/sse/", 1, 1000000, answer_events, false},
    {"/upload", 0, 0, answer_upload, true},         {"/headers", 0, 0, answer_headers, false},
};

static bool read_number(struct mg_str text, const struct origin_path *path, uint64_t *number)
{
  uint64_t sum = 0;
  if (!text.len || text.len > 19) return false; /* 19 digits fit */
  for (size_t i = 0; i < text.len; i++) {
    if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
    sum = sum * 10 + (uint64_t)(text.ptr[i] - '0');
  }
  *number = sum;
  return sum >= path->number_min && sum <= path->number_max;
}

bool origin_path_find(struct origin_conn *conn)
{
  const char *query = memchr(conn->target.ptr, '?', conn->target.len);
  struct mg_str path = mg_str(conn->target.ptr, query ? (size_t)(query - conn->target.ptr) : conn->target.len);
  conn->path = NULL;
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    size_t len = strlen(paths[i].prefix);
    bool numbered = paths[i].number_max > 0;
    if (path.len < len || memcmp(path.ptr, paths[i].prefix, len) != 0 || (!numbered && path.len > len)) continue;
    if (numbered && !read_number(mg_str(path.ptr + len, path.len - len), &paths[i], &conn->number)) return false;
    conn->path = &paths[i];
    break;
  }
  if (!conn->path || !conn->path->hashes) return true;
  if (!conn->hash) conn->hash = EVP_MD_CTX_new();
  MG_ASSERT(conn->hash && EVP_DigestInit_ex(conn->hash, EVP_sha256(), NULL) == 1);
  return true;
}

bool origin_body_take(struct origin_conn *conn, const char *bytes, size_t len)
{
  conn->body_size += len;
  if (conn->path && conn->path->hashes) MG_ASSERT(EVP_DigestUpdate(conn->hash, bytes, len) == 1);
  if (conn->path) return true;
  if (conn->body_size > ORIGIN_ECHO_BYTES_MAX) return false;
  mg_buf_append(&conn->body, bytes, len);
  return true;
}

void origin_answer(struct origin_conn *conn)
{
  if (conn->path)
    conn->path->answer(conn);
  else
    answer_echo(conn);
}

void origin_answer_more(struct origin_conn *conn)
{
  if (!conn->events_left) {
    char text[48];
    snprintf(text, sizeof text, "waited %llu ms", (unsigned long long)conn->number);
    origin_answer_text(conn, 200, text);
  } else {
    append_event(conn);
    if (--conn->events_left)
      origin_wait(conn, 100);
    else if (conn->framing == ORIGIN_CHUNKED)
      mg_buf_append(&conn->out, "0\r\n\r\n", 5);
  }
  origin_send(conn);
}
