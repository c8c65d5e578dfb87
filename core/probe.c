/* probe.c - connect, ask, read the status.
 * Owns: a timer and the connections it makes.   May call: mem, http1, libuv.   Never: remember an answer.
 * Thread: the loop thread.   Ends: mg_probe_close(). */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "http1.h"
#include "log.h"

enum { CONNECT_MS = 2000, ANSWER_MS = 2000, HEAD_BYTES_MAX = 8192, HEADERS_MAX = 100, ARENA_BYTES = 8192 };

/* One connection; freed when its handle has closed, so that the next one need not wait for that. */
struct mg_probe_try {
  union {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } as;
  struct mg_probe *probe;
  uv_connect_t connect;
  uv_write_t write;
  size_t len;
  char in[HEAD_BYTES_MAX];
};

static void free_when_done(struct mg_probe *probe)
{
  if (probe->step != MG_PROBE_CLOSED || probe->tries_open || probe->timer_open) return;
  mg_buf_free(&probe->request);
  probe->closed(probe->context);
}

static void on_try_closed(uv_handle_t *handle)
{
  struct mg_probe_try *attempt = handle->data;
  struct mg_probe *probe = attempt->probe;
  probe->tries_open--;
  free(attempt);
  free_when_done(probe);
}

static void drop_try(struct mg_probe *probe)
{
  if (!probe->attempt) return;
  uv_close(&probe->attempt->as.handle, on_try_closed);
  probe->attempt = NULL;
}

static void conclude(struct mg_probe *probe, const char *why)
{
  drop_try(probe);
  uv_timer_stop(&probe->patience);
  probe->step = MG_PROBE_IDLE;
  probe->done(probe->context, why);
}

/* --- the answer */

