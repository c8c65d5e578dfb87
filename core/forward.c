/* forward.c - which lines pass the gateway, and the heads that leave it.
 * Owns: nothing.   May call: headers, http1, address, target.   Never: write a line that it was told is gone, write
 * framing that comes from a peer, allocate.
 * Thread: any. */
#include "forward.h"

#include "target.h"

#define BIT(id) (1u << MG_H_##id)

/* RFC 9110, 7.6.1. Proxy-Authorization was meant for this gateway. */
enum {
  HOP_BY_HOP = BIT(CONNECTION) | BIT(KEEP_ALIVE) | BIT(PROXY_CONNECTION) | BIT(UPGRADE) | BIT(TE),
  REQUEST_HOP_BY_HOP = HOP_BY_HOP | BIT(PROXY_AUTHORIZATION) | BIT(LOOKALIKE),
  FRAMING = BIT(CONTENT_LENGTH) | BIT(TRANSFER_ENCODING),
  FORWARDED_EXACT = BIT(X_FORWARDED_FOR) | BIT(X_FORWARDED_PROTO) | BIT(X_FORWARDED_HOST) | BIT(X_FORWARDED_PORT) |
                    BIT(X_FORWARDED_SERVER),
  CLAIMS = FORWARDED_EXACT | BIT(FORWARDED) | BIT(X_FORWARDED) | BIT(X_REAL_IP) | BIT(CLAIM)
};

/* Marks the lines whose id is in the set as gone. */
static void remove_ids(struct mg_headers *headers, uint32_t ids)
{
  if (!(headers->present & ids)) return;
  for (unsigned i = 0; i < headers->count; i++)
    if (1u << headers->items[i].id & ids) headers->items[i].flags |= MG_HEADER_GONE;
}

/* Removes what the Connection lines nominate, but for the ids in kept. */
static void remove_nominated(struct mg_headers *headers, uint32_t kept)
{
  if (!(headers->present & BIT(CONNECTION))) return;
  for (unsigned i = 0; i < headers->count; i++) {
    if (headers->items[i].id != MG_H_CONNECTION) continue;
    struct mg_str rest = mg_str(headers->items[i].value, headers->items[i].value_len), name;
    while (mg_list_next(&rest, &name)) {
      uint32_t id = name.len ? 1u << mg_header_id(name.ptr, name.len) : kept;
      if (!(id & (kept | HOP_BY_HOP))) mg_headers_remove(headers, name);
    }
  }
}

void mg_request_sanitise(struct mg_request_head *head, bool peer_trusted)
{
  remove_nominated(&head->headers, BIT(HOST) | FRAMING | CLAIMS);
  remove_ids(&head->headers, REQUEST_HOP_BY_HOP | (peer_trusted ? 0u : (uint32_t)CLAIMS));
}

void mg_response_sanitise(struct mg_response_head *head)
{
  remove_nominated(&head->headers, BIT(HOST) | FRAMING);
  /* Beside Transfer-Encoding a length means nothing, also where it would only be quoted to HEAD. */
  if (head->headers.present & BIT(TRANSFER_ENCODING)) remove_ids(&head->headers, BIT(CONTENT_LENGTH));
  remove_ids(&head->headers, head->upgrade ? HOP_BY_HOP & ~(uint32_t)BIT(UPGRADE) : (uint32_t)HOP_BY_HOP);
}

/* The bytes that a head is written to. Once something did not fit, nothing more is written. */
struct sink {
  char *start;
  char *at;
  char *end;
  bool full;
};

__attribute__((always_inline)) static inline void put(struct sink *sink, const char *bytes, size_t len)
{
  if ((size_t)(sink->end - sink->at) < len) {
    sink->full = true;
    sink->end = sink->at;
    return;
  }
  memcpy(sink->at, bytes, len);
  sink->at += len;
}

#define PUT(sink, literal) put(sink, literal, sizeof(literal) - 1)

static void put_str(struct sink *sink, struct mg_str text)
{
  if (text.len) put(sink, text.ptr, text.len);
}

static void put_number(struct sink *sink, uint64_t number)
{
  char digits[20];
  size_t at = sizeof digits;
  do digits[--at] = (char)('0' + number % 10);
  while (number /= 10);
  put(sink, digits + at, sizeof digits - at);
}

static void put_line(struct sink *sink, const struct mg_header *line)
{
  put(sink, line->name, line->name_len);
  PUT(sink, ": ");
  put(sink, line->value, line->value_len);
  PUT(sink, "\r\n");
}

