/* exchange_script.c - an exchange's calls into its generation's filters.
 * Owns: nothing of its own.   May call: script.   Never: decide what happens next.   Thread: the loop's. */
#include "exchange.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "exchange_trace.h"
#include "log.h"

enum {
  OFFLOAD_WAIT_MS = 250, /* for a place on the pool */
  TIMED_ALL = 512,
  TIMED_SHARE = 16,
};

void mg_exchange_meter(struct mg_exchange *ex, const struct mg_metered *next)
{
  struct mg_gateway *gateway = ex->gateway;
  const struct mg_metered *before = mg_exchange_filter(ex);
  if (gateway->metered_weight) {
    uint64_t now = mg_meter_ticks(gateway->meters);
    if (before) mg_meter_add(&before->meter->busy, (now - gateway->metered_since) * gateway->metered_weight);
    gateway->metered_since = now;
  }
  gateway->turn.meter = next ? (int32_t)(next - ex->generation->metered) : -1;
  *gateway->turn.position = next ? next->position : 0;
}

const struct mg_metered *mg_exchange_filter(const struct mg_exchange *ex)
{
  int32_t meter = ex->gateway->turn.meter;
  return meter >= 0 ? &ex->generation->metered[meter] : NULL;
}

/* A filter waits: its time stands still until it goes on. */
static void meter_waiting(struct mg_exchange *ex)
{
  ex->metered = mg_exchange_filter(ex);
  mg_exchange_meter(ex, NULL);
}

static void meter_resumed(struct mg_exchange *ex)
{
  mg_exchange_meter(ex, ex->metered);
  ex->metered = NULL;
}

/* How many calls each of those that follow stands for, if its time is taken: the first ones of a route are, then those
 * of one exchange in a few, which keeps the clock out of most. */
static unsigned weight_of(struct mg_exchange *ex)
{
  struct mg_generation *generation = ex->generation;
  uint16_t *timed = ex->plan ? &generation->plans[ex->plan - generation->plans].timed : NULL;
  if (timed && *timed < TIMED_ALL) return ++*timed, 1;
  return ex->id_count % TIMED_SHARE == 0 ? TIMED_SHARE : 0;
}

void mg_exchange_meter_failure(struct mg_exchange *ex)
{
  const struct mg_metered *metered = mg_exchange_filter(ex);
  unsigned kills = ex->gateway->watchdog.kills - ex->gateway->kills_metered;
  mg_count(&ex->gateway->cell->count.script_errors, 1);
  ex->gateway->kills_metered += kills;
  if (!metered) return;
  mg_meter_add(&metered->meter->errors, 1);
  if (kills) mg_meter_add(&metered->meter->kills, 1);
}

static void enter(struct mg_exchange *ex, enum mg_phase phase)
{
  struct mg_worker_cell *cell = ex->gateway->cell;
  ex->phase = (uint8_t)phase;
  ex->gateway->running = ex;
  ex->gateway->over_budget = false;
  ex->gateway->kills_metered = 0;
  ex->gateway->metered_weight = weight_of(ex);
  ex->gateway->turn.ended = ex->answered && phase == MG_PHASE_REQUEST;
  atomic_store_explicit(&cell->running_generation, ex->generation->number, memory_order_relaxed);
  atomic_store_explicit(&cell->running_route, (uint32_t)(ex->route + 1), memory_order_relaxed);
}

static void leave(struct mg_exchange *ex)
{
  struct mg_worker_cell *cell = ex->gateway->cell;
  unsigned kills = ex->generation->script.kills;
  if (kills) mg_count(&cell->count.script_kills, kills);
  if (ex->generation->script.memory.worn && ex->generation == ex->gateway->current && ex->gateway->worn)
    ex->gateway->worn(ex->gateway->worn_context);
  mg_exchange_meter(ex, NULL);
  ex->phase = MG_PHASE_NONE;
  ex->gateway->running = NULL;
  atomic_store_explicit(&cell->running_route, 0, memory_order_relaxed);
}

static int report_failure(struct mg_exchange *ex)
{
  struct mg_buf *error = &ex->gateway->script_error;
  struct mg_str route = ex->route < 0 ? MG_STR("-") : mg_routes_id(ex->generation->routes, (unsigned)ex->route);
  const struct mg_metered *metered = mg_exchange_filter(ex);
  struct mg_log_about about = mg_exchange_about(ex);
  mg_log_about(MG_LOG_ERROR, &about, "filter %u (%s) of route %.*s failed: %.*s", metered ? metered->position : 0,
               metered ? metered->name : "-", (int)route.len, route.ptr, (int)error->len, error->ptr);
  error->len = 0;
  mg_exchange_meter_failure(ex);
  return ex->gateway->over_budget && ex->phase != MG_PHASE_RESPONSE ? MG_EREGEX : MG_ESCRIPT;
}

/* A timer of its own, to the millisecond: the wheel's are coarse, and filters seldom sleep. */
struct mg_sleep {
  uv_timer_t timer;
  struct mg_exchange *ex;
};

