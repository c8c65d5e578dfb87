/* follow.h - a journal's folder read on and on while gateways write: each shard's segments from a position on, then
 * what is still in its stage, each entry once and in order.
 *
 * Needs to read, never to write. Identity is (shard, epoch, LSN): what was read from a stage is passed over when its
 * batch comes. Segments may be sealed, renamed, deleted or damaged under it and processes may follow one another:
 * what is missing is a finding, never silence. Thread: one per follower. */
#pragma once

#include "reader.h"

struct mg_follow;

/** Where a shard is to be read from. */
struct mg_position {
  unsigned shard;
  uint32_t epoch;
  uint64_t lsn;             /* of the entry that comes next */
  uint64_t segment, offset; /* a hint: where that entry's batch was, or will be */
  uint64_t newest;          /* number of the segment that was read last; 0: none */
  uint8_t uuid[16];         /* its UUID, by which another journal in the same place is recognised */
};

struct mg_follow_options {
  const struct mg_position *from; /* copied; shards that are not in it are read from their beginning */
  size_t from_count;
  bool newest;       /* ... or from their newest segment */
  uint64_t since_us; /* batches that ended before are passed over; 0: none */
};

/** Opens a folder. 0, -errno when it cannot be read, or -ESTALE when a position is not of this journal. */
int mg_follow_open(struct mg_follow **follow, const struct mg_file_ops *ops, const char *folder,
                   const struct mg_follow_options *options, const struct mg_reader_events *events);

/** Tells what is new, some batches of each shard. look: also finds new shards, looks into the stages and behind
 * damage; to be asked for when nothing else comes, it costs more. The number of entries told, 0: nothing new;
 * -ECANCELED when events->entry returned false (that entry counts as not read); -ESTALE when another journal has taken
 * this one's place; another -errno when something cannot be read that may be readable later. */
int64_t mg_follow_read(struct mg_follow *follow, bool look);

/** Sleeps until a writer has placed something since mg_follow_read began, at most so long. Returns early for a
 * signal. True when there is something new for all one knows. */
bool mg_follow_wait(struct mg_follow *follow, unsigned milliseconds);

/** Where each shard stands. Returns false when there is no shard at index. */
bool mg_follow_position(const struct mg_follow *follow, size_t index, struct mg_position *position);

/** Entries that the writers have placed and that were not read yet. */
uint64_t mg_follow_lag(const struct mg_follow *follow);

void mg_follow_close(struct mg_follow **follow);
