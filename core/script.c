/* script.c - lua_States and calls into them.
 * Owns: the state and its coroutines.   May call: Lua C API.   Never: know an exchange, touch libuv.   Thread: one
 * at a time. */
#include "script.h"

#include <lauxlib.h>
#include <lualib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embedded.h"
#include "log.h"

/* Pushes the text of a file: from $MOONGATE_LUA_PATH/name where that is set, else the embedded one. Nil if there is
 * none. */
static int push_source(lua_State *L, const char *name)
{
  const char *folder = getenv("MOONGATE_LUA_PATH");
  if (folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) return lua_pushnil(L), 0;
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    size_t got;
    do {
      got = fread(luaL_prepbuffer(&buffer), 1, LUAL_BUFFERSIZE, file);
      luaL_addsize(&buffer, got);
    } while (got > 0);
    luaL_pushresult(&buffer);
    fclose(file);
    return 1;
  }
  struct mg_str source = mg_embedded(name);
  if (!source.ptr) return lua_pushnil(L), 0;
  lua_pushlstring(L, source.ptr, source.len);
  return 1;
}

/* moongate_embedded(name) -> source or nil */
static int embedded_source(lua_State *L)
{
  push_source(L, luaL_checkstring(L, 1));
  return 1;
}

/* A package loader: moongate.NAME is lua/NAME.lua, moongate.filters.NAME is left to the filter loader. */
static int load_embedded(lua_State *L)
{
  const char *module = luaL_checkstring(L, 1);
  if (strncmp(module, "moongate.", 9) != 0 || strchr(module + 9, '.')) return 0;
  char name[256], chunk[260];
  snprintf(name, sizeof name, "lua/%s.lua", module + 9);
  snprintf(chunk, sizeof chunk, "@%s", name);
  if (!push_source(L, name)) {
    lua_pushfstring(L, "\n\tno embedded file '%s'", name);
    return 1;
  }
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  if (luaL_loadbuffer(L, text, len, chunk)) return lua_error(L);
  return 1;
}

/* Puts load_embedded second in package.loaders, behind preload. */
static void install_loader(lua_State *L)
{
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, load_embedded);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
  lua_pushcfunction(L, embedded_source);
  lua_setglobal(L, "moongate_embedded");
}

/* Takes a text off the stack and appends it to a field of the table below it. */
static void extend(lua_State *L, const char *name)
{
  lua_getfield(L, -2, name);
  lua_pushfstring(L, "%s;%s", lua_tostring(L, -1), lua_tostring(L, -2));
  lua_setfield(L, -4, name);
  lua_pop(L, 2);
}

