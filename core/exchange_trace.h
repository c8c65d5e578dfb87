/* exchange_trace.h - the trace that an exchange belongs to. Thread: the loop's. */
#pragma once

#include "exchange.h"
#include "log.h"
#include "trace.h"

/** Chooses what upstreams get as traceparent, where tracing.traceparent asks for more than passing it on. 0 or
 * MG_ENOMEM. */
int mg_exchange_start_trace(struct mg_exchange *ex);

/** Changes a copy of the request's lines accordingly. 0 or MG_ENOMEM. */
int mg_exchange_put_trace(const struct mg_exchange *ex, struct mg_headers *headers);

/** The trace that upstreams are told, else the one that the client has named. False if there is none. */
bool mg_exchange_trace(const struct mg_exchange *ex, struct mg_trace *trace);

/** What log messages say of an exchange. Lives as long as that. */
struct mg_log_about mg_exchange_about(struct mg_exchange *ex);
