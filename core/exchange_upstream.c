/* exchange_upstream.c - the upstream side of an exchange: a target, a connection, the head of the answer.
 * Owns: ex->up while it is set.   May call: upstream, conn, http1, forward.   Never: Lua.   Thread: the loop's. */
#include "exchange.h"

#include "cookie.h"
#include "log.h"
#include "query.h"

static const struct mg_conn_events up_events;

/* --- events of the upstream connection ---------------------------------------------------------------------------- */

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
  if (!ex->gateway->settings->exchange_time_max_ms) mg_timer_off(&ex->limit);
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

/* --- choosing and trying ------------------------------------------------------------------------------------------ */

static bool is_idempotent(const struct mg_exchange *ex) /* RFC 9110, 9.2.2 */
{
  switch (ex->request.method_id) {
  case MG_METHOD_GET:
  case MG_METHOD_HEAD:
  case MG_METHOD_OPTIONS:
  case MG_METHOD_PUT:
  case MG_METHOD_DELETE:
    return true;
  default:
    return false;
  }
}

static bool has_body(const struct mg_exchange *ex)
{
  return ex->request.framing == MG_FRAMING_CHUNKED ||
         (ex->request.framing == MG_FRAMING_LENGTH && ex->request.content_length > 0);
}

/* Asks the chosen member for a connection. MG_NEXT when there is one, MG_WAIT, or MG_DONE when this member will not
 * do. */
static enum mg_next acquire(struct mg_exchange *ex, bool fresh)
{
  struct mg_upconn *up = NULL;
  bool careful = has_body(ex) || !is_idempotent(ex);
  ex->tries++;
  ex->acquire.ready = on_acquired;
  int result = mg_target_acquire(ex->member->target, &ex->acquire, fresh, careful, &up);
  if (result < 0) {
    ex->up_err = result;
    return MG_DONE;
  }
  if (result == 1) {
    uint64_t left = mg_exchange_time_left(ex);
    if (left != UINT64_MAX && !ex->gateway->settings->exchange_time_max_ms)
      mg_timer_set(&ex->gateway->net.wheel, &ex->limit, left);
    ex->up_state = MG_UP_ACQUIRING;
    return MG_WAIT;
  }
  hold_connection(ex, up);
  return MG_NEXT;
}

/* What CONSISTENT_HASH goes by; without such a header, cookie or parameter, the client's address. */
static struct mg_str hash_key(struct mg_exchange *ex, const struct mg_group *group)
{
  struct mg_str key = {0};
  unsigned from = 0;
  const struct mg_header *line;
  if (group->hash_on == MG_ON_HEADER && (line = mg_headers_next(&ex->request.headers, group->hash_name, &from)))
    key = mg_str(line->value, line->value_len);
  else if (group->hash_on == MG_ON_COOKIE)
    mg_cookie_get(&ex->request.headers, group->hash_name, &key);
  else if (group->hash_on == MG_ON_QUERY && ex->target.has_query)
    mg_query_get(ex->target.query, group->hash_name, &ex->arena, &key);
  return key.ptr ? key : mg_str(ex->client_address.text, ex->client_address.text_len);
}

static uint64_t hash_of(struct mg_exchange *ex, const struct mg_group *group)
{
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  if (group->strategy != MG_CONSISTENT_HASH) return 0;
  struct mg_str on = hash_key(ex, group);
  for (size_t i = 0; i < on.len; i++) hash = (hash ^ (uint8_t)on.ptr[i]) * 0x100000001b3u;
  return hash;
}

/* The member that a filter asked for, once, if it is up; else the strategy's choice. */
static int next_member(struct mg_exchange *ex, struct mg_group *group)
{
  int wanted = ex->wanted_member - 1;
  ex->wanted_member = 0;
  if (wanted < 0 || wanted >= (int)group->count || mg_target_is_down(group->members[wanted].target))
    return mg_group_choose(group, &ex->gateway->upstreams, hash_of(ex, group), &ex->tried);
  ex->tried.bits[wanted / 64] |= 1ull << (wanted % 64);
  return wanted;
}

