/* inventory.c - a bundle's routes and targets as the master sees them.
 * Owns: copies of three sections.   May call: mem, log, bundle, shm.   Never: read the configuration itself.
 * Thread: the loop thread.   Ends: mg_inventory_free(). */
#include "inventory.h"

#include <stdlib.h>

#include "bundle.h"
#include "log.h"

static bool next_line(struct mg_str *rest, struct mg_str *line)
{
  const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
  if (!end) return false;
  *line = mg_str(rest->ptr, (size_t)(end - rest->ptr));
  *rest = mg_str(end + 1, rest->len - line->len - 1);
  return true;
}

void mg_inventory_prepare(struct mg_shm *shm, unsigned workers, struct mg_str bundle)
{
  struct mg_str rest = mg_bundle_section(bundle, MG_STR("routes")), id;
  unsigned without = 0;
  while (next_line(&rest, &id)) without += !mg_shm_add_route(shm, id, workers + 1);
  if (without)
    mg_log(MG_LOG_WARN, "no room for the counters of %u routes; they are served and not counted until the next start",
           without);
}

static struct mg_str *split(struct mg_str lines, unsigned *count)
{
  struct mg_str rest = lines, line;
  *count = 0;
  while (next_line(&rest, &line)) ++*count;
  struct mg_str *list = mg_calloc(*count + 1, sizeof *list);
  for (unsigned i = 0; i < *count; i++) next_line(&lines, &list[i]);
  return list;
}

void mg_inventory_read(struct mg_inventory *inventory, const struct mg_shm *shm, struct mg_str bundle)
{
  struct mg_str routes = mg_bundle_section(bundle, MG_STR("routes"));
  struct mg_str targets = mg_bundle_section(bundle, MG_STR("targets"));
  struct mg_str overview = mg_bundle_section(bundle, MG_STR("overview"));
  mg_inventory_free(inventory);
  char *at = mg_buf_reserve(&inventory->text, routes.len + targets.len + overview.len + 1);
  mg_buf_append(&inventory->text, routes.ptr, routes.len);
  mg_buf_append(&inventory->text, targets.ptr, targets.len);
  mg_buf_append(&inventory->text, overview.ptr, overview.len);
  inventory->routes = split(mg_str(at, routes.len), &inventory->route_count);
  inventory->targets = split(mg_str(at + routes.len, targets.len), &inventory->target_count);
  inventory->overview = mg_str(at + routes.len + targets.len, overview.len);
  mg_components_read(&inventory->components, shm, mg_bundle_section(bundle, MG_STR("guards")));
}

void mg_inventory_free(struct mg_inventory *inventory)
{
  free(inventory->routes);
  free(inventory->targets);
  mg_buf_free(&inventory->text);
  mg_components_free(&inventory->components);
  *inventory = (struct mg_inventory){0};
}

void mg_inventory_sum(const struct mg_shm *shm, unsigned workers, struct mg_str route, struct mg_tally_sum *sum)
{
  memset(sum, 0, sizeof *sum);
  for (unsigned slot = 0; slot <= workers; slot++) { /* the last: what a predecessor has counted */
    const struct mg_tally *tally = mg_shm_tally(shm, route, slot);
    if (tally) mg_tally_sum(sum, tally);
  }
}
