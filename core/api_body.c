/* api_body.c - what filters read of bodies that are held or pass, and change about them.
 * Owns: nothing.   May call: exchange.   Never: call Lua (an FFI call must not come back).   Thread: the loop's. */
#include "api_private.h"

const char *mg_request_body(struct mg_request *request, int *len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return none(len, MG_LUA_GONE);
  if (!ex->plan || !ex->plan->holds_request) return none(len, MG_LUA_BODY);
  return give(mg_str(ex->request_held.len ? ex->request_held.ptr : "", ex->request_held.len), len);
}

static int replace(struct mg_buf *held, const char *bytes, size_t len, uint64_t most)
{
  if (len > most) return MG_LUA_NOMEM;
  held->len = 0;
  mg_buf_append(held, bytes, len);
  return MG_LUA_OK;
}

int mg_request_set_body(struct mg_request *request, const char *bytes, size_t len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST) return MG_LUA_PHASE;
  if (!ex->plan->holds_request) return MG_LUA_BODY;
  ex->request_is_held = true;
  return replace(&ex->request_held, bytes, len, ex->gateway->settings->held_body_max);
}

const char *mg_response_body(struct mg_response *response, int *len)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return none(len, MG_LUA_GONE);
  if (ex->source == MG_FROM_UPSTREAM && !ex->answer_is_held) return none(len, MG_LUA_BODY);
  return give(mg_str(ex->answer_body.len ? ex->answer_body.ptr : "", ex->answer_body.len), len);
}

int mg_response_set_body(struct mg_response *response, const char *bytes, size_t len)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_RESPONSE) return MG_LUA_PHASE;
  if (ex->source == MG_FROM_UPSTREAM && !ex->answer_is_held) return MG_LUA_BODY;
  int err = replace(&ex->answer_held, bytes, len, ex->gateway->settings->held_body_max);
  if (err) return err;
  mg_exchange_drop_file(ex);
  ex->answer_body = mg_str(ex->answer_held.ptr, ex->answer_held.len);
  return err;
}

const char *mg_piece_bytes(struct mg_exchange *handle, int *len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return none(len, MG_LUA_GONE);
  if (ex->phase != MG_PHASE_CHUNK) return none(len, MG_LUA_PHASE);
  return give(mg_str(ex->piece.len ? ex->piece.data : "", ex->piece.len), len);
}

int mg_piece_last(struct mg_exchange *handle)
{
  struct mg_exchange *ex = find(handle);
  return ex ? ex->piece.last : MG_LUA_GONE;
}

int mg_piece_give(struct mg_exchange *handle, const char *bytes, size_t len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_CHUNK) return MG_LUA_PHASE;
  ex->piece_given = true;
  return replace(&ex->given, bytes, len, UINT32_MAX);
}
