/* condition.c - from facts to problems.
 * Owns: nothing.   May call: mem, json, shm, space, health, components, tailers, workers, reload (their facts).
 * Never: change anything.   Thread: the loop thread. */
#include "condition.h"

#include <stdarg.h>
#include <stdio.h>

#include "json.h"
#include "space.h"
#include "tailers.h"

const char *mg_level_text(enum mg_level level)
{
  static const char *const texts[] = {[MG_LEVEL_OK] = "OK", [MG_LEVEL_WARN] = "WARN", [MG_LEVEL_ERROR] = "ERROR"};
  return texts[level];
}

__attribute__((format(printf, 5, 6))) static void add(struct mg_condition *condition, enum mg_level level,
                                                      const char *component, struct mg_str route, const char *format,
                                                      ...)
{
  if (level > condition->level) condition->level = level;
  if (condition->count == MG_PROBLEMS_MAX) {
    condition->left_out++;
    return;
  }
  struct mg_problem *problem = &condition->problems[condition->count++];
  *problem = (struct mg_problem){.level = level, .component = component, .route = route};
  va_list args;
  va_start(args, format);
  vsnprintf(problem->detail, sizeof problem->detail, format, args);
  va_end(args);
}

static void judge_configuration(struct mg_condition *condition, const struct mg_status *status)
{
  const struct mg_reload_facts *reload = &status->reload;
  struct mg_str why = reload->text;
  if (!reload->refused) return;
  while (why.len && why.ptr[why.len - 1] == '\n') why.len--;
  add(condition, MG_LEVEL_WARN, "configuration", MG_STR(""),
      "the last reload was refused, generation %llu keeps running: %.*s", (unsigned long long)reload->generation,
      (int)why.len, why.ptr);
}

/* One worker that does not serve is a warning; none that does is an error. */
static void judge_workers(struct mg_condition *condition, const struct mg_status *status)
{
  unsigned count = mg_workers_count(status->workers), serving = 0;
  for (unsigned i = 0; i < count; i++) serving += mg_workers_facts(status->workers, i).generation != 0;
  enum mg_level level = serving ? MG_LEVEL_WARN : MG_LEVEL_ERROR;
  for (unsigned i = 0; i < count; i++) {
    struct mg_worker_facts facts = mg_workers_facts(status->workers, i);
    if (facts.keeps_dying)
      add(condition, level, "workers", MG_STR(""), "worker %u keeps dying (%u times since the start)%s", i,
          facts.deaths, facts.pid ? "" : "; its replacement is held back");
    else if (!facts.generation)
      add(condition, level, "workers", MG_STR(""), "worker %u %s", i,
          facts.pid ? "has no configuration yet" : "is not running");
  }
}

/* Checks stand in the order of routes, so each route is one run of them. */
bool mg_condition_next_upstream(const struct mg_status *status, unsigned *at, struct mg_upstream_run *run)
{
  unsigned count = mg_health_count(status->health);
  *run = (struct mg_upstream_run){0};
  for (; *at < count; ++*at) {
    struct mg_health_view view = mg_health_view(status->health, *at);
    if (run->total == 0) run->route = view.route;
    if (view.route != run->route || view.route >= status->inventory->route_count) break;
    run->total++;
    if (view.down && run->down++ == 0) run->worst = view;
  }
  run->level = run->down == 0 ? MG_LEVEL_OK : run->down < run->total ? MG_LEVEL_WARN : MG_LEVEL_ERROR;
  return run->total > 0;
}

static void judge_upstreams(struct mg_condition *condition, const struct mg_status *status)
{
  struct mg_upstream_run run;
  for (unsigned at = 0; mg_condition_next_upstream(status, &at, &run);) {
    if (!run.down) continue;
    const struct mg_health_view *worst = &run.worst;
    add(condition, run.level, "upstream", status->inventory->routes[run.route], "%u of %u targets down: %s %s%s",
        run.down, run.total, worst->key, worst->overridden ? "is set down" : worst->why,
        run.down > 1 ? ", and others" : "");
  }
}

