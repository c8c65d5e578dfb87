/* pattern.c - a backtracking matcher that counts its steps.
 * Owns: nothing.   May call: libc.   Never: allocate, call Lua, run longer than its budget.   Thread: any. */
#include "pattern.h"

#include <string.h>

enum {
  DEPTH_MAX = 200, /* as LuaJIT's: what it refuses is refused here */
  STEPS_BASE = 1000000,
  STEPS_PER_BYTE = 8,    /* a body of some megabytes may be walked a few times, not squared */
  STEPS_MAX = 64000000,  /* about as long as a call may last: nothing can end a search */
  SET_BYTES_PER_STEP = 8 /* a set is read anew for each character */
};

struct matcher {
  const uint8_t *subject, *subject_end;
  const uint8_t *pattern_end;
  uint64_t steps; /* left */
  int depth;
  int error;
  struct mg_pattern_found *found;
};

static const uint8_t *match(struct matcher *m, const uint8_t *s, const uint8_t *p);

static const uint8_t *fail(struct matcher *m, int error)
{
  if (!m->error) m->error = error;
  return NULL;
}

static bool spend(struct matcher *m, uint64_t steps)
{
  if (m->steps >= steps) {
    m->steps -= steps;
    return true;
  }
  m->steps = 0;
  fail(m, MG_PATTERN_BUDGET);
  return false;
}

static bool step(struct matcher *m)
{
  return spend(m, 1);
}

/* The same for reading an item: what it costs beyond a step is the length of a set. */
static bool read_item(struct matcher *m, const uint8_t *p, const uint8_t *item)
{
  return spend(m, (uint64_t)(item - p) / SET_BYTES_PER_STEP);
}

/* --- single characters ------------------------------------------------------------------------ */

static bool is_upper(unsigned c)
{
  return c - 'A' < 26;
}

static bool is_lower(unsigned c)
{
  return c - 'a' < 26;
}

static bool is_digit(unsigned c)
{
  return c - '0' < 10;
}

static bool is_graph(unsigned c)
{
  return c - 0x21 < 0x5e;
}

static bool is_alnum(unsigned c)
{
  return is_upper(c) || is_lower(c) || is_digit(c);
}

/* By ASCII, whatever the locale. */
static bool is_of_class(unsigned c, unsigned class)
{
  bool is;
  switch (class | 0x20) {
  case 'a':
    is = is_upper(c) || is_lower(c);
    break;
  case 'c':
    is = c < 0x20 || c == 0x7f;
    break;
  case 'd':
    is = is_digit(c);
    break;
  case 'g':
    is = is_graph(c);
    break;
  case 'l':
    is = is_lower(c);
    break;
  case 'p':
    is = is_graph(c) && !is_alnum(c);
    break;
  case 's':
    is = c == ' ' || c - '\t' < 5;
    break;
  case 'u':
    is = is_upper(c);
    break;
  case 'w':
    is = is_alnum(c);
    break;
  case 'x':
    is = is_digit(c) || (c | 0x20) - 'a' < 6;
    break;
  case 'z':
    is = c == 0;
    break;
  default:
    return c == class;
  }
  if (!is_upper(class) && !is_lower(class)) return c == class; /* "%\1" is not "%!" */
  return is_lower(class) ? is : !is;
}

/* Whether c is in the set from p ('[') to end (its ']'). */
static bool is_in_set(unsigned c, const uint8_t *p, const uint8_t *end)
{
  bool wanted = true;
  if (p[1] == '^') wanted = false, p++;
  while (++p < end) {
    if (*p == '%') {
      p++;
      if (is_of_class(c, *p)) return wanted;
    } else if (p[1] == '-' && p + 2 < end) {
      p += 2;
      if (p[-2] <= c && c <= *p) return wanted;
    } else if (*p == c) {
      return wanted;
    }
  }
  return !wanted;
}

/* Where the single-character item at p ends; NULL when it is malformed. */
static const uint8_t *item_end(struct matcher *m, const uint8_t *p)
{
  const uint8_t *end = m->pattern_end;
  if (*p == '%') return p + 1 < end ? p + 2 : fail(m, MG_PATTERN_ESCAPE);
  if (*p != '[') return p + 1;
  const uint8_t *set = p++;
  if (p < end && *p == '^') p++;
  do { /* a ']' in the first place stands for itself */
    if (p >= end) return fail(m, MG_PATTERN_BRACKET);
    if (*p++ == '%' && p < end) p++;
  } while (p >= end || *p != ']');
  return read_item(m, set, p) ? p + 1 : NULL;
}

