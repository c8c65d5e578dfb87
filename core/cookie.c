/* cookie.c - pairs of Cookie lines.
 * Owns: nothing.   May call: headers, mem.   Never: decode a value.   Thread: any. */
#include "cookie.h"

#include "err.h"

/* Takes what stands before the next ';' off a line, without the blanks around it. */
static bool next_part(struct mg_str *rest, struct mg_str *part)
{
  if (!rest->len) return false;
  const char *stop = memchr(rest->ptr, ';', rest->len);
  size_t len = stop ? (size_t)(stop - rest->ptr) : rest->len;
  *part = mg_trim(mg_str(rest->ptr, len));
  size_t taken = len + (stop != NULL);
  *rest = mg_str(rest->ptr + taken, rest->len - taken);
  return true;
}

static bool split_pair(struct mg_str part, struct mg_str *name, struct mg_str *value)
{
  const char *equals = memchr(part.ptr, '=', part.len);
  if (!equals) return false;
  *name = mg_str(part.ptr, (size_t)(equals - part.ptr));
  *value = mg_str(equals + 1, part.len - name->len - 1);
  return true;
}

bool mg_cookie_next(struct mg_str *rest, struct mg_str *name, struct mg_str *value)
{
  struct mg_str part;
  while (next_part(rest, &part))
    if (split_pair(part, name, value)) return true;
  return false;
}

bool mg_cookie_get(const struct mg_headers *headers, struct mg_str name, struct mg_str *value)
{
  unsigned from = 0;
  const struct mg_header *line;
  struct mg_str found;
  while ((line = mg_headers_next(headers, MG_STR("cookie"), &from))) {
    struct mg_str rest = mg_str(line->value, line->value_len);
    while (mg_cookie_next(&rest, &found, value))
      if (mg_str_equal(found, name)) return true;
  }
  return false;
}

bool mg_cookie_name_ok(struct mg_str name)
{
  for (size_t i = 0; i < name.len; i++) {
    unsigned char c = (unsigned char)name.ptr[i];
    if (c <= ' ' || c == 0x7f || c == '=' || c == ';' || c == ',') return false;
  }
  return name.len > 0;
}

bool mg_cookie_value_ok(struct mg_str value)
{
  return mg_header_value_ok(value) && !memchr(value.ptr, ';', value.len);
}

static size_t append(char *out, size_t len, struct mg_str text)
{
  memcpy(out + len, text.ptr, text.len);
  return len + text.len;
}

/* Writes a line's parts into out without the pairs of that name, but with value in the place of the first (*placed
 * tells whether it has found one). Returns the length; out has room for the line and one pair. */
static size_t rewrite(struct mg_str rest, char *out, struct mg_str name, const struct mg_str *value, bool *placed)
{
  struct mg_str part, found, old;
  size_t len = 0;
  while (next_part(&rest, &part)) {
    bool ours = split_pair(part, &found, &old) && mg_str_equal(found, name);
    if (!part.len || (ours && (!value || *placed))) continue;
    if (len) len = append(out, len, MG_STR("; "));
    if (ours) {
      *placed = true;
      len = append(out, append(out, append(out, len, name), MG_STR("=")), *value);
    } else {
      len = append(out, len, part);
    }
  }
  return len;
}

static int add_line(struct mg_headers *list, struct mg_str name, struct mg_str value)
{
  char *out = mg_arena_alloc(list->arena, name.len + 1 + value.len);
  if (!out) return MG_ENOMEM;
  size_t len = append(out, append(out, append(out, 0, name), MG_STR("=")), value);
  return mg_headers_push(list, MG_STR("cookie"), mg_str(out, len), MG_H_OTHER);
}

int mg_cookie_set(struct mg_headers *list, struct mg_str name, const struct mg_str *value)
{
  struct mg_header *last = NULL;
  bool placed = false;
  unsigned from = 0;
  while (mg_headers_next(list, MG_STR("cookie"), &from)) {
    struct mg_header *line = &list->items[from - 1];
    size_t room =
        line->value_len * 2u + name.len + (value ? value->len : 0) + 5; /* "a;b" grows by a blank for each ';' */
    char *out = mg_arena_alloc(list->arena, room);
    if (!out) return MG_ENOMEM;
    size_t len = rewrite(mg_str(line->value, line->value_len), out, name, value, &placed);
    line->value = out;
    line->value_len = (uint32_t)len;
    line->flags &= (uint8_t)~MG_HEADER_RAW;
    if (len)
      last = line;
    else
      line->flags |= MG_HEADER_GONE;
  }
  if (!value || placed) return 0;
  if (!last) return add_line(list, name, *value);
  char *out = (char *)last->value; /* ours since just now, with room for one more pair */
  size_t len = append(out, last->value_len, MG_STR("; "));
  last->value_len = (uint32_t)append(out, append(out, append(out, len, name), MG_STR("=")), *value);
  return 0;
}
