/* conn.c - one byte stream of either side.
 * Owns: the socket, its timer, what is queued for sending.   May call: libuv, timer.   Never: parse, touch Lua, know an exchange.
 * Thread: the loop's.   Ends: mg_conn_close or mg_conn_reset, once or many times. */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

struct queued_write { /* bytes that the kernel did not take at once */
  uv_write_t request;
  uint32_t size;
  char bytes[];
};

static void one_handle_less(struct mg_net *net)
{
  MG_ASSERT(net && net->open_handles);
  if (--net->open_handles == 0) {
    free(net->scratch);
    net->scratch = NULL;
    net->closed(net);
  }
}

static void on_net_closed(uv_handle_t *handle)
{
  one_handle_less(handle->data);
}

static void on_wheel_closed(uv_handle_t *handle)
{
  struct mg_wheel *wheel = handle->data;
  handle->data = (char *)wheel - offsetof(struct mg_net, wheel);
  on_net_closed(handle);
}

static void on_round(uv_prepare_t *prepare)
{
  struct mg_net *net = prepare->data;
  net->round++;
  net->round_reads = 0;
}

void mg_net_open(struct mg_net *net, uv_loop_t *loop)
{
  *net = (struct mg_net){.loop = loop, .round = 1, .open_handles = 2, .scratch = mg_alloc(MG_SCRATCH_BYTES)};
  mg_wheel_open(&net->wheel, loop);
  uv_prepare_init(loop, &net->prepare);
  net->prepare.data = net;
  uv_prepare_start(&net->prepare, on_round);
}

void mg_net_close(struct mg_net *net, void (*closed)(struct mg_net *net))
{
  net->closed = closed;
  mg_wheel_close(&net->wheel, on_wheel_closed);
  uv_close((uv_handle_t *)&net->prepare, on_net_closed);
}

static void on_timeout(struct mg_timer *timer)
{
  struct mg_conn *conn = (struct mg_conn *)((char *)timer - offsetof(struct mg_conn, timer));
  if (!conn->closing) conn->events->timeout(conn);
}

int mg_conn_open(struct mg_conn *conn, struct mg_net *net, int family, const struct mg_conn_events *events)
{
  int err = family == AF_UNIX ? uv_pipe_init(net->loop, &conn->as.pipe, 0) : uv_tcp_init(net->loop, &conn->as.tcp);
  if (err) return MG_EINTERNAL;
  net->open_handles++;
  conn->as.handle.data = conn;
  conn->net = net;
  conn->events = events;
  conn->written = 0;
  conn->queued = 0;
  conn->reading = conn->ended = conn->write_failed = conn->closing = false;
  mg_timer_init(&conn->timer, on_timeout);
  return 0;
}

static bool is_tcp(const struct mg_conn *conn)
{
  return conn->as.handle.type == UV_TCP;
}

int mg_conn_accept(struct mg_conn *conn, uv_stream_t *listener)
{
  if (uv_accept(listener, &conn->as.stream)) return MG_EINTERNAL;
  if (is_tcp(conn)) uv_tcp_nodelay(&conn->as.tcp, 1);
  return 0;
}

int mg_conn_adopt(struct mg_conn *conn, int fd)
{
  if (uv_tcp_open(&conn->as.tcp, fd)) {
    close(fd);
    return MG_EINTERNAL;
  }
  uv_tcp_nodelay(&conn->as.tcp, 1);
  return 0;
}

static void on_connected(uv_connect_t *request, int status)
{
  struct mg_conn *conn = request->data;
  free(request);
  if (conn->closing) return;
  if (!status && is_tcp(conn)) uv_tcp_nodelay(&conn->as.tcp, 1);
  conn->events->connected(conn, status ? MG_ECONNREFUSED : 0);
}

