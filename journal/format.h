/* format.h - the bytes of a journal: preamble, seal, fragments, batches, stage slots. FORMAT.md is the norm.
 *
 * Pure: no file, no clock, no allocation. Everything is little-endian; structures are decoded into plain C structs
 * and never laid over bytes that were not checked. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mem.h"

enum {
  MG_FORMAT_VERSION = 1,
  MG_BLOCK_BYTES = 32768,
  MG_DATA_START = 1024, /* preamble and seal record lie before it */
  MG_SEAL_AT = 512,
  MG_PREAMBLE_BYTES = 512,
  MG_SEAL_BYTES = 512,
  MG_FRAGMENT_HEADER_BYTES = 16,
  MG_FRAGMENT_MIN_BYTES = 24, /* less than this at the end of a block stays zero */
  MG_BATCH_HEADER_BYTES = 96,
  MG_SLOT_BYTES = 32768,
  MG_SLOT_HEADER_BYTES = 128,
  MG_ENTRY_HEADER_BYTES = 16,
  MG_STAGE_HEADER_BYTES = 4096,
  MG_ENTRY_BYTES_MAX =
      MG_SLOT_BYTES - MG_SLOT_HEADER_BYTES - MG_ENTRY_HEADER_BYTES - 8, /* payload; 8: the slot's end */
  MG_BATCH_PLAIN_MAX = MG_SLOT_BYTES,
  MG_FRAMED_MAX = MG_BATCH_HEADER_BYTES + MG_BATCH_PLAIN_MAX + 4 * MG_FRAGMENT_HEADER_BYTES + 64
};

enum { MG_FRAGMENT_MAGIC = 0x464a474d, MG_SEAL_MAGIC = 0x454a474d }; /* "MGJF", "MGJE" */

enum mg_fragment_type { MG_FRAGMENT_FULL = 1, MG_FRAGMENT_FIRST, MG_FRAGMENT_MIDDLE, MG_FRAGMENT_LAST };

enum { MG_BATCH_ZSTD = 1, MG_BATCH_RECOVERED = 4, MG_BATCH_CHAINED = 8 };
enum { MG_SEAL_RECOVERED = 1, MG_SEAL_DAMAGED = 2 };

/** What an entry is. The numbers are on disk. */
enum mg_entry_type {
  MG_ENTRY_START = 1,
  MG_ENTRY_END = 2,
  MG_ENTRY_BODY = 3,
  MG_ENTRY_DROP = 4,
  MG_ENTRY_GAP = 5,
  MG_ENTRY_HEAD = 6
};

struct mg_preamble {
  uint64_t segment_bytes;
  uint32_t shard;
  uint32_t epoch;
  uint64_t number;   /* of the segment in its shard */
  uint64_t base_lsn; /* of the first entry that will be in it */
  uint64_t created_us;
  uint8_t uuid[16];
  uint64_t id_base;  /* added to the ids in START entries */
  uint64_t key_mark; /* of the fingerprints' key; 0: not known */
};

struct mg_seal {
  uint64_t entries;
  uint64_t starts;              /* exchanges begun */
  uint64_t first_lsn, last_lsn; /* last < first: none */
  uint64_t data_end;
  uint64_t t_min_us, t_max_us;
  uint32_t batches;
  uint32_t flags;
};

struct mg_batch {
  uint64_t base_lsn;
  uint32_t epoch;
  uint16_t count; /* entries */
  uint16_t flags;
  uint32_t plain_len;  /* of the entries once decompressed */
  uint32_t coded_len;  /* as they stand behind the header */
  uint32_t raw_len;    /* of the incompressible bytes behind those */
  uint8_t statuses;    /* bit n: an answer with status nxx ended here; bit 0: one without an answer */
  uint8_t latency_max; /* bits of the longest duration in microseconds */
  uint16_t starts;     /* exchanges begun in it */
  uint64_t t_min_us, t_max_us;
  uint64_t base_number; /* what the first entry's differences are counted from */
  uint64_t base_time_us;
};

