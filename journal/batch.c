/* batch.c - slots to batches and batches to entries.
 * Owns: scratch buffers and the compressor.   May call: format, stage (reading), zstd.   Never: a file.   Thread: as
 * in batch.h. */
#include "batch.h"

#include <stdlib.h>
#include <zstd.h>

#include "varint.h"

enum {
  RAW_FLAG = 0x80,
  COMPRESS_MIN = 128,
  RAW_SHARE = 4,
  BODY_SHARE = 8,
  QUICK_LEVEL = 1, /* and below: chosen for speed */
  QUICK_HASH_LOG = 9,
  SHORT_ENTRY = 64, /* bytes on average */
  CODED_MAX = MG_BATCH_PLAIN_MAX + 1024,
  PARTS = 66 /* a slot of bodies that are tried at all, and what goes before */
};

struct mg_packer {
  ZSTD_CCtx *zstd; /* NULL: batches stay plain */
  int level;
  struct mg_str parts[PARTS];
  unsigned part_count;
  uint32_t copied; /* of what is kept apart */
  /* What goes out is put together in one of these, so that as little as possible is moved: entries begin behind room
   * for the header, and what is kept apart, where it is not left in the slot, has its place behind them. */
  uint8_t plain[MG_BATCH_HEADER_BYTES + MG_BATCH_PLAIN_MAX + MG_BATCH_PLAIN_MAX];
  uint8_t coded[MG_BATCH_HEADER_BYTES + CODED_MAX + MG_BATCH_PLAIN_MAX];
};

static uint8_t *plain_entries(struct mg_packer *packer)
{
  return packer->plain + MG_BATCH_HEADER_BYTES;
}

static uint8_t *kept_apart(struct mg_packer *packer)
{
  return plain_entries(packer) + MG_BATCH_PLAIN_MAX;
}

struct mg_packer *mg_packer_new(bool compress, int level)
{
  struct mg_packer *packer = mg_alloc(sizeof *packer);
  packer->zstd = NULL;
  packer->level = level;
  if (!compress) return packer;
  packer->zstd = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_checksumFlag, 0);
  return packer;
}

void mg_packer_free(struct mg_packer **pointer)
{
  struct mg_packer *packer = *pointer;
  *pointer = NULL;
  if (!packer) return;
  ZSTD_freeCCtx(packer->zstd);
  free(packer);
}

/* What the header says of the entries in all. */
static void summarise(struct mg_batch *batch, uint64_t *time_us, const struct mg_staged *entry)
{
  struct mg_cursor in = {entry->payload, entry->payload + entry->len, false};
  *time_us += (uint64_t)mg_zigzag_get(&in);
  if (*time_us < batch->t_min_us) batch->t_min_us = *time_us;
  if (*time_us > batch->t_max_us) batch->t_max_us = *time_us;
  batch->count++;
  if (entry->type != MG_ENTRY_END) return;
  batch->statuses |= (uint8_t)(1u << (entry->aux / 100 < 8 ? entry->aux / 100 : 0));
  if (entry->info > batch->latency_max) batch->latency_max = entry->info;
}

/* What is kept apart is left where it is, or copied behind the others; the first part is for all the rest. */
static void keep_apart(struct mg_packer *packer, const uint8_t *bytes, uint32_t len, bool copy, struct mg_batch *batch)
{
  struct mg_str *last = &packer->parts[packer->part_count - 1];
  if (!copy && packer->part_count < PARTS - 1) {
    packer->parts[packer->part_count++] = mg_str((const char *)bytes, len);
  } else {
    uint8_t *to = kept_apart(packer) + packer->copied;
    memcpy(to, bytes, len);
    if (packer->copied)
      last->len += len;
    else
      packer->parts[packer->part_count++] = mg_str((const char *)to, len);
    packer->copied += len;
  }
  batch->raw_len += len;
}

/* All entries behind one another without their commit words. Returns how much of them is bodies. */
static uint32_t gather(struct mg_packer *packer, const uint8_t *slot, const struct mg_slot *header, bool check,
                       struct mg_batch *batch)
{
  uint32_t at = MG_SLOT_HEADER_BYTES, tag = mg_slot_tag(header), bodies = 0;
  uint8_t *plain = plain_entries(packer);
  uint64_t time_us = header->base_time_us;
  struct mg_staged entry;
  packer->part_count = 1;
  packer->copied = 0;
  while (mg_slot_entry(slot, tag, header->gen, check, &at, &entry) == 1) {
    uint32_t apart = entry.type == MG_ENTRY_BODY && entry.aux <= entry.len ? entry.aux : 0;
    uint32_t kept = entry.len - apart;
    summarise(batch, &time_us, &entry);
    batch->starts = (uint16_t)(batch->starts + (entry.type == MG_ENTRY_START));
    *plain++ = (uint8_t)(entry.type | (apart ? RAW_FLAG : 0));
    plain = mg_varint_put(plain, kept);
    memcpy(plain, entry.payload, kept);
    plain += kept;
    if (entry.type == MG_ENTRY_BODY) bodies += kept;
    if (!apart) continue;
    plain = mg_varint_put(plain, apart);
    keep_apart(packer, entry.payload + kept, apart, check, batch);
  }
  batch->plain_len = (uint32_t)(plain - plain_entries(packer));
  return bodies;
}

/* Compresses the entries where that makes the batch smaller by something: beside bodies that are kept as they are it
 * would take most of the time for a tenth of the bytes. Returns where they are, with room for the header before. */
