/* management.c - connections of the management port: accepted, read, answered, limited.
 * Owns: the listener, its connections.
 * May call: mem, log, http1, address, management_pages, search, libuv.   Never: decide what a page says, wait for a peer.
 * Thread: the loop thread.   Ends: mg_management_close(). */
#include "management.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "listen.h"
#include "log.h"
#include "management_pages.h"
#include "search.h"

enum {
  IN_BYTES = 8192, /* a head, or a head with its body */
  LINE_BYTES = 4096,
  ARENA_BYTES = 8192,
  HEADERS_MAX = 100,
  BACKLOG = 128,
  LINGER_MS = 1000 /* so that a peer that is still sending sees the answer */
};

/* IDLE: nothing of a request is here. HEAD: a part. WORK: a reload or a search is waited for. ANSWER: being written. LINGER: the
 * last answer is out, what still comes is dropped. */
enum client_state { CLIENT_IDLE, CLIENT_HEAD, CLIENT_WORK, CLIENT_ANSWER, CLIENT_LINGER, CLIENT_CLOSING };

struct client {
  uv_tcp_t tcp;
  uv_timer_t timer;
  uv_write_t write;
  struct mg_management *management;
  struct client *next;
  enum client_state state;
  unsigned holds; /* two handles, and a reload or search that has not answered */
  uint64_t since_ms;
  struct mg_page_peer peer;
  bool head_only; /* the request in work is a HEAD */
  bool last;      /* the connection ends with the answer */
  size_t taken;   /* bytes of in that belong to the request in work */
  struct mg_buf head;
  struct mg_page *page;
  size_t len;
  char in[IN_BYTES];
};

struct mg_management {
  uv_tcp_t listener;
  const struct mg_settings *settings;
  struct mg_pages pages;
  struct mg_search *search;
  struct mg_pool no_pool; /* of arenas that never grow */
  struct client *clients;
  unsigned client_count;
  bool waiting; /* a connection is accepted by libuv and not taken */
  bool listener_open;
  bool closing;
};

static void free_when_done(struct mg_management *management)
{
  if (!management->closing || management->clients || management->listener_open) return;
  mg_pages_close(&management->pages);
  free(management);
}

static void take_connection(struct mg_management *management);

static void let_go(struct client *client)
{
  struct mg_management *management = client->management;
  if (--client->holds) return;
  struct client **at = &management->clients;
  while (*at != client) at = &(*at)->next;
  *at = client->next;
  management->client_count--;
  mg_buf_free(&client->head);
  mg_page_release(&client->page);
  free(client);
  if (management->waiting && !management->closing) take_connection(management);
  free_when_done(management);
}

static void on_handle_closed(uv_handle_t *handle)
{
  let_go(handle->data);
}

static void close_client(struct client *client)
{
  if (client->state == CLIENT_CLOSING) return;
  client->state = CLIENT_CLOSING;
  uv_close((uv_handle_t *)&client->tcp, on_handle_closed);
  uv_close((uv_handle_t *)&client->timer, on_handle_closed);
}

static void answer(struct client *client, struct mg_page_answer *page);

static void on_time_over(uv_timer_t *timer)
{
  struct client *client = timer->data;
  if (client->state != CLIENT_HEAD) {
    close_client(client);
    return;
  }
  struct mg_page_answer late = mg_pages_plain(408, "The request did not arrive in time.");
  client->last = true;
  client->taken = client->len;
  answer(client, &late);
}

static void enter(struct client *client, enum client_state state, uint64_t limit_ms)
{
  client->state = state;
  client->since_ms = uv_now(client->tcp.loop);
  uv_timer_start(&client->timer, on_time_over, limit_ms, 0);
}

/* --- answers --- */

static const char *reason_of(unsigned status)
{
  static const struct {
    unsigned status;
    const char *reason;
  } reasons[] = {{200, "OK"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {411, "Length Required"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {417, "Expectation Failed"},
                 {421, "Misdirected Request"},
                 {431, "Request Header Fields Too Large"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"}};
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
    if (reasons[i].status == status) return reasons[i].reason;
  return "Error";
}

static void write_head(struct client *client, const struct mg_page_answer *page)
{
  char date[40];
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  client->head.len = 0;
  mg_buf_printf(&client->head,
                "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
                "Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: %s\r\n%s%s\r\n",
                page->status, reason_of(page->status), date, page->type, page->body.len, client->management->pages.csp,
                page->extra, client->last ? "Connection: close\r\n" : "");
}

static void serve(struct client *client);

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room);
static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room);

static void on_written(uv_write_t *request, int status)
{
  struct client *client = request->data;
  if (client->state == CLIENT_CLOSING) return;
  mg_page_release(&client->page);
  if (status < 0) {
    close_client(client);
    return;
  }
  if (client->last) {
    client->len = 0;
    enter(client, CLIENT_LINGER, LINGER_MS);
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&client->tcp, &fd) != 0 || shutdown(fd, SHUT_WR) != 0) close_client(client);
  } else {
    memmove(client->in, client->in + client->taken, client->len - client->taken);
    client->len -= client->taken;
    enter(client, CLIENT_IDLE, client->management->settings->management_idle_timeout_ms);
  }
  if (client->state == CLIENT_CLOSING) return;
  if (uv_read_start((uv_stream_t *)&client->tcp, on_room, on_read) != 0) close_client(client);
  if (client->state == CLIENT_IDLE && client->len) serve(client);
}

