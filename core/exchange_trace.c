/* exchange_trace.c - traceparent: passed on, made where it is missing, made anew, or taken out.
 * Owns: nothing.   May call: trace, headers, exchange.   Never: look at tracestate, which goes with its traceparent.
 * Thread: the loop's. */
#include "exchange_trace.h"

#include <sys/random.h>

static const struct mg_str header = {"traceparent", 11};
static const struct mg_str state_header = {"tracestate", 10};

void mg_gateway_open_tracing(struct mg_gateway *gateway)
{
  const char *word = gateway->settings->tracing;
  gateway->tracing = strcmp(word, "create") == 0    ? MG_TRACING_CREATE
                     : strcmp(word, "restart") == 0 ? MG_TRACING_RESTART
                     : strcmp(word, "remove") == 0  ? MG_TRACING_REMOVE
                                                    : MG_TRACING_PASS;
  struct mg_trace_source *source = &gateway->trace_source;
  if (getrandom(source, sizeof *source, GRND_NONBLOCK) != sizeof *source) source->state[0] = gateway->id_base;
  source->state[1] |= 1; /* not all zero, whatever came */
}

/* The client's one line, if it is valid; two of them are not. */
static bool from_client(const struct mg_exchange *ex, struct mg_trace *trace)
{
  unsigned from = 0;
  const struct mg_header *line = mg_headers_next(&ex->request.headers, header, &from);
  return line && mg_trace_parse(mg_str(line->value, line->value_len), trace) &&
         !mg_headers_next(&ex->request.headers, header, &from);
}

/* The trace's id is journaled with the exchange, at any level. */
static int note(struct mg_exchange *ex, struct mg_str id)
{
  struct mg_attribute *attribute = mg_arena_alloc(&ex->arena, sizeof *attribute);
  if (!attribute) return MG_ENOMEM;
  *attribute = (struct mg_attribute){ex->attributes, MG_STR("gateway.trace.id"), id};
  ex->attributes = attribute;
  return 0;
}

int mg_exchange_start_trace(struct mg_exchange *ex)
{
  struct mg_gateway *gateway = ex->gateway;
  struct mg_trace trace;
  if (gateway->tracing == MG_TRACING_PASS) return 0;
  if (gateway->tracing == MG_TRACING_REMOVE) {
    ex->traceparent = MG_STR("");
    return 0;
  }
  if (gateway->tracing == MG_TRACING_CREATE && from_client(ex, &trace)) return note(ex, trace.id);
  char *value = mg_arena_alloc(&ex->arena, MG_TRACEPARENT_LEN);
  if (!value) return MG_ENOMEM;
  mg_trace_make(&gateway->trace_source, gateway->settings->tracing_sampled, value);
  ex->traceparent = mg_str(value, MG_TRACEPARENT_LEN);
  mg_trace_parse(ex->traceparent, &trace);
  return note(ex, trace.id);
}

int mg_exchange_put_trace(const struct mg_exchange *ex, struct mg_headers *headers)
{
  mg_headers_remove(headers, state_header);
  if (ex->traceparent.len) return mg_headers_set(headers, header, ex->traceparent);
  mg_headers_remove(headers, header);
  return 0;
}

bool mg_exchange_trace(const struct mg_exchange *ex, struct mg_trace *trace)
{
  if (ex->traceparent.ptr) return mg_trace_parse(ex->traceparent, trace);
  return ex->raw_target.len && from_client(ex, trace); /* before that there are no lines */
}

struct mg_log_about mg_exchange_about(struct mg_exchange *ex)
{
  struct mg_str id = mg_exchange_id_text(ex);
  struct mg_trace trace;
  if (!mg_exchange_trace(ex, &trace)) trace.id = mg_str(NULL, 0);
  return (struct mg_log_about){
      .exchange = id.ptr, .exchange_len = id.len, .trace = trace.id.ptr, .trace_len = trace.id.len};
}
