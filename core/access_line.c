/* access_line.c - an exchange as one line: the combined format that every tool reads, or JSON.
 * Owns: nothing.   May call: mem, json, exchange (reading).   Never: let a byte of a request break a line.
 * Thread: the loop thread. */
#include <stdio.h>
#include <time.h>

#include "access_log.h"
#include "exchange.h"
#include "exchange_trace.h"
#include "json.h"

static struct mg_str header_of(const struct mg_exchange *ex, struct mg_str name)
{
  unsigned from = 0;
  const struct mg_header *line = ex->raw_target.len ? mg_headers_next(&ex->request.headers, name, &from) : NULL;
  return line ? mg_str(line->value, line->value_len) : mg_str(NULL, 0);
}

static struct mg_str client_of(const struct mg_exchange *ex)
{
  const struct mg_address *address =
      ex->client_address.text_len || !ex->client ? &ex->client_address : &ex->client->peer;
  return mg_str(address->text, address->text_len);
}

static struct tm time_of(const struct mg_exchange *ex, unsigned *ms)
{
  uint64_t wall_ms = ex->gateway->wall_offset_ms + ex->began_ns / 1000000;
  time_t seconds = (time_t)(wall_ms / 1000);
  struct tm utc;
  gmtime_r(&seconds, &utc);
  *ms = (unsigned)(wall_ms % 1000);
  return utc;
}

/* Quotes, backslashes and everything that is not printable as \xNN, as nginx and Apache do; "-" for nothing. */
static void escaped(struct mg_buf *out, struct mg_str text)
{
  if (!text.len) mg_buf_append(out, "-", 1);
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
      mg_buf_printf(out, "\\x%02X", c);
    else
      mg_buf_append(out, &text.ptr[i], 1);
  }
}

/* Behind what every tool knows of a line: ` id=ID trace=ID`. */
static void ids(struct mg_buf *out, struct mg_exchange *ex)
{
  struct mg_trace trace;
  if (!mg_exchange_trace(ex, &trace)) trace.id = MG_STR("-");
  mg_buf_printf(out, " id=%.26s trace=%.*s", mg_exchange_id_text(ex).ptr, (int)trace.id.len, trace.id.ptr);
}

static void combined(struct mg_buf *out, struct mg_exchange *ex)
{
  char when[40];
  unsigned ms;
  struct tm utc = time_of(ex, &ms);
  strftime(when, sizeof when, "%d/%b/%Y:%H:%M:%S +0000", &utc);
  escaped(out, client_of(ex));
  mg_buf_printf(out, " - - [%s] \"", when);
  if (ex->raw_target.len) {
    escaped(out, ex->request.method);
    mg_buf_append(out, " ", 1);
    escaped(out, ex->raw_target);
    mg_buf_printf(out, " HTTP/1.%u", ex->request.minor);
  } else {
    mg_buf_append(out, "-", 1);
  }
  mg_buf_printf(out, "\" %u %llu \"", ex->head_sent ? ex->response.status : 499u,
                (unsigned long long)ex->response_bytes);
  escaped(out, header_of(ex, MG_STR("referer")));
  mg_buf_append(out, "\" \"", 3);
  escaped(out, header_of(ex, MG_STR("user-agent")));
  mg_buf_append(out, "\"", 1);
  if (ex->gateway->settings->access_log_ids) ids(out, ex);
  mg_buf_append(out, "\n", 1);
}

/* Bytes that are not ASCII are read as ISO-8859-1: whatever a client sends, the line is valid. */
static void member(struct mg_buf *out, const char *name, struct mg_str text)
{
  if (!text.len) return;
  mg_buf_printf(out, "\"%s\":\"", name);
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
      mg_buf_printf(out, "\\u%04x", c);
    else
      mg_buf_append(out, &text.ptr[i], 1);
  }
  mg_buf_append(out, "\",", 2);
}

static void json(struct mg_buf *out, struct mg_exchange *ex)
{
  static const char *const sources[] = {
      [MG_FROM_UPSTREAM] = "upstream", [MG_FROM_FILTER] = "filter", [MG_FROM_GATEWAY] = "gateway"};
  char when[32];
  unsigned ms;
  struct tm utc = time_of(ex, &ms);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
  mg_buf_printf(out, "{\"time\":\"%s.%03uZ\",", when, ms);
  member(out, "id", mg_exchange_id_text(ex));
  struct mg_trace trace;
  if (mg_exchange_trace(ex, &trace)) {
    member(out, "trace_id", trace.id);
    member(out, "parent_id", trace.parent);
  }
  member(out, "client", client_of(ex));
  if (ex->raw_target.len) {
    member(out, "method", ex->request.method);
    member(out, "target", ex->raw_target);
    member(out, "host", ex->request.host);
  }
  if (ex->head_sent) mg_json_number(out, "status", ex->response.status);
  if (ex->head_sent) mg_json_field(out, "source", sources[ex->source]);
  if (ex->err) mg_json_field(out, "error", mg_err_word(ex->err));
  if (ex->plan) member(out, "route", ex->plans[0]->id);
  if (ex->member) member(out, "upstream", mg_str(ex->member->key, strlen(ex->member->key)));
  mg_json_number(out, "tries", ex->tries);
  mg_json_number(out, "request_bytes", ex->request_body.body_size);
  mg_json_number(out, "response_bytes", ex->response_bytes);
  mg_json_number(out, "duration_us", (ex->ended_ns - ex->began_ns) / 1000);
  member(out, "referer", header_of(ex, MG_STR("referer")));
  member(out, "user_agent", header_of(ex, MG_STR("user-agent")));
  mg_json_close(out, "}\n");
}

void mg_access_line(struct mg_buf *out, enum mg_access_format format, struct mg_exchange *ex)
{
  if (format == MG_ACCESS_JSON)
    json(out, ex);
  else
    combined(out, ex);
}
