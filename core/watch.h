/* watch.h - notices that the routes file or a Lua file beside it has changed.
 *
 * What counts is a signature over the files (path, inode, size, times), taken when the directory says that something
 * happened and once a second besides: editors rename, Kubernetes swaps a link, network file systems say nothing.
 * Thread: the loop thread. */
#pragma once

#include <uv.h>

struct mg_watch;

/** Watches routes (copied), and every *.lua in filters/ beside it and, for a routes.lua, in its own directory. Calls
 * changed(context) some 50 ms after the last of a burst of changes. */
struct mg_watch *mg_watch_open(uv_loop_t *loop, const char *routes, void (*changed)(void *context), void *context);

/** Stops; frees itself once the loop has run. */
void mg_watch_close(struct mg_watch **watch);
