/* format.c - encoding and decoding of everything that FORMAT.md lays down.
 * Owns: nothing.   May call: mem, ISA-L.   Never: a file, a clock, the heap.   Thread: any. */
#include "format.h"

#include <isa-l/crc.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const char SEGMENT_MAGIC[8] = {'M', 'G', 'J', 'S', 'E', 'G', '\r', '\n'};
static const char STAGE_MAGIC[8] = {'M', 'G', 'J', 'S', 'T', 'G', '\r', '\n'};

/* --- CRC-32C ------------------------------------------------------------------------------------------------------ */

enum { PART_MAX = 1 << 30 }; /* the library counts in int */

#if defined(__x86_64__)
enum { INLINE_MAX = 256 }; /* from here on the library's wide registers win over one instruction for eight bytes */

__attribute__((target("sse4.2"))) static uint32_t crc_short(uint32_t crc, const uint8_t *bytes, size_t len)
{
  uint64_t sum = crc;
  for (; len >= 8; bytes += 8, len -= 8) sum = _mm_crc32_u64(sum, mg_get64(bytes));
  uint32_t rest = (uint32_t)sum, word;
  uint16_t half;
  if (len & 4) memcpy(&word, bytes, 4), rest = _mm_crc32_u32(rest, word), bytes += 4;
  if (len & 2) memcpy(&half, bytes, 2), rest = _mm_crc32_u16(rest, half), bytes += 2;
  if (len & 1) rest = _mm_crc32_u8(rest, *bytes);
  return rest;
}

/* The library leaves the upper halves of the vector registers in use, which slows down every instruction on the lower
 * ones that comes later. */
__attribute__((target("avx"))) static void leave_vectors(void)
{
  if (__builtin_cpu_supports("avx")) _mm256_zeroupper();
}
#else
static void leave_vectors(void)
{
}
#endif

uint32_t mg_crc32c(uint32_t crc, const void *bytes, size_t len)
{
#if defined(__x86_64__)
  if (len < INLINE_MAX && __builtin_cpu_supports("sse4.2")) return ~crc_short(~crc, bytes, len);
#endif
  for (const uint8_t *at = bytes; len;) {
    size_t part = len < PART_MAX ? len : PART_MAX;
    crc = ~crc32_iscsi((unsigned char *)at, (int)part, ~crc);
    at += part;
    len -= part;
  }
  leave_vectors();
  return crc;
}

/* --- preamble and seal -------------------------------------------------------------------------------------------- */

uint32_t mg_segment_seed(const uint8_t uuid[16])
{
  return mg_crc32c(0, uuid, 16);
}

static uint32_t seed_at(uint32_t seed, uint64_t offset)
{
  return mg_crc32c(seed, &offset, sizeof offset);
}

void mg_preamble_write(const struct mg_preamble *preamble, uint8_t out[MG_PREAMBLE_BYTES])
{
  memset(out, 0, MG_PREAMBLE_BYTES);
  memcpy(out, SEGMENT_MAGIC, 8);
  mg_put32(out + 8, MG_FORMAT_VERSION);
  mg_put32(out + 12, MG_BLOCK_BYTES);
  mg_put64(out + 16, preamble->segment_bytes);
  mg_put32(out + 24, preamble->shard);
  mg_put32(out + 28, preamble->epoch);
  mg_put64(out + 32, preamble->number);
  mg_put64(out + 40, preamble->base_lsn);
  mg_put64(out + 48, preamble->created_us);
  memcpy(out + 56, preamble->uuid, 16);
  mg_put64(out + 72, preamble->id_base);
  mg_put64(out + 80, preamble->key_mark);
  mg_put32(out + 508, mg_crc32c(0, out, 508));
}

