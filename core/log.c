/* log.c - lines on stderr, and how often the same one.
 * Owns: level, format and name set at start; each thread's counts of what it has written.
 * May call: libc.   Never: allocate, block on a lock.   Thread: any. */
#include "log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  MESSAGE_BYTES_MAX = 4096,
  LINE_BYTES_MAX = 8192,
  WINDOW_MS = 5000,
  SAME_MAX = 5,   /* lines of the same words in a window */
  ALIKE_MAX = 200 /* lines from the same place in the code */
};

enum { COUNTS = 8, COUNT_TEXT_SIZE = 256, ID_SIZE = 40 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static struct {
  enum mg_log_level lowest;
  bool json;
  char who[32];
} setup = {MG_LOG_INFO, false, "moongate"}; /* written before any thread starts */

/* Lines that have something in common, in one window. */
struct count {
  uint64_t key; /* 0: free */
  uint64_t since_ms;
  uint64_t used; /* the last one's turn */
  unsigned written, held;
  enum mg_log_level level;
  char text[COUNT_TEXT_SIZE]; /* of the last one that was held back */
  char exchange[ID_SIZE], trace[ID_SIZE];
};

struct counts {
  struct count same[COUNTS];  /* by their words */
  struct count alike[COUNTS]; /* by the place in the code */
  uint64_t turn;
};

static struct counts *counts_here(void)
{
  static _Thread_local struct counts counts;
  return &counts;
}

void mg_log_setup(enum mg_log_level lowest, const char *who)
{
  setup.lowest = lowest;
  snprintf(setup.who, sizeof setup.who, "%s", who);
}

void mg_log_style(const char *level, const char *format)
{
  for (int i = MG_LOG_DEBUG; i <= MG_LOG_ERROR; i++)
    if (strcmp(level, level_names[i]) == 0) setup.lowest = (enum mg_log_level)i;
  if (strcmp(format, "json") == 0 || strcmp(format, "text") == 0) setup.json = *format == 'j';
}

/* --- one line ----------------------------------------------------------------------------------------------------- */

struct line {
  size_t len;
  char bytes[LINE_BYTES_MAX];
};

/* As much as there is room for; a byte is kept for the line's end. */
__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...)
{
  size_t room = sizeof line->bytes - line->len;
  va_list args;
  va_start(args, format);
  int len = vsnprintf(line->bytes + line->len, room, format, args);
  va_end(args);
  if (len > 0) line->len += (size_t)len < room - 1 ? (size_t)len : room - 1;
}

/* How many bytes of UTF-8 begin at text: 1 to 4; 0 if they are none. */
static int utf8_length(const unsigned char *text)
{
  int more = text[0] < 0x80                       ? 0
             : text[0] >= 0xc2 && text[0] < 0xe0  ? 1
             : text[0] >= 0xe0 && text[0] < 0xf0  ? 2
             : text[0] >= 0xf0 && text[0] <= 0xf4 ? 3
                                                  : -1;
  for (int i = 1; i <= more; i++)
    if ((text[i] & 0xc0) != 0x80) return 0; /* the end of the text as well */
  return more + 1;
}

/* Control bytes (but TAB) are spelt out, until no more than room is left; in JSON quotes and backslashes too, and what is no UTF-8. */
static void put_escaped(struct line *line, const char *text, size_t room)
{
  const unsigned char *at = (const unsigned char *)text;
  while (*at && line->len + room < sizeof line->bytes) {
    int len = setup.json ? utf8_length(at) : 1;
    if ((*at < 0x20 && (setup.json || *at != '\t')) || *at == 0x7f)
      put(line, setup.json ? "\\u%04x" : "\\x%02x", *at);
    else if (setup.json && (*at == '"' || *at == '\\'))
      put(line, "\\%c", *at);
    else if (len == 0)
      put(line, "\\ufffd");
    else
      put(line, "%.*s", len, (const char *)at);
    at += len ? len : 1;
  }
}

static void put_member(struct line *line, const char *name, const char *value)
{
  if (!*value) return;
  put(line, setup.json ? ",\"%s\":\"" : " %s=", name);
  put_escaped(line, value, 16);
  if (setup.json) put(line, "\"");
}

