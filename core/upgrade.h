/* upgrade.h - one gateway taking over from another on the same sockets, without a connection being refused.
 *
 * The old master starts the executable at its original path with the listening sockets (inherit.h) and a channel. The
 * new one loads its configuration, starts its workers on the same sockets, and says READY, or why not. Until then the
 * old one serves; after it the old one drains, sends what it has counted, and ends.
 * Thread: the loop thread. */
#pragma once

#include <uv.h>

#include "inherit.h"
#include "inventory.h"
#include "mem.h"
#include "shm.h"

enum { MG_UPGRADE_PATH_SIZE = 4096 };

/** The path by which this executable was started, absolute; where it cannot be told, the file that runs. To be asked
 * before anybody replaces that file. False if it is not known at all. */
bool mg_upgrade_executable(char out[MG_UPGRADE_PATH_SIZE]);

/* --- the old side */

struct mg_upgrade;

/* What becomes of an upgrade; context is given to each. */
struct mg_upgrade_events {
  void *context;
  void (*ready)(void *context, int pid);               /* the successor serves; it is not ended by us any more */
  void (*failed)(void *context, struct mg_str reason); /* it has ended, or was ended; the upgrade can be closed */
  void (*parted)(void *context);                       /* after READY: it has read all that was sent, or is gone */
};

/** Starts executable with argv (NULL at its end) and the sockets of inherited (borrowed), and gives it limit_ms to say
 * READY. NULL with a sentence in error. */
struct mg_upgrade *mg_upgrade_start(uv_loop_t *loop, const char *executable, char *const *argv,
                                    const struct mg_inherited *inherited, uint64_t limit_ms,
                                    const struct mg_upgrade_events *events, struct mg_buf *error);
int mg_upgrade_pid(const struct mg_upgrade *upgrade);
/** Sends the successor what was counted, as mg_counters_write gives it. After the last time it ends the channel. */
void mg_upgrade_send(struct mg_upgrade *upgrade, struct mg_str counters, bool last);
/** Ends the successor unless it is ready, and lets go of it; frees itself once the loop has run. */
void mg_upgrade_close(struct mg_upgrade **upgrade);

/* --- the new side */

struct mg_heir;

struct mg_heir_events {
  void *context;
  void (*counted)(void *context, struct mg_str counters);
  void (*alone)(void *context); /* the predecessor has ended, or was ended */
};

/** Talks to the predecessor over fd (taken). NULL with a sentence in error. */
struct mg_heir *mg_heir_open(uv_loop_t *loop, int fd, const struct mg_heir_events *events, struct mg_buf *error);
/** Tells the predecessor: reason empty: this gateway serves. Else why it does not. */
void mg_heir_tell(struct mg_heir *heir, struct mg_str reason);
void mg_heir_close(struct mg_heir **heir);

/* --- what goes from one to the other: counters as lines of text, so that the two may be of different versions */

/** Appends what the workers, and their predecessor, have counted: of the gateway, its refusals and its routes. */
void mg_counters_write(const struct mg_shm *shm, unsigned workers, const struct mg_inventory *inventory,
                       struct mg_buf *out);
/** Puts counters that were written elsewhere into the slot behind the last worker's, in the place of what was there.
 * What is not known here, and routes that there are not, are passed over. */
void mg_counters_read(struct mg_shm *shm, unsigned workers, struct mg_str text);
