/* batch.h - a slot of the stage as one batch, and back: the commit words go, what compresses is compressed.
 *
 * A packer belongs to one thread at a time, an unpacker to one. */
#pragma once

#include "stage.h"

struct mg_packer;

/** compress false: batches stay plain. level as of zstd. */
struct mg_packer *mg_packer_new(bool compress, int level);
void mg_packer_free(struct mg_packer **packer);

/** What a batch came to, borrowed until the next call. */
struct mg_packed {
  const struct mg_str *parts; /* its bytes, one part behind the other */
  size_t len;                 /* of all; 0: the slot holds no entry */
  struct mg_batch header;
};

/** Packs the entries of a slot; flags go into the header. check as of mg_slot_entry: true for a slot whose producer has
 * died. What comes of it is then one part; without, bodies that are kept apart are parts that point into the slot. */
void mg_pack(struct mg_packer *packer, const uint8_t *slot, bool check, uint16_t flags, struct mg_packed *out);

/** A batch's entries in plain form. */
struct mg_unpacker;
struct mg_unpacker *mg_unpacker_new(void);
void mg_unpacker_free(struct mg_unpacker **unpacker);

/** Opens a batch whose checksum was right. False when it is no batch or does not decompress. */
bool mg_unpack(struct mg_unpacker *unpacker, const uint8_t *bytes, size_t len, struct mg_batch *header);
/** Opens the committed entries of a slot (a copy) as if they were a batch. False when there are none. */
bool mg_unpack_slot(struct mg_unpacker *unpacker, const uint8_t *slot, struct mg_batch *header);

/** One entry as a reader sees it: payload as FORMAT.md describes it, and the bytes of a body piece that were kept
 * apart. */
struct mg_plain_entry {
  uint8_t type;
  struct mg_str payload;
  struct mg_str raw;
};

/** The next entry. 1, 0 at the end, -1 when the batch is not what it says. */
int mg_unpack_next(struct mg_unpacker *unpacker, struct mg_plain_entry *entry);
