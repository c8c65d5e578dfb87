/* log.c - lines on stderr.
 * Owns: the level and name set at start.   May call: libc.   Never: allocate, block on a lock.   Thread: any. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 4096 };

static struct {
  enum mg_log_level lowest;
  char who[32];
} setup = {MG_LOG_INFO, "moongate"}; /* written once, before any thread starts */

void mg_log_setup(enum mg_log_level lowest, const char *who)
{
  setup.lowest = lowest;
  snprintf(setup.who, sizeof setup.who, "%s", who);
}

/* Copies text with control bytes (but TAB) spelt out; returns the end of what was written. */
static char *escape(char *out, const char *end, const char *text)
{
  for (; *text && out + 4 < end; text++) {
    unsigned char c = (unsigned char)*text;
    if ((c < 0x20 && c != '\t') || c == 0x7f)
      out += snprintf(out, 5, "\\x%02x", c);
    else
      *out++ = (char)c;
  }
  return out;
}

void mg_log(enum mg_log_level level, const char *format, ...)
{
  static const char *const names[] = {"debug", "info", "warn", "error"};
  if (level < setup.lowest) return;
  char message[LINE_BYTES_MAX], line[LINE_BYTES_MAX + 128];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t len = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
  len += (size_t)snprintf(line + len, sizeof line - len, ".%03ldZ %s %s: ", now.tv_nsec / 1000000, names[level],
                          setup.who);
  char *end = escape(line + len, line + sizeof line - 2, message);
  *end++ = '\n';
  ssize_t written = write(STDERR_FILENO, line, (size_t)(end - line));
  (void)written;
}

void mg_assert_failed(const char *file, int line, const char *what)
{
  mg_log(MG_LOG_ERROR, "assertion failed at %s:%d: %s", file, line, what);
  abort();
}
