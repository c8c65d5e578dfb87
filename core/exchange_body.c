/* exchange_body.c - bodies that filters hold or change: collected before a phase, or passed through `chunk` piece by
 * piece.
 * Owns: ex->request_held, ex->answer_held, ex->piece while a filter has it.   May call: http1, conn,
 * exchange_script.
 * Never: choose where an exchange goes.   Thread: the loop's. */
#include "exchange.h"

static bool too_large(struct mg_exchange *ex, uint64_t size)
{
  return size > ex->gateway->settings->held_body_max;
}

/* A client that asked before sending waits for word from somebody: the upstream has not been asked yet. */
static int say_continue(struct mg_exchange *ex)
{
  static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (!ex->request.expects_100) return 0;
  ex->request.expects_100 = false;
  uv_buf_t buf = uv_buf_init((char *)interim, sizeof interim - 1);
  return mg_conn_write(&ex->client->conn, &buf, 1) < 0 ? MG_ERESET : 0;
}

int mg_exchange_collect_request(struct mg_exchange *ex)
{
  if (too_large(ex, ex->request.content_length)) return MG_EBODYHELD;
  while (!ex->request_done) {
    struct mg_body_piece piece;
    int err = mg_exchange_next_body_piece(ex, &piece);
    if (err) return err;
    if (too_large(ex, ex->request_held.len + piece.len)) return MG_EBODYHELD;
    mg_buf_append(&ex->request_held, piece.data, piece.len);
    if (piece.last) break;
    if (!piece.consumed) {
      err = say_continue(ex);
      mg_client_read_on(ex->client);
      return err ? err : MG_EAGAIN_LATER;
    }
  }
  ex->request_is_held = true;
  return 0;
}

int mg_exchange_collect_answer(struct mg_exchange *ex)
{
  for (;;) {
    struct mg_body_piece piece;
    int err = mg_exchange_next_answer_piece(ex, &piece);
    if (err == MG_EAGAIN_LATER && ex->up) mg_conn_timeout(&ex->up->conn, ex->plan->group.read_ms);
    if (err) return err == MG_ETRUNCATED ? MG_EUPCLOSED : err;
    if (too_large(ex, ex->answer_held.len + piece.len)) return MG_EUPHELD;
    mg_buf_append(&ex->answer_held, piece.data, piece.len);
    if (piece.last) break;
  }
  mg_exchange_leave_upstream(ex, ex->response.keep_alive);
  ex->answer_is_held = true;
  ex->answer_body = mg_str(ex->answer_held.ptr, ex->answer_held.len);
  return 0;
}

/* Its bytes are the connection's, which goes on while a filter waits. */
static void keep_piece(struct mg_exchange *ex)
{
  ex->given.len = 0;
  mg_buf_append(&ex->given, ex->piece.data, ex->piece.len);
  ex->piece_given = true;
}

int mg_exchange_transform(struct mg_exchange *ex, int ref, struct mg_body_piece *piece)
{
  if (!ex->piece_waits) {
    ex->piece = *piece;
    ex->piece_ref = ref;
    ex->piece_given = false;
  }
  const struct mg_chain chain = {.plain = ref, .timed = ref};
  int err = mg_exchange_call(ex, &chain, MG_PHASE_CHUNK);
  if (err == MG_EAGAIN_LATER && !ex->piece_waits) keep_piece(ex);
  ex->piece_waits = err == MG_EAGAIN_LATER;
  if (err) return err;
  piece->last = ex->piece.last;
  if (ex->piece_given) {
    piece->data = ex->given.ptr;
    piece->len = ex->given.len;
  }
  return 0;
}
