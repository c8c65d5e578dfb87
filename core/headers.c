/* headers.c - the header list of headers.h and the classes of bytes that headers are made of.
 * Owns: nothing; lists and copies live in the caller's arena.   May call: mem.   Never: allocate from the heap, parse.
 * Thread: any, one per list. */
#include "headers.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "err.h"

enum { CAPACITY_FIRST = 32, NAME_LEN_MAX = 256 };

/* Eight bytes with letters in lower case. In a token, only letters change under this OR. */
static inline uint64_t lower_word(const char *bytes)
{
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word | 0x2020202020202020u;
}

/* With a literal as the second argument this folds into one or a few wide compares. */
__attribute__((always_inline)) static inline bool is(const char *name, const char *lower, size_t len)
{
  if (len < 8) {
    for (size_t i = 0; i < len; i++)
      if ((name[i] | 0x20) != lower[i]) return false;
    return true;
  }
  uint64_t difference = lower_word(name + len - 8) ^ lower_word(lower + len - 8);
  for (size_t i = 0; i + 8 < len; i += 8) difference |= lower_word(name + i) ^ lower_word(lower + i);
  return difference == 0;
}

#define IS(literal) is(name, literal, sizeof(literal) - 1)

/* Comparison in which '_' is as good as '-': what a CGI-like server makes of the name. */
static bool is_folded(const char *name, size_t len, struct mg_str lower)
{
  if (len != lower.len) return false;
  for (size_t i = 0; i < len; i++) {
    char c = name[i] == '_' ? '-' : mg_lower(name[i]);
    if (c != lower.ptr[i]) return false;
  }
  return true;
}

static enum mg_header_id id_of_folded(const char *name, size_t len)
{
  static const struct {
    struct mg_str lower;
    enum mg_header_id id;
  } names[] = {
      {MG_STR("x-real-ip"), MG_H_CLAIM},          {MG_STR("x-client-ip"), MG_H_CLAIM},
      {MG_STR("true-client-ip"), MG_H_CLAIM},     {MG_STR("x-cluster-client-ip"), MG_H_CLAIM},
      {MG_STR("x-original-url"), MG_H_CLAIM},     {MG_STR("x-rewrite-url"), MG_H_CLAIM},
      {MG_STR("content-length"), MG_H_LOOKALIKE}, {MG_STR("transfer-encoding"), MG_H_LOOKALIKE},
  };
  static const struct mg_str family = MG_STR("x-forwarded-");
  if (len >= family.len && is_folded(name, family.len, family)) return MG_H_X_FORWARDED;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (is_folded(name, len, names[i].lower)) return names[i].id;
  return MG_H_OTHER;
}

/* Of all the names that begin with X-, few have the right letter and length. */
static bool may_be_claim(const char *name, size_t len)
{
  switch (name[2] | 0x20) {
  case 'c':
    return len == 11 || len == 19;
  case 'f':
    return len >= 12;
  case 'o':
    return len == 14;
  case 'r':
    return len == 9 || len == 13;
  default:
    return false;
  }
}

static enum mg_header_id id_of_short(const char *name, size_t len)
{
  switch (len) {
  case 2:
    return IS("te") ? MG_H_TE : MG_H_OTHER;
  case 4:
    return IS("host") ? MG_H_HOST : IS("date") ? MG_H_DATE : MG_H_OTHER;
  case 6:
    return IS("expect") ? MG_H_EXPECT : IS("server") ? MG_H_SERVER : MG_H_OTHER;
  case 7:
    return IS("upgrade") ? MG_H_UPGRADE : IS("trailer") ? MG_H_TRAILER : MG_H_OTHER;
  default:
    return MG_H_OTHER;
  }
}

static enum mg_header_id id_of_long(const char *name, size_t len)
{
  switch (len) {
  case 9:
    return IS("forwarded") ? MG_H_FORWARDED : IS("x-real-ip") ? MG_H_X_REAL_IP : MG_H_OTHER;
  case 10:
    return IS("connection") ? MG_H_CONNECTION : IS("keep-alive") ? MG_H_KEEP_ALIVE : MG_H_OTHER;
  case 12:
    return IS("content-type") ? MG_H_CONTENT_TYPE : MG_H_OTHER;
  case 14:
    return IS("content-length") ? MG_H_CONTENT_LENGTH : MG_H_OTHER;
  case 15:
    return IS("x-forwarded-for") ? MG_H_X_FORWARDED_FOR : MG_H_OTHER;
  case 16:
    return IS("x-forwarded-host")   ? MG_H_X_FORWARDED_HOST
           : IS("x-forwarded-port") ? MG_H_X_FORWARDED_PORT
           : IS("proxy-connection") ? MG_H_PROXY_CONNECTION
                                    : MG_H_OTHER;
  case 17:
    return IS("transfer-encoding")   ? MG_H_TRANSFER_ENCODING
           : IS("x-forwarded-proto") ? MG_H_X_FORWARDED_PROTO
                                     : MG_H_OTHER;
  case 18:
    return IS("x-forwarded-server") ? MG_H_X_FORWARDED_SERVER : MG_H_OTHER;
  case 19:
    return IS("proxy-authorization") ? MG_H_PROXY_AUTHORIZATION : MG_H_OTHER;
  default:
    return MG_H_OTHER;
  }
}

