/* exchange_upstream.c - the upstream side of an exchange: a target, a connection, the request out, the head of the answer in.
 * Owns: ex->up while it is set.   May call: upstream, conn, http1, forward.   Never: Lua.   Thread: the loop's. */
#include "exchange.h"

#include "log.h"

static const struct mg_conn_events up_events;

/* --- the head and body that go out -------------------------------------------------------------------------------------------- */

/* Applies the filters' edits to a copy of the list: a repetition to another target starts from the client's lines again. */
int mg_exchange_edited_headers(struct mg_exchange *ex, struct mg_headers *out)
{
  *out = ex->request.headers;
  if (!ex->first_edit) return 0;
  struct mg_header *items = mg_arena_alloc(&ex->arena, (out->count + 8u) * sizeof *items);
  if (!items) return MG_ENOMEM;
  memcpy(items, out->items, out->count * sizeof *items);
  out->items = items;
  out->capacity = (uint16_t)(out->count + 8);
  for (const struct mg_edit *edit = ex->first_edit; edit; edit = edit->next) {
    int err = 0;
    if (edit->op == MG_EDIT_SET)
      err = mg_headers_set(out, edit->name, edit->value);
    else if (edit->op == MG_EDIT_ADD)
      err = mg_headers_push(out, edit->name, edit->value, mg_header_id(edit->name.ptr, edit->name.len));
    else
      mg_headers_remove(out, edit->name);
    if (err) return err;
  }
  return 0;
}

/* The request target for a member: its path prefix, the path as sent or as filters set it, the query. */
static struct mg_str upstream_target(struct mg_exchange *ex)
{
  struct mg_str prefix = ex->member->path_prefix;
  if (!prefix.len && !ex->new_path.ptr && !ex->new_query.ptr) return ex->request.target;
  struct mg_str path = ex->new_path.ptr ? ex->new_path : ex->target.raw_path;
  struct mg_str query = ex->new_query.ptr ? ex->new_query : ex->target.query;
  bool has_query = ex->new_query.ptr ? query.len > 0 : ex->target.has_query;
  if (prefix.len && prefix.ptr[prefix.len - 1] == '/' && path.len && path.ptr[0] == '/') prefix.len--;
  char *out = mg_arena_alloc(&ex->arena, prefix.len + path.len + 1 + query.len);
  if (!out) return (struct mg_str){0};
  size_t len = 0;
  memcpy(out, prefix.ptr, prefix.len);
  len += prefix.len;
  memcpy(out + len, path.ptr, path.len);
  len += path.len;
  if (has_query) {
    out[len++] = '?';
    memcpy(out + len, query.ptr, query.len);
    len += query.len;
  }
  return mg_str(out, len);
}

static enum mg_body_out request_body_out(const struct mg_exchange *ex)
{
  switch (ex->request.framing) {
  case MG_FRAMING_LENGTH: return MG_OUT_LENGTH;
  case MG_FRAMING_CHUNKED: return MG_OUT_CHUNKED;
  default: return MG_OUT_NONE;
  }
}

static int write_head(struct mg_exchange *ex)
{
  struct mg_headers headers;
  int err = mg_exchange_edited_headers(ex, &headers);
  if (err) return err;
  struct mg_str host = ex->request.host;
  if (ex->plan->group.host_is_target || !host.len) host = ex->member->authority;
  if (ex->new_host.ptr) host = ex->new_host;
  const struct mg_request_out out = {.method = ex->request.method,
                                     .target = upstream_target(ex),
                                     .host = host,
                                     .headers = &headers,
                                     .peer = &ex->client->peer,
                                     .original_host = ex->request.host,
                                     .listen_port = ex->gateway->port,
                                     .peer_trusted = ex->client->peer_trusted,
                                     .upgrade = ex->request.upgrade,
                                     .expect = ex->request.expects_100,
                                     .te_trailers = ex->te_trailers,
                                     .body = request_body_out(ex),
                                     .content_length = ex->request.content_length};
  if (!out.target.ptr) return MG_ENOMEM;
  size_t bound = mg_request_write_bound(&out);
  char *head = mg_arena_alloc(&ex->arena, bound);
  if (!head) return MG_ENOMEM;
  long len = mg_request_write(head, bound, &out);
  if (len < 0) return MG_ENOMEM;
  ex->arena.next = ex->arena.next == head + ((bound + 7) & ~(size_t)7) ? head + ((len + 7) & ~7l) : ex->arena.next;
  ex->up_head = mg_str(head, (size_t)len);
  return 0;
}

