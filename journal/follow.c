/* follow.c - reading shard after shard to where their writers are, and waiting there.
 * Owns: a scan per shard, the unpacker, the mapping of the doorbell.   May call: scan, batch, entry, doorbell.   Never:
 * write, or pass over anything without a finding.   Thread: the follower's. */
#include "follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <time.h>

#include "follow_private.h"
#include "log.h"
#include "segment.h"

enum { BATCHES_AT_ONCE = 64, LOOK_AHEAD = 4, SPIN_NS = 20000, POLL_MS = 3 };

int mg_follow_open(struct mg_follow **out, const struct mg_file_ops *ops, const char *folder,
                   const struct mg_follow_options *options, const struct mg_reader_events *events)
{
  struct mg_follow *follow = mg_calloc(1, sizeof *follow);
  follow->ops = ops;
  follow->events = events;
  follow->since_us = options->since_us;
  follow->newest = options->newest;
  follow->unpacker = mg_unpacker_new();
  follow->slot = aligned_alloc(64, MG_SLOT_BYTES);
  MG_ASSERT(follow->slot);
  snprintf(follow->folder, sizeof follow->folder, "%s", folder);
  if (options->from_count) {
    follow->from = mg_calloc(options->from_count, sizeof *follow->from);
    memcpy(follow->from, options->from, options->from_count * sizeof *follow->from);
    follow->from_count = options->from_count;
  }
  *out = follow;
  int result = mg_follow_look(follow);
  if (result == 0) mg_doorbell_watch(&follow->doorbell, ops, folder);
  follow->newest = false; /* a shard that appears later is new from its first entry on */
  if (result != 0) mg_follow_close(out);
  return result;
}

void mg_follow_find(struct mg_follow *follow, const struct mg_follow_shard *shard, const struct mg_finding *finding)
{
  char name[64];
  struct mg_finding told = *finding;
  told.shard = shard->number;
  snprintf(name, sizeof name, "shard-%03u-%010llu", shard->number, (unsigned long long)shard->segment);
  told.file = name;
  if (follow->events->finding) follow->events->finding(follow->events->context, &told);
}

static void find_range(struct mg_follow *follow, const struct mg_follow_shard *shard, enum mg_finding_kind kind,
                       uint64_t from, uint64_t count)
{
  mg_follow_find(follow, shard, &(struct mg_finding){.kind = kind, .from = from, .count = count});
}

