/* journal_support.h - what the journal's specs share: shards in folders that go away, entries whose bytes follow
 * from their LSN, and the one oracle: everything that was acknowledged is there, once, in order, with the right
 * bytes. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch.h"
#include "entry.h"
#include "scan.h"
#include "segment.h"
#include "shard.h"
#include "t.h"

enum { SUPPORT_SEGMENT = 128 * 1024, SUPPORT_PAYLOAD = 900 };

static inline void fresh_folder(char out[256], const char *base)
{
  snprintf(out, 256, "%s/moongate-journal.XXXXXX", base);
  CHECK(mkdtemp(out));
}

static inline void remove_folder(const char *folder)
{
  char path[900];
  DIR *entries = opendir(folder);
  if (!entries) return;
  for (struct dirent *entry; (entry = readdir(entries));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    unlink(path);
  }
  closedir(entries);
  rmdir(folder);
}

static inline struct mg_shard_options support_options(const char *folder)
{
  return (struct mg_shard_options){.folder = folder,
                                   .stage_bytes = 4 * MG_SLOT_BYTES,
                                   .segment_bytes = SUPPORT_SEGMENT,
                                   .compress = true,
                                   .level = 1,
                                   .id_base = 77,
                                   .now_us = 1700000000000000u};
}

/* The content of entry lsn: mostly noise, so that segments fill quickly. */
static inline size_t content_of(uint64_t lsn, uint8_t *out)
{
  uint64_t state = lsn * 0x9e3779b97f4a7c15u + 1;
  size_t len = 20 + (size_t)(lsn * 7919 % SUPPORT_PAYLOAD);
  for (size_t i = 0; i < len; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    out[i] = (uint8_t)state;
  }
  return len;
}

/* Records one entry with the content of a number; false when the stage is full. */
static inline bool append_content(struct mg_shard *shard, uint64_t number)
{
  struct mg_stage *stage = mg_shard_stage(shard);
  uint64_t lsn = stage->next_lsn;
  uint8_t content[SUPPORT_PAYLOAD + 32];
  size_t len = content_of(number, content);
  uint8_t *start = mg_stage_begin(stage, len + 64, 1700000000000000u + lsn * 10, lsn);
  if (!start) return false;
  uint8_t *at = mg_prefix_put(stage, start, 1700000000000000u + lsn * 10, lsn);
  *at++ = 0; /* a HEAD entry: the one type that takes any bytes */
  *at++ = 0;
  memcpy(at, content, len);
  mg_stage_commit(stage, (size_t)(at + len - start), MG_ENTRY_HEAD, 0, 0);
  mg_shard_push(shard);
  return true;
}

/* The same with that of its own LSN. */
static inline bool append_one(struct mg_shard *shard)
{
  return append_content(shard, mg_shard_stage(shard)->next_lsn);
}

struct census {
  uint64_t first, last, entries; /* LSNs */
  unsigned damages, wrong, gaps, repeats, files;
};

static inline void count_entry(struct census *census, uint64_t lsn, const struct mg_entry *entry)
{
  uint8_t content[SUPPORT_PAYLOAD + 32];
  if (census->last && lsn <= census->last) census->repeats++;
  if (lsn > census->last + 1 && census->last) census->gaps++;
  if (!census->first) census->first = lsn;
  census->last = lsn;
  census->entries++;
  size_t len = content_of(lsn, content);
  if (entry->content.len != len || memcmp(entry->content.ptr, content, len) != 0 || entry->number != lsn)
    census->wrong++;
}

static inline void count_batch(struct census *census, struct mg_unpacker *unpacker, const uint8_t *bytes, size_t len)
{
  struct mg_batch batch;
  struct mg_plain_entry plain;
  struct mg_entry entry;
  struct mg_scope scope = {0};
  if (!mg_unpack(unpacker, bytes, len, &batch)) {
    census->wrong++;
    return;
  }
  mg_scope_start(&scope, &batch);
  unsigned count = 0;
  for (int result; (result = mg_unpack_next(unpacker, &plain)) != 0; count++) {
    if (result < 0 || !mg_entry_decode(&scope, &plain, &entry)) {
      census->wrong++;
      break;
    }
    count_entry(census, batch.base_lsn + count, &entry);
  }
  if (count != batch.count) census->wrong++;
  mg_scope_free(&scope);
}

static inline void count_file(struct census *census, const char *path)
{
  struct mg_scan *scan = malloc(sizeof *scan);
  struct mg_unpacker *unpacker = mg_unpacker_new();
  struct mg_batch batch;
  uint32_t version;
  if (mg_scan_open(scan, &mg_file_system, path, &version) == 0) {
    for (enum mg_scan_result result; (result = mg_scan_next(scan, &batch)) != MG_SCAN_END;)
      if (result == MG_SCAN_BATCH) count_batch(census, unpacker, scan->batch, scan->batch_len);
    census->damages += scan->damages;
    mg_scan_close(scan);
  } else {
    census->damages++;
  }
  census->files++;
  mg_unpacker_free(&unpacker);
  free(scan);
}

static inline int by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

/* Every segment of shard 0, in order. */
static inline struct census take_census(const char *folder)
{
  struct census census = {0};
  static char names[4096][64];
  size_t count = 0;
  unsigned shard;
  uint64_t number;
  bool sealed;
  DIR *entries = opendir(folder);
  for (struct dirent *entry; (entry = readdir(entries));)
    if (mg_segment_name(entry->d_name, &shard, &number, &sealed)) snprintf(names[count++], 64, "%.63s", entry->d_name);
  closedir(entries);
  qsort(names, count, sizeof names[0], by_name);
  for (size_t i = 0; i < count; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    count_file(&census, path);
  }
  return census;
}

/* Opens and closes the shard: what a successor does before it serves. */
static inline struct mg_recovery recover_folder(const char *folder)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  int result = mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error);
  if (result != 0) fprintf(stderr, "%.*s\n", (int)error.len, error.ptr);
  CHECK_INT(result, 0);
  CHECK_INT(mg_shard_close(&shard), 0);
  mg_buf_free(&error);
  return recovery;
}

/* What a process that may be killed tells the one that watches. */
struct told {
  _Atomic uint64_t acknowledged;
  _Atomic uint64_t steps;
};

static inline struct told *shared_page(void)
{
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  return page;
}

static inline void check_census(const struct census *census, uint64_t acknowledged)
{
  CHECK_INT(census->wrong, 0);
  CHECK_INT(census->repeats, 0);
  CHECK_INT(census->gaps, 0);
  CHECK_INT(census->damages, 0);
  if (census->entries) CHECK_INT(census->first, 1);
  if (census->last < acknowledged || census->last > acknowledged + 1)
    fprintf(stderr, "the last entry is %llu, acknowledged are %llu\n", (unsigned long long)census->last,
            (unsigned long long)acknowledged);
  CHECK(census->last >= acknowledged);
  CHECK(census->last <= acknowledged + 1); /* committed, and killed before it could say so */
}