/* An executable that LuaRocks has installed into a tree finds what else is in that tree. */
static void add_own_tree(lua_State *L)
{
  char tree[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", tree, sizeof tree - 1);
  if (len <= 0) return;
  tree[len] = '\0';
  *strrchr(tree, '/') = '\0';
  char *folder = strrchr(tree, '/');
  if (!folder || strcmp(folder, "/bin") != 0) return;
  *folder = '\0';
  if (strpbrk(tree, "?;")) return; /* would mean something else in a path of Lua */
  lua_getglobal(L, "package");
  lua_pushfstring(L, "%s/share/lua/5.1/?.lua;%s/share/lua/5.1/?/init.lua", tree, tree);
  extend(L, "path");
  lua_pushfstring(L, "%s/lib/lua/5.1/?.so", tree);
  extend(L, "cpath");
  lua_pop(L, 1);
}

lua_State *mg_script_open(void)
{
  lua_State *L = luaL_newstate();
  if (!L) return NULL;
  luaL_openlibs(L);
  add_own_tree(L);
  install_loader(L);
  return L;
}

/* Any error value becomes text with a traceback. */
static int describe_error(lua_State *L)
{
  const char *message = lua_tostring(L, 1);
  if (!message) message = lua_pushfstring(L, "(error value of type %s)", luaL_typename(L, 1));
  luaL_traceback(L, L, message, 1);
  return 1;
}

static void append_top(lua_State *L, struct mg_buf *text)
{
  size_t len;
  const char *bytes = lua_tolstring(L, -1, &len);
  if (bytes)
    mg_buf_append(text, bytes, len);
  else
    mg_buf_printf(text, "(error value of type %s)", luaL_typename(L, -1));
}

int mg_script_run_command(lua_State *L, const char *module, int argc, char **argv, int *code, struct mg_buf *output,
                          struct mg_buf *error)
{
  int top = lua_gettop(L), result = MG_ESCRIPT;
  lua_pushcfunction(L, describe_error);
  lua_getglobal(L, "require");
  lua_pushfstring(L, "moongate.%s", module);
  if (lua_pcall(L, 1, 1, top + 1)) goto out;
  lua_getfield(L, -1, "main");
  lua_createtable(L, argc, 0);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  if (lua_pcall(L, 1, 2, top + 1)) goto out;
  *code = (int)lua_tointeger(L, -2);
  if (lua_isstring(L, -1)) append_top(L, output);
  result = MG_OK;
out:
  if (result) append_top(L, error);
  lua_settop(L, top);
  return result;
}

/* --- coroutines --------------------------------------------------------------------------------------------------- */

static struct mg_coroutine take_coroutine(struct mg_script *script)
{
  if (script->idle_count) {
    script->idle_count--;
    return (struct mg_coroutine){script->idle[script->idle_count], script->refs[script->idle_count]};
  }
  lua_State *L = lua_newthread(script->L);
  return (struct mg_coroutine){L, luaL_ref(script->L, LUA_REGISTRYINDEX)};
}

static void give_back(struct mg_script *script, struct mg_coroutine coroutine)
{
  if (script->idle_count == MG_COROUTINES_MAX) {
    luaL_unref(script->L, LUA_REGISTRYINDEX, coroutine.ref);
    return;
  }
  lua_settop(coroutine.L, 0);
  script->idle[script->idle_count] = coroutine.L;
  script->refs[script->idle_count] = coroutine.ref;
  script->idle_count++;
}

/* The gateway's own Lua, whose lines say nothing to who wrote a filter. */
static bool is_own(const char *source)
{
  return strncmp(source, "lua/", 4) == 0;
}

/* What was called wrongly fails in the gateway's own Lua: the message then names the line that called. */
static void append_message(lua_State *L, struct mg_buf *error)
{
  lua_Debug frame;
  const char *message = lua_tostring(L, -1), *rest = message ? strstr(message, ": ") : NULL;
  bool own = message && rest && is_own(message);
  for (int level = 0; own && lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline <= 0 || frame.source[0] != '@' || is_own(frame.short_src)) continue;
    mg_buf_printf(error, "%s:%d%s", frame.short_src, frame.currentline, rest);
    return;
  }
  append_top(L, error);
}

const char *mg_script_hint(const char *message)
{
  static const char *const without[] = {"io", "ffi", "jit", "debug", "package", "collectgarbage", "dofile", "loadfile"};
  const char *global = strstr(message, "global '");
  for (size_t i = 0; global && i < sizeof without / sizeof without[0]; i++) {
    size_t len = strlen(without[i]);
    if (strncmp(global + 8, without[i], len) == 0 && global[8 + len] == '\'')
      return " (filters run without it; see \"What a filter may not do\" in filters/README.md)";
  }
  return "";
}

/* A traceback of where a dead coroutine failed, as one line. */
static void append_failure(lua_State *L, struct mg_buf *error)
{
  append_message(L, error);
  if (lua_isstring(L, -1)) mg_buf_printf(error, "%s", mg_script_hint(lua_tostring(L, -1)));
  lua_Debug frame;
  for (int level = 0; level < 8 && lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0 && frame.source[0] == '@')
      mg_buf_printf(error, " < %s:%d", frame.short_src, frame.currentline);
  }
}

static int resume(struct mg_script *script, lua_State *L, int arguments)
{
  script->memory.limited = true;
  if (script->watchdog) mg_watchdog_enter(script->watchdog, script->L);
  int status = lua_resume(L, arguments);
  if (script->watchdog) script->kills = mg_watchdog_leave(script->watchdog);
  script->memory.limited = false;
  return status;
}

