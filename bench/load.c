/* load.c - the load generator's loop: connections, schedule, answers.
 * Owns: connections and the clock.   May call: conn, http1, request, histogram.   Never: let an answer move the
 * schedule.
 * Thread: one.   Ends: when what was due is answered, or the time-out after the end has passed. */
#include "load.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "conn.h"
#include "http1.h"
#include "log.h"

enum { OPENING_MAX = 128, START_MS = 15000, ARENA_BYTES = 4096, RETRY_MS = 50, LATE_MS = 10 };
static const uint64_t second_ns = 1000000000;

enum state { PAUSING, OPENING, FREE, BUSY, IDLE, GONE };

struct client {
  struct mg_conn base; /* first: callbacks cast back */
  struct load *load;
  enum state state;
  bool idle;    /* one of those that never send */
  bool counted; /* the request in flight was due after the warm-up */
  bool in_body;
  bool refused; /* the last attempt to connect failed */
  uint64_t due_ns, sent_ns;
  uint64_t sent;    /* BENCH_TICKS: requests of its own so far */
  struct mg_buf in; /* a head that came in pieces */
  size_t scanned;
  bool keep_alive;
  unsigned status;
  struct mg_body_decoder body;
  struct mg_arena arena;
  char arena_bytes[ARENA_BYTES];
};

struct load {
  const struct bench_load_options *options;
  const struct bench_request *request;
  struct bench_load_result *result;
  struct sockaddr_in address;
  uv_loop_t loop;
  struct mg_net net;
  uv_poll_t clock; /* on a timerfd: libuv's own timers count milliseconds */
  uv_timer_t deadline;
  int clock_fd;
  struct client *clients;
  unsigned client_count, next_to_open, opening, ready;
  uint32_t *free_ring; /* indexes of free clients, first freed first used */
  unsigned free_at, free_count, busy;
  uint64_t clock_ns;              /* when the clock goes off */
  struct bench_schedule schedule; /* start_ns 0: not all connections are there yet */
  uint64_t warm_ns, end_ns;
  uint64_t issued;
  struct mg_pool pool;
  struct mg_buf scratch;
  bool over, failed;
};

static void open_client(struct client *client);

/* ---- the clock ---- */

