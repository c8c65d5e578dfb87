/* exchange_response.c - the steps from the answer's head to the end: response, relay, close.
 * Owns: nothing of its own.   May call: http1, forward, conn, exchange_script.   Never: Lua itself.   Thread: the
 * loop's. */
#include "exchange.h"

#include "access_log.h"
#include "log.h"

/* The length of an answer of ours. */
static uint64_t own_length(const struct mg_exchange *ex)
{
  return ex->sends_file ? ex->file_left : ex->answer_body.len;
}

static bool is_bodiless(const struct mg_exchange *ex)
{
  unsigned status = ex->response.status;
  return ex->request.method_id == MG_METHOD_HEAD || status == 204 || status == 304 || status < 200;
}

/* How the body goes out: the client's version and the status decide, whatever came in (RFC 9112, 6.3). */
static void choose_framing(struct mg_exchange *ex, struct mg_response_out *out)
{
  bool ours = ex->source != MG_FROM_UPSTREAM || ex->answer_is_held;
  bool changed = ex->plan && ex->plan->reads_answer; /* the upstream's length says nothing of what goes out */
  out->body = MG_OUT_NONE;
  if (is_bodiless(ex)) {
    ex->discard_body = !ours && !ex->response_body.done;
    bool known = ours && !(ex->answer_is_held && changed); /* to HEAD: as long as what GET would have got */
    if (known && ex->request.method_id == MG_METHOD_HEAD && ex->response.status != 204 && ex->response.status != 304) {
      out->body = MG_OUT_LENGTH;
      out->content_length = own_length(ex);
    } else {
      out->keep_length = ex->response.status != 204 && ex->response.status >= 200 && !changed;
    }
  } else if (ours) {
    out->body = MG_OUT_LENGTH;
    out->content_length = own_length(ex);
  } else if (ex->response.framing == MG_FRAMING_LENGTH && !changed) {
    out->body = MG_OUT_LENGTH;
    out->content_length = ex->response.content_length;
  } else if (ex->response.framing == MG_FRAMING_NONE && !changed) {
    out->body = MG_OUT_LENGTH; /* a status that had no body was given one that has */
  } else {
    out->body = ex->request.minor ? MG_OUT_CHUNKED : MG_OUT_CLOSE;
  }
  ex->body_out = (uint8_t)out->body;
}

/* Reads away what is at hand of a request body nobody wanted, so that a small one does not cost the connection. */
static void skip_request_body(struct mg_exchange *ex)
{
  struct mg_inflow *in = &ex->client->in;
  struct mg_body_piece piece;
  if (ex->request_done || ex->request_broken || !in->len || ex->up_state == MG_UP_SENT) return;
  if (mg_body_decode(&ex->request_body, in->at, in->len, &piece)) {
    ex->request_broken = true;
    return;
  }
  mg_inflow_take(in, piece.consumed);
  ex->request_done = piece.last;
  mg_record_body(ex, 0, piece.data, piece.len);
}

static int write_head(struct mg_exchange *ex)
{
  struct mg_response_out out = {.status = ex->response.status,
                                .reason = ex->response.reason,
                                .headers = &ex->response.headers,
                                .client_minor = ex->request.minor,
                                .upgrade = ex->tunnel};
  choose_framing(ex, &out);
  if (ex->client) skip_request_body(ex);
  bool asked_all = ex->client->half_closed && !ex->client->in.len;
  if (!ex->request_done || out.body == MG_OUT_CLOSE || ex->gateway->draining || asked_all) ex->close = true;
  if (ex->tunnel) ex->close = false;
  out.close = ex->close;
  out.keep_alive_1_0 = ex->request.minor == 0 && !ex->close;
  size_t bound = mg_response_write_bound(&out);
  char *head = mg_arena_alloc(&ex->arena, bound);
  long len = head ? mg_response_write(head, bound, &out) : -1;
  if (len < 0) return MG_ENOMEM;
  ex->client_head = mg_str(head, (size_t)len);
  return 0;
}

