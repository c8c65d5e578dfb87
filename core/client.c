/* client.c - one client connection.
 * Owns: the connection, what it has sent and is not used up.   May call: conn, exchange, forward.   Never: decide an
 * answer.
 * Thread: the loop's.   Ends: when its stream is closed. */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "exchange.h"
#include "log.h"

static const struct mg_conn_events client_events;

static void set_peer(struct mg_client *client, const struct sockaddr_storage *address)
{
  char text[INET6_ADDRSTRLEN] = "";
  if (address->ss_family == AF_INET)
    uv_ip4_name((const struct sockaddr_in *)address, text, sizeof text);
  else if (address->ss_family == AF_INET6)
    uv_ip6_name((const struct sockaddr_in6 *)address, text, sizeof text);
  const struct mg_settings *settings = client->gateway->settings;
  if (!mg_address_parse(mg_str(text, strlen(text)), &client->peer)) return;
  for (unsigned i = 0; i < settings->trusted_count; i++)
    if (mg_network_has(&settings->trusted[i], &client->peer)) client->peer_trusted = true;
}

/* Makes a client of an accepted descriptor (taken). */
static void begin(struct mg_gateway *gateway, int fd, const struct sockaddr_storage *peer)
{
  struct mg_client *client = mg_pool_get(&gateway->client_pool);
  memset(client, 0, sizeof *client);
  client->gateway = gateway;
  if (mg_conn_adopt(&client->conn, &gateway->net, fd, &client_events)) {
    mg_pool_put(&gateway->client_pool, client);
    return;
  }
  client->next = gateway->clients;
  if (client->next) client->next->previous = client;
  gateway->clients = client;
  gateway->client_count++;
  mg_count(&gateway->cell->count.connections_accepted, 1);
  mg_count(&gateway->cell->count.connections_active, 1);
  set_peer(client, peer);
  mg_conn_timeout(&client->conn, gateway->settings->idle_timeout_ms);
  mg_conn_read(&client->conn);
}

int mg_client_accept(struct mg_gateway *gateway, int listener)
{
  struct sockaddr_storage peer;
  socklen_t size = sizeof peer;
  int fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    begin(gateway, fd, &peer);
    return 0;
  }
  switch (errno) {
  case EMFILE:
  case ENFILE:
  case ENOBUFS:
  case ENOMEM:
    return MG_EOVERLOAD;
  case ECONNABORTED:
  case EINTR:
  case EPROTO:
    return 0; /* that one is gone again; the next may be fine */
  default:
    return MG_EAGAIN_LATER;
  }
}

void mg_client_arm(struct mg_client *client)
{
  const struct mg_exchange *ex = client->exchange;
  if (!ex || ex->tunnel || client->lingering || client->conn.queued || client->conn.closing) return;
  bool waits_for_body = !ex->request_done && client->conn.reading;
  mg_conn_timeout(&client->conn, waits_for_body ? client->gateway->settings->body_timeout_ms : 0);
}

void mg_client_read_on(struct mg_client *client)
{
  if (client->in.len >= MG_HELD_BYTES_MAX)
    mg_conn_pause(&client->conn);
  else if (!client->conn.reading) {
    mg_conn_read(&client->conn);
    if (client->exchange) { /* the rate of a body is measured while it is read */
      client->exchange->rate_since_ms = 0;
      client->exchange->rate_bytes = client->exchange->request_body.body_size;
    }
  }
  mg_client_arm(client);
}

/* --- requests, one after the other -------------------------------------------------------------------------------- */

/* A head that comes in pieces is parsed when it is whole, or has doubled: early enough to refuse nonsense, and
 * linear. */
static bool worth_parsing(struct mg_client *client)
{
  const struct mg_inflow *in = &client->in;
  if (!client->head_tried) return true;
  size_t scanned = client->head_scanned;
  bool complete = mg_head_complete(in->at, in->len, &scanned);
  client->head_scanned = (uint32_t)scanned;
  return complete || in->len >= 2 * (size_t)client->head_tried;
}

static struct mg_exchange *begin_exchange(struct mg_client *client)
{
  struct mg_exchange *ex = mg_exchange_new(client->gateway, client);
  client->exchange = ex;
  if (!ex) {
    mg_log(MG_LOG_WARN, "too many exchanges at once; a connection is closed");
    mg_conn_close(&client->conn);
  }
  return ex;
}

/* What some clients send behind a body, and nothing else (RFC 9112, 2.2). */
static bool only_line_ends(const struct mg_inflow *in)
{
  for (size_t i = 0; i < in->len; i++)
    if (in->at[i] != '\r' && in->at[i] != '\n') return false;
  return true;
}

/* What is there is no whole head: it waits, without an exchange, for at most the head's time. */
static void wait_for_head(struct mg_client *client)
{
  struct mg_exchange *ex = client->exchange;
  client->exchange = NULL;
  ex->running = false;
  mg_exchange_forget(ex);
  if (only_line_ends(&client->in)) return; /* the connection is idle all the same */
  uint64_t now = uv_now(client->conn.net->loop);
  if (!client->head_tried) client->head_since_ms = now;
  client->head_tried = (uint32_t)client->in.len;
  uint64_t deadline = client->head_since_ms + client->gateway->settings->head_timeout_ms;
  mg_timer_set_at(&client->conn.net->wheel, &client->conn.timer, deadline);
}

