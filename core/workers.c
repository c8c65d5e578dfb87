/* workers.c - spawning, replacing and ending workers; heartbeats.
 * Owns: the processes, their control pipes, the listening sockets, one timer.
 * May call: mem, log, channel, shm, settings, worker.h (its descriptors), libuv.   Never: know why a generation is
 * built.
 * Thread: the loop thread.   Ends: mg_workers_close(). */
#include "workers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "log.h"
#include "worker.h"

enum {
  TICK_MS = 200,
  DEATHS_MAX = 5, /* in DEATHS_WINDOW_MS; then a slot waits RETRY_MS before it is filled again */
  DEATHS_WINDOW_MS = 10000,
  RETRY_MS = 1000,
  FIRST_BEAT_MS = 10000, /* a new process may take this long until its loop runs */
  ABORT_GRACE_MS = 2000
};

/* One process. Outlives its place in the slot until libuv has let go of both handles. */
struct process {
  uv_process_t handle;
  struct mg_channel channel;
  struct mg_workers *workers;
  struct process *next; /* all that are not freed */
  unsigned slot;
  unsigned open;
  uint64_t born_ms;
  bool running; /* exit was not seen yet */
  bool shot;
  bool closing;
};

struct slot {
  struct process *process; /* NULL: waits to be filled */
  uint64_t generation;
  unsigned live;
  struct mg_buf holders; /* mg_workers_holders, of this one */
  unsigned deaths;
  uint64_t recent[DEATHS_MAX]; /* when the last ones died, a ring */
  uint64_t retry_ms;           /* when to fill it; 0: nothing waits */
};

struct mg_workers {
  uv_loop_t *loop;
  struct mg_shm *shm;
  const struct mg_settings *settings;
  struct mg_str settings_text;
  struct mg_workers_events events;
  struct mg_listeners listeners;
  struct process *processes;
  struct slot *slots;
  unsigned count;
  unsigned running;
  uv_timer_t tick;
  uint64_t ticked_ms;
  uint64_t blind_until_ms; /* we slept ourselves: heartbeats before this say nothing */
  uint64_t kill_ms;        /* 0, or when an aborted worker is killed */
  bool draining;
  bool told_gone;
  bool ended_badly;
  bool tick_open;
  bool closing;
};

static void free_when_done(struct mg_workers *workers)
{
  if (!workers->closing || workers->processes || workers->tick_open) return;
  for (unsigned i = 0; i < workers->count; i++) mg_buf_free(&workers->slots[i].holders);
  free(workers->slots);
  free(workers);
}

static void one_handle_closed(struct process *process)
{
  struct mg_workers *workers = process->workers;
  if (--process->open) return;
  struct process **at = &workers->processes;
  while (*at != process) at = &(*at)->next;
  *at = process->next;
  free(process);
  free_when_done(workers);
}

static void on_process_closed(uv_handle_t *handle)
{
  one_handle_closed(handle->data);
}

static void on_channel_closed(struct mg_channel *channel)
{
  one_handle_closed(channel->owner);
}

static void close_process(struct process *process)
{
  if (process->closing) return;
  process->closing = true;
  mg_channel_close(&process->channel);
  uv_close((uv_handle_t *)&process->handle, on_process_closed);
}

static void on_channel_end(struct mg_channel *channel)
{
  mg_channel_close(channel); /* the exit of the process follows and says more */
}

/* "live=N", and ids behind it. */
static void read_state(struct slot *slot, struct mg_str text)
{
  size_t i = sizeof "live=" - 1;
  slot->live = 0;
  for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++)
    slot->live = slot->live * 10 + (unsigned)(text.ptr[i] - '0');
  slot->holders.len = 0;
  if (i < text.len) mg_buf_append(&slot->holders, text.ptr + i, text.len - i);
}

static void on_frame(struct mg_channel *channel, const struct mg_frame *frame)
{
  struct process *process = channel->owner;
  struct mg_workers *workers = process->workers;
  struct slot *slot = &workers->slots[process->slot];
  if (slot->process != process || workers->closing) return;
  if (frame->type == MG_FRAME_READY) {
    workers->events.ready(workers->events.context, process->slot, frame->generation, frame->payload);
  } else if (frame->type == MG_FRAME_STATE) {
    slot->generation = frame->generation;
    read_state(slot, frame->payload);
    workers->events.state(workers->events.context, process->slot);
  }
}

