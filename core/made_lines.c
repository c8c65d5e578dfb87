/* made_lines.c - the memory of made_lines.h: slots found by address, and digests of what was seen once.
 * Owns: the lines.   May call: headers, mem.   Never: forget or change a line that was given out, trust an address.
 * Thread: one per memory. */
#include "made_lines.h"

#include <stdlib.h>

enum { SLOTS = 256, PROBES = 8, SEEN = 512, WAYS = 4, TEXT_MAX = 120, TEXTS_BYTES = 24 * 1024 };

struct slot {
  const char *name_at, *value_at; /* in Lua's memory, perhaps of something else by now; never read through */
  struct mg_header line;          /* name NULL: free */
};

struct mg_made_lines {
  struct slot slots[SLOTS];
  uint64_t seen[SEEN]; /* digests of what was noted once, WAYS of them in each place */
  unsigned turn;       /* which of a place is overwritten next */
  size_t used;         /* of texts */
  char texts[TEXTS_BYTES];
};

struct mg_made_lines *mg_made_lines_new(void)
{
  return mg_calloc(1, sizeof(struct mg_made_lines));
}

void mg_made_lines_free(struct mg_made_lines **lines)
{
  free(*lines);
  *lines = NULL;
}

static inline unsigned place_of(struct mg_str name, struct mg_str value)
{
  uint64_t sum = (uintptr_t)name.ptr * 0x9e3779b97f4a7c15u ^ (uintptr_t)value.ptr * 0xff51afd7ed558ccdu;
  return (unsigned)(sum >> 40);
}

/* As memcmp() == 0, without a call for what names and values mostly are. */
static inline bool same(const char *a, const char *b, size_t len)
{
  uint64_t words[4];
  if (len > 16) return memcmp(a, b, len) == 0;
  if (len >= 8) {
    memcpy(&words[0], a, 8), memcpy(&words[1], b, 8);
    memcpy(&words[2], a + len - 8, 8), memcpy(&words[3], b + len - 8, 8);
    return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
  }
  for (size_t i = 0; i < len; i++)
    if (a[i] != b[i]) return false;
  return true;
}

const struct mg_header *mg_made_lines_find(struct mg_made_lines *lines, struct mg_str name, struct mg_str value)
{
  unsigned at = place_of(name, value);
  for (unsigned i = 0; i < PROBES; i++) {
    const struct slot *slot = &lines->slots[(at + i) % SLOTS];
    if (!slot->line.name) break; /* nothing is ever taken out, so nothing lies behind a gap */
    if (slot->name_at != name.ptr || slot->value_at != value.ptr) continue;
    const struct mg_header *line = &slot->line;
    if (line->name_len == name.len && line->value_len == value.len && same(line->name, name.ptr, name.len) &&
        same(line->value, value.ptr, value.len))
      return line;
  }
  return NULL;
}

static struct slot *free_slot(struct mg_made_lines *lines, unsigned at)
{
  for (unsigned i = 0; i < PROBES; i++) {
    struct slot *slot = &lines->slots[(at + i) % SLOTS];
    if (!slot->line.name) return slot;
  }
  return NULL;
}

static void keep(struct mg_made_lines *lines, unsigned at, struct mg_str name, struct mg_str value,
                 enum mg_header_id id)
{
  struct slot *slot = free_slot(lines, at);
  size_t len = name.len + value.len + MG_HEADER_FRAME;
  if (!slot || len > TEXTS_BYTES - lines->used) return;
  mg_header_lay_out(&slot->line, lines->texts + lines->used, name, value, id);
  lines->used += len;
  slot->name_at = name.ptr;
  slot->value_at = value.ptr;
}

/* Two lines of one digest only mean that one is kept the first time it comes. */
static uint64_t digest(uint64_t sum, struct mg_str text)
{
  const uint64_t factor = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < text.len; i += 8) {
    uint64_t word = 0;
    memcpy(&word, text.ptr + i, text.len - i < 8 ? text.len - i : 8);
    sum = (sum ^ word) * factor;
    sum ^= sum >> 29;
  }
  return (sum + text.len) * factor;
}

/* True if it was seen before; else that it was is remembered until others need the place. */
static bool was_seen(struct mg_made_lines *lines, uint64_t line)
{
  uint64_t *place = &lines->seen[(line >> 32) % (SEEN / WAYS) * WAYS];
  for (int i = 0; i < WAYS; i++)
    if (place[i] == line) return place[i] = 0, true;
  int at = 0;
  while (at < WAYS && place[at]) at++;
  place[at < WAYS ? at : (int)(lines->turn++ % WAYS)] = line;
  return false;
}

void mg_made_lines_note(struct mg_made_lines *lines, struct mg_str name, struct mg_str value, enum mg_header_id id)
{
  if (!name.len || name.len > TEXT_MAX || value.len > TEXT_MAX - name.len) return;
  if (was_seen(lines, digest(digest(1, name), value) | 1)) keep(lines, place_of(name, value), name, value, id);
}