/* Sends it, and takes its page. */
static void answer(struct client *client, struct mg_page_answer *page)
{
  write_head(client, page);
  client->page = page->page;
  uv_buf_t bufs[] = {uv_buf_init(client->head.ptr, (unsigned)client->head.len),
                     uv_buf_init((char *)page->body.ptr, (unsigned)page->body.len)};
  unsigned count = client->head_only || !page->body.len ? 1 : 2;
  uv_read_stop((uv_stream_t *)&client->tcp);
  enter(client, CLIENT_ANSWER, client->management->settings->management_idle_timeout_ms);
  client->write.data = client;
  if (uv_write(&client->write, (uv_stream_t *)&client->tcp, bufs, count, on_written) != 0) close_client(client);
}

static void on_reloaded(void *context, bool ok, struct mg_str text)
{
  struct client *client = context;
  if (client->state == CLIENT_WORK) {
    struct mg_page_answer page = mg_pages_reloaded(ok, text);
    answer(client, &page);
  }
  let_go(client);
}

/* From here on somebody else has a hold on the client, and limits of his own. */
static void start_work(struct client *client)
{
  uv_read_stop((uv_stream_t *)&client->tcp);
  uv_timer_stop(&client->timer);
  client->state = CLIENT_WORK;
  client->holds++;
}

static void start_reload(struct client *client)
{
  struct mg_pages *pages = &client->management->pages;
  const struct mg_reload_asker asker = {on_reloaded, client};
  start_work(client);
  pages->events.reload(pages->events.context, &asker);
}

static void on_found(void *context, enum mg_search_result result, struct mg_str text)
{
  struct client *client = context;
  if (client->state == CLIENT_WORK) {
    struct mg_page_answer page = mg_pages_found(result, text);
    answer(client, &page);
  }
  let_go(client);
}

static void start_search(struct client *client, const struct mg_page_answer *wanted)
{
  const struct mg_search_asker asker = {on_found, client};
  start_work(client);
  if (mg_search_ask(client->management->search, wanted->kind, wanted->what, &asker)) return;
  client->holds--; /* the two handles' are left */
  struct mg_page_answer busy = mg_pages_plain(503, "Too many searches are waiting already.");
  busy.extra = "Retry-After: 1\r\n";
  answer(client, &busy);
}

/* --- requests --- */

static void refuse(struct client *client, unsigned status, const char *sentence)
{
  struct mg_page_answer page = mg_pages_plain(status, sentence);
  client->last = true;
  client->taken = client->len;
  answer(client, &page);
}

/* Answers the request at the front of what has come, if it is whole. */
static void serve(struct client *client)
{
  char first[ARENA_BYTES];
  struct mg_arena arena;
  struct mg_request_head request = {0};
  const struct mg_head_limits limits = {LINE_BYTES, IN_BYTES - 1, HEADERS_MAX};
  struct mg_management *management = client->management;
  if (client->state == CLIENT_IDLE) enter(client, CLIENT_HEAD, management->settings->management_head_timeout_ms);
  mg_arena_init(&arena, first, sizeof first, &management->no_pool, 0);
  mg_headers_init(&request.headers, &arena);
  int took = mg_request_head_parse(&request, client->in, client->len, &limits);
  if (took == 0 && client->len == IN_BYTES) took = MG_EHEADLARGE;
  if (took == MG_ENOMEM) took = MG_EHEADCOUNT;
  client->head_only = took > 0 && request.method_id == MG_METHOD_HEAD;
  if (took < 0) refuse(client, (unsigned)mg_err_status(took), mg_err_sentence(took));
  if (took <= 0) return;
  client->last = !request.keep_alive;
  client->taken = (size_t)took;
  if (request.framing == MG_FRAMING_CHUNKED) {
    refuse(client, 411, "A body is taken with Content-Length only.");
    return;
  }
  if (request.content_length > IN_BYTES - client->taken) {
    refuse(client, 413, "No path here wants so much.");
    return;
  }
  client->taken += (size_t)request.content_length;
  if (client->len < client->taken && request.expects_100) {
    refuse(client, 417, "Nothing is continued here.");
    return;
  }
  if (client->len < client->taken) return;
  struct mg_page_answer page = mg_pages_answer(&management->pages, &request, &client->peer, uv_now(client->tcp.loop));
  if (page.work == MG_PAGE_RELOAD)
    start_reload(client);
  else if (page.work == MG_PAGE_SEARCH)
    start_search(client, &page);
  else
    answer(client, &page);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
  (void)suggested;
  struct client *client = handle->data;
  if (client->state == CLIENT_LINGER) client->len = 0;
  *room = uv_buf_init(client->in + client->len, (unsigned)(IN_BYTES - client->len));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room)
{
  (void)room;
  struct client *client = stream->data;
  if (client->state == CLIENT_CLOSING || count == 0) return;
  if (count < 0) {
    close_client(client);
    return;
  }
  client->len += (size_t)count;
  if (client->state == CLIENT_IDLE || client->state == CLIENT_HEAD) serve(client);
}

