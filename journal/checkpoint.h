/* checkpoint.h - how far a reader's outputs have got, in a file that is either the old one or the new one, whole.
 *
 * The reaper reads it too. A text with a line per shard, a version and a CRC-32C; journal/README.md, "Checkpoint".
 * Thread: one per checkpoint. */
#pragma once

#include "assemble.h"
#include "follow.h"

/** How far one shard was delivered. */
struct mg_shard_mark {
  struct mg_position
      needed;          /* the oldest entry that an exchange which was not delivered needs; newest, uuid: of `next` */
  uint32_t next_epoch; /* everything before this entry was read, and what ended before it is delivered */
  uint64_t next_lsn;
};

struct mg_checkpoint {
  struct mg_buf marks;    /* struct mg_shard_mark */
  struct mg_buf given_up; /* struct mg_given_up: delivered as incomplete, oldest first */
  uint64_t delivered;     /* exchanges, in all runs */
};

static inline size_t mg_checkpoint_marks(const struct mg_checkpoint *checkpoint, const struct mg_shard_mark **marks)
{
  *marks = (const struct mg_shard_mark *)(const void *)checkpoint->marks.ptr;
  return checkpoint->marks.len / sizeof **marks;
}

/** Reads folder's checkpoint. 0; -ENOENT when there is none; -errno, or -EBADMSG for what is no checkpoint or is
 * damaged, or -EPROTONOSUPPORT for one of a later version, with a sentence in why. */
int mg_checkpoint_read(struct mg_checkpoint *checkpoint, const struct mg_file_ops *ops, const char *folder,
                       struct mg_buf *why);
/** Writes it: beside the old one, synced, renamed over it, the folder synced. 0 or -errno: the old one stands. */
int mg_checkpoint_write(const struct mg_checkpoint *checkpoint, const struct mg_file_ops *ops, const char *folder);
void mg_checkpoint_free(struct mg_checkpoint *checkpoint);

/** Takes the folder for this process until the descriptor is closed. A descriptor, or -EWOULDBLOCK while another
 * process has it, or -errno. */
int mg_checkpoint_lock(const struct mg_file_ops *ops, const char *folder);
