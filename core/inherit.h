/* inherit.h - sockets that this process found open when it was started: from the gateway that it takes over from
 * (upgrade.h), or from a service manager (systemd's LISTEN_FDS); and which worker serves which socket.
 *
 * Functions that fail return -1 and put one sentence into error (the caller frees it). Thread: the main thread. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "mem.h"

enum { MG_INHERITED_MAX = 512, MG_LISTENERS_MAX = 1024, MG_INHERITED_FIRST_FD = 3 };

struct mg_inherited {
  int listeners[MG_INHERITED_MAX];
  unsigned listener_count;
  int management;      /* -1: none was given */
  int channel;         /* to the gateway that is taken over from; -1: none */
  int predecessor;     /* its process id */
  unsigned first_slot; /* of the journal: those below are the predecessor's, or free */
  bool activated;      /* the sockets are a service manager's, and stay when this gateway ends */
};

/** Sockets and the worker that each is for. */
struct mg_listeners {
  struct {
    int fd;
    unsigned worker;
  } all[MG_LISTENERS_MAX];
  unsigned count;
};

/** The variable by which a gateway tells its successor what it inherits, and what is written into it. */
#define MG_INHERIT_VARIABLE "MOONGATE_UPGRADE"
void mg_inherit_describe(const struct mg_inherited *inherited, char *out, size_t size);

/** Finds what was inherited, makes it close-on-exec, and takes the variables that said so out of the environment. An
 * ordinary start inherits nothing. 0 or -1. */
int mg_inherit_take(struct mg_inherited *inherited, struct mg_buf *error);

/** Gives every inherited listener to a worker, and every worker a socket for each address: one more of the same port
 * where that can be shared, else the same one again. Takes the listeners; address is the first one's. 0 or -1. */
int mg_inherit_share(struct mg_inherited *inherited, unsigned workers, int backlog, struct mg_listeners *out,
                     struct sockaddr_storage *address, struct mg_buf *error);

/** The inherited socket of the management port, if address is its own or leaves the port open; address is set to it.
 * The caller's from there on; -1: there is none, or it is for another address (and closed). */
int mg_inherit_management(struct mg_inherited *inherited, struct sockaddr_storage *address);

/** True if the two are the same address, and the same port unless any will do. */
bool mg_inherit_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b, bool any_port);

/** One new socket per worker, all on the port that address says or, where it says 0, on one that is put there. */
int mg_listeners_open(struct mg_listeners *listeners, unsigned workers, struct sockaddr_storage *address, int backlog,
                      struct mg_buf *error);

void mg_listeners_close(struct mg_listeners *listeners);
