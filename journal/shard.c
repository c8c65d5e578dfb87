/* shard.c - opening and closing a shard, and the drain that turns closed slots into batches.
 * Owns: the lock, stage, open segment.   May call: stage, batch, segment, recovery.   Never: sync or reserve space
 * where the producer would wait for it, unless there is no other way on.   Thread: as in shard.h. */
#include "shard_private.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "log.h"

enum {
  DRAIN_WAIT_US = 500000, /* a batch takes some tens of microseconds; a new segment without a spare far longer */
  DRAIN_TRIES = 3,        /* the own thread may be first once more */
};

static int lock(struct mg_shard *shard, struct mg_buf *error)
{
  char path[4200];
  snprintf(path, sizeof path, "%s/shard-%03u.lock", shard->folder, shard->options.number);
  shard->lock_fd = shard->ops->open(path, O_RDWR | O_CREAT);
  if (shard->lock_fd < 0) {
    mg_buf_printf(error, "cannot write in %s: %s", shard->folder, strerror(-shard->lock_fd));
    return shard->lock_fd;
  }
  int result = shard->ops->lock(shard->lock_fd);
  if (result != 0) mg_buf_printf(error, "journal %s is in use by another gateway", shard->folder);
  return result;
}

static void open_doorbell(struct mg_shard *shard)
{
  int result = mg_doorbell_open(&shard->doorbell, shard->ops, shard->folder);
  if (result != 0)
    mg_log(MG_LOG_WARN, "no %s/journal.doorbell (%s): readers see new entries of shard %u later", shard->folder,
           strerror(-result), shard->options.number);
}

/* After a placed batch, and when the last segment is sealed. */
static void tell_readers(struct mg_shard *shard)
{
  const struct mg_doorbell_line line = {.epoch = shard->segment.preamble.epoch,
                                        .segment = shard->segment.preamble.number,
                                        .last_lsn = shard->segment.totals.last_lsn};
  mg_doorbell_tell(&shard->doorbell, shard->options.number, &line);
}

int mg_shard_open(struct mg_shard **out, const struct mg_shard_options *options, const struct mg_file_ops *ops,
                  struct mg_recovery *recovery, struct mg_buf *error)
{
  struct mg_shard *shard = aligned_alloc(64, (sizeof *shard + 63) & ~(size_t)63);
  MG_ASSERT(shard);
  memset(shard, 0, sizeof *shard);
  *recovery = (struct mg_recovery){0};
  shard->ops = ops;
  shard->options = *options;
  snprintf(shard->folder, sizeof shard->folder, "%s", options->folder);
  shard->options.folder = shard->folder;
  shard->lock_fd = shard->segment.fd = shard->stage.fd = -1;
  shard->segment.ops = ops;
  pthread_mutex_init(&shard->mutex, NULL);
  pthread_mutex_init(&shard->spare_mutex, NULL);
  pthread_mutex_init(&shard->sync_mutex, NULL);
  shard->packer = mg_packer_new(options->compress, options->level);
  *out = shard;
  int result = lock(shard, error);
  if (result == 0) result = mg_shard_recover(shard, recovery, error);
  shard->placed_lsn = shard->stage.next_lsn - 1;
  if (result == 0) open_doorbell(shard);
  if (result == 0) {
    result = mg_shard_start_thread(shard);
    if (result != 0) mg_buf_printf(error, "cannot start a thread: %s", strerror(-result));
  }
  if (result != 0) mg_shard_close(out);
  return result;
}

struct mg_stage *mg_shard_stage(struct mg_shard *shard)
{
  return &shard->stage;
}

static uint64_t wall_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int mg_shard_new_segment(struct mg_shard *shard, const struct mg_stage_header *staged, uint64_t now_us)
{
  struct mg_preamble preamble = {.segment_bytes = shard->options.segment_bytes,
                                 .shard = shard->options.number,
                                 .epoch = staged->epoch,
                                 .number = shard->next_number,
                                 .base_lsn = shard->base_lsn,
                                 .created_us = now_us,
                                 .id_base = staged->id_base,
                                 .key_mark = staged->key_mark};
  if (getrandom(preamble.uuid, sizeof preamble.uuid, GRND_NONBLOCK) != sizeof preamble.uuid) {
    uint64_t mixed[2] = {now_us * 0x9e3779b97f4a7c15u, (uint64_t)(uintptr_t)shard ^ preamble.number};
    memcpy(preamble.uuid, mixed, sizeof mixed);
  }
  struct mg_segment segment;
  pthread_mutex_lock(&shard->spare_mutex);
  int result = atomic_load(&shard->spare_ready)
                   ? 0
                   : mg_spare_make(shard->ops, shard->folder, shard->options.number, shard->options.segment_bytes);
  if (result == 0) result = mg_segment_create(&segment, shard->ops, shard->folder, &preamble);
  if (result == 0) atomic_store(&shard->spare_ready, false);
  pthread_mutex_unlock(&shard->spare_mutex);
  if (result != 0) {
    atomic_store(&shard->spare_ready, false); /* whatever became of it: the next try makes a new one */
    return result;
  }
  pthread_mutex_lock(&shard->mutex);
  shard->segment = segment;
  pthread_mutex_unlock(&shard->mutex);
  shard->next_number++;
  atomic_fetch_add(&shard->segments, 1);
  if (shard->options.pre_fault && segment.map) shard->ops->populate(segment.map, (size_t)shard->options.segment_bytes);
  atomic_store(&shard->spare_wanted, true);
  mg_shard_wake(shard);
  return 0;
}

