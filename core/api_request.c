/* api_request.c - what filters read of a request and change about it.
 * Owns: nothing.   May call: exchange, headers, target.   Never: call Lua (an FFI call must not come back).
 * Thread: the loop's. */
#include "api_private.h"

#include "cookie.h"
#include "query.h"

const char *mg_request_header(struct mg_request *request, const char *name, size_t name_len, int *len)
{
  return mg_request_header_at(request, name, name_len, 0, len);
}

const char *mg_request_header_at(struct mg_request *request, const char *name, size_t name_len, unsigned nth, int *len)
{
  struct mg_exchange *ex = find(request);
  return ex ? mg_api_give_line(&ex->request.headers, name, name_len, nth, len) : none(len, MG_LUA_GONE);
}

const char *mg_request_upstream_header(struct mg_request *request, const char *name, size_t name_len, int *len)
{
  struct mg_exchange *ex = find(request);
  struct mg_headers edited;
  if (!ex) return none(len, MG_LUA_GONE);
  if (mg_exchange_edited_headers(ex, &edited)) return none(len, MG_LUA_NOMEM);
  return mg_api_give_line(&edited, name, name_len, 0, len);
}

int mg_request_header_is(struct mg_request *request, const char *name, size_t name_len, const char *value,
                         size_t value_len)
{
  struct mg_exchange *ex = find(request);
  return ex ? mg_api_line_is(&ex->request.headers, name, name_len, value, value_len) : MG_LUA_GONE;
}

int mg_request_has(struct mg_request *request, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(request);
  return ex ? mg_api_line(&ex->request.headers, mg_str(name, name_len), 0) != NULL : MG_LUA_GONE;
}

/* made, or NULL: laid out already, to be borrowed. */
static int add_edit(struct mg_exchange *ex, enum mg_edit_op op, const struct mg_header *made, struct mg_str name,
                    struct mg_str value, enum mg_header_id id)
{
  struct mg_edit *edit = mg_arena_alloc(&ex->arena, sizeof *edit);
  if (!edit) return MG_LUA_NOMEM;
  if (made)
    edit->line = *made;
  else if (mg_header_make(&edit->line, &ex->arena, name, value, id))
    return MG_LUA_NOMEM;
  edit->next = NULL;
  edit->op = (uint8_t)op;
  *ex->last_edit = edit;
  ex->last_edit = &edit->next;
  return MG_LUA_OK;
}

int mg_api_add_edit(struct mg_exchange *ex, enum mg_edit_op op, struct mg_str name, struct mg_str value,
                    enum mg_header_id id)
{
  return add_edit(ex, op, NULL, name, value, id);
}

static int set_host(struct mg_exchange *ex, struct mg_str value)
{
  struct mg_str host, port;
  if (!mg_authority_split(value, &host, &port)) return MG_LUA_TARGET;
  char *copy = mg_arena_copy(&ex->arena, value.ptr, value.len);
  if (!copy) return MG_LUA_NOMEM;
  ex->new_host = mg_str(copy, value.len);
  return MG_LUA_OK;
}

static int edit_request(struct mg_exchange *ex, enum mg_edit_op op, struct mg_str name, struct mg_str value)
{
  if (!ex) return MG_LUA_GONE;
  if (!mg_api_may_edit(ex)) return MG_LUA_PHASE;
  struct mg_made_lines *lines = ex->generation->made_lines;
  const struct mg_header *made = mg_made_lines_find(lines, name, value);
  enum mg_header_id id = made ? (enum mg_header_id)made->id : MG_H_OTHER; /* a response may have had a Host */
  int err = made ? MG_LUA_OK : mg_api_check_line(name, value, &id);
  if (err) return err;
  if (id == MG_H_HOST) return op == MG_EDIT_SET ? set_host(ex, value) : MG_LUA_FRAMING;
  if (!made) mg_made_lines_note(lines, name, value, id);
  return add_edit(ex, op, made, name, value, id);
}

