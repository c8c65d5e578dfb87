/* journal_damage.c - heal.zero-page, heal.swap-blocks, frame.misplaced-record, heal.seal-lies, heal.flip-the-stage,
 * heal.unknown-version, heal.two-rounds, forge.stage, forge.zstd: what a process left behind is damaged in one way after
 * the other, and recovered. What is read then is right, there once, and what is not there is missing by number. */
#include <zstd.h>

#include "journal_support.h"
#include "reader.h"

enum {
  ENTRIES = 420,
  BLOCKS = 12,
  OPEN_BYTES = BLOCKS * MG_BLOCK_BYTES,
  STAGE_BYTES = MG_STAGE_HEADER_BYTES + 4 * MG_SLOT_BYTES
};

/* A folder as a process left it that was killed, and the bytes of its two files. */
static char folder[256], segment_path[600], stage_path[600];
static uint8_t segment[OPEN_BYTES], stage[STAGE_BYTES];

static struct mg_shard_options options_here(void)
{
  struct mg_shard_options options = support_options(folder);
  options.segment_bytes = OPEN_BYTES;
  return options;
}

static void record_and_die(void)
{
  struct mg_shard_options options = options_here();
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  if (mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error) != 0) _exit(1);
  for (unsigned i = 1; i <= ENTRIES; i++) {
    if (!append_one(shard)) _exit(2);
    if (i % 9 == 0 && i < ENTRIES - 20) mg_shard_flush(shard);
  }
  kill(getpid(), SIGKILL);
}

static void read_file(const char *path, uint8_t *bytes, size_t len)
{
  int fd = open(path, O_RDONLY);
  CHECK_INT(read(fd, bytes, len), len);
  close(fd);
}

static void write_file(const char *path, const uint8_t *bytes, size_t len)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK_INT(write(fd, bytes, len), len);
  close(fd);
}

static void leave_behind(void)
{
  fresh_folder(folder, "/dev/shm");
  snprintf(segment_path, sizeof segment_path, "%s/shard-000-0000000001.open", folder);
  snprintf(stage_path, sizeof stage_path, "%s/shard-000.stage", folder);
  pid_t pid = fork();
  int status;
  if (pid == 0) record_and_die();
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
  read_file(segment_path, segment, sizeof segment);
  read_file(stage_path, stage, sizeof stage);
}

static void restore(const uint8_t *segment_bytes, const uint8_t *stage_bytes)
{
  DIR *entries = opendir(folder);
  for (struct dirent *entry; (entry = readdir(entries));)
    if (entry->d_name[0] != '.') CHECK_INT(unlinkat(dirfd(entries), entry->d_name, 0), 0);
  closedir(entries);
  write_file(segment_path, segment_bytes, OPEN_BYTES);
  write_file(stage_path, stage_bytes, STAGE_BYTES);
}

struct seen {
  struct census census;
  uint64_t missing, between;
  unsigned damages;
};

static bool see_entry(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                      const struct mg_entry *entry)
{
  struct seen *seen = context;
  (void)scope;
  if (seen->census.last) seen->between += origin->lsn - seen->census.last - 1;
  count_entry(&seen->census, origin->lsn, entry);
  return true;
}

static void see_finding(void *context, const struct mg_finding *finding)
{
  struct seen *seen = context;
  seen->missing += finding->kind == MG_FOUND_MISSING ? finding->count : 0;
  seen->damages += finding->kind == MG_FOUND_DAMAGE;
  CHECK(finding->kind != MG_FOUND_REPEATED);
}

static struct seen look(void)
{
  struct seen seen = {0};
  const struct mg_reader_options options = {.shard = -1};
  const struct mg_reader_events events = {.context = &seen, .entry = see_entry, .finding = see_finding};
  CHECK_INT(mg_reader_walk(&mg_file_system, folder, &options, &events), 0);
  CHECK_INT(seen.census.wrong + seen.census.repeats, 0);
  CHECK_INT(seen.missing, seen.between);
  CHECK(seen.census.last <= ENTRIES);
  return seen;
}

static int recover(struct mg_recovery *recovery, struct mg_buf *error)
{
  struct mg_shard_options options = options_here();
  struct mg_shard *shard;
  int result = mg_shard_open(&shard, &options, &mg_file_system, recovery, error);
  if (result == 0) CHECK_INT(mg_shard_close(&shard), 0);
  return result;
}

static unsigned untold; /* recoveries that lost something and did not say so */