static void set_clock(struct load *load, uint64_t at_ns)
{
  load->clock_ns = at_ns;
  struct itimerspec when = {.it_value = {(time_t)(at_ns / second_ns), (long)(at_ns % second_ns)}};
  MG_ASSERT(timerfd_settime(load->clock_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

static void note_lateness(struct load *load, uint64_t wanted_ns)
{
  uint64_t now = uv_hrtime();
  if (now > wanted_ns && now - wanted_ns > load->result->late_ns) load->result->late_ns = now - wanted_ns;
}

static void arm_clock(struct load *load, uint64_t now)
{
  if (load->over || load->options->rate == 0) return;
  if (bench_schedule_ticks(&load->schedule))
    set_clock(load, load->schedule.start_ns + ((now - load->schedule.start_ns) / BENCH_TICK_NS + 1) * BENCH_TICK_NS);
  else if (load->free_count)
    set_clock(load, bench_schedule_due(&load->schedule));
}

/* ---- sending ---- */

static void put_free(struct client *client)
{
  struct load *load = client->load;
  client->state = FREE;
  if (bench_schedule_ticks(&load->schedule)) return;
  unsigned slot = (load->free_at + load->free_count++) % load->options->connections;
  load->free_ring[slot] = (uint32_t)(client - load->clients);
}

static struct client *take_free(struct load *load)
{
  struct client *client = &load->clients[load->free_ring[load->free_at]];
  load->free_at = (load->free_at + 1) % load->options->connections;
  load->free_count--;
  return client;
}

/* A free connection broke: the ring is gone round once without it. */
static void remove_free(struct client *client)
{
  struct load *load = client->load;
  for (unsigned left = load->free_count; left; left--) {
    struct client *other = take_free(load);
    if (other != client) put_free(other);
  }
}

/* now is when the request was made ready: in ticks, those of a tick are made ready together. */
static void send_request(struct client *client, uint64_t due, uint64_t now)
{
  struct load *load = client->load;
  struct mg_str text = bench_request_write(load->request, load->issued++, &load->scratch);
  client->state = BUSY;
  client->due_ns = due;
  client->counted = due >= load->warm_ns;
  client->in_body = false;
  client->scanned = 0;
  client->in.len = 0;
  load->busy++;
  load->result->sent++;
  if (client->counted) load->result->due++;
  mg_conn_timeout(&client->base, load->options->timeout_ns / 1000000);
  client->sent_ns = now;
  uv_buf_t buf = uv_buf_init((char *)text.ptr, (unsigned)text.len);
  mg_conn_write(&client->base, &buf, 1); /* a broken connection shows as its end */
}

static void send_in_ticks(struct load *load, uint64_t now)
{
  for (unsigned i = 0; i < load->options->connections; i++) {
    struct client *client = &load->clients[i];
    if (client->state != FREE) continue;
    uint64_t due = bench_schedule_own(&load->schedule, client->sent);
    if (due > now || due >= load->end_ns) continue;
    client->sent++;
    send_request(client, due, now);
  }
}

static void send_what_is_due(struct load *load)
{
  if (load->over || load->schedule.start_ns == 0) return;
  uint64_t now = uv_hrtime();
  if (bench_schedule_ticks(&load->schedule)) {
    send_in_ticks(load, now);
  } else {
    while (load->free_count) {
      bool paced = load->options->rate > 0;
      uint64_t due = paced ? bench_schedule_due(&load->schedule) : now;
      if (due > now || due >= load->end_ns) break;
      struct client *client = take_free(load);
      if (paced) bench_schedule_next(&load->schedule);
      send_request(client, due, now);
      now = uv_hrtime();
    }
  }
  arm_clock(load, now);
}

/* ---- the end ---- */

/* Waiting requests count with the time they have waited so far: leaving them out would flatter the server. */
static void count_unsent(struct load *load, uint64_t due)
{
  if (due < load->warm_ns) return;
  load->result->due++;
  load->result->faults[BENCH_FAULT_unsent]++;
  bench_histogram_add(load->result->latency, load->end_ns - due);
}

static void count_all_unsent(struct load *load)
{
  if (load->options->rate == 0) return;
  if (bench_schedule_ticks(&load->schedule)) {
    for (unsigned i = 0; i < load->options->connections; i++)
      for (uint64_t due; (due = bench_schedule_own(&load->schedule, load->clients[i].sent)) < load->end_ns;
           load->clients[i].sent++)
        count_unsent(load, due);
    return;
  }
  for (uint64_t due; (due = bench_schedule_due(&load->schedule)) < load->end_ns; bench_schedule_next(&load->schedule))
    count_unsent(load, due);
}

static void on_net_closed(struct mg_net *net)
{
  (void)net;
}

static void finish(struct load *load)
{
  if (uv_is_closing((uv_handle_t *)&load->deadline)) return;
  for (unsigned i = 0; i < load->next_to_open; i++)
    if (load->clients[i].state != GONE) mg_conn_close(&load->clients[i].base);
  uv_close((uv_handle_t *)&load->deadline, NULL);
  uv_close((uv_handle_t *)&load->clock, NULL);
  mg_net_close(&load->net, on_net_closed);
}

static void on_deadline(uv_timer_t *timer)
{
  struct load *load = timer->data;
  if (load->schedule.start_ns == 0) {
    load->failed = true;
    load->over = true;
    finish(load);
  } else if (!load->over) {
    load->over = true;
    note_lateness(load, load->end_ns + LATE_MS * 1000000);
    count_all_unsent(load);
    if (load->busy == 0) finish(load);
  }
}

/* All connections stand: the schedule starts a moment later. */
static void start(struct load *load)
{
  load->schedule.start_ns = uv_hrtime() + 20 * 1000000;
  load->warm_ns = load->schedule.start_ns + load->options->warmup_ns;
  load->end_ns = load->schedule.start_ns + load->options->duration_ns;
  uv_update_time(&load->loop);
  uv_timer_start(&load->deadline, on_deadline, load->options->duration_ns / 1000000 + 20 + LATE_MS, 0);
  set_clock(load, load->schedule.start_ns);
}

/* ---- answers ---- */

static void request_over(struct client *client)
{
  struct load *load = client->load;
  if (client->state == BUSY) load->busy--;
  mg_conn_timeout(&client->base, 0);
  if (load->over && load->busy == 0) finish(load);
}

static void fail(struct client *client, enum bench_fault fault)
{
  struct load *load = client->load;
  bool was_busy = client->state == BUSY;
  if (was_busy && client->counted) {
    load->result->faults[fault]++;
    bench_histogram_add(load->result->latency, uv_hrtime() - client->due_ns);
  }
  if (client->state == FREE) remove_free(client);
  if (client->state == IDLE) load->result->idle_lost++;
  if (load->schedule.start_ns == 0 && client->state != OPENING) load->ready--;
  request_over(client);
  client->state = GONE;
  mg_conn_close(&client->base);
}

static void answered(struct client *client)
{
  struct load *load = client->load;
  struct bench_load_result *result = load->result;
  uint64_t now = uv_hrtime();
  if (client->counted) {
    result->answered++;
    result->statuses[client->status / 100]++;
    if (client->status < 200 || client->status >= 400) result->faults[BENCH_FAULT_status]++;
    bench_histogram_add(result->latency, now - client->due_ns);
    bench_histogram_add(result->service, now - client->sent_ns);
  }
  if (now >= load->warm_ns && now < load->end_ns) result->in_window++;
  request_over(client);
  if (!client->keep_alive) {
    client->state = GONE;
    mg_conn_close(&client->base);
    return;
  }
  put_free(client);
}

/* Reads what it can of a head; *at moves on. 1: it is there, 0: more is needed, -1: it is none. */
static int take_head(struct client *client, char *bytes, size_t len, size_t *at)
{
  static const struct mg_head_limits limits = {16384, 65536, 200};
  mg_arena_reset(&client->arena, client->arena_bytes, ARENA_BYTES);
  struct mg_response_head head = {0};
  mg_headers_init(&head.headers, &client->arena);
  int taken = mg_response_head_parse(&head, bytes + *at, len - *at, client->load->request->method_id, &limits);
  if (taken <= 0) return taken < 0 ? -1 : 0;
  *at += (size_t)taken;
  if (head.status < 200) return head.status == 101 ? -1 : take_head(client, bytes, len, at);
  client->status = head.status;
  client->keep_alive = head.keep_alive;
  client->in_body = true;
  return mg_body_start(&client->body, head.framing, head.content_length, &client->arena, NULL) == 0 ? 1 : -1;
}

static void take(struct client *client, char *bytes, size_t len)
{
  size_t at = 0;
  if (!client->in_body) {
    int found = take_head(client, bytes, len, &at);
    if (found < 0) return fail(client, BENCH_FAULT_malformed);
    if (found == 0) {
      if (client->in.ptr == bytes)
        mg_buf_consume(&client->in, at);
      else
        mg_buf_append(&client->in, bytes + at, len - at);
      return;
    }
  }
  struct mg_body_piece piece;
  if (mg_body_decode(&client->body, bytes + at, len - at, &piece) != 0) return fail(client, BENCH_FAULT_malformed);
  if (client->counted) client->load->result->bytes += piece.len;
  if (!piece.last) return;
  if (piece.consumed != len - at) return fail(client, BENCH_FAULT_malformed);
  answered(client);
}

static void on_data(struct mg_conn *conn, char *bytes, size_t len)
{
  struct client *client = (struct client *)conn;
  struct load *load = client->load;
  if (client->state != BUSY) {
    fail(client, BENCH_FAULT_malformed);
  } else if (client->in.len && !client->in_body) {
    mg_buf_append(&client->in, bytes, len);
    take(client, client->in.ptr, client->in.len);
  } else {
    take(client, bytes, len);
  }
  send_what_is_due(load);
}

/* ---- connections ---- */

static void open_more(struct load *load)
{
  while (load->next_to_open < load->client_count && load->opening < OPENING_MAX)
    open_client(&load->clients[load->next_to_open++]);
}

static void on_connected(struct mg_conn *conn, int err)
{
  struct client *client = (struct client *)conn;
  struct load *load = client->load;
  load->opening--;
  if (err) {
    if (load->schedule.start_ns && !load->over) load->result->faults[BENCH_FAULT_connect]++;
    client->refused = true;
    client->state = GONE;
    mg_conn_close(conn);
    return;
  }
  mg_conn_read(conn);
  if (client->idle)
    client->state = IDLE;
  else
    put_free(client);
  if (load->schedule.start_ns == 0 && ++load->ready == load->client_count) start(load);
  open_more(load);
  send_what_is_due(load);
}

static void on_end(struct mg_conn *conn, int err)
{
  struct client *client = (struct client *)conn;
  (void)err;
  if (client->state == BUSY && client->in_body && mg_body_end(&client->body) == 0) {
    client->keep_alive = false;
    answered(client);
    return;
  }
  fail(client, BENCH_FAULT_closed);
}

static void connect_client(struct client *client)
{
  struct load *load = client->load;
  client->state = OPENING;
  client->refused = false;
  load->opening++;
  int err = mg_conn_connect(&client->base, (const struct sockaddr *)&load->address);
  if (err) on_connected(&client->base, err);
}

static void on_timeout(struct mg_conn *conn)
{
  struct client *client = (struct client *)conn;
  if (client->state == PAUSING)
    connect_client(client);
  else
    fail(client, BENCH_FAULT_timeout);
}

static void on_drained(struct mg_conn *conn, int err)
{
  (void)conn, (void)err;
}

/* A connection that broke is made anew. */
static void on_closed(struct mg_conn *conn)
{
  struct client *client = (struct client *)conn;
  if (!client->load->over && !(client->idle && client->load->schedule.start_ns)) open_client(client);
}

static void open_client(struct client *client)
{
  static const struct mg_conn_events events = {on_data, on_end, on_drained, on_timeout, on_connected, on_closed};
  MG_ASSERT(mg_conn_open(&client->base, &client->load->net, AF_INET, &events) == 0);
  client->state = PAUSING;
  if (client->refused)
    mg_conn_timeout(&client->base, RETRY_MS);
  else
    connect_client(client);
}

/* ---- the run ---- */

static void on_clock(uv_poll_t *poll, int status, int events)
{
  struct load *load = poll->data;
  uint64_t expirations;
  (void)status, (void)events;
  if (read(load->clock_fd, &expirations, sizeof expirations) != sizeof expirations) return;
  note_lateness(load, load->clock_ns);
  send_what_is_due(load);
}

static void prepare(struct load *load)
{
  const struct bench_load_options *options = load->options;
  load->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)options->port)};
  inet_pton(AF_INET, options->host, &load->address.sin_addr);
  load->schedule = (struct bench_schedule){.arrival = options->arrival,
                                           .rate = options->rate,
                                           .connections = options->connections,
                                           .random = options->seed | 1};
  load->client_count = options->connections + options->idle;
  load->clients = mg_calloc(load->client_count, sizeof *load->clients);
  load->free_ring = mg_calloc(options->connections, sizeof *load->free_ring);
  mg_pool_init(&load->pool, 65536, 64);
  for (unsigned i = 0; i < load->client_count; i++) {
    struct client *client = &load->clients[i];
    client->load = load;
    client->idle = i >= options->connections;
    mg_arena_init(&client->arena, client->arena_bytes, ARENA_BYTES, &load->pool, 1 << 20);
  }
  MG_ASSERT(uv_loop_init(&load->loop) == 0);
  mg_net_open(&load->net, &load->loop);
  load->clock_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  uv_poll_init(&load->loop, &load->clock, load->clock_fd);
  load->clock.data = load;
  uv_poll_start(&load->clock, UV_READABLE, on_clock);
  uv_timer_init(&load->loop, &load->deadline);
  load->deadline.data = load;
  uv_timer_start(&load->deadline, on_deadline, START_MS, 0);
}

bool bench_load_run(const struct bench_load_options *options, const struct bench_request *request,
                    struct bench_load_result *result, struct mg_buf *error)
{
  struct load load = {.options = options, .request = request, .result = result};
  prepare(&load);
  open_more(&load);
  uv_run(&load.loop, UV_RUN_DEFAULT);
  MG_ASSERT(uv_loop_close(&load.loop) == 0);
  if (load.failed)
    mg_buf_printf(error, "only %u of %u connections to %s:%u could be made in %d s", load.ready, load.client_count,
                  options->host, options->port, START_MS / 1000);
  for (unsigned i = 0; i < load.client_count; i++) {
    mg_arena_reset(&load.clients[i].arena, load.clients[i].arena_bytes, ARENA_BYTES);
    mg_buf_free(&load.clients[i].in);
  }
  mg_pool_destroy(&load.pool);
  mg_buf_free(&load.scratch);
  free(load.clients);
  free(load.free_ring);
  close(load.clock_fd);
  return !load.failed;
}
