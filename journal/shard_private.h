/* shard_private.h - what shard.c, shard_thread.c and recovery.c share. Nobody else includes it. */
#pragma once

#include <pthread.h>

#include "batch.h"
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
  struct mg_segment segment; /* the drainer's */
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
int mg_shard_new_segment(struct mg_shard *shard, uint32_t epoch, uint64_t id_base, uint64_t now_us);

/** shard_thread.c */
int mg_shard_start_thread(struct mg_shard *shard);
void mg_shard_wake(struct mg_shard *shard);
void mg_shard_stop_thread(struct mg_shard *shard);
/** Hands a segment with its seal record written to the own thread. */
void mg_shard_hand_over(struct mg_shard *shard, const struct mg_segment *segment);
