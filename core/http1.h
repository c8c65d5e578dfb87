/* http1.h - bytes to messages: request and response heads, bodies, and the framing decisions between them.
 *
 * Pure: no sockets, no Lua, no clock. llhttp finds the tokens; what stands between them is held to the strict grammar
 * here, so that an older or laxer llhttp changes nothing (RFC 9112). All text in a parsed head is borrowed from the
 * bytes it was parsed from. Thread: any, one per object. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "headers.h"
#include "mem.h"

struct mg_head_limits {
  uint32_t line_bytes_max;   /* the request or status line alone: 414 */
  uint32_t head_bytes_max;   /* line and headers together: 431 */
  uint32_t header_count_max; /* 431 */
};

enum mg_framing {
  MG_FRAMING_NONE,    /* no body at all */
  MG_FRAMING_LENGTH,  /* content_length bytes, may be 0 */
  MG_FRAMING_CHUNKED, /* chunked, trailers may follow */
  MG_FRAMING_CLOSE    /* until the peer closes; answers only */
};

enum mg_method {
  MG_METHOD_OTHER,
  MG_METHOD_GET,
  MG_METHOD_HEAD,
  MG_METHOD_POST,
  MG_METHOD_PUT,
  MG_METHOD_DELETE,
  MG_METHOD_OPTIONS,
  MG_METHOD_PATCH,
  MG_METHOD_TRACE,
  MG_METHOD_CONNECT
};

struct mg_request_head {
  struct mg_headers headers;
  struct mg_str method;
  struct mg_str target;    /* as sent, without the scheme and authority of an absolute form */
  struct mg_str authority; /* of an absolute-form target; empty otherwise */
  struct mg_str host;      /* value of Host, or the authority; may be empty for HTTP/1.0 */
  struct mg_str raw;       /* the bytes it was parsed from, once they are kept */
  uint64_t content_length;
  uint8_t method_id; /* enum mg_method */
  uint8_t framing;   /* NONE, LENGTH or CHUNKED */
  uint8_t minor;     /* 0 or 1 */
  bool keep_alive;   /* what the client asked for, by version and Connection */
  bool expects_100;  /* Expect: 100-continue, HTTP/1.1 only */
  bool upgrade; /* a WebSocket offer: Connection: upgrade and Upgrade: websocket, HTTP/1.1, and no other protocol */
};

struct mg_response_head {
  struct mg_headers headers;
  struct mg_str reason; /* as sent, may be empty */
  struct mg_str raw;    /* the bytes it was parsed from, once they are kept */
  uint64_t content_length;
  uint16_t status;
  uint8_t framing; /* by RFC 9112, 6.3, with the request's method taken into account */
  uint8_t minor;
  bool keep_alive; /* whether the connection may be used again after this answer */
  bool upgrade;    /* a 101 to websocket, the one protocol that is ever offered: a 101 without it is MG_EUPSWITCH */
  uint32_t keep_alive_timeout_s; /* Keep-Alive: timeout=N; 0 where absent */
};

/** Parses one request head at the start of bytes, skipping up to a few empty lines before it (RFC 9112, 2.2).
 * head->headers must have been initialised with the exchange's arena. Checks everything that needs no route: line,
 * names, values, line ends, Host, target form, framing, TRACE and CONNECT, Expect.
 * Returns the number of bytes the head took, 0 when bytes end before the head does, or a negative error, which a head
 * that can no longer become good has at once. May be called again with more bytes: it starts afresh. On an error after
 * the request line was read, method, target and minor are filled in as far as they are known. */
int mg_request_head_parse(struct mg_request_head *head, const char *bytes, size_t len,
                          const struct mg_head_limits *limits);

/** Parses one response head. method_id is the request's (HEAD has no body). Interim answers (1xx) are returned like
 * others, with framing NONE. A status outside 100 to 599 and a version but 1.0 and 1.1 are faults. Returns as above;
 * every fault is MG_EUPBAD, MG_EUPHEADLARGE or MG_ENOMEM. */
int mg_response_head_parse(struct mg_response_head *head, const char *bytes, size_t len, int method_id,
                           const struct mg_head_limits *limits);

/** Copies what a parsed head points to (len bytes at bytes, as parsed) into the arena of its headers and lets it
 * point there: the bytes may go afterwards. 0 or MG_ENOMEM. */
int mg_request_head_keep(struct mg_request_head *head, const char *bytes, size_t len);
int mg_response_head_keep(struct mg_response_head *head, const char *bytes, size_t len);

/** Looks for the empty line that ends a head, so that a head arriving in pieces is parsed once it is whole.
 * *scanned (0 at first) says how far earlier calls looked. True when the end is there, or a bare LF, for which the
 * parser has its error. Parse a head on its first bytes, when this says true, and once len reaches head_bytes_max. */
bool mg_head_complete(const char *bytes, size_t len, size_t *scanned);

/** Decodes a body as it comes. */
struct mg_body_decoder {
  uint64_t left;      /* LENGTH: bytes still to come */
  uint64_t body_size; /* decoded bytes so far */
  uint8_t framing;
  bool done;
  struct mg_chunked *chunked; /* CHUNKED: in the arena */
};

struct mg_body_piece {
  char *data; /* decoded bytes: inside the buffer given, moved together in place */
  size_t len;
  size_t consumed; /* bytes of the buffer that belong to this message */
  bool last;       /* the body is complete; what follows consumed is not part of it */
};

/** Starts decoding. arena is borrowed for trailers and chunked state; trailers may be NULL to drop them.
 * 0 or MG_ENOMEM. */
int mg_body_start(struct mg_body_decoder *decoder, enum mg_framing framing, uint64_t content_length,
                  struct mg_arena *arena, struct mg_headers *trailers);

/** Decodes as much of bytes as belongs to the message and moves the decoded bytes together at its front.
 * 0, MG_EBADCHUNK, MG_EBADTRAILER (a caller reading an answer turns both into MG_EUPBAD) or MG_ENOMEM; piece then still
 * says what was decoded before the fault. */
int mg_body_decode(struct mg_body_decoder *decoder, char *bytes, size_t len, struct mg_body_piece *piece);

/** The peer closed: 0 if that completes the body (CLOSE framing, or already done), MG_ETRUNCATED otherwise. */
int mg_body_end(struct mg_body_decoder *decoder);