int mg_request_set_header(struct mg_request *request, const char *name, size_t name_len, const char *value,
                          size_t value_len)
{
  return edit_request(find(request), MG_EDIT_SET, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_request_add_header(struct mg_request *request, const char *name, size_t name_len, const char *value,
                          size_t value_len)
{
  return edit_request(find(request), MG_EDIT_ADD, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_request_remove_header(struct mg_request *request, const char *name, size_t name_len)
{
  return edit_request(find(request), MG_EDIT_REMOVE, mg_str(name, name_len), MG_STR(""));
}

int mg_request_set_id_header(struct mg_request *request, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (!mg_api_may_edit(ex)) return MG_LUA_PHASE;
  enum mg_header_id id;
  int err = mg_api_check_name(ex->generation->made_lines, mg_str(name, name_len), &id);
  if (err) return err;
  if (id == MG_H_HOST) return set_host(ex, mg_exchange_id_text(ex));
  return add_edit(ex, MG_EDIT_SET, NULL, mg_str(name, name_len), mg_exchange_id_text(ex), id);
}

#define REQUEST_TEXT(name, expression)                            \
  const char *name(struct mg_request *request, int *len)          \
  {                                                               \
    struct mg_exchange *ex = find(request);                       \
    return ex ? give((expression), len) : none(len, MG_LUA_GONE); \
  }

REQUEST_TEXT(mg_request_method, ex->request.method)
REQUEST_TEXT(mg_request_path, ex->target.path)
REQUEST_TEXT(mg_request_raw_target, ex->raw_target)
REQUEST_TEXT(mg_request_host, ex->request_host)
REQUEST_TEXT(mg_request_client_ip, mg_str(ex->client_address.text, ex->client_address.text_len))
REQUEST_TEXT(mg_request_id, mg_exchange_id_text(ex))

const char *mg_request_query_string(struct mg_request *request, int *len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return none(len, MG_LUA_GONE);
  return ex->target.has_query ? give(ex->target.query, len) : none(len, 0);
}

const char *mg_request_query(struct mg_request *request, const char *name, size_t name_len, int *len)
{
  struct mg_exchange *ex = find(request);
  struct mg_str value;
  if (!ex) return none(len, MG_LUA_GONE);
  if (!ex->target.has_query || !mg_query_get(ex->target.query, mg_str(name, name_len), &ex->arena, &value))
    return none(len, 0);
  return give(value, len);
}

const char *mg_request_cookie(struct mg_request *request, const char *name, size_t name_len, int *len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return none(len, MG_LUA_GONE);
  struct mg_str value;
  return mg_cookie_get(&ex->request.headers, mg_str(name, name_len), &value) ? give(value, len) : none(len, 0);
}

int mg_request_set_path(struct mg_request *request, const char *path, size_t len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (!mg_api_may_edit(ex)) return MG_LUA_PHASE;
  if (!len || path[0] != '/') return MG_LUA_TARGET;
  struct mg_str encoded = mg_path_encode(mg_str(path, len), &ex->arena);
  struct mg_target_parts parts; /* what the client may not send must not come out of a rewriting either */
  if (!encoded.ptr) return MG_LUA_NOMEM;
  if (mg_target_split(&parts, encoded, &ex->arena, false)) return MG_LUA_TARGET;
  ex->new_path = encoded;
  return MG_LUA_OK;
}

int mg_request_set_query_string(struct mg_request *request, const char *query, size_t len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (!mg_api_may_edit(ex)) return MG_LUA_PHASE;
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)query[i] <= 0x20 || query[i] == 0x7f || query[i] == '#') return MG_LUA_TARGET;
  char *copy = mg_arena_copy(&ex->arena, query, len);
  if (!copy) return MG_LUA_NOMEM;
  ex->new_query = mg_str(copy, len);
  return MG_LUA_OK;
}

void mg_request_mark(struct mg_request *request)
{
  struct mg_exchange *ex = find(request);
  if (ex) ex->mark = mg_exchange_mark(ex);
}

int mg_request_answered(struct mg_request *request)
{
  struct mg_exchange *ex = find(request);
  return ex ? ex->answered : MG_LUA_GONE;
}

/* Notes which filter has answered, for the journal and the log functions. */
static bool note_author(struct mg_exchange *ex)
{
  const struct mg_metered *author = mg_exchange_filter(ex);
  if (!author) return true;
  struct mg_attribute *note = mg_arena_alloc(&ex->arena, sizeof *note);
  if (!note) return false;
  *note = (struct mg_attribute){ex->attributes, MG_STR("gateway.shortcircuit.name"),
                                mg_str(author->name, strlen(author->name))};
  ex->attributes = note;
  return true;
}

int mg_request_respond(struct mg_request *request, int status, const char *body, size_t body_len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST) return MG_LUA_PHASE;
  if (ex->answered) return MG_LUA_ANSWERED;
  if (status < 200 || status > 599) return MG_LUA_STATUS;
  char *copy = mg_arena_copy(&ex->arena, body, body_len);
  if (!copy || !note_author(ex)) return MG_LUA_NOMEM;
  mg_headers_init(&ex->response.headers, &ex->arena);
  ex->answered = true;
  ex->gateway->turn.ended = 1;
  ex->source = MG_FROM_FILTER;
  ex->response.status = (uint16_t)status;
  ex->response.reason = MG_STR("");
  ex->answer_body = mg_str(copy, body_len);
  return MG_LUA_OK;
}

int mg_request_respond_header(struct mg_request *request, const char *name, size_t name_len, const char *value,
                              size_t value_len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST || !ex->answered) return MG_LUA_PHASE;
  return mg_api_edit_list(&ex->response.headers, ex->generation->made_lines, MG_EDIT_ADD, mg_str(name, name_len),
                          mg_str(value, value_len));
}
