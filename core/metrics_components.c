/* metrics_components.c - how well the parts of each route are: its upstream, its limiters and breakers.
 * Owns: nothing.   May call: mem, components, condition, metrics_out.   Never: change anything.
 * Thread: the loop thread. */
#include <stdio.h>

#include "condition.h"
#include "metrics_out.h"

static const struct mg_family health = {"moongate_component_health", MG_GAUGE,
                                        "0 well, 1 warning, 2 error; position 0 is the upstream."};
static const struct mg_family value = {"moongate_component_value", MG_GAUGE,
                                       "What a part of a route says of itself, by name."};

static struct mg_str text_of(const struct mg_buf *buf)
{
  return mg_str(buf->ptr, buf->len);
}

/* A global filter is one for all routes: it has no route. */
static void label_place(struct mg_buf *labels, struct mg_str route, const char *component, unsigned position)
{
  char text[16];
  labels->len = 0;
  mg_label(labels, "route", route);
  mg_label(labels, "component", mg_str(component, strlen(component)));
  snprintf(text, sizeof text, "%u", position);
  mg_label(labels, "position", mg_str(text, strlen(text)));
}

static void write_upstreams(const struct mg_status *status, struct mg_buf *labels, struct mg_buf *out)
{
  struct mg_upstream_run run;
  for (unsigned at = 0; mg_condition_next_upstream(status, &at, &run);) {
    label_place(labels, status->inventory->routes[run.route], "upstream", 0);
    mg_sample(out, &health, "", text_of(labels), run.level);
  }
}

static void write_component(const struct mg_component *component, struct mg_buf *labels, struct mg_buf *out,
                            struct mg_buf *values)
{
  struct mg_component_view view;
  const char *const *names = mg_component_value_names(component->kind);
  mg_component_look(component, &view);
  label_place(labels, component->route, component->filter, component->position);
  mg_sample(out, &health, "", text_of(labels), view.level);
  size_t place = labels->len;
  for (unsigned i = 0; i < MG_COMPONENT_VALUES; i++) {
    labels->len = place;
    mg_label(labels, "name", mg_str(names[i], strlen(names[i])));
    mg_sample(values, &value, "", text_of(labels), view.values[i]);
  }
}

void mg_metrics_components(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out)
{
  struct mg_buf labels = {0}, values = {0};
  mg_family_begin(out, format, &health);
  mg_family_begin(&values, format, &value);
  write_upstreams(status, &labels, out);
  for (unsigned i = 0; i < status->inventory->components.count; i++)
    write_component(&status->inventory->components.list[i], &labels, out, &values);
  mg_buf_append(out, values.ptr, values.len);
  mg_buf_free(&values);
  mg_buf_free(&labels);
}
