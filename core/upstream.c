/* upstream.c - targets and their pooled connections.
 * Owns: targets, idle and connecting connections.   May call: conn, shm.   Never: parse HTTP, touch Lua, know an
 * exchange.
 * Thread: the loop's. */
#include "upstream.h"

#include <stdlib.h>

#include "log.h"

enum {
  RETRY_WINDOW_MS = 5000,  /* repetitions are counted over the last two of these */
  RETRY_SHARE = 5,         /* one in so many requests may be a repetition */
  RETRY_FREE = 10,         /* so many are always allowed */
  CAREFUL_AFTER_MS = 1000, /* idle for longer: look at the socket before a request goes out that cannot be repeated */
  CONNECT_POOL_SPARE_MS = 1000 /* taken off a promised keep-alive timeout */
};

struct mg_target {
  struct mg_target *next;
  struct mg_upstreams *upstreams;
  const struct mg_target_cell *cell;
  char *key;
  uint64_t connect_ms;
  struct mg_upconn *idle; /* the one used last first */
  struct mg_acquire *first_waiter, *last_waiter;
  unsigned waiting;
  unsigned active; /* connecting or in use */
  unsigned idle_count;
  struct mg_passive_health health; /* of the group attached last */
  unsigned connections_max;
  unsigned queue_max;
  unsigned failures; /* in a row */
  uint64_t failing_since_ms;
  uint64_t rests_until_ms;
  uint64_t window_ms;               /* start of the current retry window */
  unsigned requests[2], retries[2]; /* this window and the one before */
  uint8_t address_next;
};

static const struct mg_conn_events idle_events;
static const struct mg_conn_events connecting_events;

static void count(_Atomic uint64_t *counter, int64_t by)
{
  /* Only this thread writes it: no locked instruction is needed. */
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + (uint64_t)by,
                        memory_order_relaxed);
}

static struct mg_target *find_target(struct mg_upstreams *upstreams, struct mg_str key, uint64_t connect_ms)
{
  for (struct mg_target *target = upstreams->targets; target; target = target->next)
    if (target->connect_ms == connect_ms && mg_str_equal(mg_str(target->key, strlen(target->key)), key)) return target;
  struct mg_target *target = mg_calloc(1, sizeof *target);
  target->key = mg_strndup(key.ptr, key.len);
  target->upstreams = upstreams;
  target->connect_ms = connect_ms;
  target->cell = mg_shm_find_target(upstreams->shm, key);
  target->next = upstreams->targets;
  upstreams->targets = target;
  return target;
}

static unsigned share(unsigned total, unsigned workers)
{
  return workers ? (total + workers - 1) / workers : total;
}