static void write_line(enum mg_log_level level, const char *message, const char *exchange, const char *trace,
                       unsigned more)
{
  struct line line = {0};
  struct timespec now;
  struct tm utc;
  char when[32];
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
  if (setup.json)
    put(&line, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"process\":\"%s\",\"pid\":%d,\"message\":\"", when,
        now.tv_nsec / 1000000, level_names[level], setup.who, (int)getpid());
  else
    put(&line, "%s.%03ldZ %s %s: ", when, now.tv_nsec / 1000000, level_names[level], setup.who);
  put_escaped(&line, message, 4 * ID_SIZE + 64); /* the rest fits in any case */
  if (setup.json) put(&line, "\"");
  put_member(&line, "exchange", exchange);
  put_member(&line, "trace", trace);
  if (more) put(&line, setup.json ? ",\"repeated\":%u" : " (repeated %u times)", more);
  put(&line, setup.json ? "}" : "");
  line.bytes[line.len++] = '\n';
  ssize_t written = write(STDERR_FILENO, line.bytes, line.len);
  (void)written;
}

/* --- how often ---------------------------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t hash_of(const char *text, uint64_t hash)
{
  for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 1099511628211u; /* FNV-1a */
  return hash ? hash : 1;
}

static void say_held(struct count *count)
{
  if (count->held) write_line(count->level, count->text, count->exchange, count->trace, count->held);
  count->held = 0;
}

/* The count of key; a new one takes the place of the one whose like was not seen for longest. */
static struct count *find(struct count counts[COUNTS], uint64_t key, uint64_t now)
{
  struct count *found = &counts[0];
  for (int i = 0; i < COUNTS; i++) {
    if (counts[i].key == key) {
      found = &counts[i];
      break;
    }
    if (counts[i].used < found->used) found = &counts[i];
  }
  if (found->key != key || now - found->since_ms >= WINDOW_MS) {
    say_held(found);
    found->key = key;
    found->since_ms = now;
    found->written = 0;
  }
  found->used = ++counts_here()->turn;
  return found;
}

static void copy_id(char out[ID_SIZE], const char *text, size_t len)
{
  snprintf(out, ID_SIZE, "%.*s", (int)(len < ID_SIZE ? len : ID_SIZE - 1), len ? text : "");
}

static bool may_write(struct count *count, unsigned most)
{
  if (count->written == most) return false;
  count->written++;
  return true;
}

__attribute__((format(printf, 3, 0))) static void log_message(enum mg_log_level level, const struct mg_log_about *about,
                                                              const char *format, va_list args)
{
  char message[MESSAGE_BYTES_MAX], exchange[ID_SIZE], trace[ID_SIZE];
  vsnprintf(message, sizeof message, format, args);
  copy_id(exchange, about->exchange, about->exchange_len);
  copy_id(trace, about->trace, about->trace_len);
  uint64_t now = now_ms();
  struct counts *counts = counts_here();
  struct count *count = find(counts->same, hash_of(message, 14695981039346656037u + level), now);
  if (may_write(count, SAME_MAX)) {
    count = find(counts->alike, (uint64_t)(uintptr_t)format, now);
    if (may_write(count, ALIKE_MAX)) {
      write_line(level, message, exchange, trace, 0);
      return;
    }
  }
  count->held++;
  count->level = level;
  snprintf(count->text, sizeof count->text, "%.*s", (int)sizeof count->text - 1, message);
  memcpy(count->exchange, exchange, sizeof exchange);
  memcpy(count->trace, trace, sizeof trace);
}

void mg_log_tick(void)
{
  struct counts *counts = counts_here();
  uint64_t now = now_ms();
  for (int i = 0; i < COUNTS; i++) {
    if (now - counts->same[i].since_ms >= WINDOW_MS) say_held(&counts->same[i]);
    if (now - counts->alike[i].since_ms >= WINDOW_MS) say_held(&counts->alike[i]);
  }
}

/* --- what others call --------------------------------------------------------------------------------------------- */

void mg_log(enum mg_log_level level, const char *format, ...)
{
  static const struct mg_log_about nothing = {0};
  if (level < setup.lowest) return;
  va_list args;
  va_start(args, format);
  log_message(level, &nothing, format, args);
  va_end(args);
}

void mg_log_about(enum mg_log_level level, const struct mg_log_about *about, const char *format, ...)
{
  if (level < setup.lowest) return;
  va_list args;
  va_start(args, format);
  log_message(level, about, format, args);
  va_end(args);
}

void mg_log_lines(enum mg_log_level level, const char *head, const char *text, size_t len)
{
  if (setup.json) {
    mg_log(level, "%s\n%.*s", head, (int)len, text);
    return;
  }
  mg_log(level, "%s", head);
  ssize_t written = level < setup.lowest ? 0 : write(STDERR_FILENO, text, len);
  (void)written;
}

void mg_assert_failed(const char *file, int line, const char *what)
{
  mg_log(MG_LOG_ERROR, "assertion failed at %s:%d: %s", file, line, what);
  abort();
}
