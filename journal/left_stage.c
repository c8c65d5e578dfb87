/* left_stage.c - a stage's slots out of its file.
 * Owns: a copy of the file.   May call: format, file, stage (reading slots).   Never: write.   Thread: as in
 * left_stage.h. */
#include "left_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "log.h"

static int by_base_lsn(const void *a, const void *b)
{
  const struct mg_left_slot *x = a, *y = b;
  return x->base_lsn < y->base_lsn ? -1 : x->base_lsn > y->base_lsn;
}

static uint64_t count_entries(struct mg_left_stage *stage, const uint8_t *bytes, const struct mg_slot *slot)
{
  uint32_t at = MG_SLOT_HEADER_BYTES, tag = mg_slot_tag(slot);
  struct mg_staged entry;
  uint64_t count = 0;
  while (mg_slot_entry(bytes, tag, slot->gen, true, &at, &entry) == 1) count++;
  uint64_t commit = at + 8 <= MG_SLOT_BYTES ? mg_get64(bytes + at) : 0;
  stage->damages += (uint32_t)commit == tag && commit >> 32 != 0;
  return count;
}

static void find_slots(struct mg_left_stage *stage, size_t slots)
{
  stage->slots = mg_calloc(slots + 1, sizeof *stage->slots);
  for (size_t i = 0; i < slots; i++) {
    struct mg_slot slot;
    struct mg_left_slot *left = &stage->slots[stage->count];
    left->bytes = stage->copy + i * MG_SLOT_BYTES;
    if (!mg_slot_read(&slot, left->bytes) || slot.epoch != stage->header.epoch) continue;
    left->base_lsn = slot.base_lsn;
    left->count = count_entries(stage, left->bytes, &slot);
    if (left->count) stage->count++;
  }
  if (stage->count) qsort(stage->slots, stage->count, sizeof *stage->slots, by_base_lsn);
}

static int load(struct mg_left_stage *stage, const struct mg_file_ops *ops, int fd)
{
  uint8_t head[512];
  uint64_t size = 0;
  uint32_t version = 0;
  int result = ops->size(fd, &size);
  int got = result == 0 ? ops->read(fd, head, sizeof head, 0) : result;
  if (got < 0) return got;
  if (got < (int)sizeof head || !mg_stage_header_read(&stage->header, head, &version))
    return version > MG_FORMAT_VERSION ? -EPROTONOSUPPORT : -EBADMSG;
  size_t bytes = size > MG_STAGE_HEADER_BYTES ? (size_t)size - MG_STAGE_HEADER_BYTES : 0;
  size_t slots = bytes / MG_SLOT_BYTES < stage->header.slots ? bytes / MG_SLOT_BYTES : stage->header.slots;
  stage->copy = aligned_alloc(8, slots * MG_SLOT_BYTES + 8);
  MG_ASSERT(stage->copy);
  got = ops->read(fd, stage->copy, slots * MG_SLOT_BYTES, MG_STAGE_HEADER_BYTES);
  if (got < 0) return got;
  find_slots(stage, (size_t)got / MG_SLOT_BYTES);
  return 0;
}

int mg_left_stage_load(struct mg_left_stage *stage, const struct mg_file_ops *ops, const char *path)
{
  *stage = (struct mg_left_stage){0};
  int fd = ops->open(path, O_RDONLY);
  if (fd < 0) return fd;
  int result = load(stage, ops, fd);
  ops->close(fd);
  if (result != 0) mg_left_stage_free(stage);
  return result;
}

void mg_left_stage_free(struct mg_left_stage *stage)
{
  free(stage->slots);
  free(stage->copy);
  *stage = (struct mg_left_stage){0};
}

bool mg_left_stage_has(const struct mg_left_stage *stage, uint64_t lsn)
{
  for (size_t i = 0; i < stage->count; i++)
    if (lsn >= stage->slots[i].base_lsn && lsn - stage->slots[i].base_lsn < stage->slots[i].count) return true;
  return false;
}