/* Puts the trailers behind the last chunk; returns how many bufs were used. */
static unsigned last_chunk(struct mg_exchange *ex, const struct mg_headers *trailers, uv_buf_t *buf)
{
  size_t len = 5;
  for (unsigned i = 0; i < trailers->count; i++) len += trailers->items[i].name_len + trailers->items[i].value_len + 4;
  char *out = len == 5 ? NULL : mg_arena_alloc(&ex->arena, len);
  if (!out) {
    *buf = uv_buf_init((char *)"0\r\n\r\n", 5);
    return 1;
  }
  char *at = out;
  memcpy(at, "0\r\n", 3);
  at += 3;
  for (unsigned i = 0; i < trailers->count; i++) {
    const struct mg_header *line = &trailers->items[i];
    if (line->flags & MG_HEADER_GONE) continue;
    memcpy(at, line->name, line->name_len);
    at += line->name_len;
    memcpy(at, ": ", 2);
    memcpy(at + 2, line->value, line->value_len);
    at += line->value_len + 2;
    memcpy(at, "\r\n", 2);
    at += 2;
  }
  memcpy(at, "\r\n", 2);
  *buf = uv_buf_init(out, (unsigned)(at + 2 - out));
  return 1;
}

unsigned mg_exchange_frame(struct mg_exchange *ex, const struct mg_body_piece *piece, enum mg_body_out out,
                           const struct mg_headers *trailers, uv_buf_t *bufs)
{
  unsigned count = 0;
  if (out != MG_OUT_CHUNKED) {
    if (piece->len) bufs[count++] = uv_buf_init(piece->data, (unsigned)piece->len);
    return count;
  }
  if (piece->len) {
    static const char digits[] = "0123456789abcdef";
    char *at = ex->chunk_line + sizeof ex->chunk_line;
    *--at = '\n';
    *--at = '\r';
    for (size_t size = piece->len; size; size >>= 4) *--at = digits[size & 15];
    bufs[count++] = uv_buf_init(at, (unsigned)(ex->chunk_line + sizeof ex->chunk_line - at));
    bufs[count++] = uv_buf_init(piece->data, (unsigned)piece->len);
    bufs[count++] = uv_buf_init((char *)"\r\n", 2);
  }
  if (piece->last) count += last_chunk(ex, trailers, &bufs[count]);
  return count;
}

/* Decodes what the client has sent of its body. 0 or an error of its framing. */
static int next_body_piece(struct mg_exchange *ex, struct mg_body_piece *piece)
{
  *piece = (struct mg_body_piece){0};
  struct mg_inflow *in = &ex->client->in;
  if (ex->request_done || !in->len) return 0;
  int err = mg_body_decode(&ex->request_body, in->at, in->len, piece);
  if (err) return err;
  mg_inflow_take(in, piece->consumed);
  ex->request_done = piece->last;
  uint64_t most = ex->gateway->settings->entity_bytes_max;
  return most && ex->request_body.body_size > most ? MG_EBODYLARGE : 0;
}

static void arm_read_timeout(struct mg_exchange *ex)
{
  mg_conn_timeout(&ex->up->conn, ex->plan->group.read_ms);
}

int mg_exchange_send_body(struct mg_exchange *ex)
{
  uv_buf_t bufs[6];
  unsigned count = 0;
  struct mg_body_piece piece;
  struct mg_conn *up = &ex->up->conn;
  int err = next_body_piece(ex, &piece);
  if (err) return err;
  if (!ex->head_written) bufs[count++] = uv_buf_init((char *)ex->up_head.ptr, (unsigned)ex->up_head.len);
  if (piece.len || piece.last)
    count += mg_exchange_frame(ex, &piece, request_body_out(ex), &ex->request_trailers, bufs + count);
  if (!ex->head_written) {
    ex->head_written = true;
    ex->up->sent_round = up->net->round;
  }
  ex->up_body_written += piece.len;
  if (count) {
    arm_read_timeout(ex);
    int result = mg_conn_write(up, bufs, count);
    if (result == 1 && !ex->request_done) mg_conn_pause(&ex->client->conn); /* the upstream is slower than the client */
    if (result < 0 && !ex->up_ended) mg_conn_read(up); /* an answer may be there all the same */
  }
  if (!ex->request_done && !up->queued) mg_client_read_on(ex->client);
  return 0;
}

/* --- events of the upstream connection ----------------------------------------------------------------------------------------- */