struct mg_target *mg_target_find(struct mg_upstreams *upstreams, struct mg_str key, const struct mg_group *group)
{
  struct mg_target *target = find_target(upstreams, key, group->connect_ms);
  target->health = group->health;
  target->connections_max =
      group->connections_max ? share(group->connections_max, upstreams->workers) : upstreams->connections_max;
  target->queue_max =
      group->queue_max >= 0 ? share((unsigned)group->queue_max, upstreams->workers) : upstreams->queue_max;
  return target;
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static void idle_remove(struct mg_upconn *up)
{
  struct mg_target *target = up->target;
  if (up->previous)
    up->previous->next = up->next;
  else
    target->idle = up->next;
  if (up->next) up->next->previous = up->previous;
  up->next = up->previous = NULL;
  target->idle_count--;
  count(&target->upstreams->cell->count.upstream_idle, -1);
}

static void close_idle(struct mg_upconn *up)
{
  idle_remove(up);
  mg_conn_close(&up->conn);
}

static void on_idle_data(struct mg_conn *conn, char *bytes, size_t len)
{
  (void)bytes, (void)len;
  close_idle((struct mg_upconn *)conn); /* nobody asked: it would be read as the next answer */
}

static void on_idle_end(struct mg_conn *conn, int err)
{
  (void)err;
  close_idle((struct mg_upconn *)conn);
}

static void on_idle_timeout(struct mg_conn *conn)
{
  close_idle((struct mg_upconn *)conn);
}

static void on_idle_drained(struct mg_conn *conn, int err)
{
  (void)conn, (void)err;
}

void mg_upconn_closed(struct mg_conn *conn)
{
  struct mg_upconn *up = (struct mg_upconn *)conn;
  up->target->upstreams->open--;
  free(up);
}

static void on_idle_connected(struct mg_conn *conn, int err)
{
  (void)conn, (void)err;
}

static const struct mg_conn_events idle_events = {.data = on_idle_data,
                                                  .end = on_idle_end,
                                                  .drained = on_idle_drained,
                                                  .timeout = on_idle_timeout,
                                                  .connected = on_idle_connected,
                                                  .closed = mg_upconn_closed};

static void serve_waiters(struct mg_target *target);

static void finish_acquire(struct mg_upconn *up, int err)
{
  struct mg_acquire *acquire = up->acquire;
  struct mg_target *target = up->target;
  up->acquire = NULL;
  acquire->connecting = NULL;
  if (!err) {
    up->conn.events = &idle_events; /* until the holder sets its own */
    mg_conn_timeout(&up->conn, 0);
    mg_conn_read(&up->conn);
    acquire->ready(acquire, up, 0);
    return;
  }
  mg_conn_close(&up->conn);
  target->active--;
  acquire->ready(acquire, NULL, err);
  serve_waiters(target);
}

/* Tries the addresses of the target one after the other, starting behind the one used last. */
static struct mg_upconn *start_connect(struct mg_target *target, struct mg_acquire *acquire, uint8_t address,
                                       uint8_t left)
{
  struct mg_upstreams *upstreams = target->upstreams;
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  unsigned address_count = target->cell ? mg_target_addresses(target->cell, addresses) : 0;
  if (left == 0 || left > address_count) left = (uint8_t)address_count;
  for (; left > 0; left--, address++) {
    const struct sockaddr *to = (const struct sockaddr *)&addresses[address % address_count];
    struct mg_upconn *up = mg_calloc(1, sizeof *up);
    up->target = target;
    if (mg_conn_open(&up->conn, upstreams->net, to->sa_family, &connecting_events)) {
      free(up);
      continue;
    }
    upstreams->open++;
    if (mg_conn_connect(&up->conn, to)) {
      mg_conn_close(&up->conn);
      continue;
    }
    up->acquire = acquire;
    up->address = address;
    up->addresses_left = (uint8_t)(left - 1);
    acquire->connecting = up;
    mg_conn_timeout(&up->conn, target->connect_ms);
    count(&upstreams->cell->count.upstream_connects, 1);
    return up;
  }
  return NULL;
}

static void connect_failed(struct mg_upconn *up, int err)
{
  struct mg_acquire *acquire = up->acquire;
  if (up->addresses_left && start_connect(up->target, acquire, (uint8_t)(up->address + 1), up->addresses_left)) {
    up->acquire = NULL;
    mg_conn_close(&up->conn);
    return;
  }
  finish_acquire(up, err);
}

static void on_connecting_data(struct mg_conn *conn, char *bytes, size_t len)
{
  (void)conn, (void)bytes, (void)len; /* not reading yet */
}

static void on_connecting_end(struct mg_conn *conn, int err)
{
  (void)conn, (void)err;
}

static void on_connecting_timeout(struct mg_conn *conn)
{
  connect_failed((struct mg_upconn *)conn, MG_ECONNTIMEOUT);
}

static void on_connecting_connected(struct mg_conn *conn, int err)
{
  struct mg_upconn *up = (struct mg_upconn *)conn;
  if (err)
    connect_failed(up, MG_ECONNREFUSED);
  else
    finish_acquire(up, 0);
}

static const struct mg_conn_events connecting_events = {.data = on_connecting_data,
                                                        .end = on_connecting_end,
                                                        .drained = on_idle_drained,
                                                        .timeout = on_connecting_timeout,
                                                        .connected = on_connecting_connected,
                                                        .closed = mg_upconn_closed};

/* --- acquiring and releasing -------------------------------------------------------------------------------------- */

static struct mg_upconn *take_idle(struct mg_target *target, bool careful)
{
  uint64_t now = uv_now(target->upstreams->net->loop);
  while (target->idle) {
    struct mg_upconn *up = target->idle;
    if (careful && now - up->idle_since_ms > CAREFUL_AFTER_MS && mg_conn_stale(&up->conn)) {
      close_idle(up);
      continue;
    }
    idle_remove(up);
    mg_conn_timeout(&up->conn, 0);
    up->reused = true;
    count(&target->upstreams->cell->count.upstream_reuses, 1);
    return up;
  }
  return NULL;
}

static void turn_window(struct mg_target *target)
{
  uint64_t now = uv_now(target->upstreams->net->loop);
  if (now - target->window_ms < RETRY_WINDOW_MS) return;
  bool adjoins = now - target->window_ms < 2 * RETRY_WINDOW_MS;
  target->requests[1] = adjoins ? target->requests[0] : 0;
  target->retries[1] = adjoins ? target->retries[0] : 0;
  target->requests[0] = target->retries[0] = 0;
  target->window_ms = now;
}

static void enqueue(struct mg_target *target, struct mg_acquire *acquire)
{
  acquire->target = target;
  acquire->next = NULL;
  acquire->previous = target->last_waiter;
  if (target->last_waiter)
    target->last_waiter->next = acquire;
  else
    target->first_waiter = acquire;
  target->last_waiter = acquire;
  target->waiting++;
}

static void dequeue(struct mg_acquire *acquire)
{
  struct mg_target *target = acquire->target;
  if (acquire->previous)
    acquire->previous->next = acquire->next;
  else
    target->first_waiter = acquire->next;
  if (acquire->next)
    acquire->next->previous = acquire->previous;
  else
    target->last_waiter = acquire->previous;
  acquire->target = NULL;
  target->waiting--;
}

int mg_target_acquire(struct mg_target *target, struct mg_acquire *acquire, bool fresh, bool careful,
                      struct mg_upconn **up)
{
  acquire->target = NULL;
  acquire->connecting = NULL;
  turn_window(target);
  target->requests[0]++;
  if (target->active >= target->connections_max) {
    if (target->waiting >= target->queue_max && !acquire->retry) return MG_EQUEUEFULL;
    enqueue(target, acquire);
    return 1;
  }
  *up = fresh ? NULL : take_idle(target, careful);
  if (*up) {
    target->active++;
    return 0;
  }
  if (!start_connect(target, acquire, target->address_next, 0)) return MG_ECONNREFUSED;
  target->address_next++;
  target->active++;
  return 1;
}

void mg_acquire_cancel(struct mg_acquire *acquire)
{
  if (acquire->target) dequeue(acquire);
  struct mg_upconn *up = acquire->connecting;
  if (!up) return;
  acquire->connecting = NULL;
  up->acquire = NULL;
  up->target->active--;
  mg_conn_close(&up->conn);
  serve_waiters(up->target);
}

/* A place at the target is free: the first in the queue gets it. */
static void serve_waiters(struct mg_target *target)
{
  while (target->first_waiter && target->active < target->connections_max) {
    struct mg_acquire *acquire = target->first_waiter;
    dequeue(acquire);
    struct mg_upconn *up = take_idle(target, true);
    target->active++;
    if (up) {
      acquire->ready(acquire, up, 0);
    } else if (!start_connect(target, acquire, target->address_next++, 0)) {
      target->active--;
      acquire->ready(acquire, NULL, MG_ECONNREFUSED);
    }
  }
}

static uint64_t idle_ttl(const struct mg_upconn *up)
{
  uint64_t ttl = up->target->upstreams->idle_ttl_ms;
  uint64_t promised = (uint64_t)up->keep_alive_s * 1000;
  if (!promised) return ttl;
  promised = promised > CONNECT_POOL_SPARE_MS ? promised - CONNECT_POOL_SPARE_MS : 1;
  return promised < ttl ? promised : ttl;
}

void mg_upconn_release(struct mg_upconn *up, bool reusable)
{
  struct mg_target *target = up->target;
  target->active--;
  up->user = NULL;
  up->conn.events = &idle_events;
  if (!reusable || up->conn.ended || up->conn.write_failed || up->conn.queued) {
    mg_conn_close(&up->conn);
  } else {
    up->idle_since_ms = uv_now(target->upstreams->net->loop);
    up->next = target->idle;
    if (up->next) up->next->previous = up;
    target->idle = up;
    target->idle_count++;
    count(&target->upstreams->cell->count.upstream_idle, 1);
    mg_conn_timeout(&up->conn, idle_ttl(up));
    mg_conn_read(&up->conn);
  }
  if (target->first_waiter) serve_waiters(target);
}

void mg_upconn_abort(struct mg_upconn *up)
{
  struct mg_target *target = up->target;
  target->active--;
  up->user = NULL;
  up->conn.events = &idle_events;
  mg_conn_reset(&up->conn);
  if (target->first_waiter) serve_waiters(target);
}

bool mg_upconn_unasked(const struct mg_upconn *up)
{
  const struct mg_net *net = up->conn.net;
  /* libuv polls again within a turn once it has had 1,024 events; past that a turn says nothing. */
  return up->reused && up->sent_round == net->round && net->round_reads < 1000;
}

void mg_target_report(struct mg_target *target, bool ok)
{
  uint64_t now = uv_now(target->upstreams->net->loop);
  if (ok) {
    target->failures = 0;
    return;
  }
  if (target->failures == 0 || now - target->failing_since_ms > target->health.within_ms) {
    target->failures = 0;
    target->failing_since_ms = now;
  }
  if (++target->failures >= target->health.failures_max) target->rests_until_ms = now + target->health.rest_ms;
}

bool mg_target_may_retry(struct mg_target *target)
{
  turn_window(target);
  unsigned requests = target->requests[0] + target->requests[1], retries = target->retries[0] + target->retries[1];
  if (retries >= RETRY_FREE && retries * RETRY_SHARE >= requests) return false;
  target->retries[0]++;
  return true;
}

unsigned mg_target_active(const struct mg_target *target)
{
  return target->active;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

void mg_upstreams_open(struct mg_upstreams *upstreams, struct mg_net *net, const struct mg_shm *shm,
                       struct mg_worker_cell *cell)
{
  *upstreams = (struct mg_upstreams){.net = net,
                                     .shm = shm,
                                     .cell = cell,
                                     .idle_ttl_ms = 30000,
                                     .connections_max = 4096,
                                     .queue_max = 1000,
                                     .random = uv_hrtime() | 1};
}

void mg_upstreams_close_idle(struct mg_upstreams *upstreams)
{
  for (struct mg_target *target = upstreams->targets; target; target = target->next)
    while (target->idle) close_idle(target->idle);
}

void mg_upstreams_free(struct mg_upstreams *upstreams)
{
  while (upstreams->targets) {
    struct mg_target *target = upstreams->targets;
    upstreams->targets = target->next;
    free(target->key);
    free(target);
  }
}

bool mg_target_is_down(const struct mg_target *target)
{
  return target->cell && atomic_load_explicit(&target->cell->down, memory_order_relaxed);
}

bool mg_target_rests(const struct mg_target *target, uint64_t now_ms)
{
  return target->health.failures_max && target->failures >= target->health.failures_max &&
         now_ms < target->rests_until_ms;
}

uint64_t mg_target_up_since_ms(const struct mg_target *target)
{
  return target->cell ? atomic_load_explicit(&target->cell->up_since_ms, memory_order_relaxed) : 0;
}
