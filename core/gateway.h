/* gateway.h - one worker's data path as its process sees it: start, generations, drain.
 *
 * A gateway belongs to one libuv loop. A generation is built on any thread (mg_generation_build touches nothing
 * shared) and handed to the loop by mg_gateway_switch. */
#pragma once

#include <uv.h>

#include "mem.h"
#include "settings.h"
#include "shm.h"

struct mg_gateway;
struct mg_generation;

/** Builds a generation from a bundle: its own lua_State of at most memory_max bytes (0: no bound), filters' init
 * run, routes compiled and checked against the bundle's digest. Runs on any thread. On failure returns NULL and
 * puts a message into error (the caller frees it). */
struct mg_generation *mg_generation_build(struct mg_str bundle, uint64_t number, uint64_t memory_max,
                                          struct mg_buf *error);
/** Frees a generation that was never switched to. */
void mg_generation_free(struct mg_generation **generation);

/** Makes the data path of worker slot. settings, shm are borrowed for the gateway's life; listeners (bound,
 * listening or not) are taken. standard_out (borrowed) is for the access log. Nothing is accepted before the first
 * switch. 0 or negative. */
int mg_gateway_open(struct mg_gateway **gateway, uv_loop_t *loop, const struct mg_settings *settings,
                    struct mg_shm *shm, unsigned slot, const int *listeners, unsigned listener_count, int standard_out);

/** Makes ready what generation needs beyond what runs: the journal, once some level is above NONE. 0, or -1 with a
 * sentence in error: the generation may not be switched to. */
int mg_gateway_prepare(struct mg_gateway *gateway, const struct mg_generation *generation, struct mg_buf *error);

/** New exchanges use generation from now on (taken); starts accepting on the first call. Older ones end when their last
 * exchange has. */
void mg_gateway_switch(struct mg_gateway *gateway, struct mg_generation *generation);

/** Calls worn(context) whenever the current generation's scripts hold more memory than is healthy: a fresh
 * generation of the same bundle should be switched to. It is called again and again until then. */
void mg_gateway_on_worn(struct mg_gateway *gateway, void (*worn)(void *context), void *context);

/** Generations still alive, the current one included. */
unsigned mg_gateway_generations(const struct mg_gateway *gateway);

/** Appends the ids of the exchanges that keep the oldest generation alive, a few of them, each behind a blank. */
void mg_gateway_holders(struct mg_gateway *gateway, unsigned most, struct mg_buf *out);

/** Stops accepting (after taking what is queued), closes idle connections, lets exchanges finish; calls
 * done(context) when the last connection has closed. Where other processes accept from the same sockets (shm.h) what
 * is queued is left to them, and an idle connection has some seconds for one more request: a client that sends just
 * now sees no reset. */
void mg_gateway_drain(struct mg_gateway *gateway, void (*done)(void *context), void *context);

/** Cuts every connection; done of an earlier drain is still called. */
void mg_gateway_abort(struct mg_gateway *gateway);

/** Closes everything and frees the gateway once the loop has run its close callbacks; call after drain's done. */
void mg_gateway_close(struct mg_gateway **gateway);

/** Opens log files again, after somebody has renamed them. */
void mg_gateway_reopen_logs(struct mg_gateway *gateway);
