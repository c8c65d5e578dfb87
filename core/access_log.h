/* access_log.h - one line per finished request, for people and their tools: no journal, nothing to set up.
 *
 * Lines are gathered and written by a helper thread, so that a slow disk or reader never holds a request up; what does
 * not fit while it is slow is dropped and counted in the log. The lines of the last tenth of a second are lost with a
 * process that is killed.
 * Thread: the loop thread. */
#pragma once

#include <uv.h>

#include "mem.h"
#include "settings.h"

struct mg_access_log;
struct mg_exchange;

/** Opens what settings say, once per worker: NULL when there is to be none, or (said in the log) when the file cannot
 * be opened. Without a file, lines go to standard_out (borrowed). */
struct mg_access_log *mg_access_log_open(uv_loop_t *loop, const struct mg_settings *settings, int standard_out);

/** Adds a line about ex, which has ended. access_line.c writes its text. */
void mg_access_log_add(struct mg_access_log *log, struct mg_exchange *ex);

/** Opens the file again, after somebody has renamed it. */
void mg_access_log_reopen(struct mg_access_log *log);

/** Writes what is left; frees itself once the loop has run. */
void mg_access_log_close(struct mg_access_log **log);

enum mg_access_format { MG_ACCESS_OFF, MG_ACCESS_COMBINED, MG_ACCESS_JSON };

/** Appends the line about ex, its end included. */
void mg_access_line(struct mg_buf *out, enum mg_access_format format, struct mg_exchange *ex);
