/* resolve.h - the addresses of upstream targets: literals at once, names through getaddrinfo, again and again.
 *
 * Master only. A target's cell in shared memory holds the last good answer; a name that stops resolving keeps it.
 * Thread: the loop thread; look-ups run in libuv's pool. */
#pragma once

#include <uv.h>

#include "mem.h"
#include "shm.h"

struct mg_resolver;

/** Borrows loop and shm for its life. */
struct mg_resolver *mg_resolver_open(uv_loop_t *loop, struct mg_shm *shm, uint64_t interval_ms);

/** Makes a cell for each key in targets (one per line: "host:port", "[v6]:port", "unix:/path") and looks up those
 * that have no address yet. Calls done(context) once, from the loop, when each of them has answered or wait_ms has
 * passed; never during this call. One call at a time. Returns 0, or -1 with a sentence in error (done is not called
 * then). */
int mg_resolver_want(struct mg_resolver *resolver, struct mg_str targets, uint64_t wait_ms, void (*done)(void *context),
                     void *context, struct mg_buf *error);

/** From now on only the targets in this list are looked up every interval. */
void mg_resolver_keep(struct mg_resolver *resolver, struct mg_str targets);

/** Ends look-ups (done is not called) and frees the resolver once the loop has run. */
void mg_resolver_close(struct mg_resolver **resolver);

/** Splits a target key: "host:port" or "[v6]:port" into host (without brackets) and port. False when it is neither. */
bool mg_resolver_split(struct mg_str key, struct mg_str *host, unsigned *port);

/** Fills address from an IP literal or "unix:/path". False when key is neither. */
bool mg_resolver_literal(struct mg_str key, struct sockaddr_storage *address);
