/* origin.c - the built-in origin: its listener and what happens on a connection.
 * Owns: the loop, the sockets, the framing of requests.   May call: mem, log, cli, libuv, llhttp, origin_answers.
 * Never: hold a body it need not, read while it answers.   Thread: one process, one loop.   Ends: SIGTERM or SIGINT.
 *
 * The head is cut off here and given to llhttp with a stand-in for the method, so that any method is served. */
#include "origin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "log.h"
#include "origin_conn.h"

enum { HEAD_BYTES_MAX = 65536, METHOD_BYTES_MAX = 32, BACKLOG = 1024, LINGER_MS = 1000, KEPT_BYTES_MAX = 16384 };

static void process(struct origin_conn *conn);

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
  struct origin_conn *conn = handle->data;
  (void)suggested;
  *buf = uv_buf_init(conn->origin->read_space, sizeof conn->origin->read_space);
}

/* ---- closing ---- */

static void on_handle_closed(uv_handle_t *handle)
{
  struct origin_conn *conn = handle->data;
  if (--conn->handles) return;
  mg_buf_free(&conn->in);
  mg_buf_free(&conn->head);
  mg_buf_free(&conn->body);
  mg_buf_free(&conn->out);
  EVP_MD_CTX_free(conn->hash);
  free(conn);
}

static void close_conn(struct origin_conn *conn)
{
  if (conn->state == ORIGIN_CLOSED) return;
  conn->state = ORIGIN_CLOSED;
  uv_close((uv_handle_t *)&conn->tcp, on_handle_closed);
  uv_close((uv_handle_t *)&conn->timer, on_handle_closed);
}

static void on_lingered(uv_timer_t *timer)
{
  close_conn(timer->data);
}

static void linger(struct origin_conn *conn)
{
  conn->state = ORIGIN_LINGER;
  if (uv_shutdown(&conn->shutdown, (uv_stream_t *)&conn->tcp, NULL) < 0) {
    close_conn(conn);
    return;
  }
  uv_timer_start(&conn->timer, on_lingered, LINGER_MS, 0);
}

/* ---- writing ---- */

/* Everything that was to be said is said. */
static void finish(struct origin_conn *conn)
{
  if (!conn->keep_alive) {
    linger(conn);
    return;
  }
  if (conn->out.capacity > KEPT_BYTES_MAX) mg_buf_free(&conn->out);
  if (conn->body.capacity > KEPT_BYTES_MAX) mg_buf_free(&conn->body);
  conn->state = ORIGIN_HEAD;
}

static void on_written(uv_write_t *write, int status)
{
  struct origin_conn *conn = write->data;
  if (conn->state == ORIGIN_CLOSED) return;
  if (status < 0) {
    close_conn(conn);
    return;
  }
  conn->writing = false;
  conn->out.len = 0;
  if (uv_is_active((uv_handle_t *)&conn->timer)) return; /* the rest has its own time */
  if (conn->left)
    origin_send(conn);
  else
    finish(conn);
  process(conn);
}

/* Collects what is to go out next: text, then at most one piece of the pattern, framed. */
static unsigned next_buffers(struct origin_conn *conn, uv_buf_t bufs[3])
{
  static char between[] = "\r\n", last[] = "\r\n0\r\n\r\n";
  size_t piece = conn->left < ORIGIN_PIECE_BYTES ? (size_t)conn->left : ORIGIN_PIECE_BYTES;
  bool chunked = conn->framing == ORIGIN_CHUNKED && piece;
  if (chunked) mg_buf_printf(&conn->out, "%zx\r\n", piece);
  conn->left -= piece;
  unsigned count = 0;
  if (conn->out.len) bufs[count++] = uv_buf_init(conn->out.ptr, (unsigned)conn->out.len);
  if (piece) bufs[count++] = uv_buf_init(conn->origin->pattern, (unsigned)piece);
  if (chunked && conn->left) bufs[count++] = uv_buf_init(between, sizeof between - 1);
  if (chunked && !conn->left) bufs[count++] = uv_buf_init(last, sizeof last - 1);
  return count;
}

