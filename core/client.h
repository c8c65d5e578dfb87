/* client.h - one client connection: its bytes, its exchanges one after the other, its end.
 * Thread: the loop's. */
#pragma once

#include "forward.h"
#include "gateway_state.h"

struct mg_client {
  struct mg_conn conn;
  struct mg_gateway *gateway;
  struct mg_exchange *exchange; /* the one in progress; NULL between two */
  struct mg_client *next, *previous;
  struct mg_inflow in;
  uint32_t head_tried; /* bytes of the partial head when it was last parsed */
  uint32_t head_scanned;
  uint64_t head_since_ms; /* when its first byte came */
  struct mg_address peer;
  bool peer_trusted;
  bool served;      /* has had an answer: an idle one may be closed at any time */
  bool pumping;     /* inside mg_client_pump: no second one below it */
  bool half_closed; /* the client will send no more */
  bool lingering;   /* answered for the last time; what still comes is thrown away */
};

/** Accepts one connection from a listening descriptor. 0; MG_EAGAIN_LATER when none waits; MG_EOVERLOAD when there
 * is no descriptor or memory for it (it stays in the backlog). */
int mg_client_accept(struct mg_gateway *gateway, int listener);

/** Goes on with what the client has sent: the current exchange's body, or the next request. */
void mg_client_pump(struct mg_client *client);

/** The exchange has ended (it is freed after this call). keep: the connection may carry another. */
void mg_client_exchange_done(struct mg_client *client, bool keep);

/** Ends the connection so that the peer can still read what was sent. */
void mg_client_linger(struct mg_client *client);

/** Sets the time the client has for what is expected of it now: the next body bytes, or nothing. */
void mg_client_arm(struct mg_client *client);

/** Reads on, or stops when as much is held as may be. */
void mg_client_read_on(struct mg_client *client);
