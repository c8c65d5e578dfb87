/* upstream.h - groups of targets, which target comes next, and the pooled connections to each.
 *
 * Targets belong to the gateway, found by address and connect timeout, and outlive generations: a reload keeps pools
 * and what is known of a target's health. Groups belong to a generation. Thread: the loop's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "conn.h"
#include "shm.h"

enum { MG_GROUP_TARGETS_MAX = 256 };

enum mg_strategy { MG_ROUND_ROBIN, MG_LEAST_REQUESTS, MG_CONSISTENT_HASH };

struct mg_target;
struct mg_upconn;

/** Told once how an acquisition ended: 0 and a connection that is the caller's, or an error. */
struct mg_acquire {
  void (*ready)(struct mg_acquire *acquire, struct mg_upconn *up, int err);
  struct mg_acquire *next, *previous; /* the target's queue */
  struct mg_target *target;           /* while it waits */
  struct mg_upconn *connecting;       /* while it connects */
  bool retry;                         /* may take a queued place although the queue is full: it had one already */
};

/** A connection to a target. Who holds it sets conn.events and user. */
struct mg_upconn {
  struct mg_conn conn;
  struct mg_target *target;
  struct mg_acquire *acquire;        /* while connecting */
  struct mg_upconn *next, *previous; /* the target's idle list */
  void *user;
  uint64_t sent_round; /* net round in which the last head went out: bytes read in the same round were unasked */
  uint64_t idle_since_ms;
  uint32_t keep_alive_s; /* what the peer promised with Keep-Alive: timeout; 0: nothing */
  uint8_t address;       /* of the target's addresses, the one tried now */
  uint8_t addresses_left;
  bool reused;
};

/** All targets of a gateway. */
struct mg_upstreams {
  struct mg_net *net;       /* borrowed */
  const struct mg_shm *shm; /* borrowed */
  struct mg_target *targets;
  struct mg_worker_cell *cell;
  uint64_t idle_ttl_ms;
  unsigned connections_max; /* per target and worker */
  unsigned queue_max;       /* per target and worker */
  unsigned workers;         /* that share a limit */
  unsigned open;            /* connections whose handles are not closed yet */
  uint64_t random;          /* state of a small generator, for two choices */
};

/** One target of a group: shared pool, own weight. */
struct mg_member {
  char *key;                 /* "host:port" or "unix:/path" */
  struct mg_str authority;   /* what Host says with `host: target` */
  struct mg_str path_prefix; /* prepended to the path; may be empty */
  struct mg_target *target;  /* once attached */
  unsigned weight;
  int64_t current; /* smooth weighted round robin */
};

/** When a target that fails is left alone for a while. */
struct mg_passive_health {
  unsigned failures_max; /* in a row; 0: never */
  uint64_t within_ms;    /* the first and the last of them */
  uint64_t rest_ms;
};

enum mg_hash_on { MG_ON_CLIENT, MG_ON_HEADER, MG_ON_COOKIE, MG_ON_QUERY };

struct mg_group {
  struct mg_member *members;
  unsigned count;
  uint8_t strategy; /* enum mg_strategy */
  bool host_is_target;
  unsigned retries;
  uint64_t connect_ms;
  uint64_t read_ms;
  uint64_t slow_start_ms;
  struct mg_passive_health health;
  unsigned connections_max; /* per target; 0: the gateway's */
  int queue_max;            /* per target; -1: the gateway's */
  uint8_t hash_on;          /* enum mg_hash_on */
  struct mg_str hash_name;  /* header, cookie or parameter; owned */
};

/** A set of members already tried. */
struct mg_tried {
  uint64_t bits[MG_GROUP_TARGETS_MAX / 64];
};

/** Adds a member; copies all text. False past MG_GROUP_TARGETS_MAX. */
bool mg_group_add(struct mg_group *group, struct mg_str key, struct mg_str authority, struct mg_str path_prefix,
                  unsigned weight);
/** Finds or makes the targets of a group's members. */
void mg_group_attach(struct mg_group *group, struct mg_upstreams *upstreams);
void mg_group_free(struct mg_group *group);

/** The member to try next, or -1 when none is left. hash is what CONSISTENT_HASH goes by. Marks the choice in tried.
 * Members that are down, or failed lately, are passed over while another is there; a failing member is still better
 * than none, one that the active health check calls down is not. */
int mg_group_choose(struct mg_group *group, struct mg_upstreams *upstreams, uint64_t hash, struct mg_tried *tried);

/** True when every member is down by the active health check. */
bool mg_group_down(const struct mg_group *group);

/** Gets a connection to target: a pooled one at once (*up set, 0), or later through acquire->ready (returns 1), or
 * an error: MG_EQUEUEFULL, MG_ECONNREFUSED. With fresh, pooled ones are left alone. careful checks a pooled one
 * that was idle for long. */
int mg_target_acquire(struct mg_target *target, struct mg_acquire *acquire, bool fresh, bool careful,
                      struct mg_upconn **up);
/** Gives up waiting or connecting. */
void mg_acquire_cancel(struct mg_acquire *acquire);

/** Gives a connection back: to a waiter or the pool if it may be used again, else it is closed. */
void mg_upconn_release(struct mg_upconn *up, bool reusable);
/** Cuts it, so that the upstream sees a request broken off rather than ended. */
void mg_upconn_abort(struct mg_upconn *up);

/** True for bytes (or an end) that were there before the request could have been answered: they came out of the poll
 * in which its head was written to a pooled connection. */
bool mg_upconn_unasked(const struct mg_upconn *up);

/** What a holder's events must name as `closed`. */
void mg_upconn_closed(struct mg_conn *conn);

/** Notes how a try went: failures in a row keep a target from being chosen for a while. */
void mg_target_report(struct mg_target *target, bool ok);
/** True while repetitions are at most a fifth of what the target got lately; counts one. */
bool mg_target_may_retry(struct mg_target *target);
unsigned mg_target_active(const struct mg_target *target);

void mg_upstreams_open(struct mg_upstreams *upstreams, struct mg_net *net, const struct mg_shm *shm,
                       struct mg_worker_cell *cell);
/** Closes idle connections (those in use are their exchanges' to release). */
void mg_upstreams_close_idle(struct mg_upstreams *upstreams);
/** Frees all targets; every connection must have been closed. */
void mg_upstreams_free(struct mg_upstreams *upstreams);

/* What group.c asks of a target; its limits become the group's. */
struct mg_target *mg_target_find(struct mg_upstreams *upstreams, struct mg_str key, const struct mg_group *group);
bool mg_target_is_down(const struct mg_target *target);
bool mg_target_rests(const struct mg_target *target, uint64_t now_ms);
/** CLOCK_MONOTONIC milliseconds; 0 when it never was down. */
uint64_t mg_target_up_since_ms(const struct mg_target *target);
