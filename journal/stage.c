/* stage.c - the stage's slots: opened, closed, taken, given back.
 * Owns: the mapping.   May call: format, file.   Never: touch a segment.   Thread: producer and drainer as in
 * stage.h. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock table would be per process and mean nothing across processes");

size_t mg_stage_bytes(uint64_t wanted)
{
  uint64_t slots = wanted / MG_SLOT_BYTES;
  if (slots > 4096) slots = 4096;
  return MG_STAGE_HEADER_BYTES + (slots < 2 ? 2 : (size_t)slots) * MG_SLOT_BYTES;
}

struct made {
  int fd;
  uint8_t *map;
};

/* A stage is written beside the old one and renamed over it: at no moment is there a half-made one under its name. */
static int make_file(const struct mg_stage *stage, const char *folder, const char *path, struct made *made)
{
  char fresh[4096];
  uint8_t header[512];
  const struct mg_file_ops *ops = stage->ops;
  *made = (struct made){.fd = -1};
  if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh) return -ENAMETOOLONG;
  made->fd = ops->open(fresh, O_RDWR | O_CREAT | O_TRUNC);
  if (made->fd < 0) return made->fd;
  mg_stage_header_write(&stage->header, header);
  int result = ops->reserve(made->fd, stage->bytes);
  if (result == 0) result = ops->write(made->fd, header, sizeof header, 0);
  if (result == 0) result = ops->map(made->fd, stage->bytes, &made->map);
  if (result == 0) result = ops->populate(made->map, stage->bytes);
  if (result == 0) result = ops->sync(made->fd);
  if (result == 0) result = ops->rename(fresh, path);
  if (result == 0) result = ops->sync_folder(folder);
  if (result == 0) return 0;
  if (made->map) ops->unmap(made->map, stage->bytes);
  ops->close(made->fd);
  return result;
}

static void use_file(struct mg_stage *stage, const struct made *made)
{
  stage->fd = made->fd;
  stage->map = made->map;
  stage->cut = stage->ops->lost(made->map);
  atomic_store(&stage->given_up, false);
}

int mg_stage_open(struct mg_stage *stage, const struct mg_file_ops *ops, const char *folder, const char *path,
                  size_t bytes, const struct mg_stage_header *header, uint64_t next_lsn)
{
  struct made made;
  memset(stage, 0, sizeof *stage);
  stage->ops = ops;
  stage->fd = -1;
  stage->bytes = bytes;
  stage->slots = (uint32_t)((bytes - MG_STAGE_HEADER_BYTES) / MG_SLOT_BYTES);
  stage->header = *header;
  stage->header.slots = stage->slots;
  stage->next_lsn = next_lsn;
  if (getrandom(&stage->key, sizeof stage->key, GRND_NONBLOCK) != sizeof stage->key)
    stage->key = header->id_base ^ (uint64_t)(uintptr_t)stage;
  int result = make_file(stage, folder, path, &made);
  if (result == 0) use_file(stage, &made);
  return result;
}

int mg_stage_renew(struct mg_stage *stage, const char *folder, const char *path)
{
  struct made made;
  int result = make_file(stage, folder, path, &made);
  if (result != 0) return result;
  stage->slot = NULL; /* generations and LSNs go on: it is the same stage to everybody who reads it */
  mg_stage_close_file(stage);
  use_file(stage, &made);
  return 0;
}

void mg_stage_close_file(struct mg_stage *stage)
{
  if (stage->map) stage->ops->unmap(stage->map, stage->bytes);
  if (stage->fd >= 0) stage->ops->close(stage->fd);
  stage->map = stage->slot = NULL;
  stage->cut = NULL;
  stage->fd = -1;
}

static uint8_t *slot_of(const struct mg_stage *stage, uint64_t gen)
{
  return stage->map + MG_STAGE_HEADER_BYTES + (size_t)((gen - 1) % stage->slots) * MG_SLOT_BYTES;
}