static void on_sleep_closed(uv_handle_t *handle)
{
  free(handle->data);
}

static void end_sleep(struct mg_exchange *ex)
{
  struct mg_sleep *sleep = ex->asleep;
  ex->asleep = NULL;
  if (sleep) uv_close((uv_handle_t *)&sleep->timer, on_sleep_closed);
}

static void on_sleep_over(uv_timer_t *timer)
{
  struct mg_exchange *ex = ((struct mg_sleep *)timer->data)->ex;
  end_sleep(ex);
  mg_exchange_run(ex);
}

/* Not shorter than asked for, though the loop's time is cut to milliseconds; and not 0, which would come before what
 * the loop has to read. */
static void begin_sleep(struct mg_exchange *ex, double milliseconds)
{
  struct mg_sleep *sleep = mg_alloc(sizeof *sleep);
  uv_loop_t *loop = ex->gateway->net.loop;
  sleep->ex = ex;
  uv_timer_init(loop, &sleep->timer);
  sleep->timer.data = sleep;
  uv_update_time(loop);
  uv_timer_start(&sleep->timer, on_sleep_over, (uint64_t)ceil(milliseconds) + 1, 0);
  ex->asleep = sleep;
}

void mg_exchange_stop_waiting(struct mg_exchange *ex)
{
  end_sleep(ex);
  mg_timer_off(&ex->retry);
  struct mg_job *job = ex->job;
  ex->job = NULL;
  if (job) job->owner = NULL;
  if (job && !ex->job_started) job->done(job, MG_EOVERLOAD);
  ex->job_started = false;
  if (ex->call) mg_call_end(ex->call);
  ex->call_runs = false;
  if (ex->waiting.L) mg_script_drop(&ex->generation->script, &ex->waiting);
  ex->piece_waits = false;
}

/* Starts what a filter that yielded waits for. */
static int begin_waiting(struct mg_exchange *ex)
{
  double milliseconds;
  bool may_wait = ex->phase != MG_PHASE_LOG && ex->phase != MG_PHASE_UPSTREAM;
  enum mg_wait wait = may_wait ? mg_coroutine_waits(&ex->waiting, &milliseconds) : MG_WAIT_NOTHING;
  if (wait == MG_WAIT_SLEEP) {
    meter_waiting(ex);
    begin_sleep(ex, milliseconds);
    return MG_EAGAIN_LATER;
  }
  if (wait == MG_WAIT_CALL && ex->call && !ex->call_runs) {
    meter_waiting(ex);
    ex->call_runs = true;
    mg_call_start(ex->call, &ex->gateway->upstreams, ex->call_timeout_ms);
    return MG_EAGAIN_LATER;
  }
  if (wait == MG_WAIT_JOB && ex->job) {
    meter_waiting(ex);
    ex->job_started = true;
    mg_offload_start(ex->gateway->offload, ex->job, OFFLOAD_WAIT_MS);
    return MG_EAGAIN_LATER;
  }
  mg_exchange_stop_waiting(ex);
  mg_buf_printf(&ex->gateway->script_error, "a filter may not wait here");
  return report_failure(ex);
}

int mg_exchange_call(struct mg_exchange *ex, const struct mg_chain *chain, enum mg_phase phase)
{
  struct mg_script *script = &ex->generation->script;
  struct mg_buf *error = &ex->gateway->script_error;
  if (ex->waiting.L && (ex->asleep || ex->job || ex->call_runs))
    return MG_EAGAIN_LATER; /* something else woke the exchange */
  enter(ex, phase);
  if (ex->waiting.L) meter_resumed(ex);
  int ref = ex->gateway->metered_weight ? chain->timed : chain->plain;
  int result = ex->waiting.L ? mg_script_resume(script, &ex->waiting, error)
                             : mg_script_call(script, ref, (double)ex->handle, &ex->waiting, error);
  if (result == MG_EAGAIN_LATER)
    result = begin_waiting(ex);
  else if (result)
    result = report_failure(ex);
  leave(ex);
  ex->script_done = result != MG_EAGAIN_LATER;
  return result;
}

int mg_exchange_ask(struct mg_exchange *ex, unsigned index)
{
  struct mg_generation *generation = ex->generation;
  enter(ex, MG_PHASE_NONE);
  int result =
      mg_script_ask(&generation->script, generation->opaque_ref, (double)ex->handle, index, &ex->gateway->script_error);
  if (result < 0) result = report_failure(ex);
  leave(ex);
  return result;
}

void mg_exchange_drop_locals(struct mg_exchange *ex)
{
  struct mg_generation *generation = ex->generation;
  if (!ex->has_locals || !generation->release_ref) return;
  ex->has_locals = false;
  enter(ex, MG_PHASE_NONE);
  struct mg_coroutine waiting = {0};
  int result = mg_script_call(&generation->script, generation->release_ref, (double)ex->handle, &waiting,
                              &ex->gateway->script_error);
  if (result == MG_EAGAIN_LATER)
    mg_script_drop(&generation->script, &waiting);
  else if (result)
    report_failure(ex);
  leave(ex);
}