bool mg_preamble_read(struct mg_preamble *preamble, const uint8_t in[MG_PREAMBLE_BYTES], uint32_t *version)
{
  *version = 0;
  if (memcmp(in, SEGMENT_MAGIC, 8) != 0 || mg_get32(in + 508) != mg_crc32c(0, in, 508)) return false;
  *version = mg_get32(in + 8);
  if (*version != MG_FORMAT_VERSION || mg_get32(in + 12) != MG_BLOCK_BYTES) return false;
  preamble->segment_bytes = mg_get64(in + 16);
  preamble->shard = mg_get32(in + 24);
  preamble->epoch = mg_get32(in + 28);
  preamble->number = mg_get64(in + 32);
  preamble->base_lsn = mg_get64(in + 40);
  preamble->created_us = mg_get64(in + 48);
  memcpy(preamble->uuid, in + 56, 16);
  preamble->id_base = mg_get64(in + 72);
  preamble->key_mark = mg_get64(in + 80);
  return true;
}

void mg_seal_write(const struct mg_seal *seal, uint32_t seed, uint8_t out[MG_SEAL_BYTES])
{
  memset(out, 0, MG_SEAL_BYTES);
  mg_put64(out, seal->entries);
  mg_put64(out + 8, seal->starts);
  mg_put64(out + 16, seal->first_lsn);
  mg_put64(out + 24, seal->last_lsn);
  mg_put64(out + 32, seal->data_end);
  mg_put64(out + 40, seal->t_min_us);
  mg_put64(out + 48, seal->t_max_us);
  mg_put32(out + 56, seal->batches);
  mg_put32(out + 60, seal->flags);
  mg_put32(out + 504, mg_crc32c(seed_at(seed, MG_SEAL_AT), out, 504));
  mg_put32(out + 508, MG_SEAL_MAGIC);
}

bool mg_seal_read(struct mg_seal *seal, uint32_t seed, const uint8_t in[MG_SEAL_BYTES])
{
  if (mg_get32(in + 508) != MG_SEAL_MAGIC) return false;
  if (mg_get32(in + 504) != mg_crc32c(seed_at(seed, MG_SEAL_AT), in, 504)) return false;
  seal->entries = mg_get64(in);
  seal->starts = mg_get64(in + 8);
  seal->first_lsn = mg_get64(in + 16);
  seal->last_lsn = mg_get64(in + 24);
  seal->data_end = mg_get64(in + 32);
  seal->t_min_us = mg_get64(in + 40);
  seal->t_max_us = mg_get64(in + 48);
  seal->batches = mg_get32(in + 56);
  seal->flags = mg_get32(in + 60);
  return true;
}

/* --- batches and fragments ---------------------------------------------------------------------------------------- */

void mg_batch_write(const struct mg_batch *batch, uint8_t out[MG_BATCH_HEADER_BYTES])
{
  memset(out, 0, MG_BATCH_HEADER_BYTES);
  mg_put64(out, batch->base_lsn);
  mg_put32(out + 8, batch->epoch);
  mg_put32(out + 12, batch->count | (uint32_t)batch->flags << 16);
  mg_put32(out + 16, batch->plain_len);
  mg_put32(out + 20, batch->coded_len);
  mg_put32(out + 24, batch->raw_len);
  out[28] = batch->statuses;
  out[29] = batch->latency_max;
  out[30] = (uint8_t)batch->starts;
  out[31] = (uint8_t)(batch->starts >> 8);
  mg_put64(out + 32, batch->t_min_us);
  mg_put64(out + 40, batch->t_max_us);
  mg_put64(out + 48, batch->base_number);
  mg_put64(out + 56, batch->base_time_us);
}

