/* recovery.c - taking over a shard from a process that died, or ended.
 *
 * All of it is arithmetic on LSNs: what the stage holds and no segment does is placed, in order. So it may be
 * interrupted anywhere, any number of times, and begins again with what is there. Nothing is deleted; what cannot be
 * read is set aside.
 * Owns: nothing between calls.   May call: scan, batch, segment, stage, left_stage.   Never: trust a hint.
 * Thread: before the shard's starts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "left_stage.h"
#include "log.h"
#include "shard_private.h"

struct found {
  uint64_t number;
  bool sealed;
};

struct state {
  struct mg_shard *shard;
  struct mg_recovery *recovery;
  struct mg_buf *error;
  struct mg_buf segments; /* struct found, by number */
  struct mg_scan *scan;
  uint64_t last_lsn;
  uint32_t epoch;    /* the highest seen */
  uint64_t key_mark; /* the last seen */
  struct mg_left_stage stage;
  uint64_t number; /* of the segment that last_lsn is known from */
  bool cut;        /* a power cut took batches that the stage still has: what comes behind them is taken from there */
};

static int fail(struct state *state, int result, const char *what)
{
  mg_buf_printf(state->error, "%s in %s: %s", what, state->shard->folder, strerror(-result));
  return result;
}

static void note_file(void *context, const char *name)
{
  struct state *state = context;
  struct found found;
  unsigned shard;
  if (mg_segment_name(name, &shard, &found.number, &found.sealed) && shard == state->shard->options.number)
    mg_buf_append(&state->segments, &found, sizeof found);
}

static int by_number(const void *a, const void *b)
{
  const struct found *x = a, *y = b;
  return x->number < y->number ? -1 : x->number > y->number;
}

/* Out of the way under a name that is not taken. */
static int set_aside(struct state *state, const char *path)
{
  const struct mg_file_ops *ops = state->shard->ops;
  char aside[4200];
  for (unsigned n = 0; n < 10000; n++) {
    snprintf(aside, sizeof aside, "%s.damaged-%u", path, n);
    int fd = ops->open(aside, O_RDONLY);
    if (fd >= 0) {
      ops->close(fd);
      continue;
    }
    int result = ops->rename(path, aside);
    if (result != 0) return fail(state, result, "cannot set a damaged file aside");
    state->recovery->set_aside++;
    mg_log(MG_LOG_ERROR, "journal file %s cannot be read and was set aside as %s", path, aside);
    return 0;
  }
  return fail(state, -EEXIST, "too many damaged files");
}

static void learn(struct state *state, uint32_t epoch, const struct mg_seal *totals)
{
  if (epoch > state->epoch) state->epoch = epoch;
  if (state->cut && !totals->batches) return;
  if (totals->last_lsn > state->last_lsn) state->last_lsn = totals->last_lsn; /* of an empty one: what came before it */
}

/* Whether the LSNs from `from` on, which should come next, do not, and the stage can make up for them. */
static bool is_cut(const struct state *state, uint64_t from, uint64_t base_lsn)
{
  return from < base_lsn && state->stage.header.epoch == state->scan->preamble.epoch &&
         mg_left_stage_has(&state->stage, from);
}

/* Everything committed in the segment that is open in the scan, up to where the power took some of it. Batches have to
 * be in the order of their LSNs, so what stands behind such a place is given up for what the stage has of it. A slot is
 * used again only long after its batch was placed, and under `sync` only after that is on the disk. */
