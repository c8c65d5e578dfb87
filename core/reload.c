/* reload.c - the steps of a generation change.
 * Owns: the bundle in force and the one on its way, the running builder, waiting askers, a timer.
 * May call: mem, log, build, bundle, resolve, states, workers, libuv.
 * Never: change what runs before every worker has built what follows.   Thread: the loop thread.   Ends:
 * mg_reload_close(). */
#include "reload.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "log.h"
#include "states.h"

enum {
  NAMES_WAIT_MS = 3000,
  ROOM_WAIT_MS = 1000, /* for an old generation to end, before a reload is refused for it */
  ROOM_LOOK_MS = 50,
  RETRY_MS = 1000,
  ASKERS_MAX = 128
};

/* IDLE -> BUILD -> NAMES -> ROOM -> READY -> SWITCH -> IDLE; a refusal leads from any of them to IDLE. */
enum step { STEP_IDLE, STEP_BUILD, STEP_NAMES, STEP_ROOM, STEP_READY, STEP_SWITCH, STEP_STOPPED };

struct askers {
  struct mg_reload_asker list[ASKERS_MAX];
  unsigned count;
};

struct candidate {
  struct mg_buf bundle;
  uint64_t number;
};

struct mg_reload {
  uv_loop_t *loop;
  const struct mg_options *options;
  const struct mg_settings *settings;
  struct mg_resolver *resolver;
  struct mg_workers *workers;
  struct mg_reload_events events;
  enum step step;
  struct mg_build *build;
  struct candidate current, next;
  uint64_t last_number;
  uint64_t running_number; /* that every worker is known to run */
  bool ready[MG_WORKERS_MAX];
  const char *trigger;
  const char *trigger_waiting; /* asked for while an attempt runs */
  struct askers asking, waiting;
  uv_timer_t timer; /* what it means depends on step; in IDLE: try again */
  uint64_t room_until_ms;
  struct mg_buf first_settings; /* of the first bundle: in force until the next start */
  struct mg_buf warned_settings;
  struct mg_buf outcome;
  struct mg_buf refusal; /* the last refused outcome, also once others have followed it */
  time_t outcome_at, loaded_at, refused_at;
  bool outcome_refused;
  uint64_t done, refusals;
  bool retry; /* the refusal was for want of room and nobody waits for an answer: try again */
};

static struct mg_str text_of(const struct mg_buf *buf)
{
  return mg_str(buf->ptr, buf->len);
}

static void begin(struct mg_reload *reload, const char *trigger);

static void answer_all(struct askers *askers, bool ok, struct mg_str text)
{
  for (unsigned i = 0; i < askers->count; i++) askers->list[i].answer(askers->list[i].context, ok, text);
  askers->count = 0;
}

static void start_waiting(struct mg_reload *reload)
{
  const char *trigger = reload->trigger_waiting;
  reload->trigger_waiting = NULL;
  reload->asking = reload->waiting;
  reload->waiting.count = 0;
  begin(reload, trigger);
}

static void on_retry(uv_timer_t *timer)
{
  struct mg_reload *reload = timer->data;
  if (reload->step == STEP_IDLE) begin(reload, reload->trigger);
}

/* Ends the attempt: tells everybody, keeps the outcome, starts what was asked for meanwhile. */
static void settle(struct mg_reload *reload, bool ok)
{
  struct mg_str text = text_of(&reload->outcome);
  bool retry = reload->retry && reload->asking.count == 0;
  reload->retry = false;
  reload->step = STEP_IDLE;
  reload->outcome_at = time(NULL);
  reload->outcome_refused = !ok;
  *(ok ? &reload->loaded_at : &reload->refused_at) = reload->outcome_at;
  if (!ok) {
    reload->refusal.len = 0;
    mg_buf_append(&reload->refusal, text.ptr, text.len);
  }
  *(ok ? &reload->done : &reload->refusals) += 1;
  uv_timer_stop(&reload->timer);
  mg_buf_free(&reload->next.bundle);
  answer_all(&reload->asking, ok, text);
  reload->events.settled(reload->events.context, ok);
  if (reload->step == STEP_STOPPED) return;
  if (reload->trigger_waiting)
    start_waiting(reload);
  else if (retry)
    uv_timer_start(&reload->timer, on_retry, RETRY_MS, 0);
}

