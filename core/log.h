/* log.h - levelled key=value lines on stderr, and assertions.
 *
 * Assertions are for our own bugs and stay on in release builds; bytes from the network, the disk, a configuration
 * or a script are never asserted. Thread: any; one line is one write(2). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum mg_log_level { MG_LOG_DEBUG, MG_LOG_INFO, MG_LOG_WARN, MG_LOG_ERROR };

/** Sets the lowest level written and the name that each line carries ("master", "worker 0"); copies who. */
void mg_log_setup(enum mg_log_level lowest, const char *who);

/** Writes `time level who message`. Control bytes in the message are written as \xNN, so that no input can forge a
 * line. */
__attribute__((format(printf, 2, 3))) void mg_log(enum mg_log_level level, const char *format, ...);

__attribute__((noreturn)) void mg_assert_failed(const char *file, int line, const char *what);

#define MG_ASSERT(condition)                                                                 \
  do {                                                                                       \
    if (__builtin_expect(!(condition), 0)) mg_assert_failed(__FILE__, __LINE__, #condition); \
  } while (0)
