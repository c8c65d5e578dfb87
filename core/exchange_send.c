/* exchange_send.c - the request as it goes out: the head with the filters' edits, the body as it comes.
 * Owns: nothing of its own.   May call: http1, forward, conn.   Never: choose a target, Lua.   Thread: the loop's. */
#include "exchange.h"

#include "cookie.h"
#include "exchange_trace.h"

enum { RATE_GRACE_MS = 5000 };

/* Applies the filters' edits to a copy of the list: a repetition to another target starts from the client's lines
 * again. */
int mg_exchange_edited_headers(struct mg_exchange *ex, struct mg_headers *out)
{
  *out = ex->request.headers;
  bool plain = ex->plan && ex->plan->reads_answer; /* filters read the answer's body: not a compressed one */
  if (!ex->first_edit && !plain && !ex->traceparent.ptr) return 0;
  struct mg_header *items = mg_arena_alloc(&ex->arena, (out->count + 8u) * sizeof *items);
  if (!items) return MG_ENOMEM;
  memcpy(items, out->items, out->count * sizeof *items);
  out->items = items;
  out->capacity = (uint16_t)(out->count + 8);
  if (plain && mg_headers_set(out, MG_STR("accept-encoding"), MG_STR("identity"))) return MG_ENOMEM;
  if (ex->traceparent.ptr && mg_exchange_put_trace(ex, out)) return MG_ENOMEM;
  for (const struct mg_edit *edit = ex->first_edit; edit; edit = edit->next) {
    const struct mg_header *line = &edit->line;
    struct mg_str name = mg_str(line->name, line->name_len), value = mg_str(line->value, line->value_len);
    int err = 0;
    if (edit->op == MG_EDIT_SET)
      err = mg_headers_set_made(out, line);
    else if (edit->op == MG_EDIT_ADD)
      err = mg_headers_add_made(out, line);
    else if (edit->op == MG_EDIT_REMOVE)
      mg_headers_remove_as(out, name, line->id);
    else
      err = mg_cookie_set(out, name, edit->op == MG_EDIT_SET_COOKIE ? &value : NULL);
    if (err) return err;
  }
  return 0;
}

/* The request target for a member: its path prefix, the path as sent or as filters set it, the query. */
static struct mg_str upstream_target(struct mg_exchange *ex)
{
  struct mg_str prefix = ex->member->path_prefix;
  if (!prefix.len && !ex->new_path.ptr && !ex->new_query.ptr) return ex->request.target;
  bool asterisk = mg_str_equal(ex->target.raw_path, MG_STR("*")); /* not a path: nothing can be joined to it */
  if (asterisk && !ex->new_path.ptr) return ex->target.raw_path;
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
  if (ex->request_is_held)
    return ex->request_held.len || ex->request.framing != MG_FRAMING_NONE ? MG_OUT_LENGTH : MG_OUT_NONE;
  switch (ex->request.framing) {
  case MG_FRAMING_LENGTH:
    return ex->plan->chunk_request_ref ? MG_OUT_CHUNKED : MG_OUT_LENGTH;
  case MG_FRAMING_CHUNKED:
    return MG_OUT_CHUNKED;
  default:
    return MG_OUT_NONE;
  }
}

int mg_exchange_write_upstream_head(struct mg_exchange *ex)
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
                                     .content_length =
                                         ex->request_is_held ? ex->request_held.len : ex->request.content_length};
  if (!out.target.ptr) return MG_ENOMEM;
  size_t bound = mg_request_write_bound(&out);
  char *head = mg_arena_alloc(&ex->arena, bound);
  if (!head) return MG_ENOMEM;
  long len = mg_request_write(head, bound, &out);
  if (len < 0) return MG_ENOMEM;
  ex->arena.next = ex->arena.next == head + ((bound + 7) & ~(size_t)7) ? head + ((len + 7) & ~7l) : ex->arena.next;
  ex->up_head = mg_str(head, (size_t)len);
  mg_record_upstream_head(ex);
  return 0;
}

/* What ends a chunked body. Trailers that the arena has no room for are left out: they are optional (RFC 9110,
 * 6.5.1). */
static uv_buf_t last_chunk(struct mg_exchange *ex, const struct mg_headers *trailers)
{
  size_t bound = 16;
  for (unsigned i = 0; i < trailers->count; i++)
    bound += trailers->items[i].name_len + trailers->items[i].value_len + 4u;
  char *out = trailers->count ? mg_arena_alloc(&ex->arena, bound) : NULL;
  long len = out ? mg_trailers_write(out, bound, trailers) : -1;
  return len > 0 ? uv_buf_init(out, (unsigned)len) : uv_buf_init((char *)"0\r\n\r\n", 5);
}

unsigned mg_exchange_frame(struct mg_exchange *ex, const struct mg_body_piece *piece, enum mg_body_out out,
                           const struct mg_headers *trailers, uv_buf_t *bufs)
{
  unsigned count = 0;
  if (out == MG_OUT_NONE) return 0;
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
  if (piece->last) bufs[count++] = last_chunk(ex, trailers);
  return count;
}

/* A body that dribbles in holds an upstream connection: below the least rate it is given up. Time in which we did
 * not read does not count (mg_client_read_on begins anew). */
