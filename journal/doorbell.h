/* doorbell.h - a page by which writers tell readers that sleep that there is more to read.
 *
 * One file per folder: a word that counts what all shards placed, which readers of another process wait on through a
 * mapping that they cannot write to, and a line per shard. It holds hints only: a reader that finds no page, or a
 * wrong one, looks now and then by itself. FORMAT.md, "Doorbell". Thread: one writer per shard, any reader. */
#pragma once

#include "file.h"
#include "format.h"

enum {
  MG_DOORBELL_BYTES = 65536,
  MG_DOORBELL_COUNT_AT = 64,
  MG_DOORBELL_LINES_AT = 128,
  MG_DOORBELL_LINE_BYTES = 64, /* a processor's cache line, so that shards do not share one */
  MG_DOORBELL_SHARDS = 1000
};

struct mg_doorbell {
  const struct mg_file_ops *ops;
  uint8_t *map; /* NULL: there is none, which everything here puts up with */
};

/** What a shard's line says. */
struct mg_doorbell_line {
  uint32_t epoch;    /* 0: nothing was placed yet */
  uint64_t segment;  /* number of the segment that was written to last */
  uint64_t last_lsn; /* that is in a segment */
};

/** Writer: maps the folder's page, which is made if it is not there. 0, or -errno: the journal works without. */
int mg_doorbell_open(struct mg_doorbell *doorbell, const struct mg_file_ops *ops, const char *folder);
/** Reader: maps it to be read only. 0 or -errno. */
int mg_doorbell_watch(struct mg_doorbell *doorbell, const struct mg_file_ops *ops, const char *folder);
void mg_doorbell_close(struct mg_doorbell *doorbell);

/** Writer: says what the shard has placed and wakes every reader: one system call. */
void mg_doorbell_tell(struct mg_doorbell *doorbell, unsigned shard, const struct mg_doorbell_line *line);

/** The count at this moment: to be taken before looking for what is new. */
uint32_t mg_doorbell_count(const struct mg_doorbell *doorbell);
struct mg_doorbell_line mg_doorbell_line(const struct mg_doorbell *doorbell, unsigned shard);
/** Sleeps until the count is no longer seen, at most so many milliseconds; without a page, all of them. May return
 * early for no reason. */
void mg_doorbell_wait(const struct mg_doorbell *doorbell, uint32_t seen, unsigned milliseconds);
