/* shard.h - one shard of a journal as its writer has it: a stage, the open segment, a spare one, and who moves what
 * between them.
 *
 * One thread records (the producer: everything here but what is said to be otherwise). Batches are placed by drain,
 * which is one function for the shard's own thread and for the producer; a flag lets in one at a time. Slow things
 * (syncing, reserving space) are always the own thread's. */
#pragma once

#include "stage.h"

struct mg_shard;

enum mg_sync { MG_SYNC_PROCESS, MG_SYNC_INTERVAL, MG_SYNC_GROUP };

struct mg_shard_options {
  const char *folder; /* copied; must exist */
  unsigned number;    /* of the shard */
  uint64_t stage_bytes;
  uint64_t segment_bytes; /* a multiple of MG_BLOCK_BYTES */
  bool compress;
  int level;
  enum mg_sync sync;
  uint64_t interval_ms; /* of MG_SYNC_INTERVAL */
  bool pre_fault;       /* whole segments at once */
  bool threaded;        /* the own thread drains; else the producer does */
  uint64_t id_base;
  uint64_t key_mark; /* tells the key that fingerprints are made with from others; 0: none are made */
  uint64_t now_us;   /* wall clock */
};

/** What recovery found. */
struct mg_recovery {
  uint64_t entries;   /* taken over from the stage */
  unsigned segments;  /* that had not been sealed */
  unsigned damages;   /* places that could not be read */
  unsigned set_aside; /* files */
  bool other_key;     /* what was recorded last has fingerprints of another key */
};

/** Locks the shard, recovers what an earlier process left, and starts. 0, or a negative error with a sentence in
 * error: -EWOULDBLOCK another process has it. */
int mg_shard_open(struct mg_shard **shard, const struct mg_shard_options *options, const struct mg_file_ops *ops,
                  struct mg_recovery *recovery, struct mg_buf *error);

struct mg_stage *mg_shard_stage(struct mg_shard *shard);

/** After entries were committed: lets go of closed slots (a wake, or a drain of our own). Cheap when none is closed. */
void mg_shard_push(struct mg_shard *shard);
/** Now and then: closes the open slot so that what is in it reaches a segment; tries again what failed. */
void mg_shard_flush(struct mg_shard *shard);
/** Drains on the calling thread what is closed, if nobody else is at it. 0, or -errno of what stands in the way. */
int mg_shard_drain(struct mg_shard *shard);
/** Does what it takes to have more than `slots` free slots: waits for the own thread that is at it or drains, brings
 * files that were lost back, waits for the disk where slots are kept until it has them. */
void mg_shard_make_room(struct mg_shard *shard, unsigned slots);

/** Any thread, MG_SYNC_GROUP: whether everything up to lsn is on the disk. */
bool mg_shard_durable(const struct mg_shard *shard, uint64_t lsn);
/** Has done(context) called from the own thread whenever a sync has ended. */
void mg_shard_on_sync(struct mg_shard *shard, void (*done)(void *context), void *context);
/** Asks for a sync of everything committed so far. */
void mg_shard_ask_sync(struct mg_shard *shard);

struct mg_shard_facts {
  uint64_t batches, placed_bytes, segments; /* since it was opened */
  int trouble;                              /* errno of what keeps batches from being placed; 0: nothing */
  unsigned free_slots, slots;
  bool low;         /* the next segment has no space yet */
  uint64_t repairs; /* files that somebody took away or the disk failed, and that were replaced */
};
struct mg_shard_facts mg_shard_facts(const struct mg_shard *shard);

/** Places and seals everything, lets go of the lock. 0, or -errno when something stays in the stage for the next
 * process. */
int mg_shard_close(struct mg_shard **shard);
