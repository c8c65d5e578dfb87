/* bundle.c - reading the sections of bundle.h.
 * Owns: nothing; every result is borrowed from the bundle.   May call: mem.
 * Never: trust a length it has not compared.   Thread: any. */
#include "bundle.h"

#include <string.h>

static const struct mg_str magic = {"moongate-bundle 1\n", sizeof "moongate-bundle 1\n" - 1};

bool mg_bundle_open(struct mg_bundle_cursor *cursor, struct mg_str bytes)
{
  if (bytes.len < magic.len || memcmp(bytes.ptr, magic.ptr, magic.len) != 0) return false;
  *cursor = (struct mg_bundle_cursor){bytes.ptr + magic.len, bytes.ptr + bytes.len};
  return true;
}

/* Splits "<name> <length>"; a name may hold blanks, the length is what follows the last one. */
static bool read_title(struct mg_str line, struct mg_str *name, size_t *length)
{
  const char *blank = memrchr(line.ptr, ' ', line.len);
  if (!blank || blank == line.ptr) return false;
  const char *digit = blank + 1, *end = line.ptr + line.len;
  if (digit == end) return false;
  size_t sum = 0;
  for (; digit < end; digit++) {
    unsigned value = (unsigned)(*digit - '0');
    if (value > 9 || __builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, value, &sum)) return false;
  }
  *name = mg_str(line.ptr, (size_t)(blank - line.ptr));
  *length = sum;
  return true;
}

bool mg_bundle_next(struct mg_bundle_cursor *cursor, struct mg_str *name, struct mg_str *bytes, bool *whole)
{
  *whole = false;
  size_t left = (size_t)(cursor->end - cursor->at), length;
  const char *line_end = memchr(cursor->at, '\n', left);
  if (!line_end || !read_title(mg_str(cursor->at, (size_t)(line_end - cursor->at)), name, &length)) return false;
  const char *body = line_end + 1;
  left = (size_t)(cursor->end - body);
  if (left <= length || body[length] != '\n') return false;
  if (mg_str_equal(*name, MG_STR("end"))) {
    *whole = length == 0 && left == 1;
    return false; /* the cursor stays, so that asking again answers the same */
  }
  *bytes = mg_str(body, length);
  *whole = true;
  cursor->at = body + length + 1;
  return true;
}

struct mg_str mg_bundle_section(struct mg_str bundle, struct mg_str name)
{
  struct mg_bundle_cursor cursor;
  struct mg_str found, bytes;
  bool whole;
  if (!mg_bundle_open(&cursor, bundle)) return mg_str(NULL, 0);
  while (mg_bundle_next(&cursor, &found, &bytes, &whole))
    if (mg_str_equal(found, name)) return bytes;
  return mg_str(NULL, 0);
}
