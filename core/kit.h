/* kit.h - the data path of a worker inside `moongate test`, for the module `moongate.test`.
 *
 * A real gateway on loopback sockets, whose filters live in the lua_State that runs the specs: a filter may be a
 * table of a spec.
 * Thread: the main thread. */
#pragma once

#include <lua.h>

/** Puts the table `moongate_kit` into L's globals. Its functions:
 *
 *   port()               of the upstream that answers as run is told; starts the gateway at the first call
 *
 *   load(bundle, build)  takes a bundle; build(generation as light userdata) gives its functions
 *
 *   run(request, response, count, quiet)
 *                        sends request count times on one connection; gives what the upstream got and what the client
 *                        got. quiet: without the profiler's ticks, after each of which a function runs interpreted. */
void mg_kit_install(lua_State *L);

/** Ends the gateway, if there is one, before L is closed. */
void mg_kit_close(lua_State *L);