/* What an answer of our own carries besides what filters set. */
static int complete_own(struct mg_exchange *ex)
{
  struct mg_headers *headers = &ex->response.headers;
  unsigned from = 0;
  if (!mg_headers_next(headers, MG_STR("x-content-type-options"), &from)) {
    int err = mg_headers_push(headers, MG_STR("x-content-type-options"), MG_STR("nosniff"), MG_H_OTHER);
    if (err) return err;
  }
  if (mg_headers_get(headers, MG_H_DATE)) return 0;
  return mg_headers_push(headers, MG_STR("date"), mg_gateway_date(ex->gateway), MG_H_DATE);
}

/* The response filters of the routes that stand in, the last first, then the first route's with the global ones. */
static int run_filters(struct mg_exchange *ex)
{
  if (!ex->plan || ex->skip_filters || ex->tunnel) return 0;
  for (; ex->response_at >= 0; ex->response_at--) {
    const struct mg_plan *plan = ex->plans[ex->response_at];
    const struct mg_chain *chain = ex->response_at ? &plan->own_response : &plan->response;
    int err = chain->plain ? mg_exchange_call(ex, chain, MG_PHASE_RESPONSE) : 0;
    if (err) return err;
  }
  return 0;
}

/* True while the answer's body has to be read before its filters run. */
static bool wants_body(const struct mg_exchange *ex)
{
  return ex->plan && ex->plan->holds_answer && ex->source == MG_FROM_UPSTREAM && !ex->answer_is_held && !ex->tunnel;
}

/* An exchange has one function that waits: a piece of the request that one holds goes on before anything is done with
 * the answer. 0, MG_EAGAIN_LATER, or an error. */
static int let_request_piece_go(struct mg_exchange *ex)
{
  if (!ex->piece_waits || ex->piece_ref != ex->plan->chunk_request_ref) return 0;
  int err = mg_exchange_send_body(ex);
  if (!err && !ex->piece_waits) mg_conn_read(&ex->up->conn);
  return err ? err : ex->piece_waits ? MG_EAGAIN_LATER : 0;
}

enum mg_next mg_step_response(struct mg_exchange *ex)
{
  int err = let_request_piece_go(ex);
  if (!err && wants_body(ex)) {
    err = mg_exchange_collect_answer(ex);
    if (err == MG_EAGAIN_LATER) return MG_WAIT;
  }
  if (!err) err = run_filters(ex);
  if (err == MG_EAGAIN_LATER) {
    if (ex->up) mg_conn_pause(&ex->up->conn), mg_conn_timeout(&ex->up->conn, 0);
    return MG_WAIT;
  }
  if (err) return mg_exchange_fail(ex, err);
  if (ex->up) mg_conn_read(&ex->up->conn);
  if (ex->source != MG_FROM_UPSTREAM && complete_own(ex)) return mg_exchange_break(ex, MG_ENOMEM);
  if (write_head(ex)) return mg_exchange_break(ex, MG_ENOMEM);
  ex->step = MG_STEP_RELAY;
  return MG_NEXT;
}

/* --- relay -------------------------------------------------------------------------------------------------------- */

/* The next piece of the upstream's body. 0, MG_EAGAIN_LATER when nothing is there, or an error. */
int mg_exchange_next_answer_piece(struct mg_exchange *ex, struct mg_body_piece *piece)
{
  struct mg_inflow *in = &ex->up_in;
  *piece = (struct mg_body_piece){0};
  if (ex->response_body.done) {
    piece->last = true;
    return 0;
  }
  if (in->len) {
    if (mg_body_decode(&ex->response_body, in->at, in->len, piece)) return MG_EUPBAD;
    mg_inflow_take(in, piece->consumed);
    if (piece->last || !ex->up_ended) return 0;
  }
  if (ex->up_ended) {
    if (ex->up_err == MG_ERESET || mg_body_end(&ex->response_body)) return MG_ETRUNCATED;
    piece->last = true;
    return 0;
  }
  return ex->up_err == MG_EUPTIMEOUT ? MG_EUPTIMEOUT : MG_EAGAIN_LATER;
}