/* Writes the lines that are neither gone nor dropped. Neighbours that lie in memory as they go out are one copy. */
static void put_lines(struct sink *sink, const struct mg_headers *headers, uint32_t drop, uint32_t drop_peers)
{
  const char *run = NULL, *run_end = NULL;
  for (unsigned i = 0; i < headers->count; i++) {
    const struct mg_header *line = &headers->items[i];
    uint32_t dropped = line->flags & MG_HEADER_OURS ? drop : drop | drop_peers;
    if (line->flags & MG_HEADER_GONE || dropped >> line->id & 1) continue;
    bool raw = line->flags & MG_HEADER_RAW;
    if (!raw || line->name != run_end) {
      if (run) put(sink, run, (size_t)(run_end - run));
      run = run_end = raw ? line->name : NULL;
    }
    if (raw)
      run_end = line->value + line->value_len + 2;
    else
      put_line(sink, line);
  }
  if (run) put(sink, run, (size_t)(run_end - run));
}

static long finish(const struct sink *sink)
{
  return sink->full ? -1 : sink->at - sink->start;
}

/* True if a line of that id passes, so that none is added. */
static bool stands(const struct mg_request_out *request, enum mg_header_id id)
{
  if (!(request->headers->present & 1u << id)) return false;
  for (unsigned i = 0; i < request->headers->count; i++) {
    const struct mg_header *line = &request->headers->items[i];
    if (line->id != id || line->flags & MG_HEADER_GONE) continue;
    if (request->peer_trusted || line->flags & MG_HEADER_OURS) return true;
  }
  return false;
}

static void put_forwarded_for(struct sink *sink, const struct mg_request_out *request)
{
  const struct mg_headers *headers = request->headers;
  bool chain = stands(request, MG_H_X_FORWARDED_FOR), known = request->peer && request->peer->text_len;
  if (!chain && !known) return;
  PUT(sink, "X-Forwarded-For: ");
  bool first = true;
  for (unsigned i = 0; i < headers->count && chain; i++) {
    const struct mg_header *line = &headers->items[i];
    if (line->id != MG_H_X_FORWARDED_FOR || line->flags & MG_HEADER_GONE || !line->value_len) continue;
    if (!request->peer_trusted && !(line->flags & MG_HEADER_OURS)) continue;
    if (!first) PUT(sink, ", ");
    put(sink, line->value, line->value_len);
    first = false;
  }
  if (known) {
    if (!first) PUT(sink, ", ");
    put(sink, request->peer->text, request->peer->text_len);
  }
  PUT(sink, "\r\n");
}

static void put_forwarded(struct sink *sink, const struct mg_request_out *request)
{
  struct mg_str host = MG_STR(""), port = MG_STR("");
  if (request->own) return;
  put_forwarded_for(sink, request);
  if (!stands(request, MG_H_X_FORWARDED_PROTO)) PUT(sink, "X-Forwarded-Proto: http\r\n");
  bool known = mg_authority_split(request->original_host, &host, &port);
  if (known && !stands(request, MG_H_X_FORWARDED_HOST)) {
    PUT(sink, "X-Forwarded-Host: ");
    put_str(sink, request->original_host);
    PUT(sink, "\r\n");
  }
  if (!stands(request, MG_H_X_FORWARDED_PORT)) {
    PUT(sink, "X-Forwarded-Port: ");
    if (known && port.len)
      put_str(sink, port);
    else
      put_number(sink, request->listen_port ? request->listen_port : 80);
    PUT(sink, "\r\n");
  }
  if (known && !stands(request, MG_H_X_FORWARDED_SERVER)) {
    PUT(sink, "X-Forwarded-Server: ");
    put_str(sink, host);
    PUT(sink, "\r\n");
  }
}

static void put_framing(struct sink *sink, enum mg_body_out body, uint64_t content_length)
{
  if (body == MG_OUT_LENGTH) {
    PUT(sink, "Content-Length: ");
    put_number(sink, content_length);
    PUT(sink, "\r\n");
  } else if (body == MG_OUT_CHUNKED) {
    PUT(sink, "Transfer-Encoding: chunked\r\n");
  }
}