enum mg_header_id mg_header_id(const char *name, size_t len)
{
  if (len < 8) return id_of_short(name, len);
  enum mg_header_id id = id_of_long(name, len);
  if (id != MG_H_OTHER) return id;
  /* Every family that id_of_folded knows starts with x, t or c, and has a separator at one of these places. */
  char first = (char)(name[0] | 0x20);
  if (first == 'x' && (name[1] == '-' || name[1] == '_'))
    return may_be_claim(name, len) ? id_of_folded(name, len) : MG_H_OTHER;
  if (first == 't' && (len == 14 || len == 17)) return id_of_folded(name, len);
  if (first == 'c' && len == 14) return id_of_folded(name, len);
  return MG_H_OTHER;
}

void mg_headers_init(struct mg_headers *list, struct mg_arena *arena)
{
  *list = (struct mg_headers){.arena = arena};
}

static int grow(struct mg_headers *list)
{
  unsigned capacity = list->capacity ? list->capacity * 2u : CAPACITY_FIRST;
  if (capacity > UINT16_MAX) return MG_ENOMEM;
  struct mg_header *items = mg_arena_alloc(list->arena, capacity * sizeof *items);
  if (!items) return MG_ENOMEM;
  if (list->count) memcpy(items, list->items, list->count * sizeof *items);
  list->items = items;
  list->capacity = (uint16_t)capacity;
  return 0;
}

/* Room for one more line at the end, or NULL; it counts once list->count says so. */
static struct mg_header *room(struct mg_headers *list)
{
  if (list->count == list->capacity && grow(list)) return NULL;
  return &list->items[list->count];
}

/* The bit of struct mg_headers' names for a name in any case; one of no bytes has one too. */
static inline uint64_t name_bit(struct mg_str name)
{
  unsigned letter = name.len ? name.ptr[0] & 0x1f : 0;
  return (uint64_t)1 << (name.len + 9 * letter) % 64;
}

/* The line in the room at the end counts from now on. */
static inline void count_in(struct mg_headers *list)
{
  const struct mg_header *line = &list->items[list->count++];
  list->present |= 1u << line->id;
  list->names |= name_bit(mg_str(line->name, line->name_len));
}

int mg_headers_push(struct mg_headers *list, struct mg_str name, struct mg_str value, enum mg_header_id id)
{
  struct mg_header *line = room(list);
  if (!line) return MG_ENOMEM;
  *line = (struct mg_header){
      .name = name.ptr,
      .value = value.ptr,
      .value_len = (uint32_t)value.len,
      .name_len = (uint16_t)name.len,
      .id = (uint8_t)id,
  };
  count_in(list);
  return 0;
}

/* Ids that stand for one name each; the others stand for families, and OTHER for everything. */
static bool is_exact(enum mg_header_id id)
{
  return id != MG_H_OTHER && id != MG_H_X_FORWARDED && id != MG_H_CLAIM && id != MG_H_LOOKALIKE;
}

/* What a line is looked at first for, as one number: the length of its name, its id, whether it is gone. */
static inline uint32_t gist(unsigned name_len, unsigned id, unsigned flags)
{
  return name_len | id << 16 | (flags & MG_HEADER_GONE) << 24;
}

static inline uint32_t gist_of(const struct mg_header *line)
{
  return gist(line->name_len, line->id, line->flags);
}

void mg_headers_move(struct mg_headers *list, const char *from, size_t len, const char *to)
{
  for (unsigned i = 0; i < list->count; i++) {
    struct mg_header *line = &list->items[i];
    line->name = mg_moved(line->name, from, len, to);
    line->value = mg_moved(line->value, from, len, to);
  }
}

/* False when no line can have that name: most edits are of names that a message does not have. */
static inline bool may_have(const struct mg_headers *list, struct mg_str name, enum mg_header_id id)
{
  return list->present >> id & 1 && list->names & name_bit(name);
}

/* mg_headers_next for a name whose id is known: it is looked up once for an edit, not for each line. */
static struct mg_header *next_line(const struct mg_headers *list, struct mg_str name, enum mg_header_id id,
                                   unsigned *from)
{
  bool exact = is_exact(id);
  uint32_t wanted = gist(exact ? 0 : (unsigned)name.len, id, 0), mask = exact ? 0xffff0000 : UINT32_MAX;
  if (may_have(list, name, id) && name.len <= UINT16_MAX)
    for (unsigned i = *from; i < list->count; i++)
      if ((gist_of(&list->items[i]) & mask) == wanted &&
          (exact || mg_equal_nocase(list->items[i].name, name.ptr, name.len))) {
        *from = i + 1;
        return &list->items[i];
      }
  *from = list->count;
  return NULL;
}