static uint8_t *code(struct mg_packer *packer, struct mg_batch *batch, uint32_t bodies)
{
  batch->coded_len = batch->plain_len;
  bool worth = batch->plain_len >= COMPRESS_MIN && batch->plain_len >= batch->raw_len / RAW_SHARE;
  if (!packer->zstd || !worth) return plain_entries(packer);
  /* What lines have in common is found by definitions before zstd sees it. What is left needs no more of a table than
   * stays in the nearest cache, which takes half the time for the same bytes; the text of bodies does need it. */
  bool small_table = packer->level <= QUICK_LEVEL && bodies < batch->plain_len / BODY_SHARE;
  ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_hashLog, small_table ? QUICK_HASH_LOG : 0);
  /* Entries without headers are numbers and fingerprints between what comes again: an entropy code for those would
   * take a third of the time for a tenth of the bytes. A target length is what zstd's quick strategy leaves it out
   * for. */
  bool short_entries = small_table && batch->plain_len < (uint32_t)batch->count * SHORT_ENTRY;
  ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_targetLength, short_entries);
  uint8_t *coded = packer->coded + MG_BATCH_HEADER_BYTES;
  size_t result = ZSTD_compress2(packer->zstd, coded, CODED_MAX, plain_entries(packer), batch->plain_len);
  if (ZSTD_isError(result) || result >= batch->plain_len) return plain_entries(packer);
  batch->coded_len = (uint32_t)result;
  batch->flags |= MG_BATCH_ZSTD;
  return coded;
}

void mg_pack(struct mg_packer *packer, const uint8_t *slot, bool check, uint16_t flags, struct mg_packed *out)
{
  struct mg_slot header;
  memset(out, 0, sizeof *out);
  if (!mg_slot_read(&header, slot)) return;
  struct mg_batch *batch = &out->header;
  *batch = (struct mg_batch){.base_lsn = header.base_lsn,
                             .epoch = header.epoch,
                             .flags = flags,
                             .t_min_us = UINT64_MAX,
                             .base_number = header.base_number,
                             .base_time_us = header.base_time_us};
  uint32_t bodies = gather(packer, slot, &header, check, batch);
  if (!batch->count) return;
  uint8_t *first = code(packer, batch, bodies) - MG_BATCH_HEADER_BYTES;
  size_t first_len = MG_BATCH_HEADER_BYTES + batch->coded_len;
  mg_batch_write(batch, first);
  if (check && batch->raw_len) {
    memmove(first + first_len, kept_apart(packer), batch->raw_len);
    first_len += batch->raw_len;
  }
  packer->parts[0] = mg_str((const char *)first, first_len);
  out->parts = packer->parts;
  out->len = MG_BATCH_HEADER_BYTES + batch->coded_len + batch->raw_len;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct mg_unpacker {
  ZSTD_DCtx *zstd;
  struct mg_cursor plain, raw;
  struct mg_packer *packer; /* for slots */
  uint8_t bytes[MG_BATCH_PLAIN_MAX];
};

struct mg_unpacker *mg_unpacker_new(void)
{
  struct mg_unpacker *unpacker = mg_alloc(sizeof *unpacker);
  unpacker->zstd = ZSTD_createDCtx();
  unpacker->packer = NULL;
  unpacker->plain = unpacker->raw = (struct mg_cursor){0};
  return unpacker;
}

void mg_unpacker_free(struct mg_unpacker **pointer)
{
  struct mg_unpacker *unpacker = *pointer;
  *pointer = NULL;
  if (!unpacker) return;
  mg_packer_free(&unpacker->packer);
  ZSTD_freeDCtx(unpacker->zstd);
  free(unpacker);
}

bool mg_unpack(struct mg_unpacker *unpacker, const uint8_t *bytes, size_t len, struct mg_batch *header)
{
  if (!mg_batch_read(header, bytes, len)) return false;
  const uint8_t *coded = bytes + MG_BATCH_HEADER_BYTES;
  const uint8_t *plain = coded;
  if (header->flags & MG_BATCH_ZSTD) {
    size_t result = ZSTD_decompressDCtx(unpacker->zstd, unpacker->bytes, header->plain_len, coded, header->coded_len);
    if (ZSTD_isError(result) || result != header->plain_len) return false;
    plain = unpacker->bytes;
  }
  unpacker->plain = (struct mg_cursor){plain, plain + header->plain_len, false};
  unpacker->raw = (struct mg_cursor){coded + header->coded_len, coded + header->coded_len + header->raw_len, false};
  return true;
}

bool mg_unpack_slot(struct mg_unpacker *unpacker, const uint8_t *slot, struct mg_batch *header)
{
  struct mg_packed packed;
  if (!unpacker->packer) unpacker->packer = mg_packer_new(false, 0);
  mg_pack(unpacker->packer, slot, true, 0, &packed);
  return packed.len && mg_unpack(unpacker, (const uint8_t *)packed.parts->ptr, packed.len, header);
}

int mg_unpack_next(struct mg_unpacker *unpacker, struct mg_plain_entry *entry)
{
  struct mg_cursor *in = &unpacker->plain;
  if (in->at == in->end) return in->failed || unpacker->raw.at != unpacker->raw.end ? -1 : 0;
  uint8_t type = mg_byte_get(in);
  entry->type = type & (uint8_t)~RAW_FLAG;
  entry->payload = mg_bytes_get(in, mg_varint_get(in));
  entry->raw = type & RAW_FLAG ? mg_bytes_get(&unpacker->raw, mg_varint_get(in)) : mg_str("", 0);
  return in->failed || unpacker->raw.failed ? -1 : 1;
}