enum mg_told mg_follow_tell(struct mg_follow *follow, struct mg_follow_shard *shard, const struct mg_batch *batch,
                            struct mg_origin_of *origin)
{
  struct mg_plain_entry plain;
  struct mg_entry entry;
  int result;
  mg_scope_start(&follow->scope, batch);
  origin->epoch = batch->epoch;
  for (uint64_t lsn = batch->base_lsn; (result = mg_unpack_next(follow->unpacker, &plain)) == 1; lsn++) {
    if (!mg_entry_decode(&follow->scope, &plain, &entry)) return MG_TOLD_DAMAGED;
    if (lsn <= shard->last_lsn) continue;
    origin->lsn = lsn;
    if (!follow->events->entry(follow->events->context, origin, &follow->scope, &entry)) return MG_TOLD_REFUSED;
    shard->last_lsn = lsn;
    follow->told++;
  }
  return result == 0 ? MG_TOLD_ALL : MG_TOLD_DAMAGED;
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

static void close_segment(struct mg_follow_shard *shard)
{
  mg_scan_close(shard->scan);
  shard->open = false;
}

/* The offset that was remembered led astray: the segment is read from its beginning. */
static void forget_hint(struct mg_follow_shard *shard)
{
  shard->hinted = false;
  close_segment(shard);
  shard->segment = shard->hint_segment - 1;
}

/* Where the segment that was just opened stands to what was read. False: it is not to be read. */
static bool enter(struct mg_follow *follow, struct mg_follow_shard *shard)
{
  const struct mg_preamble *preamble = &shard->scan->preamble;
  if (preamble->shard != shard->number || preamble->number != shard->segment) {
    find_range(follow, shard, MG_FOUND_UNREADABLE, 0, 1);
    return false;
  }
  if (!shard->known) {
    shard->known = true;
    shard->epoch = preamble->epoch;
    shard->last_lsn = preamble->base_lsn - 1;
  }
  if (preamble->epoch < shard->epoch) {
    find_range(follow, shard, MG_FOUND_REPEATED, preamble->base_lsn, 1);
    return false;
  }
  if (preamble->epoch > shard->epoch && preamble->base_lsn <= shard->last_lsn) {
    find_range(follow, shard, MG_FOUND_REWOUND, preamble->base_lsn, shard->last_lsn - preamble->base_lsn + 1);
    shard->last_lsn = preamble->base_lsn - 1;
  }
  if (preamble->base_lsn > shard->last_lsn + 1) {
    find_range(follow, shard, MG_FOUND_MISSING, shard->last_lsn + 1, preamble->base_lsn - shard->last_lsn - 1);
    shard->last_lsn = preamble->base_lsn - 1;
  }
  shard->epoch = preamble->epoch;
  return true;
}

/* Opens that segment under either of its names. 0, -ENOENT when there is none, or why it cannot be read now. */
static int open_number(struct mg_follow *follow, struct mg_follow_shard *shard, uint64_t number)
{
  char path[4096];
  uint32_t version;
  int result = -ENOENT;
  for (int i = 0; i < 3 && result == -ENOENT; i++) { /* .open again: it may be renamed between two looks */
    if (!mg_segment_path(path, follow->folder, shard->number, number, i == 1 ? ".mgj" : ".open")) return -ENAMETOOLONG;
    result = mg_scan_open(shard->scan, follow->ops, path, &version);
  }
  if (result != 0 && result != -EBADMSG) return result;
  shard->segment = number;
  shard->scan->ahead = 0;
  shard->open = result == 0;
  if (shard->open) memcpy(shard->uuid, shard->scan->preamble.uuid, sizeof shard->uuid);
  if (shard->open && shard->hinted && number == shard->hint_segment) mg_scan_seek(shard->scan, shard->hint_offset);
  if (!shard->open) find_range(follow, shard, MG_FOUND_UNREADABLE, version, 1);
  if (!shard->open || enter(follow, shard)) return 0;
  close_segment(shard);
  return 0;
}

/* The number of the shard's next segment as of the last listing; 0: none. */
static uint64_t next_listed(const struct mg_follow *follow, const struct mg_follow_shard *shard)
{
  const struct mg_follow_file *files = (const struct mg_follow_file *)(const void *)follow->files.ptr;
  for (size_t i = 0; i < follow->files.len / sizeof *files; i++)
    if (files[i].shard == shard->number && files[i].number > shard->segment) return files[i].number;
  return 0;
}

static bool is_listed(const struct mg_follow *follow, const struct mg_follow_shard *shard)
{
  const struct mg_follow_file *files = (const struct mg_follow_file *)(const void *)follow->files.ptr;
  for (size_t i = 0; i < follow->files.len / sizeof *files; i++)
    if (files[i].shard == shard->number && files[i].number == shard->segment) return true;
  return false;
}

/* Whether the open segment's file still bears its name, of which it may be getting the other just now. */
static bool is_in_place(const struct mg_follow *follow, const struct mg_follow_shard *shard)
{
  static const char *const endings[] = {".open", ".mgj", ".open"};
  char path[4096];
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
    if (mg_segment_path(path, follow->folder, shard->number, shard->segment, endings[i]) &&
        follow->ops->is_named(shard->scan->fd, path))
      return true;
  return false;
}

/* 1: a segment is open or one was passed over; 0: there is no next one; or an error. A listing is not trusted where
 * it has a hole: a file that is renamed meanwhile can be missing from it. */
static int open_next(struct mg_follow *follow, struct mg_follow_shard *shard)
{
  int result = open_number(follow, shard, shard->segment + 1);
  if (result != -ENOENT) return result == 0 ? 1 : result;
  uint64_t number = next_listed(follow, shard);
  if (!number) return 0;
  result = open_number(follow, shard, number);
  if (result == -ENOENT) shard->segment = number; /* deleted since the listing */
  return result == 0 || result == -ENOENT ? 1 : result;
}

/* A sealed segment was read to its end. */
static void leave(struct mg_follow *follow, struct mg_follow_shard *shard)
{
  const struct mg_seal *seal = &shard->scan->seal;
  if (shard->scan->sealed && seal->last_lsn > shard->last_lsn && seal->last_lsn >= seal->first_lsn) {
    if (shard->hinted) {
      forget_hint(shard);
      return;
    }
    find_range(follow, shard, MG_FOUND_MISSING, shard->last_lsn + 1, seal->last_lsn - shard->last_lsn);
    shard->last_lsn = seal->last_lsn;
  }
  close_segment(shard);
}

/* At the end of what an open segment holds, with nothing new to be seen: why that may be. As at_end. */
static int look_around(struct mg_follow *follow, struct mg_follow_shard *shard)
{
  if (next_listed(follow, shard)) { /* a segment is sealed before its successor is there: this one was given up */
    if (shard->scan->torn) find_range(follow, shard, MG_FOUND_DAMAGE, 0, 1);
    close_segment(shard);
    return 1;
  }
  if (!is_in_place(follow, shard)) {
    if (is_listed(follow, shard)) return -ESTALE;
    find_range(follow, shard, MG_FOUND_DELETED, shard->last_lsn + 1, 1);
    close_segment(shard);
    return 1;
  }
  shard->scan->ahead = LOOK_AHEAD;
  return 1;
}

/* At the end of what a segment holds. 1: reading goes on at once; 0: this is all for now; or an error. */
static int at_end(struct mg_follow *follow, struct mg_follow_shard *shard, bool look, bool *looked)
{
  bool sealed = shard->scan->sealed;
  if (!mg_scan_refresh(shard->scan)) {
    close_segment(shard);
    shard->segment--;
    return 1;
  }
  if (shard->scan->sealed) {
    if (sealed) leave(follow, shard); /* else there may be more before the seal than there was a moment ago */
    return 1;
  }
  if (look && !*looked) {
    *looked = true;
    return look_around(follow, shard);
  }
  shard->scan->ahead = 0;
  return 0;
}

/* 0, or -ECANCELED when an entry was refused. */
static int take_batch(struct mg_follow *follow, struct mg_follow_shard *shard, const struct mg_batch *batch)
{
  struct mg_scan *scan = shard->scan;
  uint64_t last = batch->base_lsn + batch->count - 1;
  struct mg_batch again;
  struct mg_origin_of origin = {
      .shard = shard->number, .id_base = scan->preamble.id_base, .segment = shard->segment, .offset = scan->batch_from};
  if (last <= shard->last_lsn) return 0;
  if (batch->base_lsn > shard->last_lsn + 1) {
    if (shard->hinted) {
      forget_hint(shard);
      return 0;
    }
    find_range(follow, shard, MG_FOUND_MISSING, shard->last_lsn + 1, batch->base_lsn - shard->last_lsn - 1);
    shard->last_lsn = batch->base_lsn - 1;
  }
  shard->hinted = false;
  enum mg_told told = MG_TOLD_ALL;
  if (!follow->since_us || batch->t_max_us >= follow->since_us) {
    told = batch->epoch == shard->epoch && mg_unpack(follow->unpacker, scan->batch, scan->batch_len, &again)
               ? mg_follow_tell(follow, shard, batch, &origin)
               : MG_TOLD_DAMAGED;
  }
  if (told == MG_TOLD_REFUSED) return -ECANCELED;
  if (told == MG_TOLD_DAMAGED) {
    const struct mg_finding finding = {
        .kind = MG_FOUND_DAMAGE, .from = batch->base_lsn, .count = 1, .offset = scan->batch_from};
    mg_follow_find(follow, shard, &finding);
  }
  shard->last_lsn = last;
  return 0;
}

static int read_shard(struct mg_follow *follow, struct mg_follow_shard *shard, bool look)
{
  bool looked = false;
  struct mg_batch batch;
  for (int batches = 0; batches < BATCHES_AT_ONCE;) {
    if (!shard->open) {
      int result = open_next(follow, shard);
      if (result < 0) return result;
      if (result == 0) break;
      continue;
    }
    uint64_t at = shard->scan->at;
    switch (mg_scan_next(shard->scan, &batch)) {
    case MG_SCAN_BATCH: {
      int result = take_batch(follow, shard, &batch);
      if (result != 0) return result;
      batches++;
      break;
    }
    case MG_SCAN_DAMAGE:
      if (shard->hinted) {
        forget_hint(shard);
        break;
      }
      mg_follow_find(follow, shard, &(struct mg_finding){.kind = MG_FOUND_DAMAGE, .count = 1, .offset = at});
      break;
    default: {
      int result = at_end(follow, shard, look, &looked);
      if (result < 0) return result;
      if (result == 0) return look ? mg_follow_stage(follow, shard) : 0;
    }
    }
  }
  return look && !shard->open ? mg_follow_stage(follow, shard) : 0;
}

/* Something came and nobody rang: the doorbell may be another file by now, or there was none when we began. */
static void watch_again(struct mg_follow *follow)
{
  mg_doorbell_close(&follow->doorbell);
  mg_doorbell_watch(&follow->doorbell, follow->ops, follow->folder);
  follow->seen = mg_doorbell_count(&follow->doorbell) - 1; /* what came since is looked for before we sleep */
}

int64_t mg_follow_read(struct mg_follow *follow, bool look)
{
  follow->told = 0;
  follow->seen = mg_doorbell_count(&follow->doorbell);
  int result = look ? mg_follow_look(follow) : 0;
  for (size_t i = 0; i < follow->count && result != -ECANCELED; i++) {
    int failed = read_shard(follow, follow->shards[i], look); /* one shard's trouble is not the others' */
    if (failed != 0) result = failed;
  }
  if (look && (follow->told || !follow->doorbell.map) && mg_doorbell_count(&follow->doorbell) == follow->seen)
    watch_again(follow);
  return result != 0 ? result : (int64_t)follow->told;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static int64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool mg_follow_wait(struct mg_follow *follow, unsigned milliseconds)
{
  const struct mg_doorbell *doorbell = &follow->doorbell;
  if (!doorbell->map) {
    mg_doorbell_wait(doorbell, follow->seen, milliseconds < POLL_MS ? milliseconds : POLL_MS);
    return false;
  }
  for (int64_t until = now_ns() + SPIN_NS; now_ns() < until;)
    if (mg_doorbell_count(doorbell) != follow->seen) return true;
  mg_doorbell_wait(doorbell, follow->seen, milliseconds);
  return mg_doorbell_count(doorbell) != follow->seen;
}

bool mg_follow_position(const struct mg_follow *follow, size_t index, struct mg_position *position)
{
  if (index >= follow->count) return false;
  const struct mg_follow_shard *shard = follow->shards[index];
  *position = (struct mg_position){.shard = shard->number,
                                   .epoch = shard->epoch,
                                   .lsn = shard->last_lsn + 1,
                                   .segment = shard->segment,
                                   .offset = shard->open ? shard->scan->data_end : 0,
                                   .newest = shard->segment};
  memcpy(position->uuid, shard->uuid, sizeof position->uuid);
  return true;
}

uint64_t mg_follow_lag(const struct mg_follow *follow)
{
  uint64_t lag = 0;
  for (size_t i = 0; i < follow->count && follow->doorbell.map; i++) {
    const struct mg_follow_shard *shard = follow->shards[i];
    struct mg_doorbell_line line = mg_doorbell_line(&follow->doorbell, shard->number);
    if (line.epoch && line.last_lsn > shard->last_lsn) lag += line.last_lsn - shard->last_lsn;
  }
  return lag;
}

void mg_follow_close(struct mg_follow **pointer)
{
  struct mg_follow *follow = *pointer;
  *pointer = NULL;
  if (!follow) return;
  for (size_t i = 0; i < follow->count; i++) {
    mg_scan_close(follow->shards[i]->scan);
    if (follow->shards[i]->stage_fd >= 0) follow->ops->close(follow->shards[i]->stage_fd);
    free(follow->shards[i]->scan);
    free(follow->shards[i]);
  }
  mg_doorbell_close(&follow->doorbell);
  mg_scope_free(&follow->scope);
  mg_unpacker_free(&follow->unpacker);
  mg_buf_free(&follow->files);
  free(follow->shards);
  free(follow->from);
  free(follow->slot);
  free(follow);
}
