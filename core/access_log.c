/* access_log.c - lines gathered, and written in the order in which they came.
 * Owns: the file, two buffers, a timer, the write that is out.
 * May call: mem, log, access_line, libuv.   Never: wait for a disk, except at the very end.
 * Thread: the loop thread; the write itself runs in libuv's pool.   Ends: mg_access_log_close(). */
#include "access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

enum {
  WRITE_BYTES = 32768, /* written at once when so many are gathered */
  KEPT_BYTES_MAX = 4 << 20,
  GATHER_MS = 100,
  FILE_MODE = 0640
};

struct mg_access_log {
  uv_loop_t *loop;
  uv_timer_t timer;
  uv_fs_t write;
  enum mg_access_format format;
  const char *path; /* NULL: standard output */
  int fd;
  bool is_file; /* else a pipe or a socket, where a long write of ours may have one of another worker's in it */
  struct mg_buf gathered;
  struct mg_buf going; /* with the helper thread, from gone on */
  size_t gone;
  uint64_t dropped; /* lines, since the last time it was said */
  bool writing;
  bool failing; /* said so; not again until it works */
  bool reopen;  /* once the write that is out has ended */
  bool timer_open;
  bool closing;
};

static bool is_file(int fd)
{
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* What goes out with the next write: whole lines, so few that they stay together. Empty when there is nothing. */
static struct mg_str next_piece(struct mg_access_log *log)
{
  if (log->gone == log->going.len) {
    struct mg_buf empty = log->going;
    empty.len = log->gone = 0;
    log->going = log->gathered;
    log->gathered = empty;
  }
  const char *from = log->going.ptr + log->gone;
  size_t len = log->going.len - log->gone;
  if (log->is_file || len <= PIPE_BUF) return mg_str(from, len);
  const char *end = memrchr(from, '\n', PIPE_BUF);
  if (!end) end = memchr(from, '\n', len); /* a line that is longer goes alone */
  return mg_str(from, end ? (size_t)(end + 1 - from) : len);
}

static void free_when_done(struct mg_access_log *log)
{
  if (!log->closing || log->timer_open || log->writing) return;
  for (struct mg_str piece; (piece = next_piece(log)).len;) {
    ssize_t count = write(log->fd, piece.ptr, piece.len);
    if (count <= 0) break;
    log->gone += (size_t)count;
  }
  if (log->path) close(log->fd);
  mg_buf_free(&log->gathered);
  mg_buf_free(&log->going);
  free(log);
}

static void start_writing(struct mg_access_log *log);

static int open_file(const char *path)
{
  return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, FILE_MODE);
}

static void open_again(struct mg_access_log *log)
{
  log->reopen = false;
  int fd = open_file(log->path);
  if (fd < 0) {
    mg_log(MG_LOG_ERROR, "access log: cannot open %s again (%s); the old file is kept", log->path, strerror(errno));
    return;
  }
  close(log->fd);
  log->fd = fd;
  log->is_file = is_file(fd);
}

static void on_written(uv_fs_t *request)
{
  struct mg_access_log *log = request->data;
  ssize_t result = request->result;
  uv_fs_req_cleanup(request);
  log->writing = false;
  if (result >= 0) {
    log->gone += (size_t)result;
    log->failing = false;
  } else if (!log->failing) {
    log->failing = true;
    mg_log(MG_LOG_ERROR, "access log: cannot write: %s", uv_strerror((int)result));
  }
  if (log->reopen && !log->closing) open_again(log);
  if (log->closing)
    free_when_done(log);
  else if (result >= 0)
    start_writing(log); /* after a failure the timer tries again */
}

static void start_writing(struct mg_access_log *log)
{
  if (log->writing) return;
  struct mg_str piece = next_piece(log);
  if (!piece.len) return;
  if (log->dropped) {
    mg_log(MG_LOG_WARN, "access log: %llu lines were dropped, it is written too slowly",
           (unsigned long long)log->dropped);
    log->dropped = 0;
  }
  uv_buf_t buf = uv_buf_init((char *)piece.ptr, (unsigned)piece.len);
  log->write.data = log;
  log->writing = uv_fs_write(log->loop, &log->write, log->fd, &buf, 1, -1, on_written) == 0;
}

static void on_gathered(uv_timer_t *timer)
{
  start_writing(timer->data);
}

struct mg_access_log *mg_access_log_open(uv_loop_t *loop, const struct mg_settings *settings, int standard_out)
{
  bool json = strcmp(settings->access_log_format, "json") == 0;
  if (!json && strcmp(settings->access_log_format, "combined") != 0) return NULL;
  const char *path = settings->access_log_file[0] ? settings->access_log_file : NULL;
  int fd = path ? open_file(path) : standard_out;
  if (fd < 0) {
    mg_log(MG_LOG_ERROR, "access log: cannot open %s: %s", path, strerror(errno));
    return NULL;
  }
  struct mg_access_log *log = mg_calloc(1, sizeof *log);
  *log = (struct mg_access_log){.loop = loop,
                                .format = json ? MG_ACCESS_JSON : MG_ACCESS_COMBINED,
                                .path = path,
                                .fd = fd,
                                .is_file = is_file(fd),
                                .timer_open = true};
  uv_timer_init(loop, &log->timer);
  log->timer.data = log;
  return log;
}

void mg_access_log_add(struct mg_access_log *log, struct mg_exchange *ex)
{
  if (log->gathered.len >= KEPT_BYTES_MAX) {
    log->dropped++;
    return;
  }
  mg_access_line(&log->gathered, log->format, ex);
  if (log->gathered.len >= WRITE_BYTES)
    start_writing(log);
  else if (!uv_is_active((uv_handle_t *)&log->timer))
    uv_timer_start(&log->timer, on_gathered, GATHER_MS, 0);
}

void mg_access_log_reopen(struct mg_access_log *log)
{
  if (!log->path) return;
  log->reopen = true;
  if (!log->writing) open_again(log);
}

static void on_timer_closed(uv_handle_t *handle)
{
  struct mg_access_log *log = handle->data;
  log->timer_open = false;
  free_when_done(log);
}

void mg_access_log_close(struct mg_access_log **log_at)
{
  struct mg_access_log *log = *log_at;
  *log_at = NULL;
  if (!log) return;
  log->closing = true;
  uv_close((uv_handle_t *)&log->timer, on_timer_closed);
}
