/* segment.c - creating, filling and sealing a segment's file.
 * Owns: the descriptor and mapping of the open segment.   May call: format, file.   Never: choose when.   Thread:
 * one at a time. */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

enum { POPULATE_BYTES = 256 * 1024, POPULATE_AHEAD = 96 * 1024, PACE_BYTES = 4 << 20, GIVE_BACK_BYTES = 256 * 1024 };

bool mg_segment_path(char out[4096], const char *folder, unsigned shard, uint64_t number, const char *ending)
{
  return snprintf(out, 4096, "%s/shard-%03u-%010llu%s", folder, shard, (unsigned long long)number, ending) < 4096;
}

bool mg_segment_name(const char *name, unsigned *shard, uint64_t *number, bool *sealed)
{
  unsigned long long parsed;
  int end = 0;
  if (sscanf(name, "shard-%3u-%10llu%n", shard, &parsed, &end) != 2) return false;
  *number = parsed;
  *sealed = strcmp(name + end, ".mgj") == 0;
  return *sealed || strcmp(name + end, ".open") == 0;
}

static bool spare_path(char out[4096], const char *folder, unsigned shard, const char *ending)
{
  return snprintf(out, 4096, "%s/shard-%03u.%s", folder, shard, ending) < 4096;
}

int mg_spare_make(const struct mg_file_ops *ops, const char *folder, unsigned shard, uint64_t size)
{
  char fresh[4096], path[4096];
  if (!spare_path(fresh, folder, shard, "spare.new") || !spare_path(path, folder, shard, "spare")) return -ENAMETOOLONG;
  int fd = ops->open(fresh, O_RDWR | O_CREAT | O_TRUNC);
  if (fd < 0) return fd;
  int result = ops->reserve(fd, size);
  ops->close(fd);
  mg_file_point(ops, MG_POINT_SPARE_RESERVED);
  if (result == 0) result = ops->rename(fresh, path);
  mg_file_point(ops, MG_POINT_SPARE_READY);
  return result;
}

static void unmap(struct mg_segment *segment)
{
  if (segment->map) segment->ops->unmap(segment->map, (size_t)segment->preamble.segment_bytes);
  segment->map = NULL;
  segment->cut = NULL;
}

static int populate(struct mg_segment *segment, uint64_t until)
{
  uint64_t size = segment->preamble.segment_bytes;
  if (!segment->map || until <= segment->populated) return 0;
  uint64_t end = until + POPULATE_BYTES < size ? until + POPULATE_BYTES : size;
  uint64_t from = segment->populated & ~(uint64_t)4095;
  int result = segment->ops->populate(segment->map + from, (size_t)(end - from));
  if (result == 0) {
    segment->populated = end;
    return 0;
  }
  unmap(segment); /* what would have been a signal; pwrite says errno instead */
  return 0;
}

static int map(struct mg_segment *segment)
{
  if (!segment->ops->may_map(segment->fd)) return 0;
  int result = segment->ops->map(segment->fd, (size_t)segment->preamble.segment_bytes, &segment->map);
  if (result != 0) segment->map = NULL;
  if (segment->map) segment->cut = segment->ops->lost(segment->map);
  return 0;
}

int mg_segment_create(struct mg_segment *segment, const struct mg_file_ops *ops, const char *folder,
                      const struct mg_preamble *preamble)
{
  char spare[4096];
  uint8_t bytes[MG_PREAMBLE_BYTES];
  *segment = (struct mg_segment){.ops = ops,
                                 .folder = folder,
                                 .fd = -1,
                                 .preamble = *preamble,
                                 .at = MG_DATA_START,
                                 .least = preamble->segment_bytes};
  segment->seed = mg_segment_seed(preamble->uuid);
  segment->totals =
      (struct mg_seal){.first_lsn = preamble->base_lsn, .last_lsn = preamble->base_lsn - 1, .t_min_us = UINT64_MAX};
  if (!spare_path(spare, folder, preamble->shard, "spare")) return -ENAMETOOLONG;
  if (!mg_segment_path(segment->path, folder, preamble->shard, preamble->number, ".open")) return -ENAMETOOLONG;
  segment->fd = ops->open(spare, O_RDWR);
  if (segment->fd < 0) return segment->fd;
  mg_preamble_write(preamble, bytes);
  int result = ops->write(segment->fd, bytes, sizeof bytes, 0);
  mg_file_point(ops, MG_POINT_PREAMBLE_WRITTEN);
  if (result == 0) result = ops->rename(spare, segment->path);
  mg_file_point(ops, MG_POINT_SEGMENT_NAMED);
  if (result == 0) result = map(segment);
  if (result != 0) mg_segment_drop(segment);
  return result;
}

