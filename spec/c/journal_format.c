/* journal_format.c - the checksum's known answers, round trips of every record, framing at every offset of a block,
 * entries. */
#include "journal_support.h"

TEST(known_checksums)
{
  uint8_t bytes[8192];
  CHECK_INT(mg_crc32c(0, "123456789", 9), 0xe3069283); /* RFC 3720, B.4 and the usual check value */
  memset(bytes, 0, 32);
  CHECK_INT(mg_crc32c(0, bytes, 32), 0x8a9136aa);
  memset(bytes, 0xff, 32);
  CHECK_INT(mg_crc32c(0, bytes, 32), 0x62a8ab43);
  for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
  CHECK_INT(mg_crc32c(0, bytes, 32), 0x46dd794e);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 31 + i / 256);
  for (size_t len = 0; len <= sizeof bytes; len += 513) { /* long runs, which the library takes, equal short ones */
    uint32_t whole = mg_crc32c(0, bytes, len), parts = 0;
    for (size_t at = 0; at < len; at += 100) parts = mg_crc32c(parts, bytes + at, len - at < 100 ? len - at : 100);
    CHECK_INT(whole, parts);
  }
}

TEST(records_come_back)
{
  uint8_t bytes[512];
  uint32_t version;
  struct mg_preamble preamble = {.segment_bytes = 1 << 20,
                                 .shard = 3,
                                 .epoch = 9,
                                 .number = 42,
                                 .base_lsn = 1000,
                                 .created_us = 1700000000000000u,
                                 .uuid = {1, 2, 3},
                                 .id_base = UINT64_MAX,
                                 .key_mark = 0x0123456789abcdef},
                     again = {0};
  mg_preamble_write(&preamble, bytes);
  CHECK(mg_preamble_read(&again, bytes, &version));
  CHECK_INT(version, 1);
  CHECK(memcmp(&preamble, &again, sizeof again) == 0);
  bytes[8] = 2;
  CHECK(!mg_preamble_read(&again, bytes, &version));
  CHECK_INT(version, 0); /* a bit that has fallen over, and no newer program */
  mg_put32(bytes + 508, mg_crc32c(0, bytes, 508));
  CHECK(!mg_preamble_read(&again, bytes, &version));
  CHECK_INT(version, 2);
  struct mg_seal seal = {1, 2, 3, 4, 5, 6, 7, 8, MG_SEAL_RECOVERED}, seal_again = {0};
  mg_seal_write(&seal, 5, bytes);
  CHECK(mg_seal_read(&seal_again, 5, bytes));
  CHECK(memcmp(&seal, &seal_again, sizeof seal) == 0);
  CHECK(!mg_seal_read(&seal_again, 6, bytes)); /* of another segment */
}

/* A batch of every awkward length at every awkward place comes back, and never touches what is not its own. */
TEST(framing_at_every_offset)
{
  static uint8_t file[4 * MG_BLOCK_BYTES], out[MG_FRAMED_MAX + MG_BLOCK_BYTES], whole[sizeof out], batch[40000];
  for (size_t i = 0; i < sizeof batch; i++) batch[i] = (uint8_t)(i * 7);
  static const size_t lens[] = {97, 104, 1000, MG_BLOCK_BYTES - 40, MG_BLOCK_BYTES, MG_BATCH_PLAIN_MAX + 96};
  for (uint64_t offset = MG_DATA_START; offset<MG_BLOCK_BYTES + 64; offset += offset> MG_BLOCK_BYTES - 100 ? 8 : 4096) {
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
      size_t first = 0, len = lens[i], got = 0;
      /* in one part, and in three with an empty one */
      const struct mg_str parts[] = {
          {(const char *)batch, len / 3}, {"", 0}, {(const char *)batch + len / 3, len - len / 3}};
      memset(out, 0x55, sizeof out);
      memset(whole, 0x55, sizeof whole);
      size_t size = mg_frame(offset, 7, parts, len, out, &first), whole_first = 0;
      CHECK_INT(mg_frame(offset, 7, &(struct mg_str){(const char *)batch, len}, len, whole, &whole_first), size);
      CHECK(memcmp(out, whole, size) == 0 && first == whole_first);
      CHECK_INT(size, mg_framed_size(offset, len));
      memset(file, 0, sizeof file);
      memcpy(file + offset, out, size);
      CHECK_INT(mg_get32(file + offset + first), 0x55555555); /* not touched: it is stored last */
      mg_put32(file + offset + first, MG_FRAGMENT_MAGIC);
      for (uint64_t at = offset + first; got < len;) {
        enum mg_fragment_type type;
        const uint8_t *payload;
        size_t part, room = MG_BLOCK_BYTES - at % MG_BLOCK_BYTES;
        if (room < MG_FRAGMENT_MIN_BYTES) {
          at += room;
          continue;
        }
        CHECK_INT(mg_fragment_read(file + at, room, at, 7, &type, &payload, &part), 1);
        CHECK(memcmp(payload, batch + got, part) == 0);
        got += part;
        CHECK_INT(type, got == len ? (part == len ? MG_FRAGMENT_FULL : MG_FRAGMENT_LAST)
                                   : (got == part ? MG_FRAGMENT_FIRST : MG_FRAGMENT_MIDDLE));
        at += MG_FRAGMENT_HEADER_BYTES + ((part + 7) & ~(size_t)7);
      }
      CHECK_INT(got, len);
    }
  }
}

