/* metrics_filters.c - the metrics of filters: how often they ran, failed, were ended, and how long they were busy.
 * Owns: nothing.   May call: mem, shm, meter, workers, metrics_out.   Never: change anything.
 * Thread: the loop thread. */
#include "meter.h"
#include "metrics_out.h"

enum { CALLS, ERRORS, KILLS, BUSY, FAMILIES };

static const struct mg_family families[FAMILIES] = {
    [CALLS] = {"moongate_filter_calls", MG_COUNTER, "Calls of a filter's functions."},
    [ERRORS] = {"moongate_filter_errors", MG_COUNTER, "Calls that failed, those that were ended included."},
    [KILLS] = {"moongate_filter_kills", MG_COUNTER, "Calls that ran too long and were ended."},
    [BUSY] = {"moongate_filter_busy_seconds", MG_COUNTER, "Processor time in a filter's functions."},
};

struct writer {
  struct mg_buf outs[FAMILIES];
  struct mg_buf labels;
};

static void write_filter(void *context, const struct mg_meter_sum *sum)
{
  struct writer *writer = context;
  writer->labels.len = 0;
  mg_label(&writer->labels, "route", mg_str(sum->route, strlen(sum->route)));
  mg_label(&writer->labels, "filter", mg_str(sum->filter, strlen(sum->filter)));
  struct mg_str labels = mg_str(writer->labels.ptr, writer->labels.len);
  mg_sample(&writer->outs[CALLS], &families[CALLS], "", labels, sum->calls);
  mg_sample(&writer->outs[ERRORS], &families[ERRORS], "", labels, sum->errors);
  mg_sample(&writer->outs[KILLS], &families[KILLS], "", labels, sum->kills);
  mg_sample_real(&writer->outs[BUSY], &families[BUSY], labels, sum->busy_s);
}

void mg_metrics_filters(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out)
{
  struct writer writer = {0};
  struct mg_meters *tables[MG_WORKERS_MAX];
  unsigned count = mg_workers_count(status->workers);
  for (unsigned i = 0; i < count; i++) tables[i] = mg_shm_meters(status->shm, i);
  for (unsigned i = 0; i < FAMILIES; i++) mg_family_begin(&writer.outs[i], format, &families[i]);
  mg_meters_sum(tables, count, write_filter, &writer);
  for (unsigned i = 0; i < FAMILIES; i++) {
    mg_buf_append(out, writer.outs[i].ptr, writer.outs[i].len);
    mg_buf_free(&writer.outs[i]);
  }
  mg_buf_free(&writer.labels);
}
