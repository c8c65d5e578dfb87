/* worker.c - frames from the master, builds on helper threads, heartbeats, a clean end.
 * Owns: the loop, the control pipe, generations that are not switched to yet, the gateway.
 * May call: mem, log, cli, channel, settings, shm, gateway, libuv.   Never: read a file, outlive the master.
 * Thread: the loop thread; build_on_thread() on libuv's pool touches only its own build. */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "channel.h"
#include "cli.h"
#include "gateway.h"
#include "inherit.h"
#include "log.h"
#include "settings.h"
#include "shm.h"

enum { LAST_BUILD_MS = 5000, REFRESH_MS_MIN = 1000, HOLDERS_MAX = 4 };

/* A generation on its way: being built, then waiting for SWITCH or DISCARD. */
struct pending {
  uv_work_t work;
  struct worker *worker;
  struct pending *next;
  struct mg_buf bundle;
  struct mg_buf error;
  struct mg_generation *generation;
  uint64_t number;
  bool running;
  bool discarded;
  bool refresh; /* the generation that serves, once more, with a state that is not full */
};

struct worker {
  uv_loop_t loop;
  struct mg_channel channel;
  uv_timer_t heartbeat;
  uv_timer_t patience; /* ends a drain that lasts too long, then a build that does */
  uv_check_t look;     /* runs while older generations live, so that their end is told at once */
  struct mg_settings settings;
  struct mg_shm shm;
  struct mg_worker_cell *cell;
  struct mg_gateway *gateway;
  struct pending *pending;
  struct mg_buf serving;    /* the bundle of the generation that new exchanges get */
  uint64_t refresh_ms_from; /* not sooner */
  unsigned slot;
  unsigned listener_count;
  unsigned live; /* generations, as last told */
  bool draining;
  bool finishing; /* nothing is being served any more */
  bool finished;
};

static void beat(struct worker *worker)
{
  atomic_store_explicit(&worker->cell->heartbeat_ms, uv_hrtime() / 1000000, memory_order_relaxed);
}

static bool has_no_room(const struct worker *worker)
{
  return worker->live >= worker->settings.generations_max;
}

/* Where the next reload would be one too many: also whom it waits for. */
static void tell_state(struct worker *worker)
{
  struct mg_buf text = {0};
  worker->live = mg_gateway_generations(worker->gateway);
  mg_buf_printf(&text, "live=%u", worker->live);
  if (has_no_room(worker)) mg_gateway_holders(worker->gateway, HOLDERS_MAX, &text);
  mg_channel_send(&worker->channel, MG_FRAME_STATE, atomic_load(&worker->cell->generation), mg_str(text.ptr, text.len));
  mg_buf_free(&text);
}

static void on_look(uv_check_t *check)
{
  struct worker *worker = check->data;
  if (!worker->gateway || mg_gateway_generations(worker->gateway) == worker->live) return;
  tell_state(worker);
  if (worker->live <= 1) uv_check_stop(check);
}

static void on_heartbeat(uv_timer_t *timer)
{
  struct worker *worker = timer->data;
  beat(worker);
  mg_log_tick();
  if (worker->live > 1) on_look(&worker->look);
  if (worker->gateway && has_no_room(worker)) tell_state(worker); /* the exchanges may be others by now */
}

static void remove_pending(struct pending *pending)
{
  struct pending **at = &pending->worker->pending;
  while (*at != pending) at = &(*at)->next;
  *at = pending->next;
  if (pending->generation) mg_generation_free(&pending->generation);
  mg_buf_free(&pending->bundle);
  mg_buf_free(&pending->error);
  free(pending);
}

static struct pending *find_pending(struct worker *worker, uint64_t number)
{
  struct pending *pending = worker->pending;
  while (pending && pending->number != number) pending = pending->next;
  return pending;
}

static void build_on_thread(uv_work_t *work)
{
  struct pending *pending = work->data;
  pending->generation = mg_generation_build(mg_str(pending->bundle.ptr, pending->bundle.len), pending->number,
                                            pending->worker->settings.script_memory_max, &pending->error);
}

