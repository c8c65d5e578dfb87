/* health.h - active health checks: the master asks upstream targets how they are and puts the answer into their cells.
 *
 * A check is a GET; only status 200 within two seconds (after at most two for the connection) is a success. A target
 * is one thing whichever routes use it: it is down while any of its checks is, unless a route says FORCE_UP.
 * Settings are the bundle's section `health`, one line per route and target with tabs between the fields:
 *   route index, interval in ms, rise, fall, override (NONE, FORCE_UP, FORCE_DOWN), target key, authority, path
 * Thread: the loop thread. */
#pragma once

#include <time.h>
#include <uv.h>

#include "shm.h"

struct mg_health;

/** One target of one route as it is checked. */
struct mg_health_view {
  unsigned route; /* index in the configuration in force */
  const char *key;
  bool down;       /* by this check or its override */
  bool overridden; /* nobody asks: the configuration says how it is */
  time_t since;    /* of the last change; 0: as at the start */
  const char *why; /* the last failure in words; empty: none yet */
};

/** Borrows loop and shm for its life. Checks nothing yet. */
struct mg_health *mg_health_open(uv_loop_t *loop, struct mg_shm *shm);

/** Checks what section says from now on. A check that was there before with the same settings goes on as it was; a new
 * one takes its target for up and asks for the first time after one interval. */
void mg_health_follow(struct mg_health *health, struct mg_str section);

/** The checked targets in file order: how many, and number i of them (borrowed until the loop turns). */
unsigned mg_health_count(const struct mg_health *health);
struct mg_health_view mg_health_view(const struct mg_health *health, unsigned i);

/** Ends all checks and frees itself once the loop has run. */
void mg_health_close(struct mg_health **health);
