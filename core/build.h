/* build.h - one run of the builder as the master sees it: a child process that gives a bundle or a reason.
 *
 * Master only. Thread: the loop thread. */
#pragma once

#include <uv.h>

#include "cli.h"
#include "mem.h"

struct mg_build;

struct mg_build_result {
  bool built;
  struct mg_buf bundle; /* when built; whoever wants it takes it and leaves {0} */
  struct mg_buf text;   /* what the builder said: the faults when not built, else its warnings */
};

/** Starts `moongate check --bundle-fd` with the files of options. The builder watches limit_ms (0: its own default)
 * itself; it is killed when it has not ended some time after that. Calls done(context, result) once unless it is
 * cancelled; the struct is freed afterwards. NULL with a sentence in error when no process can be started (done is
 * not called). */
struct mg_build *mg_build_start(uv_loop_t *loop, const struct mg_options *options, uint64_t limit_ms,
                                void (*done)(void *context, struct mg_build_result *result), void *context,
                                struct mg_buf *error);

/** Kills the builder; done is not called. */
void mg_build_cancel(struct mg_build **build);
