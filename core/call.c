/* call.c - a filter's own request to an upstream.
 * Owns: its connection while it lasts, the answer's bytes.   May call: upstream, conn, http1, forward.
 * Never: know an exchange, touch Lua.   Thread: the loop's. */
#include "call.h"

#include "forward.h"
#include "log.h"

enum { HEAD_BYTES_MAX = 65536, HEADERS_MAX = 200 };

static const struct mg_conn_events call_events;

static void leave(struct mg_call *call, bool reusable)
{
  struct mg_upconn *up = call->up;
  call->up = NULL;
  if (call->acquire.target || call->acquire.connecting) mg_acquire_cancel(&call->acquire);
  if (up) mg_upconn_release(up, reusable && !call->in.len);
  mg_inflow_free(&call->in);
}

static void finish(struct mg_call *call, int err)
{
  call->err = err;
  leave(call, !err && call->response.keep_alive);
  mg_timer_remove(&call->timer);
  call->done(call, call->context);
}

/* Failures at the start are told later, as all others are: nobody waits for them yet. */
static void fail_soon(struct mg_call *call, int err)
{
  call->err = err;
  mg_timer_set(&call->net->wheel, &call->timer, 1);
}

static void on_timer(struct mg_timer *timer)
{
  struct mg_call *call = (struct mg_call *)((char *)timer - offsetof(struct mg_call, timer));
  finish(call, call->err ? call->err : MG_EUPTIMEOUT);
}

