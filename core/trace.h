/* trace.h - the traceparent header (W3C Trace Context, level 1). Pure. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mem.h"

enum { MG_TRACEPARENT_LEN = 55, MG_TRACE_ID_LEN = 32, MG_TRACE_PARENT_LEN = 16 };

/** The parts of a value, as text inside it. */
struct mg_trace {
  struct mg_str id;     /* of the whole trace: 32 hex digits */
  struct mg_str parent; /* of the span that the next one belongs to: 16 */
  struct mg_str flags;  /* 2 */
};

/** Takes a value apart. False if it is none: another shape, zeros for an id, capitals, version ff, or more than version
 * 00 may have. Of versions that are not known yet what level 1 defines is read. */
bool mg_trace_parse(struct mg_str value, struct mg_trace *trace);

/** Numbers for new ids (xoroshiro128+); the seed, from the kernel, must not be all zero. */
struct mg_trace_source {
  uint64_t state[2];
};

/** Writes a new value of version 00, without a terminating zero. */
void mg_trace_make(struct mg_trace_source *source, bool sampled, char out[MG_TRACEPARENT_LEN]);