/* What the dead process' cell says, and the gauges it cannot take back itself. */
static void read_last_words(struct mg_worker_cell *cell, char *out, size_t size)
{
  unsigned route = atomic_load(&cell->running_route), filter = atomic_load(&cell->running_filter);
  unsigned long long generation = atomic_load(&cell->running_generation);
  if (route)
    snprintf(out, size, "it was running filter %u of route %u in generation %llu", filter, route, generation);
  else
    snprintf(out, size, "no filter was running");
  atomic_store(&cell->running_route, 0);
  atomic_store(&cell->running_filter, 0);
  atomic_store(&cell->heartbeat_ms, 0);
  atomic_store(&cell->generation, 0);
  atomic_store(&cell->pid, 0);
  atomic_store(&cell->count.connections_active, 0);
  atomic_store(&cell->count.exchanges_active, 0);
  atomic_store(&cell->count.upstream_idle, 0);
}

static void log_death(const struct process *process, int64_t code, int signal, struct mg_worker_cell *cell)
{
  char last_words[128], how[96];
  unsigned long long lost = atomic_load(&cell->count.exchanges_active);
  read_last_words(cell, last_words, sizeof last_words);
  if (signal)
    snprintf(how, sizeof how, "was ended by signal %d (%s)", signal, strsignal(signal));
  else
    snprintf(how, sizeof how, "ended with exit code %d", (int)code);
  mg_shm_reset_gauges(process->workers->shm, process->slot);
  mg_log(MG_LOG_ERROR, "worker %u (pid %d) %s; %llu exchanges lost; %s", process->slot, process->handle.pid, how, lost,
         last_words);
}

/* The last DEATHS_MAX deaths all fell into the window. */
static bool keeps_dying(const struct slot *slot, uint64_t now)
{
  uint64_t oldest = slot->recent[slot->deaths % DEATHS_MAX];
  return oldest && now - oldest < DEATHS_WINDOW_MS;
}

static void schedule_replacement(struct mg_workers *workers, struct slot *slot, unsigned index)
{
  uint64_t now = uv_now(workers->loop);
  uint64_t *oldest = &slot->recent[slot->deaths++ % DEATHS_MAX];
  bool crash_loop = *oldest && now - *oldest < DEATHS_WINDOW_MS;
  *oldest = now;
  slot->retry_ms = crash_loop ? now + RETRY_MS : now;
  if (crash_loop) mg_log(MG_LOG_ERROR, "worker %u keeps dying; the next one starts in %d ms", index, RETRY_MS);
}

static void fill_slot(struct mg_workers *workers, unsigned index);

static void tell_if_gone(struct mg_workers *workers)
{
  if (workers->running || workers->told_gone) return;
  workers->told_gone = true;
  workers->events.gone(workers->events.context);
}

static void on_process_exit(uv_process_t *handle, int64_t code, int signal)
{
  struct process *process = handle->data;
  struct mg_workers *workers = process->workers;
  struct slot *slot = &workers->slots[process->slot];
  process->running = false;
  workers->running--;
  close_process(process);
  if (workers->closing) return;
  slot->process = NULL;
  slot->generation = 0;
  slot->live = 0;
  slot->holders.len = 0;
  if (workers->draining) {
    if (code != 0 || signal != 0) {
      workers->ended_badly = true;
      log_death(process, code, signal, mg_shm_worker(workers->shm, process->slot));
    }
    tell_if_gone(workers);
    return;
  }
  log_death(process, code, signal, mg_shm_worker(workers->shm, process->slot));
  schedule_replacement(workers, slot, process->slot);
  workers->events.died(workers->events.context, process->slot);
  if (!workers->draining && slot->retry_ms <= uv_now(workers->loop)) fill_slot(workers, process->slot);
}

static int give_listeners(const struct mg_workers *workers, unsigned index, uv_stdio_container_t *out)
{
  int count = 0;
  for (unsigned i = 0; i < workers->listeners.count; i++) {
    if (workers->listeners.all[i].worker != index) continue;
    out[count].flags = UV_INHERIT_FD;
    out[count++].data.fd = workers->listeners.all[i].fd;
  }
  return count;
}

