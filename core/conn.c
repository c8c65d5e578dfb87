/* conn.c - one byte stream of either side.
 * Owns: the socket, its timer, what is queued for sending.   May call: libuv, timer.   Never: parse, touch Lua, know
 * an exchange.
 * Thread: the loop's.   Ends: mg_conn_close or mg_conn_reset, once or many times. */
#include "conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

struct mg_queued { /* a copy of bytes that the kernel did not take at once */
  struct mg_queued *next;
  uint32_t size;
  uint32_t sent;
  char bytes[];
};

enum { READS_MAX = 16, SEND_BUFS_MAX = 16 };

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

/* --- system calls
 * ---------------------------------------------------------------------------------------------------------------
 * Made by number: glibc's wrappers are cancellation points, and as soon as a process has a second thread each of
 * them pays for two atomic exchanges. Nothing here is ever cancelled. */

static ssize_t receive(int fd, char *bytes, size_t size)
{
  ssize_t got;
  do {
    got = syscall(SYS_recvfrom, fd, bytes, size, 0, NULL, NULL);
  } while (got < 0 && errno == EINTR);
  return got;
}

static ssize_t transmit(int fd, const uv_buf_t *bufs, unsigned count)
{
  ssize_t sent;
  do {
    if (count == 1) {
      sent = syscall(SYS_sendto, fd, bufs->base, bufs->len, MSG_NOSIGNAL, NULL, 0);
    } else {
      struct msghdr message = {.msg_iov = (struct iovec *)bufs, .msg_iovlen = count}; /* uv_buf_t is an iovec on Unix */
      sent = syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL);
    }
  } while (sent < 0 && errno == EINTR);
  return sent;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void on_poll(uv_poll_t *poll, int status, int events);

static int begin(struct mg_conn *conn, struct mg_net *net, int fd, const struct mg_conn_events *events)
{
  if (uv_poll_init_socket(net->loop, &conn->poll, fd)) {
    close(fd);
    return MG_EINTERNAL;
  }
  net->open_handles++;
  conn->poll.data = conn;
  conn->net = net;
  conn->events = events;
  conn->first = conn->last = NULL;
  conn->written = 0;
  conn->queued = 0;
  conn->fd = fd;
  conn->watched = 0;
  conn->reading = conn->connecting = conn->shutting = false;
  conn->ended = conn->write_failed = conn->closing = false;
  mg_timer_init(&conn->timer, on_timeout);
  return 0;
}

int mg_conn_open(struct mg_conn *conn, struct mg_net *net, int family, const struct mg_conn_events *events)
{
  static const int on = 1;
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return MG_EINTERNAL;
  if (family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return begin(conn, net, fd, events);
}

int mg_conn_adopt(struct mg_conn *conn, struct mg_net *net, int fd, const struct mg_conn_events *events)
{
  return begin(conn, net, fd, events);
}

/* Lets the loop look for what is wanted now; costs nothing while that stays the same. */
static void watch(struct mg_conn *conn)
{
  int wanted = (conn->reading ? UV_READABLE : 0) | (conn->first || conn->connecting ? UV_WRITABLE : 0);
  if (conn->closing || wanted == conn->watched) return;
  conn->watched = (uint8_t)wanted;
  if (wanted)
    uv_poll_start(&conn->poll, wanted, on_poll);
  else
    uv_poll_stop(&conn->poll);
}

static socklen_t address_size(const struct sockaddr *address)
{
  switch (address->sa_family) {
  case AF_INET:
    return sizeof(struct sockaddr_in);
  case AF_INET6:
    return sizeof(struct sockaddr_in6);
  default:
    return sizeof(struct sockaddr_un);
  }
}

int mg_conn_connect(struct mg_conn *conn, const struct sockaddr *address)
{
  int result;
  do {
    result = connect(conn->fd, address, address_size(address));
  } while (result < 0 && errno == EINTR);
  if (result < 0 && errno != EINPROGRESS) return MG_ECONNREFUSED;
  conn->connecting = true; /* also when it is done already: it is told from the loop */
  watch(conn);
  return 0;
}

/* --- reading and writing ------------------------------------------------------------------------------------------ */

static void finish_connect(struct mg_conn *conn, int status)
{
  int err = 0;
  socklen_t size = sizeof err;
  conn->connecting = false;
  if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &size) || (status < 0 && !err)) err = ECONNREFUSED;
  watch(conn);
  conn->events->connected(conn, err ? MG_ECONNREFUSED : 0);
}

static void end_reading(struct mg_conn *conn, int err)
{
  conn->reading = false;
  conn->ended = true;
  watch(conn);
  conn->events->end(conn, err);
}

static void read_some(struct mg_conn *conn, int status)
{
  for (int reads = 0; reads < READS_MAX && conn->reading && !conn->closing; reads++) {
    ssize_t got = receive(conn->fd, conn->net->scratch, MG_SCRATCH_BYTES);
    if (got > 0) {
      conn->net->round_reads++;
      conn->events->data(conn, conn->net->scratch, (size_t)got);
      if (got < MG_SCRATCH_BYTES && status == 0) break; /* the loop says when there is more */
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && status == 0) break;
    end_reading(conn, got == 0 ? MG_ECLOSED : MG_ERESET);
  }
}

