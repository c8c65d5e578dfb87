/* metrics_out.h - lines of the two text formats of metrics; what the files of metrics share.   Thread: any. */
#pragma once

#include "mem.h"
#include "metrics.h"

enum mg_metric_type { MG_GAUGE, MG_COUNTER, MG_HISTOGRAM };

/** A metric family. A counter's name has no _total: its samples get it. */
struct mg_family {
  const char *name;
  enum mg_metric_type type;
  const char *help;
};

/** Appends the HELP and TYPE lines. */
void mg_family_begin(struct mg_buf *out, enum mg_metrics_format format, const struct mg_family *family);

/** Appends one sample; suffix ("", "_bucket") goes behind the name (a counter's _total by itself), labels are text as
 * between the braces, or empty. */
void mg_sample(struct mg_buf *out, const struct mg_family *family, const char *suffix, struct mg_str labels,
               uint64_t value);
void mg_sample_real(struct mg_buf *out, const struct mg_family *family, struct mg_str labels, double value);

/** Appends `name="value"` with value escaped. */
void mg_label(struct mg_buf *labels, const char *name, struct mg_str value);

/** metrics_components.c: appends the families that are about limiters, breakers and the health of upstreams. */
void mg_metrics_components(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out);
/** metrics_filters.c: appends the families that are about filters. */
void mg_metrics_filters(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out);
/** metrics_routes.c: appends the families that are about routes and upstreams. */
void mg_metrics_routes(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out);