bool mg_batch_read(struct mg_batch *batch, const uint8_t *in, size_t len)
{
  if (len < MG_BATCH_HEADER_BYTES) return false;
  batch->base_lsn = mg_get64(in);
  batch->epoch = mg_get32(in + 8);
  batch->count = (uint16_t)mg_get32(in + 12);
  batch->flags = (uint16_t)(mg_get32(in + 12) >> 16);
  batch->plain_len = mg_get32(in + 16);
  batch->coded_len = mg_get32(in + 20);
  batch->raw_len = mg_get32(in + 24);
  batch->statuses = in[28];
  batch->latency_max = in[29];
  batch->starts = (uint16_t)(in[30] | in[31] << 8);
  batch->t_min_us = mg_get64(in + 32);
  batch->t_max_us = mg_get64(in + 40);
  batch->base_number = mg_get64(in + 48);
  batch->base_time_us = mg_get64(in + 56);
  if (batch->plain_len > MG_BATCH_PLAIN_MAX || batch->raw_len > MG_BATCH_PLAIN_MAX) return false;
  if (!(batch->flags & MG_BATCH_ZSTD) && batch->coded_len != batch->plain_len) return false;
  return batch->count && (uint64_t)batch->coded_len + batch->raw_len + MG_BATCH_HEADER_BYTES == len;
}

static size_t padded(size_t len)
{
  return (len + 7) & ~(size_t)7;
}

/* What of len payload bytes goes into a fragment at offset; 0 when the rest of the block is too small for one. */
static size_t fragment_share(uint64_t offset, size_t len)
{
  size_t room = MG_BLOCK_BYTES - (size_t)(offset % MG_BLOCK_BYTES);
  if (room < MG_FRAGMENT_MIN_BYTES) return 0;
  room -= MG_FRAGMENT_HEADER_BYTES;
  return len < room ? len : room;
}

size_t mg_framed_size(uint64_t offset, size_t len)
{
  uint64_t at = offset;
  while (len) {
    size_t share = fragment_share(at, len);
    at += share ? MG_FRAGMENT_HEADER_BYTES + padded(share) : MG_BLOCK_BYTES - at % MG_BLOCK_BYTES;
    len -= share;
  }
  return (size_t)(at - offset);
}

/* What is left of a batch that lies in parts. */
struct source {
  const struct mg_str *part;
  size_t done; /* of that part */
};

static void take(struct source *from, uint8_t *out, size_t len)
{
  while (len) {
    size_t share = from->part->len - from->done;
    if (share > len) share = len;
    memcpy(out, from->part->ptr + from->done, share);
    out += share;
    len -= share;
    from->done += share;
    if (from->done == from->part->len) *from = (struct source){from->part + 1, 0};
  }
}

/* All but the magic. */
static void fragment_write(uint8_t *out, uint64_t offset, uint32_t seed, enum mg_fragment_type type,
                           struct source *from, size_t len)
{
  mg_put32(out + 8, (uint32_t)len | (uint32_t)type << 24);
  mg_put32(out + 12, 0);
  take(from, out + MG_FRAGMENT_HEADER_BYTES, len);
  memset(out + MG_FRAGMENT_HEADER_BYTES + len, 0, padded(len) - len);
  mg_put32(out + 4, mg_crc32c(seed_at(seed, offset), out + 8, len + 8));
}

size_t mg_frame(uint64_t offset, uint32_t seed, const struct mg_str *parts, size_t len, uint8_t *out, size_t *first)
{
  struct source from = {parts, 0};
  size_t at = 0, done = 0;
  while (done < len) {
    size_t share = fragment_share(offset + at, len - done);
    if (!share) {
      size_t rest = MG_BLOCK_BYTES - (size_t)((offset + at) % MG_BLOCK_BYTES);
      memset(out + at, 0, rest);
      at += rest;
      continue;
    }
    bool begins = done == 0, ends = done + share == len;
    if (begins) *first = at;
    enum mg_fragment_type type = begins && ends ? MG_FRAGMENT_FULL
                                 : begins       ? MG_FRAGMENT_FIRST
                                 : ends         ? MG_FRAGMENT_LAST
                                                : MG_FRAGMENT_MIDDLE;
    if (!begins) mg_put32(out + at, MG_FRAGMENT_MAGIC);
    fragment_write(out + at, offset + at, seed, type, &from, share);
    at += MG_FRAGMENT_HEADER_BYTES + padded(share);
    done += share;
  }
  return at;
}

