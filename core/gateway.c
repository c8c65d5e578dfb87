/* gateway.c - one worker's data path: listeners, generations, drain.
 * Owns: the listeners, all client connections, the generations, the slots of exchanges.   May call: client,
 * upstream, script.
 * Never: read a file.   Thread: the loop's. */
#include "gateway.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "access_log.h"
#include "api.h"
#include "client.h"
#include "exchange.h"
#include "log.h"
#include "processors.h"

enum {
  EXCHANGES_KEPT = 1024,
  CHUNKS_KEPT = 64,
  CLIENTS_KEPT = 1024,
  FIRST_REQUEST_MS = 1000,
  ACCEPTS_MAX = 64,
  FLUSH_MS = 50,
  HANDED_OVER_IDLE_MS = 5000
};

/* Of libuv's pool; what is left over for fetching is there even while every other thread hashes. */
enum { POOL_THREADS = 4, FETCHING_MAX = 1 };

static void resume_accepting(struct mg_gateway *gateway);

/* --- the clock ---------------------------------------------------------------------------------------------------- */

/* Good until the second is over, or for half of one: the wall's clock may be set. */
static void update_clock(struct mg_gateway *gateway)
{
  uint64_t now_ms = uv_now(gateway->net.loop);
  if (now_ms < gateway->clock_good_ms) return;
  struct timespec wall;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &wall);
  uint64_t left_ms = 1000 - (uint64_t)wall.tv_nsec / 1000000;
  gateway->clock_good_ms = now_ms + (left_ms < 500 ? left_ms : 500);
  gateway->wall_offset_ms = (uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_nsec / 1000000 - uv_hrtime() / 1000000;
  gmtime_r(&wall.tv_sec, &utc);
  gateway->date_len = strftime(gateway->date, sizeof gateway->date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
}

struct mg_str mg_gateway_date(struct mg_gateway *gateway)
{
  update_clock(gateway);
  return mg_str(gateway->date, gateway->date_len);
}

static void meter_calls(struct mg_gateway *gateway)
{
  if (gateway->current) mg_generation_meter_calls(gateway->current);
  for (struct mg_generation *older = gateway->older; older; older = older->next) mg_generation_meter_calls(older);
}

static void on_clock(struct mg_timer *timer)
{
  struct mg_gateway *gateway = (struct mg_gateway *)((char *)timer - offsetof(struct mg_gateway, clock));
  update_clock(gateway);
  mg_meters_tick(gateway->meters);
  meter_calls(gateway);
  mg_timer_set(&gateway->net.wheel, timer, 1000);
  if (gateway->starved && !gateway->draining) resume_accepting(gateway);
}

/* --- listeners ---------------------------------------------------------------------------------------------------- */

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void watch_listeners(struct mg_gateway *gateway)
{
  for (unsigned i = 0; i < gateway->listener_count; i++) {
    struct mg_listener *listener = &gateway->listeners[i];
    if (!listener->open || listener->watched == !gateway->paused) continue;
    listener->watched = !gateway->paused;
    if (listener->watched)
      uv_poll_start(&listener->poll, UV_READABLE, on_acceptable);
    else
      uv_poll_stop(&listener->poll);
  }
}

/* At the limit, or without a descriptor to spare, nothing is taken: the rest waits in the backlog, where the client
 * sees no error. */
static void pause_accepting(struct mg_gateway *gateway, bool starved)
{
  if (starved) mg_log(MG_LOG_WARN, "no descriptor for another connection; %u are open", gateway->client_count);
  gateway->starved = starved; /* then nobody's leaving may tell: the clock tries again */
  gateway->paused = true;
  watch_listeners(gateway);
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
  struct mg_listener *listener = poll->data;
  struct mg_gateway *gateway = listener->gateway;
  (void)status, (void)events;
  for (int i = 0; i < ACCEPTS_MAX; i++) {
    if (gateway->client_count >= gateway->clients_max) {
      pause_accepting(gateway, false);
      return;
    }
    int err = mg_client_accept(gateway, listener->fd);
    if (err == MG_EOVERLOAD) pause_accepting(gateway, true);
    if (err) return;
  }
}

static void resume_accepting(struct mg_gateway *gateway)
{
  if (gateway->client_count >= gateway->clients_max) return;
  gateway->paused = gateway->starved = false;
  watch_listeners(gateway);
}

static int open_listener(struct mg_gateway *gateway, struct mg_listener *listener, int fd)
{
  static const int on = 1;
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  listener->gateway = gateway;
  listener->fd = fd;
  if (uv_poll_init_socket(gateway->net.loop, &listener->poll, fd)) return MG_EINTERNAL;
  listener->poll.data = listener;
  listener->open = true;
  gateway->open_handles++;
  if (getsockname(fd, (struct sockaddr *)&address, &size)) return MG_EINTERNAL;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* what is accepted inherits it */
  gateway->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                      : ((struct sockaddr_in *)&address)->sin_port);
  return 0;
}

