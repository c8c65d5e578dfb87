/* kit_peers.c - what the client and the upstream of a kit do.
 * Owns: their sockets and what arrived on them.   May call: http1, libc.   Never: wait.   Thread: the kit's. */
#include "kit_peers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http1.h"

enum { PIECE_BYTES = 65536, HEAD_BYTES_MAX = 1 << 20, HEADERS_MAX = 1000 };

static const struct mg_head_limits limits = {
    .line_bytes_max = HEAD_BYTES_MAX, .head_bytes_max = HEAD_BYTES_MAX, .header_count_max = HEADERS_MAX};

/* --- whole messages --------------------------------------------------------------------------- */

struct scratch {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[8192];
};

static void begin(struct scratch *scratch)
{
  mg_pool_init(&scratch->pool, PIECE_BYTES, 0);
  mg_arena_init(&scratch->arena, scratch->first, sizeof scratch->first, &scratch->pool, HEAD_BYTES_MAX * 4);
}

static void end(struct scratch *scratch)
{
  mg_arena_reset(&scratch->arena, scratch->first, sizeof scratch->first);
  mg_pool_destroy(&scratch->pool);
}

/* Whether a body that is framed like this ends within bytes, which are decoded in a copy. */
static bool body_ends(struct scratch *scratch, enum mg_framing framing, uint64_t length, const char *bytes, size_t len)
{
  struct mg_body_decoder decoder;
  struct mg_body_piece piece = {0};
  if (mg_body_start(&decoder, framing, length, &scratch->arena, NULL)) return false;
  if (decoder.done) return true;
  char *copy = mg_strndup(bytes, len);
  int err = mg_body_decode(&decoder, copy, len, &piece);
  free(copy);
  return !err && piece.last;
}

static bool is_whole_request(const struct mg_buf *bytes)
{
  struct scratch scratch;
  struct mg_request_head head = {0};
  begin(&scratch);
  mg_headers_init(&head.headers, &scratch.arena);
  char *copy = mg_arena_copy(&scratch.arena, bytes->ptr, bytes->len);
  int took = copy ? mg_request_head_parse(&head, copy, bytes->len, &limits) : 0;
  bool whole =
      took > 0 && body_ends(&scratch, head.framing, head.content_length, bytes->ptr + took, bytes->len - (size_t)took);
  end(&scratch);
  return whole;
}

static int method_of(struct mg_str request)
{
  return request.len > 5 && memcmp(request.ptr, "HEAD ", 5) == 0 ? MG_METHOD_HEAD : MG_METHOD_OTHER;
}

static bool is_whole_answer(const struct mg_buf *bytes, int method, bool closed)
{
  bool whole = closed;
  size_t at = 0;
  while (!whole && at < bytes->len) {
    struct scratch scratch;
    struct mg_response_head head = {0};
    begin(&scratch);
    mg_headers_init(&head.headers, &scratch.arena);
    char *copy = mg_arena_copy(&scratch.arena, bytes->ptr + at, bytes->len - at);
    int took = copy ? mg_response_head_parse(&head, copy, bytes->len - at, method, &limits) : 0;
    bool interim = took > 0 && head.status < 200;
    if (took > 0 && !interim)
      whole = body_ends(&scratch, head.framing, head.content_length, bytes->ptr + at + took,
                        bytes->len - at - (size_t)took);
    end(&scratch);
    if (!interim) break;
    at += (size_t)took;
  }
  return whole;
}

/* --- sockets ---------------------------------------------------------------------------------- */

/* Reads what is there; false at the end of the connection. */
static bool take(int fd, struct mg_buf *into, bool *moved)
{
  for (;;) {
    ssize_t got = recv(fd, mg_buf_reserve(into, PIECE_BYTES), PIECE_BYTES, MSG_DONTWAIT);
    if (got < 0) return true;
    *moved = true;
    if (got == 0) return false;
    into->len += (size_t)got;
  }
}

static void close_upstream(struct mg_kit_peers *peers)
{
  if (peers->upstream >= 0) close(peers->upstream);
  peers->upstream = -1;
}

/* Whether the answer says by itself where it ends; else the connection has to. */
static bool ends_by_itself(struct mg_str response)
{
  const struct mg_buf bytes = {.ptr = (char *)response.ptr, .len = response.len};
  return is_whole_answer(&bytes, MG_METHOD_OTHER, false);
}

static void send_answer(struct mg_kit_peers *peers, struct mg_str response)
{
  size_t sent = 0;
  while (sent < response.len) { /* a blocking socket: the gateway's buffers take less than a kernel's */
    ssize_t written = send(peers->upstream, response.ptr + sent, response.len - sent, MSG_NOSIGNAL);
    if (written <= 0) break;
    sent += (size_t)written;
  }
  if (!ends_by_itself(response)) close_upstream(peers);
}

/* The call that the request is which has arrived, or NULL: it is the client's. */
static struct mg_kit_call *call_of(struct mg_kit_peers *peers)
{
  const struct mg_buf *bytes = &peers->to_upstream;
  const char *blank = memchr(bytes->ptr, ' ', bytes->len);
  size_t left = blank ? (size_t)(bytes->ptr + bytes->len - blank - 1) : 0;
  for (unsigned i = 0; i < peers->call_count; i++) {
    struct mg_kit_call *call = &peers->calls[i];
    if (left >= call->prefix.len && memcmp(blank + 1, call->prefix.ptr, call->prefix.len) == 0) return call;
  }
  return NULL;
}

static void answer(struct mg_kit_peers *peers, bool *moved)
{
  struct mg_kit_call *call = call_of(peers);
  *moved = true;
  if (!call) {
    peers->upstream_requests++;
    send_answer(peers, peers->response);
    return;
  }
  call->request.len = 0;
  mg_buf_append(&call->request, peers->to_upstream.ptr, peers->to_upstream.len);
  peers->to_upstream.len = 0;
  send_answer(peers, call->response);
}

static void move_upstream(struct mg_kit_peers *peers, bool *moved)
{
  int fd = accept4(peers->upstream_listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd >= 0) {
    close_upstream(peers);
    peers->upstream = fd;
    *moved = true;
  }
  if (peers->upstream < 0) return;
  size_t before = peers->to_upstream.len;
  if (!take(peers->upstream, &peers->to_upstream, moved))
    close_upstream(peers);
  else if (peers->to_upstream.len > before && !peers->upstream_requests && is_whole_request(&peers->to_upstream))
    answer(peers, moved);
}

bool mg_kit_peers_move(struct mg_kit_peers *peers)
{
  bool moved = false;
  if (peers->sent < peers->request.len) {
    ssize_t sent = send(peers->client, peers->request.ptr + peers->sent, peers->request.len - peers->sent,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) peers->sent += (size_t)sent, moved = true;
  }
  if (!peers->client_closed && !take(peers->client, &peers->to_client, &moved)) peers->client_closed = true;
  move_upstream(peers, &moved);
  return moved;
}

bool mg_kit_peers_done(struct mg_kit_peers *peers)
{
  return is_whole_answer(&peers->to_client, method_of(peers->request), peers->client_closed);
}

void mg_kit_peers_again(struct mg_kit_peers *peers)
{
  peers->sent = peers->to_upstream.len = peers->to_client.len = 0;
  peers->upstream_requests = 0;
}

void mg_kit_peers_close(struct mg_kit_peers *peers)
{
  close_upstream(peers);
  close(peers->client);
  for (unsigned i = 0; i < peers->call_count; i++) mg_buf_free(&peers->calls[i].request);
  mg_buf_free(&peers->to_upstream);
  mg_buf_free(&peers->to_client);
}
