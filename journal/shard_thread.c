/* shard_thread.c - a shard's own thread: drains where it is asked to, and does all that takes long.
 * Owns: the thread.   May call: shard (drain), segment.   Never: record.   Thread: its own; wake and hand_over from
 * any. */
#include "shard_private.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

enum { RETRY_MS = 200, LOOK_MS = 1000 };

void mg_shard_wake(struct mg_shard *shard)
{
  atomic_fetch_add_explicit(&shard->wake, 1, memory_order_seq_cst);
  if (atomic_load_explicit(&shard->asleep, memory_order_seq_cst))
    syscall(SYS_futex, &shard->wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleeps until somebody wakes us after seen was read, or milliseconds have passed (0: no limit). */
static void sleep_until_woken(struct mg_shard *shard, uint32_t seen, uint64_t milliseconds)
{
  struct timespec limit = {.tv_sec = (time_t)(milliseconds / 1000), .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  atomic_store(&shard->asleep, true);
  if (atomic_load(&shard->wake) == seen)
    syscall(SYS_futex, &shard->wake, FUTEX_WAIT_PRIVATE, seen, milliseconds ? &limit : NULL, NULL, 0);
  atomic_store(&shard->asleep, false);
}

void mg_shard_hand_over(struct mg_shard *shard, const struct mg_segment *segment)
{
  struct mg_segment *sealed = mg_alloc(sizeof *sealed);
  *sealed = *segment;
  pthread_mutex_lock(&shard->mutex);
  bool room = shard->has_thread && shard->sealing_count < MG_SEALING_MAX;
  if (room) shard->sealing[shard->sealing_count++] = sealed;
  pthread_mutex_unlock(&shard->mutex);
  if (room) {
    mg_shard_wake(shard);
    return;
  }
  int result = mg_segment_finish(sealed);
  if (result != 0)
    mg_log(MG_LOG_ERROR, "journal segment %s may not be on the disk: %s", sealed->path, strerror(-result));
  atomic_fetch_sub(&shard->unsynced, 1);
  free(sealed);
}

static void finish_sealed(struct mg_shard *shard)
{
  for (;;) {
    pthread_mutex_lock(&shard->mutex);
    struct mg_segment *segment = shard->sealing_count ? shard->sealing[0] : NULL;
    if (segment) memmove(shard->sealing, shard->sealing + 1, --shard->sealing_count * sizeof *shard->sealing);
    pthread_mutex_unlock(&shard->mutex);
    if (!segment) return;
    int result = mg_segment_finish(segment);
    if (result != 0)
      mg_log(MG_LOG_ERROR, "journal segment %s may not be on the disk: %s", segment->path, strerror(-result));
    atomic_fetch_sub(&shard->unsynced, 1);
    free(segment);
  }
}

/* Returns false when there is no space for one yet. */
static bool make_spare(struct mg_shard *shard)
{
  if (!atomic_load(&shard->spare_wanted) || atomic_load(&shard->spare_ready)) return true;
  pthread_mutex_lock(&shard->spare_mutex); /* a rotation may be making one */
  int result = atomic_load(&shard->spare_ready)
                   ? 0
                   : mg_spare_make(shard->ops, shard->folder, shard->options.number, shard->options.segment_bytes);
  if (result == 0) {
    atomic_store(&shard->spare_ready, true);
    atomic_store(&shard->spare_wanted, false);
  }
  pthread_mutex_unlock(&shard->spare_mutex);
  return result == 0;
}

static uint64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* With slots that wait for the disk the stage is not to fill up between two syncs. */
static bool sync_is_due(struct mg_shard *shard, uint64_t at)
{
  if (atomic_load(&shard->committed_lsn) <= atomic_load(&shard->durable_lsn)) return false;
  if (shard->options.sync == MG_SYNC_GROUP) return true;
  uint64_t waiting = atomic_load(&shard->placed) - atomic_load(&shard->stage.drained);
  return shard->options.sync == MG_SYNC_INTERVAL && (now_ms() >= at || waiting > shard->stage.slots / 2);
}

static void *run(void *argument)
{
  struct mg_shard *shard = argument;
  prctl(PR_SET_NAME, "mg-journal");
  uint64_t pause = shard->options.sync == MG_SYNC_INTERVAL ? shard->options.interval_ms : LOOK_MS;
  uint64_t sync_at = 0, look_at = now_ms() + LOOK_MS;
  while (!atomic_load(&shard->stop)) {
    uint32_t seen = atomic_load(&shard->wake);
    int result = shard->options.threaded ? mg_shard_drain(shard) : 0;
    finish_sealed(shard);
    bool content = make_spare(shard) && result == 0;
    if (sync_is_due(shard, sync_at)) {
      mg_shard_sync(shard);
      sync_at = now_ms() + pause;
    }
    if (now_ms() >= look_at) {
      mg_shard_look(shard);
      look_at = now_ms() + LOOK_MS;
    }
    sleep_until_woken(shard, seen, content ? pause : RETRY_MS);
  }
  finish_sealed(shard);
  return NULL;
}

int mg_shard_start_thread(struct mg_shard *shard)
{
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the threads that know what they mean */
  int result = pthread_create(&shard->thread, NULL, run, shard);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  shard->has_thread = result == 0;
  return -result;
}

void mg_shard_stop_thread(struct mg_shard *shard)
{
  atomic_store(&shard->stop, true);
  mg_shard_wake(shard);
  pthread_join(shard->thread, NULL);
  shard->has_thread = false;
}
