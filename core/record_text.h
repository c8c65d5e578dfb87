/* record_text.h - texts on their way into the stage: redacted once, written once per scope.
 *
 * What came lately is remembered with its redacted form and where it was last defined, so that a line that comes
 * again costs a comparison, and a block of headers that comes again costs one as well. Thread: the loop's. */
#pragma once

#include "entry.h"
#include "record_redact.h"

struct mg_texts;

enum mg_text_kind {
  MG_TEXT_REQUEST_HEADER,
  MG_TEXT_RESPONSE_HEADER,
  MG_TEXT_REQUEST_LINE,
  MG_TEXT_PLAIN,
  MG_TEXT_KINDS
};

/** redactor is borrowed. */
struct mg_texts *mg_texts_open(struct mg_redactor *redactor);
void mg_texts_close(struct mg_texts **texts);

enum { MG_TEXT_BOUND_MAX = 4096, MG_BLOCK_BOUND_MAX = 5000 }; /* more goes into HEAD entries of its own */

/** An upper bound of what a text takes in the stage; beyond MG_TEXT_BOUND_MAX it may not be given to mg_texts_put. */
size_t mg_texts_bound(enum mg_text_kind kind, struct mg_str raw);
uint8_t *mg_texts_put(struct mg_texts *texts, struct mg_stage *stage, uint8_t *at, enum mg_text_kind kind,
                      struct mg_str raw);

/** The same for a plain text that is most often what it was the last time, in the place that which names. */
enum mg_usual_text { MG_USUAL_TARGET, MG_USUAL_UPSTREAM_STATUS, MG_USUAL_CLIENT_STATUS, MG_USUAL_TEXTS };
uint8_t *mg_texts_put_usual(struct mg_texts *texts, struct mg_stage *stage, uint8_t *at, enum mg_usual_text which,
                            struct mg_str raw);

/** The header lines of a head (from behind its first line to before the empty one, CR LF at each end). */
struct mg_text_block {
  struct mg_str raw;
  enum mg_text_kind kind;
  uint8_t which;             /* enum mg_message */
  struct known_block *known; /* NULL: too large or too many to remember */
  unsigned count;            /* lines */
  size_t bound;              /* of what it takes in the stage when it is not defined there yet */
  bool fits;                 /* it may be given to mg_texts_put_block */
  bool measured;             /* it was looked at line by line, when so many known lines had been replaced: */
  uint64_t replaced;
};

/** Begins with another entry: blocks found before may be forgotten. */
void mg_texts_begin(struct mg_texts *texts);
struct mg_text_block mg_texts_find_block(struct mg_texts *texts, enum mg_message which, struct mg_str raw);
uint8_t *mg_texts_put_block(struct mg_texts *texts, struct mg_stage *stage, uint8_t *at,
                            const struct mg_text_block *block);
/** What a block takes in the scope that is open. */
size_t mg_texts_block_room(const struct mg_stage *stage, const struct mg_text_block *block);

/** Takes the next line off raw, without its CR LF; false at the end. */
bool mg_texts_next_line(struct mg_str *raw, struct mg_str *line);

/** A text as it is recorded, in out, which has room for its bound. */
size_t mg_texts_redact(struct mg_texts *texts, enum mg_text_kind kind, struct mg_str raw, char *out);

/** A piece of a body that stands in this scope already, byte for byte; NULL if none is known. *crc is its checksum. */
const struct mg_place *mg_texts_find_piece(struct mg_texts *texts, const struct mg_stage *stage, struct mg_str bytes,
                                           uint32_t *crc);
/** Notes a piece that has just been written at `at` in the open slot as the next definition. keep: it begins a body,
 * was looked for before and may be found again; crc is its own then. */
void mg_texts_note_piece(struct mg_texts *texts, struct mg_stage *stage, const uint8_t *at, size_t len, uint32_t crc,
                         bool keep);
