/* breaker.h - a circuit breaker that is one 64-bit word, shared by processes and moved by compare-and-swap.
 *
 * CLOSED counts failures in a row; at the threshold it is OPEN until a moment, then one caller becomes the probe
 * (HALF_OPEN), whose outcome closes or opens it. A probe that is never heard of again expires, at once when its
 * process has died.
 * Pure: time and process come in. Thread: any; processes may call it on the same cell at once. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mg_breaker_cell { /* zero bytes: CLOSED, no failures */
  _Alignas(64) _Atomic uint64_t word;
  _Atomic uint64_t rejected;
};

struct mg_breaker_rules {
  uint32_t failures_max; /* in a row, from 1 */
  uint64_t cooldown_ms;
  uint64_t probe_ms; /* how long a probe may take before another is sent */
};

enum mg_breaker_state { MG_BREAKER_CLOSED, MG_BREAKER_OPEN, MG_BREAKER_HALF_OPEN };

/** What a caller was let in with, to be given back once with its outcome. */
struct mg_breaker_pass {
  uint64_t probe; /* the word that made it the probe; 0 for an ordinary caller */
};

enum mg_breaker_outcome { MG_BREAKER_SUCCESS, MG_BREAKER_FAILURE, MG_BREAKER_UNKNOWN };

/** True if the caller (of process pid) may go ahead at now_ms, with *pass filled in. alive tells whether a process
 * still runs. */
bool mg_breaker_enter(struct mg_breaker_cell *cell, const struct mg_breaker_rules *rules, uint64_t now_ms, uint32_t pid,
                      bool (*alive)(uint32_t pid), struct mg_breaker_pass *pass);

/** Tells the outcome of a caller that was let in. UNKNOWN (it went away before there was one) frees a probe's place and
 * counts for nothing else. What an ordinary caller tells when the breaker is not CLOSED any more is ignored. */
void mg_breaker_leave(struct mg_breaker_cell *cell, const struct mg_breaker_rules *rules, uint64_t now_ms,
                      struct mg_breaker_pass pass, enum mg_breaker_outcome outcome);

/** Until when it is OPEN, on the clock of its callers; 0 when it is not. */
uint64_t mg_breaker_until(const struct mg_breaker_cell *cell);
/** The state, and the failures in a row while it is CLOSED. */
enum mg_breaker_state mg_breaker_state(const struct mg_breaker_cell *cell, uint32_t *failures);
