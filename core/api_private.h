/* api_private.h - what the files that define functions of lua/moongate_ffi.h share. Nobody else includes it.
 *
 * Every such file includes this header first: the declarations get default visibility, so that ffi.C finds them. */
#pragma once

#pragma GCC visibility push(default)
#include <stddef.h>
#include <stdint.h>

#include "moongate_ffi.h"
#pragma GCC visibility pop

#include "api.h"
#include "exchange.h"

/** The gateway that handles are looked up in; NULL in the builder. */
struct mg_gateway *mg_api_gateway(void);

/** The exchange behind a handle, or NULL when it has ended. */
static inline struct mg_exchange *find(const void *handle)
{
  struct mg_gateway *gateway = mg_api_gateway();
  return gateway ? mg_exchange_find(gateway, (uint64_t)(uintptr_t)handle) : NULL;
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

/** Whether filters may change the request now. */
static inline bool mg_api_may_edit(const struct mg_exchange *ex)
{
  return ex->phase == MG_PHASE_REQUEST || ex->phase == MG_PHASE_UPSTREAM;
}

/** The nth line (from 0) of that name, or NULL. */
const struct mg_header *mg_api_line(const struct mg_headers *list, struct mg_str name, unsigned nth);
/** As above, as text for Lua. */
const char *mg_api_give_line(const struct mg_headers *list, const char *name, size_t name_len, unsigned nth, int *len);
/** 1 if the first line of that name has exactly that value. */
int mg_api_line_is(const struct mg_headers *list, const char *name, size_t name_len, const char *value,
                   size_t value_len);
/** 0 and the name's id, or why a filter may not write that line (MG_LUA_*). */
int mg_api_check_line(struct mg_str name, struct mg_str value, enum mg_header_id *id);
/** The same of a line whose value is known to be one. lines remembers names that come again. */
int mg_api_check_name(struct mg_made_lines *lines, struct mg_str name, enum mg_header_id *id);
/** Notes a change to the request that goes upstream; copies. 0 or MG_LUA_NOMEM. */
int mg_api_add_edit(struct mg_exchange *ex, enum mg_edit_op op, struct mg_str name, struct mg_str value,
                    enum mg_header_id id);
/** Changes a list of header lines for a filter; 0 or MG_LUA_*. lines, which outlives the list, remembers what comes
 * again; NULL for what is of one exchange only. */
int mg_api_edit_list(struct mg_headers *list, struct mg_made_lines *lines, enum mg_edit_op op, struct mg_str name,
                     struct mg_str value);
