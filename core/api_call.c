/* api_call.c - moongate.http: a filter's own request, prepared, sent while the filter waits, and read.
 * Owns: nothing.   May call: call, exchange.   Never: call Lua (an FFI call must not come back).   Thread: the
 * loop's. */
#include "api_private.h"

static struct mg_exchange *running(void)
{
  struct mg_gateway *gateway = mg_api_gateway();
  return gateway ? gateway->running : NULL;
}

/* The call that is being prepared, or NULL with *err set. */
static struct mg_call *preparing(int *err)
{
  struct mg_exchange *ex = running();
  *err = !ex ? MG_LUA_GONE : !ex->call || ex->call_runs ? MG_LUA_PHASE : MG_LUA_OK;
  return *err ? NULL : ex->call;
}

static void on_done(struct mg_call *call, void *context)
{
  struct mg_exchange *ex = context;
  (void)call;
  ex->call_runs = false;
  mg_exchange_run(ex);
}

static int keep(struct mg_exchange *ex, struct mg_str *into, const char *text, size_t len)
{
  char *copy = mg_arena_copy(&ex->arena, text, len);
  if (!copy) return MG_LUA_NOMEM;
  *into = mg_str(copy, len);
  return MG_LUA_OK;
}

static bool is_target(struct mg_str path)
{
  for (size_t i = 0; i < path.len; i++)
    if ((unsigned char)path.ptr[i] <= 0x20 || path.ptr[i] == 0x7f || path.ptr[i] == '#') return false;
  return path.len && path.ptr[0] == '/';
}

int mg_call_prepare(unsigned route, const char *method, size_t method_len, const char *path, size_t path_len,
                    double timeout_ms)
{
  struct mg_exchange *ex = running();
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST && ex->phase != MG_PHASE_RESPONSE && ex->phase != MG_PHASE_CHUNK)
    return MG_LUA_PHASE;
  if (ex->call_runs) return MG_LUA_PHASE;
  if (!mg_header_name_ok(mg_str(method, method_len)) || method_len > 32) return MG_LUA_NAME;
  if (!is_target(mg_str(path, path_len)) || route >= ex->generation->plan_count) return MG_LUA_TARGET;
  if (ex->call)
    mg_call_end(ex->call);
  else
    ex->call = mg_arena_alloc(&ex->arena, sizeof *ex->call);
  if (!ex->call) return MG_LUA_NOMEM;
  mg_call_init(ex->call, &ex->gateway->net, &ex->generation->plans[route].group, &ex->arena);
  ex->call->done = on_done;
  ex->call->context = ex;
  ex->call->body_bytes_max = ex->gateway->settings->held_body_max;
  ex->call_timeout_ms = (uint64_t)timeout_ms;
  int err = keep(ex, &ex->call->method, method, method_len);
  return err ? err : keep(ex, &ex->call->path, path, path_len);
}

int mg_call_header(const char *name, size_t name_len, const char *value, size_t value_len)
{
  int err;
  struct mg_call *call = preparing(&err);
  return call ? mg_api_edit_list(&call->headers, NULL, MG_EDIT_ADD, mg_str(name, name_len), mg_str(value, value_len))
              : err;
}

int mg_call_body(const char *bytes, size_t len)
{
  int err;
  struct mg_call *call = preparing(&err);
  return call ? keep(running(), &call->body, bytes, len) : err;
}

int mg_call_status(void)
{
  struct mg_exchange *ex = running();
  if (!ex || !ex->call || ex->call_runs) return MG_LUA_PHASE;
  return ex->call->err ? 0 : ex->call->response.status;
}

const char *mg_call_error(int *len)
{
  struct mg_exchange *ex = running();
  if (!ex || !ex->call || !ex->call->err) return none(len, 0);
  const char *word = mg_err_word(ex->call->err);
  return give(mg_str(word, strlen(word)), len);
}

const char *mg_call_answer(int *len)
{
  struct mg_exchange *ex = running();
  if (!ex || !ex->call) return none(len, MG_LUA_PHASE);
  return give(mg_str(ex->call->answer.len ? ex->call->answer.ptr : "", ex->call->answer.len), len);
}

const char *mg_call_answer_line(unsigned nth, int *len, const char **value, int *value_len)
{
  struct mg_exchange *ex = running();
  if (!ex || !ex->call || nth >= ex->call->response.headers.count) return none(len, 0);
  const struct mg_header *line = &ex->call->response.headers.items[nth];
  *value = give(mg_str(line->value, line->value_len), value_len);
  return give(mg_str(line->name, line->name_len), len);
}
