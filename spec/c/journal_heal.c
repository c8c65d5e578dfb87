/* journal_heal.c - heal.flip-every-bit, heal.truncate-everywhere, forge.body, frame.misplaced: whatever happens to a
 * segment or a stage, what is read is right, and what is lost is no more than the batches that were hit and is
 * reported. */
#include "journal_support.h"

enum { BATCHES = 6, PER_BATCH = 3 };

/* A sealed segment of a few small batches; returns its bytes and path. */
static uint8_t *small_segment(const char *folder, char path[600], size_t *len)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  options.segment_bytes = 2 * MG_BLOCK_BYTES;
  CHECK_INT(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error), 0);
  for (int i = 0; i < BATCHES; i++) {
    for (int k = 0; k < PER_BATCH; k++) CHECK(append_one(shard));
    mg_shard_flush(shard);
  }
  CHECK_INT(mg_shard_close(&shard), 0);
  snprintf(path, 600, "%s/shard-000-0000000001.mgj", folder);
  int fd = open(path, O_RDONLY);
  struct stat status;
  CHECK(fd >= 0 && fstat(fd, &status) == 0);
  *len = (size_t)status.st_size;
  uint8_t *bytes = malloc(*len);
  CHECK_INT(read(fd, bytes, *len), *len);
  close(fd);
  return bytes;
}

static void write_file(const char *path, const uint8_t *bytes, size_t len)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK_INT(write(fd, bytes, len), len);
  close(fd);
}

static struct census census_of(const char *path)
{
  struct census census = {0};
  count_file(&census, path);
  return census;
}

static void patch(const char *path, size_t at, uint8_t byte)
{
  int fd = open(path, O_WRONLY);
  CHECK_INT(pwrite(fd, &byte, 1, (off_t)at), 1);
  close(fd);
}

TEST(flip_every_bit)
{
  char folder[256], path[600];
  size_t len;
  fresh_folder(folder, "/dev/shm");
  uint8_t *bytes = small_segment(folder, path, &len);
  struct mg_scan *scan = malloc(sizeof *scan);
  uint32_t version;
  CHECK_INT(mg_scan_open(scan, &mg_file_system, path, &version), 0);
  size_t data_end = (size_t)scan->seal.data_end;
  mg_scan_close(scan);
  free(scan);
  for (size_t bit = 0; bit < data_end * 8; bit++) {
    size_t at = bit / 8;
    patch(path, at, bytes[at] ^ (uint8_t)(1 << bit % 8));
    struct census census = census_of(path);
    CHECK_INT(census.wrong, 0);
    CHECK_INT(census.repeats, 0);
    if (at >= MG_PREAMBLE_BYTES) CHECK(census.entries >= (at < MG_DATA_START ? BATCHES * PER_BATCH : 0));
    if (census.entries < BATCHES * PER_BATCH) CHECK(census.damages > 0);
    if (at < MG_PREAMBLE_BYTES) CHECK_INT(census.entries, 0); /* a preamble that cannot be trusted: none of it is */
    patch(path, at, bytes[at]);
  }
  free(bytes);
  remove_folder(folder);
}

/* Many batches over several blocks: one bit costs at most the rest of its block and the batch that reaches out of
 * it. */
TEST(a_flip_costs_a_block)
{
  char folder[256], path[600];
  fresh_folder(folder, "/dev/shm");
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  options.segment_bytes = 16 * MG_BLOCK_BYTES;
  CHECK_INT(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error), 0);
  while (mg_shard_stage(shard)->next_lsn < 500) {
    CHECK(append_one(shard));
    if (mg_shard_stage(shard)->next_lsn % 7 == 0) mg_shard_flush(shard);
  }
  CHECK_INT(mg_shard_close(&shard), 0);
  snprintf(path, sizeof path, "%s/shard-000-0000000001.mgj", folder);
  struct census whole = census_of(path);
  CHECK_INT(whole.entries, 499);
  int fd = open(path, O_RDWR);
  off_t size = lseek(fd, 0, SEEK_END);
  for (off_t at = MG_DATA_START; at < size; at += 1009) {
    uint8_t byte;
    CHECK_INT(pread(fd, &byte, 1, at), 1);
    patch(path, (size_t)at, byte ^ 0x10);
    struct census census = census_of(path);
    CHECK_INT(census.wrong, 0);
    CHECK_INT(census.repeats, 0);
    CHECK(census.entries + 100 > whole.entries); /* 32 KB of entries of 450 bytes, and a batch on either side */
    if (census.entries < whole.entries) CHECK(census.damages > 0);
    patch(path, (size_t)at, byte);
  }
  close(fd);
  remove_folder(folder);
}