static void drop_queue(struct mg_conn *conn)
{
  while (conn->first) {
    struct mg_queued *queued = conn->first;
    conn->first = queued->next;
    free(queued);
  }
  conn->last = NULL;
  conn->queued = 0;
}

/* Takes what has been sent off the queue. */
static void dequeue(struct mg_conn *conn, size_t sent)
{
  conn->queued -= (uint32_t)sent;
  while (sent) {
    struct mg_queued *queued = conn->first;
    size_t left = queued->size - queued->sent;
    if (sent < left) {
      queued->sent += (uint32_t)sent;
      return;
    }
    sent -= left;
    conn->first = queued->next;
    free(queued);
  }
  if (!conn->first) conn->last = NULL;
}

static void write_queued(struct mg_conn *conn)
{
  uv_buf_t bufs[SEND_BUFS_MAX];
  unsigned count = 0;
  for (struct mg_queued *queued = conn->first; queued && count < SEND_BUFS_MAX; queued = queued->next)
    bufs[count++] = uv_buf_init(queued->bytes + queued->sent, queued->size - queued->sent);
  ssize_t sent = transmit(conn->fd, bufs, count);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
  if (sent < 0) {
    conn->write_failed = true;
    drop_queue(conn);
  } else {
    dequeue(conn, (size_t)sent);
    if (conn->first) return;
    if (conn->shutting) shutdown(conn->fd, SHUT_WR);
  }
  watch(conn);
  conn->events->drained(conn, sent < 0 ? MG_ERESET : 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
  struct mg_conn *conn = poll->data;
  if (status < 0) { /* an error on the socket; the loop has stopped looking at it */
    conn->watched = 0;
    events = UV_READABLE | UV_WRITABLE;
  }
  if (conn->connecting) {
    finish_connect(conn, status);
    return;
  }
  if (events & UV_WRITABLE && conn->first) write_queued(conn);
  if (events & UV_READABLE && conn->reading && !conn->closing) read_some(conn, status);
  if (!conn->closing) watch(conn);
}

void mg_conn_read(struct mg_conn *conn)
{
  if (conn->reading || conn->ended || conn->closing) return;
  conn->reading = true;
  watch(conn);
}

void mg_conn_pause(struct mg_conn *conn)
{
  if (!conn->reading) return;
  conn->reading = false;
  watch(conn);
}

/* Copies what is left of bufs behind the first sent bytes to the end of the queue. */
static int queue_rest(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count, size_t sent, size_t total)
{
  struct mg_queued *queued = mg_alloc(sizeof *queued + total - sent);
  char *out = queued->bytes;
  for (unsigned i = 0; i < count; i++) {
    size_t skip = sent < bufs[i].len ? sent : bufs[i].len;
    if (bufs[i].len > skip) memcpy(out, bufs[i].base + skip, bufs[i].len - skip);
    out += bufs[i].len - skip;
    sent -= skip;
  }
  queued->next = NULL;
  queued->size = (uint32_t)(out - queued->bytes);
  queued->sent = 0;
  if (conn->last)
    conn->last->next = queued;
  else
    conn->first = queued;
  conn->last = queued;
  conn->queued += queued->size;
  watch(conn);
  return 1;
}

static size_t size_of(const uv_buf_t *bufs, unsigned count)
{
  size_t total = 0;
  for (unsigned i = 0; i < count; i++) total += bufs[i].len;
  return total;
}

int mg_conn_write(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count)
{
  if (conn->closing || conn->write_failed || conn->shutting) return MG_ERESET;
  size_t total = size_of(bufs, count);
  if (total == 0) return conn->queued ? 1 : 0;
  ssize_t sent = conn->first ? 0 : transmit(conn->fd, bufs, count);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) sent = 0;
  if (sent < 0) {
    conn->write_failed = true;
    return MG_ERESET;
  }
  conn->written += total;
  if ((size_t)sent == total) return 0;
  return queue_rest(conn, bufs, count, (size_t)sent, total);
}

int mg_conn_write_later(struct mg_conn *conn, const uv_buf_t *bufs, unsigned count)
{
  if (conn->closing || conn->write_failed || conn->shutting) return MG_ERESET;
  size_t total = size_of(bufs, count);
  conn->written += total;
  return queue_rest(conn, bufs, count, 0, total);
}

long mg_conn_send_file(struct mg_conn *conn, int file, uint64_t offset, size_t count)
{
  off_t from = (off_t)offset;
  MG_ASSERT(conn->queued == 0);
  if (conn->closing || conn->write_failed || conn->shutting) return MG_ERESET;
  ssize_t sent;
  do {
    sent = sendfile(conn->fd, file, &from, count);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    conn->written += (uint64_t)sent;
    return sent;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return MG_EAGAIN_LATER;
  conn->write_failed = true;
  return MG_ERESET;
}

void mg_conn_shutdown(struct mg_conn *conn)
{
  if (conn->closing || conn->write_failed || conn->shutting) return;
  conn->shutting = true;
  if (!conn->first) shutdown(conn->fd, SHUT_WR);
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
  char byte;
  return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* --- closing ------------------------------------------------------------------------------------------------------ */

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
  drop_queue(conn);
  mg_timer_remove(&conn->timer);
  uv_close((uv_handle_t *)&conn->poll, on_closed);
  close(conn->fd);
}

void mg_conn_reset(struct mg_conn *conn)
{
  static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  if (!conn->closing) setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  mg_conn_close(conn);
}
