/* reader.c - walking a folder.
 * Owns: a scan and an unpacker for the length of a walk.   May call: scan, batch, entry.   Never: write.   Thread:
 * one per walk. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "segment.h"

enum { SHARDS_MAX = 1000 };

struct file {
  unsigned shard;
  uint64_t number;
  char name[64];
};

struct walk {
  const struct mg_file_ops *ops;
  const char *folder;
  const struct mg_reader_options *options;
  const struct mg_reader_events *events;
  struct mg_buf files; /* struct file, in order */
  struct mg_scan *scan;
  struct mg_unpacker *unpacker;
  struct mg_scope scope;
  /* of the shard that is walked */
  unsigned shard;
  uint32_t epoch;
  uint64_t last_lsn;
  bool any;
  bool ended;
};

static void find(struct walk *walk, enum mg_finding_kind kind, const char *file, uint64_t from, uint64_t count)
{
  const struct mg_finding finding = {.kind = kind, .shard = walk->shard, .file = file, .from = from, .count = count};
  if (walk->events->finding) walk->events->finding(walk->events->context, &finding);
}

static void note_file(void *context, const char *name)
{
  struct walk *walk = context;
  struct file file;
  bool sealed;
  if (mg_segment_name(name, &file.shard, &file.number, &sealed)) {
    snprintf(file.name, sizeof file.name, "%.63s", name);
    mg_buf_append(&walk->files, &file, sizeof file);
  }
}

static void note_aside(void *context, const char *name)
{
  if (strstr(name, ".damaged-")) find(context, MG_FOUND_SET_ASIDE, name, 0, 1);
}

/* A shard is there when its stage or a segment is. */
static void note_shard(void *context, const char *name)
{
  bool *shards = context;
  unsigned shard;
  if (sscanf(name, "shard-%3u", &shard) == 1 && shard < SHARDS_MAX &&
      (strstr(name, ".stage") || strstr(name, ".mgj") || strstr(name, ".open")))
    shards[shard] = true;
}