/* Recovers and reads; at most so many entries may be lost. */
static struct seen heal(unsigned may_lose)
{
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  look(); /* as it is found */
  CHECK_INT(recover(&recovery, &error), 0);
  struct seen seen = look();
  CHECK(seen.census.entries + may_lose >= ENTRIES);
  bool told = recovery.damages || recovery.set_aside || seen.damages || seen.missing;
  if (seen.census.entries < ENTRIES && !told) untold++;
  return seen;
}

enum { A_BLOCK = 32768 / 450 + 20, TWO_BLOCKS = 2 * A_BLOCK };

TEST(undamaged)
{
  restore(segment, stage);
  CHECK_INT(heal(0).census.entries, ENTRIES);
}

TEST(zero_page)
{
  static uint8_t bytes[OPEN_BYTES];
  for (size_t at = 4096; at < OPEN_BYTES; at += 4096) { /* the first holds the preamble */
    memcpy(bytes, segment, sizeof bytes);
    memset(bytes + at, 0, 4096);
    restore(bytes, stage);
    heal(A_BLOCK);
  }
}

TEST(swap_blocks)
{
  static uint8_t bytes[OPEN_BYTES];
  for (size_t block = 1; block + 1 < BLOCKS; block++) {
    memcpy(bytes, segment, sizeof bytes);
    memcpy(bytes + block * MG_BLOCK_BYTES, segment + (block + 1) * MG_BLOCK_BYTES, MG_BLOCK_BYTES);
    memcpy(bytes + (block + 1) * MG_BLOCK_BYTES, segment + block * MG_BLOCK_BYTES, MG_BLOCK_BYTES);
    restore(bytes, stage);
    heal(2 * TWO_BLOCKS);
  }
}

/* A whole fragment, with its checksum, at the start of every other block. */
TEST(misplaced_record)
{
  static uint8_t bytes[OPEN_BYTES];
  size_t len = MG_FRAGMENT_HEADER_BYTES + (segment[MG_DATA_START + 8] | (size_t)segment[MG_DATA_START + 9] << 8);
  for (size_t block = 1; block < BLOCKS; block++) {
    memcpy(bytes, segment, sizeof bytes);
    memcpy(bytes + block * MG_BLOCK_BYTES, segment + MG_DATA_START, len);
    restore(bytes, stage);
    heal(TWO_BLOCKS);
  }
}

/* Seal records whose checksum is right and whose numbers are not. */
TEST(seal_lies)
{
  static uint8_t bytes[OPEN_BYTES];
  const struct mg_seal lies[] = {
      {.entries = 1, .first_lsn = 1, .last_lsn = 1, .data_end = UINT64_MAX, .batches = 1},
      {.entries = ENTRIES, .first_lsn = 1, .last_lsn = ENTRIES, .data_end = OPEN_BYTES * 3, .batches = UINT32_MAX},
      {.entries = UINT64_MAX, .starts = UINT64_MAX, .first_lsn = 900, .last_lsn = 3, .data_end = 0},
      {.entries = 9, .first_lsn = 1, .last_lsn = ENTRIES, .data_end = MG_DATA_START, .batches = 40},
      {.entries = 9, .first_lsn = 1, .last_lsn = 9, .data_end = MG_DATA_START + 5, .batches = 1, .flags = UINT32_MAX}};
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    memcpy(bytes, segment, sizeof bytes);
    mg_seal_write(&lies[i], mg_segment_seed(bytes + 56), bytes + MG_SEAL_AT);
    restore(bytes, stage);
    heal(0); /* without its final name a segment is counted, not believed */
  }
}

TEST(flip_the_stage)
{
  static uint8_t bytes[STAGE_BYTES];
  unsigned flips = 0;
  for (size_t at = 0; at < STAGE_BYTES; at += at < 64 ? 1 : at < MG_STAGE_HEADER_BYTES ? 509 : 211) {
    memcpy(bytes, stage, sizeof bytes);
    bytes[at] ^= (uint8_t)(1 << at % 8);
    restore(segment, bytes);
    heal(3 * A_BLOCK); /* at most what no segment has */
    flips++;
  }
  /* A commit word or slot header that is not right is like one that was never written; an entry that is not, is told. */
  CHECK(untold < flips / 4);
  untold = 0;
}