static void on_up_data(struct mg_conn *conn, char *bytes, size_t len)
{
  struct mg_upconn *up = (struct mg_upconn *)conn;
  struct mg_exchange *ex = up->user;
  struct mg_gateway *gateway = ex->gateway;
  uint64_t handle = ex->handle;
  mg_inflow_add(&ex->up_in, bytes, len);
  if (ex->step == MG_STEP_UPSTREAM && mg_upconn_unasked(up)) ex->up_err = MG_EUPCLOSED;
  mg_exchange_run(ex);
  if (mg_exchange_find(gateway, handle) == ex) mg_inflow_keep(&ex->up_in);
}

static void on_up_end(struct mg_conn *conn, int err)
{
  struct mg_exchange *ex = ((struct mg_upconn *)conn)->user;
  ex->up_ended = true;
  ex->up_err = err == MG_ECLOSED ? MG_EUPCLOSED : MG_ERESET;
  mg_exchange_run(ex);
}

static void on_up_drained(struct mg_conn *conn, int err)
{
  struct mg_exchange *ex = ((struct mg_upconn *)conn)->user;
  (void)err; /* a broken write shows in what is read, or in nothing being read */
  if (!ex->request_done) mg_client_read_on(ex->client);
  mg_exchange_run(ex);
}

static void on_up_timeout(struct mg_conn *conn)
{
  struct mg_exchange *ex = ((struct mg_upconn *)conn)->user;
  ex->up_err = MG_EUPTIMEOUT;
  mg_exchange_run(ex);
}

static void on_up_connected(struct mg_conn *conn, int err)
{
  (void)conn, (void)err; /* it is connected when it comes here */
}

static void hold_connection(struct mg_exchange *ex, struct mg_upconn *up)
{
  ex->up = up;
  up->user = ex;
  up->conn.events = &up_events;
  ex->up_state = MG_UP_READY;
  ex->up_err = 0;
  ex->up_ended = up->conn.ended;
}

static void on_acquired(struct mg_acquire *acquire, struct mg_upconn *up, int err)
{
  struct mg_exchange *ex = (struct mg_exchange *)((char *)acquire - offsetof(struct mg_exchange, acquire));
  if (err) {
    ex->up_state = MG_UP_NONE;
    ex->up_err = err;
  } else {
    hold_connection(ex, up);
  }
  mg_exchange_run(ex);
}

void mg_exchange_leave_upstream(struct mg_exchange *ex, bool reusable)
{
  if (ex->up_state == MG_UP_ACQUIRING) mg_acquire_cancel(&ex->acquire);
  struct mg_upconn *up = ex->up;
  ex->up = NULL;
  ex->up_state = MG_UP_NONE;
  if (!up) return;
  reusable = reusable && ex->up_in.len == 0 && ex->request_done && ex->head_written;
  mg_inflow_free(&ex->up_in);
  if (reusable || ex->request_done || !ex->head_written)
    mg_upconn_release(up, reusable);
  else
    mg_upconn_abort(up); /* a request cut short must not look whole */
}

static const struct mg_conn_events up_events = {.data = on_up_data,
                                                .end = on_up_end,
                                                .drained = on_up_drained,
                                                .timeout = on_up_timeout,
                                                .connected = on_up_connected,
                                                .closed = mg_upconn_closed};

/* --- choosing and trying ------------------------------------------------------------------------------------------------------ */

static bool is_idempotent(const struct mg_exchange *ex) /* RFC 9110, 9.2.2 */
{
  switch (ex->request.method_id) {
  case MG_METHOD_GET:
  case MG_METHOD_HEAD:
  case MG_METHOD_OPTIONS:
  case MG_METHOD_PUT:
  case MG_METHOD_DELETE: return true;
  default: return false;
  }
}

static bool has_body(const struct mg_exchange *ex)
{
  return ex->request.framing == MG_FRAMING_CHUNKED ||
         (ex->request.framing == MG_FRAMING_LENGTH && ex->request.content_length > 0);
}

/* Asks the chosen member for a connection. MG_NEXT when there is one, MG_WAIT, or MG_DONE when this member will not do. */
static enum mg_next acquire(struct mg_exchange *ex, bool fresh)
{
  struct mg_upconn *up = NULL;
  bool careful = has_body(ex) || !is_idempotent(ex);
  ex->tries++;
  ex->acquire.ready = on_acquired;
  int result = mg_target_acquire(ex->member->target, &ex->gateway->upstreams, &ex->acquire, fresh, careful, &up);
  if (result < 0) {
    ex->up_err = result;
    return MG_DONE;
  }
  if (result == 1) {
    ex->up_state = MG_UP_ACQUIRING;
    return MG_WAIT;
  }
  hold_connection(ex, up);
  return MG_NEXT;
}

