/* status_routes.c - the part of the JSON status that is about routes and targets, and what is recorded.
 * Owns: nothing.   May call: mem, json, shm, space, inventory, health, condition.   Never: change anything.
 * Thread: the loop thread. */
#include "condition.h"
#include "json.h"
#include "space.h"
#include "status.h"
#include "tailers.h"

static void codes(const char *name, const uint64_t by_status[MG_STATUS_END], struct mg_buf *out)
{
  mg_buf_printf(out, "\"%s\":{", name);
  for (unsigned status = 0; status < MG_STATUS_END; status++)
    if (by_status[status]) mg_buf_printf(out, "\"%u\":%llu,", status, (unsigned long long)by_status[status]);
  mg_json_close(out, "},");
}

/* Pairs of a bucket's upper bound in microseconds (null for the last) and its count; empty buckets are left out. */
static void durations(const struct mg_tally_sum *sum, struct mg_buf *out)
{
  mg_buf_printf(out, "\"durations\":[");
  for (unsigned i = 0; i < MG_TALLY_BUCKETS; i++) {
    uint64_t end = mg_tally_bucket_end(i);
    if (!sum->durations[i]) continue;
    if (end == UINT64_MAX)
      mg_buf_printf(out, "[null,%llu],", (unsigned long long)sum->durations[i]);
    else
      mg_buf_printf(out, "[%llu,%llu],", (unsigned long long)end, (unsigned long long)sum->durations[i]);
  }
  mg_json_close(out, "],");
}

static void route(const struct mg_status *status, unsigned index, struct mg_buf *out)
{
  struct mg_tally_sum sum;
  struct mg_str id = status->inventory->routes[index];
  mg_inventory_sum(status->shm, mg_workers_count(status->workers), id, &sum);
  mg_buf_printf(out, "{\"id\":");
  mg_json_string(out, id);
  mg_buf_append(out, ",", 1);
  codes("requests", sum.requests, out);
  codes("upstream_responses", sum.upstream, out);
  mg_json_number(out, "active", sum.active);
  mg_json_number(out, "tunnels", sum.tunnels);
  mg_json_number(out, "bytes_in", sum.bytes_in);
  mg_json_number(out, "bytes_out", sum.bytes_out);
  mg_json_number(out, "journal_bytes", sum.journal_bytes);
  mg_json_number(out, "duration_us", sum.duration_us);
  durations(&sum, out);
  mg_json_close(out, "},");
}

static void target(const struct mg_status *status, struct mg_str key, struct mg_buf *out)
{
  const struct mg_target_cell *cell = mg_shm_find_target(status->shm, key);
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  if (!cell) return;
  mg_buf_printf(out, "{\"key\":");
  mg_json_string(out, key);
  mg_buf_printf(out, ",\"down\":%s,\"addresses\":%u},", atomic_load(&cell->down) ? "true" : "false",
                mg_target_addresses(cell, addresses));
}

static void check(const struct mg_health_view *view, struct mg_buf *out)
{
  mg_buf_printf(out, "{\"route\":%u,\"down\":%s,\"overridden\":%s,", view->route, view->down ? "true" : "false",
                view->overridden ? "true" : "false");
  mg_json_field(out, "target", view->key);
  mg_json_number(out, "since", (uint64_t)view->since);
  mg_json_field(out, "last_failure", *view->why ? view->why : NULL);
  mg_json_close(out, "},");
}

static void component(struct mg_component *component, struct mg_buf *out)
{
  struct mg_component_view view;
  const char *const *names = mg_component_value_names(component->kind);
  mg_component_look(component, &view);
  mg_buf_printf(out, "{\"route\":");
  mg_json_string(out, component->route);
  mg_buf_append(out, ",", 1);
  mg_json_field(out, "component", component->filter);
  mg_json_number(out, "position", component->position);
  mg_json_field(out, "health", mg_level_text((enum mg_level)view.level));
  if (view.level) mg_json_field(out, "detail", view.detail);
  mg_buf_printf(out, "\"values\":{");
  for (unsigned i = 0; i < MG_COMPONENT_VALUES; i++) mg_json_number(out, names[i], view.values[i]);
  mg_json_close(out, "}},");
}

static void tailer(const char *path, struct mg_buf *out)
{
  struct mg_tailer_facts facts;
  mg_tailer_read(path, &facts);
  mg_buf_append(out, "{", 1);
  mg_json_field(out, "name", path);
  if (*facts.trouble) mg_json_field(out, "error", facts.trouble);
  if (facts.known) {
    mg_json_number(out, "lag_entries", facts.lag_entries);
    mg_json_number(out, "delivered", facts.delivered);
    mg_buf_printf(out, "\"lag_seconds\":%.3f,", facts.lag_seconds);
  }
  mg_json_close(out, "},");
}

/* The workers' stages together. */
static void stages(const struct mg_status *status, struct mg_buf *out)
{
  uint64_t slots = 0, used = 0;
  for (unsigned i = 0; i < mg_workers_count(status->workers); i++) {
    slots += atomic_load(&mg_shm_worker(status->shm, i)->journal_slots);
    used += atomic_load(&mg_shm_worker(status->shm, i)->journal_slots_used);
  }
  mg_json_number(out, "stage_slots", slots);
  mg_json_number(out, "stage_slots_used", used);
}

static void journal(const struct mg_status *status, struct mg_buf *out)
{
  uint64_t left;
  mg_buf_printf(out, "\"journal\":{");
  mg_json_field(out, "folder", status->settings->work_dir);
  if (mg_space_left(status->settings->work_dir, &left)) mg_json_number(out, "available_bytes", left);
  stages(status, out);
  mg_buf_printf(out, "\"tailers\":[");
  for (unsigned i = 0; i < status->settings->tailer_count; i++) tailer(status->settings->tailers[i], out);
  mg_json_close(out, "],");
  mg_json_close(out, "},");
}

void mg_status_routes_json(const struct mg_status *status, struct mg_buf *out)
{
  const struct mg_inventory *inventory = status->inventory;
  journal(status, out);
  mg_buf_printf(out, "\"per_route\":[");
  for (unsigned i = 0; i < inventory->route_count; i++) route(status, i, out);
  mg_json_close(out, "],\"targets\":[");
  for (unsigned i = 0; i < inventory->target_count; i++) target(status, inventory->targets[i], out);
  mg_json_close(out, "],\"health_checks\":[");
  for (unsigned i = 0; i < mg_health_count(status->health); i++) {
    struct mg_health_view view = mg_health_view(status->health, i);
    check(&view, out);
  }
  mg_json_close(out, "],\"components\":[");
  for (unsigned i = 0; i < status->inventory->components.count; i++)
    component(&status->inventory->components.list[i], out);
  mg_json_close(out, "],\"configuration\":");
  if (inventory->overview.len)
    mg_buf_append(out, inventory->overview.ptr, inventory->overview.len);
  else
    mg_buf_append(out, "null", 4);
}
