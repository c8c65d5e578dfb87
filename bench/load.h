/* load.h - a load generator that keeps to its schedule: what it is asked for, what it counts.
 *
 * A request is due at a moment that does not depend on the answers before it, and its latency counts from that moment:
 * a server that stalls makes every request late that was due meanwhile (no coordinated omission). `service` counts from
 * the moment the request was sent, which is what generators report that wait for an answer before they go on.
 * Thread: one. */
#pragma once

#include "histogram.h"
#include "request.h"
#include "schedule.h"

struct bench_load_options {
  const char *host; /* IPv4 address */
  unsigned port;
  const char *workload;
  double rate; /* requests per second; 0: as fast as the connections allow (closed loop) */
  unsigned connections, idle;
  uint64_t duration_ns, warmup_ns, timeout_ns;
  enum bench_arrival arrival;
  uint64_t seed;
};

/* X(name, what it is) */
#define BENCH_FAULT_MAP(X)                                   \
  X(connect, "a connection was refused or not made in time") \
  X(closed, "the peer closed or reset under a request")      \
  X(timeout, "no answer in time")                            \
  X(malformed, "the answer is not valid HTTP/1.1")           \
  X(status, "an answer other than 2xx or 3xx")               \
  X(unsent, "due, but no connection was free until the end")

enum bench_fault {
#define X(name, what) BENCH_FAULT_##name,
  BENCH_FAULT_MAP(X)
#undef X
      BENCH_FAULT_COUNT
};

/** What a run counted; all but `sent` and `idle_lost` of requests that were due after the warm-up. */
struct bench_load_result {
  uint64_t sent; /* of the warm-up too, for costs per request */
  uint64_t due, answered, bytes, idle_lost;
  uint64_t late_ns;   /* the longest that this process itself stood still when it was to run */
  uint64_t in_window; /* answers that came between warm-up and end */
  uint64_t faults[BENCH_FAULT_COUNT];
  uint64_t statuses[6]; /* by first digit */
  struct bench_histogram *latency, *service;
};

/** Runs the load to its end. False with a sentence in error when the connections cannot be made. The histograms are the
 * caller's to make and free. */
bool bench_load_run(const struct bench_load_options *options, const struct bench_request *request,
                    struct bench_load_result *result, struct mg_buf *error);
