/* follow_private.h - what follow.c, follow_begin.c and follow_stage.c share. Nobody else includes it. */
#pragma once

#include "doorbell.h"
#include "follow.h"

/** A segment's file as it was listed. */
struct mg_follow_file {
  unsigned shard;
  uint64_t number;
};

struct mg_follow_shard {
  unsigned number;
  bool known;  /* epoch and last_lsn mean something */
  bool open;   /* a segment is */
  bool hinted; /* reading began at an offset that was remembered and that nothing has confirmed yet */
  uint32_t epoch;
  uint64_t last_lsn;
  uint64_t segment; /* number of the open one, or of the last that was read to its end */
  uint64_t hint_segment, hint_offset;
  uint8_t uuid[16];
  struct mg_scan *scan;
  int stage_fd; /* -1: none */
  struct mg_stage_header stage;
  uint64_t gen; /* of the slot that was read last */
};

struct mg_follow {
  const struct mg_file_ops *ops;
  char folder[4096];
  const struct mg_reader_events *events;
  uint64_t since_us;
  bool newest;
  struct mg_position *from; /* of shards that were not met yet */
  size_t from_count;
  struct mg_doorbell doorbell;
  uint32_t seen; /* the doorbell's count when reading began */
  struct mg_unpacker *unpacker;
  struct mg_scope scope;
  struct mg_buf files; /* struct mg_follow_file, in order */
  struct mg_follow_shard **shards;
  size_t count;
  uint64_t told; /* entries, in this mg_follow_read */
  uint8_t *slot; /* a copy of one */
};

enum mg_told { MG_TOLD_ALL, MG_TOLD_DAMAGED, MG_TOLD_REFUSED };

/** follow.c: tells the entries of the batch that is open in the unpacker, from the first that was not read on. */
enum mg_told mg_follow_tell(struct mg_follow *follow, struct mg_follow_shard *shard, const struct mg_batch *batch,
                            struct mg_origin_of *origin);
void mg_follow_find(struct mg_follow *follow, const struct mg_follow_shard *shard, const struct mg_finding *finding);

/** follow_begin.c: lists the folder, meets new shards and says where they are read from. 0 or as mg_follow_open. */
int mg_follow_look(struct mg_follow *follow);

/** follow_stage.c: tells what the stage holds beyond the last entry that was read. 0 or -ECANCELED. */
int mg_follow_stage(struct mg_follow *follow, struct mg_follow_shard *shard);