/* Drops the first sent bytes; true when nothing is left. */
static bool advance(uv_buf_t **bufs, unsigned *count, size_t sent)
{
  while (*count && sent >= (*bufs)->len) {
    sent -= (*bufs)->len;
    (*bufs)++;
    (*count)--;
  }
  if (*count) {
    (*bufs)->base += sent;
    (*bufs)->len -= sent;
  }
  return !*count;
}

void origin_send(struct origin_conn *conn)
{
  uv_buf_t space[3], *bufs = space;
  bool first = conn->out.len > 0; /* later pieces wait for their turn, so that one download does not hold up the rest */
  unsigned count = next_buffers(conn, space);
  if (first) {
    int sent = uv_try_write((uv_stream_t *)&conn->tcp, bufs, count);
    if (sent < 0 && sent != UV_EAGAIN) {
      close_conn(conn);
      return;
    }
    if (advance(&bufs, &count, sent > 0 ? (size_t)sent : 0)) {
      conn->out.len = 0;
      if (uv_is_active((uv_handle_t *)&conn->timer)) return;
      if (!conn->left) {
        finish(conn);
        return;
      }
      count = next_buffers(conn, space);
      bufs = space;
    }
  }
  conn->writing = true;
  if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, bufs, count, on_written) < 0) close_conn(conn);
}

static void on_timer(uv_timer_t *timer)
{
  struct origin_conn *conn = timer->data;
  if (conn->state != ORIGIN_ANSWER) return;
  if (conn->writing) { /* the client is slow: so are its events */
    origin_wait(conn, 10);
    return;
  }
  origin_answer_more(conn);
  process(conn);
}

void origin_wait(struct origin_conn *conn, uint64_t ms)
{
  uv_timer_start(&conn->timer, on_timer, ms, 0);
}

/* ---- reading requests ---- */

static void refuse(struct origin_conn *conn, int status, const char *why)
{
  conn->keep_alive = false;
  conn->state = ORIGIN_ANSWER;
  origin_answer_text(conn, status, why);
  origin_send(conn);
}

static int on_headers_complete(llhttp_t *parser)
{
  struct origin_conn *conn = parser->data;
  conn->keep_alive = llhttp_should_keep_alive(parser);
  parser->upgrade = 0; /* an offer of another protocol is declined by answering as usual */
  return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
  return origin_body_take(parser->data, at, len) ? 0 : HPE_USER;
}

static int on_message_complete(llhttp_t *parser)
{
  struct origin_conn *conn = parser->data;
  conn->complete = true;
  return HPE_PAUSED; /* what follows is another request */
}

static const llhttp_settings_t parser_settings = {
    .on_headers_complete = on_headers_complete, .on_body = on_body, .on_message_complete = on_message_complete};

/* The length of the head at the start of in; 0 when its end has not come yet. */
static size_t head_length(struct origin_conn *conn)
{
  const char *start = conn->in.ptr, *end = start + conn->in.len;
  for (const char *at = start + conn->scanned; (at = memchr(at, '\n', (size_t)(end - at))) != NULL;) {
    at++;
    const char *next = at < end && *at == '\r' ? at + 1 : at;
    if (next >= end) break; /* this line end is looked at again when there is more */
    if (*next == '\n') return (size_t)(next + 1 - start);
    conn->scanned = (size_t)(at - start);
  }
  return 0;
}

/* Reads method and target off the request line; false when it has none. */
static bool split_line(struct origin_conn *conn)
{
  const char *start = conn->head.ptr, *line_end = memchr(start, '\n', conn->head.len);
  const char *blank = memchr(start, ' ', (size_t)(line_end - start));
  if (!blank || blank == start || blank - start > METHOD_BYTES_MAX) return false;
  for (const char *at = start; at < blank; at++)
    if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", *at)) return false;
  const char *target = blank + 1, *target_end = memchr(target, ' ', (size_t)(line_end - target));
  if (!target_end) return false;
  conn->method = mg_str(start, (size_t)(blank - start));
  conn->target = mg_str(target, (size_t)(target_end - target));
  return true;
}

static bool expects_continue(const struct origin_conn *conn)
{
  const char *line = strcasestr(conn->head.ptr, "\nexpect:");
  return line && strncasecmp(line + 8 + strspn(line + 8, " \t"), "100-continue", 12) == 0;
}