/* The same, through the filters that change it. */
static int next_piece(struct mg_exchange *ex, struct mg_body_piece *piece)
{
  int ref = ex->plan ? ex->plan->chunk_response_ref : 0;
  if (!ref || ex->body_out == MG_OUT_NONE) return mg_exchange_next_answer_piece(ex, piece);
  *piece = (struct mg_body_piece){0};
  if (ex->piece_waits && ex->piece_ref == ref) return mg_exchange_transform(ex, ref, piece);
  if (ex->waiting.L) return MG_EAGAIN_LATER;
  int err = mg_exchange_next_answer_piece(ex, piece);
  if (err || (!piece->len && !piece->last)) return err;
  return mg_exchange_transform(ex, ref, piece);
}

static int send_client(struct mg_exchange *ex, uv_buf_t *bufs, unsigned count)
{
  if (!count) return 0;
  struct mg_conn *conn = &ex->client->conn;
  int result = mg_conn_write(conn, bufs, count);
  if (result < 0) return result;
  ex->head_sent = true;
  if (result == 1) mg_conn_timeout(conn, ex->gateway->settings->idle_timeout_ms);
  return result;
}

static enum mg_next finish_response(struct mg_exchange *ex)
{
  ex->response_done = true;
  mg_exchange_leave_upstream(ex, ex->response.keep_alive && !ex->discard_body);
  ex->step = MG_STEP_CLOSE;
  return MG_NEXT;
}

static enum mg_next relay_file(struct mg_exchange *ex)
{
  int result = mg_exchange_relay_file(ex);
  if (result == MG_EAGAIN_LATER) return MG_WAIT;
  return result ? mg_exchange_break(ex, result) : finish_response(ex);
}

static enum mg_next relay_own(struct mg_exchange *ex)
{
  if (ex->sends_file && !is_bodiless(ex)) return relay_file(ex);
  uv_buf_t bufs[2] = {uv_buf_init((char *)ex->client_head.ptr, (unsigned)ex->client_head.len)};
  unsigned count = 1;
  if (ex->answer_body.len && !is_bodiless(ex)) {
    bufs[count++] = uv_buf_init((char *)ex->answer_body.ptr, (unsigned)ex->answer_body.len);
    ex->response_bytes = ex->answer_body.len;
    mg_record_body(ex, 1, ex->answer_body.ptr, ex->answer_body.len);
  }
  if (send_client(ex, bufs, count) < 0) return mg_exchange_break(ex, MG_ERESET);
  return finish_response(ex);
}

static enum mg_next relay_upstream(struct mg_exchange *ex)
{
  int request_err = let_request_piece_go(ex);
  if (request_err && request_err != MG_EAGAIN_LATER) return mg_exchange_break(ex, request_err);
  for (;;) {
    uv_buf_t bufs[6];
    unsigned count = 0;
    struct mg_body_piece piece;
    bool waited = ex->waiting.L != NULL;
    int err = next_piece(ex, &piece);
    if (err && err != MG_EAGAIN_LATER)
      return ex->head_sent ? mg_exchange_break(ex, err)
                           : mg_exchange_fail(ex, err == MG_ETRUNCATED ? MG_EUPCLOSED : err);
    if (!ex->head_sent) bufs[count++] = uv_buf_init((char *)ex->client_head.ptr, (unsigned)ex->client_head.len);
    if (!err && !ex->discard_body)
      count += mg_exchange_frame(ex, &piece, ex->body_out, &ex->response_trailers, bufs + count);
    if (!ex->discard_body) mg_record_body(ex, 1, piece.data, piece.len);
    ex->response_bytes += piece.len;
    int result = send_client(ex, bufs, count);
    if (result < 0) return mg_exchange_break(ex, MG_ERESET);
    if (!err && (piece.last || ex->discard_body)) return finish_response(ex);
    if (waited && !ex->waiting.L && result != 1) mg_conn_read(&ex->up->conn);
    if ((result == 1 || ex->waiting.L) && !ex->up_ended) { /* the client or a filter is slower than the upstream */
      mg_conn_pause(&ex->up->conn);
      mg_conn_timeout(&ex->up->conn, 0);
    } else if (!ex->up_ended) {
      mg_conn_timeout(&ex->up->conn, ex->plan->group.read_ms);
    }
    if (err || !ex->up_in.len) break;
  }
  if (!ex->request_done && ex->up_state == MG_UP_SENT && mg_exchange_send_body(ex))
    return mg_exchange_break(ex, MG_EBADCHUNK);
  return MG_WAIT;
}