static uint64_t hash_of(const struct mg_exchange *ex)
{
  uint64_t hash = 0xcbf29ce484222325u;
  struct mg_str on = mg_str(ex->client_address.text, ex->client_address.text_len);
  for (size_t i = 0; i < on.len; i++) hash = (hash ^ (uint8_t)on.ptr[i]) * 0x100000001b3u;
  return hash;
}

/* Takes the next member that gives a connection, or will. */
static enum mg_next choose(struct mg_exchange *ex)
{
  struct mg_group *group = (struct mg_group *)&ex->plan->group;
  for (;;) {
    int index = mg_group_choose(group, &ex->gateway->upstreams, hash_of(ex), &ex->tried);
    if (index < 0) return mg_exchange_fail(ex, ex->up_err ? ex->up_err : MG_ENOUPSTREAM);
    ex->member = &group->members[index];
    enum mg_next next = acquire(ex, false);
    if (next != MG_DONE) return next;
  }
}

/* The current try has failed with ex->up_err before any of the answer came. Repeats it where that is safe. */
static enum mg_next try_failed(struct mg_exchange *ex)
{
  int err = ex->up_err;
  struct mg_target *target = ex->member->target;
  bool was_sent = ex->up_state == MG_UP_SENT;
  bool stale = was_sent && ex->up->reused && err != MG_EUPTIMEOUT;
  if (!stale) mg_target_report(target, false);
  mg_count(&ex->gateway->cell->count.upstream_failures, !stale);
  bool may_repeat = !was_sent || (is_idempotent(ex) && !has_body(ex));
  bool again_here = stale && may_repeat && !ex->retried;
  bool elsewhere = !again_here && (!was_sent || (may_repeat && ex->retries_used < ex->plan->group.retries));
  if (!again_here && !elsewhere) return mg_exchange_fail(ex, err == MG_ERESET ? MG_EUPCLOSED : err);
  mg_exchange_leave_upstream(ex, false);
  ex->head_written = false;
  ex->up_err = err;
  mg_count(&ex->gateway->cell->count.upstream_retries, was_sent);
  if (again_here) {
    ex->retried = true;
    enum mg_next next = acquire(ex, true);
    return next == MG_DONE ? mg_exchange_fail(ex, ex->up_err) : next;
  }
  ex->retries_used += was_sent;
  return choose(ex);
}

/* Nobody took the connection at the member that was chosen. */
static enum mg_next connect_failed(struct mg_exchange *ex)
{
  mg_target_report(ex->member->target, false);
  mg_count(&ex->gateway->cell->count.upstream_failures, 1);
  return choose(ex);
}

/* --- the answer's head ---------------------------------------------------------------------------------------------------------- */

/* Passes an interim answer on (RFC 9110, 15.2); HTTP/1.0 clients know none. */
static int relay_interim(struct mg_exchange *ex)
{
  if (++ex->interim_count > MG_INTERIM_MAX) return MG_EUPBAD;
  if (ex->request.minor == 0) return 0;
  mg_response_sanitise(&ex->response);
  const struct mg_response_out out = {.status = ex->response.status,
                                      .reason = ex->response.reason,
                                      .headers = &ex->response.headers,
                                      .body = MG_OUT_NONE,
                                      .client_minor = ex->request.minor};
  size_t bound = mg_response_write_bound(&out);
  char *head = mg_arena_alloc(&ex->arena, bound);
  long len = head ? mg_response_write(head, bound, &out) : -1;
  if (len < 0) return MG_ENOMEM;
  uv_buf_t buf = uv_buf_init(head, (unsigned)len);
  int result = mg_conn_write(&ex->client->conn, &buf, 1);
  return result < 0 ? result : 0;
}

