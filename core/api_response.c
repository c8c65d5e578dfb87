/* api_response.c - what filters read of an answer and change about it.
 * Owns: nothing.   May call: exchange, headers.   Never: call Lua (an FFI call must not come back).   Thread: the
 * loop's. */
#include "api_private.h"

const char *mg_response_header(struct mg_response *response, const char *name, size_t name_len, int *len)
{
  return mg_response_header_at(response, name, name_len, 0, len);
}

const char *mg_response_header_at(struct mg_response *response, const char *name, size_t name_len, unsigned nth,
                                  int *len)
{
  struct mg_exchange *ex = find(response);
  return ex ? mg_api_give_line(&ex->response.headers, name, name_len, nth, len) : none(len, MG_LUA_GONE);
}

int mg_response_header_is(struct mg_response *response, const char *name, size_t name_len, const char *value,
                          size_t value_len)
{
  struct mg_exchange *ex = find(response);
  return ex ? mg_api_line_is(&ex->response.headers, name, name_len, value, value_len) : MG_LUA_GONE;
}

int mg_response_has(struct mg_response *response, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(response);
  return ex ? mg_api_line(&ex->response.headers, mg_str(name, name_len), 0) != NULL : MG_LUA_GONE;
}

/* again: the like may come in the next exchange. */
static int edit_response(struct mg_exchange *ex, enum mg_edit_op op, struct mg_str name, struct mg_str value,
                         bool again)
{
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_RESPONSE) return MG_LUA_PHASE;
  return mg_api_edit_list(&ex->response.headers, again ? ex->generation->made_lines : NULL, op, name, value);
}

int mg_response_set_header(struct mg_response *response, const char *name, size_t name_len, const char *value,
                           size_t value_len)
{
  return edit_response(find(response), MG_EDIT_SET, mg_str(name, name_len), mg_str(value, value_len), true);
}

int mg_response_add_header(struct mg_response *response, const char *name, size_t name_len, const char *value,
                           size_t value_len)
{
  return edit_response(find(response), MG_EDIT_ADD, mg_str(name, name_len), mg_str(value, value_len), true);
}

int mg_response_remove_header(struct mg_response *response, const char *name, size_t name_len)
{
  return edit_response(find(response), MG_EDIT_REMOVE, mg_str(name, name_len), MG_STR(""), true);
}

int mg_response_set_id_header(struct mg_response *response, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_RESPONSE) return MG_LUA_PHASE;
  enum mg_header_id id;
  int err = mg_api_check_name(ex->generation->made_lines, mg_str(name, name_len), &id);
  if (err) return err;
  err = mg_headers_set_as(&ex->response.headers, mg_str(name, name_len), mg_exchange_id_text(ex), id);
  return err ? MG_LUA_NOMEM : MG_LUA_OK;
}

int mg_response_copy_request_header(struct mg_response *response, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return MG_LUA_GONE;
  const struct mg_header *line = mg_api_line(&ex->request.headers, mg_str(name, name_len), 0);
  if (!line) return 0;
  int err = edit_response(ex, MG_EDIT_SET, mg_str(name, name_len), mg_str(line->value, line->value_len), false);
  return err ? err : 1;
}

int mg_response_status(struct mg_response *response)
{
  struct mg_exchange *ex = find(response);
  return ex ? ex->response.status : MG_LUA_GONE;
}

int mg_response_set_status(struct mg_response *response, int status)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_RESPONSE) return MG_LUA_PHASE;
  if (status < 200 || status > 599) return MG_LUA_STATUS;
  if (ex->response.status != status) ex->response.reason = MG_STR("");
  ex->response.status = (uint16_t)status;
  return MG_LUA_OK;
}

int mg_response_source(struct mg_response *response)
{
  struct mg_exchange *ex = find(response);
  return ex ? ex->source : MG_LUA_GONE;
}