static void start_accepting(struct mg_gateway *gateway)
{
  gateway->accepting = true;
  for (unsigned i = 0; i < gateway->listener_count; i++)
    if (listen(gateway->listeners[i].fd, (int)gateway->settings->backlog))
      mg_log(MG_LOG_ERROR, "listen failed: %s", strerror(errno));
  watch_listeners(gateway);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static uint64_t share(uint64_t total, uint64_t workers)
{
  return workers ? (total + workers - 1) / workers : total;
}

/* Connections this process can hold: each client may need a second descriptor for its upstream. */
static unsigned descriptor_share(unsigned wanted)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return wanted;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  uint64_t most = limit.rlim_cur - limit.rlim_cur / 4; /* idle ones, the greater part, need no second one */
  if (most >= wanted) return wanted;
  mg_log(MG_LOG_WARN, "%llu descriptors allow %llu connections, not %u", (unsigned long long)limit.rlim_cur,
         (unsigned long long)most, wanted);
  return (unsigned)most;
}

static uint64_t random_start(void)
{
  uint64_t random = 0;
  if (uv_random(NULL, NULL, &random, sizeof random, 0, NULL)) random = uv_hrtime() * 0x9e3779b97f4a7c15u;
  return random;
}

static void open_offloads(struct mg_gateway *gateway)
{
  unsigned hashing = (unsigned)share(mg_processors(), gateway->settings->workers);
  if (hashing > POOL_THREADS - FETCHING_MAX) hashing = POOL_THREADS - FETCHING_MAX;
  gateway->offload = mg_offload_open(gateway->net.loop, &gateway->net.wheel, hashing);
  gateway->fetching = mg_offload_open(gateway->net.loop, &gateway->net.wheel, FETCHING_MAX);
}

int mg_gateway_open(struct mg_gateway **out, uv_loop_t *loop, const struct mg_settings *settings, struct mg_shm *shm,
                    unsigned slot, const int *listeners, unsigned listener_count, int standard_out)
{
  struct mg_gateway *gateway = mg_calloc(1, sizeof *gateway);
  *out = gateway;
  gateway->settings = settings;
  gateway->cell = mg_shm_worker(shm, slot);
  gateway->turn = (struct mg_turn){.meter = -1, .position = (uint32_t *)&gateway->cell->running_filter};
  gateway->meters = mg_shm_meters(shm, slot);
  gateway->shm_slot = (uint16_t)slot;
  gateway->slot = (uint16_t)(slot + mg_shm_first_slot(shm));
  gateway->id_count = gateway->id_base = random_start();
  gateway->clients_max = descriptor_share((unsigned)share(settings->connections_max, settings->workers));
  mg_gateway_open_tracing(gateway);
  mg_net_open(&gateway->net, loop);
  gateway->access_log = mg_access_log_open(loop, settings, standard_out);
  mg_upstreams_open(&gateway->upstreams, &gateway->net, shm, gateway->cell);
  gateway->upstreams.idle_ttl_ms = settings->pool_ttl_ms;
  open_offloads(gateway);
  gateway->upstreams.workers = (unsigned)settings->workers;
  gateway->upstreams.connections_max = (unsigned)share(settings->target_connections_max, settings->workers);
  gateway->upstreams.queue_max = (unsigned)share(settings->target_queue_max, settings->workers);
  gateway->slots = mg_calloc(MG_SLOTS, sizeof *gateway->slots);
  gateway->slot_generations = mg_calloc(MG_SLOTS, sizeof *gateway->slot_generations);
  gateway->free_slots = mg_calloc(MG_SLOTS, sizeof *gateway->free_slots);
  mg_pool_init(&gateway->exchange_pool, MG_EXCHANGE_BYTES, EXCHANGES_KEPT);
  mg_pool_init(&gateway->arena_pool, MG_ARENA_CHUNK_BYTES, CHUNKS_KEPT);
  mg_pool_init(&gateway->client_pool, sizeof(struct mg_client), CLIENTS_KEPT);
  mg_timer_init(&gateway->clock, on_clock);
  on_clock(&gateway->clock);
  gateway->listeners = mg_calloc(listener_count + 1, sizeof *gateway->listeners);
  gateway->listener_count = listener_count;
  for (unsigned i = 0; i < listener_count; i++)
    if (open_listener(gateway, &gateway->listeners[i], listeners[i])) return MG_EINTERNAL;
  if (mg_watchdog_open(&gateway->watchdog, settings->script_call_max_ms)) return MG_EINTERNAL;
  mg_api_bind(gateway);
  return 0;
}

