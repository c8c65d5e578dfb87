/* metrics.c - the metrics of the gateway as a whole, of its workers and processes.
 * Owns: nothing.   May call: mem, err, shm, workers, reload (their facts), condition, process_facts, metrics_out.
 * Never: change anything.   Thread: the loop thread. */
#include "metrics.h"

#include <stdio.h>
#include <unistd.h>

#include "condition.h"
#include "err.h"
#include "metrics_out.h"
#include "process_facts.h"
#include "space.h"

/* The counters of struct mg_worker_cell in words; one without an entry here is shown under its own name. */
static const struct counter {
  const char *field;
  const char *name;
  const char *help;
  const char *labels;
} counters[] = {
    {"connections_accepted", "connections_accepted", "Connections taken from clients.", ""},
    {"connections_active", "connections_active", "Open connections of clients.", ""},
    {"requests", "requests", "Requests that have ended, refused ones included.", ""},
    {"responses_1xx", "responses", "Answers given to clients, by class.", "class=\"1xx\""},
    {"responses_2xx", "responses", NULL, "class=\"2xx\""},
    {"responses_3xx", "responses", NULL, "class=\"3xx\""},
    {"responses_4xx", "responses", NULL, "class=\"4xx\""},
    {"responses_5xx", "responses", NULL, "class=\"5xx\""},
    {"upstream_connects", "upstream_connects", "Connections opened to upstreams.", ""},
    {"upstream_reuses", "upstream_reuses", "Requests sent on a connection that was there already.", ""},
    {"upstream_retries", "upstream_retries", "Requests sent to an upstream once more.", ""},
    {"upstream_failures", "upstream_failures", "Tries at an upstream that brought no answer.", ""},
    {"upstream_idle", "upstream_connections_idle", "Pooled connections that wait for a request.", ""},
    {"client_aborts", "client_aborts", "Requests whose client did not wait for the answer.", ""},
    {"bytes_in", "request_body_bytes", "Bytes of request bodies.", ""},
    {"bytes_out", "response_body_bytes", "Bytes of response bodies.", ""},
    {"script_errors", "script_errors", "Filters that failed.", ""},
    {"script_kills", "script_kills", "Filters that ran too long and were ended.", ""},
    {"journal_exchanges", "journal_exchanges", "Exchanges recorded.", ""},
    {"journal_dropped", "journal_exchanges_dropped", "Exchanges that were to be recorded and could not be.", ""},
    {"journal_bytes", "journal_bytes", "Bytes written into segments, compressed where that is on.", ""},
    {"journal_repairs", "journal_repairs", "Files of the journal that were lost and replaced.", ""},
    {"journal_plain_bytes", "journal_plain_bytes", "Bytes of recorded exchanges before compression.", ""},
    {"exchanges_active", "exchanges_active", "Requests in progress, tunnels included.", ""},
};
enum { COUNTERS = sizeof counters / sizeof counters[0], NAME_SIZE = 96 };

struct writer {
  const struct mg_status *status;
  enum mg_metrics_format format;
  struct mg_buf *out;
};

const char *mg_metrics_type(enum mg_metrics_format format)
{
  return format == MG_METRICS_OPEN ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                   : "text/plain; version=0.0.4; charset=utf-8";
}

static void one(const struct writer *writer, const char *name, enum mg_metric_type type, const char *help, double value)
{
  const struct mg_family family = {name, type, help};
  mg_family_begin(writer->out, writer->format, &family);
  if (value == (double)(uint64_t)value)
    mg_sample(writer->out, &family, "", MG_STR(""), (uint64_t)value);
  else
    mg_sample_real(writer->out, &family, MG_STR(""), value);
}

