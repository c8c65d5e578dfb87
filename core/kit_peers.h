/* kit_peers.h - the two ends of a kit's gateway: a client that sends given bytes, an upstream that answers with given
 * bytes.
 * Thread: the kit's. */
#pragma once

#include "mem.h"

/* What filters call: requests whose target begins with this prefix get this answer. */
struct mg_kit_call {
  struct mg_str prefix, response;
  struct mg_buf request; /* the last one, as it arrived */
};

enum { MG_KIT_CALLS_MAX = 16 };

struct mg_kit_peers {
  struct mg_kit_call calls[MG_KIT_CALLS_MAX];
  unsigned call_count;
  int upstream_listener;
  int upstream; /* -1: not connected */
  int client;
  struct mg_str request;
  struct mg_str response;
  size_t sent; /* of request */
  unsigned upstream_requests;
  struct mg_buf to_upstream; /* the request as it arrived there */
  struct mg_buf to_client;   /* the answer as it arrived there, 1xx included */
  bool client_closed;
};

/** Moves what can be moved without waiting. True if anything moved. */
bool mg_kit_peers_move(struct mg_kit_peers *peers);

/** True once the client has a whole answer, or its connection is gone. */
bool mg_kit_peers_done(struct mg_kit_peers *peers);

/** Forgets what was moved: the next exchange begins, on the same connections if they still stand. */
void mg_kit_peers_again(struct mg_kit_peers *peers);

void mg_kit_peers_close(struct mg_kit_peers *peers);
