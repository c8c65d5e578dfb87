/* workers.h - the worker processes as the master sees them: one slot each, filled again whenever its process dies.
 *
 * Thread: the loop thread. */
#pragma once

#include <uv.h>

#include "frame.h"
#include "inherit.h"
#include "settings.h"
#include "shm.h"

struct mg_workers;

/* What happens to workers; context is given to each. */
struct mg_workers_events {
  void *context;
  void (*born)(void *context, unsigned slot); /* has its settings, nothing else */
  void (*ready)(void *context, unsigned slot, uint64_t generation, struct mg_str reason); /* reason empty: built */
  void (*state)(void *context, unsigned slot); /* generation or live changed */
  void (*died)(void *context, unsigned slot);  /* by itself, or shot */
  void (*gone)(void *context);                 /* after a stop: the last has ended */
};

struct mg_worker_facts {
  int pid;             /* 0: none runs at the moment */
  uint64_t generation; /* new exchanges get it; 0: none yet */
  unsigned live;       /* generations */
  unsigned deaths;     /* since the start */
  bool keeps_dying;    /* so often of late that its replacement is held back */
};

/** count slots. Borrows loop, shm, settings (drain and stuck times) and settings_text (sent to each worker); takes the
 * listeners, which stay open until mg_workers_close. Starts nothing. */
struct mg_workers *mg_workers_new(uv_loop_t *loop, struct mg_shm *shm, const struct mg_settings *settings,
                                  struct mg_str settings_text, const struct mg_listeners *listeners, unsigned count,
                                  const struct mg_workers_events *events);

/** Starts a process in every slot. 0, or a libuv error when one cannot be started; those that were run on. */
int mg_workers_start(struct mg_workers *workers);

/** Sends one frame to the process in slot, or to all that run. */
void mg_workers_send(struct mg_workers *workers, unsigned slot, enum mg_frame_type type, uint64_t generation,
                     struct mg_str payload);
void mg_workers_broadcast(struct mg_workers *workers, enum mg_frame_type type, uint64_t generation,
                          struct mg_str payload);

unsigned mg_workers_count(const struct mg_workers *workers);
/** Appends the ids of exchanges that keep the oldest generations alive, where a worker has no room for another; each
 * behind a blank. */
void mg_workers_holders(const struct mg_workers *workers, struct mg_buf *out);
const struct mg_listeners *mg_workers_listeners(const struct mg_workers *workers);
/** The shared memory, for who prepares what workers will look for. */
struct mg_shm *mg_workers_shm(const struct mg_workers *workers);

struct mg_worker_facts mg_workers_facts(const struct mg_workers *workers, unsigned slot);

/** Ends the process in slot with SIGKILL and says why in the log; it is replaced as any that dies. */
void mg_workers_shoot(struct mg_workers *workers, unsigned slot, const char *why);

/** From now on nobody is replaced: tells every worker to finish and exit. events.gone is called from the loop. */
void mg_workers_drain(struct mg_workers *workers);
/** Cuts every connection (after mg_workers_drain); who has not ended some time later is killed. */
void mg_workers_abort(struct mg_workers *workers);
/** True if every worker ended by itself with exit code 0 since the drain began. */
bool mg_workers_ended_well(const struct mg_workers *workers);

/** Closes listeners and timers, kills what still runs; frees itself once the loop has run. */
void mg_workers_close(struct mg_workers **workers);