/* Lets filters look at this try: what an earlier one changed is undone first. */
static int prepare_try(struct mg_exchange *ex)
{
  if (!ex->plan->upstream.plain) return 0;
  if (!ex->try_mark.last_edit)
    ex->try_mark = mg_exchange_mark(ex);
  else
    mg_exchange_undo_edits(ex, &ex->try_mark);
  return mg_exchange_call(ex, &ex->plan->upstream, MG_PHASE_UPSTREAM);
}

/* Leaves a member that did not serve for another, and notes it: the journal names every target that was tried. */
static void pass_over(struct mg_exchange *ex)
{
  struct mg_attribute *note = mg_arena_alloc(&ex->arena, sizeof *note);
  if (!note) return; /* the exchange goes on without */
  *note =
      (struct mg_attribute){ex->attributes, MG_STR("gateway.target"), mg_str(ex->member->key, strlen(ex->member->key))};
  ex->attributes = note;
}

/* Takes the next member that gives a connection, or will. */
static enum mg_next choose(struct mg_exchange *ex)
{
  struct mg_group *group = (struct mg_group *)&ex->plan->group;
  for (;;) {
    int err = prepare_try(ex);
    if (err) return mg_exchange_fail(ex, err);
    int index = next_member(ex, group);
    if (index < 0) return mg_exchange_fail(ex, ex->up_err ? ex->up_err : MG_ENOUPSTREAM);
    if (ex->member && ex->tries) pass_over(ex);
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
  bool elsewhere =
      !again_here &&
      (!was_sent || (may_repeat && ex->retries_used < ex->plan->group.retries && mg_target_may_retry(target)));
  if (!again_here && !elsewhere) return mg_exchange_fail(ex, err == MG_ERESET ? MG_EUPCLOSED : err);
  mg_exchange_leave_upstream(ex, false);
  ex->head_written = false;
  ex->held_sent = ex->last_given = false;
  if (ex->piece_waits) mg_exchange_stop_waiting(ex);
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

/* --- the answer's head -------------------------------------------------------------------------------------------- */

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
    mg_headers_init(&ex->response.headers, &ex->arena);
    int took = mg_response_head_parse(&ex->response, in->at, in->len, ex->request.method_id, &limits);
    ex->up_head_tried = in->len;
    if (took < 0) return took;
    if (took == 0) return MG_EAGAIN_LATER;
    if (mg_response_head_keep(&ex->response, in->at, (size_t)took)) return MG_ENOMEM;
    mg_inflow_take(in, (size_t)took);
    ex->up_head_tried = ex->up_head_scanned = 0;
    if (ex->response.status >= 200 || ex->response.status == 101) {
      if (ex->tally) mg_tally_code(&ex->tally->upstream, ex->response.status);
      return MG_OK;
    }
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
  if (mg_body_start(&ex->response_body, response->framing, response->content_length, &ex->arena,
                    &ex->response_trailers))
    return mg_exchange_fail(ex, MG_ENOMEM);
  ex->source = MG_FROM_UPSTREAM;
  ex->step = MG_STEP_RESPONSE;
  return MG_NEXT;
}

/* A silent target counts as a failing one; another may be asked while there is time. */
static enum mg_next timed_out(struct mg_exchange *ex)
{
  bool begun = ex->up_in.len || ex->interim_count;
  if (!begun && mg_exchange_time_left(ex) > 1) return try_failed(ex);
  mg_target_report(ex->member->target, false);
  return mg_exchange_fail(ex, MG_EUPTIMEOUT);
}

/* Sends what there is of the request; waits for the head of the answer. */
static enum mg_next converse(struct mg_exchange *ex)
{
  if (ex->up_err == MG_EUPTIMEOUT) return timed_out(ex);
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
  int err = mg_exchange_write_upstream_head(ex);
  if (err) return mg_exchange_fail(ex, err);
  ex->up_state = MG_UP_SENT;
  if (!ex->sent_ns) ex->sent_ns = ex->record.number ? uv_hrtime() : ex->began_ns;
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
  case MG_UP_ACQUIRING:
    return MG_WAIT;
  case MG_UP_READY:
    return begin_sending(ex);
  default:
    return converse(ex);
  }
}
