/* probe.h - one question to one upstream target: is it well? Used again and again; one question at a time.
 *
 * Thread: the loop thread. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

#include "mem.h"

enum { MG_PROBE_WHY_SIZE = 96, MG_PROBE_ADDRESSES_MAX = 8 };

enum mg_probe_step { MG_PROBE_IDLE, MG_PROBE_CONNECTING, MG_PROBE_ASKING, MG_PROBE_CLOSED };

struct mg_probe {
  uv_loop_t *loop;
  void (*done)(void *context, const char *why); /* why NULL: it is well */
  void (*closed)(void *context);
  void *context;
  struct mg_probe_try *attempt; /* the connection of this moment */
  uv_timer_t patience;
  struct sockaddr_storage addresses[MG_PROBE_ADDRESSES_MAX];
  unsigned address_count, address;
  unsigned tries_open; /* whose handles are not closed yet */
  struct mg_buf request;
  enum mg_probe_step step;
  bool timer_open;
};

/** Makes probe ready; done is called once for each mg_probe_start, from the loop. */
void mg_probe_init(struct mg_probe *probe, uv_loop_t *loop, void (*done)(void *context, const char *why),
                   void *context);

/** Sends GET path with authority as Host to the first of addresses that accepts (copied, as the texts are). */
void mg_probe_start(struct mg_probe *probe, const struct sockaddr_storage *addresses, unsigned count,
                    const char *authority, const char *path);

/** Ends it; done is not called any more, closed(context) is when the memory may go. */
void mg_probe_close(struct mg_probe *probe, void (*closed)(void *context));