int mg_conn_connect(struct mg_conn *conn, const struct sockaddr *address)
{
  uv_connect_t *request = mg_alloc(sizeof *request);
  request->data = conn;
  if (address->sa_family == AF_UNIX) {
    uv_pipe_connect(request, &conn->as.pipe, ((const struct sockaddr_un *)address)->sun_path, on_connected);
    return 0; /* a failure comes through the callback */
  }
  if (uv_tcp_connect(request, &conn->as.tcp, address, on_connected) == 0) return 0;
  free(request);
  return MG_ECONNREFUSED;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
  struct mg_conn *conn = handle->data;
  (void)suggested;
  *buf = uv_buf_init(conn->net->scratch, MG_SCRATCH_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
  struct mg_conn *conn = stream->data;
  if (conn->closing) return;
  conn->net->round_reads++;
  if (got > 0) {
    conn->events->data(conn, buf->base, (size_t)got);
  } else if (got < 0) {
    mg_conn_pause(conn);
    conn->ended = true;
    conn->events->end(conn, got == UV_EOF ? MG_ECLOSED : MG_ERESET);
  }
}

void mg_conn_read(struct mg_conn *conn)
{
  if (conn->reading || conn->ended || conn->closing) return;
  conn->reading = uv_read_start(&conn->as.stream, on_alloc, on_read) == 0;
}

void mg_conn_pause(struct mg_conn *conn)
{
  if (!conn->reading) return;
  uv_read_stop(&conn->as.stream);
  conn->reading = false;
}

static void on_written(uv_write_t *request, int status)
{
  struct queued_write *write = (struct queued_write *)request;
  struct mg_conn *conn = request->handle->data;
  conn->queued -= write->size;
  free(write);
  if (conn->closing) return;
  if (status) conn->write_failed = true;
  if (conn->queued == 0 || status) conn->events->drained(conn, status ? MG_ERESET : 0);
}

/* Copies what is left of bufs behind the first sent bytes into one queued write. */
static int queue_rest(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count, size_t sent, size_t total)
{
  struct queued_write *write = mg_alloc(sizeof *write + total - sent);
  char *out = write->bytes;
  for (unsigned i = 0; i < count; i++) {
    size_t skip = sent < bufs[i].len ? sent : bufs[i].len;
    memcpy(out, bufs[i].base + skip, bufs[i].len - skip);
    out += bufs[i].len - skip;
    sent -= skip;
  }
  write->size = (uint32_t)(out - write->bytes);
  uv_buf_t rest = uv_buf_init(write->bytes, write->size);
  if (uv_write(&write->request, &conn->as.stream, &rest, 1, on_written)) {
    free(write);
    conn->write_failed = true;
    return MG_ERESET;
  }
  conn->queued += write->size;
  return 1;
}

int mg_conn_write(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count)
{
  if (conn->closing || conn->write_failed) return MG_ERESET;
  size_t total = 0;
  for (unsigned i = 0; i < count; i++) total += bufs[i].len;
  if (total == 0) return conn->queued ? 1 : 0;
  conn->written += total;
  int sent = conn->queued ? 0 : uv_try_write(&conn->as.stream, bufs, count);
  if (sent == UV_EAGAIN) sent = 0;
  if (sent < 0) {
    conn->write_failed = true;
    return MG_ERESET;
  }
  if ((size_t)sent == total) return 0;
  return queue_rest(conn, bufs, count, (size_t)sent, total);
}

int mg_conn_write_later(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count)
{
  size_t total = 0;
  if (conn->closing || conn->write_failed) return MG_ERESET;
  for (unsigned i = 0; i < count; i++) total += bufs[i].len;
  conn->written += total;
  return queue_rest(conn, bufs, count, 0, total);
}

long mg_conn_send_file(struct mg_conn *conn, int file, uint64_t offset, size_t count)
{
  uv_os_fd_t socket;
  off_t from = (off_t)offset;
  MG_ASSERT(conn->queued == 0);
  if (conn->closing || conn->write_failed || uv_fileno(&conn->as.handle, &socket)) return MG_ERESET;
  ssize_t sent;
  do {
    sent = sendfile(socket, file, &from, count);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    conn->written += (uint64_t)sent;
    return sent;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return MG_EAGAIN_LATER;
  conn->write_failed = true;
  return MG_ERESET;
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
  (void)status;
  free(request);
}

void mg_conn_shutdown(struct mg_conn *conn)
{
  if (conn->closing || conn->write_failed) return;
  uv_shutdown_t *request = mg_alloc(sizeof *request);
  if (uv_shutdown(request, &conn->as.stream, on_shutdown)) free(request);
  conn->write_failed = true; /* nothing may follow */
}

void mg_conn_timeout(struct mg_conn *conn, uint64_t milliseconds)
{
  if (milliseconds)
    mg_timer_set(&conn->net->wheel, &conn->timer, milliseconds);
  else
    mg_timer_off(&conn->timer);
}

bool mg_conn_stale(const struct mg_conn *conn)
{
  uv_os_fd_t fd;
  char byte;
  if (uv_fileno(&conn->as.handle, &fd)) return true;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static void on_closed(uv_handle_t *handle)
{
  struct mg_conn *conn = handle->data;
  struct mg_net *net = conn->net;
  conn->events->closed(conn);
  one_handle_less(net);
}

void mg_conn_close(struct mg_conn *conn)
{
  if (conn->closing) return;
  conn->closing = true;
  conn->reading = false;
  mg_timer_remove(&conn->timer);
  uv_close(&conn->as.handle, on_closed);
}

void mg_conn_reset(struct mg_conn *conn)
{
  if (conn->closing) return;
  if (!is_tcp(conn) || uv_tcp_close_reset(&conn->as.tcp, on_closed)) {
    mg_conn_close(conn);
    return;
  }
  conn->closing = true;
  conn->reading = false;
  mg_timer_remove(&conn->timer);
}
