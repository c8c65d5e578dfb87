/* exchange_tunnel.c - after a 101: bytes both ways until both sides have ended (RFC 9110, 7.8).
 * Owns: nothing of its own.   May call: conn.   Never: read what passes.   Thread: the loop's. */
#include "exchange.h"

/* Moves all that has come on one side to the other; a slow receiver pauses the sender. */
static int move(struct mg_inflow *in, struct mg_conn *from, struct mg_conn *to, uint64_t *count)
{
  if (!in->len) return 0;
  uv_buf_t buf = uv_buf_init(in->at, (unsigned)in->len);
  int result = mg_conn_write(to, &buf, 1);
  if (result < 0) return result;
  *count += in->len;
  mg_inflow_take(in, in->len);
  if (result == 1) mg_conn_pause(from);
  return 0;
}

/* The tunnel needs nothing of its generation any more: a reload must not wait for it. */
static void let_go(struct mg_exchange *ex)
{
  if (ex->counted) return;
  mg_exchange_account(ex);
  mg_gateway_release(ex->gateway, ex->generation);
  ex->generation = NULL;
  ex->plan = NULL;
  mg_timer_off(&ex->limit); /* the time for an exchange is not for tunnels */
  mg_conn_timeout(&ex->up->conn, 0);
}

static enum mg_next end(struct mg_exchange *ex, int err)
{
  ex->err = err;
  ex->close = true;
  ex->response_done = true;
  mg_exchange_leave_upstream(ex, false);
  mg_conn_close(&ex->client->conn);
  ex->step = MG_STEP_CLOSE;
  return MG_NEXT;
}

enum mg_next mg_tunnel_run(struct mg_exchange *ex)
{
  struct mg_conn *client = &ex->client->conn, *up = &ex->up->conn;
  if (!ex->head_sent) {
    uv_buf_t head = uv_buf_init((char *)ex->client_head.ptr, (unsigned)ex->client_head.len);
    if (mg_conn_write(client, &head, 1) < 0) return mg_exchange_break(ex, MG_ERESET);
    ex->head_sent = true;
    let_go(ex);
  }
  if (move(&ex->client->in, client, up, &ex->up_body_written) || move(&ex->up_in, up, client, &ex->response_bytes))
    return end(ex, MG_ERESET);
  if (ex->up_err == MG_ERESET || ex->tunnel_reset) return end(ex, MG_ERESET);
  if (ex->client->half_closed && !ex->up_shut && !up->queued) ex->up_shut = true, mg_conn_shutdown(up);
  if (ex->up_ended && !ex->client_shut && !client->queued) ex->client_shut = true, mg_conn_shutdown(client);
  if (ex->up_shut && ex->client_shut) return end(ex, 0);
  if (!up->queued) mg_conn_read(client);
  if (!client->queued) mg_conn_read(up);
  mg_conn_timeout(client, ex->gateway->settings->idle_timeout_ms);
  return MG_WAIT;
}
