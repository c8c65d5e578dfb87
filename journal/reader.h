/* reader.h - a journal's folder read: all shards' segments in order, what is still in their stages, exchanges put
 * together.
 *
 * Reads while gateways write: nothing is locked, nothing is changed. Thread: one per reader. */
#pragma once

#include "entry.h"
#include "scan.h"

struct mg_reader;

/** What the walk meets besides entries. */
enum mg_finding_kind {
  MG_FOUND_DAMAGE,     /* bytes that cannot be read; count: places */
  MG_FOUND_MISSING,    /* LSNs from `from` on that are in no file; count of them */
  MG_FOUND_REPEATED,   /* a batch whose LSNs were there before */
  MG_FOUND_UNREADABLE, /* a file that is no segment, or of a later version */
  MG_FOUND_SET_ASIDE,  /* a file that recovery has put aside */
  MG_FOUND_DELETED,    /* a segment that went away while it was being read (mg_follow) */
  MG_FOUND_REWOUND     /* LSNs that were read and then lost by the machine; others bear them now (mg_follow) */
};

struct mg_finding {
  enum mg_finding_kind kind;
  unsigned shard;
  const char *file; /* borrowed for the call; NULL for a stage */
  uint64_t from, count;
  uint64_t offset; /* DAMAGE: of the place, where it is known */
};

/** Where an entry comes from; valid for the call. */
struct mg_origin_of {
  unsigned shard;
  uint32_t epoch;
  uint64_t lsn;
  uint64_t id_base, key_mark;
  bool staged;              /* not in a segment yet */
  uint64_t segment, offset; /* number of the segment, and where its batch begins there; staged: where it will be */
};

struct mg_reader_events {
  void *context;
  /* false ends the walk */
  bool (*entry)(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                const struct mg_entry *entry);
  void (*finding)(void *context, const struct mg_finding *finding); /* NULL: not wanted */
};

struct mg_reader_options {
  uint64_t since_us; /* batches that ended before are passed over; 0: none */
  int shard;         /* -1: all */
  bool no_stage;
};

/** Walks a folder: shard by shard, each in order of its LSNs. 0, or -errno when the folder cannot be read. */
int mg_reader_walk(const struct mg_file_ops *ops, const char *folder, const struct mg_reader_options *options,
                   const struct mg_reader_events *events);

/** Whether a folder has a shard of a journal: where it has none, nothing was recorded there so far or another folder is
 * meant. 0, or -errno when it cannot be read. */
int mg_reader_finds(const struct mg_file_ops *ops, const char *folder, bool *found);

/** A segment file as it is listed, or what a shard has in its stage alone. */
struct mg_segment_facts {
  char name[64];
  uint64_t bytes;
  struct mg_preamble preamble;
  bool readable, sealed, staged;
  struct mg_seal totals; /* of the seal record, or counted */
  unsigned damages;
};

/** Each segment of a folder by shard and number, and behind a shard's what is in none yet. 0 or -errno. */
int mg_reader_list(const struct mg_file_ops *ops, const char *folder,
                   void (*each)(void *context, const struct mg_segment_facts *facts), void *context);