static struct mg_seal count_batches(struct state *state)
{
  struct mg_scan *scan = state->scan;
  struct mg_seal totals = {.first_lsn = scan->preamble.base_lsn,
                           .last_lsn = scan->preamble.base_lsn - 1,
                           .data_end = MG_DATA_START,
                           .t_min_us = UINT64_MAX};
  struct mg_batch batch;
  uint64_t next =
      state->number && state->number + 1 == scan->preamble.number ? state->last_lsn + 1 : scan->preamble.base_lsn;
  for (enum mg_scan_result result; !state->cut && (result = mg_scan_next(scan, &batch)) != MG_SCAN_END;) {
    if (result != MG_SCAN_BATCH) continue;
    state->cut = is_cut(state, next, batch.base_lsn);
    if (!state->cut) mg_totals_add(&totals, &batch, scan->data_end);
    next = batch.base_lsn + batch.count;
  }
  if (!totals.batches && !state->cut) state->cut = is_cut(state, next, scan->preamble.base_lsn);
  state->recovery->damages += scan->damages;
  return totals;
}

/* What a writer may have begun behind the last batch is cleared, so that nothing of it can be taken for a fragment
 * later. */
static int clear_tail(struct mg_segment *segment, uint64_t until)
{
  uint64_t end = (until / MG_BLOCK_BYTES + 4) * MG_BLOCK_BYTES;
  if (end > segment->preamble.segment_bytes) end = segment->preamble.segment_bytes;
  return end > segment->at ? segment->ops->clear(segment->fd, segment->at, end - segment->at) : 0;
}

static int seal_current(struct state *state, uint32_t flags)
{
  struct mg_segment *segment = &state->shard->segment;
  if (segment->fd < 0) return 0;
  uint64_t size = 0;
  bool whole = segment->ops->size(segment->fd, &size) == 0 && size == state->shard->options.segment_bytes;
  if (segment->totals.batches == 0 && !flags && whole &&
      !state->cut) { /* a process that recorded nothing leaves no segment behind */
    atomic_store(&state->shard->spare_ready, true);
    return mg_segment_to_spare(segment);
  }
  int result = mg_segment_seal(segment, MG_SEAL_RECOVERED | flags);
  if (result == 0) result = mg_segment_finish(segment);
  mg_segment_drop(segment);
  mg_file_point(state->shard->ops, MG_POINT_RECOVERY_SEALED);
  return result == 0 ? 0 : fail(state, result, "cannot seal a segment");
}

/* Takes an unsealed segment as the current one; the one before it, if any, is sealed as it is. */
static int resume(struct state *state, const char *path, const struct mg_seal *totals)
{
  struct mg_shard *shard = state->shard;
  struct mg_scan *scan = state->scan;
  uint64_t skipped_to =
      state->cut ? scan->preamble.segment_bytes : (scan->at > totals->data_end ? scan->at : totals->data_end);
  bool damaged = scan->damages != 0 && !state->cut;
  int result = seal_current(state, 0);
  if (result != 0) return result;
  int fd = shard->ops->open(path, O_RDWR);
  if (fd < 0) return fail(state, fd, "cannot write a segment");
  mg_segment_resume(&shard->segment, shard->ops, shard->folder, path, fd, &scan->preamble, totals);
  state->recovery->segments++;
  result = clear_tail(&shard->segment, skipped_to);
  mg_file_point(shard->ops, MG_POINT_RECOVERY_CLEARED);
  if (result != 0) return fail(state, result, "cannot clear the end of a segment");
  return damaged ? seal_current(state, MG_SEAL_DAMAGED) : 0;
}

/* The writer died between the seal record and the name; all that the record says is there. */
static int finish(struct state *state, const char *path)
{
  struct mg_shard *shard = state->shard;
  struct mg_segment segment;
  int fd = shard->ops->open(path, O_RDWR);
  mg_segment_resume(&segment, shard->ops, shard->folder, path, fd, &state->scan->preamble, &state->scan->seal);
  int result = fd < 0 ? fd : mg_segment_finish(&segment);
  return result == 0 ? 0 : fail(state, result, "cannot finish a sealed segment");
}