static void write_raw(struct mg_str text)
{
  ssize_t written = write(STDERR_FILENO, text.ptr, text.len);
  (void)written;
}

static bool is_same(struct mg_str a, struct mg_str b)
{
  return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* The words of a refusal, once: a person who has saved a file asks for a reload as well, and gets them as the answer. */
static void log_refusal(const struct mg_reload *reload, bool again)
{
  char head[160];
  if (!reload->running_number) {
    write_raw(text_of(&reload->outcome)); /* of the first configuration: the command's own answer */
    return;
  }
  snprintf(head, sizeof head, "reload (%s) refused, generation %llu keeps running%s", reload->trigger,
           (unsigned long long)reload->running_number, again ? "; the reasons are those given before" : ":");
  if (again)
    mg_log(MG_LOG_WARN, "%s", head);
  else
    mg_log_lines(MG_LOG_WARN, head, reload->outcome.ptr, reload->outcome.len);
}

/* Refuses the attempt with text; what runs is not touched. Candidates that some worker holds are dropped. */
static void refuse(struct mg_reload *reload, struct mg_str text)
{
  struct mg_buf reason = {0};
  mg_buf_append(&reason, text.ptr, text.len);
  if (!reason.len || reason.ptr[reason.len - 1] != '\n') mg_buf_append(&reason, "\n", 1);
  bool again = reload->outcome_refused && is_same(text_of(&reload->outcome), text_of(&reason));
  mg_buf_free(&reload->outcome);
  reload->outcome = reason;
  if (reload->step == STEP_READY)
    mg_workers_broadcast(reload->workers, MG_FRAME_DISCARD, reload->next.number, mg_str(NULL, 0));
  log_refusal(reload, again);
  settle(reload, false);
}

__attribute__((format(printf, 2, 3))) static void accept_outcome(struct mg_reload *reload, const char *format, ...)
{
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  mg_buf_free(&reload->outcome);
  mg_buf_printf(&reload->outcome, "%s\n", text);
  mg_log(MG_LOG_INFO, "%s", text);
  settle(reload, true);
}

/* --- SWITCH: every worker has built it */

static void finish_if_switched(struct mg_reload *reload)
{
  if (reload->step != STEP_SWITCH) return;
  for (unsigned i = 0; i < mg_workers_count(reload->workers); i++)
    if (mg_workers_facts(reload->workers, i).generation != reload->current.number) return;
  reload->running_number = reload->current.number;
  accept_outcome(reload, "every worker runs generation %llu", (unsigned long long)reload->current.number);
}

static void switch_all(struct mg_reload *reload)
{
  uv_timer_stop(&reload->timer);
  reload->step = STEP_SWITCH;
  mg_buf_free(&reload->current.bundle);
  reload->current = reload->next;
  reload->next = (struct candidate){0};
  mg_resolver_keep(reload->resolver, mg_bundle_section(text_of(&reload->current.bundle), MG_STR("targets")));
  reload->events.in_force(reload->events.context, text_of(&reload->current.bundle));
  mg_workers_broadcast(reload->workers, MG_FRAME_SWITCH, reload->current.number, mg_str(NULL, 0));
}

/* --- READY: every worker builds */

static void on_ready_too_late(uv_timer_t *timer)
{
  struct mg_reload *reload = timer->data;
  struct mg_buf text = {0};
  mg_buf_printf(&text, "not every worker has built the configuration in time; still building:");
  for (unsigned i = 0; i < mg_workers_count(reload->workers); i++)
    if (!reload->ready[i]) mg_buf_printf(&text, " worker %u", i);
  refuse(reload, text_of(&text));
  mg_buf_free(&text);
}

static void distribute(struct mg_reload *reload)
{
  reload->step = STEP_READY;
  reload->next.number = ++reload->last_number;
  memset(reload->ready, 0, sizeof reload->ready);
  mg_workers_broadcast(reload->workers, MG_FRAME_BUILD, reload->next.number, text_of(&reload->next.bundle));
  /* all build at once: twice the builder's time, however few processors there are for them */
  uint64_t limit_ms = reload->settings->script_load_max_ms * 2 * mg_workers_count(reload->workers);
  uv_timer_start(&reload->timer, on_ready_too_late, limit_ms, 0);
}

void mg_reload_on_ready(struct mg_reload *reload, unsigned slot, uint64_t generation, struct mg_str reason)
{
  if (reload->step == STEP_READY && generation == reload->next.number) {
    if (reason.len) {
      refuse(reload, reason);
      return;
    }
    reload->ready[slot] = true;
    for (unsigned i = 0; i < mg_workers_count(reload->workers); i++)
      if (!reload->ready[i]) return;
    switch_all(reload);
  } else if (generation == reload->current.number && reload->current.bundle.len) { /* a replacement */
    if (reason.len) {
      mg_log(MG_LOG_ERROR, "worker %u cannot build generation %llu: %.*s", slot, (unsigned long long)generation,
             (int)reason.len, reason.ptr);
      mg_workers_shoot(reload->workers, slot, "cannot run the configuration in force");
      return;
    }
    mg_workers_send(reload->workers, slot, MG_FRAME_SWITCH, generation, mg_str(NULL, 0));
  } else if (!reason.len) { /* overtaken while it was built */
    mg_workers_send(reload->workers, slot, MG_FRAME_DISCARD, generation, mg_str(NULL, 0));
  }
}

/* --- ROOM: not too many generations at once */

static unsigned live_most(const struct mg_reload *reload)
{
  unsigned most = 0;
  for (unsigned i = 0; i < mg_workers_count(reload->workers); i++) {
    unsigned live = mg_workers_facts(reload->workers, i).live;
    if (live > most) most = live;
  }
  return most;
}

static void on_room_look(uv_timer_t *timer)
{
  struct mg_reload *reload = timer->data;
  unsigned live = live_most(reload);
  if (live < reload->settings->generations_max) {
    distribute(reload);
    return;
  }
  if (uv_now(reload->loop) < reload->room_until_ms) {
    uv_timer_start(&reload->timer, on_room_look, ROOM_LOOK_MS, 0);
    return;
  }
  struct mg_buf text = {0};
  mg_buf_printf(&text,
                "%u generations are still in use by running exchanges (scripts.max_generations is %llu), the oldest by",
                live, (unsigned long long)reload->settings->generations_max);
  mg_workers_holders(reload->workers, &text);
  reload->retry = true;
  refuse(reload, text_of(&text));
  mg_buf_free(&text);
}

static void on_names_known(void *context)
{
  struct mg_reload *reload = context;
  if (reload->step != STEP_NAMES) return;
  reload->step = STEP_ROOM;
  reload->room_until_ms = uv_now(reload->loop) + ROOM_WAIT_MS;
  on_room_look(&reload->timer);
}

/* --- NAMES: what filters share has its room, targets have their cells and, where possible, addresses */

/* True if no worker has any generation but the current one. */
static bool runs_alone(const struct mg_reload *reload)
{
  for (unsigned i = 0; i < mg_workers_count(reload->workers); i++) {
    struct mg_worker_facts facts = mg_workers_facts(reload->workers, i);
    if (facts.generation != reload->current.number || facts.live > 1) return false;
  }
  return true;
}

static int want_states(struct mg_reload *reload, struct mg_buf *error)
{
  struct mg_str current = mg_bundle_section(text_of(&reload->current.bundle), MG_STR("states"));
  struct mg_str next = mg_bundle_section(text_of(&reload->next.bundle), MG_STR("states"));
  return mg_states_want(mg_workers_shm(reload->workers), current, next, runs_alone(reload), error);
}

static void take_candidate(struct mg_reload *reload, struct mg_buf *bundle)
{
  struct mg_buf error = {0};
  reload->step = STEP_NAMES;
  reload->next.bundle = *bundle;
  *bundle = (struct mg_buf){0};
  reload->events.candidate(reload->events.context, text_of(&reload->next.bundle));
  struct mg_str targets = mg_bundle_section(text_of(&reload->next.bundle), MG_STR("targets"));
  if (want_states(reload, &error) != 0 ||
      mg_resolver_want(reload->resolver, targets, NAMES_WAIT_MS, on_names_known, reload, &error) != 0)
    refuse(reload, text_of(&error));
  mg_buf_free(&error);
}

/* --- BUILD */

/* True if both bundles say the same, server settings aside. */
static bool same_but_settings(struct mg_str a, struct mg_str b)
{
  struct mg_bundle_cursor in_a, in_b;
  struct mg_str a_name, a_bytes, b_name, b_bytes;
  bool whole;
  if (!mg_bundle_open(&in_a, a) || !mg_bundle_open(&in_b, b)) return false;
  for (;;) {
    bool more_a = mg_bundle_next(&in_a, &a_name, &a_bytes, &whole),
         more_b = mg_bundle_next(&in_b, &b_name, &b_bytes, &whole);
    if (!more_a || !more_b) return more_a == more_b;
    if (!mg_str_equal(a_name, b_name)) return false;
    if (!mg_str_equal(a_name, MG_STR("settings")) && !mg_str_equal(a_bytes, b_bytes)) return false;
  }
}

/* Server settings are read at the start only; says so once for each new text. */
static void warn_of_settings(struct mg_reload *reload, struct mg_str bundle)
{
  struct mg_str settings = mg_bundle_section(bundle, MG_STR("settings"));
  if (mg_str_equal(settings, text_of(&reload->first_settings)) ||
      mg_str_equal(settings, text_of(&reload->warned_settings)))
    return;
  mg_log(MG_LOG_WARN,
         "the server settings have changed; they are applied at the next start, only routes and filters are reloaded");
  mg_buf_free(&reload->warned_settings);
  mg_buf_append(&reload->warned_settings, settings.ptr, settings.len);
}

static void on_built(void *context, struct mg_build_result *result)
{
  struct mg_reload *reload = context;
  reload->build = NULL;
  if (!result->built) {
    refuse(reload, text_of(&result->text));
    return;
  }
  write_raw(text_of(&result->text));
  warn_of_settings(reload, text_of(&result->bundle));
  if (same_but_settings(text_of(&result->bundle), text_of(&reload->current.bundle)))
    accept_outcome(reload, "nothing has changed; every worker runs generation %llu",
                   (unsigned long long)reload->running_number);
  else
    take_candidate(reload, &result->bundle);
}

static void begin(struct mg_reload *reload, const char *trigger)
{
  struct mg_buf error = {0};
  uv_timer_stop(&reload->timer);
  reload->trigger = trigger;
  reload->step = STEP_BUILD;
  reload->build =
      mg_build_start(reload->loop, reload->options, reload->settings->script_load_max_ms, on_built, reload, &error);
  if (!reload->build) refuse(reload, text_of(&error));
  mg_buf_free(&error);
}

/* --- the workers' events */

void mg_reload_on_born(struct mg_reload *reload, unsigned slot)
{
  if (reload->current.bundle.len)
    mg_workers_send(reload->workers, slot, MG_FRAME_BUILD, reload->current.number, text_of(&reload->current.bundle));
  if (reload->step == STEP_READY)
    mg_workers_send(reload->workers, slot, MG_FRAME_BUILD, reload->next.number, text_of(&reload->next.bundle));
}

void mg_reload_on_state(struct mg_reload *reload, unsigned slot)
{
  (void)slot;
  finish_if_switched(reload);
}

void mg_reload_on_died(struct mg_reload *reload, unsigned slot)
{
  if (reload->step != STEP_READY) return;
  if (reload->ready[slot]) { /* not this configuration's doing; the replacement builds it again */
    reload->ready[slot] = false;
    return;
  }
  char text[96];
  int len = snprintf(text, sizeof text, "worker %u died while it built the configuration", slot);
  refuse(reload, mg_str(text, (size_t)len));
}

/* --- from outside */

struct mg_reload *mg_reload_new(uv_loop_t *loop, const struct mg_options *options, const struct mg_settings *settings,
                                struct mg_resolver *resolver, struct mg_workers *workers,
                                const struct mg_reload_events *events)
{
  struct mg_reload *reload = mg_calloc(1, sizeof *reload);
  *reload = (struct mg_reload){.loop = loop,
                               .options = options,
                               .settings = settings,
                               .resolver = resolver,
                               .workers = workers,
                               .events = *events,
                               .trigger = "start"};
  uv_timer_init(loop, &reload->timer);
  reload->timer.data = reload;
  return reload;
}

void mg_reload_first(struct mg_reload *reload, struct mg_buf *bundle)
{
  struct mg_str settings = mg_bundle_section(text_of(bundle), MG_STR("settings"));
  mg_buf_append(&reload->first_settings, settings.ptr, settings.len);
  take_candidate(reload, bundle);
}

void mg_reload_request(struct mg_reload *reload, const char *trigger, const struct mg_reload_asker *asker)
{
  bool idle = reload->step == STEP_IDLE;
  struct askers *askers = idle ? &reload->asking : &reload->waiting;
  if (reload->step == STEP_STOPPED || (asker && askers->count == ASKERS_MAX)) {
    if (asker)
      asker->answer(asker->context, false,
                    reload->step == STEP_STOPPED ? MG_STR("the gateway is stopping\n")
                                                 : MG_STR("too many requests wait for a reload\n"));
    return;
  }
  if (asker) askers->list[askers->count++] = *asker;
  if (idle)
    begin(reload, trigger);
  else
    reload->trigger_waiting = trigger;
}

struct mg_reload_facts mg_reload_facts(const struct mg_reload *reload)
{
  return (struct mg_reload_facts){.generation = reload->running_number,
                                  .at = reload->outcome_at,
                                  .refused = reload->outcome_refused,
                                  .text = text_of(&reload->outcome),
                                  .loaded_at = reload->loaded_at,
                                  .refused_at = reload->refused_at,
                                  .refusal = text_of(&reload->refusal),
                                  .done = reload->done,
                                  .refusals = reload->refusals};
}

void mg_reload_stop(struct mg_reload *reload)
{
  if (reload->step == STEP_STOPPED) return;
  reload->step = STEP_STOPPED;
  uv_timer_stop(&reload->timer);
  mg_build_cancel(&reload->build);
  answer_all(&reload->asking, false, MG_STR("the gateway is stopping\n"));
  answer_all(&reload->waiting, false, MG_STR("the gateway is stopping\n"));
}

static void on_timer_closed(uv_handle_t *handle)
{
  free(handle->data);
}

void mg_reload_close(struct mg_reload **reload_at)
{
  struct mg_reload *reload = *reload_at;
  *reload_at = NULL;
  if (!reload) return;
  mg_reload_stop(reload);
  mg_buf_free(&reload->current.bundle);
  mg_buf_free(&reload->next.bundle);
  mg_buf_free(&reload->first_settings);
  mg_buf_free(&reload->warned_settings);
  mg_buf_free(&reload->outcome);
  mg_buf_free(&reload->refusal);
  uv_close((uv_handle_t *)&reload->timer, on_timer_closed);
}
