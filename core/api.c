/* api.c - the functions of lua/moongate_ffi.h that filters call, and nothing else.
 * Owns: nothing.   May call: exchange, headers, target.   Never: call Lua (an FFI call must not come back).
 * Thread: the loop's. */
#pragma GCC visibility push(default)
#include <stddef.h>
#include <stdint.h>

#include "moongate_ffi.h"
#pragma GCC visibility pop

#include "api.h"

#include <stdlib.h>

#include "exchange.h"
#include "log.h"

_Static_assert((int)MG_SOURCE_UPSTREAM == (int)MG_FROM_UPSTREAM && (int)MG_SOURCE_GATEWAY == (int)MG_FROM_GATEWAY, "sources");
_Static_assert((int)MG_MATCH_OPAQUE == (int)MG_PREDICATE_OPAQUE && (int)MG_MATCH_NOT == (int)MG_COMBINE_NOT, "predicates");

/* Handles are numbers: what they count in has to be found without an argument. One gateway per process. */
static struct mg_gateway *bound;

void mg_api_bind(struct mg_gateway *gateway)
{
  bound = gateway;
}

static inline struct mg_exchange *find(const void *handle)
{
  return bound ? mg_exchange_find(bound, (uint64_t)(uintptr_t)handle) : NULL;
}

static inline const char *give(struct mg_str text, int *len)
{
  *len = (int)text.len;
  return text.ptr;
}

static inline const char *none(int *len, int err)
{
  *len = err;
  return NULL;
}

/* --- header lists ---------------------------------------------------------------------------------------------------------------- */

static const struct mg_header *nth_line(const struct mg_headers *list, struct mg_str name, unsigned nth)
{
  unsigned from = 0;
  const struct mg_header *line;
  do {
    line = mg_headers_next(list, name, &from);
  } while (line && nth--);
  return line;
}

static const char *give_line(const struct mg_headers *list, const char *name, size_t name_len, unsigned nth, int *len)
{
  const struct mg_header *line = nth_line(list, mg_str(name, name_len), nth);
  return line ? give(mg_str(line->value, line->value_len), len) : none(len, 0);
}

static int line_is(const struct mg_headers *list, const char *name, size_t name_len, const char *value, size_t value_len)
{
  const struct mg_header *line = nth_line(list, mg_str(name, name_len), 0);
  return line && line->value_len == value_len && memcmp(line->value, value, value_len) == 0;
}

/* Lines by which messages are framed or connections kept: the gateway's alone. */
static bool is_framing(enum mg_header_id id)
{
  switch (id) {
  case MG_H_CONNECTION:
  case MG_H_KEEP_ALIVE:
  case MG_H_PROXY_CONNECTION:
  case MG_H_UPGRADE:
  case MG_H_TE:
  case MG_H_TRAILER:
  case MG_H_TRANSFER_ENCODING:
  case MG_H_CONTENT_LENGTH:
  case MG_H_EXPECT: return true;
  default: return false;
  }
}

static int check_line(struct mg_str name, struct mg_str value)
{
  if (!mg_header_name_ok(name)) return MG_LUA_NAME;
  if (!mg_header_value_ok(value)) return MG_LUA_VALUE;
  return is_framing(mg_header_id(name.ptr, name.len)) ? MG_LUA_FRAMING : MG_LUA_OK;
}

static int edit_list(struct mg_headers *list, enum mg_edit_op op, struct mg_str name, struct mg_str value)
{
  int err = check_line(name, value);
  if (err) return err;
  if (op == MG_EDIT_REMOVE) return mg_headers_remove(list, name), MG_LUA_OK;
  err = op == MG_EDIT_SET ? mg_headers_set(list, name, value) : mg_headers_add(list, name, value);
  return err ? MG_LUA_NOMEM : MG_LUA_OK;
}

/* --- the request ----------------------------------------------------------------------------------------------------------------- */

const char *mg_request_header(struct mg_request *request, const char *name, size_t name_len, int *len)
{
  return mg_request_header_at(request, name, name_len, 0, len);
}

const char *mg_request_header_at(struct mg_request *request, const char *name, size_t name_len, unsigned nth, int *len)
{
  struct mg_exchange *ex = find(request);
  return ex ? give_line(&ex->request.headers, name, name_len, nth, len) : none(len, MG_LUA_GONE);
}

