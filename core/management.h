/* management.h - the management port: a small HTTP/1.1 server inside the master, for probes, Prometheus and people.
 *
 * Limited on every side (connections, head and body size, time), so that nothing that comes in here keeps the master
 * from its work, and nothing of it reaches the data path. Thread: the loop thread. */
#pragma once

#include <uv.h>

#include "reload.h"
#include "settings.h"
#include "status.h"

struct mg_management;

/* What the port's owner does for it; context is given to each. */
struct mg_management_events {
  void *context;
  void (*status)(void *context, struct mg_status *status); /* fills in what is true now */
  void (*reload)(void *context, const struct mg_reload_asker *asker);
};

/** Serves on fd, a listening socket (taken, also on failure). Borrows loop and settings, copies events. NULL with a
 * sentence in error. */
struct mg_management *mg_management_open(uv_loop_t *loop, int fd, const struct mg_settings *settings,
                                         const struct mg_management_events *events, struct mg_buf *error);

/** Its listening socket, borrowed. */
int mg_management_socket(const struct mg_management *management);

/** Ends every connection; frees itself once the loop has run and every reload that was asked for here is answered. */
void mg_management_close(struct mg_management **management);