int mg_fragment_read(const uint8_t *at, size_t room, uint64_t offset, uint32_t seed, enum mg_fragment_type *type,
                     const uint8_t **payload, size_t *len)
{
  if (room < MG_FRAGMENT_MIN_BYTES) return -1;
  uint32_t magic = mg_get32(at), word = mg_get32(at + 8);
  if (magic == 0) return 0;
  *len = word & 0xffffff;
  *type = (enum mg_fragment_type)(word >> 24);
  if (magic != MG_FRAGMENT_MAGIC || *len == 0 || *len > room - MG_FRAGMENT_HEADER_BYTES) return -1;
  if (*type < MG_FRAGMENT_FULL || *type > MG_FRAGMENT_LAST || mg_get32(at + 12) != 0) return -1;
  if (mg_get32(at + 4) != mg_crc32c(seed_at(seed, offset), at + 8, *len + 8)) return -1;
  *payload = at + MG_FRAGMENT_HEADER_BYTES;
  return 1;
}

/* --- the stage ---------------------------------------------------------------------------------------------------- */

static uint32_t slot_crc(const uint8_t *slot)
{
  return mg_crc32c(mg_crc32c(0, slot, 20), slot + 24, 24);
}

void mg_slot_write(const struct mg_slot *slot, uint8_t *out)
{
  uint8_t header[48];
  mg_put64(header, slot->gen);
  mg_put64(header + 8, slot->base_lsn);
  mg_put32(header + 16, slot->epoch);
  mg_put64(header + 24, slot->base_time_us);
  mg_put64(header + 32, slot->base_number);
  mg_put64(header + 40, slot->key);
  mg_put32(header + 20, slot_crc(header));
  memcpy(out + 8, header + 8, 40);
}

bool mg_slot_read(struct mg_slot *slot, const uint8_t *in)
{
  slot->gen = mg_get64(in);
  slot->base_lsn = mg_get64(in + 8);
  slot->epoch = mg_get32(in + 16);
  slot->base_time_us = mg_get64(in + 24);
  slot->base_number = mg_get64(in + 32);
  slot->key = mg_get64(in + 40);
  return slot->gen && mg_get32(in + 20) == slot_crc(in);
}

uint32_t mg_slot_tag(const struct mg_slot *slot)
{
  uint64_t mixed = (slot->gen ^ (uint64_t)slot->epoch << 40 ^ slot->key) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(mixed >> 32) | 1; /* never 0: fresh memory is no commit */
}

uint32_t mg_entry_crc(uint32_t tag, uint64_t gen, uint32_t offset, const uint8_t *entry, uint32_t len)
{
  uint32_t seed = tag ^ (uint32_t)gen * 0x85ebca6bu ^ (offset << 16 | (len & 0xffff));
  return mg_crc32c(seed, entry + 12, 4 + (size_t)len);
}

void mg_stage_header_write(const struct mg_stage_header *header, uint8_t out[512])
{
  memset(out, 0, 512);
  memcpy(out, STAGE_MAGIC, 8);
  mg_put32(out + 8, MG_FORMAT_VERSION);
  mg_put32(out + 12, header->epoch);
  mg_put32(out + 16, header->slots);
  mg_put32(out + 20, header->shard);
  mg_put64(out + 24, header->id_base);
  mg_put64(out + 32, header->key_mark);
  mg_put32(out + 508, mg_crc32c(0, out, 508));
}

bool mg_stage_header_read(struct mg_stage_header *header, const uint8_t in[512], uint32_t *version)
{
  *version = 0;
  if (memcmp(in, STAGE_MAGIC, 8) != 0 || mg_get32(in + 508) != mg_crc32c(0, in, 508)) return false;
  *version = mg_get32(in + 8);
  if (*version != MG_FORMAT_VERSION) return false;
  header->epoch = mg_get32(in + 12);
  header->slots = mg_get32(in + 16);
  header->shard = mg_get32(in + 20);
  header->id_base = mg_get64(in + 24);
  header->key_mark = mg_get64(in + 32);
  return header->slots >= 2 && header->slots <= 4096;
}