struct mg_slot {
  uint64_t gen; /* 0: never used */
  uint64_t base_lsn;
  uint32_t epoch;
  uint64_t base_time_us;
  uint64_t base_number;
  uint64_t key; /* of the stage, random */
};

struct mg_stage_header {
  uint32_t epoch;
  uint32_t slots;
  uint32_t shard;
  uint64_t id_base;
  uint64_t key_mark; /* as in a preamble */
};

/** CRC-32C (Castagnoli) of bytes, going on from crc (0 at first). */
uint32_t mg_crc32c(uint32_t crc, const void *bytes, size_t len);

/** What the checksums of a segment start from. */
uint32_t mg_segment_seed(const uint8_t uuid[16]);

static inline uint32_t mg_get32(const void *at)
{
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline uint64_t mg_get64(const void *at)
{
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline void mg_put32(void *at, uint32_t value)
{
  memcpy(at, &value, sizeof value);
}

static inline void mg_put64(void *at, uint64_t value)
{
  memcpy(at, &value, sizeof value);
}

void mg_preamble_write(const struct mg_preamble *preamble, uint8_t out[MG_PREAMBLE_BYTES]);
/** False when the bytes are no preamble of this version: *version then says of which one, 0: of none that can be told. */
bool mg_preamble_read(struct mg_preamble *preamble, const uint8_t in[MG_PREAMBLE_BYTES], uint32_t *version);

/** The seal record with its magic in place; a writer stores the magic (the last four bytes) after the rest. */
void mg_seal_write(const struct mg_seal *seal, uint32_t seed, uint8_t out[MG_SEAL_BYTES]);
bool mg_seal_read(struct mg_seal *seal, uint32_t seed, const uint8_t in[MG_SEAL_BYTES]);

void mg_batch_write(const struct mg_batch *batch, uint8_t out[MG_BATCH_HEADER_BYTES]);
/** False when the lengths cannot be those of a batch of len bytes in all. */
bool mg_batch_read(struct mg_batch *batch, const uint8_t *in, size_t len);

/** The framed size of a batch of len bytes placed at offset: what mg_frame writes. */
size_t mg_framed_size(uint64_t offset, size_t len);
/** Lays a batch out from offset on, as fragments that do not cross a block; out has room for MG_FRAMED_MAX. The batch is
 * len bytes in parts that follow one another. Returns the bytes written. *first says where in out the first fragment
 * is: its magic, MG_FRAGMENT_MAGIC, is not touched and to be stored last. */
size_t mg_frame(uint64_t offset, uint32_t seed, const struct mg_str *parts, size_t len, uint8_t *out, size_t *first);

/** One fragment at offset; room is what is left of its block. 1: whole, *payload and *len set; 0: nothing is written
 * here; -1: damage. */
int mg_fragment_read(const uint8_t *at, size_t room, uint64_t offset, uint32_t seed, enum mg_fragment_type *type,
                     const uint8_t **payload, size_t *len);

void mg_slot_write(const struct mg_slot *slot, uint8_t *out); /* all but the generation, which is stored last */
/** False for a slot that was never used or whose header is damaged. */
bool mg_slot_read(struct mg_slot *slot, const uint8_t *in);
/** The low word of every commit word in a slot. */
uint32_t mg_slot_tag(const struct mg_slot *slot);
/** The checksum of an entry at offset in its slot: over its type, info and aux and its payload. */
uint32_t mg_entry_crc(uint32_t tag, uint64_t gen, uint32_t offset, const uint8_t *entry, uint32_t len);

void mg_stage_header_write(const struct mg_stage_header *header, uint8_t out[512]);
/** *version is what it says, 0 for what is no stage. False when it is not to be read. */
bool mg_stage_header_read(struct mg_stage_header *header, const uint8_t in[512], uint32_t *version);