static void take_over(struct worker *worker, struct pending *pending)
{
  struct mg_generation *generation = pending->generation;
  pending->generation = NULL;
  mg_buf_free(&worker->serving);
  worker->serving = pending->bundle;
  pending->bundle = (struct mg_buf){0};
  mg_gateway_switch(worker->gateway, generation);
  atomic_store(&worker->cell->generation, pending->number);
  remove_pending(pending);
  tell_state(worker);
  if (worker->live > 1) uv_check_start(&worker->look, on_look);
}

static void end_refresh(struct worker *worker, struct pending *pending)
{
  if (!pending->generation)
    mg_log(MG_LOG_WARN, "generation %llu cannot be built afresh: %.*s", (unsigned long long)pending->number,
           (int)pending->error.len, pending->error.ptr);
  if (pending->generation && pending->number == atomic_load(&worker->cell->generation))
    take_over(worker, pending);
  else
    remove_pending(pending);
}

static void finish(struct worker *worker);

static void on_built(uv_work_t *work, int status)
{
  struct pending *pending = work->data;
  struct worker *worker = pending->worker;
  pending->running = false;
  if (status != 0 || pending->discarded || worker->draining) {
    remove_pending(pending);
    if (worker->finishing) finish(worker);
    return;
  }
  if (pending->refresh) {
    end_refresh(worker, pending);
    return;
  }
  if (pending->generation && mg_gateway_prepare(worker->gateway, pending->generation, &pending->error) != 0)
    mg_generation_free(&pending->generation);
  struct mg_str reason = mg_str(pending->error.ptr, pending->error.len);
  if (!pending->generation && !reason.len) reason = MG_STR("it cannot be built");
  mg_channel_send(&worker->channel, MG_FRAME_READY, pending->number, pending->generation ? mg_str(NULL, 0) : reason);
  if (!pending->generation) remove_pending(pending);
}

/* Queues work; the pool's threads, made at the first call, never see SIGPROF: LuaJIT's profiler must interrupt the loop
 * thread. */
static int queue_work(uv_loop_t *loop, uv_work_t *work)
{
  sigset_t profiling, before;
  sigemptyset(&profiling);
  sigaddset(&profiling, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &profiling, &before);
  int result = uv_queue_work(loop, work, build_on_thread, on_built);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return result;
}

static void build(struct worker *worker, uint64_t number, struct mg_str bundle)
{
  if (worker->draining || find_pending(worker, number)) return;
  struct pending *pending = mg_calloc(1, sizeof *pending);
  *pending = (struct pending){.worker = worker, .next = worker->pending, .number = number, .running = true};
  pending->work.data = pending;
  mg_buf_append(&pending->bundle, bundle.ptr, bundle.len);
  worker->pending = pending;
  if (queue_work(&worker->loop, &pending->work) == 0) return;
  mg_channel_send(&worker->channel, MG_FRAME_READY, number, MG_STR("no helper thread can be started"));
  remove_pending(pending);
}

/* Scripts have filled their state with what they still hold: new exchanges get a fresh one, the old one goes with
 * its last. */
static void on_worn(void *context)
{
  struct worker *worker = context;
  uint64_t number = atomic_load(&worker->cell->generation);
  if (worker->draining || worker->pending || uv_now(&worker->loop) < worker->refresh_ms_from) return;
  worker->refresh_ms_from = uv_now(&worker->loop) + REFRESH_MS_MIN;
  mg_log(MG_LOG_WARN,
         "scripts of generation %llu hold more than three quarters of scripts.max_memory: making a fresh state",
         (unsigned long long)number);
  build(worker, number, mg_str(worker->serving.ptr, worker->serving.len));
  if (worker->pending) worker->pending->refresh = true;
}

static void discard(struct worker *worker, uint64_t number)
{
  struct pending *pending = find_pending(worker, number);
  if (!pending) return;
  pending->discarded = true;
  if (!pending->running) remove_pending(pending);
}

static void switch_to(struct worker *worker, uint64_t number)
{
  struct pending *pending = find_pending(worker, number);
  if (!pending || !pending->generation || !worker->gateway || worker->draining) return;
  take_over(worker, pending);
}

