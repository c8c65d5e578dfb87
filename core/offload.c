/* offload.c - jobs for libuv's thread pool, and the queue before it.
 * Owns: the queue.   May call: libuv, timer, mem.   Never: know what a job does, free one.   Thread: the loop's. */
#include "offload.h"

#include <stdlib.h>

#include "log.h"
#include "mem.h"

struct mg_offload {
  uv_loop_t *loop;
  struct mg_wheel *wheel;
  unsigned at_once;
  unsigned running;
  struct mg_job *first, **last; /* waiting, in the order they came */
  bool closing;
};

struct mg_offload *mg_offload_open(uv_loop_t *loop, struct mg_wheel *wheel, unsigned at_once)
{
  struct mg_offload *offload = mg_calloc(1, sizeof *offload);
  *offload = (struct mg_offload){.loop = loop, .wheel = wheel, .at_once = at_once};
  offload->last = &offload->first;
  return offload;
}

static void take_out(struct mg_offload *offload, struct mg_job *job)
{
  struct mg_job **at = &offload->first;
  while (*at != job) at = &(*at)->next;
  *at = job->next;
  if (!*at) offload->last = at;
  mg_timer_remove(&job->patience);
}

static void on_patience_over(struct mg_timer *timer)
{
  struct mg_job *job = (struct mg_job *)((char *)timer - offsetof(struct mg_job, patience));
  take_out(job->offload, job);
  job->done(job, MG_EOVERLOAD);
}

static void on_run(uv_work_t *work)
{
  struct mg_job *job = work->data;
  job->run(job);
}

static void on_run_done(uv_work_t *work, int status);

static void run(struct mg_offload *offload, struct mg_job *job)
{
  offload->running++;
  job->work.data = job;
  MG_ASSERT(uv_queue_work(offload->loop, &job->work, on_run, on_run_done) == 0); /* it fails for want of a callback */
}

static void on_run_done(uv_work_t *work, int status)
{
  struct mg_job *job = work->data;
  struct mg_offload *offload = job->offload;
  offload->running--;
  struct mg_job *next = offload->first;
  if (next) {
    take_out(offload, next);
    run(offload, next);
  }
  job->done(job, status ? MG_EOVERLOAD : 0);
  if (offload->closing && !offload->running) free(offload);
}

void mg_offload_start(struct mg_offload *offload, struct mg_job *job, uint64_t wait_ms)
{
  MG_ASSERT(!offload->closing);
  job->offload = offload;
  job->next = NULL;
  mg_timer_init(&job->patience, on_patience_over);
  if (offload->running < offload->at_once) {
    run(offload, job);
    return;
  }
  *offload->last = job;
  offload->last = &job->next;
  mg_timer_set(offload->wheel, &job->patience, wait_ms);
}

void mg_offload_close(struct mg_offload **pointer)
{
  struct mg_offload *offload = *pointer;
  *pointer = NULL;
  while (offload->first) {
    struct mg_job *job = offload->first;
    take_out(offload, job);
    job->done(job, MG_EOVERLOAD);
  }
  offload->closing = true;
  if (!offload->running) free(offload);
}