/* Parses the answer's head out of what has come. MG_OK: it is there; MG_EAGAIN_LATER; or an error. */
static int read_head(struct mg_exchange *ex)
{
  const struct mg_head_limits limits = {.line_bytes_max = MG_UPSTREAM_HEAD_BYTES_MAX,
                                        .head_bytes_max = MG_UPSTREAM_HEAD_BYTES_MAX,
                                        .header_count_max = MG_UPSTREAM_HEADERS_MAX};
  struct mg_inflow *in = &ex->up_in;
  while (in->len) {
    if (!in->borrowed && in->len < ex->up_head_tried * 2 && !mg_head_complete(in->at, in->len, &ex->up_head_scanned))
      return MG_EAGAIN_LATER;
    const char *end = memmem(in->at, in->len, "\r\n\r\n", 4);
    size_t len = end ? (size_t)(end - in->at) + 4 : in->len;
    if (len > MG_UPSTREAM_HEAD_BYTES_MAX + 4) len = MG_UPSTREAM_HEAD_BYTES_MAX + 4;
    if (!end && len <= MG_UPSTREAM_HEAD_BYTES_MAX) { /* nothing is kept of a head that is not whole */
      struct mg_response_head probe;
      mg_headers_init(&probe.headers, &ex->arena);
      int err = mg_response_head_parse(&probe, in->at, in->len, ex->request.method_id, &limits);
      ex->up_head_tried = in->len;
      return err < 0 ? err : MG_EAGAIN_LATER;
    }
    char *copy = mg_arena_copy(&ex->arena, in->at, len);
    if (!copy) return MG_ENOMEM;
    mg_headers_init(&ex->response.headers, &ex->arena);
    int took = mg_response_head_parse(&ex->response, copy, len, ex->request.method_id, &limits);
    if (took <= 0) return took ? took : MG_EUPBAD;
    mg_inflow_take(in, (size_t)took);
    ex->up_head_tried = ex->up_head_scanned = 0;
    if (ex->response.status >= 200 || ex->response.status == 101) return MG_OK;
    int err = relay_interim(ex);
    if (err) return err;
  }
  return MG_EAGAIN_LATER;
}

static enum mg_next head_arrived(struct mg_exchange *ex)
{
  struct mg_response_head *response = &ex->response;
  mg_target_report(ex->member->target, true);
  ex->first_byte_ns = uv_hrtime();
  ex->up->keep_alive_s = response->keep_alive_timeout_s;
  if (response->status == 101) {
    if (!ex->request.upgrade || !response->upgrade || !ex->request_done) return mg_exchange_fail(ex, MG_EUPSWITCH);
    ex->tunnel = true;
  }
  mg_response_sanitise(response);
  mg_headers_init(&ex->response_trailers, &ex->arena);
  if (mg_body_start(&ex->response_body, response->framing, response->content_length, &ex->arena, &ex->response_trailers))
    return mg_exchange_fail(ex, MG_ENOMEM);
  ex->source = MG_FROM_UPSTREAM;
  ex->step = MG_STEP_RESPONSE;
  return MG_NEXT;
}

/* Sends what there is of the request; waits for the head of the answer. */
static enum mg_next converse(struct mg_exchange *ex)
{
  if (ex->up_err == MG_EUPTIMEOUT) return mg_exchange_fail(ex, MG_EUPTIMEOUT);
  if (ex->up_err && ex->up_in.len && !ex->up_ended) return try_failed(ex); /* bytes nobody asked for */
  int err = read_head(ex);
  if (err == MG_OK) return head_arrived(ex);
  if (err == MG_ERESET) return mg_exchange_break(ex, err); /* the client is gone */
  if (err != MG_EAGAIN_LATER) return mg_exchange_fail(ex, err);
  if (ex->up_ended) return ex->up_in.len || ex->interim_count ? mg_exchange_fail(ex, MG_EUPCLOSED) : try_failed(ex);
  err = mg_exchange_send_body(ex);
  if (err) {
    ex->close = true;
    ex->request_broken = true;
    return mg_exchange_fail(ex, err);
  }
  return MG_WAIT;
}

static enum mg_next begin_sending(struct mg_exchange *ex)
{
  int err = write_head(ex);
  if (err) return mg_exchange_fail(ex, err);
  ex->up_state = MG_UP_SENT;
  if (!ex->sent_ns) ex->sent_ns = ex->began_ns;
  if (ex->up_ended) return ex->up_err = MG_EUPCLOSED, try_failed(ex);
  err = mg_exchange_send_body(ex);
  if (err) {
    ex->close = true;
    ex->request_broken = true;
    return mg_exchange_fail(ex, err);
  }
  return MG_WAIT;
}

enum mg_next mg_step_upstream(struct mg_exchange *ex)
{
  switch (ex->up_state) {
  case MG_UP_NONE:
    if (ex->plan->group.count == 0) return mg_exchange_fail(ex, MG_ENOUPSTREAM);
    return ex->up_err ? connect_failed(ex) : choose(ex);
  case MG_UP_ACQUIRING: return MG_WAIT;
  case MG_UP_READY: return begin_sending(ex);
  default: return converse(ex);
  }
}
