/* output.c - a set of outputs: a lua_State in which their modules run, fed one exchange at a time.
 * Owns: the lua_State, the view that Lua reads.   May call: script, the Lua C API.   Never: decide what is read or
 * how far a checkpoint goes.   Thread: one per set. */
#include "output_private.h"

#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <stdlib.h>

#include "json.h"
#include "script.h"

struct mg_outputs {
  struct mg_script script;
  struct mg_out_exchange view;
  int write, flush, close; /* functions of lua/outputs.lua, in the registry */
  bool want_bodies;
  bool ended;
};

/* Calls a function behind ref with `arguments` values from the stack: true, "ended", or false and a message. */
static bool call(struct mg_outputs *outputs, int ref, int arguments, struct mg_buf *why)
{
  lua_State *L = outputs->script.L;
  int base = lua_gettop(L) - arguments;
  lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
  lua_insert(L, base + 1);
  int status = lua_pcall(L, arguments, 2, 0);
  bool done = status == 0 && lua_isboolean(L, base + 1) && lua_toboolean(L, base + 1);
  if (!done) {
    size_t len = 0;
    const char *text = lua_tolstring(L, status == 0 ? base + 2 : base + 1, &len);
    if (text)
      mg_buf_append(why, text, len);
    else if (status == 0)
      outputs->ended = true; /* false and nothing else: nobody reads any more */
    else
      mg_buf_printf(why, "an output failed with a value of type %s", luaL_typename(L, base + 1));
  }
  lua_settop(L, base);
  return done;
}

/* Takes the functions that outputs.open has left in a table. */
static int take_function(lua_State *L, const char *name)
{
  lua_getfield(L, -1, name);
  return luaL_ref(L, LUA_REGISTRYINDEX);
}

/* open(config, folder, view, bit_by_bit) of lua/outputs.lua: a table, or nil and a message. */
static bool open_set(struct mg_outputs *outputs, const char *config, const char *folder, enum mg_outputs_use use,
                     struct mg_buf *why)
{
  lua_State *L = outputs->script.L;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moongate.outputs");
  if (lua_pcall(L, 1, 1, 0) == 0) {
    lua_getfield(L, -1, "open");
    lua_pushstring(L, config);
    lua_pushstring(L, folder ? folder : ".");
    lua_pushlightuserdata(L, &outputs->view);
    lua_pushboolean(L, use == MG_OUTPUTS_BIT_BY_BIT);
    if (lua_pcall(L, 4, 2, 0) == 0 && lua_istable(L, -2)) {
      lua_pop(L, 1);
      outputs->write = take_function(L, "write");
      outputs->flush = take_function(L, "flush");
      outputs->close = take_function(L, "close");
      lua_getfield(L, -1, "want_bodies");
      outputs->want_bodies = lua_toboolean(L, -1);
      lua_settop(L, 0);
      return true;
    }
  }
  size_t len = 0;
  const char *text = lua_tolstring(L, -1, &len);
  mg_buf_append(why, text ? text : "outputs cannot be opened", text ? len : strlen("outputs cannot be opened"));
  return false;
}

struct mg_outputs *mg_outputs_open(const char *config, const char *folder, enum mg_outputs_use use, struct mg_buf *why)
{
  struct mg_outputs *outputs = mg_calloc(1, sizeof *outputs);
  signal(SIGPIPE, SIG_IGN);
  outputs->script.L = mg_script_open();
  if (outputs->script.L && open_set(outputs, config, folder, use, why)) return outputs;
  if (!outputs->script.L) mg_buf_printf(why, "cannot start Lua");
  mg_script_close(&outputs->script);
  free(outputs);
  return NULL;
}

bool mg_outputs_want_bodies(const struct mg_outputs *outputs)
{
  return outputs->want_bodies;
}

bool mg_outputs_write(struct mg_outputs *outputs, const struct mg_found_exchange *exchange,
                      enum mg_incomplete incomplete, struct mg_buf *why)
{
  if (outputs->ended) return false;
  mg_output_view(exchange, incomplete, &outputs->view);
  return call(outputs, outputs->write, 0, why);
}

bool mg_outputs_flush(struct mg_outputs *outputs, bool durable, struct mg_buf *why)
{
  if (outputs->ended) return false;
  lua_pushboolean(outputs->script.L, durable);
  return call(outputs, outputs->flush, 1, why);
}

bool mg_outputs_ended(const struct mg_outputs *outputs)
{
  return outputs->ended;
}

bool mg_outputs_close(struct mg_outputs **pointer, struct mg_buf *why)
{
  struct mg_outputs *outputs = *pointer;
  *pointer = NULL;
  bool done = call(outputs, outputs->close, 0, why) || outputs->ended;
  mg_script_close(&outputs->script);
  free(outputs);
  return done;
}

static void put_option(struct mg_buf *config, const char *from, size_t len)
{
  const char *equals = memchr(from, '=', len);
  size_t name_len = equals ? (size_t)(equals - from) : len;
  mg_json_string(config, mg_str(from, name_len));
  mg_buf_append(config, ":", 1);
  mg_json_string(config, equals ? mg_str(equals + 1, len - name_len - 1) : MG_STR("true"));
  mg_buf_append(config, ",", 1);
}

void mg_outputs_config(const char *name, const char *to, struct mg_buf *config)
{
  size_t name_len = strcspn(name, ":");
  mg_buf_printf(config, "[{\"output\":");
  mg_json_string(config, mg_str(name, name_len));
  mg_buf_printf(config, ",\"options\":{");
  for (const char *at = name + name_len; *at; at += strcspn(at, ",")) {
    at++;
    if (*at && *at != ',') put_option(config, at, strcspn(at, ","));
  }
  mg_json_close(config, "}");
  mg_buf_printf(config, ",\"command\":true"); /* a file would be no surprise in tailer.yaml */
  if (to) {
    mg_buf_printf(config, ",\"to\":");
    mg_json_string(config, mg_str(to, strlen(to)));
  }
  mg_buf_append(config, "}]", 3); /* with its NUL */
}