static int run(struct mg_script *script, struct mg_coroutine coroutine, int arguments, struct mg_coroutine *waiting,
               struct mg_buf *error)
{
  int status = resume(script, coroutine.L, arguments);
  if (status == 0) {
    give_back(script, coroutine);
    mg_script_memory_check(&script->memory, script->L);
    return MG_OK;
  }
  if (status == LUA_YIELD) {
    *waiting = coroutine;
    return MG_EAGAIN_LATER;
  }
  append_failure(coroutine.L, error);
  luaL_unref(script->L, LUA_REGISTRYINDEX, coroutine.ref); /* a coroutine that failed is dead */
  mg_script_memory_check(&script->memory, script->L);      /* only now its stack holds nothing any more */
  return MG_ESCRIPT;
}

int mg_script_call(struct mg_script *script, int ref, double argument, struct mg_coroutine *waiting,
                   struct mg_buf *error)
{
  struct mg_coroutine coroutine = take_coroutine(script);
  lua_rawgeti(coroutine.L, LUA_REGISTRYINDEX, ref);
  lua_pushnumber(coroutine.L, argument);
  return run(script, coroutine, 1, waiting, error);
}

int mg_script_resume(struct mg_script *script, struct mg_coroutine *waiting, struct mg_buf *error)
{
  struct mg_coroutine coroutine = *waiting;
  *waiting = (struct mg_coroutine){0};
  lua_settop(coroutine.L, 0); /* what it yielded has been read */
  return run(script, coroutine, 0, waiting, error);
}

int mg_script_ask(struct mg_script *script, int ref, double argument, unsigned index, struct mg_buf *error)
{
  struct mg_coroutine coroutine = take_coroutine(script);
  lua_State *L = coroutine.L;
  lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
  lua_pushnumber(L, argument);
  lua_pushnumber(L, index);
  int status = resume(script, L, 2);
  if (status == 0) {
    int truth = lua_toboolean(L, -1);
    give_back(script, coroutine);
    mg_script_memory_check(&script->memory, script->L);
    return truth;
  }
  if (status == LUA_YIELD)
    mg_buf_printf(error, "a predicate may not wait");
  else
    append_failure(L, error);
  luaL_unref(script->L, LUA_REGISTRYINDEX, coroutine.ref);
  mg_script_memory_check(&script->memory, script->L);
  return MG_ESCRIPT;
}

enum mg_wait mg_coroutine_waits(const struct mg_coroutine *waiting, double *milliseconds)
{
  lua_State *L = waiting->L;
  const char *what = lua_gettop(L) >= 1 ? lua_tostring(L, 1) : NULL;
  if (!what) return MG_WAIT_NOTHING;
  if (strcmp(what, "job") == 0) return MG_WAIT_JOB;
  if (strcmp(what, "call") == 0) return MG_WAIT_CALL;
  if (strcmp(what, "sleep") != 0 || !lua_isnumber(L, 2)) return MG_WAIT_NOTHING;
  *milliseconds = lua_tonumber(L, 2);
  return *milliseconds >= 0 && *milliseconds < 86400e3 ? MG_WAIT_SLEEP : MG_WAIT_NOTHING;
}

void mg_script_drop(struct mg_script *script, struct mg_coroutine *waiting)
{
  if (waiting->L) luaL_unref(script->L, LUA_REGISTRYINDEX, waiting->ref);
  *waiting = (struct mg_coroutine){0};
}

void mg_script_close(struct mg_script *script)
{
  if (script->L && script->borrowed) {
    for (unsigned i = 0; i < script->idle_count; i++) luaL_unref(script->L, LUA_REGISTRYINDEX, script->refs[i]);
  } else if (script->L) {
    if (script->watchdog) mg_watchdog_forget(script->watchdog, script->L);
    mg_script_memory_leave(&script->memory, script->L);
    lua_close(script->L);
  }
  *script = (struct mg_script){0};
}
