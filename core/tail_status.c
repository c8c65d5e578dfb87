/* tail_status.c - how far a tailer is: a file for machines, a line for people.
 * Owns: the status file, the last line of the terminal.   May call: follow, assemble, json.   Never: read the journal.
 * Thread: the main thread. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "tail_private.h"

enum { EVERY_MS = 1000, MS = 1000 };

int64_t mg_tail_now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * MS + now.tv_nsec / 1000000;
}

uint64_t mg_tail_wall_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void mg_tail_say(struct mg_tail *tail, const char *format, ...)
{
  va_list arguments;
  if (tail->progress_shown) fputs("\r\033[K", stderr);
  tail->progress_shown = false;
  fputs("moongate tail: ", stderr);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

/* Seconds between now and the end of the exchange that was delivered last; 0 when nothing waits. */
static double lag_seconds(const struct mg_tail *tail, uint64_t lag)
{
  uint64_t now = mg_tail_wall_us();
  if ((!lag && tail->caught_up && !tail->stalled) || !tail->last_us || now < tail->last_us) return 0;
  return (double)(now - tail->last_us) / 1e6;
}

static void write_file(const struct mg_tail *tail, uint64_t lag)
{
  struct mg_buf text = {0};
  struct mg_position position;
  char fresh[4200];
  mg_buf_printf(&text, "{\"pid\":%d,\"journal\":", (int)getpid());
  mg_json_string(&text, mg_str(tail->options.folder, strlen(tail->options.folder)));
  mg_buf_printf(&text, ",\"time_us\":%llu,", (unsigned long long)mg_tail_wall_us());
  mg_json_number(&text, "lag_entries", lag);
  mg_buf_printf(&text, "\"lag_seconds\":%.3f,\"rate\":%.1f,", lag_seconds(tail, lag), tail->rate);
  mg_json_number(&text, "delivered", tail->delivered);
  mg_json_number(&text, "delivered_incomplete", tail->incomplete);
  mg_json_number(&text, "delivered_total", tail->resumed.delivered + tail->delivered);
  mg_json_number(&text, "open", mg_assembler_open(tail->assembler));
  mg_json_number(&text, "findings", tail->findings);
  mg_json_number(&text, "refusals", tail->refusals);
  mg_json_field(&text, "stalled", tail->stalled);
  mg_buf_printf(&text, "\"shards\":[");
  for (size_t i = 0; mg_follow_position(tail->follow, i, &position); i++)
    mg_buf_printf(&text, "{\"shard\":%u,\"epoch\":%u,\"next_lsn\":%llu,\"segment\":%llu},", position.shard,
                  position.epoch, (unsigned long long)position.lsn, (unsigned long long)position.newest);
  mg_json_close(&text, "]}\n");
  snprintf(fresh, sizeof fresh, "%s.new", tail->options.status);
  FILE *file = fopen(fresh, "w");
  bool written = file && fwrite(text.ptr, 1, text.len, file) == text.len;
  if (file) written = fclose(file) == 0 && written;
  if (written) rename(fresh, tail->options.status);
  mg_buf_free(&text);
}

static void show_progress(struct mg_tail *tail, uint64_t lag)
{
  struct mg_position position;
  char where[64] = "";
  if (mg_follow_position(tail->follow, 0, &position))
    snprintf(where, sizeof where, "shard %u LSN %llu", position.shard, (unsigned long long)position.lsn);
  for (size_t count = 1; mg_follow_position(tail->follow, count, &position); count++)
    snprintf(where, sizeof where, "%zu shards", count + 1);
  fprintf(stderr, "\r\033[K%llu exchanges, %s, lag %llu entries %.1f s, %.0f/s%s", (unsigned long long)tail->delivered,
          where, (unsigned long long)lag, lag_seconds(tail, lag), tail->rate, tail->stalled ? ", STALLED" : "");
  fflush(stderr);
  tail->progress_shown = true;
}

void mg_tail_status(struct mg_tail *tail, bool now)
{
  int64_t at = mg_tail_now_ms(), passed = at - tail->status_ms;
  if (!now && passed < EVERY_MS) return;
  if (passed > 0) tail->rate = (double)(tail->delivered - tail->status_delivered) * MS / (double)passed;
  tail->status_delivered = tail->delivered;
  tail->status_ms = at;
  uint64_t lag = mg_follow_lag(tail->follow);
  if (*tail->options.status) write_file(tail, lag);
  if (tail->terminal) show_progress(tail, lag);
}