static bool matches_item(struct matcher *m, const uint8_t *s, const uint8_t *p, const uint8_t *item)
{
  if (s >= m->subject_end || !step(m)) return false;
  switch (*p) {
  case '.':
    return true;
  case '%':
    return is_of_class(*s, p[1]);
  case '[':
    return read_item(m, p, item) && is_in_set(*s, p, item - 1);
  default:
    return *s == *p;
  }
}

/* --- items of more than one character --------------------------------------------------------- */

static const uint8_t *match_most(struct matcher *m, const uint8_t *s, const uint8_t *p, const uint8_t *item)
{
  const uint8_t *at = s;
  while (matches_item(m, at, p, item)) at++;
  for (; !m->error && at >= s; at--) {
    const uint8_t *end = match(m, at, item + 1);
    if (end) return end;
  }
  return NULL;
}

static const uint8_t *match_least(struct matcher *m, const uint8_t *s, const uint8_t *p, const uint8_t *item)
{
  while (!m->error) {
    const uint8_t *end = match(m, s, item + 1);
    if (end) return end;
    if (!matches_item(m, s, p, item)) break;
    s++;
  }
  return NULL;
}

/* '%bxy': from an x to the y that closes it. */
static const uint8_t *match_balanced(struct matcher *m, const uint8_t *s, const uint8_t *p)
{
  if (m->pattern_end - p < 2) return fail(m, MG_PATTERN_BALANCE);
  if (s >= m->subject_end || *s != p[0]) return NULL;
  int open = 1;
  while (++s < m->subject_end) {
    if (!step(m)) return NULL;
    if (*s == p[1]) {
      if (--open == 0) return s + 1;
    } else if (*s == p[0]) {
      open++;
    }
  }
  return NULL;
}

/* '%f[set]': between a character outside of the set and one in it; both ends of the subject count as '\0'. */
static const uint8_t *match_frontier(struct matcher *m, const uint8_t *s, const uint8_t **p)
{
  if (*p >= m->pattern_end || **p != '[') return fail(m, MG_PATTERN_FRONTIER);
  const uint8_t *item = item_end(m, *p);
  if (!item || !step(m) || !read_item(m, *p, item)) return NULL;
  unsigned before = s == m->subject ? 0 : s[-1], here = s == m->subject_end ? 0 : *s;
  if (is_in_set(before, *p, item - 1) || !is_in_set(here, *p, item - 1)) return NULL;
  *p = item;
  return s;
}

/* '%1' to '%9': what that capture has matched, once more. */
static const uint8_t *match_back_reference(struct matcher *m, const uint8_t *s, unsigned digit)
{
  const struct mg_pattern_found *found = m->found;
  unsigned index = digit - '1';
  if (digit == '0' || index >= (unsigned)found->count || found->to[index] == MG_PATTERN_UNFINISHED)
    return fail(m, MG_PATTERN_INDEX);
  if (found->to[index] == MG_PATTERN_POSITION || !step(m)) return NULL;
  size_t len = (size_t)(found->to[index] - found->from[index]);
  if ((size_t)(m->subject_end - s) < len || m->steps < len) return m->steps < len ? fail(m, MG_PATTERN_BUDGET) : NULL;
  m->steps -= len;
  return memcmp(m->subject + found->from[index], s, len) == 0 ? s + len : NULL;
}

/* --- captures --------------------------------------------------------------------------------- */

static const uint8_t *open_capture(struct matcher *m, const uint8_t *s, const uint8_t *p, int kind)
{
  struct mg_pattern_found *found = m->found;
  if (found->count == MG_PATTERN_CAPTURES_MAX) return fail(m, MG_PATTERN_CAPTURES);
  found->from[found->count] = (int32_t)(s - m->subject);
  found->to[found->count] = kind;
  found->count++;
  const uint8_t *end = match(m, s, p);
  if (!end) found->count--;
  return end;
}