/* A segment without its final name may not have been on the disk when the power went, whatever its seal record says. */
static int take_open(struct state *state, const char *path)
{
  struct mg_scan *scan = state->scan;
  bool sealed = scan->sealed;
  scan->sealed = false;
  scan->damages = 0;
  struct mg_seal totals = count_batches(state);
  bool whole = sealed && totals.batches == scan->seal.batches && totals.last_lsn == scan->seal.last_lsn;
  learn(state, scan->preamble.epoch, &totals);
  mg_file_point(state->shard->ops, MG_POINT_RECOVERY_SCANNED);
  int result = whole && !state->cut ? finish(state, path) : resume(state, path, &totals);
  return result;
}

static int take_segment(struct state *state, const struct found *found, bool wanted)
{
  struct mg_shard *shard = state->shard;
  char path[4096];
  uint32_t version;
  if (found->number >= shard->next_number) shard->next_number = found->number + 1;
  if (found->sealed && !wanted) return 0; /* numbers and LSNs only grow */
  if (!mg_segment_path(path, shard->folder, shard->options.number, found->number, found->sealed ? ".mgj" : ".open"))
    return fail(state, -ENAMETOOLONG, "a path is too long");
  int result = mg_scan_open(state->scan, shard->ops, path, &version);
  if (result == -EBADMSG && version > MG_FORMAT_VERSION)
    return fail(state, -EPROTONOSUPPORT, "a newer moongate has written here; its segments");
  if (result == -EBADMSG) return set_aside(state, path);
  if (result != 0) return fail(state, result, "cannot read a segment");
  if (state->scan->preamble.key_mark) state->key_mark = state->scan->preamble.key_mark;
  if (!found->sealed) {
    result = take_open(state, path);
  } else if (state->scan->sealed) {
    learn(state, state->scan->preamble.epoch, &state->scan->seal);
  } else {
    struct mg_seal totals = count_batches(state); /* its seal record is damaged */
    learn(state, state->scan->preamble.epoch, &totals);
  }
  state->number = found->number;
  mg_scan_close(state->scan);
  return result;
}

static int take_segments(struct state *state)
{
  int result = state->shard->ops->list(state->shard->folder, note_file, state);
  if (result != 0) return fail(state, result, "cannot list the files");
  size_t count = state->segments.len / sizeof(struct found);
  struct found *all = (struct found *)(void *)state->segments.ptr;
  if (count) qsort(all, count, sizeof *all, by_number);
  for (size_t i = 0; i < count && result == 0; i++)
    result = take_segment(state, &all[i], i + 1 == count || !all[i + 1].sealed);
  for (size_t i = count; i-- > 0 && result == 0 && !state->epoch;) /* the newest told nothing */
    if (all[i].sealed) result = take_segment(state, &all[i], true);
  return result;
}

/* One slot of the stage that a process left behind, if its entries are in no segment. */
static int take_slot(struct state *state, const uint8_t *slot)
{
  struct mg_shard *shard = state->shard;
  struct mg_packed packed;
  mg_pack(shard->packer, slot, true, MG_BATCH_RECOVERED, &packed);
  if (!packed.len || packed.header.base_lsn + packed.header.count - 1 <= state->last_lsn) return 0;
  if (shard->segment.fd >= 0 &&
      (shard->segment.preamble.epoch != packed.header.epoch || !mg_segment_fits(&shard->segment, packed.len))) {
    int result = seal_current(state, 0);
    if (result != 0) return result;
  }
  if (shard->segment.fd < 0) {
    shard->base_lsn = packed.header.base_lsn;
    struct mg_stage_header staged = state->stage.header;
    staged.epoch = packed.header.epoch;
    int result = mg_shard_new_segment(shard, &staged, shard->options.now_us);
    if (result != 0) return fail(state, result, "no space for what the last process recorded");
  }
  int result = mg_segment_place(&shard->segment, &packed.header, packed.parts, packed.len, shard->scratch, NULL);
  mg_file_point(shard->ops, MG_POINT_RECOVERY_PLACED);
  if (result != 0) return fail(state, result, "cannot write what the last process recorded");
  state->last_lsn = packed.header.base_lsn + packed.header.count - 1;
  state->recovery->entries += packed.header.count;
  return 0;
}

