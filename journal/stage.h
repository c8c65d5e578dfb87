/* stage.h - where an entry is from the moment it is acknowledged until its batch is in a segment: a mapped file of
 * slots.
 *
 * One producer (the thread that records) fills a slot entry by entry and closes it; one drainer takes closed slots
 * in order. An entry is acknowledged by the release store of its commit word, which a kill of the process cannot
 * take back. A slot becomes one batch, so what an entry refers to is never outside its slot: its *scope* is the
 * slot's generation.
 * Thread: producer functions on one thread, drainer functions on one at a time. */
#pragma once

#include <stdatomic.h>

#include "file.h"
#include "format.h"

_Static_assert(MG_SLOT_BYTES <= UINT16_MAX, "an entry and a definition take a byte at least: 16 bits count them");

struct mg_stage {
  /* producer: one line of the cache */
  _Alignas(64) uint8_t *slot; /* being filled; NULL when none is open */
  uint32_t at;                /* where the next entry goes */
  uint32_t tag;
  uint64_t gen; /* of the slot being filled, or the last one */
  uint64_t next_lsn;
  uint16_t definitions;  /* texts and blocks defined in this scope */
  uint16_t entries;      /* in this slot */
  _Atomic bool given_up; /* the file is not what it should be: nothing may be acknowledged in it */
  uint64_t last_time_us, last_number;
  const _Atomic bool *cut; /* a page of the mapping was taken away */
  /* fixed while it is open */
  uint8_t *map;
  const struct mg_file_ops *ops;
  size_t bytes;
  uint32_t slots;
  uint64_t key; /* what tells commits of this stage from bytes that somebody sent to be taken for some */
  struct mg_stage_header header;
  int fd;
  /* between the two */
  _Alignas(64) _Atomic uint64_t closed;  /* generations up to here are closed */
  _Alignas(64) _Atomic uint64_t drained; /* ... and their slots free again */
};

/** Bytes of a stage file for storage.stage_size, rounded down to whole slots, at least two. */
size_t mg_stage_bytes(uint64_t wanted);

/** Makes the stage file at path anew for epoch (recovery has taken what an older one held) and maps it. 0 or -errno. */
int mg_stage_open(struct mg_stage *stage, const struct mg_file_ops *ops, const char *folder, const char *path,
                  size_t bytes, const struct mg_stage_header *header, uint64_t next_lsn);
/** Goes on in a new file in place of one that was lost; everything is drained. What is not yet drained stays in
 * memory if that fails. 0 or -errno. */
int mg_stage_renew(struct mg_stage *stage, const char *folder, const char *path);
void mg_stage_close_file(struct mg_stage *stage);

/** Any thread: whether a commit in this stage is one that a kill might take back. No slot is free then. */
static inline bool mg_stage_lost(const struct mg_stage *stage)
{
  return atomic_load_explicit(&stage->given_up, memory_order_relaxed) ||
         (stage->cut && atomic_load_explicit(stage->cut, memory_order_relaxed));
}

/** Opens the next slot for entries that count from time and number. False when none is free: nothing can be recorded
 * now. */
bool mg_stage_next(struct mg_stage *stage, uint64_t time_us, uint64_t number);
/** Closes the slot that is open, if it holds anything. */
void mg_stage_end_slot(struct mg_stage *stage);
/** Slots that are neither filled nor being filled; none of a stage that is lost. */
unsigned mg_stage_free(const struct mg_stage *stage);

/** Room for an entry's payload of up to bound bytes (at most MG_ENTRY_BYTES_MAX), to be written in place and then
 * committed. NULL when no slot is free. May begin a new scope. */
static inline uint8_t *mg_stage_begin(struct mg_stage *stage, size_t bound, uint64_t time_us, uint64_t number)
{
  if (__builtin_expect(!stage->slot || stage->at + MG_ENTRY_HEADER_BYTES + bound + 8 > MG_SLOT_BYTES, 0)) {
    mg_stage_end_slot(stage);
    if (!mg_stage_next(stage, time_us, number)) return NULL;
  }
  return stage->slot + stage->at + MG_ENTRY_HEADER_BYTES;
}

/** Payload bytes that still fit into the open slot; 0 without one. */
static inline size_t mg_stage_room(const struct mg_stage *stage)
{
  size_t used = stage->at + MG_ENTRY_HEADER_BYTES + 8;
  return stage->slot && used < MG_SLOT_BYTES && !mg_stage_lost(stage) ? MG_SLOT_BYTES - used : 0;
}

/** Acknowledges the entry begun last: its payload has len bytes. info and aux: see FORMAT.md. Returns its LSN. */
static inline uint64_t mg_stage_commit(struct mg_stage *stage, size_t len, enum mg_entry_type type, uint8_t info,
                                       uint16_t aux)
{
  uint8_t *entry = stage->slot + stage->at;
  mg_put32(entry + 12, (uint32_t)type | (uint32_t)info << 8 | (uint32_t)aux << 16);
  mg_put32(entry + 8, mg_entry_crc(stage->tag, stage->gen, stage->at, entry, (uint32_t)len));
  /* Nothing of the entry may be written after this store. Lock-free atomics are address-free on every Linux target,
   * which is what makes the store mean something to other processes. */
  atomic_store_explicit((_Atomic uint64_t *)entry, (uint64_t)len << 32 | stage->tag, memory_order_release);
  stage->at += (uint32_t)(MG_ENTRY_HEADER_BYTES + ((len + 7) & ~(size_t)7));
  stage->entries++;
  return stage->next_lsn++;
}

/** One entry of a slot. */
struct mg_staged {
  const uint8_t *payload;
  uint32_t len;
  uint8_t type, info;
  uint16_t aux;
};

/** The entry at *at (MG_SLOT_HEADER_BYTES at first) of a slot's bytes, which may be a copy. 1: there is one, *at
 * moves on; 0: none yet; 2: the slot is closed here. With check, an entry whose checksum fails counts as none. */
int mg_slot_entry(const uint8_t *slot, uint32_t tag, uint64_t gen, bool check, uint32_t *at, struct mg_staged *entry);

/** Drainer: the slot of the oldest closed generation, or NULL. */
const uint8_t *mg_stage_oldest(const struct mg_stage *stage, uint64_t *gen);
/** Drainer: the slot of a generation, if it is closed; else NULL. */
const uint8_t *mg_stage_closed(const struct mg_stage *stage, uint64_t gen);
/** Drainer: its batch is in a segment; the slot may be used again. */
void mg_stage_retire(struct mg_stage *stage, uint64_t gen);
