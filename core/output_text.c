/* output_text.c - the texts that outputs are made of, appended to buffers.
 * Owns: nothing.   May call: mem, digest.   Never: a file.   Thread: any. */
#include "output_private.h"

#include <math.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "digest.h"

enum { UUID_BYTES = 16, UUID_TEXT = 36, GROUPED_MAX = 256 };

struct mg_buf *mg_out_buffer(void)
{
  return mg_calloc(1, sizeof(struct mg_buf));
}

void mg_out_buffer_free(struct mg_buf *buf)
{
  mg_buf_free(buf);
  free(buf);
}

const char *mg_out_bytes(struct mg_buf *buf)
{
  return buf->len ? buf->ptr : "";
}

size_t mg_out_size(struct mg_buf *buf)
{
  return buf->len;
}

void mg_out_shorten(struct mg_buf *buf, size_t size)
{
  if (size < buf->len) buf->len = size;
}

void mg_out_put(struct mg_buf *buf, const char *bytes, size_t len)
{
  mg_buf_append(buf, bytes, len);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

bool mg_out_is_utf8(const char *bytes, size_t len)
{
  const unsigned char *at = (const unsigned char *)bytes, *end = at + len;
  while (at < end) {
    unsigned char lead = *at++;
    if (lead < 0x80) continue;
    int more = lead >= 0xc2 && lead < 0xe0 ? 1 : (lead & 0xf0) == 0xe0 ? 2 : lead >= 0xf0 && lead < 0xf5 ? 3 : 9;
    if (more > end - at) return false;
    unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80; /* no overlong form, */
    unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;  /* no surrogate, nothing above U+10FFFF */
    if (*at < least || *at > most) return false;
    for (at++; --more; at++)
      if ((*at & 0xc0) != 0x80) return false;
  }
  return true;
}

/* Room for six bytes for each is there. */
static char *put_character(char *to, unsigned char c, bool latin)
{
  static const char hex[] = "0123456789abcdef";
  if (c == '"' || c == '\\') {
    *to++ = '\\';
    *to++ = (char)c;
  } else if (c == '\n' || c == '\r' || c == '\t') {
    *to++ = '\\';
    *to++ = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
  } else if (c < 0x20 || c == 0x7f) {
    memcpy(to, "\\u00", 4);
    to[4] = hex[c >> 4];
    to[5] = hex[c & 15];
    to += 6;
  } else if (c >= 0x80 && latin) {
    *to++ = (char)(0xc0 | c >> 6);
    *to++ = (char)(0x80 | (c & 0x3f));
  } else {
    *to++ = (char)c;
  }
  return to;
}

void mg_out_json(struct mg_buf *buf, const char *bytes, size_t len, bool lower)
{
  char *to = mg_buf_reserve(buf, 6 * len + 2), *start = to;
  bool latin = !mg_out_is_utf8(bytes, len);
  *to++ = '"';
  for (size_t i = 0; i < len; i++)
    to = put_character(to, (unsigned char)(lower ? mg_lower(bytes[i]) : bytes[i]), latin);
  *to++ = '"';
  buf->len += (size_t)(to - start);
}

size_t mg_out_split_line(const struct mg_out_text *line, size_t *name_len)
{
  const char *colon = line->len ? memchr(line->ptr, ':', line->len) : NULL;
  *name_len = colon ? (size_t)(colon - line->ptr) : line->len;
  size_t from = *name_len + (colon != NULL);
  while (from < line->len && (line->ptr[from] == ' ' || line->ptr[from] == '\t')) from++;
  return from;
}

/* A name and its value, both borrowed; grouped: it stands behind an earlier one of its name. */
struct pair {
  struct mg_str name, value;
  bool grouped;
};

static bool same_name(const struct pair *a, const struct pair *b, bool lower)
{
  return lower ? mg_str_equal_nocase(a->name, b->name) : mg_str_equal(a->name, b->name);
}

/* Each pair is looked for among those behind it: quadratic, and quick for as many as a head may have. */
static void put_pairs(struct mg_buf *buf, struct pair *pairs, int count, bool lower)
{
  mg_buf_append(buf, "{", 1);
  for (int i = 0; i < count; i++) {
    if (pairs[i].grouped) continue;
    if (buf->ptr[buf->len - 1] != '{') mg_buf_append(buf, ",", 1);
    mg_out_json(buf, pairs[i].name.ptr, pairs[i].name.len, lower);
    mg_buf_append(buf, ":[", 2);
    mg_out_json(buf, pairs[i].value.ptr, pairs[i].value.len, false);
    for (int k = i + 1; k < count; k++) {
      if (pairs[k].grouped || !same_name(&pairs[i], &pairs[k], lower)) continue;
      pairs[k].grouped = true;
      mg_buf_append(buf, ",", 1);
      mg_out_json(buf, pairs[k].value.ptr, pairs[k].value.len, false);
    }
    mg_buf_append(buf, "]", 1);
  }
  mg_buf_append(buf, "}", 1);
}

void mg_out_json_headers(struct mg_buf *buf, const struct mg_out_text *lines, int count)
{
  struct pair few[GROUPED_MAX], *pairs = count <= GROUPED_MAX ? few : mg_alloc((size_t)count * sizeof *pairs);
  for (int i = 0; i < count; i++) {
    size_t name_len, from = mg_out_split_line(&lines[i], &name_len);
    pairs[i] = (struct pair){mg_str(lines[i].ptr, name_len), mg_str(lines[i].ptr + from, lines[i].len - from), false};
  }
  put_pairs(buf, pairs, count, true);
  if (pairs != few) free(pairs);
}

void mg_out_json_pairs(struct mg_buf *buf, const struct mg_out_text *texts, int count, const char *without)
{
  struct mg_str left_out = mg_str(without, strlen(without));
  struct pair few[GROUPED_MAX], *pairs = count / 2 <= GROUPED_MAX ? few : mg_alloc((size_t)count * sizeof *pairs);
  for (int i = 0; i < count / 2; i++) {
    pairs[i] = (struct pair){mg_str(texts[2 * i].ptr, texts[2 * i].len),
                             mg_str(texts[2 * i + 1].ptr, texts[2 * i + 1].len), false};
    pairs[i].grouped = mg_str_equal(pairs[i].name, left_out);
  }
  put_pairs(buf, pairs, count / 2, false);
  if (pairs != few) free(pairs);
}

void mg_out_header(const struct mg_out_leg *leg, const char *name, size_t name_len, int nth, struct mg_out_text *value)
{
  *value = (struct mg_out_text){NULL, 0};
  for (int i = 0; i < leg->header_count; i++) {
    const struct mg_out_text *line = &leg->headers[i];
    size_t len, from = mg_out_split_line(line, &len);
    if (len != name_len || !mg_equal_nocase(line->ptr, name, len) || nth--) continue;
    *value = (struct mg_out_text){line->ptr + from, line->len - from};
    return;
  }
}

/* --- other alphabets ---------------------------------------------------------------------------------------------- */

/* The letter that stands behind a backslash for c; 0: none. */
static char escape_of(unsigned char c)
{
  switch (c) {
  case '\b':
    return 'b';
  case '\n':
    return 'n';
  case '\r':
    return 'r';
  case '\t':
    return 't';
  case '\v':
    return 'v';
  case '"':
  case '\\':
    return (char)c;
  default:
    return 0;
  }
}

void mg_out_escaped(struct mg_buf *buf, const char *bytes, size_t len)
{
  static const char hex[] = "0123456789abcdef";
  char *to = mg_buf_reserve(buf, 4 * len), *start = to;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)bytes[i];
    char letter = escape_of(c);
    if (!letter && c >= 0x20 && c < 0x7f) {
      *to++ = (char)c;
      continue;
    }
    *to++ = '\\';
    *to++ = letter ? letter : 'x';
    if (letter) continue;
    *to++ = hex[c >> 4];
    *to++ = hex[c & 15];
  }
  buf->len += (size_t)(to - start);
}