const char *mg_request_upstream_header(struct mg_request *request, const char *name, size_t name_len, int *len)
{
  struct mg_exchange *ex = find(request);
  struct mg_headers edited;
  if (!ex) return none(len, MG_LUA_GONE);
  if (mg_exchange_edited_headers(ex, &edited)) return none(len, MG_LUA_NOMEM);
  return give_line(&edited, name, name_len, 0, len);
}

int mg_request_header_is(struct mg_request *request, const char *name, size_t name_len, const char *value, size_t value_len)
{
  struct mg_exchange *ex = find(request);
  return ex ? line_is(&ex->request.headers, name, name_len, value, value_len) : MG_LUA_GONE;
}

int mg_request_has(struct mg_request *request, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(request);
  return ex ? nth_line(&ex->request.headers, mg_str(name, name_len), 0) != NULL : MG_LUA_GONE;
}

static int add_edit(struct mg_exchange *ex, enum mg_edit_op op, struct mg_str name, struct mg_str value)
{
  struct mg_edit *edit = mg_arena_alloc(&ex->arena, sizeof *edit + name.len + value.len);
  if (!edit) return MG_LUA_NOMEM;
  char *text = (char *)(edit + 1);
  memcpy(text, name.ptr, name.len);
  memcpy(text + name.len, value.ptr, value.len);
  *edit = (struct mg_edit){.name = mg_str(text, name.len), .value = mg_str(text + name.len, value.len), .op = (uint8_t)op};
  *ex->last_edit = edit;
  ex->last_edit = &edit->next;
  return MG_LUA_OK;
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

static int edit_request(struct mg_request *request, enum mg_edit_op op, struct mg_str name, struct mg_str value)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST) return MG_LUA_PHASE;
  int err = check_line(name, value);
  if (err) return err;
  if (mg_header_id(name.ptr, name.len) == MG_H_HOST) return op == MG_EDIT_SET ? set_host(ex, value) : MG_LUA_FRAMING;
  return add_edit(ex, op, name, value);
}

int mg_request_set_header(struct mg_request *request, const char *name, size_t name_len, const char *value, size_t value_len)
{
  return edit_request(request, MG_EDIT_SET, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_request_add_header(struct mg_request *request, const char *name, size_t name_len, const char *value, size_t value_len)
{
  return edit_request(request, MG_EDIT_ADD, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_request_remove_header(struct mg_request *request, const char *name, size_t name_len)
{
  return edit_request(request, MG_EDIT_REMOVE, mg_str(name, name_len), MG_STR(""));
}

int mg_request_set_id_header(struct mg_request *request, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(request);
  return ex ? edit_request(request, MG_EDIT_SET, mg_str(name, name_len), mg_exchange_id_text(ex)) : MG_LUA_GONE;
}

#define REQUEST_TEXT(name, expression)                              \
  const char *name(struct mg_request *request, int *len)            \
  {                                                                 \
    struct mg_exchange *ex = find(request);                         \
    return ex ? give((expression), len) : none(len, MG_LUA_GONE);   \
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
  if (!ex->target.has_query || !mg_query_get(ex->target.query, mg_str(name, name_len), &ex->arena, &value)) return none(len, 0);
  return give(value, len);
}

/* One pair of a Cookie line (RFC 6265, 4.2.1); quotes around a value belong to it. */
static bool find_cookie(struct mg_str line, struct mg_str name, struct mg_str *value)
{
  const char *at = line.ptr, *end = line.ptr + line.len;
  while (at < end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == ';')) at++;
    const char *stop = memchr(at, ';', (size_t)(end - at));
    if (!stop) stop = end;
    const char *equals = memchr(at, '=', (size_t)(stop - at));
    if (equals && mg_str_equal(mg_str(at, (size_t)(equals - at)), name)) {
      while (stop > equals + 1 && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
      *value = mg_str(equals + 1, (size_t)(stop - equals - 1));
      return true;
    }
    at = stop;
  }
  return false;
}

const char *mg_request_cookie(struct mg_request *request, const char *name, size_t name_len, int *len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return none(len, MG_LUA_GONE);
  unsigned from = 0;
  const struct mg_header *line;
  struct mg_str value;
  while ((line = mg_headers_next(&ex->request.headers, MG_STR("cookie"), &from)))
    if (find_cookie(mg_str(line->value, line->value_len), mg_str(name, name_len), &value)) return give(value, len);
  return none(len, 0);
}

int mg_request_set_path(struct mg_request *request, const char *path, size_t len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST) return MG_LUA_PHASE;
  if (!len || path[0] != '/') return MG_LUA_TARGET;
  struct mg_str encoded = mg_path_encode(mg_str(path, len), &ex->arena);
  if (!encoded.ptr) return MG_LUA_NOMEM;
  ex->new_path = encoded;
  return MG_LUA_OK;
}

int mg_request_set_query_string(struct mg_request *request, const char *query, size_t len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST) return MG_LUA_PHASE;
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)query[i] <= 0x20 || query[i] == 0x7f || query[i] == '#') return MG_LUA_TARGET;
  char *copy = mg_arena_copy(&ex->arena, query, len);
  if (!copy) return MG_LUA_NOMEM;
  ex->new_query = mg_str(copy, len);
  return MG_LUA_OK;
}