/* --- the journal -------------------------------------------------------------------------------------------------- */

static void on_flush(struct mg_timer *timer)
{
  struct mg_gateway *gateway = (struct mg_gateway *)((char *)timer - offsetof(struct mg_gateway, flush));
  mg_recorder_flush(gateway->recorder, gateway->cell);
  mg_timer_set(&gateway->net.wheel, timer, FLUSH_MS);
}

int mg_gateway_prepare(struct mg_gateway *gateway, const struct mg_generation *generation, struct mg_buf *error)
{
  bool wanted = generation->unrouted.any;
  for (unsigned i = 0; i < generation->plan_count; i++) wanted = wanted || generation->plans[i].journal.any;
  if (!wanted || gateway->recorder) return 0;
  if (mg_recorder_open(&gateway->recorder, gateway, error) != 0) return -1;
  mg_timer_init(&gateway->flush, on_flush);
  mg_timer_set(&gateway->net.wheel, &gateway->flush, FLUSH_MS);
  return 0;
}

/* --- generations -------------------------------------------------------------------------------------------------- */

static void free_if_unused(struct mg_gateway *gateway, struct mg_generation *generation)
{
  if (generation == gateway->current || generation->exchanges) return;
  struct mg_generation **at = &gateway->older;
  while (*at && *at != generation) at = &(*at)->next;
  if (*at) *at = generation->next;
  mg_log(MG_LOG_INFO, "generation %llu has ended", (unsigned long long)generation->number);
  mg_generation_stop(generation);
  mg_generation_free(&generation);
}

void mg_gateway_release(struct mg_gateway *gateway, struct mg_generation *generation)
{
  MG_ASSERT(generation->exchanges);
  generation->exchanges--;
  free_if_unused(gateway, generation);
}

void mg_gateway_switch(struct mg_gateway *gateway, struct mg_generation *generation)
{
  struct mg_generation *before = gateway->current;
  for (unsigned i = 0; i < generation->plan_count; i++) {
    struct mg_plan *plan = &generation->plans[i];
    mg_group_attach(&plan->group, &gateway->upstreams);
    plan->tally = mg_shm_tally(gateway->upstreams.shm, plan->id, gateway->shm_slot);
  }
  mg_generation_start(generation, &gateway->watchdog);
  for (unsigned i = 0; i < generation->metered_count; i++) {
    struct mg_metered *metered = &generation->metered[i];
    struct mg_str route = mg_routes_id(generation->routes, metered->route);
    metered->meter = mg_meters_get(gateway->meters, route, mg_str(metered->name, strlen(metered->name)));
  }
  gateway->current = generation;
  atomic_store(&gateway->cell->generation, generation->number);
  if (before) {
    before->next = gateway->older;
    gateway->older = before;
    free_if_unused(gateway, before);
  }
  if (!gateway->accepting && !gateway->draining) start_accepting(gateway);
}

void mg_gateway_on_worn(struct mg_gateway *gateway, void (*worn)(void *context), void *context)
{
  gateway->worn = worn;
  gateway->worn_context = context;
}

unsigned mg_gateway_generations(const struct mg_gateway *gateway)
{
  unsigned count = gateway->current != NULL;
  for (const struct mg_generation *old = gateway->older; old; old = old->next) count++;
  return count;
}