void mg_out_base64(struct mg_buf *buf, const char *bytes, size_t len)
{
  mg_base64((const unsigned char *)bytes, len, mg_buf_reserve(buf, MG_BASE64_SIZE(len)));
  buf->len += MG_BASE64_SIZE(len) - 1;
}

void mg_out_base32_sha256(struct mg_buf *buf, const char *bytes, size_t len)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  unsigned char hash[MG_SHA256_SIZE + 4] = {0};
  mg_sha256(mg_str(bytes, len), hash);
  for (int bit = 0; bit < MG_SHA256_SIZE * 8; bit += 5) {
    unsigned two = (unsigned)hash[bit / 8] << 8 | hash[bit / 8 + 1];
    mg_buf_append(buf, &digits[two >> (11 - bit % 8) & 31], 1);
  }
  mg_buf_append(buf, "====", 4);
}

void mg_out_uuid(struct mg_buf *buf)
{
  static const char hex[] = "0123456789abcdef";
  unsigned char b[UUID_BYTES];
  while (getrandom(b, sizeof b, 0) != sizeof b) continue;
  b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
  b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
  char *to = mg_buf_reserve(buf, UUID_TEXT), *start = to;
  for (int i = 0; i < UUID_BYTES; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
    *to++ = hex[b[i] >> 4];
    *to++ = hex[b[i] & 15];
  }
  buf->len += (size_t)(to - start);
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static char *put_digits(char *to, uint64_t number, int width)
{
  char digits[24];
  int count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number || count < width);
  while (count) *to++ = digits[--count];
  return to;
}

