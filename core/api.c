/* api.c - ties the functions of lua/moongate_ffi.h to this process's gateway; what concerns a whole exchange.
 * Owns: nothing.   May call: exchange, headers.   Never: call Lua (an FFI call must not come back).   Thread: the
 * loop's. */
#include "api_private.h"

#include <time.h>

#include "exchange_trace.h"
#include "log.h"

_Static_assert((int)MG_SOURCE_UPSTREAM == (int)MG_FROM_UPSTREAM && (int)MG_SOURCE_GATEWAY == (int)MG_FROM_GATEWAY,
               "sources");
_Static_assert((int)MG_MATCH_OPAQUE == (int)MG_PREDICATE_OPAQUE && (int)MG_MATCH_NOT == (int)MG_COMBINE_NOT,
               "predicates");

/* Handles are numbers: what they count in has to be found without an argument. One gateway per process. */
static struct mg_gateway *bound;

void mg_api_bind(struct mg_gateway *gateway)
{
  bound = gateway;
}

struct mg_gateway *mg_api_gateway(void)
{
  return bound;
}

/* --- header lists ------------------------------------------------------------------------------------------------- */

const struct mg_header *mg_api_line(const struct mg_headers *list, struct mg_str name, unsigned nth)
{
  unsigned from = 0;
  const struct mg_header *line;
  do {
    line = mg_headers_next(list, name, &from);
  } while (line && nth--);
  return line;
}

const char *mg_api_give_line(const struct mg_headers *list, const char *name, size_t name_len, unsigned nth, int *len)
{
  const struct mg_header *line = mg_api_line(list, mg_str(name, name_len), nth);
  return line ? give(mg_str(line->value, line->value_len), len) : none(len, 0);
}

int mg_api_line_is(const struct mg_headers *list, const char *name, size_t name_len, const char *value,
                   size_t value_len)
{
  const struct mg_header *line = mg_api_line(list, mg_str(name, name_len), 0);
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
  case MG_H_EXPECT:
    return true;
  default:
    return false;
  }
}

/* Filters use the same few names again and again: what has been found out of one is remembered, by its bytes. */
static struct mg_name_memo *look_up(struct mg_gateway *gateway, struct mg_str name)
{
  unsigned hash = (unsigned)name.len * 31 + (unsigned char)name.ptr[0] * 7 + (unsigned char)name.ptr[name.len - 1];
  struct mg_name_memo *memo = &gateway->names[hash % MG_NAME_MEMOS];
  if (memo->len == name.len && memcmp(memo->bytes, name.ptr, name.len) == 0) return memo;
  if (!mg_header_name_ok(name)) return NULL;
  memcpy(memo->bytes, name.ptr, name.len);
  memo->len = (uint8_t)name.len;
  memo->id = (uint8_t)mg_header_id(name.ptr, name.len);
  return memo;
}

int mg_api_check_line(struct mg_str name, struct mg_str value, enum mg_header_id *id)
{
  struct mg_gateway *gateway = bound;
  if (gateway && name.len && name.len <= sizeof gateway->names[0].bytes) {
    const struct mg_name_memo *memo = look_up(gateway, name);
    if (!memo) return MG_LUA_NAME;
    *id = memo->id;
  } else {
    if (!mg_header_name_ok(name)) return MG_LUA_NAME;
    *id = mg_header_id(name.ptr, name.len);
  }
  if (!mg_header_value_ok(value)) return MG_LUA_VALUE;
  return is_framing(*id) ? MG_LUA_FRAMING : MG_LUA_OK;
}

int mg_api_check_name(struct mg_made_lines *lines, struct mg_str name, enum mg_header_id *id)
{
  const struct mg_header *made = mg_made_lines_find(lines, name, MG_STR(""));
  if (made) return *id = made->id, MG_LUA_OK;
  int err = mg_api_check_line(name, MG_STR(""), id);
  if (!err) mg_made_lines_note(lines, name, MG_STR(""), *id);
  return err;
}