static int spawn(struct mg_workers *workers, unsigned index)
{
  struct process *process = mg_calloc(1, sizeof *process);
  *process = (struct process){.workers = workers, .slot = index, .open = 2, .next = workers->processes};
  workers->processes = process;
  process->handle.data = process;
  process->channel.owner = process;
  process->channel.on_frame = on_frame;
  process->channel.on_end = on_channel_end;
  process->channel.on_closed = on_channel_closed;
  mg_channel_init(&process->channel, workers->loop);
  char number[16], listeners[16];
  uv_stdio_container_t stdio[MG_WORKER_LISTENER_FD + MG_LISTENERS_MAX] = {
      {.flags = UV_IGNORE},
      {.flags = UV_INHERIT_FD, .data.fd = 2},
      {.flags = UV_INHERIT_FD, .data.fd = 2},
      [MG_WORKER_CONTROL_FD] = {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
                                .data.stream = (uv_stream_t *)&process->channel.pipe},
      [MG_WORKER_SHM_FD] = {.flags = UV_INHERIT_FD, .data.fd = workers->shm->fd},
      /* a master without standard output gives its workers the other one */
      [MG_WORKER_OUTPUT_FD] = {.flags = UV_INHERIT_FD,
                               .data.fd = fcntl(STDOUT_FILENO, F_GETFD) < 0 ? STDERR_FILENO : STDOUT_FILENO},
  };
  int count = MG_WORKER_LISTENER_FD + give_listeners(workers, index, stdio + MG_WORKER_LISTENER_FD);
  snprintf(number, sizeof number, "%u", index);
  snprintf(listeners, sizeof listeners, "%d", count - MG_WORKER_LISTENER_FD);
  char *args[] = {"moongate", "worker", "--slot", number, "--listeners", listeners, NULL};
  uv_process_options_t how = {
      .file = "/proc/self/exe", .args = args, .exit_cb = on_process_exit, .stdio = stdio, .stdio_count = count};
  int result = uv_spawn(workers->loop, &process->handle, &how);
  if (result == 0) result = mg_channel_start(&process->channel);
  if (result != 0) {
    close_process(process);
    return result;
  }
  process->running = true;
  process->born_ms = uv_now(workers->loop);
  workers->running++;
  workers->slots[index].process = process;
  workers->slots[index].retry_ms = 0;
  mg_channel_send(&process->channel, MG_FRAME_SETTINGS, 0, workers->settings_text);
  workers->events.born(workers->events.context, index);
  return 0;
}

static void fill_slot(struct mg_workers *workers, unsigned index)
{
  int result = spawn(workers, index);
  if (result == 0) return;
  mg_log(MG_LOG_ERROR, "worker %u cannot be started: %s", index, uv_strerror(result));
  workers->slots[index].retry_ms = uv_now(workers->loop) + RETRY_MS;
}

static void shoot_if_stuck(struct mg_workers *workers, unsigned index, uint64_t now)
{
  struct process *process = workers->slots[index].process;
  uint64_t beat = atomic_load_explicit(&mg_shm_worker(workers->shm, index)->heartbeat_ms, memory_order_relaxed);
  uint64_t stuck_after = workers->settings->script_stuck_after_ms;
  uint64_t since = beat > process->born_ms ? beat : process->born_ms;
  uint64_t patience = beat > process->born_ms ? stuck_after : stuck_after > FIRST_BEAT_MS ? stuck_after : FIRST_BEAT_MS;
  char why[96];
  if (!stuck_after || now <= since + patience) return;
  snprintf(why, sizeof why, "has not been heard of for %llu ms", (unsigned long long)(now - since));
  mg_workers_shoot(workers, index, why);
}

static void kill_all(struct mg_workers *workers)
{
  for (struct process *process = workers->processes; process; process = process->next)
    if (process->running) uv_process_kill(&process->handle, SIGKILL);
}

static void on_tick(uv_timer_t *timer)
{
  struct mg_workers *workers = timer->data;
  uint64_t now = uv_hrtime() / 1000000; /* the clock of the heartbeats */
  uint64_t stuck_after = workers->settings->script_stuck_after_ms;
  if (now - workers->ticked_ms > stuck_after / 2 + TICK_MS) workers->blind_until_ms = now + stuck_after;
  workers->ticked_ms = now;
  mg_log_tick();
  if (workers->kill_ms && now >= workers->kill_ms) {
    mg_log(MG_LOG_ERROR, "%u workers do not end; killing them", workers->running);
    workers->kill_ms = now + ABORT_GRACE_MS;
    kill_all(workers);
  }
  if (workers->draining) {
    tell_if_gone(workers); /* none ran when the drain began */
    return;
  }
  for (unsigned i = 0; i < workers->count; i++) {
    struct slot *slot = &workers->slots[i];
    if (!slot->process && slot->retry_ms <= uv_now(workers->loop))
      fill_slot(workers, i);
    else if (slot->process && now >= workers->blind_until_ms)
      shoot_if_stuck(workers, i, now);
  }
}

