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

enum { RETRY_MS = 200 };

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
  mg_segment_finish(sealed);
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

/* The stage and the open segment, which between them hold everything. */
static void sync_all(struct mg_shard *shard)
{
  uint64_t lsn = atomic_load(&shard->committed_lsn);
  pthread_mutex_lock(&shard->mutex);
  int segment_fd = shard->segment.fd >= 0 ? dup(shard->segment.fd) : -1;
  void (*done)(void *) = shard->on_sync;
  void *context = shard->on_sync_context;
  pthread_mutex_unlock(&shard->mutex);
  int result = shard->ops->sync(shard->stage.fd);
  if (segment_fd >= 0) {
    int synced = shard->ops->sync(segment_fd);
    if (result == 0) result = synced;
    close(segment_fd);
  }
  if (result != 0) {
    atomic_store(&shard->trouble, -result); /* what the disk refused once it may not say again */
    mg_log(MG_LOG_ERROR, "journal shard %u cannot be synced: %s", shard->options.number, strerror(-result));
  } else if (lsn > atomic_load(&shard->durable_lsn)) {
    atomic_store(&shard->durable_lsn, lsn);
  }
  if (done) done(context);
}

static uint64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void *run(void *argument)
{
  struct mg_shard *shard = argument;
  prctl(PR_SET_NAME, "mg-journal");
  uint64_t pause = shard->options.sync == MG_SYNC_INTERVAL ? shard->options.interval_ms : 0, sync_at = 0;
  while (!atomic_load(&shard->stop)) {
    uint32_t seen = atomic_load(&shard->wake);
    int result = shard->options.threaded ? mg_shard_drain(shard) : 0;
    finish_sealed(shard);
    bool content = make_spare(shard) && result == 0;
    bool newer = atomic_load(&shard->committed_lsn) > atomic_load(&shard->durable_lsn);
    if (newer && (shard->options.sync == MG_SYNC_GROUP || (pause && now_ms() >= sync_at))) {
      sync_all(shard);
      sync_at = now_ms() + pause;
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

bool mg_shard_durable(const struct mg_shard *shard, uint64_t lsn)
{
  return atomic_load(&shard->durable_lsn) >= lsn;
}

void mg_shard_on_sync(struct mg_shard *shard, void (*done)(void *context), void *context)
{
  pthread_mutex_lock(&shard->mutex);
  shard->on_sync = done;
  shard->on_sync_context = context;
  pthread_mutex_unlock(&shard->mutex);
}

void mg_shard_ask_sync(struct mg_shard *shard)
{
  atomic_store(&shard->committed_lsn, shard->stage.next_lsn - 1);
  mg_shard_wake(shard);
}
