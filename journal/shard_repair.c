/* shard_repair.c - going on when files were taken away under a shard, or the disk did not keep what it was given.
 *
 * What is still in memory is placed; the stage, and a segment that is suspect, go on as new files. Entries that were
 * in pages that are gone are lost: their LSNs are missing, which the log and every reader say.
 * Owns: nothing.   May call: stage, segment, shard.   Never: acknowledge.   Thread: the producer's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "log.h"
#include "shard_private.h"

static void path_of(const struct mg_shard *shard, const char *ending, char out[4200])
{
  snprintf(out, 4200, "%s/shard-%03u.%s", shard->folder, shard->options.number, ending);
}

bool mg_shard_needs_repair(const struct mg_shard *shard)
{
  return mg_stage_lost(&shard->stage) || atomic_load_explicit(&shard->segment_suspect, memory_order_relaxed);
}

void mg_shard_look(struct mg_shard *shard)
{
  char path[4200];
  path_of(shard, "stage", path);
  pthread_mutex_lock(&shard->mutex);
  bool same = shard->stage.fd < 0 || shard->ops->is_named(shard->stage.fd, path);
  pthread_mutex_unlock(&shard->mutex);
  if (same || mg_stage_lost(&shard->stage)) return;
  mg_log(MG_LOG_ERROR, "%s is gone, or another file; journal shard %u needs a new one", path, shard->options.number);
  atomic_store(&shard->stage.given_up, true);
}

/* A folder that was removed and made again has no lock of ours in it. */
static int lock_again(struct mg_shard *shard)
{
  char path[4200];
  path_of(shard, "lock", path);
  if (shard->ops->is_named(shard->lock_fd, path)) return 0;
  int fd = shard->ops->open(path, O_RDWR | O_CREAT);
  if (fd < 0) return fd;
  int result = shard->ops->lock(fd);
  if (result != 0) {
    shard->ops->close(fd);
    return result;
  }
  shard->ops->close(shard->lock_fd);
  shard->lock_fd = fd;
  return 0;
}

/* An open segment that has no name any more takes no more batches; what it held went with the folder. */
static void leave_unnamed_segment(struct mg_shard *shard)
{
  if (shard->segment.fd < 0 || shard->ops->is_named(shard->segment.fd, shard->segment.path)) return;
  mg_log(MG_LOG_ERROR, "journal segment %s is gone; what was in it is lost", shard->segment.path);
  pthread_mutex_lock(&shard->mutex);
  mg_segment_drop(&shard->segment);
  pthread_mutex_unlock(&shard->mutex);
  atomic_store(&shard->spare_ready, false);
  atomic_fetch_add(&shard->repairs, 1);
}

static int replace_segment(struct mg_shard *shard)
{
  if (!atomic_load(&shard->segment_suspect)) return 0;
  pthread_mutex_lock(&shard->mutex);
  int result = shard->segment.fd >= 0 ? mg_segment_copy(&shard->segment) : 0;
  pthread_mutex_unlock(&shard->mutex);
  if (result != 0) return result;
  atomic_store(&shard->segment_suspect, false);
  atomic_fetch_add(&shard->repairs, 1);
  return 0;
}

/* Everything that was closed is in a segment now, so the stage may begin anew. Its descriptor is not to be closed in a
 * sync. */
static int replace_stage(struct mg_shard *shard)
{
  struct mg_stage *stage = &shard->stage;
  char path[4200];
  path_of(shard, "stage", path);
  if (!mg_stage_lost(stage)) return 0;
  pthread_mutex_lock(&shard->mutex);
  int result = mg_stage_renew(stage, shard->folder, path);
  pthread_mutex_unlock(&shard->mutex);
  if (result != 0) return result;
  mg_shard_note_lost(shard, stage->next_lsn);
  for (uint64_t gen = atomic_load(&stage->drained) + 1; gen <= stage->gen; gen++) mg_stage_retire(stage, gen);
  atomic_fetch_add(&shard->repairs, 1);
  mg_log(MG_LOG_WARN, "journal shard %u goes on in a new stage", shard->options.number);
  return 0;
}

int mg_shard_repair(struct mg_shard *shard)
{
  mg_stage_end_slot(&shard->stage);
  if (atomic_exchange_explicit(&shard->draining, true, memory_order_acquire)) return 0; /* the next call will do */
  pthread_mutex_lock(&shard->sync_mutex);
  int result = lock_again(shard);
  if (result == 0) leave_unnamed_segment(shard);
  if (result == 0) result = replace_segment(shard);
  if (result == 0) result = mg_shard_drain_held(shard);
  if (result == 0) result = replace_stage(shard);
  atomic_store(&shard->trouble, -result);
  pthread_mutex_unlock(&shard->sync_mutex);
  atomic_store_explicit(&shard->draining, false, memory_order_release);
  return result;
}
