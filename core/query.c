/* query.c - query strings as application/x-www-form-urlencoded reads and writes them.
 * Owns: nothing.   May call: mem.   Never: change a parameter that it was not asked to.   Thread: any. */
#include "query.h"

static int hex_of(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  c = mg_lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that stands at text[*at], decoded; *at moves behind it. */
static char next_byte(struct mg_str text, size_t *at)
{
  char c = text.ptr[(*at)++];
  if (c == '+') return ' ';
  if (c != '%' || *at + 2 > text.len) return c;
  int high = hex_of(text.ptr[*at]), low = hex_of(text.ptr[*at + 1]);
  if (high < 0 || low < 0) return c;
  *at += 2;
  return (char)(high * 16 + low);
}

bool mg_query_next(struct mg_str *rest, struct mg_query_pair *pair)
{
  while (rest->len) {
    const char *stop = memchr(rest->ptr, '&', rest->len);
    struct mg_str whole = mg_str(rest->ptr, stop ? (size_t)(stop - rest->ptr) : rest->len);
    size_t taken = whole.len + (stop != NULL);
    *rest = mg_str(rest->ptr + taken, rest->len - taken);
    if (!whole.len) continue;
    const char *equals = memchr(whole.ptr, '=', whole.len);
    pair->whole = pair->name = whole;
    pair->value = mg_str(whole.ptr + whole.len, 0);
    if (equals) {
      pair->name.len = (size_t)(equals - whole.ptr);
      pair->value = mg_str(equals + 1, whole.len - pair->name.len - 1);
    }
    return true;
  }
  return false;
}

bool mg_query_word_is(struct mg_str word, struct mg_str plain)
{
  size_t at = 0, len = 0;
  for (; at < word.len; len++) {
    char c = next_byte(word, &at);
    if (len == plain.len || plain.ptr[len] != c) return false;
  }
  return len == plain.len;
}

struct mg_str mg_query_decode(struct mg_str word, struct mg_arena *arena)
{
  char *out = mg_arena_alloc(arena, word.len + 1);
  size_t at = 0, len = 0;
  if (!out) return mg_str(NULL, 0);
  while (at < word.len) out[len++] = next_byte(word, &at);
  return mg_str(out, len);
}

bool mg_query_get(struct mg_str query, struct mg_str name, struct mg_arena *arena, struct mg_str *value)
{
  struct mg_query_pair pair;
  while (mg_query_next(&query, &pair)) {
    if (!mg_query_word_is(pair.name, name)) continue;
    struct mg_str decoded = mg_query_decode(pair.value, arena);
    if (!decoded.ptr) return false;
    *value = decoded;
    return true;
  }
  return false;
}

static size_t append(char *out, size_t len, struct mg_str text)
{
  memcpy(out + len, text.ptr, text.len);
  return len + text.len;
}

/* Everything but the unreserved characters of RFC 3986, 2.3: then no reader can take a byte for a separator. */
static size_t append_encoded(char *out, size_t len, struct mg_str plain)
{
  static const bool unreserved[256] = {
      ['a' ... 'z'] = 1, ['A' ... 'Z'] = 1, ['0' ... '9'] = 1, ['-'] = 1, ['.'] = 1, ['_'] = 1, ['~'] = 1};
  for (size_t i = 0; i < plain.len; i++) {
    unsigned char c = (unsigned char)plain.ptr[i];
    if (unreserved[c]) {
      out[len++] = (char)c;
      continue;
    }
    out[len++] = '%';
    out[len++] = "0123456789ABCDEF"[c >> 4];
    out[len++] = "0123456789ABCDEF"[c & 15];
  }
  return len;
}

static size_t append_pair(char *out, size_t len, struct mg_str name, struct mg_str value)
{
  if (len) out[len++] = '&';
  len = append_encoded(out, len, name);
  out[len++] = '=';
  return append_encoded(out, len, value);
}

struct mg_str mg_query_edit(struct mg_str query, enum mg_query_op op, struct mg_str name, struct mg_str value,
                            struct mg_arena *arena)
{
  struct mg_query_pair pair;
  bool placed = false;
  size_t len = 0;
  char *out = mg_arena_alloc(arena, query.len + 3 * (name.len + value.len) + 3);
  if (!out) return mg_str(NULL, 0);
  while (mg_query_next(&query, &pair)) {
    if (op != MG_QUERY_ADD && mg_query_word_is(pair.name, name)) {
      if (op == MG_QUERY_SET && !placed) len = append_pair(out, len, name, value);
      placed = true;
      continue;
    }
    if (len) out[len++] = '&';
    len = append(out, len, pair.whole);
  }
  if (op == MG_QUERY_ADD || (op == MG_QUERY_SET && !placed)) len = append_pair(out, len, name, value);
  return mg_str(out, len);
}