void mg_client_pump(struct mg_client *client)
{
  if (client->pumping) return;
  client->pumping = true;
  while (!client->conn.closing && !client->lingering) {
    if (!client->exchange) {
      if (!client->in.len || !worth_parsing(client) || !begin_exchange(client)) break;
    }
    struct mg_exchange *ex = client->exchange;
    mg_exchange_run(ex);
    if (client->exchange != ex) continue; /* done: the next one may be here already */
    if (ex->step == MG_STEP_HEAD)
      wait_for_head(client);
    else
      client->head_tried = client->head_scanned = 0, mg_client_arm(client);
    if (!client->half_closed) break;
    if (!client->exchange)
      mg_conn_close(&client->conn); /* the rest of that head will not come */
    else if (!ex->request_done)
      mg_exchange_client_ended(ex, MG_ECLOSED);
    if (client->exchange == ex) break;
  }
  client->pumping = false;
}

static void discard_input(struct mg_client *client)
{
  mg_inflow_take(&client->in, client->in.len);
}

void mg_client_exchange_done(struct mg_client *client, bool keep)
{
  struct mg_gateway *gateway = client->gateway;
  client->exchange = NULL;
  client->served = true;
  client->head_tried = client->head_scanned = 0;
  if (!client->in.len) mg_inflow_keep(&client->in); /* an idle connection holds no buffer */
  if (client->conn.closing) return;
  if (!keep || (client->half_closed && !client->in.len)) {
    mg_client_linger(client);
    return;
  }
  if (gateway->draining && !client->in.len && !gateway->handed_over_idle_ms) {
    mg_conn_close(&client->conn);
    return;
  }
  mg_conn_timeout(&client->conn, gateway->draining ? gateway->handed_over_idle_ms : gateway->settings->idle_timeout_ms);
  mg_conn_read(&client->conn);
  if (client->pumping || !client->in.len) return;
  mg_client_pump(client);
  mg_inflow_keep(&client->in);
}

void mg_client_linger(struct mg_client *client)
{
  if (client->conn.closing || client->lingering) return;
  if (client->half_closed || client->conn.ended) {
    mg_conn_close(&client->conn);
    return;
  }
  client->lingering = true;
  discard_input(client);
  mg_conn_shutdown(&client->conn);
  mg_conn_timeout(&client->conn, MG_LINGER_MS);
  mg_conn_read(&client->conn);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void on_data(struct mg_conn *conn, char *bytes, size_t len)
{
  struct mg_client *client = (struct mg_client *)conn;
  if (client->lingering) return;
  mg_inflow_add(&client->in, bytes, len);
  mg_client_pump(client);
  mg_inflow_keep(&client->in);
  if (client->in.len >= MG_HELD_BYTES_MAX) mg_conn_pause(conn);
  mg_client_arm(client);
}

static void on_end(struct mg_conn *conn, int err)
{
  struct mg_client *client = (struct mg_client *)conn;
  client->half_closed = true;
  if (client->exchange)
    mg_exchange_client_ended(client->exchange, err);
  else
    mg_conn_close(conn);
}

static void on_drained(struct mg_conn *conn, int err)
{
  struct mg_client *client = (struct mg_client *)conn;
  if (client->exchange) mg_exchange_client_drained(client->exchange, err);
}

static void on_timeout(struct mg_conn *conn)
{
  struct mg_client *client = (struct mg_client *)conn;
  if (client->exchange) {
    mg_exchange_client_timeout(client->exchange);
  } else if (client->head_tried && !client->lingering && begin_exchange(client)) {
    struct mg_exchange *ex = client->exchange;
    ex->close = true;
    ex->request_broken = true;
    mg_exchange_fail(ex, MG_EHEADSLOW);
    mg_exchange_run(ex);
  } else {
    mg_conn_close(conn);
  }
}

static void on_connected(struct mg_conn *conn, int err)
{
  (void)conn, (void)err; /* accepted, never connected */
}

static void on_closed(struct mg_conn *conn)
{
  struct mg_client *client = (struct mg_client *)conn;
  struct mg_gateway *gateway = client->gateway;
  MG_ASSERT(!client->exchange);
  if (client->previous)
    client->previous->next = client->next;
  else
    gateway->clients = client->next;
  if (client->next) client->next->previous = client->previous;
  mg_inflow_free(&client->in);
  mg_pool_put(&gateway->client_pool, client);
  gateway->client_count--;
  mg_count(&gateway->cell->count.connections_active, -1);
  mg_gateway_client_gone(gateway);
}

static const struct mg_conn_events client_events = {.data = on_data,
                                                    .end = on_end,
                                                    .drained = on_drained,
                                                    .timeout = on_timeout,
                                                    .connected = on_connected,
                                                    .closed = on_closed};