static void apply_settings(struct worker *worker, struct mg_str text)
{
  mg_settings_defaults(&worker->settings);
  while (text.len) {
    const char *end = memchr(text.ptr, '\n', text.len);
    size_t len = end ? (size_t)(end - text.ptr) : text.len;
    const char *equals = memchr(text.ptr, '=', len);
    size_t key = equals ? (size_t)(equals - text.ptr) : len;
    if (equals && !mg_settings_set(&worker->settings, text.ptr, key, equals + 1, len - key - 1))
      mg_log(MG_LOG_WARN, "unknown setting %.*s", (int)len, text.ptr);
    len += end != NULL;
    text = mg_str(text.ptr + len, text.len - len);
  }
  mg_log_style(worker->settings.log_level, worker->settings.log_format);
  int listeners[MG_LISTENERS_MAX];
  for (unsigned i = 0; i < worker->listener_count; i++) listeners[i] = MG_WORKER_LISTENER_FD + (int)i;
  int result = mg_gateway_open(&worker->gateway, &worker->loop, &worker->settings, &worker->shm, worker->slot,
                               listeners, worker->listener_count, MG_WORKER_OUTPUT_FD);
  if (result == 0) {
    mg_gateway_on_worn(worker->gateway, on_worn, worker);
    return;
  }
  mg_log(MG_LOG_ERROR, "the data path cannot start: %s", mg_err_sentence(result));
  _exit(MG_EXIT_FAILED);
}

/* What is recorded is kept; the build, which may look for the gateway in between, has no time left to fall over it. */
static void on_last_build_too_long(uv_timer_t *timer)
{
  struct worker *worker = timer->data;
  mg_log(MG_LOG_WARN, "a filter's init is still running; leaving it behind");
  if (worker->gateway) mg_gateway_close(&worker->gateway);
  _exit(MG_EXIT_FAILED);
}

/* Drops the generations that nobody will switch to. False while one is still being built. */
static bool drop_pending(struct worker *worker)
{
  struct pending *next;
  for (struct pending *pending = worker->pending; pending; pending = next) {
    next = pending->next;
    discard(worker, pending->number);
  }
  return !worker->pending;
}

/* Nothing is being served any more: gives back what is left, and lets the loop run out. A build uses what the gateway
 * owns, so its end is awaited. */
static void finish(struct worker *worker)
{
  if (worker->finished) return;
  if (!drop_pending(worker)) {
    worker->finishing = true;
    uv_timer_start(&worker->heartbeat, on_heartbeat, MG_HEARTBEAT_MS, MG_HEARTBEAT_MS);
    uv_timer_start(&worker->patience, on_last_build_too_long, LAST_BUILD_MS, 0);
    return;
  }
  worker->finished = true;
  if (worker->gateway) mg_gateway_close(&worker->gateway);
  mg_channel_close(&worker->channel);
  uv_close((uv_handle_t *)&worker->heartbeat, NULL);
  uv_close((uv_handle_t *)&worker->look, NULL);
  uv_timer_stop(&worker->patience);
}

static void on_end(uv_timer_t *timer)
{
  finish(timer->data);
}

/* May be called from inside the gateway, which must not be closed there. */
static void on_drained(void *context)
{
  struct worker *worker = context;
  if (!worker->finished && !worker->finishing) uv_timer_start(&worker->heartbeat, on_end, 0, 0);
}

static void on_drain_too_long(uv_timer_t *timer)
{
  struct worker *worker = timer->data;
  if (worker->gateway) mg_gateway_abort(worker->gateway);
}

static void drain(struct worker *worker)
{
  if (worker->draining) return;
  worker->draining = true;
  if (worker->gateway)
    mg_gateway_drain(worker->gateway, on_drained, worker);
  else
    finish(worker);
}

