/* segment.h - one file of batches: created, written, sealed. Reading is scan.h's.
 * Thread: one at a time. */
#pragma once

#include "file.h"
#include "format.h"

struct mg_segment {
  const struct mg_file_ops *ops;
  const char *folder;      /* borrowed */
  int fd;                  /* -1: none open */
  uint8_t *map;            /* NULL: written with pwrite */
  const _Atomic bool *cut; /* a page of the mapping was taken away */
  uint64_t least;          /* bytes that the file must have: less, and somebody has cut it short */
  struct mg_preamble preamble;
  uint32_t seed;
  uint64_t at;        /* where the next batch goes */
  uint64_t populated; /* pages below are present */
  uint64_t paced;     /* write-back of what lies below was started */
  struct mg_seal totals;
  char path[4096]; /* of the .open file */
};

/** Paths of a shard's files below folder; false when too long. */
bool mg_segment_path(char out[4096], const char *folder, unsigned shard, uint64_t number, const char *ending);

/** What a file of a journal is by its name. */
bool mg_segment_name(const char *name, unsigned *shard, uint64_t *number, bool *sealed);
/** Adds a batch that ends at data_end to what a seal record will say. */
void mg_totals_add(struct mg_seal *totals, const struct mg_batch *header, uint64_t data_end);

/** Reserves a spare file of size bytes under the shard's spare name. 0 or -errno (-ENOSPC, -EDQUOT: no room). */
int mg_spare_make(const struct mg_file_ops *ops, const char *folder, unsigned shard, uint64_t size);

/** Turns the shard's spare into an open segment. 0 or -errno. */
int mg_segment_create(struct mg_segment *segment, const struct mg_file_ops *ops, const char *folder,
                      const struct mg_preamble *preamble);
/** Takes an open file on which a writer died: batches go on behind data_end. */
int mg_segment_resume(struct mg_segment *segment, const struct mg_file_ops *ops, const char *folder, const char *path,
                      int fd, const struct mg_preamble *preamble, const struct mg_seal *totals);

/** Whether a batch of len bytes still fits. */
bool mg_segment_fits(const struct mg_segment *segment, size_t len);
/** Places a batch that fits, len bytes in parts: the store of its first magic commits it. scratch has MG_FRAMED_MAX
 * bytes. source_lost, or NULL: set when what the parts point to was taken away.
 * 0 or -errno; -ESTALE: the file was cut short by somebody and can take no more; -EAGAIN: the source was lost before the
 * batch was committed, and nothing was. */
int mg_segment_place(struct mg_segment *segment, const struct mg_batch *header, const struct mg_str *parts, size_t len,
                     uint8_t *scratch, const _Atomic bool *source_lost);
/** Writes the seal record: nothing is added from now on. 0 or -errno. */
int mg_segment_seal(struct mg_segment *segment, uint32_t flags);
/** Brings a sealed segment to the disk and gives it its final name; may take long. 0 or -errno; closed in either
 * case. */
int mg_segment_finish(struct mg_segment *segment);
/** Goes on in a copy of the file, which is brought to the disk under the same name: for when a sync of the old one failed
 * and its pages, though still right in memory, count as written. 0 or -errno; as it was then. */
int mg_segment_copy(struct mg_segment *segment);
/** Makes an open segment that holds nothing the shard's spare again. 0 or -errno; closed in either case. */
int mg_segment_to_spare(struct mg_segment *segment);
/** Closes it as it is. */
void mg_segment_drop(struct mg_segment *segment);
