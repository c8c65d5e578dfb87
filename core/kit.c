/* kit.c - a gateway that a spec drives: loads a bundle's filters into the spec's own state, runs one exchange at a
 * time.
 * Owns: the loop, the gateway, its shared memory.   May call: gateway, generation, kit_peers, Lua C API, libuv.
 * Never: keep a generation that a spec has replaced.   Thread: the main thread. */
#include "kit.h"

#include <errno.h>
#include <lauxlib.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "bundle.h"
#include "gateway.h"
#include "generation.h"
#include "kit_peers.h"
#include "listen.h"
#include "log.h"
#include "states.h"

enum { BACKLOG = 16, DEADLINE_MS = 10000, IDLE_MS = 20 };

struct kit {
  uv_loop_t loop;
  struct mg_settings settings;
  struct mg_shm shm;
  struct mg_gateway *gateway;
  struct sockaddr_storage address, upstream_address;
  int upstream_listener;
  uint64_t generations;
};

static const char registry_key[] = "moongate.kit";

static struct kit *kit_of(lua_State *L)
{
  lua_getfield(L, LUA_REGISTRYINDEX, registry_key);
  struct kit *kit = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return kit;
}

/* --- the gateway ------------------------------------------------------------------------------ */

static int listen_on(struct sockaddr_storage *address, int (*open)(struct sockaddr_storage *, int, struct mg_buf *))
{
  struct mg_buf error = {0};
  int fd = mg_listen_address(address, "127.0.0.1", 0, &error) ? -1 : open(address, BACKLOG, &error);
  mg_buf_free(&error);
  return fd;
}

/* The upstream's address is known by its number: nobody has to look it up. */
static void publish_upstream(struct kit *kit)
{
  char key[32];
  int len = snprintf(key, sizeof key, "127.0.0.1:%u", mg_listen_port(&kit->upstream_address));
  struct mg_target_cell *cell = mg_shm_target(&kit->shm, mg_str(key, (size_t)len));
  if (cell) mg_target_publish(cell, &kit->upstream_address, 1);
}

static int start(struct kit *kit)
{
  mg_log_setup(MG_LOG_ERROR, "test"); /* what a gateway tells of its life is not for this output */
  mg_settings_defaults(&kit->settings);
  kit->settings.workers = 1;
  int listener = listen_on(&kit->address, mg_listen_open);
  kit->upstream_listener = listen_on(&kit->upstream_address, mg_listen_open);
  if (listener < 0 || kit->upstream_listener < 0 || uv_loop_init(&kit->loop) || mg_shm_create(&kit->shm)) return -1;
  publish_upstream(kit);
  return mg_gateway_open(&kit->gateway, &kit->loop, &kit->settings, &kit->shm, 0, &listener, 1, 1);
}

static struct kit *started(lua_State *L)
{
  struct kit *kit = kit_of(L);
  if (kit) return kit;
  kit = mg_calloc(1, sizeof *kit);
  if (start(kit)) luaL_error(L, "the kit's gateway cannot start");
  lua_pushlightuserdata(L, kit);
  lua_setfield(L, LUA_REGISTRYINDEX, registry_key);
  return kit;
}

static int kit_port(lua_State *L)
{
  lua_pushinteger(L, (lua_Integer)mg_listen_port(&started(L)->upstream_address));
  return 1;
}

/* Counters of one bundle are not those of the next. */
static void make_states(lua_State *L, struct kit *kit, struct mg_str bundle)
{
  struct mg_buf error = {0};
  struct mg_str none = mg_str(NULL, 0), next = mg_bundle_section(bundle, MG_STR("states"));
  int result = mg_states_want(&kit->shm, none, none, true, &error); /* forgets those of the last */
  if (!result) result = mg_states_want(&kit->shm, none, next, true, &error);
  if (result) lua_pushlstring(L, error.ptr, error.len);
  mg_buf_free(&error);
  if (result) lua_error(L);
}

static int kit_load(lua_State *L)
{
  struct kit *kit = started(L);
  size_t len;
  const char *bytes = luaL_checklstring(L, 1, &len);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  make_states(L, kit, mg_str(bytes, len));
  struct mg_buf error = {0};
  struct mg_generation *generation = mg_generation_borrow(L, 2, mg_str(bytes, len), ++kit->generations, &error);
  if (!generation) {
    lua_pushlstring(L, error.ptr, error.len);
    mg_buf_free(&error);
    return lua_error(L);
  }
  mg_gateway_switch(kit->gateway, generation);
  return 0;
}

/* --- exchanges -------------------------------------------------------------------------------- */

