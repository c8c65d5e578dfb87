/* cookie.c - pairs of Cookie lines.
 * Owns: nothing.   May call: headers.   Never: fail.   Thread: any. */
#include "cookie.h"

/* One pair of a Cookie line (RFC 6265, 4.2.1); quotes around a value belong to it. */
static bool find_cookie(struct mg_str line, struct mg_str name, struct mg_str *value)
{
  const char *at = line.ptr, *end = line.ptr + line.len;
  while (at < end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == ';')) at++;
    const char *stop = memchr(at, ';', (size_t)(end - at));
    if (!stop) stop = end;
    const char *equals = memchr(at, '=', (size_t)(stop - at));
    if (equals && mg_str_equal(mg_str(at, (size_t)(equals - at)), name)) {
      while (stop > equals + 1 && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
      *value = mg_str(equals + 1, (size_t)(stop - equals - 1));
      return true;
    }
    at = stop;
  }
  return false;
}

bool mg_cookie_get(const struct mg_headers *headers, struct mg_str name, struct mg_str *value)
{
  unsigned from = 0;
  const struct mg_header *line;
  while ((line = mg_headers_next(headers, MG_STR("cookie"), &from)))
    if (find_cookie(mg_str(line->value, line->value_len), name, value)) return true;
  return false;
}
