/* gateway_state.h - what the files of the data path (gateway, client, exchange, api) share. Nobody else includes it. */
#pragma once

#include "conn.h"
#include "gateway.h"
#include "generation.h"
#include "inflow.h"
#include "trace.h"
#include "moongate_ffi.h"
#include "upstream.h"

enum {
  MG_SLOTS = 65536,             /* exchanges at once in one worker: 16 bits of a handle */
  MG_EXCHANGE_BYTES = 8192,     /* one exchange with the first part of its arena */
  MG_ARENA_CHUNK_BYTES = 40960, /* room for the largest head by default */
  MG_ARENA_BYTES_MAX = 1 << 20, /* beyond the first part: heads, edits, answers */
  MG_HELD_BYTES_MAX = 65536,    /* of a client that sends ahead, or whose upstream is not there yet */
  MG_INTERIM_MAX = 16,          /* 1xx answers before the final one */
  MG_UPSTREAM_HEAD_BYTES_MAX = 65536,
  MG_UPSTREAM_HEADERS_MAX = 200,
  MG_LINGER_MS = 2000 /* how long an ended connection is read so that the peer sees the last answer */
};

struct mg_exchange;
struct mg_client;
struct mg_offload;
struct mg_access_log;

struct mg_listener {
  uv_poll_t poll;
  int fd;
  struct mg_gateway *gateway;
  bool open;
  bool watched;
};

/** A header name that filters have used: valid, and its id is known. */
struct mg_name_memo {
  char bytes[30];
  uint8_t len; /* 0: nothing here yet */
  uint8_t id;
};

enum { MG_NAME_MEMOS = 64 };

/* What becomes of traceparent. */
enum mg_tracing { MG_TRACING_PASS, MG_TRACING_CREATE, MG_TRACING_RESTART, MG_TRACING_REMOVE };

struct mg_gateway {
  struct mg_net net;
  const struct mg_settings *settings; /* borrowed */
  struct mg_worker_cell *cell;
  struct mg_access_log *access_log; /* NULL: none */
  struct mg_watchdog watchdog;
  struct mg_meters *meters;
  struct mg_turn turn;     /* of the call into Lua that runs */
  uint64_t metered_since;  /* ticks */
  unsigned metered_weight; /* calls that each one timed stands for; 0: the time is not taken */
  unsigned kills_metered;  /* of those in the call that runs */
  struct mg_upstreams upstreams;
  struct mg_offload *offload;   /* hashing */
  struct mg_offload *fetching;  /* files that are not in memory: never behind a queue of hashes */
  struct mg_recorder *recorder; /* NULL while no level was above NONE */
  struct mg_timer flush;        /* of the recorder */
  uint64_t id_base;             /* where id_count began */
  struct mg_generation *current;
  struct mg_generation *older; /* still running exchanges */
  struct mg_listener *listeners;
  unsigned listener_count;
  unsigned open_handles;     /* listeners */
  struct mg_client *clients; /* all connections */
  unsigned client_count;
  unsigned clients_max; /* of this worker */
  bool accepting;
  bool paused;  /* at the limit: the rest waits in the backlog */
  bool starved; /* paused for want of descriptors */
  bool draining;
  uint64_t handed_over_idle_ms; /* draining while others accept from our sockets: how long a connection may wait for
                                   the request that is answered with Connection: close; else 0 */
  void (*worn)(void *context);
  void *worn_context;
  void (*drained)(void *context);
  void *drained_context;
  /* exchanges by slot: a handle is generation << 16 | slot */
  struct mg_exchange **slots;
  uint32_t *slot_generations;
  uint16_t *free_slots;
  unsigned free_count;
  unsigned slots_used; /* slots never used yet start here */
  struct mg_pool exchange_pool;
  struct mg_pool arena_pool;
  struct mg_pool client_pool;
  /* ids: 48 bits of milliseconds, 16 of the worker's slot, 64 that count */
  uint64_t id_count;
  enum mg_tracing tracing;
  struct mg_trace_source trace_source;
  uint64_t wall_offset_ms; /* wall clock minus uv_hrtime's, brought up to date now and then */
  uint64_t clock_good_ms;  /* uv_now's clock: the date is read again from then on */
  struct mg_timer clock;
  char date[32];
  size_t date_len;
  uint16_t slot; /* in ids and of the journal's shard: different from a predecessor's that still drains */
  uint16_t shm_slot;
  uint16_t port; /* for X-Forwarded-Port */
  struct mg_name_memo names[MG_NAME_MEMOS];
  struct mg_exchange *running; /* whose filters run now */
  struct mg_buf script_error;  /* scratch for messages */
  bool over_budget;            /* a regular expression took too long in the call into Lua that runs */
};

static inline void mg_count(_Atomic uint64_t *counter, int64_t by)
{
  /* Only the worker writes its counters: no locked instruction is needed. */
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + (uint64_t)by,
                        memory_order_relaxed);
}

/** gateway.c: one exchange fewer on a generation; frees it when it is old and empty. */
void mg_gateway_release(struct mg_gateway *gateway, struct mg_generation *generation);
/** gateway.c: the current time as a Date value (RFC 9110, 5.6.7); lives until the loop turns. */
struct mg_str mg_gateway_date(struct mg_gateway *gateway);
/** exchange_trace.c: reads the settings, draws a seed. */
void mg_gateway_open_tracing(struct mg_gateway *gateway);
/** gateway.c: a client is gone; accepts again, or ends a drain. */
void mg_gateway_client_gone(struct mg_gateway *gateway);
