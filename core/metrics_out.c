/* metrics_out.c - names, labels and numbers as text. A scrape of a thousand routes is 30,000 lines: no printf on their
 * way.
 * Owns: nothing.   May call: mem.   Never: know a metric.   Thread: any. */
#include "metrics_out.h"

#include <string.h>

static void text(struct mg_buf *out, const char *bytes)
{
  mg_buf_append(out, bytes, strlen(bytes));
}

static void number(struct mg_buf *out, uint64_t value)
{
  char digits[20];
  size_t at = sizeof digits;
  do digits[--at] = (char)('0' + value % 10);
  while (value /= 10);
  mg_buf_append(out, digits + at, sizeof digits - at);
}

void mg_family_begin(struct mg_buf *out, enum mg_metrics_format format, const struct mg_family *family)
{
  static const char *const types[] = {[MG_GAUGE] = "gauge", [MG_COUNTER] = "counter", [MG_HISTOGRAM] = "histogram"};
  const char *total = family->type == MG_COUNTER && format == MG_METRICS_TEXT ? "_total" : "";
  mg_buf_printf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", family->name, total, family->help, family->name, total,
                types[family->type]);
}

static void sample_name(struct mg_buf *out, const struct mg_family *family, const char *suffix, struct mg_str labels)
{
  text(out, family->name);
  text(out, family->type == MG_COUNTER ? "_total" : suffix);
  if (labels.len) {
    mg_buf_append(out, "{", 1);
    mg_buf_append(out, labels.ptr, labels.len);
    mg_buf_append(out, "}", 1);
  }
  mg_buf_append(out, " ", 1);
}

void mg_sample(struct mg_buf *out, const struct mg_family *family, const char *suffix, struct mg_str labels,
               uint64_t value)
{
  sample_name(out, family, suffix, labels);
  number(out, value);
  mg_buf_append(out, "\n", 1);
}

void mg_sample_real(struct mg_buf *out, const struct mg_family *family, struct mg_str labels, double value)
{
  sample_name(out, family, family->type == MG_HISTOGRAM ? "_sum" : "", labels);
  mg_buf_printf(out, "%.6f\n", value);
}

void mg_label(struct mg_buf *labels, const char *name, struct mg_str value)
{
  if (labels->len) mg_buf_append(labels, ",", 1);
  text(labels, name);
  mg_buf_append(labels, "=\"", 2);
  for (size_t i = 0; i < value.len; i++) {
    char c = value.ptr[i];
    if (c == '\n')
      mg_buf_append(labels, "\\n", 2);
    else if (c == '"' || c == '\\')
      mg_buf_append(labels, (const char[]){'\\', c}, 2);
    else
      mg_buf_append(labels, &c, 1);
  }
  mg_buf_append(labels, "\"", 1);
}
