/* metrics_components.c - how well the parts of each route are (its upstream, limiters and breakers), and the tailers.
 * Owns: nothing.   May call: mem, components, tailers, condition, metrics_out.   Never: change anything.
 * Thread: the loop thread. */
#include <stdio.h>

#include "condition.h"
#include "metrics_out.h"
#include "tailers.h"

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

static void write_component(struct mg_component *component, struct mg_buf *labels, struct mg_buf *out,
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

static void write_tailers(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out)
{
  enum { UP, ENTRIES, SECONDS, DELIVERED, FAMILIES };
  static const struct mg_family families[FAMILIES] = {
      [UP] = {"moongate_tailer_up", MG_GAUGE, "1 while a tailer of the journal says how far it is, and moves."},
      [ENTRIES] = {"moongate_tailer_lag_entries", MG_GAUGE, "Entries of the journal that a tailer has not read."},
      [SECONDS] = {"moongate_tailer_lag_seconds", MG_GAUGE,
                   "How old what a tailer has given on last is, while there is more."},
      [DELIVERED] = {"moongate_tailer_delivered", MG_COUNTER, "Exchanges that a tailer has given on."},
  };
  struct mg_buf outs[FAMILIES] = {0}, labels = {0};
  if (!status->settings->tailer_count) return;
  for (unsigned i = 0; i < FAMILIES; i++) mg_family_begin(&outs[i], format, &families[i]);
  for (unsigned i = 0; i < status->settings->tailer_count; i++) {
    const char *path = status->settings->tailers[i];
    struct mg_tailer_facts facts;
    mg_tailer_read(path, &facts);
    labels.len = 0;
    mg_label(&labels, "tailer", mg_str(path, strlen(path)));
    mg_sample(&outs[UP], &families[UP], "", text_of(&labels), !*facts.trouble);
    if (!facts.known) continue;
    mg_sample(&outs[ENTRIES], &families[ENTRIES], "", text_of(&labels), facts.lag_entries);
    mg_sample_real(&outs[SECONDS], &families[SECONDS], text_of(&labels), facts.lag_seconds);
    mg_sample(&outs[DELIVERED], &families[DELIVERED], "", text_of(&labels), facts.delivered);
  }
  for (unsigned i = 0; i < FAMILIES; i++) {
    mg_buf_append(out, outs[i].ptr, outs[i].len);
    mg_buf_free(&outs[i]);
  }
  mg_buf_free(&labels);
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
  write_tailers(status, format, out);
}
