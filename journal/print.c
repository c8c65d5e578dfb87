/* print.c - exchanges in words.
 * Owns: nothing.   May call: assemble (its struct), json.   Never: a file.   Thread: any. */
#include "print.h"

#include <time.h>

#include "json.h"

enum { BRIEF_LINE_MAX = 512 };

static const char *const levels[] = {"NONE", "METADATA", "HEADERS", "FULL"};
static const char *const sources[] = {"upstream", "filter", "gateway", "?"};

void mg_print_time(uint64_t us, struct mg_buf *out)
{
  char text[32];
  time_t seconds = (time_t)(us / 1000000);
  struct tm utc;
  gmtime_r(&seconds, &utc);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  mg_buf_printf(out, "%s.%06uZ", text, (unsigned)(us % 1000000));
}

static bool is_utf8(struct mg_str text)
{
  for (size_t i = 0; i < text.len;) {
    unsigned char lead = (unsigned char)text.ptr[i++];
    unsigned more = lead < 0x80                   ? 0
                    : lead >= 0xc2 && lead < 0xe0 ? 1
                    : (lead & 0xf0) == 0xe0       ? 2
                    : lead >= 0xf0 && lead < 0xf5 ? 3
                                                  : 9;
    if (more == 9 || more > text.len - i) return false;
    for (; more; more--)
      if (((unsigned char)text.ptr[i++] & 0xc0) != 0x80) return false;
  }
  return true;
}

/* Bytes that are no UTF-8 are ISO-8859-1, as header values are (RFC 9110, 5.5). */
static void json_text(struct mg_buf *out, struct mg_str text)
{
  struct mg_buf wide = {0};
  if (is_utf8(text)) {
    mg_json_string(out, text);
    return;
  }
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c >= 0x80) {
      const char two[2] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
      mg_buf_append(&wide, two, 2);
    } else {
      mg_buf_append(&wide, text.ptr + i, 1);
    }
  }
  mg_json_string(out, mg_str(wide.ptr, wide.len));
  mg_buf_free(&wide);
}

static void field(struct mg_buf *out, const char *name, struct mg_str text)
{
  if (!text.len) return;
  mg_buf_printf(out, "\"%s\":", name);
  json_text(out, text);
  mg_buf_append(out, ",", 1);
}

static void base64(struct mg_buf *out, const struct mg_buf *bytes)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes->len; i += 3) {
    uint32_t group = 0;
    size_t count = bytes->len - i < 3 ? bytes->len - i : 3;
    for (size_t k = 0; k < 3; k++) group = group << 8 | (k < count ? (unsigned char)bytes->ptr[i + k] : 0);
    char four[4] = {digits[group >> 18], digits[group >> 12 & 63], digits[group >> 6 & 63], digits[group & 63]};
    if (count < 3) four[3] = '=';
    if (count < 2) four[2] = '=';
    mg_buf_append(out, four, 4);
  }
}

static void body_fields(struct mg_buf *out, const struct mg_found_exchange *ex, int side)
{
  const struct mg_buf *body = &ex->body[side];
  struct mg_str text = mg_str(body->ptr, body->len);
  mg_json_number(out, "body_bytes", ex->body_bytes[side]);
  if (ex->body_recorded[side]) mg_json_number(out, "body_recorded", ex->body_recorded[side]);
  if (ex->crcs >> side & 1) mg_buf_printf(out, "\"body_crc32c\":\"%08x\",", ex->crc[side]);
  if (ex->body_damaged[side]) mg_buf_printf(out, "\"body_damaged\":true,");
  if (!body->len) return;
  if (is_utf8(text) && !memchr(text.ptr, '\0', text.len)) {
    mg_buf_printf(out, "\"body\":");
    mg_json_string(out, text);
  } else {
    mg_buf_printf(out, "\"body_base64\":\"");
    base64(out, body);
    mg_buf_append(out, "\"", 1);
  }
  mg_buf_append(out, ",", 1);
}

static struct mg_str name_of(struct mg_str line, struct mg_str *value)
{
  const char *colon = line.len ? memchr(line.ptr, ':', line.len) : NULL;
  size_t len = colon ? (size_t)(colon - line.ptr) : line.len;
  size_t from = colon ? len + 1 : len;
  while (from < line.len && (line.ptr[from] == ' ' || line.ptr[from] == '\t')) from++;
  *value = mg_str(line.ptr + from, line.len - from);
  return mg_str(line.ptr, len);
}

static void header_fields(struct mg_buf *out, const struct mg_text_list *list)
{
  if (!list->count) return;
  mg_buf_printf(out, "\"headers\":[");
  for (uint32_t i = 0; i < list->count; i++) {
    struct mg_str value, name = name_of(list->items[i], &value);
    mg_buf_append(out, "[", 1);
    json_text(out, name);
    mg_buf_append(out, ",", 1);
    json_text(out, value);
    mg_buf_append(out, "],", 2);
  }
  mg_json_close(out, "]");
  mg_buf_append(out, ",", 1);
}

