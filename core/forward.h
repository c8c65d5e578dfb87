/* forward.h - what a gateway changes between its two sides: hop-by-hop lines, claims of clients, heads as they go out.
 * Pure. Thread: any. */
#pragma once

#include "http1.h"

struct mg_address {
  uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
  char text[46];     /* canonical text, IPv4 in dotted form; empty when unknown (unix socket) */
  uint8_t text_len;
  bool v4;
};

struct mg_network { /* one entry of limits.trusted_proxies */
  uint8_t bytes[16];
  uint8_t prefix; /* of the 128-bit form */
};

enum mg_client_source { MG_CLIENT_SOCKET, MG_CLIENT_X_FORWARDED_FOR, MG_CLIENT_X_REAL_IP, MG_CLIENT_UNKNOWN };

/** Parses an IP literal (brackets and zone refused). */
bool mg_address_parse(struct mg_str text, struct mg_address *address);
/** Parses an address or CIDR. */
bool mg_network_parse(struct mg_str text, struct mg_network *network);
bool mg_network_has(const struct mg_network *network, const struct mg_address *address);

/** The client's address by the trusted_proxies walk: only for a trusted peer, X-Forwarded-For lines joined, right to left
 * to the first untrusted entry; every entry must be an IP literal. */
enum mg_client_source mg_client_address(const struct mg_headers *headers, const struct mg_address *peer,
                                        const struct mg_network *trusted, unsigned trusted_count,
                                        struct mg_address *client);

/** Marks as gone what must not pass from client to routes and upstream: hop-by-hop lines and those that Connection
 * nominates (never Host, Content-Length, Transfer-Encoding), and for an untrusted peer every forwarding claim.
 * Framing lines stay in the list; the head writer leaves them out and writes its own. */
void mg_request_sanitise(struct mg_request_head *head, bool peer_trusted);

/** Marks as gone the hop-by-hop lines of an answer and those its Connection nominates. */
void mg_response_sanitise(struct mg_response_head *head);

enum mg_body_out { MG_OUT_NONE, MG_OUT_LENGTH, MG_OUT_CHUNKED, MG_OUT_CLOSE };

struct mg_request_out {
  struct mg_str method;
  struct mg_str target;      /* what goes into the request line: prefix, path and query already joined */
  struct mg_str host;        /* value of Host */
  const struct mg_headers *headers;
  const struct mg_address *peer;   /* appended to X-Forwarded-For */
  struct mg_str original_host;     /* X-Forwarded-Host, -Server and -Port */
  uint16_t listen_port;            /* X-Forwarded-Port where Host has none and the scheme's is not meant: unused if 0 */
  bool peer_trusted;               /* the -Proto, -Host, -Port, -Server lines of the client stand where they exist */
  bool upgrade;                    /* write Connection: Upgrade and Upgrade: websocket */
  bool expect;                     /* pass Expect: 100-continue on */
  bool te_trailers;                /* write TE: trailers (with Connection: TE) */
  enum mg_body_out body;
  uint64_t content_length;         /* LENGTH */
};

/** Writes the head that goes to the upstream, always HTTP/1.1, at most capacity bytes.
 * Returns its length, or -1 when capacity is too small. Untouched runs of the client's lines are copied whole. */
long mg_request_write(char *out, size_t capacity, const struct mg_request_out *request);

struct mg_response_out {
  uint16_t status;
  struct mg_str reason;            /* empty: the standard phrase of the status, or none */
  const struct mg_headers *headers;
  enum mg_body_out body;           /* CLOSE adds Connection: close; NONE writes no framing line */
  uint64_t content_length;         /* LENGTH */
  bool keep_length;                /* HEAD and 304: the Content-Length in headers stands for the full answer; write it as it is */
  uint8_t client_minor;            /* the client's version; the status line always says HTTP/1.1 */
  bool close;                      /* write Connection: close */
  bool keep_alive_1_0;             /* write Connection: keep-alive (an HTTP/1.0 client that asked) */
  bool upgrade;                    /* a 101: Connection: Upgrade, and the Upgrade line passes */
};

/** Writes the head that goes to the client. As mg_request_write. */
long mg_response_write(char *out, size_t capacity, const struct mg_response_out *response);

/** An upper bound for either writer's need, so that one arena block is enough. */
size_t mg_request_write_bound(const struct mg_request_out *request);
size_t mg_response_write_bound(const struct mg_response_out *response);

/** The standard reason phrase of a status; "" where there is none. Static. */
const char *mg_reason_phrase(int status);
