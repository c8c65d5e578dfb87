/* succession.h - the place of a master in a row of masters: what it took over, from whom, and who takes over from it.
 * Thread: the loop thread. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "inherit.h"
#include "inventory.h"
#include "settings.h"
#include "shm.h"
#include "upgrade.h"

enum { MG_SUCCESSION_TEXT_SIZE = 512 };

/* What the master does when its place changes; context is given to each. */
struct mg_succession_events {
  void *context;
  void (*handed_over)(void *context); /* a successor serves: drain */
  void (*parted)(void *context);      /* after mg_succession_part: it knows all that it is to know */
  void (*alone)(void *context);       /* the predecessor is gone */
};

struct mg_succession {
  uv_loop_t *loop;
  struct mg_succession_events events;
  char *const *argv; /* ours, to be started again */
  char executable[MG_UPGRADE_PATH_SIZE];
  struct mg_inherited inherited;
  struct mg_heir *heir;       /* what we took over from; NULL: nothing */
  struct mg_upgrade *upgrade; /* what takes over from us; NULL: nothing */
  bool predecessor_lives;
  bool handed_over;
  bool parting;
  char text[MG_SUCCESSION_TEXT_SIZE]; /* for the status; empty: nothing ever happened */
  struct mg_buf past;                 /* what a predecessor has counted */
  struct mg_shm *shm;                 /* borrowed, as the others below; NULL before mg_succession_bind */
  const struct mg_settings *settings;
  const struct mg_inventory *inventory;
};

/** Finds out what was inherited and from whom. argv (borrowed, NULL at its end) is how this process was started. 0, or
 * -1 with a sentence in error. */
int mg_succession_begin(struct mg_succession *succession, uv_loop_t *loop, char *const *argv,
                        const struct mg_succession_events *events, struct mg_buf *error);

/** A socket for every worker: those that were inherited, or new ones. An upgrade keeps its sockets: that host or port
 * have changed is an error. address is the first one's. 0, or -1 with a sentence in error. */
int mg_succession_listeners(struct mg_succession *succession, const struct mg_settings *settings,
                            struct mg_listeners *listeners, struct sockaddr_storage *address, struct mg_buf *error);
/** As that, the management port's one socket; a changed address gets a new one. */
int mg_succession_management(struct mg_succession *succession, const struct mg_settings *settings,
                             struct sockaddr_storage *address, struct mg_buf *error);

/** From here on there is shared memory, before there are workers. */
void mg_succession_bind(struct mg_succession *succession, struct mg_shm *shm, const struct mg_settings *settings,
                        const struct mg_inventory *inventory);

/** True while another gateway serves on the same sockets and waits for our word. */
bool mg_succession_awaited(const struct mg_succession *succession);
/** That word. */
void mg_succession_ready(struct mg_succession *succession);
void mg_succession_refuse(struct mg_succession *succession, struct mg_str reason);

/** Puts what predecessors have counted beside what the workers count; to be repeated when there are new routes. */
void mg_succession_count(struct mg_succession *succession);

/** Starts a successor on these sockets (borrowed), unless one is under way or the predecessor has not ended. */
void mg_succession_start(struct mg_succession *succession, const struct mg_listeners *listeners, int management);

/** The last words to a successor, once nothing is served here any more. */
void mg_succession_part(struct mg_succession *succession);

/** Ends a successor that is not ready; the sockets are this gateway's alone again, or a service manager's. */
void mg_succession_cancel(struct mg_succession *succession);
void mg_succession_close(struct mg_succession *succession);
