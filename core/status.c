/* status.c - a gateway's state put into words.
 * Owns: nothing.   May call: mem, json, err, shm, condition, reload and workers (their facts).   Never: change
 * anything.
 * Thread: the loop thread. */
#include "status.h"

#include <unistd.h>

#include "condition.h"
#include "err.h"
#include "json.h"

enum { TIME_SIZE = 32 };

struct totals {
#define X(field) uint64_t field;
  MG_COUNTER_MAP(X)
#undef X
  uint64_t refused[MG_ERR_COUNT];
};

static struct totals add_up(const struct mg_status *status)
{
  struct totals totals = {0};
  for (unsigned i = 0; i <= mg_workers_count(status->workers); i++) { /* the last: of a predecessor */
    const struct mg_worker_cell *cell = mg_shm_worker(status->shm, i);
#define X(field) totals.field += atomic_load_explicit(&cell->count.field, memory_order_relaxed);
    MG_COUNTER_MAP(X)
#undef X
    for (int err = 0; err < MG_ERR_COUNT; err++)
      totals.refused[err] += atomic_load_explicit(&cell->refused[err], memory_order_relaxed);
  }
  return totals;
}

static int err_of_index(int index)
{
  return MG_E_BASE + 1 + index;
}

static void format_time(time_t at, char out[TIME_SIZE])
{
  struct tm utc;
  gmtime_r(&at, &utc);
  strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static struct mg_str without_line_end(struct mg_str text)
{
  while (text.len && text.ptr[text.len - 1] == '\n') text.len--;
  return text;
}

static void text_uptime(time_t seconds, struct mg_buf *out)
{
  long long s = seconds < 0 ? 0 : seconds;
  if (s >= 86400) mg_buf_printf(out, "%lld d ", s / 86400);
  if (s >= 3600) mg_buf_printf(out, "%lld h ", s / 3600 % 24);
  if (s >= 60) mg_buf_printf(out, "%lld min ", s / 60 % 60);
  mg_buf_printf(out, "%lld s", s % 60);
}

/* A text of several lines, each indented. */
static void text_indented(struct mg_str text, struct mg_buf *out)
{
  mg_buf_append(out, "  ", 2);
  for (size_t i = 0; i < text.len; i++) {
    mg_buf_append(out, text.ptr + i, 1);
    if (text.ptr[i] == '\n') mg_buf_append(out, "  ", 2);
  }
  mg_buf_append(out, "\n", 1);
}

static void text_reload(const struct mg_reload_facts *reload, struct mg_buf *out)
{
  char at[TIME_SIZE];
  if (!reload->at) return;
  format_time(reload->at, at);
  mg_buf_printf(out, "last load    %s, %s\n", at,
                reload->refused ? "refused; what ran before keeps running:" : "done:");
  text_indented(without_line_end(reload->text), out);
}

static void text_worker(const struct mg_status *status, unsigned slot, struct mg_buf *out)
{
  struct mg_worker_facts facts = mg_workers_facts(status->workers, slot);
  const struct mg_worker_cell *cell = mg_shm_worker(status->shm, slot);
  mg_buf_printf(out, "worker %-3u   ", slot);
  if (facts.pid)
    mg_buf_printf(out, "pid %d, generation %llu", facts.pid, (unsigned long long)facts.generation);
  else
    mg_buf_printf(out, "not running");
  if (facts.live > 1) mg_buf_printf(out, " (%u live)", facts.live);
  mg_buf_printf(out, ", connections %llu, requests %llu",
                (unsigned long long)atomic_load(&cell->count.connections_active),
                (unsigned long long)atomic_load(&cell->count.requests));
  if (facts.deaths) mg_buf_printf(out, ", replaced %u times", facts.deaths);
  int trouble = (int)atomic_load(&cell->journal_errno);
  if (trouble) mg_buf_printf(out, ", JOURNAL CANNOT BE WRITTEN: %s", strerror(trouble));
  mg_buf_append(out, "\n", 1);
}

void mg_status_text(const struct mg_status *status, struct mg_buf *out)
{
  mg_buf_printf(out, "moongate " MG_VERSION ", pid %d, up ", (int)getpid());
  text_uptime(time(NULL) - status->started, out);
  mg_buf_printf(out, "\nlistening    %s\n", status->listening);
  if (status->management) mg_buf_printf(out, "management   %s\n", status->management);
  mg_buf_printf(out, "control      %s\nroutes       %s\ngeneration   %llu\n", status->control, status->routes,
                (unsigned long long)status->reload.generation);
  if (status->upgrade) mg_buf_printf(out, "upgrade      %s\n", status->upgrade);
  text_reload(&status->reload, out);
  for (unsigned i = 0; i < mg_workers_count(status->workers); i++) text_worker(status, i, out);
  struct totals totals = add_up(status);
#define X(field) mg_buf_printf(out, "%-22s %llu\n", #field, (unsigned long long)totals.field);
  MG_COUNTER_MAP(X)
#undef X
  for (int i = 0; i < MG_ERR_COUNT; i++)
    if (totals.refused[i])
      mg_buf_printf(out, "%-22s %llu  %s\n", mg_err_word(err_of_index(i)), (unsigned long long)totals.refused[i],
                    mg_err_sentence(err_of_index(i)));
  mg_status_filters_text(status, out);
}

static void json_reload(const struct mg_reload_facts *reload, struct mg_buf *out)
{
  char at[TIME_SIZE];
  mg_json_number(out, "generation", reload->generation);
  mg_json_number(out, "loads_done", reload->done);
  mg_json_number(out, "loads_refused", reload->refusals);
  if (reload->loaded_at) {
    format_time(reload->loaded_at, at);
    mg_json_field(out, "loaded_at", at);
  }
  if (reload->refusal.len) {
    format_time(reload->refused_at, at);
    mg_buf_printf(out, "\"last_refusal\":{\"at\":\"%s\",\"text\":", at);
    mg_json_string(out, without_line_end(reload->refusal));
    mg_buf_append(out, "},", 2);
  }
  mg_buf_printf(out, "\"last_load\":");
  if (!reload->at) {
    mg_buf_append(out, "null,", 5);
    return;
  }
  format_time(reload->at, at);
  mg_buf_printf(out, "{\"at\":\"%s\",\"outcome\":\"%s\",\"text\":", at, reload->refused ? "refused" : "done");
  mg_json_string(out, without_line_end(reload->text));
  mg_buf_append(out, "},", 2);
}

static void json_worker(const struct mg_status *status, unsigned slot, struct mg_buf *out)
{
  struct mg_worker_facts facts = mg_workers_facts(status->workers, slot);
  const struct mg_worker_cell *cell = mg_shm_worker(status->shm, slot);
  mg_buf_printf(out, "%s{\"slot\":%u,\"pid\":%d,\"generation\":%llu,\"live_generations\":%u,\"deaths\":%u",
                slot ? "," : "", slot, facts.pid, (unsigned long long)facts.generation, facts.live, facts.deaths);
  mg_buf_printf(out, ",\"journal_errno\":%u", (unsigned)atomic_load(&cell->journal_errno));
  mg_buf_printf(out, ",\"keeps_dying\":%s,\"connections\":%llu,\"exchanges\":%llu,\"requests\":%llu}",
                facts.keeps_dying ? "true" : "false", (unsigned long long)atomic_load(&cell->count.connections_active),
                (unsigned long long)atomic_load(&cell->count.exchanges_active),
                (unsigned long long)atomic_load(&cell->count.requests));
}

static void json_totals(const struct mg_status *status, struct mg_buf *out)
{
  struct totals totals = add_up(status);
  const char *comma = "";
  mg_buf_printf(out, "\"totals\":{");
#define X(field)                                                                        \
  mg_buf_printf(out, "%s\"" #field "\":%llu", comma, (unsigned long long)totals.field); \
  comma = ",";
  MG_COUNTER_MAP(X)
#undef X
  mg_buf_printf(out, "},\"refused\":{");
  comma = "";
  for (int i = 0; i < MG_ERR_COUNT; i++) {
    if (!totals.refused[i]) continue;
    mg_buf_printf(out, "%s\"%s\":%llu", comma, mg_err_word(err_of_index(i)), (unsigned long long)totals.refused[i]);
    comma = ",";
  }
  mg_buf_append(out, "}", 1);
}

void mg_status_json(const struct mg_status *status, struct mg_buf *out)
{
  static const char *const states[] = {"starting", "serving", "stopping"};
  struct mg_condition condition;
  mg_condition_find(&condition, status);
  mg_buf_printf(out, "{\"version\":\"" MG_VERSION "\",\"pid\":%d,\"uptime_s\":%lld,", (int)getpid(),
                (long long)(time(NULL) - status->started));
  mg_json_number(out, "started_at", (uint64_t)status->started);
  mg_json_field(out, "state", states[status->state]);
  mg_condition_json(&condition, out);
  mg_buf_append(out, ",", 1);
  mg_json_field(out, "listening", status->listening);
  mg_json_field(out, "management", status->management);
  mg_json_field(out, "control", status->control);
  mg_json_field(out, "routes", status->routes);
  mg_json_field(out, "upgrade", status->upgrade);
  json_reload(&status->reload, out);
  mg_buf_append(out, "\"workers\":[", 11);
  for (unsigned i = 0; i < mg_workers_count(status->workers); i++) json_worker(status, i, out);
  mg_buf_append(out, "],", 2);
  json_totals(status, out);
  mg_buf_append(out, ",", 1);
  mg_status_filters_json(status, out);
  mg_buf_append(out, ",", 1);
  mg_status_system_json(status, out);
  mg_buf_append(out, ",", 1);
  mg_status_routes_json(status, out);
  mg_buf_append(out, "}\n", 2);
}
