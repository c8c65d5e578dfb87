/* record.h - what of an exchange goes into the journal, and when (DROP, START, body pieces, END).
 *
 * One recorder per worker; its shard is the worker's slot. Calls neither wait nor make a system call for an exchange.
 * Thread: the loop's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mem.h"
#include "settings.h"

struct mg_exchange;
struct mg_gateway;
struct mg_recorder;
struct mg_worker_cell;

enum { MG_STATUS_FIRST = 100, MG_STATUS_COUNT = 500 };

/** What a route records: levels (enum mg_level) of request and response. Zero: nothing. */
struct mg_journal_plan {
  uint8_t level[2];
  bool any;              /* some level, by status or not, is above NONE */
  bool headers_may_fall; /* a status can lower the request below HEADERS */
  uint8_t *by_status[2]; /* MG_STATUS_COUNT levels each; NULL: no override */
  struct mg_str filters; /* names of those that run; owned */
};

/** Levels of request (side 0) or response (1) as configured; override for a range of statuses. */
void mg_journal_plan_level(struct mg_journal_plan *plan, unsigned side, unsigned level);
void mg_journal_plan_override(struct mg_journal_plan *plan, unsigned side, unsigned first, unsigned last,
                              unsigned level);
void mg_journal_plan_free(struct mg_journal_plan *plan);

/** An exchange's part. Zero at first. */
struct mg_record {
  uint64_t number;            /* in the journal; 0: not begun */
  uint64_t lsn;               /* of START, while it may not be on the disk; 0: nothing to wait for */
  bool has_line, has_headers; /* in START */
  bool same_line;             /* the head last sent upstream begins with the client's line */
  bool lost;                  /* its START could not be kept (storage.on_full: drop) */
  bool raw[2];                /* a body that does not compress */
  uint8_t client_source;      /* enum mg_client_source */
  uint8_t crcs;               /* bit by side */
  uint8_t cut;                /* bit by side: there was no room for a piece of the body; what is recorded ends there */
  uint32_t crc[2];
  uint64_t body_bytes[2]; /* recorded so far */
  uint64_t bytes;         /* of its entries, before compression */
};

/** Opens the shard of the gateway's slot below storage.work_dir, which is made if it is not there: lock, recovery,
 * key. 0, or -1 with a sentence in error. */
int mg_recorder_open(struct mg_recorder **recorder, struct mg_gateway *gateway, struct mg_buf *error);
/** Puts everything into sealed segments. */
void mg_recorder_close(struct mg_recorder **recorder);
/** To be called every now and then: what is staged goes into a segment; what failed is tried again. How it stands
 * goes into cell. */
void mg_recorder_flush(struct mg_recorder *recorder, struct mg_worker_cell *cell);

/** START, before the first upstream byte. 0; MG_ENOJOURNAL: it cannot be kept and the exchange is to be refused;
 * MG_EAGAIN_LATER: not now (storage.on_full: block), or not on the disk yet (storage.sync: group): call again when
 * woken, or a tick later. */
int mg_record_start(struct mg_exchange *ex);
/** To be called when a head for the upstream is written, while both are near. */
void mg_record_upstream_head(struct mg_exchange *ex);
/** Bytes of a body that pass, if the level says so. */
void mg_record_body(struct mg_exchange *ex, unsigned side, const char *bytes, size_t len);
/** True if mg_record_body would keep bytes of that side, so that they have to pass through memory. */
bool mg_record_wants_body(const struct mg_exchange *ex, unsigned side);
/** END or DROP, and START first where there was none. */
void mg_record_end(struct mg_exchange *ex);
