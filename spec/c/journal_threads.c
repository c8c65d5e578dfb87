/* journal_threads.c - tsan.one-mapping: a producer, a shard's own thread and a tailer as threads on the very same
 * mappings, for a thread sanitizer to watch: it knows addresses, and two mappings of one file are unrelated to it. The
 * tailer reads entries out of the stage and batches out of the segment in place, as soon as they are committed. */
#include <pthread.h>
#include <sched.h>

#include "journal_support.h"
#include "shard_private.h"

enum { ENTRIES = 12000, SEGMENT = 32 << 20 };

static struct mg_shard *shard;
static _Atomic uint64_t read_gen; /* the tailer is through with the slots of generations up to here */

/* All entries of one generation, in place. */
static void tail_slot(uint64_t gen, uint64_t *lsn)
{
  const struct mg_stage *stage = &shard->stage;
  const uint8_t *slot = stage->map + MG_STAGE_HEADER_BYTES + (size_t)((gen - 1) % stage->slots) * MG_SLOT_BYTES;
  while (atomic_load_explicit((const _Atomic uint64_t *)slot, memory_order_acquire) != gen) sched_yield();
  const struct mg_slot header = {.gen = gen, .epoch = stage->header.epoch, .key = stage->key};
  uint32_t tag = mg_slot_tag(&header), at = MG_SLOT_HEADER_BYTES;
  struct mg_staged entry;
  for (int result; (result = mg_slot_entry(slot, tag, gen, true, &at, &entry)) != 2 && *lsn <= ENTRIES;) {
    if (result == 0) {
      sched_yield();
      continue;
    }
    uint8_t content[SUPPORT_PAYLOAD + 32];
    size_t len = content_of((*lsn)++, content);
    CHECK(entry.len > len && memcmp(entry.payload + entry.len - len, content, len) == 0);
  }
}

static void *tail_stage(void *unused)
{
  uint64_t lsn = 1;
  (void)unused;
  for (uint64_t gen = 1; lsn <= ENTRIES; gen++) {
    tail_slot(gen, &lsn);
    atomic_store_explicit(&read_gen, gen, memory_order_release);
  }
  return NULL;
}

static size_t skip_padding(size_t at)
{
  size_t rest = MG_BLOCK_BYTES - at % MG_BLOCK_BYTES;
  return rest < MG_FRAGMENT_MIN_BYTES ? at + rest : at;
}

/* One batch in place; its first magic is all that is looked at before it is committed. */
static size_t tail_batch(const uint8_t *map, size_t at, uint32_t seed, struct mg_batch *batch)
{
  static uint8_t bytes[MG_FRAMED_MAX + MG_BATCH_PLAIN_MAX];
  size_t total = 0;
  at = skip_padding(at);
  while (atomic_load_explicit((const _Atomic uint32_t *)(map + at), memory_order_acquire) != MG_FRAGMENT_MAGIC)
    sched_yield();
  for (enum mg_fragment_type type = MG_FRAGMENT_FIRST; type == MG_FRAGMENT_FIRST || type == MG_FRAGMENT_MIDDLE;) {
    const uint8_t *payload;
    size_t len;
    at = skip_padding(at);
    CHECK_INT(mg_fragment_read(map + at, MG_BLOCK_BYTES - at % MG_BLOCK_BYTES, at, seed, &type, &payload, &len), 1);
    memcpy(bytes + total, payload, len);
    total += len;
    at += MG_FRAGMENT_HEADER_BYTES + ((len + 7) & ~(size_t)7);
  }
  CHECK(mg_batch_read(batch, bytes, total));
  return at;
}

static void *tail_segment(void *map)
{
  uint32_t seed = mg_segment_seed((const uint8_t *)map + 56);
  size_t at = MG_DATA_START;
  struct mg_batch batch;
  for (uint64_t lsn = 1; lsn <= ENTRIES; lsn += batch.count) {
    at = tail_batch(map, at, seed, &batch);
    CHECK_INT(batch.base_lsn, lsn);
  }
  return NULL;
}

TEST(one_mapping)
{
  char folder[256];
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  pthread_t stage_tailer, segment_tailer;
  fresh_folder(folder, "/dev/shm");
  struct mg_shard_options options = support_options(folder);
  options.threaded = true;
  options.segment_bytes = SEGMENT;
  CHECK_INT(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error), 0);
  CHECK(shard->segment.map);
  CHECK_INT(pthread_create(&segment_tailer, NULL, tail_segment, shard->segment.map), 0);
  CHECK_INT(pthread_create(&stage_tailer, NULL, tail_stage, NULL), 0);
  struct mg_stage *stage = mg_shard_stage(shard);
  for (unsigned i = 0; i < ENTRIES;) {
    bool room =
        stage->gen < stage->slots || atomic_load_explicit(&read_gen, memory_order_acquire) + stage->slots > stage->gen;
    if (room && append_one(shard)) {
      i++;
    } else {
      mg_shard_push(shard);
      sched_yield();
    }
  }
  mg_shard_flush(shard);
  CHECK_INT(pthread_join(stage_tailer, NULL), 0);
  CHECK_INT(pthread_join(segment_tailer, NULL), 0);
  CHECK_INT(mg_shard_close(&shard), 0);
  remove_folder(folder);
}

RUN_TESTS({"tsan.one-mapping", one_mapping})
