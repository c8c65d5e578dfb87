/* tail_private.h - what tail.c, tail_checkpoint.c and tail_status.c share. Nobody else includes it. */
#pragma once

#include "checkpoint.h"
#include "follow.h"
#include "output.h"
#include "tail_options.h"

struct mg_tail {
  struct mg_tail_options options;
  struct mg_outputs *outputs;
  struct mg_assembler *assembler;
  struct mg_follow *follow;
  struct mg_checkpoint resumed; /* what earlier runs had delivered when this one began */
  int lock_fd;                  /* of the checkpoint's folder; -1: none */
  uint64_t started_us;
  uint64_t delivered, incomplete, refusals;  /* exchanges, in this run; tries that an output did not take */
  uint64_t findings;                         /* places and ranges that could not be read */
  uint64_t last_us;                          /* when the exchange that was delivered last ended */
  int64_t checkpoint_ms, status_ms, look_ms; /* when each was last done */
  uint64_t status_delivered;                 /* as of status_ms */
  double rate;                               /* exchanges per second lately */
  int64_t checkpoint_cost_ms;                /* how long the last one took, with what it had to wait for */
  bool dirty;                                /* something was written and not flushed */
  bool moved;                                /* something was read since the last checkpoint */
  bool failed;                               /* it is to end, and not with success */
  bool woken;                                /* by a writer, since something was last read */
  bool caught_up;
  bool terminal; /* standard error is one: progress is shown */
  bool progress_shown;
  const char *stalled; /* what does not take exchanges now; NULL: all is well */
};

int64_t mg_tail_now_ms(void);
uint64_t mg_tail_wall_us(void);

/** tail_checkpoint.c: takes the folder and reads what is there. An exit code, after a message. */
int mg_tail_resume(struct mg_tail *tail);
/** Tells the assembler what earlier runs knew. */
void mg_tail_restore(struct mg_tail *tail);
/** Whether an exchange that ended at that entry had been delivered before this run. */
bool mg_tail_had(const struct mg_tail *tail, const struct mg_found_exchange *exchange);
/** Writes how far everything is delivered that was flushed; false after a message (told again only now and then). */
bool mg_tail_checkpoint(struct mg_tail *tail);

/** tail_status.c: the status file and, on a terminal, the line of progress; at most once a second unless now. */
void mg_tail_status(struct mg_tail *tail, bool now);
/** tail_findings.c: as mg_reader_events.finding; context is the tailer. */
void mg_tail_finding(void *context, const struct mg_finding *finding);
/** A message on standard error on a line of its own. */
__attribute__((format(printf, 2, 3))) void mg_tail_say(struct mg_tail *tail, const char *format, ...);