int mg_shard_end_segment(struct mg_shard *shard, uint32_t flags)
{
  if (shard->segment.fd < 0) return 0;
  int result = mg_segment_seal(&shard->segment, flags);
  if (result != 0) return result;
  atomic_fetch_add(&shard->unsynced, 1);
  pthread_mutex_lock(&shard->mutex);
  struct mg_segment full = shard->segment;
  shard->segment.fd = -1;
  shard->segment.map = NULL;
  shard->segment.cut = NULL;
  pthread_mutex_unlock(&shard->mutex);
  mg_shard_hand_over(shard, &full);
  return 0;
}

static int rotate(struct mg_shard *shard)
{
  int result = mg_shard_end_segment(shard, 0);
  if (result != 0) return result;
  return mg_shard_new_segment(shard, &shard->stage.header, wall_us());
}

/* -EAGAIN: the slot was taken away while it was read, and source_lost says so. */
static int place_packed(struct mg_shard *shard, const struct mg_packed *packed, const _Atomic bool *source_lost)
{
  if (!mg_segment_fits(&shard->segment, packed->len)) {
    shard->base_lsn = packed->header.base_lsn;
    int result = rotate(shard);
    if (result != 0) return result;
  }
  return mg_segment_place(&shard->segment, &packed->header, packed->parts, packed->len, shard->scratch, source_lost);
}

/* The segment's file is not what it was: the batches it still has count, and another one is begun. */
static int place_elsewhere(struct mg_shard *shard, const struct mg_packed *packed, const _Atomic bool *source_lost)
{
  mg_log(MG_LOG_ERROR, "journal segment %s was cut short by somebody else; what was behind the cut is lost",
         shard->segment.path);
  int result = mg_shard_end_segment(shard, MG_SEAL_DAMAGED);
  if (result != 0) return result;
  atomic_fetch_add(&shard->repairs, 1);
  return place_packed(shard, packed, source_lost);
}

/* LSNs that never come are missing to everybody who reads; the log says so first. */
void mg_shard_note_lost(struct mg_shard *shard, uint64_t base_lsn)
{
  if (base_lsn > shard->placed_lsn + 1)
    mg_log(MG_LOG_ERROR,
           "journal shard %u: entries %llu to %llu were in a part of its stage that is gone, and are lost",
           shard->options.number, (unsigned long long)shard->placed_lsn + 1, (unsigned long long)base_lsn - 1);
  shard->placed_lsn = base_lsn - 1;
}

/* Commits are checked where a page may have been replaced under them, before or while they are read: then nothing of
 * the slot is left where it is. */
static int pack_and_place(struct mg_shard *shard, const uint8_t *slot, bool check, struct mg_packed *packed)
{
  const _Atomic bool *source_lost = check ? NULL : shard->stage.cut;
  mg_pack(shard->packer, slot, check, 0, packed);
  mg_file_point(shard->ops, MG_POINT_BATCH_PACKED);
  if (!packed->len) return !check && mg_stage_lost(&shard->stage) ? -EAGAIN : 0;
  int result = place_packed(shard, packed, source_lost);
  return result == -ESTALE ? place_elsewhere(shard, packed, source_lost) : result;
}

static int place(struct mg_shard *shard, const uint8_t *slot)
{
  struct mg_packed packed;
  int result = pack_and_place(shard, slot, mg_stage_lost(&shard->stage), &packed);
  if (result == -EAGAIN) result = pack_and_place(shard, slot, true, &packed);
  if (result != 0 || !packed.len) return result;
  mg_file_point(shard->ops, MG_POINT_BATCH_PLACED);
  mg_shard_note_lost(shard, packed.header.base_lsn);
  shard->placed_lsn += packed.header.count;
  atomic_fetch_add_explicit(&shard->batches, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&shard->placed_bytes, packed.len, memory_order_relaxed);
  return 0;
}

static void note_trouble(struct mg_shard *shard, int result)
{
  atomic_store(&shard->trouble, -result);
  if (result != 0 && !shard->had_trouble)
    mg_log(MG_LOG_ERROR, "journal shard %u cannot write: %s; %u of %u stage slots are free", shard->options.number,
           strerror(-result), mg_stage_free(&shard->stage), shard->stage.slots);
  else if (result == 0 && shard->had_trouble)
    mg_log(MG_LOG_INFO, "journal shard %u writes again", shard->options.number);
  shard->had_trouble = result != 0;
}

