/* follow_begin.c - which segments there are, and with which of them a shard is begun.
 * Owns: the list of files.   May call: scan, segment (names).   Never: tell an entry.   Thread: the follower's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "follow_private.h"
#include "segment.h"

static void note_file(void *context, const char *name)
{
  struct mg_buf *files = context;
  struct mg_follow_file file;
  bool sealed;
  if (mg_segment_name(name, &file.shard, &file.number, &sealed)) mg_buf_append(files, &file, sizeof file);
}

static int by_place(const void *a, const void *b)
{
  const struct mg_follow_file *x = a, *y = b;
  if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static bool read_preamble(const struct mg_follow *follow, struct mg_scan *scan, const struct mg_follow_file *file,
                          struct mg_preamble *preamble)
{
  char path[4096];
  uint32_t version;
  for (int i = 0; i < 2; i++) {
    if (!mg_segment_path(path, follow->folder, file->shard, file->number, i ? ".open" : ".mgj")) return false;
    if (mg_scan_open(scan, follow->ops, path, &version) != 0) continue;
    *preamble = scan->preamble;
    mg_scan_close(scan);
    return preamble->shard == file->shard && preamble->number == file->number;
  }
  return false;
}

/* The files of a shard: files[*first] to files[*end - 1]. */
static const struct mg_follow_file *files_of(const struct mg_follow *follow, unsigned shard, size_t *first, size_t *end)
{
  const struct mg_follow_file *files = (const struct mg_follow_file *)(const void *)follow->files.ptr;
  size_t count = follow->files.len / sizeof *files;
  for (*first = 0; *first < count && files[*first].shard != shard; (*first)++) continue;
  for (*end = *first; *end < count && files[*end].shard == shard; (*end)++) continue;
  return files;
}

/* A journal that was begun anew in the place of another has segments of the same numbers, or is behind. */
static bool is_of_this_journal(const struct mg_position *from, const struct mg_preamble *preamble)
{
  if (from->newest == preamble->number) return memcmp(from->uuid, preamble->uuid, sizeof from->uuid) == 0;
  return preamble->number < from->newest || preamble->epoch >= from->epoch;
}

/* Finds the newest segment that begins at or before the position; what is behind it is read from there. */
static int begin_at(struct mg_follow *follow, struct mg_follow_shard *shard, const struct mg_position *from)
{
  size_t first, end;
  const struct mg_follow_file *files = files_of(follow, shard->number, &first, &end);
  struct mg_preamble preamble;
  shard->known = true;
  shard->epoch = from->epoch;
  shard->last_lsn = from->lsn - 1;
  memcpy(shard->uuid, from->uuid, sizeof shard->uuid);
  uint64_t later = 0, newest = 0;
  for (size_t i = end; i-- > first;) {
    if (!read_preamble(follow, shard->scan, &files[i], &preamble)) continue;
    if (!is_of_this_journal(from, &preamble)) return -ESTALE;
    if (!newest) newest = preamble.number;
    bool before = preamble.epoch < from->epoch || (preamble.epoch == from->epoch && preamble.base_lsn <= from->lsn);
    if (before && preamble.epoch == from->epoch) later = preamble.number;
    if (before) break;
    later = preamble.number;
  }
  if (newest && from->newest > newest) return -ESTALE; /* numbers only grow */
  shard->segment = later ? later - 1 : newest;
  shard->hinted = later && later == from->segment;
  shard->hint_segment = from->segment;
  shard->hint_offset = from->offset;
  return 0;
}

static int begin(struct mg_follow *follow, unsigned number)
{
  struct mg_follow_shard *shard = mg_calloc(1, sizeof *shard);
  shard->number = number;
  shard->stage_fd = -1;
  shard->scan = mg_calloc(1, sizeof *shard->scan);
  shard->scan->fd = -1;
  follow->shards = mg_realloc(follow->shards, (follow->count + 1) * sizeof(struct mg_follow_shard *));
  follow->shards[follow->count++] = shard;
  for (size_t i = 0; i < follow->from_count; i++)
    if (follow->from[i].shard == number) return begin_at(follow, shard, &follow->from[i]);
  size_t first, end;
  const struct mg_follow_file *files = files_of(follow, number, &first, &end);
  shard->segment = (follow->newest ? files[end - 1].number : files[first].number) - 1;
  return 0;
}

static bool is_met(const struct mg_follow *follow, unsigned number)
{
  for (size_t i = 0; i < follow->count; i++)
    if (follow->shards[i]->number == number) return true;
  return false;
}

/* Numbers only grow and the newest segment is never deleted: a newest one that is older than what was read, or has its
 * number and another UUID, is another journal's. (A segment that is open is looked at when its end is reached.) */
static bool is_replaced(const struct mg_follow *follow)
{
  for (size_t i = 0; i < follow->count; i++) {
    const struct mg_follow_shard *shard = follow->shards[i];
    struct mg_preamble preamble;
    size_t first, end;
    const struct mg_follow_file *files = files_of(follow, shard->number, &first, &end);
    if (first == end || files[end - 1].number > shard->segment) continue;
    if (files[end - 1].number < shard->segment) return true;
    if (!shard->open && read_preamble(follow, shard->scan, &files[end - 1], &preamble) &&
        memcmp(preamble.uuid, shard->uuid, sizeof shard->uuid) != 0)
      return true;
  }
  return false;
}

int mg_follow_look(struct mg_follow *follow)
{
  follow->files.len = 0;
  int result = follow->ops->list(follow->folder, note_file, &follow->files);
  const struct mg_follow_file *files = (const struct mg_follow_file *)(const void *)follow->files.ptr;
  size_t count = follow->files.len / sizeof *files;
  if (count) qsort(follow->files.ptr, count, sizeof *files, by_place);
  if (result == 0 && is_replaced(follow)) result = -ESTALE;
  for (size_t i = 0; i < count && result == 0; i++)
    if ((i == 0 || files[i].shard != files[i - 1].shard) && !is_met(follow, files[i].shard))
      result = begin(follow, files[i].shard);
  return result;
}