static const uint8_t *close_capture(struct matcher *m, const uint8_t *s, const uint8_t *p)
{
  struct mg_pattern_found *found = m->found;
  int index = found->count - 1;
  while (index >= 0 && found->to[index] != MG_PATTERN_UNFINISHED) index--;
  if (index < 0) return fail(m, MG_PATTERN_CLOSE);
  found->to[index] = (int32_t)(s - m->subject);
  const uint8_t *end = match(m, s, p);
  if (!end) found->to[index] = MG_PATTERN_UNFINISHED;
  return end;
}

/* --- the matcher ------------------------------------------------------------------------------ */

static const uint8_t *match_items(struct matcher *m, const uint8_t *s, const uint8_t *p)
{
  while (s && p < m->pattern_end) {
    unsigned next = p + 1 < m->pattern_end ? p[1] : 0;
    if (*p == '(' && next == ')') return open_capture(m, s, p + 2, MG_PATTERN_POSITION);
    if (*p == '(') return open_capture(m, s, p + 1, MG_PATTERN_UNFINISHED);
    if (*p == ')') return close_capture(m, s, p + 1);
    if (*p == '$' && p + 1 == m->pattern_end) return s == m->subject_end ? s : NULL;
    if (*p == '%' && next == 'b') {
      s = match_balanced(m, s, p + 2);
      p += 4;
      continue;
    }
    if (*p == '%' && next == 'f') {
      p += 2;
      s = match_frontier(m, s, &p);
      continue;
    }
    if (*p == '%' && is_digit(next)) {
      s = match_back_reference(m, s, next);
      p += 2;
      continue;
    }
    const uint8_t *item = item_end(m, p);
    if (!item) return NULL;
    switch (item < m->pattern_end ? *item : 0) {
    case '*':
      return match_most(m, s, p, item);
    case '+':
      return matches_item(m, s, p, item) ? match_most(m, s + 1, p, item) : NULL;
    case '-':
      return match_least(m, s, p, item);
    case '?': {
      const uint8_t *end = matches_item(m, s, p, item) ? match(m, s + 1, item + 1) : NULL;
      if (end || m->error) return end;
      p = item + 1;
      break;
    }
    default:
      if (!matches_item(m, s, p, item)) return NULL;
      s++;
      p = item;
    }
  }
  return s;
}

static const uint8_t *match(struct matcher *m, const uint8_t *s, const uint8_t *p)
{
  if (!step(m)) return NULL;
  if (++m->depth > DEPTH_MAX) return fail(m, MG_PATTERN_COMPLEX);
  s = match_items(m, s, p);
  m->depth--;
  return s;
}

static int finish(struct matcher *m, const uint8_t *start, const uint8_t *end)
{
  struct mg_pattern_found *found = m->found;
  found->start = (int32_t)(start - m->subject);
  found->end = (int32_t)(end - m->subject);
  return 1;
}

bool mg_pattern_is_plain(struct mg_str pattern)
{
  for (size_t i = 0; i < pattern.len; i++)
    if (pattern.ptr[i] && strchr("^$*+?.([%-", pattern.ptr[i])) return false;
  return true;
}

int mg_pattern_search(struct mg_str subject, struct mg_str pattern, size_t from, bool anchored,
                      struct mg_pattern_found *found)
{
  const uint8_t *text = (const uint8_t *)subject.ptr, *items = (const uint8_t *)pattern.ptr;
  const uint8_t *zero = memchr(items, 0, pattern.len); /* as for LuaJIT, a pattern ends there */
  if (from > subject.len || subject.len > INT32_MAX) return 0;
  struct matcher m = {.subject = text,
                      .subject_end = text + subject.len,
                      .pattern_end = zero ? zero : items + pattern.len,
                      .steps = STEPS_BASE + (uint64_t)subject.len * STEPS_PER_BYTE,
                      .found = found};
  if (m.steps > STEPS_MAX) m.steps = STEPS_MAX;
  for (const uint8_t *s = text + from; s <= m.subject_end; s++) {
    m.depth = 0;
    found->count = 0;
    const uint8_t *end = match(&m, s, items);
    if (m.error) return m.error;
    if (end) return finish(&m, s, end);
    if (anchored) break;
  }
  return 0;
}