int mg_request_answered(struct mg_request *request)
{
  struct mg_exchange *ex = find(request);
  return ex ? ex->answered : MG_LUA_GONE;
}

int mg_request_respond(struct mg_request *request, int status, const char *body, size_t body_len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST) return MG_LUA_PHASE;
  if (ex->answered) return MG_LUA_ANSWERED;
  if (status < 200 || status > 599) return MG_LUA_STATUS;
  char *copy = mg_arena_copy(&ex->arena, body, body_len);
  if (!copy) return MG_LUA_NOMEM;
  mg_headers_init(&ex->response.headers, &ex->arena);
  ex->answered = true;
  ex->source = MG_FROM_FILTER;
  ex->response.status = (uint16_t)status;
  ex->response.reason = MG_STR("");
  ex->answer_body = mg_str(copy, body_len);
  return MG_LUA_OK;
}

int mg_request_respond_header(struct mg_request *request, const char *name, size_t name_len, const char *value, size_t value_len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST || !ex->answered) return MG_LUA_PHASE;
  return edit_list(&ex->response.headers, MG_EDIT_ADD, mg_str(name, name_len), mg_str(value, value_len));
}

/* --- the answer ------------------------------------------------------------------------------------------------------------------ */

const char *mg_response_header(struct mg_response *response, const char *name, size_t name_len, int *len)
{
  return mg_response_header_at(response, name, name_len, 0, len);
}

const char *mg_response_header_at(struct mg_response *response, const char *name, size_t name_len, unsigned nth, int *len)
{
  struct mg_exchange *ex = find(response);
  return ex ? give_line(&ex->response.headers, name, name_len, nth, len) : none(len, MG_LUA_GONE);
}

int mg_response_header_is(struct mg_response *response, const char *name, size_t name_len, const char *value, size_t value_len)
{
  struct mg_exchange *ex = find(response);
  return ex ? line_is(&ex->response.headers, name, name_len, value, value_len) : MG_LUA_GONE;
}

int mg_response_has(struct mg_response *response, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(response);
  return ex ? nth_line(&ex->response.headers, mg_str(name, name_len), 0) != NULL : MG_LUA_GONE;
}

static int edit_response(struct mg_response *response, enum mg_edit_op op, struct mg_str name, struct mg_str value)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_RESPONSE) return MG_LUA_PHASE;
  return edit_list(&ex->response.headers, op, name, value);
}