static void judge_components(struct mg_condition *condition, const struct mg_status *status)
{
  struct mg_component_view view;
  for (unsigned i = 0; i < status->inventory->components.count; i++) {
    struct mg_component *component = &status->inventory->components.list[i];
    mg_component_look(component, &view);
    if (!view.level) continue;
    add(condition, (enum mg_level)view.level, component->filter, component->route, "%s", view.detail);
    if (condition->count && !condition->left_out)
      condition->problems[condition->count - 1].position = component->position;
  }
}

/* Every worker writes one segment and makes room for the next before it is needed. */
static void judge_journal(struct mg_condition *condition, const struct mg_status *status)
{
  uint64_t left, dropped = 0, repairs = 0;
  unsigned workers = mg_workers_count(status->workers);
  uint64_t wanted = 2 * workers * status->settings->shard_bytes;
  const char *folder = status->settings->work_dir;
  for (unsigned i = 0; i < workers; i++) {
    const struct mg_worker_cell *cell = mg_shm_worker(status->shm, i);
    int trouble = (int)atomic_load_explicit(&cell->journal_errno, memory_order_relaxed);
    dropped += atomic_load_explicit(&cell->count.journal_dropped, memory_order_relaxed);
    repairs += atomic_load_explicit(&cell->count.journal_repairs, memory_order_relaxed);
    if (trouble)
      add(condition, MG_LEVEL_ERROR, "journal", MG_STR(""), "worker %u cannot write the journal in %s: %s", i, folder,
          strerror(trouble));
  }
  if (repairs)
    add(condition, MG_LEVEL_WARN, "journal", MG_STR(""),
        "%llu files of the journal were lost and replaced since the start; see the log and moongate journal verify",
        (unsigned long long)repairs);
  if (dropped)
    add(condition, MG_LEVEL_WARN, "journal", MG_STR(""), "%llu exchanges could not be recorded since the start",
        (unsigned long long)dropped);
  if (mg_space_left(folder, &left) && left < wanted)
    add(condition, MG_LEVEL_WARN, "journal", MG_STR(""), "%llu MB are left in %s, less than two segments per worker",
        (unsigned long long)(left >> 20), folder);
}

static void judge_tailers(struct mg_condition *condition, const struct mg_status *status)
{
  struct mg_tailer_facts facts;
  for (unsigned i = 0; i < status->settings->tailer_count; i++) {
    mg_tailer_read(status->settings->tailers[i], &facts);
    if (*facts.trouble)
      add(condition, MG_LEVEL_WARN, "tailer", MG_STR(""), "%s %s", status->settings->tailers[i], facts.trouble);
  }
}

void mg_condition_find(struct mg_condition *condition, const struct mg_status *status)
{
  condition->level = MG_LEVEL_OK;
  condition->count = condition->left_out = 0;
  judge_configuration(condition, status);
  if (status->state == MG_STATE_SERVING) judge_workers(condition, status);
  judge_upstreams(condition, status);
  judge_components(condition, status);
  judge_journal(condition, status);
  judge_tailers(condition, status);
}

void mg_condition_json(const struct mg_condition *condition, struct mg_buf *out)
{
  mg_buf_printf(out, "\"health\":\"%s\",\"problems\":[", mg_level_text(condition->level));
  for (unsigned i = 0; i < condition->count; i++) {
    const struct mg_problem *problem = &condition->problems[i];
    mg_buf_append(out, "{", 1);
    if (problem->route.len) {
      mg_buf_printf(out, "\"route\":");
      mg_json_string(out, problem->route);
      mg_buf_append(out, ",", 1);
    }
    mg_json_field(out, "component", problem->component);
    if (problem->position) mg_json_number(out, "position", problem->position);
    mg_json_field(out, "health", mg_level_text(problem->level));
    mg_json_field(out, "detail", problem->detail);
    mg_json_close(out, "},");
  }
  mg_json_close(out, "]");
  if (condition->left_out) mg_buf_printf(out, ",\"problems_left_out\":%u", condition->left_out);
}
