/* scan.h - a segment's batches one after the other, sealed or still being written, whole or damaged.
 *
 * Bytes are only ever reached from the start of a block through lengths that a checksum covers; nothing is searched
 * for, so that no payload can pass for framing. Files are read with pread: one that is cut short under us is an
 * error and no signal.
 * Thread: one per scan. */
#pragma once

#include "file.h"
#include "format.h"

struct mg_scan {
  const struct mg_file_ops *ops;
  int fd; /* owned */
  uint64_t size;
  struct mg_preamble preamble;
  uint32_t seed;
  bool sealed;
  struct mg_seal seal;
  uint64_t at;       /* what is looked at next */
  uint64_t data_end; /* behind the last whole batch */
  unsigned damages;  /* places that had to be skipped */
  bool torn;         /* a batch was begun behind data_end and never committed */
  uint64_t block_at; /* of the block in memory; UINT64_MAX: none */
  size_t block_len;
  size_t batch_len;
  bool in_batch;
  bool resync;    /* a block was skipped: the rest of what was lost may follow */
  uint32_t ahead; /* blocks behind an empty place in which later batches are looked for, which make it damage; all of
                     them unless a reader that comes again and again lowers it */
  uint64_t batch_from;
  uint8_t block[MG_BLOCK_BYTES];
  uint8_t batch[MG_FRAMED_MAX + MG_BATCH_PLAIN_MAX];
};

enum mg_scan_result { MG_SCAN_END = 0, MG_SCAN_BATCH = 1, MG_SCAN_DAMAGE = -1 };

/** Opens a segment's file. 0, -errno, or -EBADMSG when it is no segment of this version (*version as of
 * mg_preamble_read). */
int mg_scan_open(struct mg_scan *scan, const struct mg_file_ops *ops, const char *path, uint32_t *version);
void mg_scan_close(struct mg_scan *scan);

/** Goes on at offset, which was a data_end of this segment: batches before it are passed over. */
void mg_scan_seek(struct mg_scan *scan, uint64_t offset);

/** Looks whether a segment that was open has been sealed since. False when the file is another segment now (an empty
 * one was made the next one): close it and open the shard's segments anew. */
bool mg_scan_refresh(struct mg_scan *scan);

/** The next batch: its bytes are in scan->batch, scan->batch_len of them, until the next call. MG_SCAN_DAMAGE:
 * something was skipped; go on. MG_SCAN_END: nothing more, or nothing yet in a file that is being written: calling
 * again looks again. */
enum mg_scan_result mg_scan_next(struct mg_scan *scan, struct mg_batch *batch);
