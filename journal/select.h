/* select.h - which exchanges are looked for, and whether one is among them.   Pure. Thread: any. */
#pragma once

#include "assemble.h"

enum { MG_EXCHANGE_ID_LEN = 26 };

/** Texts are borrowed. Zero: every exchange. */
struct mg_selection {
  struct mg_str id;
  struct mg_str path;                 /* what the target of the client's request line begins with */
  struct mg_str route;                /* its whole id */
  unsigned status_first, status_last; /* 0: any, incomplete ones included */
  uint64_t since_us;                  /* started then or later */
};

/** "404", or "5xx" for a class. False when it is neither. */
bool mg_selection_status(struct mg_selection *selection, struct mg_str text);
/** A span back from now ("30s", "10m", "2h", "1d"), or a moment in UTC ("2026-11-30T21:00:00Z"). False when it is
 * neither. */
bool mg_selection_since(struct mg_selection *selection, struct mg_str text, uint64_t now_us);

/** Whether that exchange is wanted. */
bool mg_selection_takes(const struct mg_selection *selection, const struct mg_found_exchange *exchange);

/** An exchange's id taken apart: when and on which shard it began, and the number that nobody else has. */
struct mg_exchange_id {
  uint64_t start_ms;
  unsigned shard;
  uint64_t low;
};

/** False when text is no id: 26 digits of Crockford's base 32. */
bool mg_exchange_id_read(struct mg_exchange_id *id, struct mg_str text);