static void write_gateway(const struct writer *writer)
{
  static const struct mg_family info = {"moongate_info", MG_GAUGE, "The version that runs, as a label."};
  const struct mg_status *status = writer->status;
  struct mg_condition condition;
  mg_condition_find(&condition, status);
  mg_family_begin(writer->out, writer->format, &info);
  mg_sample(writer->out, &info, "", MG_STR("version=\"" MG_VERSION "\""), 1);
  one(writer, "moongate_start_time_seconds", MG_GAUGE, "When the gateway was started, in Unix time.",
      (double)status->started);
  one(writer, "moongate_gateway_health", MG_GAUGE, "0 well, 1 warning, 2 error.", condition.level);
  one(writer, "moongate_ready", MG_GAUGE, "1 while requests are to be sent here.",
      status->state == MG_STATE_SERVING && condition.level != MG_LEVEL_ERROR);
  one(writer, "moongate_routes_config_rejected", MG_GAUGE, "1 while the last reload is one that was refused.",
      status->reload.refused);
  one(writer, "moongate_generation", MG_GAUGE, "The configuration that every worker runs, counted from 1.",
      (double)status->reload.generation);
  one(writer, "moongate_reloads", MG_COUNTER, "Configurations that were put in force or found unchanged.",
      (double)status->reload.done);
  one(writer, "moongate_reloads_refused", MG_COUNTER, "Configurations that were refused.",
      (double)status->reload.refusals);
  uint64_t left;
  if (mg_space_left(status->settings->work_dir, &left))
    one(writer, "moongate_journal_available_bytes", MG_GAUGE, "Room for the journal on its disk.", (double)left);
  one(writer, "moongate_routes", MG_GAUGE, "Routes in force.", status->inventory->route_count);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static bool is_gauge(const char *field)
{
  size_t len = strlen(field);
  return (len > 7 && strcmp(field + len - 7, "_active") == 0) || (len > 5 && strcmp(field + len - 5, "_idle") == 0);
}

static void write_counter(const struct writer *writer, const char *field, uint64_t value)
{
  char name[NAME_SIZE];
  struct counter counter = {field, field, "Added up over the workers.", ""};
  for (unsigned i = 0; i < COUNTERS; i++)
    if (strcmp(counters[i].field, field) == 0) counter = counters[i];
  snprintf(name, sizeof name, "moongate_%s", counter.name);
  const struct mg_family family = {name, is_gauge(field) ? MG_GAUGE : MG_COUNTER, counter.help};
  if (counter.help) mg_family_begin(writer->out, writer->format, &family);
  mg_sample(writer->out, &family, "", mg_str(counter.labels, strlen(counter.labels)), value);
}

static void write_counters(const struct writer *writer)
{
  unsigned count = mg_workers_count(writer->status->workers);
#define X(field)                                                                                            \
  {                                                                                                         \
    uint64_t sum = 0;                                                                                       \
    for (unsigned i = 0; i <= count; i++) sum += load(&mg_shm_worker(writer->status->shm, i)->count.field); \
    write_counter(writer, #field, sum);                                                                     \
  }
  MG_COUNTER_MAP(X)
#undef X
}

static void write_refusals(const struct writer *writer)
{
  static const struct mg_family family = {"moongate_errors", MG_COUNTER,
                                          "Requests that the gateway answered or ended itself, by reason."};
  struct mg_buf labels = {0};
  uint64_t sums[MG_ERR_COUNT] = {0};
  for (unsigned i = 0; i <= mg_workers_count(writer->status->workers); i++)
    for (unsigned err = 0; err < MG_ERR_COUNT; err++)
      sums[err] += load(&mg_shm_worker(writer->status->shm, i)->refused[err]);
  one(writer, "moongate_unrouted_requests", MG_COUNTER, "Requests that no route matches.",
      (double)sums[mg_err_index(MG_ENOROUTE)]);
  mg_family_begin(writer->out, writer->format, &family);
  for (unsigned i = 0; i < MG_ERR_COUNT; i++) {
    int err = MG_E_BASE + 1 + (int)i;
    labels.len = 0;
    mg_label(&labels, "reason", mg_str(mg_err_word(err), strlen(mg_err_word(err))));
    mg_sample(writer->out, &family, "", mg_str(labels.ptr, labels.len), sums[i]);
  }
  mg_buf_free(&labels);
}

static void write_workers(const struct writer *writer)
{
  static const struct mg_family families[] = {
      {"moongate_worker_up", MG_GAUGE, "1 while the worker's process runs a configuration."},
      {"moongate_worker_restarts", MG_COUNTER, "How often the worker's process had to be replaced."},
      {"moongate_worker_generations", MG_GAUGE, "Configurations alive in the worker, draining ones included."},
      {"moongate_worker_exchanges_active", MG_GAUGE, "Requests in progress in the worker."},
      {"moongate_journal_stage_slots", MG_GAUGE, "Places for batches in the worker's stage; 0: it records nothing."},
      {"moongate_journal_stage_slots_used", MG_GAUGE, "Places that hold what is not in a segment yet."},
      {"moongate_journal_shard_bytes", MG_COUNTER, "Bytes that the worker wrote into segments."},
  };
  char labels[32];
  for (unsigned f = 0; f < sizeof families / sizeof families[0]; f++) {
    mg_family_begin(writer->out, writer->format, &families[f]);
    for (unsigned i = 0; i < mg_workers_count(writer->status->workers); i++) {
      struct mg_worker_facts facts = mg_workers_facts(writer->status->workers, i);
      const struct mg_worker_cell *cell = mg_shm_worker(writer->status->shm, i);
      const uint64_t values[] = {facts.generation != 0,
                                 facts.deaths,
                                 facts.live,
                                 load(&cell->count.exchanges_active),
                                 atomic_load(&cell->journal_slots),
                                 atomic_load(&cell->journal_slots_used),
                                 load(&cell->count.journal_bytes)};
      int len = snprintf(labels, sizeof labels, "worker=\"%u\"", i);
      mg_sample(writer->out, &families[f], "", mg_str(labels, (size_t)len), values[f]);
    }
  }
}

static void write_processes(const struct writer *writer)
{
  static const struct mg_family families[] = {
      {"moongate_process_open_fds", MG_GAUGE, "Open file descriptors."},
      {"moongate_process_max_fds", MG_GAUGE, "How many file descriptors may be open."},
      {"moongate_process_resident_memory_bytes", MG_GAUGE, "Resident memory, shared parts included."},
      {"moongate_process_cpu_seconds", MG_COUNTER, "Processor time since the process was started."},
  };
  enum { FAMILIES = sizeof families / sizeof families[0] };
  struct mg_buf outs[FAMILIES] = {0};
  for (unsigned f = 0; f < FAMILIES; f++) mg_family_begin(&outs[f], writer->format, &families[f]);
  for (int slot = -1; slot < (int)mg_workers_count(writer->status->workers); slot++) {
    struct mg_process_facts facts;
    char labels[48] = "process=\"master\"";
    if (slot >= 0) snprintf(labels, sizeof labels, "process=\"worker %d\"", slot);
    pid_t pid = slot < 0 ? getpid() : mg_workers_facts(writer->status->workers, (unsigned)slot).pid;
    if (pid <= 0 || !mg_process_facts(pid, &facts)) continue;
    struct mg_str text = mg_str(labels, strlen(labels));
    mg_sample(&outs[0], &families[0], "", text, facts.open_fds);
    mg_sample(&outs[1], &families[1], "", text, facts.max_fds);
    mg_sample(&outs[2], &families[2], "", text, facts.resident_bytes);
    mg_sample_real(&outs[3], &families[3], text, facts.cpu_seconds);
  }
  for (unsigned f = 0; f < FAMILIES; f++) {
    mg_buf_append(writer->out, outs[f].ptr, outs[f].len);
    mg_buf_free(&outs[f]);
  }
}

void mg_metrics_write(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out)
{
  const struct writer writer = {status, format, out};
  write_gateway(&writer);
  write_counters(&writer);
  write_refusals(&writer);
  write_workers(&writer);
  write_processes(&writer);
  mg_metrics_filters(status, format, out);
  mg_metrics_routes(status, format, out);
  mg_metrics_components(status, format, out);
  if (format == MG_METRICS_OPEN) mg_buf_append(out, "# EOF\n", 6);
}
