/* metrics.h - everything countable as Prometheus reads it.   Thread: the loop thread. */
#pragma once

#include "status.h"

enum mg_metrics_format { MG_METRICS_TEXT, MG_METRICS_OPEN };

/** The Content-Type of a format: the text format 0.0.4, or OpenMetrics 1.0.0. */
const char *mg_metrics_type(enum mg_metrics_format format);

/** Appends every metric. Names and labels are a contract with those who keep them. */
void mg_metrics_write(const struct mg_status *status, enum mg_metrics_format format, struct mg_buf *out);