struct mg_workers *mg_workers_new(uv_loop_t *loop, struct mg_shm *shm, const struct mg_settings *settings,
                                  struct mg_str settings_text, const struct mg_listeners *listeners, unsigned count,
                                  const struct mg_workers_events *events)
{
  struct mg_workers *workers = mg_calloc(1, sizeof *workers);
  *workers = (struct mg_workers){.loop = loop,
                                 .shm = shm,
                                 .settings = settings,
                                 .settings_text = settings_text,
                                 .events = *events,
                                 .listeners = *listeners,
                                 .count = count,
                                 .tick_open = true};
  workers->slots = mg_calloc(count, sizeof *workers->slots);
  uv_timer_init(loop, &workers->tick);
  workers->tick.data = workers;
  return workers;
}

int mg_workers_start(struct mg_workers *workers)
{
  workers->ticked_ms = uv_hrtime() / 1000000;
  uv_timer_start(&workers->tick, on_tick, TICK_MS, TICK_MS);
  for (unsigned i = 0; i < workers->count; i++) {
    int result = spawn(workers, i);
    if (result != 0) return result;
  }
  return 0;
}

void mg_workers_send(struct mg_workers *workers, unsigned slot, enum mg_frame_type type, uint64_t generation,
                     struct mg_str payload)
{
  struct process *process = workers->slots[slot].process;
  if (process) mg_channel_send(&process->channel, type, generation, payload);
}

void mg_workers_broadcast(struct mg_workers *workers, enum mg_frame_type type, uint64_t generation,
                          struct mg_str payload)
{
  for (unsigned i = 0; i < workers->count; i++) mg_workers_send(workers, i, type, generation, payload);
}

unsigned mg_workers_count(const struct mg_workers *workers)
{
  return workers->count;
}

void mg_workers_holders(const struct mg_workers *workers, struct mg_buf *out)
{
  for (unsigned i = 0; i < workers->count; i++)
    mg_buf_append(out, workers->slots[i].holders.ptr, workers->slots[i].holders.len);
}

const struct mg_listeners *mg_workers_listeners(const struct mg_workers *workers)
{
  return &workers->listeners;
}

struct mg_shm *mg_workers_shm(const struct mg_workers *workers)
{
  return workers->shm;
}

struct mg_worker_facts mg_workers_facts(const struct mg_workers *workers, unsigned index)
{
  const struct slot *slot = &workers->slots[index];
  return (struct mg_worker_facts){.pid = slot->process ? slot->process->handle.pid : 0,
                                  .generation = slot->generation,
                                  .live = slot->live,
                                  .deaths = slot->deaths,
                                  .keeps_dying = keeps_dying(slot, uv_now(workers->loop))};
}

void mg_workers_shoot(struct mg_workers *workers, unsigned index, const char *why)
{
  struct process *process = workers->slots[index].process;
  if (!process || process->shot) return;
  process->shot = true;
  mg_log(MG_LOG_ERROR, "worker %u (pid %d) %s; it is killed and replaced", index, process->handle.pid, why);
  uv_process_kill(&process->handle, SIGKILL);
}

void mg_workers_drain(struct mg_workers *workers)
{
  if (workers->draining) return;
  workers->draining = true;
  mg_workers_broadcast(workers, MG_FRAME_DRAIN, 0, mg_str(NULL, 0));
}

void mg_workers_abort(struct mg_workers *workers)
{
  mg_workers_broadcast(workers, MG_FRAME_ABORT, 0, mg_str(NULL, 0));
  workers->ended_badly = true;
  if (!workers->kill_ms) workers->kill_ms = uv_hrtime() / 1000000 + ABORT_GRACE_MS;
}

bool mg_workers_ended_well(const struct mg_workers *workers)
{
  return !workers->ended_badly;
}

static void on_tick_closed(uv_handle_t *handle)
{
  struct mg_workers *workers = handle->data;
  workers->tick_open = false;
  free_when_done(workers);
}

void mg_workers_close(struct mg_workers **workers_at)
{
  struct mg_workers *workers = *workers_at;
  *workers_at = NULL;
  if (!workers) return;
  workers->closing = true;
  kill_all(workers);
  for (struct process *process = workers->processes; process; process = process->next) close_process(process);
  mg_listeners_close(&workers->listeners);
  uv_close((uv_handle_t *)&workers->tick, on_tick_closed);
}
