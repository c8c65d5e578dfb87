/* metrics_routes.c - the metrics of routes and of upstream targets.
 * Owns: nothing.   May call: mem, shm, inventory, metrics_out.   Never: change anything.
 * Thread: the loop thread. */
#include <stdio.h>

#include "metrics_out.h"

enum { LE_FIRST_BITS = 8, LE_COUNT = MG_TALLY_LAST_BITS - LE_FIRST_BITS + 1, LE_SIZE = 24 };

enum { REQUESTS, RESPONSES, ACTIVE, WEBSOCKETS, BYTES_IN, BYTES_OUT, JOURNAL, DURATION, FAMILIES };

static const struct mg_family families[FAMILIES] = {
    [REQUESTS] = {"moongate_route_requests", MG_COUNTER, "Answers given to clients, by route and status."},
    [RESPONSES] = {"moongate_route_upstream_responses", MG_COUNTER, "Answers got from upstreams, by route and status."},
    [ACTIVE] = {"moongate_route_active_requests", MG_GAUGE, "Requests in progress."},
    [WEBSOCKETS] = {"moongate_route_active_websockets", MG_GAUGE, "Connections that have become tunnels."},
    [BYTES_IN] = {"moongate_route_request_body_bytes", MG_COUNTER, "Bytes of request bodies."},
    [BYTES_OUT] = {"moongate_route_response_body_bytes", MG_COUNTER, "Bytes of response bodies."},
    [JOURNAL] = {"moongate_route_journal_bytes", MG_COUNTER, "Bytes recorded of ended requests, before compression."},
    [DURATION] = {"moongate_route_request_duration_seconds", MG_HISTOGRAM,
                  "From the first byte of a request to the last of its answer."},
};

static struct mg_str text_of(const struct mg_buf *buf)
{
  return mg_str(buf->ptr, buf->len);
}

/* labels with one more label, until the next call with the same scratch. */
static struct mg_str with_label(struct mg_buf *scratch, struct mg_str labels, const char *name, const char *value)
{
  scratch->len = 0;
  mg_buf_append(scratch, labels.ptr, labels.len);
  mg_label(scratch, name, mg_str(value, strlen(value)));
  return text_of(scratch);
}

static void write_codes(struct mg_buf *out, const struct mg_family *family, struct mg_str labels,
                        struct mg_buf *scratch, const uint64_t by_status[MG_STATUS_END])
{
  char code[8];
  for (unsigned status = 0; status < MG_STATUS_END; status++) {
    if (!by_status[status]) continue;
    snprintf(code, sizeof code, status ? "%u" : "other", status);
    mg_sample(out, family, "", with_label(scratch, labels, "code", code), by_status[status]);
  }
}

static void write_durations(struct mg_buf *out, struct mg_str labels, struct mg_buf *scratch, char ends[][LE_SIZE],
                            const struct mg_tally_sum *sum)
{
  uint64_t below = 0;
  unsigned bucket = 0;
  for (unsigned i = 0; i < LE_COUNT; i++) {
    while (mg_tally_bucket_end(bucket) <= 1u << (LE_FIRST_BITS + i)) below += sum->durations[bucket++];
    mg_sample(out, &families[DURATION], "_bucket", with_label(scratch, labels, "le", ends[i]), below);
  }
  mg_sample(out, &families[DURATION], "_bucket", with_label(scratch, labels, "le", "+Inf"), sum->answered);
  mg_sample_real(out, &families[DURATION], labels, (double)sum->duration_us / 1e6);
  mg_sample(out, &families[DURATION], "_count", labels, sum->answered);
}

static void write_route(struct mg_buf outs[FAMILIES], struct mg_str id, struct mg_buf *scratch, char ends[][LE_SIZE],
                        const struct mg_tally_sum *sum)
{
  struct mg_buf own = {0};
  mg_label(&own, "route", id);
  struct mg_str labels = text_of(&own);
  write_codes(&outs[REQUESTS], &families[REQUESTS], labels, scratch, sum->requests);
  write_codes(&outs[RESPONSES], &families[RESPONSES], labels, scratch, sum->upstream);
  mg_sample(&outs[ACTIVE], &families[ACTIVE], "", labels, sum->active);
  mg_sample(&outs[WEBSOCKETS], &families[WEBSOCKETS], "", labels, sum->tunnels);
  mg_sample(&outs[BYTES_IN], &families[BYTES_IN], "", labels, sum->bytes_in);
  mg_sample(&outs[BYTES_OUT], &families[BYTES_OUT], "", labels, sum->bytes_out);
  mg_sample(&outs[JOURNAL], &families[JOURNAL], "", labels, sum->journal_bytes);
  write_durations(&outs[DURATION], labels, scratch, ends, sum);
  mg_buf_free(&own);
}

/* Every route is added up once; its lines go to all families, which must not be mixed, at the same time. */
static void write_routes(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out)
{
  struct mg_buf outs[FAMILIES] = {0}, scratch = {0};
  char ends[LE_COUNT][LE_SIZE];
  for (unsigned i = 0; i < LE_COUNT; i++) snprintf(ends[i], LE_SIZE, "%.6f", (double)(1u << (LE_FIRST_BITS + i)) / 1e6);
  for (unsigned i = 0; i < FAMILIES; i++) mg_family_begin(&outs[i], format, &families[i]);
  for (unsigned i = 0; i < status->inventory->route_count; i++) {
    struct mg_tally_sum sum;
    mg_inventory_sum(status->shm, mg_workers_count(status->workers), status->inventory->routes[i], &sum);
    write_route(outs, status->inventory->routes[i], &scratch, ends, &sum);
  }
  for (unsigned i = 0; i < FAMILIES; i++) {
    mg_buf_append(out, outs[i].ptr, outs[i].len);
    mg_buf_free(&outs[i]);
  }
  mg_buf_free(&scratch);
}

static void write_targets(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out)
{
  static const struct mg_family up = {"moongate_target_up", MG_GAUGE,
                                      "1 unless active health checks hold the target to be down."};
  struct mg_buf labels = {0};
  mg_family_begin(out, format, &up);
  for (unsigned i = 0; i < status->inventory->target_count; i++) {
    struct mg_str key = status->inventory->targets[i];
    const struct mg_target_cell *cell = mg_shm_find_target(status->shm, key);
    labels.len = 0;
    mg_label(&labels, "target", key);
    if (cell) mg_sample(out, &up, "", text_of(&labels), atomic_load(&cell->down) == 0);
  }
  mg_buf_free(&labels);
}

void mg_metrics_routes(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out)
{
  write_routes(status, format, out);
  write_targets(status, format, out);
}