const struct mg_header *mg_headers_next(const struct mg_headers *list, struct mg_str name, unsigned *from)
{
  return next_line(list, name, mg_header_id(name.ptr, name.len), from);
}

const struct mg_header *mg_headers_get(const struct mg_headers *list, enum mg_header_id id)
{
  if (list->present & 1u << id)
    for (unsigned i = 0; i < list->count; i++)
      if (list->items[i].id == id && !(list->items[i].flags & MG_HEADER_GONE)) return &list->items[i];
  return NULL;
}

/* Laid out as it goes out, a line can be taken by a writer in one piece with its neighbours. */
void mg_header_lay_out(struct mg_header *line, char *text, struct mg_str name, struct mg_str value,
                       enum mg_header_id id)
{
  memcpy(text, name.ptr, name.len);
  memcpy(text + name.len, ": ", 2);
  if (value.len) memcpy(text + name.len + 2, value.ptr, value.len);
  memcpy(text + name.len + 2 + value.len, "\r\n", 2);
  *line = (struct mg_header){
      .name = text,
      .value = text + name.len + 2,
      .value_len = (uint32_t)value.len,
      .name_len = (uint16_t)name.len,
      .id = (uint8_t)id,
      .flags = MG_HEADER_RAW | MG_HEADER_OURS,
  };
}

int mg_header_make(struct mg_header *line, struct mg_arena *arena, struct mg_str name, struct mg_str value,
                   enum mg_header_id id)
{
  if (name.len > UINT16_MAX || value.len > UINT32_MAX) return MG_ENOMEM;
  char *text = mg_arena_alloc(arena, name.len + value.len + MG_HEADER_FRAME);
  if (!text) return MG_ENOMEM;
  mg_header_lay_out(line, text, name, value, id);
  return 0;
}

static unsigned remove_from(struct mg_headers *list, struct mg_str name, enum mg_header_id id, unsigned from)
{
  unsigned removed = 0;
  struct mg_header *line;
  while ((line = next_line(list, name, id, &from))) {
    line->flags |= MG_HEADER_GONE;
    removed++;
  }
  return removed;
}

int mg_headers_add_as(struct mg_headers *list, struct mg_str name, struct mg_str value, enum mg_header_id id)
{
  struct mg_header *line = room(list);
  if (!line || mg_header_make(line, list->arena, name, value, id)) return MG_ENOMEM;
  count_in(list);
  return 0;
}

int mg_headers_add_made(struct mg_headers *list, const struct mg_header *made)
{
  struct mg_header *line = room(list);
  if (!line) return MG_ENOMEM;
  *line = *made;
  count_in(list);
  return 0;
}

int mg_headers_add(struct mg_headers *list, struct mg_str name, struct mg_str value)
{
  return mg_headers_add_as(list, name, value, mg_header_id(name.ptr, name.len));
}

int mg_headers_set_as(struct mg_headers *list, struct mg_str name, struct mg_str value, enum mg_header_id id)
{
  unsigned from = 0;
  struct mg_header *first = next_line(list, name, id, &from);
  if (!first) return mg_headers_add_as(list, name, value, id);
  if (mg_header_make(first, list->arena, name, value, id)) return MG_ENOMEM;
  remove_from(list, name, id, from);
  return 0;
}

int mg_headers_set_made(struct mg_headers *list, const struct mg_header *made)
{
  struct mg_str name = mg_str(made->name, made->name_len);
  if (!may_have(list, name, made->id)) return mg_headers_add_made(list, made);
  unsigned from = 0;
  struct mg_header *first = next_line(list, name, made->id, &from);
  if (!first) return mg_headers_add_made(list, made);
  *first = *made;
  remove_from(list, name, made->id, from);
  return 0;
}

int mg_headers_set(struct mg_headers *list, struct mg_str name, struct mg_str value)
{
  return mg_headers_set_as(list, name, value, mg_header_id(name.ptr, name.len));
}

unsigned mg_headers_remove_as(struct mg_headers *list, struct mg_str name, enum mg_header_id id)
{
  return may_have(list, name, id) ? remove_from(list, name, id, 0) : 0;
}

unsigned mg_headers_remove(struct mg_headers *list, struct mg_str name)
{
  return mg_headers_remove_as(list, name, mg_header_id(name.ptr, name.len));
}

/* tchar of RFC 9110, 5.6.2 */
const bool mg_token_bytes[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,         ['&'] = 1,         ['\''] = 1,
    ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,         ['^'] = 1,         ['_'] = 1,
    ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1,
};