static int edit_list_made(struct mg_headers *list, enum mg_edit_op op, const struct mg_header *made)
{
  if (op == MG_EDIT_REMOVE) return mg_headers_remove_as(list, mg_str(made->name, made->name_len), made->id), MG_LUA_OK;
  int err = op == MG_EDIT_SET ? mg_headers_set_made(list, made) : mg_headers_add_made(list, made);
  return err ? MG_LUA_NOMEM : MG_LUA_OK;
}

int mg_api_edit_list(struct mg_headers *list, struct mg_made_lines *lines, enum mg_edit_op op, struct mg_str name,
                     struct mg_str value)
{
  const struct mg_header *made = lines ? mg_made_lines_find(lines, name, value) : NULL;
  if (made) return edit_list_made(list, op, made);
  enum mg_header_id id;
  int err = mg_api_check_line(name, value, &id);
  if (err) return err;
  if (lines) mg_made_lines_note(lines, name, value, id);
  if (op == MG_EDIT_REMOVE) return mg_headers_remove_as(list, name, id), MG_LUA_OK;
  err = op == MG_EDIT_SET ? mg_headers_set_as(list, name, value, id) : mg_headers_add_as(list, name, value, id);
  return err ? MG_LUA_NOMEM : MG_LUA_OK;
}

/* --- the exchange ------------------------------------------------------------------------------------------------- */

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
  switch (which) {
  case MG_NUMBER_STATUS:
    return ex->response.status;
  case MG_NUMBER_DURATION_US:
    return (double)(ex->ended_ns - ex->began_ns) / 1e3; /* log runs behind that moment */
  case MG_NUMBER_UPSTREAM_US:
    return ex->first_byte_ns ? (double)(ex->first_byte_ns - ex->sent_ns) / 1e3 : 0;
  case MG_NUMBER_REQUEST_BYTES:
    return (double)ex->request_body.body_size;
  case MG_NUMBER_RESPONSE_BYTES:
    return (double)ex->response_bytes;
  case MG_NUMBER_TRIES:
    return ex->tries;
  case MG_NUMBER_TUNNEL:
    return ex->tunnel;
  default:
    return 0;
  }
}

int mg_exchange_set_attribute(struct mg_exchange *handle, const char *name, size_t name_len, const char *value,
                              size_t value_len)
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

const char *mg_exchange_attribute_name(struct mg_exchange *handle, unsigned nth, int *len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return none(len, MG_LUA_GONE);
  const struct mg_attribute *attribute = ex->attributes;
  while (attribute && nth--) attribute = attribute->next;
  return attribute ? give(attribute->name, len) : none(len, 0);
}

const char *mg_exchange_attribute(struct mg_exchange *handle, const char *name, size_t name_len, int *len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return none(len, MG_LUA_GONE);
  for (const struct mg_attribute *attribute = ex->attributes; attribute; attribute = attribute->next)
    if (mg_str_equal(attribute->name, mg_str(name, name_len))) return give(attribute->value, len);
  return none(len, 0);
}

double mg_wall_time(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

const char *mg_failure_hint(const char *message)
{
  return mg_script_hint(message);
}

void mg_script_log(int level, const char *text, size_t len)
{
  struct mg_log_about about = {0};
  if (bound && bound->running) about = mg_exchange_about(bound->running);
  mg_log_about(level <= 0   ? MG_LOG_DEBUG
               : level == 1 ? MG_LOG_INFO
               : level == 2 ? MG_LOG_WARN
                            : MG_LOG_ERROR,
               &about, "%.*s", (int)len, text);
}

void mg_script_filter_failed(struct mg_exchange *handle, const char *message, size_t len)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return;
  struct mg_str route = mg_routes_id(ex->generation->routes, (unsigned)ex->route);
  struct mg_log_about about = mg_exchange_about(ex);
  const struct mg_metered *metered = mg_exchange_filter(ex);
  mg_log_about(MG_LOG_WARN, &about, "filter %u (%s) of route %.*s failed and is passed over: %.*s",
               metered ? metered->position : 0, metered ? metered->name : "-", (int)route.len, route.ptr, (int)len,
               message);
  mg_exchange_meter_failure(ex);
}
