/* record_text.c - the memory of what was recorded lately.
 * Owns: tables of lines, of blocks and of pieces of bodies, and counts of what came lately.   May call: record_redact,
 * entry.   Never: trust a hash: bytes are compared.   Thread: the loop's. */
#include "record_text.h"

#include <stdlib.h>

enum {
  LINE_SETS = 1024,
  YOUNG_SETS = 256,
  WAYS = 2,
  SEEN = 8192,  /* hashes of what was looked for and not known */
  SEEN_MAX = 3, /* counted so far */
  LINE_RAW_MAX = 232,
  BLOCK_SETS = 64,
  BLOCK_RAW_MAX = 1976,
  PIECES = 64,
  EXPECTED = 64 /* lines of a block that are looked for where they were last */
};

/* A line of a block that was measured: found again when the block is written. */
struct measured_line {
  struct known_line *known;
  uint32_t len, whole; /* without and with what ends it */
};

struct known_line {
  _Alignas(MG_CACHE_LINE) struct mg_place place; /* a short line is one of the cache's */
  uint64_t turn;                                 /* when it was needed last */
  uint16_t raw_len, len;
  uint8_t kind;
  char bytes[2 * LINE_RAW_MAX + MG_FINGERPRINT_LEN * 8]; /* raw, then as recorded */
};

struct known_block {
  struct mg_place place;
  uint64_t turn; /* when it was needed last */
  uint32_t hash, bound;
  uint16_t raw_len, count;
  uint8_t kind;
  char raw[BLOCK_RAW_MAX];
};

struct known_piece {
  struct mg_place place;
  const uint8_t *at; /* in the stage, while the place is of this scope */
  size_t len;
  uint32_t hash, crc;
};

struct mg_texts {
  struct mg_redactor *redactor;
  uint64_t turn;
  uint64_t replaced;                        /* how often a known line became another */
  struct mg_place empty;                    /* the text of no bytes */
  struct known_line *usual[MG_USUAL_TEXTS]; /* what stood in that place last; may have become another since */
  /* Hashes stand apart from the lines, so that what is not known does not fetch them into the cache. */
  uint32_t line_hashes[LINE_SETS][WAYS], young_hashes[YOUNG_SETS][WAYS];
  struct known_line lines[LINE_SETS][WAYS];
  struct known_line young[YOUNG_SETS][WAYS]; /* header lines that came once or twice */
  struct known_block blocks[BLOCK_SETS][WAYS];
  struct known_piece pieces[PIECES];
  uint32_t piece_hash;                                /* of the piece that was looked for last */
  uint16_t seen[SEEN];                                /* by hash: of its upper bits, and how often in the lowest two */
  struct known_line *expected[MG_MESSAGES][EXPECTED]; /* line n of the block before; may have become another since */
  struct measured_line measured[MG_MESSAGES][EXPECTED];
  char scratch[MG_TEXT_BOUND_MAX];
};

struct mg_texts *mg_texts_open(struct mg_redactor *redactor)
{
  struct mg_texts *texts = mg_calloc_lines(sizeof *texts);
  texts->redactor = redactor;
  return texts;
}

void mg_texts_close(struct mg_texts **texts)
{
  mg_free_lines(*texts);
  *texts = NULL;
}

/* Bytes here and there: enough to tell most texts apart, the comparison does the rest. Two sums at once hide half of
 * the time that a multiplication takes. */
static uint32_t sample(const char *bytes, size_t len, uint32_t kind)
{
  uint64_t hash = (len + 1) * 0x9e3779b97f4a7c15u ^ kind, second = 0;
  if (len < 8) {
    uint64_t all = 0;
    memcpy(&all, bytes, len);
    hash = (hash ^ all) * 0xff51afd7ed558ccdu;
    return (uint32_t)(hash >> 32);
  }
  size_t step = len <= 256 ? 8 : len / 32, i = 0;
  for (; i + step + 8 <= len; i += 2 * step) {
    hash = (hash ^ mg_get64(bytes + i)) * 0xff51afd7ed558ccdu;
    second = (second ^ mg_get64(bytes + i + step)) * 0xc4ceb9fe1a85ec53u;
  }
  if (i + 8 <= len) second = (second ^ mg_get64(bytes + i)) * 0xc4ceb9fe1a85ec53u;
  hash = (hash ^ second >> 7 ^ mg_get64(bytes + len - 8)) * 0xff51afd7ed558ccdu;
  return (uint32_t)(hash >> 32);
}

