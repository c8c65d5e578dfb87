/* reap.h - which segments may be deleted, by age, by size, by what is free, and by what every tailer has delivered.
 *
 * Only sealed segments and files that recovery has set aside are ever deleted, and never the newest segment of a shard;
 * everything else in the folder is left alone. Thread: one. */
#pragma once

#include "checkpoint.h"

struct mg_reap_options {
  const char *folder;
  const char *const *tailers; /* checkpoint folders */
  size_t tailer_count;
  uint64_t ttl_us;     /* older segments go, delivered or not; 0: none does */
  uint64_t min_age_us; /* younger ones stay, unless they have outlived ttl */
  uint64_t bytes_max;  /* of all segments; 0: any */
  uint64_t free_min;   /* bytes on the file system; 0: any */
  bool drop_unread;    /* for bytes_max and free_min: also what no tailer has delivered */
  bool dry_run;
  uint64_t now_us;
};

enum mg_reap_why { MG_REAP_KEPT, MG_REAP_TTL, MG_REAP_DELIVERED, MG_REAP_SIZE, MG_REAP_FREE };

/** A file on its way out. */
struct mg_reaped {
  const char *name; /* borrowed */
  enum mg_reap_why why;
  uint64_t bytes;
  uint64_t age_us;
  unsigned shard;
  uint32_t epoch;
  uint64_t first_lsn, last_lsn; /* of a segment; last < first: of none, or a file set aside */
  bool unread;                  /* some tailer has not delivered it, or there is no tailer */
  int error;                    /* errno of the deletion; 0: gone, or would be */
};

struct mg_reap_events {
  void *context;
  void (*reaped)(void *context, const struct mg_reaped *reaped);
  void (*trouble)(void *context, const char *sentence); /* what keeps segments from being deleted */
};

struct mg_reap_totals {
  uint64_t deleted, bytes; /* files and what they took */
  uint64_t left_bytes;     /* of the segments that stay */
  unsigned failed;
};

/** Looks once. 0, or -errno when the folder cannot be read. */
int mg_reap(const struct mg_file_ops *ops, const struct mg_reap_options *options, const struct mg_reap_events *events,
            struct mg_reap_totals *totals);