static bool too_slow(struct mg_exchange *ex)
{
  uint64_t least = ex->gateway->settings->body_rate_min, now = uv_now(ex->gateway->net.loop);
  if (!least || ex->request_done) return false;
  if (!ex->rate_since_ms) ex->rate_since_ms = now;
  uint64_t elapsed = now - ex->rate_since_ms, bytes = ex->request_body.body_size - ex->rate_bytes;
  return elapsed > RATE_GRACE_MS && bytes * 1000 < least * elapsed;
}

/* Decodes what the client has sent of its body. 0 or an error of its framing. */
int mg_exchange_next_body_piece(struct mg_exchange *ex, struct mg_body_piece *piece)
{
  *piece = (struct mg_body_piece){0};
  struct mg_inflow *in = &ex->client->in;
  if (ex->request_done || !in->len) return 0;
  int err = mg_body_decode(&ex->request_body, in->at, in->len, piece);
  if (err) return err;
  mg_inflow_take(in, piece->consumed);
  ex->request_done = piece->last;
  mg_record_body(ex, 0, piece->data, piece->len); /* as the client sent it, whatever filters make of it */
  if (too_slow(ex)) return MG_EBODYSLOW;
  uint64_t most = ex->gateway->settings->entity_bytes_max;
  if (ex->body_bytes_max && (!most || ex->body_bytes_max < most)) most = ex->body_bytes_max;
  return most && ex->request_body.body_size > most ? MG_EBODYLARGE : 0;
}

/* Milliseconds left of the time for an answer's head, which begins when the whole request is here; UINT64_MAX
 * without one. */
uint64_t mg_exchange_time_left(struct mg_exchange *ex)
{
  uint64_t most = ex->gateway->settings->request_time_max_ms, now = uv_now(ex->gateway->net.loop);
  if (!most || !ex->request_done) return UINT64_MAX;
  if (!ex->asked_ms) ex->asked_ms = now;
  uint64_t gone = now - ex->asked_ms;
  return gone < most ? most - gone : 1;
}

/* True while the next bytes have to come from the client: its own clock runs then, and no target is blamed for it.
 * One that is asked for a 100 has to speak first. */
static bool waits_for_client(const struct mg_exchange *ex)
{
  bool asked = ex->request.expects_100 && !ex->up_body_written && !ex->interim_count;
  return !ex->request_done && !ex->up->conn.queued && !asked;
}

static void arm_read_timeout(struct mg_exchange *ex)
{
  uint64_t read_ms = ex->plan->group.read_ms, left = mg_exchange_time_left(ex);
  mg_conn_timeout(&ex->up->conn, read_ms && read_ms < left ? read_ms : left == UINT64_MAX ? 0 : left);
}

/* The next piece that goes upstream: of a body that is held, that filters change, or as it comes. */
static int next_piece(struct mg_exchange *ex, struct mg_body_piece *piece)
{
  int ref = ex->plan ? ex->plan->chunk_request_ref : 0;
  *piece = (struct mg_body_piece){0};
  if (ex->request_is_held) {
    if (!ex->held_sent) *piece = (struct mg_body_piece){ex->request_held.ptr, ex->request_held.len, 0, true};
    ex->held_sent = true;
    return 0;
  }
  if (!ref || request_body_out(ex) == MG_OUT_NONE) return mg_exchange_next_body_piece(ex, piece);
  if (ex->piece_waits && ex->piece_ref == ref) return mg_exchange_transform(ex, ref, piece);
  if (ex->waiting.L) return MG_EAGAIN_LATER; /* another function of this exchange waits: the body does too */
  int err = mg_exchange_next_body_piece(ex, piece);
  if (err) return err;
  if (ex->request_done && !ex->last_given) piece->last = true; /* of a body without bytes too */
  if (!piece->len && !piece->last) return 0;
  ex->last_given = piece->last;
  return mg_exchange_transform(ex, ref, piece);
}

/* Sends the next piece, with the head if that has not gone. 1 when the upstream takes no more now, 0 or an error. */
static int send_piece(struct mg_exchange *ex)
{
  uv_buf_t bufs[6];
  unsigned count = 0;
  struct mg_body_piece piece;
  struct mg_conn *up = &ex->up->conn;
  int result = 0, err = next_piece(ex, &piece);
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
    result = mg_conn_write(up, bufs, count);
    arm_read_timeout(ex);
    if (result == 1 && !ex->request_done) mg_conn_pause(&ex->client->conn); /* the upstream is slower than the client */
    if (result < 0 && !ex->up_ended) mg_conn_read(up);                      /* an answer may be there all the same */
  }
  return result ? 1 : 0;
}

int mg_exchange_send_body(struct mg_exchange *ex)
{
  struct mg_conn *up = &ex->up->conn;
  int result;
  do { /* more may have come while a filter waited with a piece */
    result = send_piece(ex);
  } while (!result && !ex->request_done && ex->client->in.len);
  if (result < 0) return result == MG_EAGAIN_LATER ? 0 : result;
  if (waits_for_client(ex)) mg_conn_timeout(up, 0);
  if (!ex->request_done && !up->queued) mg_client_read_on(ex->client);
  return 0;
}
