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

/** An exchange as far as the journal has it. */
struct mg_found_exchange {
  unsigned shard;
  uint32_t epoch;
  uint64_t number;
  char id[27];
  uint64_t start_us, end_us;
  bool started;
  bool ended; /* false: no END; it was under way when the gateway died, or is now */
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
  struct mg_arena arena;
  struct mg_found_exchange *next;
};

struct mg_assembler;

/** done is called with each exchange that ended, in the order of their ends; dropped ones are left out. bodies: keep
 * them. */
struct mg_assembler *
mg_assembler_new(bool bodies, bool (*done)(void *context, const struct mg_found_exchange *exchange), void *context);
/** Takes an entry (as mg_reader_events.entry). */
bool mg_assembler_take(struct mg_assembler *assembler, const struct mg_origin_of *origin, const struct mg_scope *scope,
                       const struct mg_entry *entry);
/** Gives out what has no END yet, in order of their starts. */
void mg_assembler_rest(struct mg_assembler *assembler);
void mg_assembler_free(struct mg_assembler **assembler);
