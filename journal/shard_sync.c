/* shard_sync.c - bringing a shard to the disk, and what waits for that.
 * Owns: the count of what is there.   May call: file, stage.   Never: believe in a second sync after one that failed.
 * Thread: the shard's own, or the producer when it has no slot left; one at a time. */
#include <errno.h>
#include <unistd.h>

#include "log.h"
#include "shard_private.h"

bool mg_shard_defers(const struct mg_shard *shard)
{
  return shard->options.sync != MG_SYNC_PROCESS;
}

/* What is to be synced: descriptors of our own, so that nobody closes them meanwhile. */
struct batch_of_work {
  int stage_fd, segment_fd;
  uint64_t lsn;    /* committed so far */
  uint64_t placed; /* generations whose batches are in the open segment or in earlier ones */
  uint64_t number; /* of the open segment */
  bool earlier_ones_are_there;
  void (*done)(void *context);
  void *context;
};

static struct batch_of_work take_work(struct mg_shard *shard)
{
  struct batch_of_work work = {.lsn = atomic_load(&shard->committed_lsn)};
  work.placed = atomic_load(&shard->placed); /* before asking for unsynced: a rotation in between only adds to that */
  pthread_mutex_lock(&shard->mutex);
  work.earlier_ones_are_there = atomic_load(&shard->unsynced) == 0;
  work.stage_fd = shard->stage.fd >= 0 ? dup(shard->stage.fd) : -1;
  work.segment_fd = shard->segment.fd >= 0 ? dup(shard->segment.fd) : -1;
  work.number = shard->segment.preamble.number;
  work.done = shard->on_sync;
  work.context = shard->on_sync_context;
  pthread_mutex_unlock(&shard->mutex);
  return work;
}

static int sync_segment(struct mg_shard *shard, const struct batch_of_work *work)
{
  if (work->segment_fd < 0) return 0;
  int result = shard->ops->sync(work->segment_fd);
  if (result != 0) atomic_store(&shard->segment_suspect, true);
  if (result == 0 && shard->named_number != work->number) { /* a file whose name is not there is not there */
    result = shard->ops->sync_folder(shard->folder);
    if (result == 0) shard->named_number = work->number;
  }
  return result;
}

static int sync_stage(struct mg_shard *shard, const struct batch_of_work *work)
{
  int result = work->stage_fd >= 0 ? shard->ops->sync(work->stage_fd) : -EBADF;
  if (result != 0) atomic_store(&shard->stage.given_up, true);
  return result == 0 && mg_stage_lost(&shard->stage) ? -EIO : result; /* what is in memory alone was not written */
}

void mg_shard_sync(struct mg_shard *shard)
{
  pthread_mutex_lock(&shard->sync_mutex);
  struct batch_of_work work = take_work(shard);
  bool known = mg_shard_needs_repair(shard);
  int result = known ? -EIO : sync_stage(shard, &work), segment_result = known ? 0 : sync_segment(shard, &work);
  if (result == 0) result = segment_result;
  if (work.stage_fd >= 0) close(work.stage_fd);
  if (work.segment_fd >= 0) close(work.segment_fd);
  if (result != 0) {
    /* The kernel says so once and counts the pages as written: only a new file can make up for it. */
    atomic_store(&shard->trouble, -result);
    if (!known) mg_log(MG_LOG_ERROR, "journal shard %u cannot be synced: %s", shard->options.number, strerror(-result));
  } else {
    if (work.lsn > atomic_load(&shard->durable_lsn)) atomic_store(&shard->durable_lsn, work.lsn);
    uint64_t drained = atomic_load(&shard->stage.drained);
    for (uint64_t gen = drained + 1; mg_shard_defers(shard) && work.earlier_ones_are_there && gen <= work.placed; gen++)
      mg_stage_retire(&shard->stage, gen);
  }
  pthread_mutex_unlock(&shard->sync_mutex);
  if (work.done) work.done(work.context);
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