static void end_object(struct mg_buf *out)
{
  mg_json_close(out, "}");
  mg_buf_append(out, ",", 1);
}

static void end_fields(struct mg_buf *out, const struct mg_found_exchange *ex)
{
  if (ex->target.len) {
    mg_buf_printf(out, "\"upstream\":{");
    field(out, "target", ex->target);
    field(out, "line", ex->upstream_line);
    field(out, "status_line", ex->upstream_status);
    mg_json_number(out, "tries", ex->tries);
    if (ex->sent_us) mg_json_number(out, "sent_us", ex->sent_us - 1);
    if (ex->first_byte_us) mg_json_number(out, "first_byte_us", ex->first_byte_us - 1);
    mg_buf_printf(out, "\"request\":{");
    header_fields(out, &ex->headers[MG_UPSTREAM_REQUEST]);
    end_object(out);
    mg_buf_printf(out, "\"response\":{");
    header_fields(out, &ex->headers[MG_UPSTREAM_RESPONSE]);
    end_object(out);
    end_object(out);
  }
  mg_buf_printf(out, "\"response\":{\"level\":\"%s\",", levels[ex->response_level & 3]);
  field(out, "line", ex->client_status);
  mg_json_number(out, "head_bytes", ex->head_bytes[1]);
  body_fields(out, ex, 1);
  mg_buf_printf(out, "\"complete\":%s,", ex->flags & MG_END_RESPONSE_WHOLE ? "true" : "false");
  header_fields(out, &ex->headers[MG_CLIENT_RESPONSE]);
  end_object(out);
}

static void attribute_fields(struct mg_buf *out, const struct mg_text_list *list)
{
  if (!list->count) return;
  mg_buf_printf(out, "\"attributes\":{");
  for (uint32_t i = 0; i + 1 < list->count; i += 2) {
    json_text(out, list->items[i]);
    mg_buf_append(out, ":", 1);
    json_text(out, list->items[i + 1]);
    mg_buf_append(out, ",", 1);
  }
  end_object(out);
}

void mg_print_json(const struct mg_found_exchange *ex, struct mg_buf *out)
{
  mg_buf_printf(out, "{\"id\":\"%s\",\"time\":\"", ex->id);
  mg_print_time(ex->start_us, out);
  mg_buf_printf(out, "\",\"shard\":%u,\"epoch\":%u,\"number\":%llu,", ex->shard, ex->epoch,
                (unsigned long long)ex->number);
  field(out, "route", ex->route);
  field(out, "generation", ex->generation);
  field(out, "filters", ex->filters);
  field(out, "client", ex->client);
  field(out, "client_source", ex->client_source);
  if (ex->ended) {
    mg_json_number(out, "status", ex->status);
    mg_json_number(out, "duration_us", ex->end_us - ex->start_us);
    mg_buf_printf(out, "\"source\":\"%s\",", sources[ex->flags & 3]);
    if (ex->flags & MG_END_TUNNEL) mg_buf_printf(out, "\"tunnel\":true,");
    field(out, "error", ex->error);
  } else {
    mg_buf_printf(out, "\"incomplete\":true,");
  }
  mg_buf_printf(out, "\"request\":{\"level\":\"%s\",", levels[ex->request_level & 3]);
  field(out, "line", ex->line);
  if (ex->ended) mg_json_number(out, "head_bytes", ex->head_bytes[0]);
  body_fields(out, ex, 0);
  header_fields(out, &ex->headers[MG_CLIENT_REQUEST]);
  end_object(out);
  if (ex->ended) end_fields(out, ex);
  attribute_fields(out, &ex->attributes);
  mg_json_close(out, "}");
}

void mg_print_json_brief(const struct mg_found_exchange *ex, struct mg_buf *out)
{
  struct mg_str line = ex->line;
  bool cut = line.len > BRIEF_LINE_MAX;
  if (cut) line.len = BRIEF_LINE_MAX;
  mg_buf_printf(out, "{\"id\":\"%s\",\"time\":\"", ex->id);
  mg_print_time(ex->start_us, out);
  mg_buf_printf(out, "\",");
  field(out, "route", ex->route);
  field(out, "client", ex->client);
  field(out, "line", line);
  if (cut) mg_buf_printf(out, "\"line_cut\":true,");
  if (ex->ended) {
    mg_json_number(out, "status", ex->status);
    mg_json_number(out, "duration_us", ex->end_us - ex->start_us);
    mg_buf_printf(out, "\"source\":\"%s\",", sources[ex->flags & 3]);
    field(out, "error", ex->error);
  } else {
    mg_buf_printf(out, "\"incomplete\":true,");
  }
  mg_json_close(out, "}");
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static void plain(struct mg_buf *out, struct mg_str text)
{
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c < 0x20 || c == 0x7f)
      mg_buf_printf(out, "\\x%02x", c); /* nothing recorded may move a terminal's cursor */
    else
      mg_buf_append(out, text.ptr + i, 1);
  }
}

