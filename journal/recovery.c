/* recovery.c - taking over a shard from a process that died, or ended.
 *
 * All of it is arithmetic on LSNs: what the stage holds and no segment does is placed, in order. So it may be
 * interrupted anywhere, any number of times, and begins again with what is there. Nothing is deleted; what cannot be
 * read is set aside.
 * Owns: nothing between calls.   May call: scan, batch, segment, stage.   Never: trust a hint.   Thread: before the
 * shard's starts. */
#include "shard_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

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
  uint32_t epoch;   /* the highest seen */
  uint64_t id_base; /* of the stage's epoch */
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
  if (totals->last_lsn > state->last_lsn) state->last_lsn = totals->last_lsn; /* of an empty one: what came before it */
}

/* Everything committed in the segment that is open in the scan. */
static struct mg_seal count_batches(struct state *state)
{
  struct mg_scan *scan = state->scan;
  struct mg_seal totals = {.first_lsn = scan->preamble.base_lsn,
                           .last_lsn = scan->preamble.base_lsn - 1,
                           .data_end = MG_DATA_START,
                           .t_min_us = UINT64_MAX};
  struct mg_batch batch;
  for (enum mg_scan_result result; (result = mg_scan_next(scan, &batch)) != MG_SCAN_END;)
    if (result == MG_SCAN_BATCH) mg_totals_add(&totals, &batch, scan->data_end);
  state->recovery->damages += scan->damages;
  return totals;
}

/* What a writer may have begun behind the last batch is cleared, so that nothing of it can be taken for a fragment
 * later. */
static int clear_tail(struct mg_segment *segment, uint64_t until)
{
  static const uint8_t zeros[4096];
  uint64_t end = (until / MG_BLOCK_BYTES + 4) * MG_BLOCK_BYTES;
  if (end > segment->preamble.segment_bytes) end = segment->preamble.segment_bytes;
  for (uint64_t at = segment->at; at < end; at += sizeof zeros) {
    size_t len = end - at < sizeof zeros ? (size_t)(end - at) : sizeof zeros;
    int result = segment->ops->write(segment->fd, zeros, len, at);
    if (result != 0) return result;
  }
  return 0;
}