static bool byte_ok(unsigned char c)
{
  return (c >= 0x20 && c != 0x7f) || c == '\t';
}

static bool are_tokens(const char *bytes, size_t len)
{
  bool ok = true;
  for (size_t i = 0; i < len; i++) ok &= mg_token_bytes[(unsigned char)bytes[i]];
  return ok;
}

static size_t count_controls(const char *bytes, size_t len)
{
  size_t count = 0;
  for (size_t i = 0; i < len; i++) count += !byte_ok((unsigned char)bytes[i]);
  return count;
}

#ifdef __x86_64__

/* Sixteen bytes of text, or 4 to 15 of which some then come twice. */
static inline __m128i load(const char *bytes, size_t len)
{
  if (len >= 16) return _mm_loadu_si128((const __m128i *)bytes);
  if (len >= 8)
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)bytes),
                              _mm_loadl_epi64((const __m128i *)(bytes + len - 8)));
  int32_t head, tail;
  memcpy(&head, bytes, 4);
  memcpy(&tail, bytes + len - 4, 4);
  return _mm_set_epi32(tail, head, tail, head);
}

static inline bool all(__m128i mask)
{
  return _mm_movemask_epi8(mask) == 0xffff;
}

/* Letters, digits and '-': what nearly every name is made of. */
static inline bool are_common(__m128i text)
{
  __m128i lower = _mm_or_si128(text, _mm_set1_epi8(0x20));
  __m128i letter =
      _mm_and_si128(_mm_cmpgt_epi8(lower, _mm_set1_epi8('a' - 1)), _mm_cmplt_epi8(lower, _mm_set1_epi8('z' + 1)));
  __m128i digit =
      _mm_and_si128(_mm_cmpgt_epi8(text, _mm_set1_epi8('0' - 1)), _mm_cmplt_epi8(text, _mm_set1_epi8('9' + 1)));
  return all(_mm_or_si128(_mm_or_si128(letter, digit), _mm_cmpeq_epi8(text, _mm_set1_epi8('-'))));
}

/* -1 for each control byte but TAB, else 0 */
static inline __m128i controls(__m128i text)
{
  __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(text, _mm_set1_epi8(0x1f)), text);
  __m128i tab = _mm_cmpeq_epi8(text, _mm_set1_epi8('\t'));
  __m128i del = _mm_cmpeq_epi8(text, _mm_set1_epi8(0x7f));
  return _mm_or_si128(_mm_andnot_si128(tab, low), del);
}

bool mg_token_ok(struct mg_str text)
{
  if (text.len < 4) return text.len > 0 && are_tokens(text.ptr, text.len);
  for (size_t i = 0; i + 16 < text.len; i += 16)
    if (!are_common(load(text.ptr + i, 16))) return are_tokens(text.ptr, text.len);
  size_t tail = text.len < 16 ? text.len : 16;
  return are_common(load(text.ptr + text.len - tail, tail)) || are_tokens(text.ptr, text.len);
}

size_t mg_count_controls(const char *bytes, size_t len)
{
  size_t count = 0, i = 0;
  while (len - i >= 16) {
    __m128i sum = _mm_setzero_si128(); /* sixteen counts of one byte each, so at most 255 rounds */
    for (int round = 0; round < 255 && len - i >= 16; round++, i += 16)
      sum = _mm_sub_epi8(sum, controls(load(bytes + i, 16)));
    sum = _mm_sad_epu8(sum, _mm_setzero_si128());
    count += (size_t)_mm_cvtsi128_si64(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum)));
  }
  return count + count_controls(bytes + i, len - i);
}

#else

bool mg_token_ok(struct mg_str text)
{
  return text.len > 0 && are_tokens(text.ptr, text.len);
}

size_t mg_count_controls(const char *bytes, size_t len)
{
  return count_controls(bytes, len);
}

#endif

bool mg_header_value_ok(struct mg_str value)
{
  return mg_count_controls(value.ptr, value.len) == 0;
}

bool mg_header_name_ok(struct mg_str name)
{
  return name.len <= NAME_LEN_MAX && mg_token_ok(name);
}

bool mg_list_next(struct mg_str *rest, struct mg_str *member)
{
  if (!rest->ptr) return false;
  const char *comma = memchr(rest->ptr, ',', rest->len);
  *member = comma ? mg_str(rest->ptr, (size_t)(comma - rest->ptr)) : *rest;
  *rest = comma ? mg_str(comma + 1, rest->len - member->len - 1) : mg_str(NULL, 0);
  *member = mg_trim(*member);
  return true;
}

bool mg_header_list_has(struct mg_str value, struct mg_str token)
{
  struct mg_str member;
  while (mg_list_next(&value, &member))
    if (mg_str_equal_nocase(member, token)) return true;
  return false;
}
