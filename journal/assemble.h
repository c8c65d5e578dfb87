/* assemble.h - entries of many exchanges, as they stand in the journal, put together one by one.
 * Thread: one per assembler. */
#pragma once

#include "reader.h"

struct mg_text_list {
  struct mg_str *items;
  uint32_t count, capacity;
};

/** Why an exchange is given out before it is whole. */
enum mg_incomplete {
  MG_COMPLETE,         /* it has its START and END */
  MG_NO_START,         /* only its end is left in the journal */
  MG_NO_END,           /* the gateway died first, or it is still under way */
  MG_TIMED_OUT,        /* waited for too long */
  MG_CAPACITY_EVICTED, /* too many are open at once */
  MG_SHUTDOWN          /* who reads the journal is ending */
};

/** The first entry of an exchange, and where it was read. */
struct mg_first_entry {
  uint32_t epoch;
  uint64_t lsn, segment, offset;
};

/** An exchange as far as the journal has it. */
struct mg_found_exchange {
  unsigned shard;
  uint32_t epoch;
  uint64_t number;
  char id[27];
  uint64_t start_us, end_us;
  bool started;
  bool ended; /* false: no END; it was under way when the gateway died, or is now */
  enum mg_incomplete incomplete;
  uint8_t request_level, response_level;
  struct mg_str route, filters, generation, client, client_source;
  struct mg_str line, upstream_line, upstream_status, client_status, error, target;
  struct mg_text_list headers[MG_MESSAGES];
  struct mg_text_list attributes; /* name, value, ... */
  unsigned status, flags;
  uint64_t sent_us, first_byte_us, tries;
  uint64_t head_bytes[2], body_bytes[2];
  uint8_t crcs;
  uint32_t crc[2];
  struct mg_buf body[2]; /* what was recorded of them, where it was asked for */
  uint64_t body_recorded[2];
  bool body_damaged[2]; /* its checksum is another */
  struct mg_first_entry first;
  uint64_t last_lsn; /* of the entry that was taken last */
  /* the assembler's */
  bool given_up; /* given out before its END: only its id and start are left */
  size_t held;   /* bytes that are counted for it */
  struct mg_arena arena;
  struct mg_found_exchange *next;          /* in its bucket */
  struct mg_found_exchange *older, *newer; /* in its shard, or of those given up */
};

struct mg_assembler;

/** done is called with each exchange that ended, in the order of their ends in each shard; dropped ones are left out.
 * It returns false to stop: that exchange then counts as under way. bodies: keep them. */
struct mg_assembler *
mg_assembler_new(bool bodies, bool (*done)(void *context, const struct mg_found_exchange *exchange), void *context);
/** Takes an entry (as mg_reader_events.entry). */
bool mg_assembler_take(struct mg_assembler *assembler, const struct mg_origin_of *origin, const struct mg_scope *scope,
                       const struct mg_entry *entry);
/** Gives out what has no END yet, in order of their starts. */
void mg_assembler_rest(struct mg_assembler *assembler);
void mg_assembler_free(struct mg_assembler **assembler);

/* --- for readers that go on and on -------------------------------------------------------------------------------- */

struct mg_assembler_bounds {
  uint64_t age_us;   /* what is older is given out as MG_TIMED_OUT */
  uint64_t open_max; /* exchanges; the oldest beyond are given out as MG_CAPACITY_EVICTED */
  size_t bytes_max;  /* held for all of them; likewise */
  size_t body_max;   /* kept of one body; body_recorded says how long it was */
};

/** Bounds what is held. From now on exchanges of a process that died (a later epoch has begun in its shard) are given
 * out as MG_NO_END, and those whose START is not to be had as MG_NO_START, but for those that had begun before the
 * first entry of a shard that was taken. */
void mg_assembler_bound(struct mg_assembler *assembler, const struct mg_assembler_bounds *bounds);
/** Says that a shard is read on from where it was left: there is nothing "before the first entry". */
void mg_assembler_resume(struct mg_assembler *assembler, unsigned shard);
/** Gives out what has become too old: by the time of its shard's entries, or of now_us, which is 0 while there are
 * entries that were not read. False once done has returned false. */
bool mg_assembler_expire(struct mg_assembler *assembler, uint64_t now_us);
/** The oldest exchange of a shard that is under way; NULL: none. */
const struct mg_found_exchange *mg_assembler_oldest(const struct mg_assembler *assembler, unsigned shard);
uint64_t mg_assembler_open(const struct mg_assembler *assembler);

/** An exchange that was given out before its END. */
struct mg_given_up {
  unsigned shard;
  uint32_t epoch;
  uint64_t number, start_us;
  char id[27];
};

/** Those that are remembered, oldest first: their entries are passed over, their END is given out with their id. */
void mg_assembler_each_given_up(const struct mg_assembler *assembler,
                                void (*each)(void *context, const struct mg_given_up *given), void *context);
void mg_assembler_restore_given_up(struct mg_assembler *assembler, const struct mg_given_up *given);
