/* json.c - writing JSON into a buffer.
 * Owns: nothing.   May call: mem.   Never: parse.   Thread: any. */
#include "json.h"

void mg_json_string(struct mg_buf *out, struct mg_str text)
{
  mg_buf_append(out, "\"", 1);
  size_t plain = 0; /* where the run of bytes that need no escape began */
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    mg_buf_append(out, text.ptr + plain, i - plain);
    plain = i + 1;
    if (c < 0x20)
      mg_buf_printf(out, "\\u%04x", c);
    else
      mg_buf_printf(out, "\\%c", c);
  }
  mg_buf_append(out, text.ptr + plain, text.len - plain);
  mg_buf_append(out, "\"", 1);
}

void mg_json_field(struct mg_buf *out, const char *name, const char *text)
{
  mg_buf_printf(out, "\"%s\":", name);
  if (text)
    mg_json_string(out, mg_str(text, strlen(text)));
  else
    mg_buf_append(out, "null", 4);
  mg_buf_append(out, ",", 1);
}

void mg_json_number(struct mg_buf *out, const char *name, uint64_t number)
{
  mg_buf_printf(out, "\"%s\":%llu,", name, (unsigned long long)number);
}

void mg_json_close(struct mg_buf *out, const char *close)
{
  if (out->len && out->ptr[out->len - 1] == ',') out->len--;
  mg_buf_append(out, close, strlen(close));
}