/* How often something of that hash was asked for here lately, this time included; SEEN_MAX stands for more. */
static unsigned count_sighting(struct mg_texts *texts, uint32_t hash)
{
  uint16_t *place = &texts->seen[hash % SEEN], mark = (uint16_t)(hash >> 16 & ~3u);
  unsigned before = (*place & ~3) == mark ? *place & 3 : 0;
  unsigned count = before < SEEN_MAX ? before + 1 : SEEN_MAX;
  *place = (uint16_t)(mark | count);
  return count;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

size_t mg_texts_bound(enum mg_text_kind kind, struct mg_str raw)
{
  switch (kind) {
  case MG_TEXT_PLAIN:
    return raw.len + 6;
  case MG_TEXT_REQUEST_LINE:
    return mg_redact_line_bound(raw) + 6;
  default:
    return raw.len + MG_FINGERPRINT_LEN + 6;
  }
}

size_t mg_texts_redact(struct mg_texts *texts, enum mg_text_kind kind, struct mg_str raw, char *out)
{
  switch (kind) {
  case MG_TEXT_PLAIN:
    memcpy(out, raw.ptr, raw.len);
    return raw.len;
  case MG_TEXT_REQUEST_LINE:
    return mg_redact_request_line(texts->redactor, raw, out);
  default:
    return mg_redact_header(texts->redactor, kind == MG_TEXT_RESPONSE_HEADER, raw, out);
  }
}

static bool is_line(const struct known_line *line, enum mg_text_kind kind, struct mg_str raw)
{
  return line->raw_len == raw.len && line->kind == kind && line->len && memcmp(line->bytes, raw.ptr, raw.len) == 0;
}

/* A set of the lines or of the young ones. */
struct line_set {
  struct known_line *lines;
  uint32_t *hashes;
};

static struct known_line *find_line(struct line_set set, uint32_t hash, enum mg_text_kind kind, struct mg_str raw)
{
  for (int way = 0; way < WAYS; way++)
    if (set.hashes[way] == hash && is_line(&set.lines[way], kind, raw)) return &set.lines[way];
  return NULL;
}

/* A place in a set, that of the line which was not needed for longest, for one with that hash. */
static struct known_line *make_room(struct mg_texts *texts, struct line_set set, uint32_t hash)
{
  int way = set.lines[0].turn <= set.lines[1].turn ? 0 : 1;
  texts->replaced += set.lines[way].len > 0;
  set.hashes[way] = hash;
  return &set.lines[way];
}

static struct known_line *remember(struct mg_texts *texts, struct line_set set, uint32_t hash, enum mg_text_kind kind,
                                   struct mg_str raw)
{
  struct known_line *line = make_room(texts, set, hash);
  line->place = (struct mg_place){0};
  line->raw_len = (uint16_t)raw.len;
  line->kind = (uint8_t)kind;
  memcpy(line->bytes, raw.ptr, raw.len);
  line->len = (uint16_t)mg_texts_redact(texts, kind, raw, line->bytes + raw.len);
  return line;
}

/* What comes once must not push out what comes again. A request line that does, with its numbers and ids, is not
 * remembered. A header line is, among its like: it comes once more in the request to the upstream. */
static struct known_line *find_or_remember(struct mg_texts *texts, enum mg_text_kind kind, struct mg_str raw)
{
  uint32_t hash = sample(raw.ptr, raw.len, kind);
  unsigned at = hash % LINE_SETS, young_at = hash % YOUNG_SETS;
  struct line_set set = {texts->lines[at], texts->line_hashes[at]};
  struct line_set young = {texts->young[young_at], texts->young_hashes[young_at]};
  bool twice = kind == MG_TEXT_REQUEST_HEADER || kind == MG_TEXT_RESPONSE_HEADER;
  unsigned sightings = twice ? 0 : count_sighting(texts, hash);
  if (sightings == 1) return NULL; /* of what is not kept the first time; it may have been forgotten that it was */
  struct known_line *line = find_line(set, hash, kind, raw);
  if (line) return line;
  line = twice ? find_line(young, hash, kind, raw) : NULL;
  if (twice) sightings = count_sighting(texts, hash);
  if (line && sightings < SEEN_MAX) return line;
  if (line) {
    struct known_line *grown = make_room(texts, set, hash);
    *grown = *line;
    line->len = 0;
    texts->replaced++;
    return grown;
  }
  if (raw.len + mg_texts_bound(kind, raw) > sizeof line->bytes) return NULL;
  return remember(texts, twice && sightings < SEEN_MAX ? young : set, hash, kind, raw);
}

/* NULL: empty, too long to be remembered, or not worth it. */
static struct known_line *line_of(struct mg_texts *texts, enum mg_text_kind kind, struct mg_str raw)
{
  if (!raw.len || raw.len > LINE_RAW_MAX) return NULL;
  struct known_line *line = find_or_remember(texts, kind, raw);
  if (line) line->turn = texts->turn;
  return line;
}

/* Writes a text that is remembered as line, or is not. */
static uint8_t *put_line(struct mg_texts *texts, struct mg_stage *stage, uint8_t *at, enum mg_text_kind kind,
                         struct mg_str raw, struct known_line *line)
{
  if (!raw.len) return mg_text_put(stage, at, &texts->empty, "", 0);
  if (line) return mg_text_put(stage, at, &line->place, line->bytes + line->raw_len, line->len);
  struct mg_place once = {0};
  size_t len = mg_texts_redact(texts, kind, raw, texts->scratch);
  return mg_text_put(stage, at, &once, texts->scratch, len);
}

uint8_t *mg_texts_put(struct mg_texts *texts, struct mg_stage *stage, uint8_t *at, enum mg_text_kind kind,
                      struct mg_str raw)
{
  return put_line(texts, stage, at, kind, raw, line_of(texts, kind, raw));
}

uint8_t *mg_texts_put_usual(struct mg_texts *texts, struct mg_stage *stage, uint8_t *at, enum mg_usual_text which,
                            struct mg_str raw)
{
  struct known_line *line = texts->usual[which];
  if (line && is_line(line, MG_TEXT_PLAIN, raw))
    line->turn = texts->turn;
  else
    line = texts->usual[which] = line_of(texts, MG_TEXT_PLAIN, raw);
  return put_line(texts, stage, at, MG_TEXT_PLAIN, raw, line);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

bool mg_texts_next_line(struct mg_str *raw, struct mg_str *line)
{
  if (!raw->len) return false;
  const char *end = memchr(raw->ptr, '\n', raw->len);
  size_t len = end ? (size_t)(end - raw->ptr) : raw->len;
  *line = mg_str(raw->ptr, len && raw->ptr[len - 1] == '\r' ? len - 1 : len);
  len += end != NULL;
  *raw = mg_str(raw->ptr + len, raw->len - len);
  return true;
}

/* The next line of a block, the number-th, and what it is remembered as if it is the one that was there in the block
 * before: most heads have most lines in common with their predecessor, and comparing is quicker than looking for an end
 * and then for a name. */
static bool next_expected(struct mg_texts *texts, const struct mg_text_block *block, unsigned number,
                          struct mg_str *rest, struct mg_str *line, struct known_line **known)
{
  struct known_line *expected = number < EXPECTED ? texts->expected[block->which][number] : NULL;
  *known = NULL;
  if (expected && rest->len >= expected->raw_len + 2u && rest->ptr[expected->raw_len] == '\r' &&
      rest->ptr[expected->raw_len + 1] == '\n' &&
      is_line(expected, block->kind, mg_str(rest->ptr, expected->raw_len))) {
    *known = expected;
    *line = mg_str(rest->ptr, expected->raw_len);
    *rest = mg_str(rest->ptr + expected->raw_len + 2, rest->len - expected->raw_len - 2);
    return true;
  }
  return mg_texts_next_line(rest, line);
}

/* What the lines of a block take at most, and whether each of them may be written in place. */
static void measure(struct mg_texts *texts, struct mg_text_block *block)
{
  struct measured_line *measured = texts->measured[block->which];
  struct mg_str rest = block->raw, line;
  struct known_line *known;
  unsigned count = 0;
  block->bound = 16;
  block->fits = true;
  for (; next_expected(texts, block, count, &rest, &line, &known); count++) {
    size_t bound = mg_texts_bound(block->kind, line);
    if (count < EXPECTED)
      measured[count] = (struct measured_line){known, (uint32_t)line.len, (uint32_t)(rest.ptr - line.ptr)};
    block->bound += bound;
    if (bound > MG_TEXT_BOUND_MAX) block->fits = false;
  }
  block->count = count;
  block->measured = true;
  block->replaced = texts->replaced;
  if (block->bound > MG_BLOCK_BOUND_MAX) block->fits = false;
}

/* Takes the number-th line off a block again. What was known of it counts as long as no known line has become another
 * since. */
static struct mg_str next_line(struct mg_texts *texts, const struct mg_text_block *block, unsigned number,
                               struct mg_str *rest, struct known_line **known)
{
  struct mg_str line = {"", 0};
  if (!block->measured || number >= EXPECTED || texts->replaced != block->replaced) {
    next_expected(texts, block, number, rest, &line, known);
    return line;
  }
  const struct measured_line *measured = &texts->measured[block->which][number];
  *known = measured->known;
  line = mg_str(rest->ptr, measured->len);
  *rest = mg_str(rest->ptr + measured->whole, rest->len - measured->whole);
  return line;
}

void mg_texts_begin(struct mg_texts *texts)
{
  texts->turn++;
}

/* The one that was not used for longest makes room, but none that this entry needs. */
static struct known_block *replace(struct known_block *set, uint64_t turn)
{
  struct known_block *oldest = set[0].turn <= set[1].turn ? &set[0] : &set[1];
  return oldest->turn == turn ? NULL : oldest;
}

static const enum mg_text_kind kinds[MG_MESSAGES] = {MG_TEXT_REQUEST_HEADER, MG_TEXT_REQUEST_HEADER,
                                                     MG_TEXT_RESPONSE_HEADER, MG_TEXT_RESPONSE_HEADER};

struct mg_text_block mg_texts_find_block(struct mg_texts *texts, enum mg_message which, struct mg_str raw)
{
  enum mg_text_kind kind = kinds[which];
  struct mg_text_block block = {.raw = raw, .kind = kind, .which = (uint8_t)which};
  uint32_t hash = sample(raw.ptr, raw.len, kind);
  struct known_block *set = texts->blocks[hash % BLOCK_SETS];
  for (int way = 0; way < WAYS; way++) {
    struct known_block *known = &set[way];
    if (known->hash != hash || known->raw_len != raw.len || known->kind != kind ||
        memcmp(known->raw, raw.ptr, raw.len) != 0)
      continue;
    known->turn = texts->turn;
    block.known = known;
    block.bound = known->bound;
    block.count = known->count;
    block.fits = true;
    return block;
  }
  measure(texts, &block);
  if (count_sighting(texts, hash) < 2) return block;
  struct known_block *known = raw.len <= BLOCK_RAW_MAX && block.fits ? replace(set, texts->turn) : NULL;
  if (!known) return block;
  known->place = (struct mg_place){0};
  known->turn = texts->turn;
  known->hash = hash;
  known->bound = (uint32_t)block.bound;
  known->raw_len = (uint16_t)raw.len;
  known->count = (uint16_t)block.count;
  known->kind = (uint8_t)kind;
  memcpy(known->raw, raw.ptr, raw.len);
  block.known = known;
  return block;
}

size_t mg_texts_block_room(const struct mg_stage *stage, const struct mg_text_block *block)
{
  return block->known && mg_is_defined(stage, &block->known->place) ? 8 : block->bound;
}

uint8_t *mg_texts_put_block(struct mg_texts *texts, struct mg_stage *stage, uint8_t *at,
                            const struct mg_text_block *block)
{
  struct mg_place once = {0}, *place = block->known ? &block->known->place : &once;
  if (mg_is_defined(stage, place)) return mg_reference_put(at, place);
  struct mg_str rest = block->raw;
  struct known_line *known;
  *at++ = 0;
  at = mg_varint_put(at, block->count);
  for (unsigned i = 0; i < block->count; i++) {
    struct mg_str line = next_line(texts, block, i, &rest, &known);
    if (known)
      known->turn = texts->turn;
    else
      known = line_of(texts, block->kind, line);
    if (i < EXPECTED) texts->expected[block->which][i] = known;
    at = put_line(texts, stage, at, block->kind, line, known);
  }
  mg_define(stage, place);
  return at;
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

const struct mg_place *mg_texts_find_piece(struct mg_texts *texts, const struct mg_stage *stage, struct mg_str bytes,
                                           uint32_t *crc)
{
  uint32_t hash = texts->piece_hash = sample(bytes.ptr, bytes.len, MG_TEXT_KINDS);
  const struct known_piece *piece = &texts->pieces[hash % PIECES];
  if (!mg_is_defined(stage, &piece->place) || piece->hash != hash || piece->len != bytes.len) return NULL;
  if (memcmp(piece->at, bytes.ptr, bytes.len) != 0) return NULL;
  *crc = piece->crc;
  return &piece->place;
}

void mg_texts_note_piece(struct mg_texts *texts, struct mg_stage *stage, const uint8_t *at, size_t len, uint32_t crc,
                         bool keep)
{
  struct mg_place once;
  if (!keep) {
    mg_define(stage, &once);
    return;
  }
  uint32_t hash = texts->piece_hash;
  struct known_piece *piece = &texts->pieces[hash % PIECES];
  *piece = (struct known_piece){.at = at, .len = len, .hash = hash, .crc = crc};
  mg_define(stage, &piece->place);
}