/* What a newer program wrote is left alone; what is no segment is set aside, not deleted. */
TEST(unknown_version)
{
  static uint8_t bytes[OPEN_BYTES], after[OPEN_BYTES];
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  memcpy(bytes, segment, sizeof bytes);
  bytes[8] = MG_FORMAT_VERSION + 1;
  mg_put32(bytes + 508, mg_crc32c(0, bytes, 508));
  restore(bytes, stage);
  CHECK_INT(recover(&recovery, &error), -EPROTONOSUPPORT);
  mg_buf_append(&error, "", 1);
  CHECK(strstr(error.ptr, "newer moongate"));
  read_file(segment_path, after, sizeof after);
  CHECK(memcmp(after, bytes, sizeof after) == 0);
  read_file(stage_path, after, STAGE_BYTES);
  CHECK(memcmp(after, stage, STAGE_BYTES) == 0);
  error.len = 0;
  static uint8_t newer[STAGE_BYTES];
  memcpy(newer, stage, sizeof newer);
  newer[8] = MG_FORMAT_VERSION + 1;
  mg_put32(newer + 508, mg_crc32c(0, newer, 508));
  memcpy(bytes, segment, sizeof bytes);
  restore(bytes, newer);
  CHECK_INT(recover(&recovery, &error), -EPROTONOSUPPORT);
  mg_buf_append(&error, "", 1);
  CHECK(strstr(error.ptr, "its stage"));
  read_file(stage_path, after, STAGE_BYTES);
  CHECK(memcmp(after, newer, STAGE_BYTES) == 0);
  mg_buf_free(&error);
  memset(bytes, 'x', 64);
  restore(bytes, stage);
  CHECK_INT(recover(&recovery, &error), 0);
  CHECK_INT(recovery.set_aside, 1);
  char aside[700];
  snprintf(aside, sizeof aside, "%s.damaged-0", segment_path);
  read_file(aside, after, sizeof after);
  CHECK(memcmp(after, bytes, sizeof after) == 0);
  look();
}

/* Damage, recovery, and damage to what recovery made of it. */
TEST(two_rounds)
{
  static uint8_t bytes[OPEN_BYTES];
  for (size_t first = 1; first < BLOCKS; first += 2) {
    memcpy(bytes, segment, sizeof bytes);
    memset(bytes + first * MG_BLOCK_BYTES + 8000, 0xff, 100);
    restore(bytes, stage);
    heal(A_BLOCK);
    char sealed[600];
    snprintf(sealed, sizeof sealed, "%s/shard-000-0000000001.mgj", folder);
    int fd = open(sealed, O_WRONLY);
    CHECK_INT(pwrite(fd, "damage", 6, (off_t)(first - 1) * MG_BLOCK_BYTES + 12000), 6);
    close(fd);
    heal(TWO_BLOCKS);
  }
}

/* --- forgeries ---------------------------------------------------------------------------------------------------- */

static void put_entry(uint8_t *slot, uint32_t at, uint64_t gen, uint32_t tag, uint32_t len)
{
  mg_put32(slot + at + 12, MG_ENTRY_HEAD);
  mg_put32(slot + at + 8, mg_entry_crc(tag, gen, at, slot + at, len));
  mg_put64(slot + at, (uint64_t)len << 32 | tag);
}

/* An entry's bytes hold whole entries with the right tags and checksums for where they stand. Whatever bit before them
 * is flipped, none of them is taken for one. */
