/* build.c - spawns the builder, gathers its bundle and its words, ends it when it hangs.
 * Owns: the child, two pipes, a timer.
 * May call: mem, bundle, cli, libuv.   Never: look into the configuration.
 * Thread: the loop thread.   Ends: after done. */
#include "build.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "bundle.h"

enum {
  HANDLES = 4,
  BUNDLE_FD = 3,
  READ_SIZE = 65536,
  BUNDLE_BYTES_MAX = 32 * 1024 * 1024,
  TEXT_BYTES_MAX = 64 * 1024,
  FIRST_LIMIT_MS = 60000, /* before server.yaml was read only the builder itself knows its limit */
  GRACE_MS = 2000
};

struct intake {
  uv_pipe_t pipe;
  struct mg_buf bytes;
  size_t bytes_max;
  bool over; /* more came than bytes_max */
};

struct mg_build {
  uv_process_t process;
  uv_timer_t timer;
  struct intake bundle, text;
  void (*done)(void *context, struct mg_build_result *result);
  void *context;
  uint64_t limit_ms;
  int64_t exit_code;
  int exit_signal;
  unsigned awaited; /* exit and the ends of both pipes */
  unsigned open;    /* handles that libuv still holds */
  bool timed_out;
  bool closing;
};

static void on_handle_closed(uv_handle_t *handle)
{
  struct mg_build *build = handle->data;
  if (--build->open) return;
  mg_buf_free(&build->bundle.bytes);
  mg_buf_free(&build->text.bytes);
  free(build);
}

static void close_all(struct mg_build *build)
{
  if (build->closing) return;
  build->closing = true;
  uv_close((uv_handle_t *)&build->process, on_handle_closed);
  uv_close((uv_handle_t *)&build->timer, on_handle_closed);
  uv_close((uv_handle_t *)&build->bundle.pipe, on_handle_closed);
  uv_close((uv_handle_t *)&build->text.pipe, on_handle_closed);
}

/* Completes text so that it always says why there is no bundle. */
static void explain(struct mg_build *build, struct mg_buf *text)
{
  if (text->len && text->ptr[text->len - 1] != '\n') mg_buf_append(text, "\n", 1);
  if (build->timed_out)
    mg_buf_printf(text, "the builder did not end and was killed\n");
  else if (build->exit_signal)
    mg_buf_printf(text, "the builder was ended by signal %d\n", build->exit_signal);
  else if (build->bundle.over)
    mg_buf_printf(text, "the configuration and its scripts are larger than %d bytes\n", BUNDLE_BYTES_MAX);
  else if (!text->len)
    mg_buf_printf(text, "the builder gave no bundle (exit code %d)\n", (int)build->exit_code);
}

static void one_less(struct mg_build *build)
{
  if (--build->awaited || build->closing) return;
  struct mg_build_result result = {.text = build->text.bytes};
  struct mg_bundle_cursor cursor;
  build->text.bytes = (struct mg_buf){0};
  result.built = build->exit_code == 0 && build->exit_signal == 0 && !build->bundle.over && build->bundle.bytes.len &&
                 mg_bundle_open(&cursor, mg_str(build->bundle.bytes.ptr, build->bundle.bytes.len));
  if (result.built) {
    result.bundle = build->bundle.bytes;
    build->bundle.bytes = (struct mg_buf){0};
  } else {
    explain(build, &result.text);
  }
  close_all(build);
  build->done(build->context, &result);
  mg_buf_free(&result.bundle);
  mg_buf_free(&result.text);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
  (void)suggested;
  struct mg_build *build = handle->data;
  struct intake *intake = handle == (uv_handle_t *)&build->bundle.pipe ? &build->bundle : &build->text;
  *room = uv_buf_init(mg_buf_reserve(&intake->bytes, READ_SIZE), READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room)
{
  (void)room;
  struct mg_build *build = stream->data;
  struct intake *intake = stream == (uv_stream_t *)&build->bundle.pipe ? &build->bundle : &build->text;
  if (build->closing || count == 0) return;
  if (count < 0) {
    uv_read_stop(stream);
    one_less(build);
    return;
  }
  if (intake->bytes.len + (size_t)count <= intake->bytes_max)
    intake->bytes.len += (size_t)count; /* beyond it we read on and drop, so that the child does not block */
  else
    intake->over = true;
}

static void on_exit_of_builder(uv_process_t *process, int64_t code, int signal)
{
  struct mg_build *build = process->data;
  build->exit_code = code;
  build->exit_signal = signal;
  if (build->closing) return;
  uv_timer_stop(&build->timer);
  one_less(build);
}

static void on_timeout(uv_timer_t *timer)
{
  struct mg_build *build = timer->data;
  build->timed_out = true;
  uv_process_kill(&build->process, SIGKILL);
}

static int spawn(struct mg_build *build, uv_loop_t *loop, const struct mg_options *options)
{
  char limit[32];
  const char *args[12] = {"moongate", "check", "--bundle-fd", "3", "--routes", options->routes};
  int count = 6;
  if (options->server) {
    args[count++] = "--server";
    args[count++] = options->server;
  }
  if (build->limit_ms) {
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)build->limit_ms);
    args[count++] = "--load-limit";
    args[count++] = limit;
  }
  uv_stdio_container_t stdio[] = {
      {.flags = UV_IGNORE},
      {.flags = UV_INHERIT_FD, .data.fd = 2}, /* what a script prints is no data of ours */
      {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&build->text.pipe},
      {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&build->bundle.pipe},
  };
  uv_process_options_t how = {.file = "/proc/self/exe",
                              .args = (char **)args,
                              .exit_cb = on_exit_of_builder,
                              .stdio = stdio,
                              .stdio_count = BUNDLE_FD + 1};
  return uv_spawn(loop, &build->process, &how);
}

struct mg_build *mg_build_start(uv_loop_t *loop, const struct mg_options *options, uint64_t limit_ms,
                                void (*done)(void *context, struct mg_build_result *result), void *context,
                                struct mg_buf *error)
{
  struct mg_build *build = mg_calloc(1, sizeof *build);
  *build = (struct mg_build){.done = done, .context = context, .limit_ms = limit_ms, .awaited = 3, .open = HANDLES};
  build->bundle.bytes_max = BUNDLE_BYTES_MAX;
  build->text.bytes_max = TEXT_BYTES_MAX;
  uv_timer_init(loop, &build->timer);
  uv_pipe_init(loop, &build->bundle.pipe, 0);
  uv_pipe_init(loop, &build->text.pipe, 0);
  build->process.data = build->timer.data = build->bundle.pipe.data = build->text.pipe.data = build;
  int result = spawn(build, loop, options);
  if (result != 0) {
    mg_buf_printf(error, "cannot start the builder: %s", uv_strerror(result));
    close_all(build);
    return NULL;
  }
  uv_read_start((uv_stream_t *)&build->bundle.pipe, on_room, on_read);
  uv_read_start((uv_stream_t *)&build->text.pipe, on_room, on_read);
  uv_timer_start(&build->timer, on_timeout, limit_ms ? limit_ms + GRACE_MS : FIRST_LIMIT_MS, 0);
  return build;
}

void mg_build_cancel(struct mg_build **build_at)
{
  struct mg_build *build = *build_at;
  *build_at = NULL;
  if (!build) return;
  uv_process_kill(&build->process, SIGKILL);
  close_all(build);
}