int mg_segment_resume(struct mg_segment *segment, const struct mg_file_ops *ops, const char *folder, const char *path,
                      int fd, const struct mg_preamble *preamble, const struct mg_seal *totals)
{
  *segment = (struct mg_segment){
      .ops = ops, .folder = folder, .fd = fd, .preamble = *preamble, .at = totals->data_end, .totals = *totals};
  segment->seed = mg_segment_seed(preamble->uuid);
  snprintf(segment->path, sizeof segment->path, "%s", path);
  return 0; /* not mapped: after a death the file is not trusted to be as it was left */
}

bool mg_segment_fits(const struct mg_segment *segment, size_t len)
{
  return segment->fd >= 0 && segment->at + mg_framed_size(segment->at, len) <= segment->preamble.segment_bytes;
}

void mg_totals_add(struct mg_seal *totals, const struct mg_batch *header, uint64_t data_end)
{
  if (totals->batches++ == 0) totals->first_lsn = header->base_lsn;
  totals->entries += header->count;
  totals->starts += header->starts;
  totals->last_lsn = header->base_lsn + header->count - 1;
  totals->data_end = data_end;
  if (header->t_min_us < totals->t_min_us) totals->t_min_us = header->t_min_us;
  if (header->t_max_us > totals->t_max_us) totals->t_max_us = header->t_max_us;
}

/* Without a mapping there is no fault that would tell. */
static bool is_whole(const struct mg_segment *segment)
{
  uint64_t bytes;
  return segment->map || !segment->least || segment->ops->size(segment->fd, &bytes) != 0 || bytes >= segment->least;
}

/* Commits what was laid out in the mapping, or writes what was laid out in framed. */
static int store(struct mg_segment *segment, const uint8_t *framed, size_t size, size_t first)
{
  static const uint32_t magic = MG_FRAGMENT_MAGIC;
  const struct mg_file_ops *ops = segment->ops;
  uint64_t at = segment->at;
  if (segment->map) {
    mg_file_point(ops, MG_POINT_TAIL_WRITTEN);
    atomic_store_explicit((_Atomic uint32_t *)(segment->map + at + first), magic, memory_order_release);
    return 0;
  }
  int result = ops->write(segment->fd, framed + first + 4, size - first - 4, at + first + 4);
  if (result != 0) return result;
  mg_file_point(ops, MG_POINT_TAIL_WRITTEN);
  return ops->write(segment->fd, &magic, sizeof magic, at + first);
}

int mg_segment_place(struct mg_segment *segment, const struct mg_batch *header, const struct mg_str *parts, size_t len,
                     uint8_t *scratch, const _Atomic bool *source_lost)
{
  size_t size = mg_framed_size(segment->at, len), first = 0;
  if (segment->at + size + POPULATE_AHEAD > segment->populated) populate(segment, segment->at + size);
  if (!is_whole(segment)) return -ESTALE;
  uint8_t *framed = segment->map ? segment->map + segment->at : scratch;
  mg_frame(segment->at, segment->seed, parts, len, framed, &first);
  if (source_lost && atomic_load(source_lost)) {
    memset(framed, 0, first);
    memset(framed + first + 4, 0, size - first - 4);
    return -EAGAIN;
  }
  int result = store(segment, framed, size, first);
  if (result == 0 && segment->cut && atomic_load(segment->cut)) result = -ESTALE;
  if (result != 0) return result;
  segment->at += size;
  mg_totals_add(&segment->totals, header, segment->at);
  if (segment->at - segment->paced > PACE_BYTES) {
    segment->ops->start_writeback(segment->fd, segment->paced, segment->at - segment->paced);
    segment->paced = segment->at;
  }
  return 0;
}

