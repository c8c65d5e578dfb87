/* entry.h - what is inside an entry: texts and blocks that are written once per scope, and the fields of each type.
 *
 * Writing goes straight into the stage; reading gives plain structs. FORMAT.md, "Entries". Thread: one per object. */
#pragma once

#include "batch.h"
#include "varint.h"

enum mg_level { MG_LEVEL_NONE, MG_LEVEL_METADATA, MG_LEVEL_HEADERS, MG_LEVEL_FULL };

/* Bits of the byte that begins START and END, above the two levels (request: bits 0-1, response: 2-3). */
enum { MG_HAS_LINE = 16, MG_HAS_HEADERS = 32, MG_HAS_CRC = 64, MG_HAS_ATTRIBUTES = 128 };

/* Bits of END's flags, above the source of the answer (bits 0-1). */
enum {
  MG_END_HEAD_SENT = 4,
  MG_END_TUNNEL = 8,
  MG_END_REQUEST_WHOLE = 16,
  MG_END_RESPONSE_WHOLE = 32,
  MG_END_SAME_LINE = 64,   /* the upstream got the client's request line */
  MG_END_SAME_STATUS = 128 /* the client got the upstream's status line */
};

/** The four messages of an exchange, as bits of the masks and as the numbers of HEAD entries. */
enum mg_message { MG_CLIENT_REQUEST, MG_UPSTREAM_REQUEST, MG_UPSTREAM_RESPONSE, MG_CLIENT_RESPONSE, MG_MESSAGES };
enum { MG_HEAD_CLIENT_LINE = 4, MG_HEAD_UPSTREAM_LINE = 5, MG_HEADS };

enum mg_gap_reason { MG_GAP_NO_SPACE = 1, MG_GAP_END_LOST = 2, MG_GAP_BODY_LOST = 3 };

/** Where a definition stands: valid in the scope of that generation. Zero: nowhere. */
struct mg_place {
  uint64_t gen;
  uint32_t number;
};

static inline bool mg_is_defined(const struct mg_stage *stage, const struct mg_place *place)
{
  return place->gen == stage->gen;
}

static inline uint8_t *mg_reference_put(uint8_t *at, const struct mg_place *place)
{
  return mg_varint_put(at, (uint64_t)place->number + 1);
}

/** Notes that the next definition of this scope stands here. */
static inline void mg_define(struct mg_stage *stage, struct mg_place *place)
{
  place->gen = stage->gen;
  place->number = stage->definitions++;
}

/** A text: a reference where it is defined already, else the definition. Takes at most len + 6 bytes. */
static inline uint8_t *mg_text_put(struct mg_stage *stage, uint8_t *at, struct mg_place *place, const void *bytes,
                                   size_t len)
{
  if (mg_is_defined(stage, place)) return mg_reference_put(at, place);
  *at++ = 0;
  at = mg_varint_put(at, len);
  memcpy(at, bytes, len);
  mg_define(stage, place);
  return at + len;
}

/** What every payload begins with. At most 20 bytes. */
static inline uint8_t *mg_prefix_put(struct mg_stage *stage, uint8_t *at, uint64_t time_us, uint64_t number)
{
  at = mg_zigzag_put(at, (int64_t)(time_us - stage->last_time_us));
  at = mg_zigzag_put(at, (int64_t)(number - stage->last_number));
  stage->last_time_us = time_us;
  stage->last_number = number;
  return at;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/** Lines of a block: indexes of texts in the scope. */
struct mg_lines {
  uint32_t first, count;
};

/** All that was defined in one batch. */
struct mg_scope {
  struct mg_str *texts; /* by definition number; blocks have len = count and ptr = NULL */
  uint32_t *firsts;     /* of blocks, into lines */
  uint32_t count, capacity;
  uint32_t *lines; /* definition numbers of the texts */
  uint32_t line_count, line_capacity;
  uint64_t time_us, number;
};

void mg_scope_start(struct mg_scope *scope, const struct mg_batch *header);
void mg_scope_free(struct mg_scope *scope);
/** Line i of a block. */
struct mg_str mg_scope_line(const struct mg_scope *scope, struct mg_lines lines, uint32_t i);

/** An entry, decoded; texts are borrowed from the batch. What a type does not have is zero. */
struct mg_entry {
  uint8_t type; /* enum mg_entry_type */
  uint64_t time_us;
  uint64_t number; /* of the exchange, within the epoch of the shard */
  uint8_t request_level, response_level, has;
  /* START */
  uint64_t id; /* low half, before id_base is added */
  struct mg_str route, filters, generation, client, client_source;
  /* START or END */
  struct mg_str line;
  uint8_t blocks; /* bit by enum mg_message */
  struct mg_lines block[MG_MESSAGES];
  /* END */
  unsigned status;
  unsigned flags;
  uint64_t sent_us, first_byte_us; /* after the start, plus 1; 0: never */
  uint64_t tries;
  uint64_t head_bytes[2], body_bytes[2]; /* request, response */
  struct mg_str error, target, upstream_line, upstream_status, client_status;
  uint8_t crcs; /* bit 0: request, bit 1: response */
  uint32_t crc[2];
  struct mg_lines attributes; /* name, value, name, value, ... */
  /* BODY */
  uint8_t direction; /* 0: request, 1: response */
  uint64_t offset;
  struct mg_str content;
  /* HEAD: which, whether it goes on with the last line, and the bytes in content */
  uint8_t which;
  bool continues;
  /* GAP */
  uint8_t reason;
  uint64_t count;
};

/** Decodes an entry in its scope, which learns what it defines. False when it is not one. */
bool mg_entry_decode(struct mg_scope *scope, const struct mg_plain_entry *plain, struct mg_entry *entry);
