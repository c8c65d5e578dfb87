/* offload.h - work that would hold up the loop, done on libuv's thread pool: a bounded number at once, the rest waits a
 * little and is then turned away.
 *
 * Thread: the loop's, but for a job's run. */
#pragma once

#include <uv.h>

#include "err.h"
#include "timer.h"

struct mg_offload;

/** One piece of work; the first member of who has it. */
struct mg_job {
  void (*run)(struct mg_job *job);           /* on a thread of the pool: may touch the job and nothing else */
  void (*done)(struct mg_job *job, int err); /* on the loop, once: 0, or MG_EOVERLOAD when it was turned away */
  void *owner;                               /* who waits for it, for done; NULL: nobody any more */
  struct mg_offload *offload;
  struct mg_job *next;
  struct mg_timer patience;
  uv_work_t work;
};

/** Runs up to at_once jobs at a time on loop's pool; loop and wheel are borrowed. */
struct mg_offload *mg_offload_open(uv_loop_t *loop, struct mg_wheel *wheel, unsigned at_once);

/** Runs the job (borrowed until its done, which never comes before this returns), or turns it away when none of the
 * others has ended within wait_ms. */
void mg_offload_start(struct mg_offload *offload, struct mg_job *job, uint64_t wait_ms);

/** Turns away what waits. What runs ends by itself, its done is called; the memory goes with the last of them. */
void mg_offload_close(struct mg_offload **offload);