static void append_digits(struct mg_buf *buf, uint64_t number, int width)
{
  char *to = mg_buf_reserve(buf, 24);
  buf->len += (size_t)(put_digits(to, number, width) - to);
}

void mg_out_integer(struct mg_buf *buf, double number)
{
  if (number < 0) mg_buf_append(buf, "-", 1);
  append_digits(buf, (uint64_t)fabs(number), 1);
}

void mg_out_seconds(struct mg_buf *buf, double us)
{
  uint64_t whole = us > 0 ? (uint64_t)us : 0;
  append_digits(buf, whole / 1000000, 1);
  mg_buf_append(buf, ".", 1);
  append_digits(buf, whole % 1000000, 6);
}

void mg_out_hex32(struct mg_buf *buf, uint32_t number)
{
  mg_buf_printf(buf, "%08x", number);
}

/* The day's date as in Howard Hinnant's "chrono-compatible low-level date algorithms", civil_from_days: gmtime_r costs
 * ten times as much, four times a line. */
void mg_out_time(struct mg_buf *buf, double us)
{
  uint64_t all = us > 0 ? (uint64_t)us : 0, seconds = all / 1000000, second = seconds % 86400;
  uint64_t days = seconds / 86400 + 719468, era = days / 146097, doe = days % 146097;
  uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  uint64_t mp = (5 * doy + 2) / 153, day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
  char *to = mg_buf_reserve(buf, 40), *start = to;
  to = put_digits(to, yoe + era * 400 + (month <= 2), 4);
  *to++ = '-';
  to = put_digits(to, month, 2);
  *to++ = '-';
  to = put_digits(to, day, 2);
  *to++ = 'T';
  to = put_digits(to, second / 3600, 2);
  *to++ = ':';
  to = put_digits(to, second / 60 % 60, 2);
  *to++ = ':';
  to = put_digits(to, second % 60, 2);
  *to++ = '.';
  to = put_digits(to, all % 1000000, 6);
  *to++ = 'Z';
  buf->len += (size_t)(to - start);
}

double mg_out_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec * 1e6 + (double)(now.tv_nsec / 1000);
}

const char *mg_out_version(void)
{
  return MG_VERSION;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
  const struct mg_str *x = a, *y = b;
  int order = memcmp(x->ptr, y->ptr, x->len < y->len ? x->len : y->len);
  return order ? order : (x->len > y->len) - (x->len < y->len);
}

void mg_out_sort_lines(struct mg_buf *buf)
{
  struct mg_buf lines = {0}, sorted = {0};
  const char *at = buf->ptr, *end = buf->ptr + buf->len;
  while (at < end) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *next = newline ? newline + 1 : end;
    struct mg_str line = mg_str(at, (size_t)(next - at));
    mg_buf_append(&lines, &line, sizeof line);
    at = next;
  }
  struct mg_str *all = (struct mg_str *)(void *)lines.ptr;
  size_t count = lines.len / sizeof *all;
  if (count) qsort(all, count, sizeof *all, by_bytes);
  for (size_t i = 0; i < count; i++) mg_buf_append(&sorted, all[i].ptr, all[i].len);
  mg_buf_free(&lines);
  mg_buf_free(buf);
  *buf = sorted;
}