enum mg_next mg_step_relay(struct mg_exchange *ex)
{
  if (ex->tunnel) return mg_tunnel_run(ex);
  if (ex->source != MG_FROM_UPSTREAM || ex->answer_is_held) return relay_own(ex);
  return relay_upstream(ex);
}

/* --- close -------------------------------------------------------------------------------------------------------- */

/* A tunnel is one from here on, until the exchange is freed. */
static void count_for_route(struct mg_exchange *ex)
{
  struct mg_tally *tally = ex->tally;
  mg_tally_add(&tally->active, (uint64_t)-1);
  if (ex->tunnel) mg_tally_add(&tally->tunnels, 1);
  mg_tally_add(&tally->bytes_in, ex->request_body.body_size);
  mg_tally_add(&tally->bytes_out, ex->response_bytes);
  if (!ex->head_sent) return;
  mg_tally_code(&tally->requests, ex->response.status);
  mg_tally_duration(tally, ex->ended_ns - ex->began_ns);
}

static void count_exchange(struct mg_exchange *ex)
{
  struct mg_worker_cell *cell = ex->gateway->cell;
  mg_count(&cell->count.requests, 1);
  if (ex->err) mg_count(&cell->refused[mg_err_index(ex->err)], 1);
  mg_count(&cell->count.bytes_in, (int64_t)ex->request_body.body_size);
  mg_count(&cell->count.bytes_out, (int64_t)ex->response_bytes);
  if (!ex->head_sent) {
    mg_count(&cell->count.client_aborts, 1);
    return;
  }
  _Atomic uint64_t *classes[] = {&cell->count.responses_1xx, &cell->count.responses_2xx, &cell->count.responses_3xx,
                                 &cell->count.responses_4xx, &cell->count.responses_5xx};
  unsigned class = ex->response.status / 100;
  if (class >= 1 && class <= 5) mg_count(classes[class - 1], 1);
}

void mg_exchange_account(struct mg_exchange *ex)
{
  ex->counted = true;
  ex->ended_ns = uv_hrtime();
  if (ex->waiting.L) mg_exchange_stop_waiting(ex); /* with a piece of a request that nobody wants any more */
  count_exchange(ex);
  if (ex->tally) count_for_route(ex);
  if (ex->gateway->access_log) mg_access_log_add(ex->gateway->access_log, ex);
  for (int i = ex->plan ? ex->depth : -1; i >= 0; i--) {
    const struct mg_chain *chain = i ? &ex->plans[i]->own_log : &ex->plans[i]->log;
    if (chain->plain) mg_exchange_call(ex, chain, MG_PHASE_LOG);
  }
  mg_record_end(ex);
}

enum mg_next mg_step_close(struct mg_exchange *ex)
{
  struct mg_client *client = ex->client;
  if (client && client->conn.queued && !client->conn.write_failed && !client->conn.closing) return MG_WAIT;
  if (!ex->counted) mg_exchange_account(ex);
  return MG_DONE;
}