/* Texts and blocks: defined once in a scope, referred to afterwards, all readable from the batch alone. */
TEST(texts_are_written_once)
{
  struct mg_stage stage;
  char folder[256], path[600];
  fresh_folder(folder, "/tmp");
  snprintf(path, sizeof path, "%s/shard-000.stage", folder);
  const struct mg_stage_header header = {.epoch = 4, .id_base = 1};
  CHECK_INT(mg_stage_open(&stage, &mg_file_system, folder, path, mg_stage_bytes(0), &header, 10), 0);
  struct mg_place route = {0}, line = {0};
  size_t lens[3];
  for (int i = 0; i < 3; i++) {
    uint8_t *start = mg_stage_begin(&stage, 400, 1000, 5), *at = mg_prefix_put(&stage, start, 1000 + (uint64_t)i, 5);
    *at++ = 0; /* direction */
    *at++ = 0; /* offset */
    at = mg_text_put(&stage, at, i == 2 ? &line : &route, "some words that are long", 24);
    lens[i] = (size_t)(at - start);
    mg_stage_commit(&stage, lens[i], MG_ENTRY_HEAD, 0, 0);
  }
  CHECK_INT(lens[0] - lens[1], 25);
  CHECK_INT(lens[2], lens[0]);
  CHECK_INT(line.number, 1);
  CHECK(mg_is_defined(&stage, &line));
  mg_stage_end_slot(&stage);
  CHECK(mg_stage_next(&stage, 1, 1));
  CHECK(!mg_is_defined(&stage, &line));
  CHECK(!mg_stage_next(&stage, 1, 1)); /* two slots, both in use */
  mg_stage_close_file(&stage);
  remove_folder(folder);
}

static const uint8_t *joined(const struct mg_packed *packed, uint8_t *out)
{
  size_t done = 0;
  for (const struct mg_str *part = packed->parts; done < packed->len; done += part++->len)
    memcpy(out + done, part->ptr, part->len);
  CHECK_INT(done, packed->len);
  return out;
}

/* Every other entry is a body of 90 bytes that is kept apart: each has another letter. */
static void check_slot(struct mg_packer *packer, struct mg_unpacker *unpacker, const uint8_t *slot, bool check,
                       unsigned count)
{
  static uint8_t bytes[2 * MG_BATCH_PLAIN_MAX];
  struct mg_packed packed;
  mg_pack(packer, slot, check, 0, &packed);
  CHECK_INT(packed.header.count, count);
  CHECK_INT(packed.header.base_lsn, 10);
  CHECK_INT(packed.header.t_min_us, 1000);
  CHECK_INT(packed.header.t_max_us, 1000 + (count - 1) * 3);
  CHECK_INT(packed.header.raw_len, count / 2 * 90);
  CHECK(!check || packed.parts->len == packed.len);
  struct mg_batch batch;
  struct mg_scope scope = {0};
  CHECK(mg_unpack(unpacker, joined(&packed, bytes), packed.len, &batch));
  mg_scope_start(&scope, &batch);
  struct mg_plain_entry plain;
  struct mg_entry entry;
  for (unsigned i = 0; i < count; i++) {
    CHECK_INT(mg_unpack_next(unpacker, &plain), 1);
    CHECK(mg_entry_decode(&scope, &plain, &entry));
    CHECK_INT(entry.number, 5 + i);
    CHECK_INT(entry.time_us, 1000 + i * 3);
    CHECK_INT(entry.content.len, i % 2 ? 90 : 0);
    for (size_t k = 0; k < entry.content.len; k++) CHECK_INT(entry.content.ptr[k], 'a' + i % 26);
  }
  CHECK_INT(mg_unpack_next(unpacker, &plain), 0);
  mg_scope_free(&scope);
}

/* A slot becomes a batch and comes back entry by entry, noise kept apart, more of it than there are parts; statuses and
 * times are in the header. */
TEST(slots_become_batches)
{
  struct mg_stage stage;
  char folder[256], path[600];
  fresh_folder(folder, "/tmp");
  snprintf(path, sizeof path, "%s/shard-000.stage", folder);
  const struct mg_stage_header header = {.epoch = 4, .id_base = 1};
  static const unsigned counts[] = {50, 220};
  for (unsigned k = 0; k < 2; k++) {
    CHECK_INT(mg_stage_open(&stage, &mg_file_system, folder, path, mg_stage_bytes(0), &header, 10), 0);
    for (unsigned i = 0; i < counts[k]; i++) {
      uint8_t *start = mg_stage_begin(&stage, 400, 1000, 5), *at = mg_prefix_put(&stage, start, 1000 + i * 3, 5 + i);
      memset(at, 'a' + i % 26, 100);
      if (i % 2) {
        *at++ = 1, *at++ = 0, *at++ = 0;
        mg_stage_commit(&stage, (size_t)(at + 90 - start), MG_ENTRY_BODY, 0, 90);
      } else {
        mg_stage_commit(&stage, (size_t)(at - start), MG_ENTRY_DROP, 0, 0);
      }
    }
    mg_stage_end_slot(&stage);
    uint64_t gen;
    const uint8_t *slot = mg_stage_oldest(&stage, &gen);
    CHECK(slot && gen == 1);
    struct mg_packer *packer = mg_packer_new(true, 1);
    struct mg_unpacker *unpacker = mg_unpacker_new();
    check_slot(packer, unpacker, slot, false, counts[k]);
    check_slot(packer, unpacker, slot, true, counts[k]);
    mg_packer_free(&packer);
    mg_unpacker_free(&unpacker);
    mg_stage_close_file(&stage);
  }
  remove_folder(folder);
}

RUN_TESTS({"known_checksums", known_checksums}, {"records_come_back", records_come_back},
          {"framing_at_every_offset", framing_at_every_offset}, {"texts_are_written_once", texts_are_written_once},
          {"slots_become_batches", slots_become_batches})
