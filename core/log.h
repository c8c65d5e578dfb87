/* log.h - levelled lines on stderr, as text or JSON, and assertions.
 *
 * A message that comes again and again is written a few times, then counted, and what was counted is said every few
 * seconds: a filter that fails for each of many requests neither fills a disk nor takes the worker's time.
 *
 * Assertions are for our own bugs and stay on in release builds; bytes from the network, the disk, a configuration
 * or a script are never asserted. Thread: any, each counts its own messages; one line is one write(2). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum mg_log_level { MG_LOG_DEBUG, MG_LOG_INFO, MG_LOG_WARN, MG_LOG_ERROR };

/** Sets the lowest level written and the name that each line carries ("master", "worker 0"); copies who. Before any
 * thread starts, as the next one. */
void mg_log_setup(enum mg_log_level lowest, const char *who);
/** Sets what the settings say: level "debug", "info", "warn", "error"; format "text" or "json". Other words change
 * nothing. */
void mg_log_style(const char *level, const char *format);

/** Writes `time level who: message`. Control bytes in the message are written as \xNN, so that no input can forge a
 * line. In JSON: {"time","level","process","pid","message"} and what else is known. */
__attribute__((format(printf, 2, 3))) void mg_log(enum mg_log_level level, const char *format, ...);

/** The exchange that a message is about; a length of 0: not known. Borrowed for the call. */
struct mg_log_about {
  const char *exchange;
  size_t exchange_len;
  const char *trace; /* its trace id */
  size_t trace_len;
};

/** As mg_log, with ` exchange=ID trace=ID` at its end, or as members in JSON. Repeats are told by the message alone. */
__attribute__((format(printf, 3, 4))) void mg_log_about(enum mg_log_level level, const struct mg_log_about *about,
                                                        const char *format, ...);

/** Writes head, then text of several lines as it is; in JSON one message of both. */
void mg_log_lines(enum mg_log_level level, const char *head, const char *text, size_t len);

/** Says what this thread has counted for long enough. To be called now and then. */
void mg_log_tick(void);

__attribute__((noreturn)) void mg_assert_failed(const char *file, int line, const char *what);

#define MG_ASSERT(condition)                                                                 \
  do {                                                                                       \
    if (__builtin_expect(!(condition), 0)) mg_assert_failed(__FILE__, __LINE__, #condition); \
  } while (0)
