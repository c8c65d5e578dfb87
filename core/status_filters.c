/* status_filters.c - the part of the status that is about filters.
 * Owns: nothing.   May call: mem, json, shm, meter.   Never: change anything.   Thread: the loop thread. */
#include "json.h"
#include "meter.h"
#include "status.h"

static void sum(const struct mg_status *status, void (*each)(void *context, const struct mg_meter_sum *sum),
                void *context)
{
  struct mg_meters *tables[MG_WORKERS_MAX];
  unsigned count = mg_workers_count(status->workers);
  for (unsigned slot = 0; slot < count; slot++) tables[slot] = mg_shm_meters(status->shm, slot);
  mg_meters_sum(tables, count, each, context);
}

static void text_filter(void *context, const struct mg_meter_sum *filter)
{
  mg_buf_printf(context, "filter       %s of route %s: %llu calls, %llu errors, %llu kills, busy %.3f ms\n",
                filter->filter, filter->route, (unsigned long long)filter->calls, (unsigned long long)filter->errors,
                (unsigned long long)filter->kills, filter->busy_s * 1e3);
}

void mg_status_filters_text(const struct mg_status *status, struct mg_buf *out)
{
  sum(status, text_filter, out);
}

static void json_filter(void *context, const struct mg_meter_sum *filter)
{
  struct mg_buf *out = context;
  mg_buf_printf(out, "{");
  mg_json_field(out, "route", filter->route);
  mg_json_field(out, "filter", filter->filter);
  mg_json_number(out, "calls", filter->calls);
  mg_json_number(out, "errors", filter->errors);
  mg_json_number(out, "kills", filter->kills);
  mg_json_number(out, "busy_us", (uint64_t)(filter->busy_s * 1e6));
  mg_json_close(out, "},");
}

void mg_status_filters_json(const struct mg_status *status, struct mg_buf *out)
{
  mg_buf_printf(out, "\"filters\":[");
  sum(status, json_filter, out);
  mg_json_close(out, "]");
}