static void text_message(struct mg_buf *out, const char *mark, struct mg_str line, const struct mg_text_list *headers)
{
  if (line.len) {
    mg_buf_printf(out, "%s ", mark);
    plain(out, line);
    mg_buf_append(out, "\n", 1);
  }
  for (uint32_t i = 0; i < headers->count; i++) {
    mg_buf_printf(out, "%s ", mark);
    plain(out, headers->items[i]);
    mg_buf_append(out, "\n", 1);
  }
}

static void text_body(struct mg_buf *out, const struct mg_found_exchange *ex, int side)
{
  const struct mg_buf *body = &ex->body[side];
  if (!body->len) return;
  mg_buf_printf(out, "\n");
  for (size_t i = 0; i < body->len; i++) {
    unsigned char c = (unsigned char)body->ptr[i];
    if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
      mg_buf_printf(out, "\\x%02x", c);
    else
      mg_buf_append(out, body->ptr + i, 1);
  }
  mg_buf_printf(out, "\n");
  if (ex->body_damaged[side]) mg_buf_printf(out, "(this body's checksum is another)\n");
  mg_buf_printf(out, "\n");
}

void mg_print_text(const struct mg_found_exchange *ex, struct mg_buf *out)
{
  mg_buf_printf(out, "exchange   %s\nstarted    ", ex->id);
  mg_print_time(ex->start_us, out);
  mg_buf_printf(out, "\nclient     %.*s (%.*s)\nroute      %.*s, generation %.*s\n", (int)ex->client.len,
                ex->client.ptr, (int)ex->client_source.len, ex->client_source.ptr, (int)ex->route.len, ex->route.ptr,
                (int)ex->generation.len, ex->generation.ptr);
  if (ex->filters.len) mg_buf_printf(out, "filters    %.*s\n", (int)ex->filters.len, ex->filters.ptr);
  if (ex->ended)
    mg_buf_printf(out, "ended      status %u by the %s after %.3f ms\n", ex->status, sources[ex->flags & 3],
                  (double)(ex->end_us - ex->start_us) / 1000);
  else
    mg_buf_printf(out, "incomplete it has no end in the journal\n");
  if (ex->error.len) mg_buf_printf(out, "error      %.*s\n", (int)ex->error.len, ex->error.ptr);
  if (ex->target.len)
    mg_buf_printf(out, "upstream   %.*s, tries: %llu\n", (int)ex->target.len, ex->target.ptr,
                  (unsigned long long)ex->tries);
  for (uint32_t i = 0; i + 1 < ex->attributes.count; i += 2) {
    mg_buf_printf(out, "%s", i ? "           " : "attributes ");
    plain(out, ex->attributes.items[i]);
    mg_buf_append(out, " = ", 3);
    plain(out, ex->attributes.items[i + 1]);
    mg_buf_append(out, "\n", 1);
  }
  mg_buf_printf(out, "bytes      request %llu + %llu, response %llu + %llu\n\n", (unsigned long long)ex->head_bytes[0],
                (unsigned long long)ex->body_bytes[0], (unsigned long long)ex->head_bytes[1],
                (unsigned long long)ex->body_bytes[1]);
  text_message(out, ">", ex->line, &ex->headers[MG_CLIENT_REQUEST]);
  text_body(out, ex, 0);
  if (ex->target.len) text_message(out, ">>", ex->upstream_line, &ex->headers[MG_UPSTREAM_REQUEST]);
  if (ex->target.len) text_message(out, "<<", ex->upstream_status, &ex->headers[MG_UPSTREAM_RESPONSE]);
  text_message(out, "<", ex->client_status, &ex->headers[MG_CLIENT_RESPONSE]);
  text_body(out, ex, 1);
}

void mg_print_brief(const struct mg_found_exchange *ex, struct mg_buf *out)
{
  mg_print_time(ex->start_us, out);
  if (ex->ended)
    mg_buf_printf(out, " %s %3u %9.3f ms ", ex->id, ex->status, (double)(ex->end_us - ex->start_us) / 1000);
  else
    mg_buf_printf(out, " %s  -  incomplete    ", ex->id);
  plain(out, ex->route.len ? ex->route : MG_STR("-"));
  mg_buf_append(out, " ", 1);
  plain(out, ex->line.len ? ex->line : MG_STR("-"));
}