int mg_shard_drain_held(struct mg_shard *shard)
{
  int result = 0;
  const uint8_t *slot;
  uint64_t gen = atomic_load_explicit(&shard->placed, memory_order_relaxed) + 1;
  for (; result == 0 && (slot = mg_stage_closed(&shard->stage, gen)); gen++) {
    result = place(shard, slot);
    if (result == 0) atomic_store_explicit(&shard->placed, gen, memory_order_release);
    if (result == 0 && !mg_shard_defers(shard)) mg_stage_retire(&shard->stage, gen);
    if (result == 0) tell_readers(shard);
    mg_file_point(shard->ops, MG_POINT_SLOT_RETIRED);
  }
  if (result != 0 || shard->had_trouble) note_trouble(shard, result);
  if (result == -ENOENT) mg_shard_look(shard); /* the folder is gone, and the stage with it */
  return result;
}

int mg_shard_drain(struct mg_shard *shard)
{
  if (atomic_exchange_explicit(&shard->draining, true, memory_order_acquire)) return 0;
  int result = mg_shard_drain_held(shard);
  atomic_store_explicit(&shard->draining, false, memory_order_release);
  return result;
}

/* While another thread drains, its next batch frees a slot sooner than anything that could be done here. */
static void wait_for_drain(const struct mg_shard *shard, unsigned slots)
{
  uint64_t until_us = wall_us() + DRAIN_WAIT_US;
  while (atomic_load_explicit(&shard->draining, memory_order_acquire) && mg_stage_free(&shard->stage) <= slots &&
         !atomic_load(&shard->trouble) && wall_us() < until_us)
    sched_yield();
}

void mg_shard_make_room(struct mg_shard *shard, unsigned slots)
{
  if (atomic_load(&shard->trouble)) return; /* mg_shard_flush tries again, not every exchange */
  if (mg_shard_needs_repair(shard)) {
    mg_shard_repair(shard);
    return;
  }
  for (unsigned tries = 0; tries < DRAIN_TRIES && mg_stage_free(&shard->stage) <= slots; tries++) {
    wait_for_drain(shard, slots);
    if (mg_shard_drain(shard) != 0) return;
    if (mg_shard_defers(shard) && !mg_stage_free(&shard->stage)) mg_shard_sync(shard);
  }
}

void mg_shard_push(struct mg_shard *shard)
{
  const struct mg_stage *stage = &shard->stage;
  uint64_t placed = atomic_load_explicit(&shard->placed, memory_order_relaxed);
  if (placed == atomic_load_explicit(&stage->closed, memory_order_relaxed)) return;
  if (shard->options.threaded)
    mg_shard_wake(shard);
  else if (!atomic_load_explicit(&shard->trouble, memory_order_relaxed))
    mg_shard_drain(shard); /* in trouble only mg_shard_flush tries again, not every exchange */
}

void mg_shard_flush(struct mg_shard *shard)
{
  mg_stage_end_slot(&shard->stage);
  atomic_store(&shard->committed_lsn, shard->stage.next_lsn - 1);
  if (mg_shard_needs_repair(shard)) mg_shard_repair(shard);
  if (shard->options.threaded)
    mg_shard_wake(shard);
  else
    mg_shard_drain(shard);
}

struct mg_shard_facts mg_shard_facts(const struct mg_shard *shard)
{
  return (struct mg_shard_facts){.batches = atomic_load(&shard->batches),
                                 .placed_bytes = atomic_load(&shard->placed_bytes),
                                 .segments = atomic_load(&shard->segments),
                                 .trouble = atomic_load(&shard->trouble),
                                 .free_slots = mg_stage_free(&shard->stage),
                                 .slots = shard->stage.slots,
                                 .low = !atomic_load(&shard->spare_ready) && atomic_load(&shard->spare_wanted),
                                 .repairs = atomic_load(&shard->repairs)};
}

int mg_shard_close(struct mg_shard **pointer)
{
  struct mg_shard *shard = *pointer;
  int result = 0;
  *pointer = NULL;
  if (!shard) return 0;
  if (shard->has_thread) mg_shard_stop_thread(shard);
  if (shard->stage.map) {
    mg_stage_end_slot(&shard->stage);
    result = mg_shard_drain(shard);
  }
  if (shard->segment.fd >= 0 && result == 0) {
    if (shard->segment.totals.batches == 0) {
      result = mg_segment_to_spare(&shard->segment);
    } else {
      result = mg_segment_seal(&shard->segment, 0);
      if (result == 0) result = mg_segment_finish(&shard->segment);
    }
  }
  if (result == 0) tell_readers(shard);
  mg_doorbell_close(&shard->doorbell);
  mg_segment_drop(&shard->segment);
  mg_stage_close_file(&shard->stage);
  if (shard->lock_fd >= 0) shard->ops->close(shard->lock_fd);
  mg_packer_free(&shard->packer);
  pthread_mutex_destroy(&shard->spare_mutex);
  pthread_mutex_destroy(&shard->sync_mutex);
  pthread_mutex_destroy(&shard->mutex);
  free(shard);
  return result;
}