/* --- connections --- */

static bool comes_from_here(const uv_tcp_t *tcp)
{
  struct sockaddr_storage address;
  int size = sizeof address;
  return uv_tcp_getpeername(tcp, (struct sockaddr *)&address, &size) == 0 && mg_listen_is_loopback(&address);
}

static void take_connection(struct mg_management *management)
{
  struct client *client = mg_calloc(1, sizeof *client);
  uv_loop_t *loop = management->listener.loop;
  management->waiting = false;
  client->management = management;
  client->next = management->clients;
  client->holds = 2;
  client->tcp.data = client->timer.data = client;
  management->clients = client;
  management->client_count++;
  uv_tcp_init(loop, &client->tcp);
  uv_timer_init(loop, &client->timer);
  if (uv_accept((uv_stream_t *)&management->listener, (uv_stream_t *)&client->tcp) != 0 ||
      uv_read_start((uv_stream_t *)&client->tcp, on_room, on_read) != 0) {
    close_client(client);
    return;
  }
  client->peer.loopback = comes_from_here(&client->tcp);
  enter(client, CLIENT_IDLE, management->settings->management_idle_timeout_ms);
}

/* The connection that has been waiting for a request longest: whoever holds it can make another. */
static struct client *longest_idle(const struct mg_management *management)
{
  struct client *found = NULL;
  for (struct client *client = management->clients; client; client = client->next)
    if (client->state == CLIENT_IDLE && (!found || client->since_ms <= found->since_ms)) found = client;
  return found;
}

static void on_connection(uv_stream_t *stream, int status)
{
  struct mg_management *management = stream->data;
  if (status < 0 || management->closing) return;
  if (management->client_count < management->settings->management_connections_max) {
    take_connection(management);
    return;
  }
  management->waiting = true; /* until a place is free; libuv takes no other meanwhile */
  struct client *idle = longest_idle(management);
  if (idle) close_client(idle);
}

struct mg_management *mg_management_open(uv_loop_t *loop, int fd, const struct mg_settings *settings,
                                         const struct mg_management_events *events, struct mg_buf *error)
{
  struct mg_management *management = mg_calloc(1, sizeof *management);
  management->settings = settings;
  management->listener.data = management;
  management->listener_open = true;
  mg_pool_init(&management->no_pool, ARENA_BYTES, 0);
  mg_pages_open(&management->pages, settings, events);
  management->search = mg_search_open(loop, settings->work_dir, settings->show_bodies);
  uv_tcp_init(loop, &management->listener);
  int result = uv_tcp_open(&management->listener, fd);
  if (result != 0) close(fd);
  if (result == 0) result = uv_listen((uv_stream_t *)&management->listener, BACKLOG, on_connection);
  if (result == 0) return management;
  mg_buf_printf(error, "cannot serve the management port: %s", uv_strerror(result));
  mg_management_close(&management);
  return NULL;
}

int mg_management_socket(const struct mg_management *management)
{
  uv_os_fd_t fd = -1;
  return uv_fileno((const uv_handle_t *)&management->listener, &fd) == 0 ? fd : -1;
}

static void on_listener_closed(uv_handle_t *handle)
{
  struct mg_management *management = handle->data;
  management->listener_open = false;
  free_when_done(management);
}

void mg_management_close(struct mg_management **management_at)
{
  struct mg_management *management = *management_at;
  *management_at = NULL;
  if (!management) return;
  management->closing = true;
  mg_search_close(&management->search);
  for (struct client *client = management->clients; client; client = client->next) close_client(client);
  uv_close((uv_handle_t *)&management->listener, on_listener_closed);
}