static int take_stage(struct state *state)
{
  int result = 0;
  if (state->stage.header.epoch < state->epoch) return 0; /* it had been emptied before its successor began */
  state->epoch = state->stage.header.epoch;
  state->recovery->damages += state->stage.damages;
  for (size_t i = 0; i < state->stage.count && result == 0; i++) result = take_slot(state, state->stage.slots[i].bytes);
  return result;
}

static int load_stage(struct state *state, const char *path)
{
  int result = mg_left_stage_load(&state->stage, state->shard->ops, path);
  if (result == -ENOENT) return 0;
  if (result == -EBADMSG) return set_aside(state, path);
  if (result == -EPROTONOSUPPORT) return fail(state, result, "a newer moongate has written here; its stage");
  return result == 0 ? 0 : fail(state, result, "cannot read the stage");
}

/* Zeros on the disk in place of what the power may have left under that name: else it would come back when the power
 * goes again, perhaps under the name of a segment. */
static bool cleared(struct mg_shard *shard, const char *ending, uint64_t *size)
{
  const struct mg_file_ops *ops = shard->ops;
  char path[4200];
  snprintf(path, sizeof path, "%s/shard-%03u.%s", shard->folder, shard->options.number, ending);
  int fd = ops->open(path, O_RDWR);
  if (fd < 0) return false;
  int result = ops->size(fd, size);
  if (result == 0 && *size) result = ops->clear(fd, 0, *size);
  if (result == 0) result = ops->sync(fd);
  ops->close(fd);
  return result == 0;
}

/* A spare of the right size is as good as new then. */
static void take_spare(struct mg_shard *shard)
{
  uint64_t size = 0;
  cleared(shard, "spare.new", &size);
  bool usable = cleared(shard, "spare", &size) && size == shard->options.segment_bytes;
  atomic_store(&shard->spare_ready, usable);
}

static int recover(struct state *state)
{
  struct mg_shard *shard = state->shard;
  char path[4200];
  snprintf(path, sizeof path, "%s/shard-%03u.stage", shard->folder, shard->options.number);
  shard->next_number = 1;
  take_spare(shard);
  int result = load_stage(state, path);
  if (result == 0) result = take_segments(state);
  if (result == 0) result = take_stage(state);
  if (result == 0) result = seal_current(state, 0);
  if (result != 0) return result;
  if (state->stage.header.key_mark) state->key_mark = state->stage.header.key_mark;
  state->recovery->other_key = state->key_mark && shard->options.key_mark && state->key_mark != shard->options.key_mark;
  shard->base_lsn = state->last_lsn + 1;
  const struct mg_stage_header header = {.epoch = state->epoch + 1,
                                         .shard = shard->options.number,
                                         .id_base = shard->options.id_base,
                                         .key_mark = shard->options.key_mark};
  result = mg_stage_open(&shard->stage, shard->ops, shard->folder, path, mg_stage_bytes(shard->options.stage_bytes),
                         &header, state->last_lsn + 1);
  if (result != 0) return fail(state, result, "cannot make the stage");
  mg_file_point(shard->ops, MG_POINT_EPOCH_WRITTEN);
  result = mg_shard_new_segment(shard, &header, shard->options.now_us);
  return result == 0 ? 0 : fail(state, result, "no space for a segment");
}

int mg_shard_recover(struct mg_shard *shard, struct mg_recovery *recovery, struct mg_buf *error)
{
  struct state state = {.shard = shard, .recovery = recovery, .error = error, .scan = mg_alloc(sizeof(struct mg_scan))};
  int result = recover(&state);
  if (result != 0) mg_segment_drop(&shard->segment);
  mg_left_stage_free(&state.stage);
  mg_buf_free(&state.segments);
  free(state.scan);
  return result;
}