TEST(forge_stage)
{
  enum { GEN = 3, EPOCH = 2, FIRST = MG_SLOT_HEADER_BYTES, LEN = 2000, FORGED_LEN = 40 };
  static _Alignas(64) uint8_t slot[MG_SLOT_BYTES];
  const struct mg_slot header = {.gen = GEN, .base_lsn = 1, .epoch = EPOCH, .base_time_us = 1, .base_number = 1};
  uint32_t tag = mg_slot_tag(&header);
  mg_slot_write(&header, slot);
  mg_put64(slot, GEN);
  for (uint32_t at = FIRST + 16; at + 64 < FIRST + LEN; at += 56) {
    memset(slot + at + MG_ENTRY_HEADER_BYTES, 'F', FORGED_LEN);
    put_entry(slot, at, GEN, tag, FORGED_LEN);
  }
  put_entry(slot, FIRST, GEN, tag, LEN);
  for (unsigned bit = 0; bit < 16 * 8; bit++) {
    struct mg_staged entry;
    uint32_t at = FIRST;
    slot[FIRST + bit / 8] ^= (uint8_t)(1 << bit % 8);
    while (mg_slot_entry(slot, tag, GEN, true, &at, &entry) == 1) CHECK(entry.len != FORGED_LEN);
    slot[FIRST + bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

/* A body lies where the slot's next round will be, and is made of entries with the tag and checksum of that round, as
 * far as somebody can know them who only sends requests. */
TEST(forge_next_round)
{
  enum { LEN = 40, EACH = MG_ENTRY_HEADER_BYTES + LEN, BODY = 200 * EACH, GEN = 3, SLOTS = 2 };
  char own[256], path[600];
  struct mg_stage staged;
  struct mg_slot slot = {.gen = GEN, .epoch = 1};
  struct mg_staged entry;
  const struct mg_stage_header header = {.epoch = 1};
  uint32_t at = MG_SLOT_HEADER_BYTES + MG_ENTRY_HEADER_BYTES, tag = mg_slot_tag(&slot);
  fresh_folder(own, "/tmp");
  snprintf(path, sizeof path, "%s/stage", own);
  CHECK_INT(mg_stage_open(&staged, &mg_file_system, own, path, mg_stage_bytes(SLOTS * MG_SLOT_BYTES), &header, 1), 0);
  memset(mg_stage_begin(&staged, BODY, 1, 1), 'F', BODY);
  for (unsigned i = 0; i < BODY / EACH; i++) put_entry(staged.slot, at + i * EACH, GEN, tag, LEN);
  mg_stage_commit(&staged, BODY, MG_ENTRY_BODY, 0, 0);
  for (uint64_t gen = 2; gen <= GEN; gen++) {
    mg_stage_end_slot(&staged);
    mg_stage_retire(&staged, gen - 1);
    memset(mg_stage_begin(&staged, EACH, 1, 1), 'x', EACH);
    mg_stage_commit(&staged, EACH, MG_ENTRY_BODY, 0, 0);
  }
  CHECK(mg_slot_read(&slot, staged.slot) && slot.gen == GEN);
  at = MG_SLOT_HEADER_BYTES;
  tag = mg_slot_tag(&slot);
  CHECK_INT(mg_slot_entry(staged.slot, tag, GEN, true, &at, &entry), 1);
  CHECK_INT(mg_slot_entry(staged.slot, tag, GEN, true, &at, &entry), 0);
  mg_stage_close_file(&staged);
  remove_folder(own);
}

/* A batch that says plain_len and holds a frame of `real` zeros, `cut` bytes of which are not there. */
static bool unpacks(uint32_t plain_len, size_t real, size_t cut)
{
  static uint8_t batch_bytes[MG_BATCH_HEADER_BYTES + 65536];
  uint8_t *zeros = calloc(1, real);
  size_t coded = ZSTD_compress(batch_bytes + MG_BATCH_HEADER_BYTES, 65536, zeros, real, 1);
  CHECK(!ZSTD_isError(coded) && coded > cut);
  const struct mg_batch batch = {
      .base_lsn = 1, .count = 1, .flags = MG_BATCH_ZSTD, .plain_len = plain_len, .coded_len = (uint32_t)(coded - cut)};
  struct mg_unpacker *unpacker = mg_unpacker_new();
  struct mg_batch read;
  mg_batch_write(&batch, batch_bytes);
  bool result = mg_unpack(unpacker, batch_bytes, MG_BATCH_HEADER_BYTES + coded - cut, &read);
  mg_unpacker_free(&unpacker);
  free(zeros);
  return result;
}

TEST(forge_zstd)
{
  CHECK(unpacks(5000, 5000, 0));
  CHECK(!unpacks(4999, 5000, 0));
  CHECK(!unpacks(5001, 5000, 0));
  CHECK(!unpacks(5000, 5000, 1));
  CHECK(!unpacks(5000, 5000, 9));
  CHECK(!unpacks(MG_BATCH_PLAIN_MAX, 50 << 20, 0)); /* a bomb is held to what a batch may be */
  CHECK(!unpacks(MG_BATCH_PLAIN_MAX + 1, MG_BATCH_PLAIN_MAX + 1, 0));
}

int main(void)
{
  static const struct t_case cases[] = {{"heal.nothing", undamaged},
                                        {"heal.zero-page", zero_page},
                                        {"heal.swap-blocks", swap_blocks},
                                        {"frame.misplaced-record", misplaced_record},
                                        {"heal.seal-lies", seal_lies},
                                        {"heal.flip-the-stage, recovered", flip_the_stage},
                                        {"heal.unknown-version", unknown_version},
                                        {"heal.two-rounds", two_rounds},
                                        {"forge.stage", forge_stage},
                                        {"forge.stage, next round", forge_next_round},
                                        {"forge.zstd", forge_zstd}};
  leave_behind();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fprintf(stderr, "%s\n", cases[i].name);
    cases[i].run();
    CHECK_INT(untold, 0);
  }
  remove_folder(folder);
  return 0;
}