int mg_segment_seal(struct mg_segment *segment, uint32_t flags)
{
  const struct mg_file_ops *ops = segment->ops;
  uint8_t record[MG_SEAL_BYTES];
  segment->totals.flags = flags;
  segment->totals.data_end = segment->at;
  if (segment->totals.t_min_us == UINT64_MAX) segment->totals.t_min_us = 0;
  mg_seal_write(&segment->totals, segment->seed, record);
  int result = ops->write(segment->fd, record, sizeof record - 4, MG_SEAL_AT);
  mg_file_point(ops, MG_POINT_SEAL_WRITTEN);
  if (result == 0) result = ops->write(segment->fd, record + sizeof record - 4, 4, MG_SEAL_AT + sizeof record - 4);
  mg_file_point(ops, MG_POINT_SEAL_COMMITTED);
  return result;
}

static int copy_bytes(const struct mg_file_ops *ops, int from, int to, uint64_t until)
{
  uint8_t piece[16384];
  for (uint64_t at = 0; at < until; at += sizeof piece) {
    size_t len = until - at < sizeof piece ? (size_t)(until - at) : sizeof piece;
    int got = ops->read(from, piece, len, at);
    if (got < 0) return got;
    if ((size_t)got < len) return -EIO;
    int result = ops->write(to, piece, len, at);
    if (result != 0) return result;
  }
  return 0;
}

int mg_segment_copy(struct mg_segment *segment)
{
  const struct mg_file_ops *ops = segment->ops;
  char fresh[sizeof segment->path + 8];
  snprintf(fresh, sizeof fresh, "%s.copy", segment->path);
  int fd = ops->open(fresh, O_RDWR | O_CREAT | O_TRUNC);
  if (fd < 0) return fd;
  int result = ops->reserve(fd, segment->preamble.segment_bytes);
  if (result == 0) result = copy_bytes(ops, segment->fd, fd, segment->at);
  if (result == 0) result = ops->sync(fd);
  if (result == 0) result = ops->rename(fresh, segment->path);
  if (result == 0) result = ops->sync_folder(segment->folder);
  if (result != 0) {
    ops->close(fd);
    return result;
  }
  unmap(segment); /* the copy is written to with pwrite: an error there comes with the call that it belongs to */
  ops->close(segment->fd);
  segment->fd = fd;
  return 0;
}

int mg_segment_finish(struct mg_segment *segment)
{
  const struct mg_file_ops *ops = segment->ops;
  char sealed[4096];
  uint64_t size = segment->preamble.segment_bytes;
  unmap(segment);
  if (segment->at + GIVE_BACK_BYTES < size) ops->truncate(segment->fd, segment->at); /* nobody else maps it */
  int result = ops->sync(segment->fd);
  if (result != 0)
    result = mg_segment_copy(segment); /* a second sync of the same file would only say that all is well */
  /* A busy journal must not push what others need out of memory; whoever follows it has read this. And pages that are
   * given back here are what the next segment gets, which a machine is quicker with than with any that it has not used. */
  if (result == 0) ops->forget(segment->fd);
  mg_file_point(ops, MG_POINT_SEALED_SYNCED);
  size_t stem = strlen(segment->path) - strlen(".open");
  snprintf(sealed, sizeof sealed, "%.*s.mgj", (int)stem, segment->path);
  int renamed = ops->rename(segment->path, sealed);
  mg_file_point(ops, MG_POINT_SEALED_NAMED);
  if (result == 0) result = renamed;
  if (result == 0) result = ops->sync_folder(segment->folder);
  mg_segment_drop(segment);
  return result;
}

int mg_segment_to_spare(struct mg_segment *segment)
{
  char spare[4096];
  int result = spare_path(spare, segment->folder, segment->preamble.shard, "spare") ? 0 : -ENAMETOOLONG;
  if (result == 0) result = segment->ops->rename(segment->path, spare);
  mg_segment_drop(segment);
  return result;
}

void mg_segment_drop(struct mg_segment *segment)
{
  unmap(segment);
  if (segment->fd >= 0) segment->ops->close(segment->fd);
  segment->fd = -1;
}