/* The status of the final head in bytes: 0 when it is not whole yet, negative when it never will be. */
static int read_status(char *bytes, size_t len)
{
  char first[ARENA_BYTES];
  struct mg_pool pool;
  struct mg_arena arena;
  struct mg_response_head head;
  const struct mg_head_limits limits = {HEAD_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
  mg_pool_init(&pool, ARENA_BYTES, 0);
  for (size_t at = 0; at < len;) {
    size_t scanned = 0;
    if (!mg_head_complete(bytes + at, len - at, &scanned)) break;
    mg_arena_init(&arena, first, sizeof first, &pool, 0);
    mg_headers_init(&head.headers, &arena);
    int took = mg_response_head_parse(&head, bytes + at, len - at, MG_METHOD_GET, &limits);
    if (took <= 0) return took;
    if (head.status >= 200) return head.status;
    at += (size_t)took; /* an interim answer */
  }
  return len == HEAD_BYTES_MAX ? MG_EUPHEADLARGE : 0;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
  (void)suggested;
  struct mg_probe_try *attempt = handle->data;
  *room = uv_buf_init(attempt->in + attempt->len, (unsigned)(sizeof attempt->in - attempt->len));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room)
{
  (void)room;
  struct mg_probe_try *attempt = stream->data;
  struct mg_probe *probe = attempt->probe;
  char why[MG_PROBE_WHY_SIZE];
  if (attempt != probe->attempt || count == 0) return;
  if (count < 0) {
    conclude(probe, count == UV_EOF ? "was not answered: the connection was closed" : "was not answered: reset");
    return;
  }
  attempt->len += (size_t)count;
  int status = read_status(attempt->in, attempt->len);
  if (status == 0) return;
  if (status > 0 && status != 200) snprintf(why, sizeof why, "was answered with status %d", status);
  conclude(probe, status == 200 ? NULL : status > 0 ? why : "was not answered with valid HTTP");
}

/* --- the question */

static void try_next(struct mg_probe *probe, int err);

static void on_written(uv_write_t *request, int status)
{
  struct mg_probe_try *attempt = request->data;
  if (status < 0 && attempt == attempt->probe->attempt) conclude(attempt->probe, "cannot be sent");
}

static void on_no_answer(uv_timer_t *timer)
{
  conclude(timer->data, "was not answered in time");
}

static void on_connected(uv_connect_t *connect, int status)
{
  struct mg_probe_try *attempt = connect->data;
  struct mg_probe *probe = attempt->probe;
  if (attempt != probe->attempt) return;
  if (status < 0) {
    try_next(probe, status);
    return;
  }
  uv_buf_t out = uv_buf_init(probe->request.ptr, (unsigned)probe->request.len);
  probe->step = MG_PROBE_ASKING;
  uv_timer_start(&probe->patience, on_no_answer, ANSWER_MS, 0);
  attempt->write.data = attempt;
  if (uv_write(&attempt->write, &attempt->as.stream, &out, 1, on_written) != 0 ||
      uv_read_start(&attempt->as.stream, on_room, on_read) != 0)
    conclude(probe, "cannot be sent");
}

static void on_no_connection(uv_timer_t *timer)
{
  try_next(timer->data, UV_ETIMEDOUT);
}

static int start_connecting(struct mg_probe *probe, const struct sockaddr_storage *address)
{
  struct mg_probe_try *attempt = mg_alloc(sizeof *attempt);
  bool local = address->ss_family == AF_UNIX;
  attempt->probe = probe;
  attempt->len = 0;
  int result = local ? uv_pipe_init(probe->loop, &attempt->as.pipe, 0) : uv_tcp_init(probe->loop, &attempt->as.tcp);
  if (result != 0) {
    free(attempt);
    return result;
  }
  attempt->as.handle.data = attempt->connect.data = attempt;
  probe->attempt = attempt;
  probe->tries_open++;
  if (local)
    uv_pipe_connect(&attempt->connect, &attempt->as.pipe, ((const struct sockaddr_un *)address)->sun_path,
                    on_connected);
  else
    result = uv_tcp_connect(&attempt->connect, &attempt->as.tcp, (const struct sockaddr *)address, on_connected);
  return result;
}

/* Connects to the next address, or gives up with what the last one said (err, of libuv). */
static void try_next(struct mg_probe *probe, int err)
{
  char why[MG_PROBE_WHY_SIZE];
  drop_try(probe);
  while (probe->address < probe->address_count) {
    err = start_connecting(probe, &probe->addresses[probe->address++]);
    if (err == 0) {
      uv_timer_start(&probe->patience, on_no_connection, CONNECT_MS, 0);
      return;
    }
    drop_try(probe);
  }
  snprintf(why, sizeof why, "cannot connect: %s", err ? uv_strerror(err) : "it has no address");
  conclude(probe, why);
}

/* --- from outside */

void mg_probe_init(struct mg_probe *probe, uv_loop_t *loop, void (*done)(void *context, const char *why), void *context)
{
  *probe = (struct mg_probe){.loop = loop, .done = done, .context = context, .timer_open = true};
  uv_timer_init(loop, &probe->patience);
  probe->patience.data = probe;
}

void mg_probe_start(struct mg_probe *probe, const struct sockaddr_storage *addresses, unsigned count,
                    const char *authority, const char *path)
{
  MG_ASSERT(probe->step == MG_PROBE_IDLE && count <= MG_PROBE_ADDRESSES_MAX);
  memcpy(probe->addresses, addresses, count * sizeof *addresses);
  probe->address_count = count;
  probe->address = 0;
  probe->request.len = 0;
  mg_buf_printf(
      &probe->request,
      "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: moongate-health\r\nAccept: */*\r\nConnection: close\r\n\r\n", path,
      authority);
  probe->step = MG_PROBE_CONNECTING;
  try_next(probe, 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
  struct mg_probe *probe = handle->data;
  probe->timer_open = false;
  free_when_done(probe);
}

void mg_probe_close(struct mg_probe *probe, void (*closed)(void *context))
{
  MG_ASSERT(probe->step != MG_PROBE_CLOSED);
  probe->step = MG_PROBE_CLOSED;
  probe->closed = closed;
  drop_try(probe);
  uv_close((uv_handle_t *)&probe->patience, on_timer_closed);
}
