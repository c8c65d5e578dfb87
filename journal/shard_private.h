/* shard_private.h - what shard.c, shard_thread.c and recovery.c share. Nobody else includes it. */
#pragma once

#include <pthread.h>

#include "batch.h"
#include "doorbell.h"
#include "scan.h"
#include "segment.h"
#include "shard.h"

enum { MG_SEALING_MAX = 4 };

struct mg_shard {
  struct mg_stage stage;
  const struct mg_file_ops *ops;
  struct mg_shard_options options;
  char folder[4096];
  int lock_fd;
  struct mg_packer *packer;
  uint8_t scratch[MG_FRAMED_MAX];
  struct mg_segment segment;   /* the drainer's */
  struct mg_doorbell doorbell; /* the drainer's */
  uint64_t next_number;
  uint64_t base_lsn; /* of the segment to come */
  /* between the threads */
  _Atomic bool draining; /* whoever sets it drains */
  _Atomic uint32_t wake; /* a futex: counts calls for the own thread */
  _Atomic bool asleep;
  _Atomic bool stop;
  _Atomic bool spare_wanted, spare_ready;
  _Atomic int trouble;
  _Atomic uint64_t batches, placed_bytes, segments;
  _Atomic uint64_t committed_lsn; /* as the producer last told, for group commit */
  _Atomic uint64_t durable_lsn;
  _Atomic uint64_t placed;      /* generations up to here are in a segment */
  _Atomic unsigned unsynced;    /* sealed segments that are not on the disk yet */
  _Atomic bool segment_suspect; /* a sync of the open segment failed: its pages count as clean and may not be written */
  _Atomic uint64_t repairs;
  pthread_mutex_t sync_mutex;  /* one sync at a time; named_number */
  uint64_t named_number;       /* the newest segment whose name is on the disk */
  uint64_t placed_lsn;         /* the drainer's: last LSN that it placed, or found to be lost */
  pthread_mutex_t spare_mutex; /* the spare file */
  pthread_mutex_t mutex;       /* what follows, and the segment's descriptor against being closed in a sync */
  struct mg_segment *sealing[MG_SEALING_MAX];
  unsigned sealing_count;
  void (*on_sync)(void *context);
  void *on_sync_context;
  pthread_t thread;
  bool has_thread;
  bool had_trouble;
};

/** recovery.c: takes over what is there. On success stage is open for a new epoch and next_number, base_lsn are set. */
int mg_shard_recover(struct mg_shard *shard, struct mg_recovery *recovery, struct mg_buf *error);
/** shard.c: a fresh segment out of the spare, which is made if there is none yet. */
/** ... for entries that are staged under that header. */
int mg_shard_new_segment(struct mg_shard *shard, const struct mg_stage_header *staged, uint64_t now_us);

/** shard.c, with `draining` held: everything closed into segments. */
int mg_shard_drain_held(struct mg_shard *shard);
/** ... the next entry to be placed has base_lsn: what was numbered before it and did not come is lost, which is said. */
void mg_shard_note_lost(struct mg_shard *shard, uint64_t base_lsn);
/** Seals the open segment as it is and hands it over. 0 or -errno. */
int mg_shard_end_segment(struct mg_shard *shard, uint32_t flags);

/** shard_sync.c: whether slots are used again only when their batches are on the disk. */
bool mg_shard_defers(const struct mg_shard *shard);
/** Brings stage and open segment, which between them hold everything, to the disk and frees slots that waited for it. */
void mg_shard_sync(struct mg_shard *shard);

/** shard_repair.c: what can be done about files that were lost. Producer. 0 or -errno. */
int mg_shard_repair(struct mg_shard *shard);
bool mg_shard_needs_repair(const struct mg_shard *shard);
/** Whether the names of stage and lock still lead to the files that are open; gives the stage up if not. Any thread. */
void mg_shard_look(struct mg_shard *shard);

/** shard_thread.c */
int mg_shard_start_thread(struct mg_shard *shard);
void mg_shard_wake(struct mg_shard *shard);
void mg_shard_stop_thread(struct mg_shard *shard);
/** Hands a segment with its seal record written to the own thread. */
void mg_shard_hand_over(struct mg_shard *shard, const struct mg_segment *segment);
