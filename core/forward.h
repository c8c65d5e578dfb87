/* forward.h - what a gateway changes between its two sides: hop-by-hop lines, claims of clients, heads as they go out.
 * Pure. Thread: any. */
#pragma once

#include "address.h"
#include "http1.h"

/** Marks as gone what must not pass from client to routes and upstream: hop-by-hop lines and those that Connection
 * nominates (never Host, Content-Length, Transfer-Encoding, nor a trusted peer's forwarding claims, whose loss would
 * make the peer the client: CVE-2022-31813), and for an untrusted peer every forwarding claim.
 * Framing lines stay in the list; the head writer leaves them out and writes its own. */
void mg_request_sanitise(struct mg_request_head *head, bool peer_trusted);

/** Marks as gone the hop-by-hop lines of an answer and those its Connection nominates. */
void mg_response_sanitise(struct mg_response_head *head);

enum mg_body_out { MG_OUT_NONE, MG_OUT_LENGTH, MG_OUT_CHUNKED, MG_OUT_CLOSE };

struct mg_request_out {
  struct mg_str method;
  struct mg_str target; /* what goes into the request line: prefix, path and query already joined */
  struct mg_str host;   /* value of Host */
  const struct mg_headers *headers;
  const struct mg_address *peer; /* appended to X-Forwarded-For */
  struct mg_str original_host;   /* X-Forwarded-Host, -Server and -Port */
  uint16_t listen_port;          /* X-Forwarded-Port where Host has none and the scheme's is not meant: unused if 0 */
  bool peer_trusted;             /* the peer's X-Forwarded lines stand where they exist; lines of filters always do */
  bool own;                      /* a request of the gateway's: no X-Forwarded lines at all */
  bool upgrade;                  /* write Connection: Upgrade and Upgrade: websocket */
  bool expect;                   /* pass Expect: 100-continue on */
  bool te_trailers;              /* write TE: trailers (with Connection: TE) */
  enum mg_body_out body;
  uint64_t content_length; /* LENGTH */
};

/** Writes the head that goes to the upstream, always HTTP/1.1, at most capacity bytes.
 * Adds X-Forwarded-For, -Proto, -Host, -Port and -Server; neither Via nor Forwarded (README.md, decisions).
 * Returns its length, or -1 when capacity is too small. Untouched runs of the client's lines are copied whole. */
long mg_request_write(char *out, size_t capacity, const struct mg_request_out *request);

struct mg_response_out {
  uint16_t status;
  struct mg_str reason; /* empty: the standard phrase of the status, or none */
  const struct mg_headers *headers;
  enum mg_body_out body;   /* CLOSE adds Connection: close; NONE writes no framing line */
  uint64_t content_length; /* LENGTH */
  bool keep_length;     /* HEAD and 304: the Content-Length in headers stands for the full answer; write it as it is */
  uint8_t client_minor; /* the client's version; the status line always says HTTP/1.1 */
  bool close;           /* write Connection: close */
  bool keep_alive_1_0;  /* write Connection: keep-alive (an HTTP/1.0 client that asked) */
  bool upgrade;         /* a 101: Connection: Upgrade, and the Upgrade line passes */
};

/** Writes the head that goes to the client. As mg_request_write. */
long mg_response_write(char *out, size_t capacity, const struct mg_response_out *response);

/** Writes what ends a chunked body: the last chunk, the trailer lines and the empty line. As mg_request_write. */
long mg_trailers_write(char *out, size_t capacity, const struct mg_headers *trailers);

/** An upper bound for either writer's need, so that one arena block is enough. */
size_t mg_request_write_bound(const struct mg_request_out *request);
size_t mg_response_write_bound(const struct mg_response_out *response);

/** The standard reason phrase of a status; "" where there is none. Static. */
const char *mg_reason_phrase(int status);
