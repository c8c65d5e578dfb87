/* journal_stage.c - a slot of a stage with any bytes in it: recovery makes a batch of what is committed there, and
 * reading that batch gives as many entries as it says. */
#include "fuzz.h"

#include "batch.h"

static void fuzz_one(const uint8_t *bytes, size_t len)
{
  _Alignas(64) static uint8_t slot[MG_SLOT_BYTES];
  const struct mg_slot header = {.gen = 3, .base_lsn = 7, .epoch = 2, .base_time_us = 1, .base_number = 1};
  uint32_t tag = mg_slot_tag(&header), at = MG_SLOT_HEADER_BYTES;
  memset(slot, 0, sizeof slot);
  mg_slot_write(&header, slot);
  mg_put64(slot, header.gen);
  /* pieces of the input as entries, each with a first byte that says how it is to be spoilt */
  while (len > 4) {
    uint32_t part = bytes[1] | (uint32_t)bytes[2] << 8;
    if (part == 0 || part > len - 3 || at + MG_ENTRY_HEADER_BYTES + part + 8 > MG_SLOT_BYTES) break;
    memcpy(slot + at + MG_ENTRY_HEADER_BYTES, bytes + 3, part);
    mg_put32(slot + at + 12, (uint32_t)(bytes[0] & 7) | (uint32_t)bytes[1] << 16);
    mg_put32(slot + at + 8, mg_entry_crc(tag, 3, at, slot + at, part) ^ (bytes[0] == 255));
    mg_put64(slot + at, (uint64_t)part << 32 | (tag ^ (bytes[0] == 254)));
    at += MG_ENTRY_HEADER_BYTES + ((part + 7) & ~7u);
    bytes += 3 + part;
    len -= 3 + part;
  }
  struct mg_unpacker *unpacker = mg_unpacker_new();
  struct mg_batch batch;
  struct mg_plain_entry entry;
  if (mg_unpack_slot(unpacker, slot, &batch)) {
    unsigned count = 0;
    while (mg_unpack_next(unpacker, &entry) == 1) count++;
    MUST(count == batch.count);
  }
  mg_unpacker_free(&unpacker);
}