/* Tells a client that waits for it to send its body. What cannot be written now goes out with the answer. */
static void invite_body(struct origin_conn *conn)
{
  static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  uv_buf_t buf = uv_buf_init(text, sizeof text - 1);
  int sent = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
  size_t done = sent > 0 ? (size_t)sent : 0;
  mg_buf_append(&conn->out, text + done, sizeof text - 1 - done);
}

static void read_head(struct origin_conn *conn, size_t len)
{
  conn->head.len = conn->body.len = conn->out.len = 0;
  mg_buf_append(&conn->head, conn->in.ptr, len);
  *mg_buf_reserve(&conn->head, 1) = '\0';
  mg_buf_consume(&conn->in, len);
  conn->scanned = 0;
  conn->body_size = conn->left = 0;
  conn->events_left = 0;
  conn->complete = false;
  llhttp_init(&conn->parser, HTTP_REQUEST, &parser_settings);
  conn->parser.data = conn;
  if (!split_line(conn)) {
    refuse(conn, 400, "The request line is malformed.");
    return;
  }
  bool known = origin_path_find(conn);
  conn->state = ORIGIN_BODY;
  enum llhttp_errno fault = llhttp_execute(&conn->parser, "POST", 4);
  if (!fault) fault = llhttp_execute(&conn->parser, conn->head.ptr + conn->method.len, len - conn->method.len);
  if (fault && fault != HPE_PAUSED)
    refuse(conn, 400, llhttp_get_error_reason(&conn->parser));
  else if (!known)
    refuse(conn, 400, "The number in the path is missing, malformed or out of range.");
  else if (!conn->complete && conn->parser.http_minor > 0 && expects_continue(conn))
    invite_body(conn);
}

static void read_body(struct origin_conn *conn)
{
  enum llhttp_errno fault = llhttp_execute(&conn->parser, conn->in.ptr, conn->in.len);
  size_t used = conn->in.len;
  if (fault == HPE_PAUSED) used = (size_t)(llhttp_get_error_pos(&conn->parser) - conn->in.ptr);
  mg_buf_consume(&conn->in, used);
  if (fault == HPE_USER)
    refuse(conn, 413, "The body is longer than can be echoed; /upload takes any.");
  else if (fault && fault != HPE_PAUSED)
    refuse(conn, 400, llhttp_get_error_reason(&conn->parser));
}

/* Takes one thing out of in. False when nothing more can be done with what is there. */
static bool step(struct origin_conn *conn)
{
  if (conn->state == ORIGIN_BODY && conn->complete) {
    conn->state = ORIGIN_ANSWER;
    origin_answer(conn);
    if (conn->out.len) origin_send(conn);
    return true;
  }
  if (!conn->in.len) return false;
  if (conn->state == ORIGIN_BODY) {
    read_body(conn);
    return true;
  }
  if (conn->state != ORIGIN_HEAD) return false;
  size_t blank = 0;
  while (blank < conn->in.len && (conn->in.ptr[blank] == '\r' || conn->in.ptr[blank] == '\n')) blank++;
  mg_buf_consume(&conn->in, blank); /* RFC 9112, 2.2 */
  size_t len = head_length(conn);
  if (len > HEAD_BYTES_MAX || (!len && conn->in.len > HEAD_BYTES_MAX)) {
    conn->parser.http_major = 1;
    conn->parser.http_minor = 1;
    refuse(conn, 431, "The request head is too large.");
    return true;
  }
  if (len) read_head(conn, len);
  return len > 0;
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
  struct origin_conn *conn = stream->data;
  if (conn->state == ORIGIN_CLOSED || count == 0) return;
  if (count < 0) {
    close_conn(conn);
    return;
  }
  if (conn->state == ORIGIN_LINGER) return;
  mg_buf_append(&conn->in, buf->base, (size_t)count);
  process(conn);
}

/* Works off what was read, then reads on or stops: a client that is being answered waits in its socket. */
static void process(struct origin_conn *conn)
{
  while (step(conn)) continue;
  if (conn->state == ORIGIN_CLOSED) return;
  if (!conn->in.len && conn->in.capacity > KEPT_BYTES_MAX) mg_buf_free(&conn->in);
  bool wanted = conn->state != ORIGIN_ANSWER;
  if (wanted == conn->reading) return;
  conn->reading = wanted;
  if (!wanted)
    uv_read_stop((uv_stream_t *)&conn->tcp);
  else if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) < 0)
    close_conn(conn);
}