TEST(truncate_everywhere)
{
  char folder[256], path[600];
  size_t len;
  fresh_folder(folder, "/dev/shm");
  uint8_t *bytes = small_segment(folder, path, &len);
  uint64_t before = UINT64_MAX;
  for (size_t cut = len; cut > 0; cut -= cut > 4 ? 3 : 1) {
    CHECK_INT(truncate(path, (off_t)cut), 0);
    struct census census = census_of(path);
    CHECK_INT(census.wrong, 0);
    CHECK_INT(census.repeats, 0);
    CHECK(census.entries <= before);
    if (census.entries < BATCHES * PER_BATCH) CHECK(census.damages > 0);
    before = census.entries;
  }
  free(bytes);
  remove_folder(folder);
}

/* Recovery over every truncation of an open segment: it must start, and never make a wrong entry. */
TEST(recover_what_was_cut)
{
  char folder[256], path[600], open_path[600], stage[600];
  size_t len;
  fresh_folder(folder, "/dev/shm");
  uint8_t *bytes = small_segment(folder, path, &len);
  snprintf(open_path, sizeof open_path, "%s/shard-000-0000000001.open", folder);
  snprintf(stage, sizeof stage, "%s/shard-000.stage", folder);
  memset(bytes + MG_SEAL_AT, 0, MG_SEAL_BYTES);
  for (size_t cut = len; cut > 0; cut = cut > 211 ? cut - 211 : 0) {
    unlink(path);
    unlink(stage);
    write_file(open_path, bytes, cut);
    recover_folder(folder);
    struct census census = take_census(folder);
    CHECK_INT(census.wrong, 0);
    CHECK_INT(census.repeats, 0);
    CHECK_INT(census.gaps, 0);
    char name[700];
    for (int n = 0; n < 3; n++) {
      snprintf(name, sizeof name, "%s.damaged-%d", open_path, n);
      unlink(name);
    }
  }
  free(bytes);
  remove_folder(folder);
}