static int seal_current(struct state *state, uint32_t flags)
{
  struct mg_segment *segment = &state->shard->segment;
  if (segment->fd < 0) return 0;
  uint64_t size = 0;
  bool whole = segment->ops->size(segment->fd, &size) == 0 && size == state->shard->options.segment_bytes;
  if (segment->totals.batches == 0 && !flags && whole) { /* a process that recorded nothing leaves no segment behind */
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
static int resume(struct state *state, const char *path)
{
  struct mg_shard *shard = state->shard;
  struct mg_scan *scan = state->scan;
  struct mg_seal totals = count_batches(state);
  learn(state, scan->preamble.epoch, &totals);
  mg_file_point(shard->ops, MG_POINT_RECOVERY_SCANNED);
  uint64_t skipped_to = scan->at > totals.data_end ? scan->at : totals.data_end;
  bool damaged = scan->damages != 0;
  int result = seal_current(state, 0);
  if (result != 0) return result;
  int fd = shard->ops->open(path, O_RDWR);
  if (fd < 0) return fail(state, fd, "cannot write a segment");
  mg_segment_resume(&shard->segment, shard->ops, shard->folder, path, fd, &scan->preamble, &totals);
  state->recovery->segments++;
  result = clear_tail(&shard->segment, skipped_to);
  mg_file_point(shard->ops, MG_POINT_RECOVERY_CLEARED);
  if (result != 0) return fail(state, result, "cannot clear the end of a segment");
  return damaged ? seal_current(state, MG_SEAL_DAMAGED) : 0;
}

static int take_segment(struct state *state, const struct found *found, bool newest)
{
  struct mg_shard *shard = state->shard;
  char path[4096];
  uint32_t version;
  if (found->number >= shard->next_number) shard->next_number = found->number + 1;
  if (found->sealed && !newest) return 0; /* numbers and LSNs only grow */
  if (!mg_segment_path(path, shard->folder, shard->options.number, found->number, found->sealed ? ".mgj" : ".open"))
    return fail(state, -ENAMETOOLONG, "a path is too long");
  int result = mg_scan_open(state->scan, shard->ops, path, &version);
  if (result == -EBADMSG && version > MG_FORMAT_VERSION)
    return fail(state, -EPROTONOSUPPORT, "a newer moongate has written here; its segments");
  if (result == -EBADMSG) return set_aside(state, path);
  if (result != 0) return fail(state, result, "cannot read a segment");
  if (state->scan->sealed) {
    learn(state, state->scan->preamble.epoch, &state->scan->seal);
    if (!found->sealed) { /* the writer died between the seal record and the name */
      int fd = shard->ops->open(path, O_RDWR);
      struct mg_segment segment;
      mg_segment_resume(&segment, shard->ops, shard->folder, path, fd, &state->scan->preamble, &state->scan->seal);
      result = fd < 0 ? fd : mg_segment_finish(&segment);
      if (result != 0) result = fail(state, result, "cannot finish a sealed segment");
    }
  } else if (found->sealed) {
    struct mg_seal totals = count_batches(state); /* its seal record is damaged */
    learn(state, state->scan->preamble.epoch, &totals);
  } else {
    result = resume(state, path);
  }
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
  for (size_t i = 0; i < count && result == 0; i++) result = take_segment(state, &all[i], i + 1 == count);
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
    int result = mg_shard_new_segment(shard, packed.header.epoch, state->id_base, shard->options.now_us);
    if (result != 0) return fail(state, result, "no space for what the last process recorded");
  }
  int result = mg_segment_place(&shard->segment, &packed.header, packed.bytes, packed.len, shard->scratch);
  mg_file_point(shard->ops, MG_POINT_RECOVERY_PLACED);
  if (result != 0) return fail(state, result, "cannot write what the last process recorded");
  state->last_lsn = packed.header.base_lsn + packed.header.count - 1;
  state->recovery->entries += packed.header.count;
  return 0;
}

static int by_base_lsn(const void *a, const void *b)
{
  uint64_t x = mg_get64(*(uint8_t *const *)a + 8), y = mg_get64(*(uint8_t *const *)b + 8);
  return x < y ? -1 : x > y;
}

static int take_slots(struct state *state, const struct mg_stage_header *header, uint8_t *bytes, size_t slots)
{
  uint8_t **used = mg_calloc(slots + 1, sizeof *used);
  size_t count = 0;
  int result = 0;
  for (size_t i = 0; i < slots; i++) {
    struct mg_slot slot;
    uint8_t *at = bytes + i * MG_SLOT_BYTES;
    if (mg_slot_read(&slot, at) && slot.epoch == header->epoch) used[count++] = at;
  }
  if (count) qsort(used, count, sizeof *used, by_base_lsn);
  for (size_t i = 0; i < count && result == 0; i++) result = take_slot(state, used[i]);
  free(used);
  return result;
}

static int take_stage(struct state *state, const char *path)
{
  const struct mg_file_ops *ops = state->shard->ops;
  struct mg_stage_header header;
  uint8_t head[512];
  uint64_t size = 0;
  int fd = ops->open(path, O_RDONLY);
  if (fd == -ENOENT) return 0;
  if (fd < 0) return fail(state, fd, "cannot read the stage");
  int result = ops->size(fd, &size);
  int got = result == 0 ? ops->read(fd, head, sizeof head, 0) : result;
  if (got < (int)sizeof head || !mg_stage_header_read(&header, head)) {
    ops->close(fd);
    return got < 0 ? fail(state, got, "cannot read the stage") : set_aside(state, path);
  }
  state->id_base = header.id_base;
  if (header.epoch >= state->epoch) { /* an older one had been emptied before its successor began */
    state->epoch = header.epoch;
    size_t bytes = size > MG_STAGE_HEADER_BYTES ? (size_t)size - MG_STAGE_HEADER_BYTES : 0;
    size_t slots = bytes / MG_SLOT_BYTES < header.slots ? bytes / MG_SLOT_BYTES : header.slots;
    uint8_t *copy = aligned_alloc(8, slots * MG_SLOT_BYTES + 8);
    MG_ASSERT(copy);
    got = ops->read(fd, copy, slots * MG_SLOT_BYTES, MG_STAGE_HEADER_BYTES);
    result = got < 0 ? fail(state, got, "cannot read the stage")
                     : take_slots(state, &header, copy, (size_t)got / MG_SLOT_BYTES);
    free(copy);
  }
  ops->close(fd);
  return result;
}

/* A spare of the right size is as good as new: whatever is in it is a preamble that will be written over. */
static void take_spare(struct mg_shard *shard)
{
  char path[4200];
  uint64_t size = 0;
  snprintf(path, sizeof path, "%s/shard-%03u.spare", shard->folder, shard->options.number);
  int fd = shard->ops->open(path, O_RDONLY);
  if (fd < 0) return;
  if (shard->ops->size(fd, &size) == 0 && size == shard->options.segment_bytes) atomic_store(&shard->spare_ready, true);
  shard->ops->close(fd);
}

static int recover(struct state *state)
{
  struct mg_shard *shard = state->shard;
  char path[4200];
  snprintf(path, sizeof path, "%s/shard-%03u.stage", shard->folder, shard->options.number);
  shard->next_number = 1;
  take_spare(shard);
  int result = take_segments(state);
  if (result == 0) result = take_stage(state, path);
  if (result == 0) result = seal_current(state, 0);
  if (result != 0) return result;
  shard->base_lsn = state->last_lsn + 1;
  const struct mg_stage_header header = {
      .epoch = state->epoch + 1, .shard = shard->options.number, .id_base = shard->options.id_base};
  result = mg_stage_open(&shard->stage, shard->ops, shard->folder, path, mg_stage_bytes(shard->options.stage_bytes),
                         &header, state->last_lsn + 1);
  if (result != 0) return fail(state, result, "cannot make the stage");
  mg_file_point(shard->ops, MG_POINT_EPOCH_WRITTEN);
  result = mg_shard_new_segment(shard, header.epoch, header.id_base, shard->options.now_us);
  return result == 0 ? 0 : fail(state, result, "no space for a segment");
}

int mg_shard_recover(struct mg_shard *shard, struct mg_recovery *recovery, struct mg_buf *error)
{
  struct state state = {.shard = shard, .recovery = recovery, .error = error, .scan = mg_alloc(sizeof(struct mg_scan))};
  int result = recover(&state);
  if (result != 0) mg_segment_drop(&shard->segment);
  mg_buf_free(&state.segments);
  free(state.scan);
  return result;
}