/* ---- the server ---- */

static void on_connection(uv_stream_t *listener, int status)
{
  if (status < 0) {
    mg_log(MG_LOG_WARN, "cannot accept: %s", uv_strerror(status));
    return;
  }
  struct origin_conn *conn = mg_calloc(1, sizeof *conn);
  conn->origin = listener->data;
  conn->handles = 2;
  conn->tcp.data = conn->timer.data = conn->write.data = conn;
  uv_tcp_init(listener->loop, &conn->tcp);
  uv_timer_init(listener->loop, &conn->timer);
  if (uv_accept(listener, (uv_stream_t *)&conn->tcp) < 0) {
    close_conn(conn);
    return;
  }
  uv_tcp_nodelay(&conn->tcp, 1);
  process(conn);
}

static void close_handle(uv_handle_t *handle, void *context)
{
  struct origin *origin = context;
  bool ours = handle == (uv_handle_t *)&origin->listener || handle->type == UV_SIGNAL;
  if (!ours)
    close_conn(handle->data);
  else if (!uv_is_closing(handle))
    uv_close(handle, NULL);
}

static void on_signal(uv_signal_t *signal, int number)
{
  (void)number;
  uv_walk(signal->loop, close_handle, signal->data);
}

/* Binds and listens; a negative libuv error if that fails, else the port. */
static int listen_at(uv_loop_t *loop, struct origin *origin, const char *host, int port)
{
  struct sockaddr_storage address;
  int fault = uv_ip4_addr(host, port, (struct sockaddr_in *)&address);
  if (fault < 0) fault = uv_ip6_addr(host, port, (struct sockaddr_in6 *)&address);
  uv_tcp_init(loop, &origin->listener);
  origin->listener.data = origin;
  if (fault >= 0) fault = uv_tcp_bind(&origin->listener, (struct sockaddr *)&address, 0);
  if (fault >= 0) fault = uv_listen((uv_stream_t *)&origin->listener, BACKLOG, on_connection);
  if (fault < 0) return fault;
  int len = sizeof address;
  uv_tcp_getsockname(&origin->listener, (struct sockaddr *)&address, &len);
  return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                             : ((struct sockaddr_in *)&address)->sin_port);
}

static void fill_pattern(struct origin *origin)
{
  static const char line[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";
  for (size_t i = 0; i < sizeof origin->pattern; i++) origin->pattern[i] = line[i % (sizeof line - 1)];
}

int mg_origin_main(int argc, char **argv)
{
  struct mg_options options;
  int code = mg_cli_parse(&options, MG_OPTION_PORT | MG_OPTION_HOST, argc, argv);
  if (code != MG_EXIT_DONE) return code;
  mg_log_setup(MG_LOG_INFO, "origin");
  signal(SIGPIPE, SIG_IGN);
  const char *host = options.host ? options.host : "127.0.0.1";
  uv_loop_t *loop = uv_default_loop();
  struct origin *origin = mg_calloc(1, sizeof *origin);
  fill_pattern(origin);
  int wanted = options.port == MG_UNSET ? 0 : (int)options.port;
  int port = listen_at(loop, origin, host, wanted);
  if (port < 0) {
    fprintf(stderr, "moongate origin: cannot listen on %s port %d: %s\n", host, wanted, uv_strerror(port));
    uv_close((uv_handle_t *)&origin->listener, NULL);
  } else {
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
      uv_signal_init(loop, &origin->signals[i]);
      origin->signals[i].data = origin;
      uv_signal_start(&origin->signals[i], on_signal, numbers[i]);
    }
    printf(strchr(host, ':') ? "listening on [%s]:%d\n" : "listening on %s:%d\n", host, port);
    fflush(stdout);
  }
  uv_run(loop, UV_RUN_DEFAULT);
  MG_ASSERT(uv_loop_close(loop) == 0);
  free(origin);
  return port < 0 ? MG_EXIT_FAILED : MG_EXIT_DONE;
}