static int connect_client(const struct kit *kit)
{
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (const struct sockaddr *)&kit->address, sizeof(struct sockaddr_in)) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/* Turns the loop until nothing is left to do at once; waits a little where nothing was. */
static void turn(struct kit *kit, struct mg_kit_peers *peers)
{
  bool moved = mg_kit_peers_move(peers);
  uv_run(&kit->loop, UV_RUN_NOWAIT);
  if (moved || mg_kit_peers_move(peers)) return;
  struct pollfd ready[] = {{.fd = uv_backend_fd(&kit->loop), .events = POLLIN},
                           {.fd = peers->client_closed ? -1 : peers->client, .events = POLLIN},
                           {.fd = kit->upstream_listener, .events = POLLIN},
                           {.fd = peers->upstream, .events = POLLIN}};
  int timeout = uv_backend_timeout(&kit->loop);
  poll(ready, sizeof ready / sizeof ready[0], timeout < 0 || timeout > IDLE_MS ? IDLE_MS : timeout);
}

static bool exchange(struct kit *kit, struct mg_kit_peers *peers)
{
  uint64_t deadline = uv_hrtime() + DEADLINE_MS * 1000000ull;
  while (!mg_kit_peers_done(peers)) {
    if (uv_hrtime() > deadline) return false;
    turn(kit, peers);
  }
  uv_run(&kit->loop, UV_RUN_NOWAIT); /* the exchange closes, its log filters run */
  return true;
}

/* The list at index, of { prefix, response }: what filters call, and what they get. The texts are borrowed. */
static void read_calls(lua_State *L, int index, struct mg_kit_peers *peers)
{
  int count = lua_istable(L, index) ? (int)lua_objlen(L, index) : 0;
  luaL_argcheck(L, count <= MG_KIT_CALLS_MAX, index, "too many");
  for (int i = 1; i <= count; i++) {
    struct mg_str *texts[] = {&peers->calls[i - 1].prefix, &peers->calls[i - 1].response};
    lua_rawgeti(L, index, i);
    for (int k = 0; k < 2; k++) {
      lua_rawgeti(L, -1, k + 1);
      texts[k]->ptr = luaL_checklstring(L, -1, &texts[k]->len);
      lua_pop(L, 1); /* the table keeps it */
    }
    lua_pop(L, 1);
  }
  peers->call_count = (unsigned)count;
}

/* A list of the calls' last requests; false where there was none. */
static void push_calls(lua_State *L, const struct mg_kit_peers *peers)
{
  lua_createtable(L, (int)peers->call_count, 0);
  for (unsigned i = 0; i < peers->call_count; i++) {
    const struct mg_buf *request = &peers->calls[i].request;
    if (request->len)
      lua_pushlstring(L, request->ptr, request->len);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

/* run(request, response, count, profiled, calls): what the upstream got or nil, what the client got, what calls got. */
static int kit_run(lua_State *L)
{
  struct kit *kit = started(L);
  size_t request_len, response_len;
  const char *request = luaL_checklstring(L, 1, &request_len), *response = luaL_checklstring(L, 2, &response_len);
  lua_Integer count = luaL_optinteger(L, 3, 1);
  struct mg_kit_peers peers = {.upstream_listener = kit->upstream_listener,
                               .upstream = -1,
                               .client = connect_client(kit),
                               .request = mg_str(request, request_len),
                               .response = mg_str(response, response_len)};
  read_calls(L, 5, &peers);
  if (peers.client < 0) return luaL_error(L, "the kit's client cannot connect");
  bool done = true;
  sigset_t ticks, before;
  sigemptyset(&ticks);
  if (lua_toboolean(L, 4)) sigaddset(&ticks, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &ticks, &before);
  for (lua_Integer i = 0; i < count && done && !peers.client_closed; i++) {
    mg_kit_peers_again(&peers);
    done = exchange(kit, &peers);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (done) {
    if (peers.to_upstream.len)
      lua_pushlstring(L, peers.to_upstream.ptr, peers.to_upstream.len);
    else
      lua_pushnil(L);
    lua_pushlstring(L, peers.to_client.ptr ? peers.to_client.ptr : "", peers.to_client.len);
    push_calls(L, &peers);
  }
  mg_kit_peers_close(&peers);
  for (int i = 0; i < 10; i++) uv_run(&kit->loop, UV_RUN_NOWAIT); /* the gateway sees both connections end */
  return done ? 3 : luaL_error(L, "no answer within %d ms", DEADLINE_MS);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void on_drained(void *context)
{
  *(bool *)context = true;
}

void mg_kit_close(lua_State *L)
{
  struct kit *kit = kit_of(L);
  bool drained = false;
  if (!kit) return;
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, registry_key);
  mg_gateway_drain(kit->gateway, on_drained, &drained);
  while (!drained) uv_run(&kit->loop, UV_RUN_ONCE);
  mg_gateway_close(&kit->gateway);
  uv_run(&kit->loop, UV_RUN_DEFAULT);
  uv_loop_close(&kit->loop);
  close(kit->upstream_listener);
  mg_shm_detach(&kit->shm);
  free(kit);
}

void mg_kit_install(lua_State *L)
{
  static const struct luaL_Reg functions[] = {{"port", kit_port}, {"load", kit_load}, {"run", kit_run}, {NULL, NULL}};
  luaL_register(L, "moongate_kit", functions);
  lua_pop(L, 1);
}