bool mg_stage_next(struct mg_stage *stage, uint64_t time_us, uint64_t number)
{
  uint64_t gen = stage->gen + 1;
  uint64_t drained = atomic_load_explicit(&stage->drained, memory_order_acquire);
  if (gen > drained + stage->slots || mg_stage_lost(stage)) return false;
  uint8_t *slot = slot_of(stage, gen);
  const struct mg_slot header = {.gen = gen,
                                 .base_lsn = stage->next_lsn,
                                 .epoch = stage->header.epoch,
                                 .base_time_us = time_us,
                                 .base_number = number,
                                 .key = stage->key};
  mg_slot_write(&header, slot);
  atomic_store_explicit((_Atomic uint64_t *)slot, gen, memory_order_release);
  stage->slot = slot;
  stage->gen = gen;
  stage->tag = mg_slot_tag(&header);
  stage->at = MG_SLOT_HEADER_BYTES;
  stage->definitions = 0;
  stage->entries = 0;
  stage->last_time_us = time_us;
  stage->last_number = number;
  return true;
}

void mg_stage_end_slot(struct mg_stage *stage)
{
  if (!stage->slot || !stage->entries) return;
  if (stage->at + 8 <= MG_SLOT_BYTES)
    atomic_store_explicit((_Atomic uint64_t *)(stage->slot + stage->at), stage->tag, memory_order_release);
  stage->slot = NULL;
  atomic_store_explicit(&stage->closed, stage->gen, memory_order_release);
}

unsigned mg_stage_free(const struct mg_stage *stage)
{
  if (mg_stage_lost(stage)) return 0;
  uint64_t used = stage->gen - atomic_load_explicit(&stage->drained, memory_order_acquire);
  return stage->slots - (unsigned)used;
}

int mg_slot_entry(const uint8_t *slot, uint32_t tag, uint64_t gen, bool check, uint32_t *at, struct mg_staged *entry)
{
  if (*at + 8 > MG_SLOT_BYTES) return 2;
  const uint8_t *place = slot + *at;
  uint64_t commit = atomic_load_explicit((const _Atomic uint64_t *)place, memory_order_acquire);
  uint32_t len = (uint32_t)(commit >> 32);
  if ((uint32_t)commit != tag) return 0;
  if (len == 0) return 2;
  if (len > MG_ENTRY_BYTES_MAX || *at + MG_ENTRY_HEADER_BYTES + len + 8 > MG_SLOT_BYTES) return 0;
  if (check && mg_get32(place + 8) != mg_entry_crc(tag, gen, *at, place, len)) return 0;
  uint32_t word = mg_get32(place + 12);
  *entry = (struct mg_staged){.payload = place + MG_ENTRY_HEADER_BYTES,
                              .len = len,
                              .type = (uint8_t)word,
                              .info = (uint8_t)(word >> 8),
                              .aux = (uint16_t)(word >> 16)};
  *at += MG_ENTRY_HEADER_BYTES + ((len + 7) & ~7u);
  return 1;
}

const uint8_t *mg_stage_oldest(const struct mg_stage *stage, uint64_t *gen)
{
  uint64_t drained = atomic_load_explicit(&stage->drained, memory_order_relaxed);
  if (drained == atomic_load_explicit(&stage->closed, memory_order_acquire)) return NULL;
  *gen = drained + 1;
  return slot_of(stage, *gen);
}

const uint8_t *mg_stage_closed(const struct mg_stage *stage, uint64_t gen)
{
  return gen <= atomic_load_explicit(&stage->closed, memory_order_acquire) ? slot_of(stage, gen) : NULL;
}

void mg_stage_retire(struct mg_stage *stage, uint64_t gen)
{
  uint8_t *slot = slot_of(stage, gen);
  atomic_store_explicit((_Atomic uint64_t *)(slot + 64), gen,
                        memory_order_release); /* a hint for readers: recovery looks at LSNs */
  atomic_store_explicit(&stage->drained, gen, memory_order_release);
}
