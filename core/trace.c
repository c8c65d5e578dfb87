/* trace.c - reading and making traceparent.
 * Owns: nothing.   May call: mem.   Never: allocate.   Thread: any. */
#include "trace.h"

#include <stdio.h>

enum { VERSION_LEN = 2, FLAGS_LEN = 2 };

/* Takes len lower-case hex digits off the front of rest. */
static bool take(struct mg_str *rest, size_t len, struct mg_str *part)
{
  if (rest->len < len) return false;
  for (size_t i = 0; i < len; i++) {
    char c = rest->ptr[i];
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  *part = mg_str(rest->ptr, len);
  *rest = mg_str(rest->ptr + len, rest->len - len);
  return true;
}

static bool take_dash(struct mg_str *rest)
{
  if (!rest->len || rest->ptr[0] != '-') return false;
  *rest = mg_str(rest->ptr + 1, rest->len - 1);
  return true;
}

static bool all(struct mg_str text, char c)
{
  for (size_t i = 0; i < text.len; i++)
    if (text.ptr[i] != c) return false;
  return true;
}

bool mg_trace_parse(struct mg_str value, struct mg_trace *trace)
{
  struct mg_str version;
  if (!take(&value, VERSION_LEN, &version) || all(version, 'f') || !take_dash(&value)) return false;
  if (!take(&value, MG_TRACE_ID_LEN, &trace->id) || all(trace->id, '0') || !take_dash(&value)) return false;
  if (!take(&value, MG_TRACE_PARENT_LEN, &trace->parent) || all(trace->parent, '0') || !take_dash(&value)) return false;
  if (!take(&value, FLAGS_LEN, &trace->flags)) return false;
  return value.len == 0 || (!all(version, '0') && value.ptr[0] == '-');
}

static uint64_t rotate(uint64_t value, int by)
{
  return value << by | value >> (64 - by);
}

static uint64_t next(struct mg_trace_source *source)
{
  uint64_t a = source->state[0], b = source->state[1], result = a + b;
  b ^= a;
  source->state[0] = rotate(a, 24) ^ b ^ b << 16;
  source->state[1] = rotate(b, 37);
  return result ? result : 1; /* an id of zeros is none */
}

void mg_trace_make(struct mg_trace_source *source, bool sampled, char out[MG_TRACEPARENT_LEN])
{
  char text[MG_TRACEPARENT_LEN + 1];
  unsigned long long high = next(source), low = next(source), parent = next(source);
  snprintf(text, sizeof text, "00-%016llx%016llx-%016llx-%02x", high, low, parent, sampled);
  memcpy(out, text, MG_TRACEPARENT_LEN);
}