/* Each bit of a stage that a process left behind: recovery loses at most entries behind the flip in their slot. */
TEST(flip_the_stage)
{
  char folder[256], stage[600];
  fresh_folder(folder, "/dev/shm");
  snprintf(stage, sizeof stage, "%s/shard-000.stage", folder);
  pid_t pid = fork();
  if (pid == 0) {
    struct mg_shard_options options = support_options(folder);
    struct mg_shard *shard;
    struct mg_recovery recovery;
    struct mg_buf error = {0};
    if (mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error) != 0) _exit(1);
    for (int i = 0; i < 5; i++) append_one(shard);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  enum { LOOKED_AT = MG_STAGE_HEADER_BYTES + 3000 };
  static uint8_t bytes[MG_STAGE_HEADER_BYTES + 4 * MG_SLOT_BYTES];
  int fd = open(stage, O_RDONLY);
  CHECK_INT(read(fd, bytes, sizeof bytes), sizeof bytes);
  close(fd);
  struct mg_unpacker *unpacker = mg_unpacker_new();
  for (size_t bit = MG_STAGE_HEADER_BYTES * 8; bit < LOOKED_AT * 8; bit++) {
    uint8_t *slot = bytes + MG_STAGE_HEADER_BYTES;
    struct census census = {0};
    struct mg_batch header;
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (mg_unpack_slot(unpacker, slot, &header)) {
      struct mg_packed packed;
      struct mg_packer *packer = mg_packer_new(false, 0);
      mg_pack(packer, slot, true, 0, &packed);
      count_batch(&census, unpacker, (const uint8_t *)packed.parts->ptr, packed.len);
      mg_packer_free(&packer);
    }
    CHECK_INT(census.wrong, 0);
    CHECK(census.entries <= 5);
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  mg_unpacker_free(&unpacker);
  remove_folder(folder);
}

/* A fragment with a right checksum in the wrong place, or of another segment, is no fragment. */
TEST(misplaced_fragments)
{
  char folder[256], path[600];
  size_t len;
  fresh_folder(folder, "/dev/shm");
  uint8_t *bytes = small_segment(folder, path, &len);
  uint8_t uuid[16] = {1, 2, 3};
  uint32_t own = mg_segment_seed(bytes + 56), other = mg_segment_seed(uuid);
  enum mg_fragment_type type;
  const uint8_t *payload;
  size_t payload_len, room = len - MG_DATA_START;
  CHECK_INT(mg_fragment_read(bytes + MG_DATA_START, room, MG_DATA_START, own, &type, &payload, &payload_len), 1);
  CHECK_INT(mg_fragment_read(bytes + MG_DATA_START, room, MG_BLOCK_BYTES, own, &type, &payload, &payload_len), -1);
  CHECK_INT(mg_fragment_read(bytes + MG_DATA_START, room, MG_DATA_START, other, &type, &payload, &payload_len), -1);
  free(bytes);
  remove_folder(folder);
}

/* forge.body: an entry's bytes are a whole segment, laid so that its fragments come to stand on block starts and
 * everywhere else. With the framing around it damaged, none of it is ever delivered. */
TEST(forge_body)
{
  char folder[256], path[600];
  size_t len;
  fresh_folder(folder, "/dev/shm");
  uint8_t *forged = small_segment(folder, path, &len);
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  options.compress = false; /* as the bytes come, so they stand on the disk */
  options.segment_bytes = 16 * MG_BLOCK_BYTES;
  CHECK_INT(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error), 0);
  size_t fragment_len = len - MG_DATA_START < 12000 ? len - MG_DATA_START : 12000;
  for (int i = 0; i < 30; i++) {
    struct mg_stage *stage = mg_shard_stage(shard);
    uint8_t *start = mg_stage_begin(stage, MG_ENTRY_BYTES_MAX, 1, 1);
    uint8_t *at = mg_prefix_put(stage, start, 1, 1);
    *at++ = 0, *at++ = 0;
    size_t room = MG_ENTRY_BYTES_MAX - (size_t)(at - start);
    size_t shift = (size_t)i * 8;
    memset(at, 0, room);
    for (size_t k = shift; k + fragment_len < room; k += (fragment_len + 7) & ~(size_t)7)
      memcpy(at + k, forged + MG_DATA_START, fragment_len);
    mg_stage_commit(stage, (size_t)(at + room - start), MG_ENTRY_HEAD, 0, 0);
    mg_shard_push(shard);
  }
  CHECK_INT(mg_shard_close(&shard), 0);
  snprintf(path, sizeof path, "%s/shard-000-0000000002.mgj", folder);
  int fd = open(path, O_RDWR);
  off_t size = lseek(fd, 0, SEEK_END);
  for (off_t at = MG_DATA_START; at < size; at += MG_BLOCK_BYTES / 4) {
    uint8_t byte;
    CHECK_INT(pread(fd, &byte, 1, at), 1);
    patch(path, (size_t)at, byte ^ 0xff);
    struct mg_scan *scan = malloc(sizeof *scan);
    struct mg_batch batch;
    uint32_t version;
    CHECK_INT(mg_scan_open(scan, &mg_file_system, path, &version), 0);
    for (enum mg_scan_result result; (result = mg_scan_next(scan, &batch)) != MG_SCAN_END;)
      if (result == MG_SCAN_BATCH)
        CHECK(batch.base_lsn > BATCHES * PER_BATCH && batch.epoch == 2); /* a forged one has lower LSNs */
    mg_scan_close(scan);
    free(scan);
    patch(path, (size_t)at, byte);
  }
  close(fd);
  free(forged);
  remove_folder(folder);
}

RUN_TESTS({"heal.flip-every-bit", flip_every_bit}, {"heal.flip-costs-a-block", a_flip_costs_a_block},
          {"heal.truncate-everywhere", truncate_everywhere}, {"heal.recover-what-was-cut", recover_what_was_cut},
          {"heal.flip-the-stage", flip_the_stage}, {"frame.misplaced", misplaced_fragments}, {"forge.body", forge_body})