long mg_request_write(char *out, size_t capacity, const struct mg_request_out *request)
{
  struct sink sink = {.start = out, .at = out, .end = out + capacity};
  uint32_t drop = HOP_BY_HOP | FRAMING | BIT(HOST) | BIT(EXPECT) | BIT(X_FORWARDED_FOR);
  if (request->body != MG_OUT_CHUNKED) drop |= BIT(TRAILER);
  put_str(&sink, request->method);
  PUT(&sink, " ");
  put_str(&sink, request->target);
  PUT(&sink, " HTTP/1.1\r\nHost: ");
  put_str(&sink, request->host);
  PUT(&sink, "\r\n");
  put_lines(&sink, request->headers, drop, request->peer_trusted ? 0 : FORWARDED_EXACT);
  put_forwarded(&sink, request);
  put_framing(&sink, request->body, request->content_length);
  if (request->expect) PUT(&sink, "Expect: 100-continue\r\n");
  if (request->upgrade)
    PUT(&sink, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
  else if (request->te_trailers)
    PUT(&sink, "Connection: TE\r\nTE: trailers\r\n");
  PUT(&sink, "\r\n");
  return finish(&sink);
}

long mg_response_write(char *out, size_t capacity, const struct mg_response_out *response)
{
  struct sink sink = {.start = out, .at = out, .end = out + capacity};
  enum mg_body_out body = response->body;
  if (body == MG_OUT_CHUNKED && response->client_minor == 0) body = MG_OUT_CLOSE;
  uint32_t drop = HOP_BY_HOP | FRAMING;
  bool bodiless = response->status < 200 || response->status == 204;
  if (response->keep_length && !bodiless) drop &= ~(uint32_t)BIT(CONTENT_LENGTH);
  if (response->upgrade) drop &= ~(uint32_t)BIT(UPGRADE);
  if (body != MG_OUT_CHUNKED) drop |= BIT(TRAILER);

  struct mg_str reason = response->reason;
  if (!reason.len) {
    const char *phrase = mg_reason_phrase(response->status);
    reason = mg_str(phrase, strlen(phrase));
  }
  PUT(&sink, "HTTP/1.1 ");
  put_number(&sink, response->status);
  PUT(&sink, " ");
  put_str(&sink, reason);
  PUT(&sink, "\r\n");
  put_lines(&sink, response->headers, drop, 0);
  put_framing(&sink, body, response->content_length);
  if (response->upgrade)
    PUT(&sink, "Connection: Upgrade\r\n");
  else if (response->close || body == MG_OUT_CLOSE)
    PUT(&sink, "Connection: close\r\n");
  else if (response->keep_alive_1_0)
    PUT(&sink, "Connection: keep-alive\r\n");
  PUT(&sink, "\r\n");
  return finish(&sink);
}

long mg_trailers_write(char *out, size_t capacity, const struct mg_headers *trailers)
{
  struct sink sink = {.start = out, .at = out, .end = out + capacity};
  PUT(&sink, "0\r\n");
  put_lines(&sink, trailers, 0, 0);
  PUT(&sink, "\r\n");
  return finish(&sink);
}

static size_t lines_bound(const struct mg_headers *headers)
{
  size_t bound = 0;
  for (unsigned i = 0; i < headers->count; i++)
    bound += headers->items[i].name_len + (size_t)headers->items[i].value_len + 4;
  return bound;
}

enum { FIXED_LINES_BOUND = 512 }; /* what the writers add by themselves, texts of their caller not counted */

size_t mg_request_write_bound(const struct mg_request_out *request)
{
  return FIXED_LINES_BOUND + request->method.len + request->target.len + request->host.len +
         2 * request->original_host.len + lines_bound(request->headers);
}

size_t mg_response_write_bound(const struct mg_response_out *response)
{
  return FIXED_LINES_BOUND + response->reason.len + lines_bound(response->headers);
}

const char *mg_reason_phrase(int status)
{
  static const struct {
    int status;
    const char *phrase;
  } phrases[] = {
      {100, "Continue"},
      {101, "Switching Protocols"},
      {102, "Processing"},
      {103, "Early Hints"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {203, "Non-Authoritative Information"},
      {204, "No Content"},
      {205, "Reset Content"},
      {206, "Partial Content"},
      {207, "Multi-Status"},
      {208, "Already Reported"},
      {226, "IM Used"},
      {300, "Multiple Choices"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {305, "Use Proxy"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {402, "Payment Required"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {407, "Proxy Authentication Required"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {421, "Misdirected Request"},
      {422, "Unprocessable Content"},
      {423, "Locked"},
      {424, "Failed Dependency"},
      {425, "Too Early"},
      {426, "Upgrade Required"},
      {428, "Precondition Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {451, "Unavailable For Legal Reasons"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {506, "Variant Also Negotiates"},
      {507, "Insufficient Storage"},
      {508, "Loop Detected"},
      {511, "Network Authentication Required"},
  };
  for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
    if (phrases[i].status == status) return phrases[i].phrase;
  return "";
}