static int read_answer(struct mg_call *call)
{
  static const struct mg_head_limits limits = {HEAD_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
  struct mg_inflow *in = &call->in;
  bool is_head = mg_str_equal(call->method, MG_STR("HEAD"));
  while (!call->head_read && in->len) {
    struct mg_arena *arena = call->response.headers.arena;
    mg_headers_init(&call->response.headers, arena);
    int took =
        mg_response_head_parse(&call->response, in->at, in->len, is_head ? MG_METHOD_HEAD : MG_METHOD_GET, &limits);
    if (took <= 0) return took ? took : MG_EAGAIN_LATER;
    if (mg_response_head_keep(&call->response, in->at, (size_t)took)) return MG_ENOMEM;
    mg_inflow_take(in, (size_t)took);
    if (call->response.status < 200) continue;
    call->head_read = true;
    if (mg_body_start(&call->decoder, call->response.framing, call->response.content_length, arena, NULL))
      return MG_ENOMEM;
  }
  if (!call->head_read) return MG_EAGAIN_LATER;
  while (in->len && !call->decoder.done) {
    struct mg_body_piece piece;
    if (mg_body_decode(&call->decoder, in->at, in->len, &piece)) return MG_EUPBAD;
    mg_inflow_take(in, piece.consumed);
    if (call->answer.len + piece.len > call->body_bytes_max) return MG_EUPHELD;
    mg_buf_append(&call->answer, piece.data, piece.len);
    if (!piece.consumed) break;
  }
  return call->decoder.done ? 0 : MG_EAGAIN_LATER;
}

static void on_data(struct mg_conn *conn, char *bytes, size_t len)
{
  struct mg_call *call = ((struct mg_upconn *)conn)->user;
  mg_inflow_add(&call->in, bytes, len);
  int err = read_answer(call);
  if (err == MG_EAGAIN_LATER)
    mg_inflow_keep(&call->in);
  else
    finish(call, err);
}

static void send_head(struct mg_call *call);

static void on_end(struct mg_conn *conn, int err)
{
  struct mg_upconn *up = (struct mg_upconn *)conn;
  struct mg_call *call = up->user;
  bool stale = up->reused && !call->head_read && !call->in.len && !call->retried && !call->body.len;
  if (call->head_read && err == MG_ECLOSED && mg_body_end(&call->decoder) == 0) {
    finish(call, 0);
  } else if (stale) { /* closed while it was idle: once more on a fresh one */
    struct mg_target *target = up->target;
    call->retried = true;
    leave(call, false);
    int result = mg_target_acquire(target, &call->acquire, true, false, &up);
    if (result < 0) finish(call, result);
  } else {
    finish(call, MG_EUPCLOSED);
  }
}

static void on_drained(struct mg_conn *conn, int err)
{
  (void)conn, (void)err; /* a broken write shows in what is read, or in time running out */
}

static void on_timeout(struct mg_conn *conn)
{
  (void)conn; /* the call has a time of its own */
}

static void on_connected(struct mg_conn *conn, int err)
{
  (void)conn, (void)err;
}

static const struct mg_conn_events call_events = {.data = on_data,
                                                  .end = on_end,
                                                  .drained = on_drained,
                                                  .timeout = on_timeout,
                                                  .connected = on_connected,
                                                  .closed = mg_upconn_closed};

static void hold(struct mg_call *call, struct mg_upconn *up)
{
  call->up = up;
  up->user = call;
  up->conn.events = &call_events;
  send_head(call);
}

static void on_ready(struct mg_acquire *acquire, struct mg_upconn *up, int err)
{
  struct mg_call *call = (struct mg_call *)acquire;
  if (err)
    finish(call, err);
  else
    hold(call, up);
}

/* The path behind that of the member's URL, as an exchange's would be. {NULL, 0}: no memory. */
static struct mg_str target_at(struct mg_call *call, const struct mg_member *member)
{
  struct mg_str prefix = member->path_prefix, path = call->path;
  if (!prefix.len) return path;
  if (prefix.ptr[prefix.len - 1] == '/') prefix.len--; /* the path begins with one */
  char *out = mg_arena_alloc(call->headers.arena, prefix.len + path.len);
  if (!out) return (struct mg_str){0};
  memcpy(out, prefix.ptr, prefix.len);
  memcpy(out + prefix.len, path.ptr, path.len);
  return mg_str(out, prefix.len + path.len);
}

static void send_head(struct mg_call *call)
{
  const struct mg_member *member = &call->group->members[0];
  for (unsigned i = 0; i < call->group->count; i++)
    if (call->group->members[i].target == call->up->target) member = &call->group->members[i];
  const struct mg_request_out out = {.method = call->method,
                                     .target = target_at(call, member),
                                     .host = member->authority,
                                     .headers = &call->headers,
                                     .own = true,
                                     .body = call->body.len ? MG_OUT_LENGTH : MG_OUT_NONE,
                                     .content_length = call->body.len};
  size_t bound = mg_request_write_bound(&out);
  char *head = out.target.ptr ? mg_arena_alloc(call->headers.arena, bound) : NULL;
  long len = head ? mg_request_write(head, bound, &out) : -1;
  if (len < 0) {
    fail_soon(call, MG_ENOMEM);
    return;
  }
  uv_buf_t bufs[2] = {uv_buf_init(head, (unsigned)len), uv_buf_init((char *)call->body.ptr, (unsigned)call->body.len)};
  mg_conn_write(&call->up->conn, bufs, call->body.len ? 2 : 1);
}

void mg_call_init(struct mg_call *call, struct mg_net *net, struct mg_group *group, struct mg_arena *arena)
{
  *call = (struct mg_call){.net = net, .group = group, .method = MG_STR("GET"), .path = MG_STR("/")};
  call->acquire.ready = on_ready;
  mg_timer_init(&call->timer, on_timer);
  mg_headers_init(&call->headers, arena);
  mg_headers_init(&call->response.headers, arena);
}

void mg_call_start(struct mg_call *call, struct mg_upstreams *upstreams, uint64_t timeout_ms)
{
  mg_timer_set(&call->net->wheel, &call->timer, timeout_ms ? timeout_ms : 1);
  int index = mg_group_choose(call->group, upstreams, 0, &call->tried);
  if (index < 0) {
    fail_soon(call, MG_ENOUPSTREAM);
    return;
  }
  struct mg_upconn *up = NULL;
  int result = mg_target_acquire(call->group->members[index].target, &call->acquire, false, true, &up);
  if (result < 0)
    fail_soon(call, result);
  else if (result == 0)
    hold(call, up);
}

void mg_call_end(struct mg_call *call)
{
  leave(call, false);
  mg_timer_remove(&call->timer);
  mg_buf_free(&call->answer);
}
