/* api_edits.c - what filters change about a request besides its header lines: parameters, cookies, limits, the
 * target.
 * Owns: nothing.   May call: exchange, target, query, cookie, upstream.   Never: call Lua (an FFI call must not come
 * back).
 * Thread: the loop's. */
#include "api_private.h"

#include "cookie.h"
#include "query.h"

_Static_assert((int)MG_QUERY_OP_SET == (int)MG_QUERY_SET && (int)MG_QUERY_OP_REMOVE == (int)MG_QUERY_REMOVE,
               "query edits");

/* The exchange behind a handle if its request can be changed now; else NULL and why not. */
static struct mg_exchange *find_editable(const void *handle, int *err)
{
  struct mg_exchange *ex = find(handle);
  *err = !ex ? MG_LUA_GONE : !mg_api_may_edit(ex) ? MG_LUA_PHASE : MG_LUA_OK;
  return *err ? NULL : ex;
}

const char *mg_request_upstream_path(struct mg_request *request, int *len)
{
  struct mg_exchange *ex = find(request);
  struct mg_target_parts parts;
  if (!ex) return none(len, MG_LUA_GONE);
  if (!ex->new_path.ptr) return give(ex->target.path, len);
  /* What set_path let pass is not looked at again; only room can be missing. */
  if (mg_target_split(&parts, ex->new_path, &ex->arena, false) == MG_ENOMEM) return none(len, MG_LUA_NOMEM);
  return give(parts.path, len);
}

int mg_request_edit_query(struct mg_request *request, int op, const char *name, size_t name_len, const char *value,
                          size_t value_len)
{
  int err;
  struct mg_exchange *ex = find_editable(request, &err);
  if (!ex) return err;
  struct mg_str query = ex->new_query.ptr ? ex->new_query : ex->target.query;
  struct mg_str edited =
      mg_query_edit(query, (enum mg_query_op)op, mg_str(name, name_len), mg_str(value, value_len), &ex->arena);
  if (!edited.ptr) return MG_LUA_NOMEM;
  ex->new_query = edited;
  return MG_LUA_OK;
}

static int edit_cookie(struct mg_request *request, enum mg_edit_op op, struct mg_str name, struct mg_str value)
{
  int err;
  struct mg_exchange *ex = find_editable(request, &err);
  if (!ex) return err;
  if (!mg_cookie_name_ok(name)) return MG_LUA_NAME;
  if (!mg_cookie_value_ok(value)) return MG_LUA_VALUE;
  return mg_api_add_edit(ex, op, name, value, MG_H_OTHER);
}

int mg_request_set_cookie(struct mg_request *request, const char *name, size_t name_len, const char *value,
                          size_t value_len)
{
  return edit_cookie(request, MG_EDIT_SET_COOKIE, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_request_remove_cookie(struct mg_request *request, const char *name, size_t name_len)
{
  return edit_cookie(request, MG_EDIT_REMOVE_COOKIE, mg_str(name, name_len), MG_STR(""));
}

int mg_request_limit_body(struct mg_request *request, double bytes_max)
{
  int err;
  struct mg_exchange *ex = find_editable(request, &err);
  if (!ex) return err;
  uint64_t most = bytes_max < 1 ? 1 : bytes_max > 9e15 ? (uint64_t)9e15 : (uint64_t)bytes_max;
  if (!ex->body_bytes_max || most < ex->body_bytes_max) ex->body_bytes_max = most;
  return ex->request.framing != MG_FRAMING_LENGTH || ex->request.content_length <= most;
}

const char *mg_request_target(struct mg_request *request, unsigned nth, int *len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return none(len, MG_LUA_GONE);
  if (!ex->plan || nth >= ex->plan->group.count) return none(len, 0);
  const char *key = ex->plan->group.members[nth].key;
  return give(mg_str(key, strlen(key)), len);
}

int mg_request_set_target(struct mg_request *request, unsigned nth)
{
  int err;
  struct mg_exchange *ex = find_editable(request, &err);
  if (!ex) return err;
  if (nth >= ex->plan->group.count) return MG_LUA_TARGET;
  ex->wanted_member = (int16_t)(nth + 1);
  return MG_LUA_OK;
}

int mg_request_try(struct mg_request *request)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  return ex->phase == MG_PHASE_UPSTREAM ? ex->tries + 1 : ex->tries; /* there it is about to begin */
}

int mg_exchange_keep_locals(struct mg_exchange *handle, int more)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return MG_LUA_GONE;
  if (more) ex->has_locals = true;
  return ex->has_locals;
}
