/* follow_stage.c - what is acknowledged and in no segment yet, read from a stage that its producer goes on filling.
 * Owns: a descriptor per stage and the copy of a slot.   May call: batch, format, file.   Never: take a slot whose
 * generation changed while it was copied.   Thread: the follower's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "follow_private.h"

static void close_stage(struct mg_follow *follow, struct mg_follow_shard *shard)
{
  if (shard->stage_fd >= 0) follow->ops->close(shard->stage_fd);
  shard->stage_fd = -1;
  shard->gen = 0;
}

/* A successor's stage is another file under the same name: it is opened anew each time, which is cheap beside a read
 * of a slot. False when there is none of the epoch that the segments have come to. */
static bool open_stage(struct mg_follow *follow, struct mg_follow_shard *shard)
{
  char path[4200];
  uint8_t head[512];
  uint32_t epoch = shard->stage.epoch, version;
  uint64_t gen = shard->gen;
  close_stage(follow, shard);
  snprintf(path, sizeof path, "%s/shard-%03u.stage", follow->folder, shard->number);
  shard->stage_fd = follow->ops->open(path, O_RDONLY);
  if (shard->stage_fd < 0) return false;
  if (follow->ops->read(shard->stage_fd, head, sizeof head, 0) != sizeof head ||
      !mg_stage_header_read(&shard->stage, head, &version) || shard->stage.epoch != shard->epoch || !shard->stage.slots)
    return false;
  if (shard->stage.epoch == epoch) shard->gen = gen;
  return true;
}

static uint64_t offset_of(const struct mg_follow_shard *shard, uint64_t gen)
{
  return MG_STAGE_HEADER_BYTES + (gen - 1) % shard->stage.slots * MG_SLOT_BYTES;
}

/* The slot of that generation, if the next entry can be in it. */
static bool begins_before(struct mg_follow *follow, const struct mg_follow_shard *shard, uint64_t gen,
                          struct mg_slot *slot)
{
  uint8_t head[MG_SLOT_HEADER_BYTES];
  return follow->ops->read(shard->stage_fd, head, sizeof head, offset_of(shard, gen)) == sizeof head &&
         mg_slot_read(slot, head) && slot->gen == gen && slot->epoch == shard->epoch &&
         slot->base_lsn <= shard->last_lsn + 1;
}

/* The youngest slot that begins at or before the next entry; 0: none. */
static uint64_t find_slot(struct mg_follow *follow, const struct mg_follow_shard *shard)
{
  struct mg_slot slot;
  uint8_t head[MG_SLOT_HEADER_BYTES];
  uint64_t best = 0;
  if (shard->gen && begins_before(follow, shard, shard->gen, &slot)) {
    best = shard->gen;
    while (begins_before(follow, shard, best + 1, &slot)) best++;
    return best;
  }
  for (uint32_t i = 0; i < shard->stage.slots; i++) {
    uint64_t at = MG_STAGE_HEADER_BYTES + (uint64_t)i * MG_SLOT_BYTES;
    if (follow->ops->read(shard->stage_fd, head, sizeof head, at) != sizeof head || !mg_slot_read(&slot, head))
      continue;
    if (slot.epoch == shard->epoch && slot.base_lsn <= shard->last_lsn + 1 && slot.gen > best) best = slot.gen;
  }
  return best;
}

/* Copies a slot; false when it was begun anew meanwhile: what it held is in a segment then. */
static bool copy_slot(struct mg_follow *follow, const struct mg_follow_shard *shard, uint64_t gen)
{
  uint64_t at = offset_of(shard, gen), now = 0;
  return follow->ops->read(shard->stage_fd, follow->slot, MG_SLOT_BYTES, at) == MG_SLOT_BYTES &&
         follow->ops->read(shard->stage_fd, &now, sizeof now, at) == sizeof now && now == gen &&
         mg_get64(follow->slot) == gen;
}

static uint64_t count_entries(const uint8_t *bytes, const struct mg_slot *slot)
{
  struct mg_staged entry;
  uint32_t at = MG_SLOT_HEADER_BYTES, tag = mg_slot_tag(slot);
  uint64_t count = 0;
  while (mg_slot_entry(bytes, tag, slot->gen, false, &at, &entry) == 1) count++;
  return count;
}

int mg_follow_stage(struct mg_follow *follow, struct mg_follow_shard *shard)
{
  struct mg_batch batch;
  struct mg_slot slot;
  if (!shard->known || !open_stage(follow, shard)) return 0;
  for (uint64_t gen; (gen = find_slot(follow, shard)) != 0;) {
    if (!copy_slot(follow, shard, gen) || !mg_slot_read(&slot, follow->slot)) return 0;
    shard->gen = gen;
    if (slot.base_lsn + count_entries(follow->slot, &slot) <= shard->last_lsn + 1) return 0;
    if (!mg_unpack_slot(follow->unpacker, follow->slot, &batch)) return 0;
    struct mg_origin_of origin = {.shard = shard->number,
                                  .id_base = shard->stage.id_base,
                                  .staged = true,
                                  .segment = shard->segment,
                                  .offset = shard->open ? shard->scan->data_end : MG_DATA_START};
    uint64_t before = shard->last_lsn;
    if (mg_follow_tell(follow, shard, &batch, &origin) == MG_TOLD_REFUSED) return -ECANCELED;
    if (shard->last_lsn == before) return 0;
  }
  return 0;
}