static int by_place(const void *a, const void *b)
{
  const struct file *x = a, *y = b;
  if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static int list(struct walk *walk)
{
  int result = walk->ops->list(walk->folder, note_file, walk);
  size_t count = walk->files.len / sizeof(struct file);
  if (count) qsort(walk->files.ptr, count, sizeof(struct file), by_place);
  return result;
}

/* Tells the entries of the batch that is open in the unpacker; those up to the last LSN are known. */
static bool tell_entries(struct walk *walk, const struct mg_batch *batch, struct mg_origin_of *origin)
{
  struct mg_plain_entry plain;
  struct mg_entry entry;
  int result;
  mg_scope_start(&walk->scope, batch);
  origin->epoch = batch->epoch;
  for (uint64_t lsn = batch->base_lsn; (result = mg_unpack_next(walk->unpacker, &plain)) == 1; lsn++) {
    if (!mg_entry_decode(&walk->scope, &plain, &entry)) return false;
    if (walk->any && lsn <= walk->last_lsn) continue;
    origin->lsn = lsn;
    walk->last_lsn = lsn;
    walk->any = true;
    if (!walk->events->entry(walk->events->context, origin, &walk->scope, &entry)) {
      walk->ended = true;
      return true;
    }
  }
  return result == 0;
}

/* Keeps count of LSNs; false for a batch that was there before. */
static bool in_order(struct walk *walk, const struct mg_batch *batch, const char *file)
{
  uint64_t last = batch->base_lsn + batch->count - 1;
  if (walk->any && last <= walk->last_lsn && batch->epoch <= walk->epoch) {
    if (file) find(walk, MG_FOUND_REPEATED, file, batch->base_lsn, batch->count);
    return false;
  }
  if (walk->any && batch->epoch > walk->epoch && batch->base_lsn <= walk->last_lsn)
    walk->last_lsn = batch->base_lsn - 1; /* what the machine's death took had been numbered already */
  if (walk->any && batch->base_lsn > walk->last_lsn + 1)
    find(walk, MG_FOUND_MISSING, file, walk->last_lsn + 1, batch->base_lsn - walk->last_lsn - 1);
  walk->epoch = batch->epoch;
  return true;
}

static void take_batch(struct walk *walk, const struct mg_batch *batch, const uint8_t *bytes, size_t len,
                       const struct file *file)
{
  struct mg_origin_of origin = {
      .shard = walk->shard, .id_base = walk->scan->preamble.id_base, .key_mark = walk->scan->preamble.key_mark};
  struct mg_batch again;
  if (!in_order(walk, batch, file->name)) return;
  bool wanted = !walk->options->since_us || batch->t_max_us >= walk->options->since_us;
  if (wanted && (!mg_unpack(walk->unpacker, bytes, len, &again) || !tell_entries(walk, batch, &origin)))
    find(walk, MG_FOUND_DAMAGE, file->name, batch->base_lsn, 1);
  uint64_t last = batch->base_lsn + batch->count - 1;
  if (!walk->ended && (!walk->any || walk->last_lsn < last)) walk->last_lsn = last;
  walk->any = true;
}

/* A file that is sealed and renamed while we look has another name a moment later. */
static int open_segment(struct walk *walk, const struct file *file, uint32_t *version)
{
  char path[4096];
  for (int i = 0; i < 2; i++) {
    bool sealed = (strstr(file->name, ".mgj") != NULL) != (i == 1);
    if (!mg_segment_path(path, walk->folder, file->shard, file->number, sealed ? ".mgj" : ".open"))
      return -ENAMETOOLONG;
    int result = mg_scan_open(walk->scan, walk->ops, path, version);
    if (result != -ENOENT) return result;
  }
  return -ENOENT;
}

static void walk_segment(struct walk *walk, const struct file *file)
{
  uint32_t version;
  struct mg_batch batch;
  if (open_segment(walk, file, &version) != 0) {
    find(walk, MG_FOUND_UNREADABLE, file->name, version, 1);
    return;
  }
  if (walk->scan->sealed && walk->options->since_us && walk->scan->seal.t_max_us < walk->options->since_us) {
    walk->epoch = walk->scan->preamble.epoch;
    walk->last_lsn = walk->scan->seal.last_lsn;
    walk->any = true;
  } else {
    for (enum mg_scan_result result; !walk->ended && (result = mg_scan_next(walk->scan, &batch)) != MG_SCAN_END;)
      if (result == MG_SCAN_BATCH) take_batch(walk, &batch, walk->scan->batch, walk->scan->batch_len, file);
    if (walk->scan->damages) find(walk, MG_FOUND_DAMAGE, file->name, 0, walk->scan->damages);
  }
  mg_scan_close(walk->scan);
}

/* --- the stage ---------------------------------------------------------------------------------------------------- */

/* What a stage held at one moment. Taken before the segments are looked at: what has left it by then is in one of
 * them. */
struct snapshot {
  struct mg_stage_header header;
  size_t count;
  struct copied_slot {
    struct mg_slot facts;
    uint32_t index;
    uint8_t *bytes; /* NULL: in a segment since */
  } * slots;        /* by LSN */
};

static int by_lsn(const void *a, const void *b)
{
  const struct copied_slot *x = a, *y = b;
  return x->facts.base_lsn < y->facts.base_lsn ? -1 : x->facts.base_lsn > y->facts.base_lsn;
}

static void find_slots(struct walk *walk, int fd, struct snapshot *snapshot)
{
  uint8_t head[MG_SLOT_HEADER_BYTES];
  snapshot->slots = mg_calloc(snapshot->header.slots, sizeof *snapshot->slots);
  for (uint32_t i = 0; i < snapshot->header.slots; i++) {
    struct copied_slot *slot = &snapshot->slots[snapshot->count];
    if (walk->ops->read(fd, head, sizeof head, MG_STAGE_HEADER_BYTES + (uint64_t)i * MG_SLOT_BYTES) != sizeof head)
      continue;
    slot->index = i;
    if (mg_slot_read(&slot->facts, head) && slot->facts.epoch == snapshot->header.epoch) snapshot->count++;
  }
  if (snapshot->count) qsort(snapshot->slots, snapshot->count, sizeof *snapshot->slots, by_lsn);
}

/* In any order: all headers were read before, so every slot but the newest of them was complete then, and one that was
 * begun anew since is in a segment, which is looked at later. */
static void copy_slots(struct walk *walk, int fd, struct snapshot *snapshot)
{
  for (size_t i = 0; i < snapshot->count; i++) {
    struct copied_slot *slot = &snapshot->slots[i];
    uint64_t offset = MG_STAGE_HEADER_BYTES + (uint64_t)slot->index * MG_SLOT_BYTES, gen = 0;
    slot->bytes = aligned_alloc(64, MG_SLOT_BYTES);
    bool same = walk->ops->read(fd, slot->bytes, MG_SLOT_BYTES, offset) == MG_SLOT_BYTES &&
                walk->ops->read(fd, &gen, sizeof gen, offset) == sizeof gen && gen == slot->facts.gen &&
                mg_get64(slot->bytes) == gen;
    if (same) continue;
    free(slot->bytes);
    slot->bytes = NULL;
  }
}

static void take_snapshot(struct walk *walk, struct snapshot *snapshot)
{
  char path[4200];
  uint8_t head[512];
  uint32_t version;
  *snapshot = (struct snapshot){0};
  if (walk->options->no_stage) return;
  snprintf(path, sizeof path, "%s/shard-%03u.stage", walk->folder, walk->shard);
  int fd = walk->ops->open(path, O_RDONLY);
  if (fd < 0) return;
  if (walk->ops->read(fd, head, sizeof head, 0) == sizeof head && mg_stage_header_read(&snapshot->header, head, &version)) {
    find_slots(walk, fd, snapshot);
    copy_slots(walk, fd, snapshot);
  }
  walk->ops->close(fd);
}

static void walk_snapshot(struct walk *walk, struct snapshot *snapshot)
{
  struct mg_origin_of origin = {
      .shard = walk->shard, .id_base = snapshot->header.id_base, .key_mark = snapshot->header.key_mark, .staged = true};
  struct mg_batch batch;
  bool current = !walk->any || snapshot->header.epoch >= walk->epoch;
  for (size_t i = 0; i < snapshot->count; i++) {
    uint8_t *bytes = snapshot->slots[i].bytes;
    if (bytes && current && !walk->ended && mg_unpack_slot(walk->unpacker, bytes, &batch) &&
        in_order(walk, &batch, NULL))
      tell_entries(walk, &batch, &origin);
    free(bytes);
  }
  free(snapshot->slots);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int walk_shard(struct walk *walk, unsigned shard)
{
  struct snapshot snapshot;
  walk->shard = shard;
  walk->epoch = 0;
  walk->any = false;
  walk->last_lsn = 0;
  take_snapshot(walk, &snapshot);
  walk->files.len = 0;
  int result = list(walk);
  for (size_t i = 0; result == 0 && i < walk->files.len / sizeof(struct file) && !walk->ended; i++) {
    struct file file = ((const struct file *)(const void *)walk->files.ptr)[i];
    if (file.shard == shard) walk_segment(walk, &file);
  }
  walk_snapshot(walk, &snapshot);
  return result;
}

int mg_reader_walk(const struct mg_file_ops *ops, const char *folder, const struct mg_reader_options *options,
                   const struct mg_reader_events *events)
{
  struct walk walk = {.ops = ops, .folder = folder, .options = options, .events = events};
  walk.scan = mg_alloc(sizeof *walk.scan);
  walk.unpacker = mg_unpacker_new();
  bool shards[SHARDS_MAX] = {false};
  int result = ops->list(folder, note_shard, shards);
  for (unsigned shard = 0; shard < SHARDS_MAX && result == 0 && !walk.ended; shard++)
    if (shards[shard] && (options->shard < 0 || (unsigned)options->shard == shard)) result = walk_shard(&walk, shard);
  if (result == 0) ops->list(folder, note_aside, &walk);
  mg_scope_free(&walk.scope);
  mg_unpacker_free(&walk.unpacker);
  free(walk.scan);
  mg_buf_free(&walk.files);
  return result;
}

int mg_reader_finds(const struct mg_file_ops *ops, const char *folder, bool *found)
{
  bool shards[SHARDS_MAX] = {false};
  int result = ops->list(folder, note_shard, shards);
  *found = memchr(shards, true, sizeof shards) != NULL;
  return result;
}

static void count_open(struct mg_scan *scan, struct mg_segment_facts *facts)
{
  struct mg_batch batch;
  facts->totals = (struct mg_seal){
      .first_lsn = scan->preamble.base_lsn, .last_lsn = scan->preamble.base_lsn - 1, .t_min_us = UINT64_MAX};
  for (enum mg_scan_result result; (result = mg_scan_next(scan, &batch)) != MG_SCAN_END;)
    if (result == MG_SCAN_BATCH) mg_totals_add(&facts->totals, &batch, scan->data_end);
  facts->damages = scan->damages;
}

/* One file as it is listed; *last_lsn follows what is in it. */
static struct mg_segment_facts look_at(struct walk *walk, const struct file *file, uint64_t *last_lsn)
{
  struct mg_segment_facts facts = {0};
  uint32_t version;
  memcpy(facts.name, file->name, sizeof facts.name);
  if (open_segment(walk, file, &version) != 0) return facts;
  facts.readable = true;
  facts.bytes = walk->scan->size;
  facts.preamble = walk->scan->preamble;
  facts.sealed = walk->scan->sealed;
  facts.totals = walk->scan->seal;
  if (!facts.sealed) count_open(walk->scan, &facts);
  mg_scan_close(walk->scan);
  if (facts.totals.last_lsn > *last_lsn) *last_lsn = facts.totals.last_lsn;
  return facts;
}

/* What is in no segment yet. */
static struct mg_segment_facts look_at_stage(struct walk *walk, struct snapshot *snapshot, uint64_t last_lsn)
{
  struct mg_segment_facts facts = {.readable = true, .staged = true, .totals.t_min_us = UINT64_MAX};
  struct mg_batch batch;
  snprintf(facts.name, sizeof facts.name, "shard-%03u.stage", walk->shard);
  facts.bytes = MG_STAGE_HEADER_BYTES + (uint64_t)snapshot->header.slots * MG_SLOT_BYTES;
  facts.preamble.epoch = snapshot->header.epoch;
  for (size_t i = 0; i < snapshot->count; i++) {
    uint8_t *bytes = snapshot->slots[i].bytes;
    if (bytes && mg_unpack_slot(walk->unpacker, bytes, &batch) && batch.base_lsn > last_lsn)
      mg_totals_add(&facts.totals, &batch, 0);
    free(bytes);
  }
  free(snapshot->slots);
  return facts;
}

static int list_shard(struct walk *walk, void (*each)(void *context, const struct mg_segment_facts *facts),
                      void *context)
{
  struct snapshot snapshot;
  struct mg_segment_facts facts;
  uint64_t last_lsn = 0;
  take_snapshot(walk, &snapshot);
  walk->files.len = 0;
  int result = list(walk);
  for (size_t i = 0; result == 0 && i < walk->files.len / sizeof(struct file); i++) {
    const struct file *file = (const struct file *)(const void *)walk->files.ptr + i;
    if (file->shard != walk->shard) continue;
    facts = look_at(walk, file, &last_lsn);
    each(context, &facts);
  }
  facts = look_at_stage(walk, &snapshot, last_lsn);
  if (facts.totals.batches) each(context, &facts);
  return result;
}

int mg_reader_list(const struct mg_file_ops *ops, const char *folder,
                   void (*each)(void *context, const struct mg_segment_facts *facts), void *context)
{
  const struct mg_reader_options all = {.shard = -1};
  const struct mg_reader_events none = {0};
  struct walk walk = {.ops = ops, .folder = folder, .options = &all, .events = &none};
  bool shards[SHARDS_MAX] = {false};
  walk.scan = mg_alloc(sizeof *walk.scan);
  walk.unpacker = mg_unpacker_new();
  int result = ops->list(folder, note_shard, shards);
  for (; result == 0 && walk.shard < SHARDS_MAX; walk.shard++)
    if (shards[walk.shard]) result = list_shard(&walk, each, context);
  mg_unpacker_free(&walk.unpacker);
  free(walk.scan);
  mg_buf_free(&walk.files);
  return result;
}
