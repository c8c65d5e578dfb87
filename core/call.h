/* call.h - a filter's own request to an upstream of the configuration: one try, whole bodies, a time of its own.
 * Thread: the loop's. */
#pragma once

#include "conn.h"
#include "http1.h"
#include "inflow.h"
#include "upstream.h"

struct mg_call {
  struct mg_acquire acquire;
  struct mg_net *net; /* borrowed */
  struct mg_group *group;
  struct mg_upconn *up;
  struct mg_inflow in;
  struct mg_timer timer;
  struct mg_tried tried;
  void (*done)(struct mg_call *call, void *context);
  void *context;
  /* what is asked; all in the arena */
  struct mg_str method, path;
  struct mg_headers headers;
  struct mg_str body;
  uint64_t body_bytes_max; /* of the answer */
  /* what came */
  struct mg_response_head response;
  struct mg_body_decoder decoder;
  struct mg_buf answer;
  int err; /* 0 when the answer is whole */
  bool head_read;
  bool sent;
  bool ended;
  bool retried;
};

/** Prepares a call; arena and group are borrowed until it is done. */
void mg_call_init(struct mg_call *call, struct mg_net *net, struct mg_group *group, struct mg_arena *arena);
/** Starts it; done(call, context) follows, never before this returns, unless mg_call_end comes first. */
void mg_call_start(struct mg_call *call, struct mg_upstreams *upstreams, uint64_t timeout_ms);
/** Gives up what is under way and frees what was read. Idempotent. */
void mg_call_end(struct mg_call *call);
