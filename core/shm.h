/* shm.h - the memory that master and workers share: one sparse memfd, mapped once by each process.
 *
 * Only the master allocates in it, and sends offsets; nothing is ever freed, cells are found again by their key.
 * No locks: every field is either written by one process or moved by compare-and-swap. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "err.h"
#include "mem.h"
#include "meter.h"
#include "tally.h"

enum { MG_WORKERS_MAX = 256, MG_TARGET_ADDRESSES_MAX = 8 };

/* X(field): counters that a worker adds to and the master reads; each worker has its own. */
#define MG_COUNTER_MAP(X) \
  X(connections_accepted) \
  X(connections_active)   \
  X(requests)             \
  X(responses_1xx)        \
  X(responses_2xx)        \
  X(responses_3xx)        \
  X(responses_4xx)        \
  X(responses_5xx)        \
  X(upstream_connects)    \
  X(upstream_reuses)      \
  X(upstream_retries)     \
  X(upstream_failures)    \
  X(upstream_idle)        \
  X(client_aborts)        \
  X(bytes_in)             \
  X(bytes_out)            \
  X(script_errors)        \
  X(script_kills)         \
  X(exchanges_active)     \
  X(journal_exchanges)    \
  X(journal_dropped)      \
  X(journal_bytes)        \
  X(journal_plain_bytes)  \
  X(journal_repairs)

/** One worker's lines. The worker writes, the master reads; values only ever tear across fields, never within one. */
struct mg_worker_cell {
  _Alignas(MG_CACHE_LINE) _Atomic uint64_t heartbeat_ms; /* CLOCK_MONOTONIC; 0 before the first */
  _Atomic uint64_t generation;                           /* the one new exchanges get */
  _Atomic uint32_t running_route;                        /* what Lua is running: route index + 1, 0 for nothing */
  _Atomic uint32_t running_filter;                       /* position in the route's chain, from 1 */
  _Atomic uint64_t running_generation;
  _Atomic uint32_t journal_slots, journal_slots_used; /* of the stage; 0: nothing is recorded */
  _Atomic uint32_t journal_errno;                     /* what keeps the journal from being written; 0: nothing */
  _Atomic int32_t pid;
  _Alignas(MG_CACHE_LINE) struct {
#define X(field) _Atomic uint64_t field;
    MG_COUNTER_MAP(X)
#undef X
  } count;
  _Atomic uint64_t refused[MG_ERR_COUNT]; /* by mg_err_index */
};

/** One upstream address and what is known of it, shared by all generations and workers. */
struct mg_target_cell {
  _Alignas(MG_CACHE_LINE) _Atomic uint32_t version; /* odd while the master writes the addresses (seqlock) */
  uint32_t address_count;                           /* 0: never resolved */
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  _Atomic uint32_t down;        /* 1: the active health check says so */
  _Atomic uint64_t up_since_ms; /* when it last came up (slow start); 0: always was */
  char key[256];                /* "host:port" or "unix:/path" */
};

struct mg_shm {
  uint8_t *base;
  int fd;
};

/** Makes the memfd and maps it (master). 0 or MG_EINTERNAL with errno set. */
int mg_shm_create(struct mg_shm *shm);
/** Maps an inherited memfd (worker). 0 or MG_EINTERNAL with errno set. */
int mg_shm_attach(struct mg_shm *shm, int fd);
void mg_shm_detach(struct mg_shm *shm);

/** Says that other processes accept from the same listening sockets, which a worker that ends must then leave as they
 * are (master); whether that was said. */
void mg_shm_share_listeners(struct mg_shm *shm, bool shared);
bool mg_shm_listeners_shared(const struct mg_shm *shm);
/** The number of the first worker's journal shard: 0 unless a predecessor uses that (set by the master before there are
 * workers). */
void mg_shm_set_first_slot(struct mg_shm *shm, unsigned first_slot);
unsigned mg_shm_first_slot(const struct mg_shm *shm);

/** The lines of worker slot (0 to MG_WORKERS_MAX - 1); of the slot behind the last worker's, what a predecessor has
 * counted. */
struct mg_worker_cell *mg_shm_worker(const struct mg_shm *shm, unsigned slot);

/** The cell for key ("127.0.0.1:9000", "unix:/run/x.sock"), made when it is new. Master only. NULL when full. */
struct mg_target_cell *mg_shm_target(struct mg_shm *shm, struct mg_str key);
/** The cell for key, or NULL: workers look up what the master has made before it sent the bundle. */
struct mg_target_cell *mg_shm_find_target(const struct mg_shm *shm, struct mg_str key);
/** Publishes a target's addresses (master). */
void mg_target_publish(struct mg_target_cell *cell, const struct sockaddr_storage *addresses, unsigned count);
/** Copies a target's addresses consistently; returns how many. Any process. */
unsigned mg_target_addresses(const struct mg_target_cell *cell, struct sockaddr_storage out[MG_TARGET_ADDRESSES_MAX]);

/** Makes room for the tallies of a route, one per slot below workers, when its id is new. Master only. False
 * when there is no room any more: such a route is served and not counted. */
bool mg_shm_add_route(struct mg_shm *shm, struct mg_str id, unsigned workers);
/** A route's tally of one worker slot below the workers it was added for; NULL where there is none. */
struct mg_tally *mg_shm_tally(const struct mg_shm *shm, struct mg_str id, unsigned slot);
/** What worker slot counts of its filters. */
struct mg_meters *mg_shm_meters(const struct mg_shm *shm, unsigned slot);
/** Takes back the gauges of a worker that has died (master). */
void mg_shm_reset_gauges(struct mg_shm *shm, unsigned slot);