static void on_frame(struct mg_channel *channel, const struct mg_frame *frame)
{
  struct worker *worker = channel->owner;
  switch (frame->type) {
  case MG_FRAME_SETTINGS:
    if (!worker->gateway && !worker->draining) apply_settings(worker, frame->payload);
    break;
  case MG_FRAME_BUILD:
    build(worker, frame->generation, frame->payload);
    break;
  case MG_FRAME_SWITCH:
    switch_to(worker, frame->generation);
    break;
  case MG_FRAME_DISCARD:
    discard(worker, frame->generation);
    break;
  case MG_FRAME_DRAIN:
    drain(worker);
    break;
  case MG_FRAME_ABORT:
    drain(worker);
    if (worker->gateway) mg_gateway_abort(worker->gateway);
    break;
  case MG_FRAME_REOPEN:
    if (worker->gateway) mg_gateway_reopen_logs(worker->gateway);
    break;
  case MG_FRAME_READY:
  case MG_FRAME_STATE:
  case MG_FRAME_COUNTERS:
    break; /* ours to send, or between masters */
  }
}

/* The master is gone. Nobody will end a drain that lasts too long but we. */
static void on_master_gone(struct mg_channel *channel)
{
  struct worker *worker = channel->owner;
  if (worker->finished) return;
  if (!worker->draining) mg_log(MG_LOG_WARN, "the master is gone; finishing what runs");
  uv_timer_start(&worker->patience, on_drain_too_long, worker->settings.drain_timeout_ms, 0);
  drain(worker);
}

static void on_channel_closed(struct mg_channel *channel)
{
  (void)channel;
}

/* The terminal's and a service manager's signals reach the whole process group; only the master acts on them. */
static void ignore_signals(void)
{
  static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ};
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) signal(ignored[i], SIG_IGN);
}

static int start(struct worker *worker)
{
  if (mg_shm_attach(&worker->shm, MG_WORKER_SHM_FD) != 0) return -1;
  worker->cell = mg_shm_worker(&worker->shm, worker->slot);
  atomic_store(&worker->cell->pid, (int32_t)getpid());
  mg_settings_defaults(&worker->settings);
  if (uv_loop_init(&worker->loop) != 0) return -1;
  uv_timer_init(&worker->loop, &worker->heartbeat);
  uv_timer_init(&worker->loop, &worker->patience);
  uv_check_init(&worker->loop, &worker->look);
  worker->heartbeat.data = worker->patience.data = worker->look.data = worker;
  worker->channel.owner = worker;
  worker->channel.on_frame = on_frame;
  worker->channel.on_end = on_master_gone;
  worker->channel.on_closed = on_channel_closed;
  if (mg_channel_init(&worker->channel, &worker->loop) != 0 ||
      mg_channel_open(&worker->channel, MG_WORKER_CONTROL_FD) != 0 || mg_channel_start(&worker->channel) != 0)
    return -1;
  beat(worker);
  uv_timer_start(&worker->heartbeat, on_heartbeat, MG_HEARTBEAT_MS, MG_HEARTBEAT_MS);
  return 0;
}

int mg_worker_main(int argc, char **argv)
{
  struct mg_options options;
  char who[32];
  struct worker worker = {0};
  ignore_signals();
  int code = mg_cli_parse(&options, MG_OPTION_SLOT | MG_OPTION_LISTENERS, argc, argv);
  if (code != MG_EXIT_DONE) return code;
  worker.slot = options.slot == MG_UNSET ? 0 : (unsigned)options.slot;
  worker.listener_count = options.listeners == MG_UNSET ? 1 : (unsigned)options.listeners;
  snprintf(who, sizeof who, "worker %u", worker.slot);
  mg_log_setup(MG_LOG_INFO, who);
  if (start(&worker) != 0) {
    fprintf(stderr, "moongate worker: started by the master alone (its descriptors are missing: %s)\n",
            strerror(errno));
    return MG_EXIT_USAGE;
  }
  uv_run(&worker.loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&worker.patience, NULL);
  uv_run(&worker.loop, UV_RUN_DEFAULT);
  int closed = uv_loop_close(&worker.loop);
  if (closed != 0) mg_log(MG_LOG_ERROR, "handles are left open at the end: %s", uv_strerror(closed));
  mg_buf_free(&worker.serving);
  mg_shm_detach(&worker.shm);
  return closed == 0 ? MG_EXIT_DONE : MG_EXIT_FAILED;
}