void mg_gateway_holders(struct mg_gateway *gateway, unsigned most, struct mg_buf *out)
{
  const struct mg_generation *oldest = gateway->older;
  while (oldest && oldest->next) oldest = oldest->next;
  for (unsigned i = 0; oldest && most && i < gateway->slots_used; i++) {
    struct mg_exchange *ex = gateway->slots[i];
    if (!ex || ex->generation != oldest) continue;
    mg_buf_printf(out, " %.26s", mg_exchange_id_text(ex).ptr);
    most--;
  }
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void on_listener_closed(uv_handle_t *handle)
{
  struct mg_listener *listener = handle->data;
  struct mg_gateway *gateway = listener->gateway;
  gateway->open_handles--;
  mg_gateway_client_gone(gateway);
}

static void close_listeners(struct mg_gateway *gateway)
{
  for (unsigned i = 0; i < gateway->listener_count; i++) {
    struct mg_listener *listener = &gateway->listeners[i];
    if (!listener->open) continue;
    listener->open = false;
    uv_close((uv_handle_t *)&listener->poll, on_listener_closed);
    close(listener->fd);
  }
}

void mg_gateway_client_gone(struct mg_gateway *gateway)
{
  if (gateway->paused && !gateway->draining) resume_accepting(gateway);
  if (!gateway->draining || gateway->client_count || gateway->open_handles || !gateway->drained) return;
  void (*drained)(void *) = gateway->drained;
  gateway->drained = NULL;
  mg_upstreams_close_idle(&gateway->upstreams);
  drained(gateway->drained_context);
}

void mg_gateway_drain(struct mg_gateway *gateway, void (*done)(void *context), void *context)
{
  gateway->drained = done;
  gateway->drained_context = context;
  if (!gateway->draining) {
    gateway->draining = true;
    if (mg_shm_listeners_shared(gateway->upstreams.shm)) {
      uint64_t half = gateway->settings->drain_timeout_ms / 2;
      gateway->handed_over_idle_ms = half && half < HANDED_OVER_IDLE_MS ? half : HANDED_OVER_IDLE_MS;
    }
    for (unsigned i = 0; i < gateway->listener_count && !gateway->handed_over_idle_ms; i++) {
      struct mg_listener *listener = &gateway->listeners[i];
      while (gateway->accepting && mg_client_accept(gateway, listener->fd) == 0) continue;
      shutdown(listener->fd, SHUT_RDWR); /* for the master's copy of it as well */
    }
    close_listeners(gateway);
    struct mg_client *next;
    for (struct mg_client *client = gateway->clients; client; client = next) {
      next = client->next;
      if (client->exchange || client->in.len) continue;
      if (gateway->handed_over_idle_ms)
        mg_conn_timeout(&client->conn, gateway->handed_over_idle_ms);
      else if (client->served)
        mg_conn_close(&client->conn);
      else
        mg_conn_timeout(&client->conn, FIRST_REQUEST_MS); /* its request may be under way */
    }
  }
  if (!gateway->client_count && !gateway->open_handles) mg_gateway_client_gone(gateway);
}

void mg_gateway_abort(struct mg_gateway *gateway)
{
  struct mg_client *next;
  for (struct mg_client *client = gateway->clients; client; client = next) {
    next = client->next;
    if (client->exchange)
      mg_exchange_abort(client->exchange);
    else
      mg_conn_close(&client->conn);
  }
}

static void on_net_closed(struct mg_net *net)
{
  struct mg_gateway *gateway = (struct mg_gateway *)((char *)net - offsetof(struct mg_gateway, net));
  mg_upstreams_free(&gateway->upstreams);
  mg_pool_destroy(&gateway->exchange_pool);
  mg_pool_destroy(&gateway->arena_pool);
  mg_pool_destroy(&gateway->client_pool);
  mg_buf_free(&gateway->script_error);
  free(gateway->listeners);
  free(gateway->slots);
  free(gateway->slot_generations);
  free(gateway->free_slots);
  free(gateway);
}

void mg_gateway_close(struct mg_gateway **pointer)
{
  struct mg_gateway *gateway = *pointer;
  *pointer = NULL;
  gateway->draining = true;
  close_listeners(gateway);
  mg_upstreams_close_idle(&gateway->upstreams);
  if (gateway->recorder) {
    mg_timer_remove(&gateway->flush);
    mg_recorder_close(&gateway->recorder);
  }
  struct mg_generation *current = gateway->current;
  gateway->current = NULL;
  if (current) {
    current->next = gateway->older;
    gateway->older = current;
    free_if_unused(gateway, current);
  }
  mg_watchdog_close(&gateway->watchdog);
  mg_timer_remove(&gateway->clock);
  mg_access_log_close(&gateway->access_log);
  mg_api_bind(NULL);
  mg_offload_close(&gateway->offload);
  mg_offload_close(&gateway->fetching);
  mg_net_close(&gateway->net, on_net_closed);
}

void mg_gateway_reopen_logs(struct mg_gateway *gateway)
{
  if (gateway->access_log) mg_access_log_reopen(gateway->access_log);
}