int mg_response_set_header(struct mg_response *response, const char *name, size_t name_len, const char *value, size_t value_len)
{
  return edit_response(response, MG_EDIT_SET, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_response_add_header(struct mg_response *response, const char *name, size_t name_len, const char *value, size_t value_len)
{
  return edit_response(response, MG_EDIT_ADD, mg_str(name, name_len), mg_str(value, value_len));
}

int mg_response_remove_header(struct mg_response *response, const char *name, size_t name_len)
{
  return edit_response(response, MG_EDIT_REMOVE, mg_str(name, name_len), MG_STR(""));
}

int mg_response_set_id_header(struct mg_response *response, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(response);
  return ex ? edit_response(response, MG_EDIT_SET, mg_str(name, name_len), mg_exchange_id_text(ex)) : MG_LUA_GONE;
}

int mg_response_copy_request_header(struct mg_response *response, const char *name, size_t name_len)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return MG_LUA_GONE;
  const struct mg_header *line = nth_line(&ex->request.headers, mg_str(name, name_len), 0);
  if (!line) return 0;
  int err = edit_response(response, MG_EDIT_SET, mg_str(name, name_len), mg_str(line->value, line->value_len));
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

/* --- the exchange ---------------------------------------------------------------------------------------------------------------- */

const char *mg_exchange_id(struct mg_exchange *handle, int *len)
{
  struct mg_exchange *ex = find(handle);
  return ex ? give(mg_exchange_id_text(ex), len) : none(len, MG_LUA_GONE);
}

const char *mg_exchange_route(struct mg_exchange *handle, int *len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return none(len, MG_LUA_GONE);
  return ex->route < 0 ? none(len, 0) : give(mg_routes_id(ex->generation->routes, (unsigned)ex->route), len);
}

const char *mg_exchange_error(struct mg_exchange *handle, int *len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return none(len, MG_LUA_GONE);
  if (!ex->err) return none(len, 0);
  const char *word = mg_err_word(ex->err);
  return give(mg_str(word, strlen(word)), len);
}

double mg_exchange_number(struct mg_exchange *handle, int which)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return MG_LUA_GONE;
  uint64_t now = uv_hrtime();
  switch (which) {
  case MG_NUMBER_STATUS: return ex->response.status;
  case MG_NUMBER_DURATION_US: return (double)(now - ex->began_ns) / 1e3;
  case MG_NUMBER_UPSTREAM_US: return ex->first_byte_ns ? (double)(ex->first_byte_ns - ex->sent_ns) / 1e3 : 0;
  case MG_NUMBER_REQUEST_BYTES: return (double)ex->request_body.body_size;
  case MG_NUMBER_RESPONSE_BYTES: return (double)ex->response_bytes;
  case MG_NUMBER_TRIES: return ex->tries;
  default: return 0;
  }
}

int mg_exchange_set_attribute(struct mg_exchange *handle, const char *name, size_t name_len, const char *value, size_t value_len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase == MG_PHASE_LOG) return MG_LUA_PHASE;
  struct mg_attribute *attribute = mg_arena_alloc(&ex->arena, sizeof *attribute + name_len + value_len);
  if (!attribute) return MG_LUA_NOMEM;
  char *text = (char *)(attribute + 1);
  memcpy(text, name, name_len);
  memcpy(text + name_len, value, value_len);
  *attribute = (struct mg_attribute){ex->attributes, mg_str(text, name_len), mg_str(text + name_len, value_len)};
  ex->attributes = attribute; /* the newest is found first */
  return MG_LUA_OK;
}

const char *mg_exchange_attribute(struct mg_exchange *handle, const char *name, size_t name_len, int *len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return none(len, MG_LUA_GONE);
  for (const struct mg_attribute *attribute = ex->attributes; attribute; attribute = attribute->next)
    if (mg_str_equal(attribute->name, mg_str(name, name_len))) return give(attribute->value, len);
  return none(len, 0);
}

void mg_script_log(int level, const char *text, size_t len)
{
  mg_log(level <= 0 ? MG_LOG_DEBUG : level == 1 ? MG_LOG_INFO : level == 2 ? MG_LOG_WARN : MG_LOG_ERROR, "%.*s", (int)len, text);
}

void mg_script_filter_failed(struct mg_exchange *handle, const char *message, size_t len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return;
  struct mg_str id = mg_exchange_id_text(ex), route = mg_routes_id(ex->generation->routes, (unsigned)ex->route);
  mg_log(MG_LOG_WARN, "filter %u of route %.*s failed in exchange %.*s and is passed over: %.*s", *mg_script_running_filter(),
         (int)route.len, route.ptr, (int)id.len, id.ptr, (int)len, message);
  mg_count(&ex->gateway->cell->count.script_errors, 1);
}

uint32_t *mg_script_running_filter(void)
{
  static uint32_t nowhere; /* in the builder nothing watches */
  return bound ? (uint32_t *)&bound->cell->running_filter : &nowhere;
}
