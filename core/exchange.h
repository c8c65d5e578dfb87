/* exchange.h - one request and its answer: a table of steps and a small driver.
 *
 * Callbacks of the two streams store what happened and call mg_exchange_run; each step returns NEXT with ex->step
 * set, or WAIT. The table is drawn in core/README.md. Thread: the loop's. */
#pragma once

#include "call.h"
#include "client.h"
#include "forward.h"
#include "http1.h"
#include "offload.h"
#include "record.h"
#include "target.h"

enum { MG_FALLBACKS_MAX = 7 };

enum mg_step {
  MG_STEP_HEAD,
  MG_STEP_CHECK,
  MG_STEP_OPEN,
  MG_STEP_ROUTE,
  MG_STEP_COLLECT,
  MG_STEP_REQUEST,
  MG_STEP_RECORD,
  MG_STEP_UPSTREAM,
  MG_STEP_RESPONSE,
  MG_STEP_RELAY,
  MG_STEP_CLOSE,
  MG_STEP_COUNT
};

enum mg_next { MG_NEXT, MG_WAIT, MG_DONE };

/** Which of a filter's functions runs, for the calls that only some may make. */
enum mg_phase { MG_PHASE_NONE, MG_PHASE_REQUEST, MG_PHASE_UPSTREAM, MG_PHASE_RESPONSE, MG_PHASE_CHUNK, MG_PHASE_LOG };

/** Who made the answer. */
enum mg_source { MG_FROM_UPSTREAM, MG_FROM_FILTER, MG_FROM_GATEWAY };

enum mg_edit_op { MG_EDIT_SET, MG_EDIT_ADD, MG_EDIT_REMOVE, MG_EDIT_SET_COOKIE, MG_EDIT_REMOVE_COOKIE };

/** A change to the request's headers, applied in order when the upstream head is written. */
struct mg_edit {
  struct mg_edit *next;
  struct mg_header line; /* what is added, or names what is removed; of a cookie its name and value */
  uint8_t op;
};

/** What the edits were at one moment: a fallback drops those of the first route, not the global filters'. */
struct mg_edit_mark {
  struct mg_edit **last_edit; /* NULL: there were none */
  struct mg_str new_path, new_query, new_host;
};

struct mg_attribute {
  struct mg_attribute *next;
  struct mg_str name, value; /* in the arena */
};

/** What a limiter or breaker has to know of an exchange when its answer is there. */
struct mg_note {
  struct mg_note *next;
  const void *owner;
  uint64_t value;
  bool open; /* a breaker still waits for the outcome */
};

enum mg_up_state { MG_UP_NONE, MG_UP_ACQUIRING, MG_UP_READY, MG_UP_SENT };

struct mg_exchange {
  uint64_t handle;
  struct mg_gateway *gateway;
  struct mg_client *client; /* NULL in the test kit */
  struct mg_generation *generation;
  const struct mg_plan *plan; /* the last of plans */
  struct mg_tally *tally;     /* of its own route; NULL before and without one, and where a route is not counted */
  const struct mg_plan *plans[MG_FALLBACKS_MAX + 1]; /* the route's own, then the fallbacks' that stand in */
  uint8_t depth;                                     /* how many stand in */
  int8_t response_at;                                /* whose response filters are next; -1: all have run */
  int route;                                         /* index, -1 before and without one */
  uint8_t step;
  uint8_t phase;
  uint8_t up_state;
  uint8_t source; /* enum mg_source, of the answer */
  uint8_t interim_count;
  uint8_t tries;
  bool running;
  bool script_done;    /* the current phase's filters have run */
  bool skip_filters;   /* no response filters: refused before routing, or a filter failed */
  bool answered;       /* a filter called respond */
  bool close;          /* the client connection ends with this exchange */
  bool request_done;   /* the whole request body has been read */
  bool request_broken; /* ... or never will be */
  bool response_done;
  bool head_sent;    /* the client has (part of) the final head */
  bool head_written; /* the upstream has the head */
  bool discard_body; /* the upstream's body is not passed on */
  bool counted;
  bool tunnel;
  bool tunnel_reset;         /* the client broke it off */
  bool up_shut, client_shut; /* an end of file has been passed on in a tunnel */
  bool te_trailers;          /* the client takes trailers */
  bool up_ended;             /* the upstream will send no more */
  bool retried;              /* the one repetition on a fresh connection is used up */
  int err;                   /* why the gateway answered itself, or why the exchange broke */

  /* times, uv_hrtime's clock, nanoseconds */
  uint64_t began_ns;
  uint64_t wall_ms; /* of the start, for the id */
  uint64_t sent_ns; /* the upstream head went out */
  uint64_t first_byte_ns;
  uint64_t ended_ns; /* when it was accounted for */
  uint64_t id_count;
  uint64_t asked_ms;                  /* uv_now's clock: the whole request is with us; 0 before */
  uint64_t rate_since_ms, rate_bytes; /* where the body's rate is measured from */

  struct mg_request_head request;
  struct mg_target_parts target;
  struct mg_str raw_target;   /* as sent */
  struct mg_str request_host; /* without port */
  struct mg_body_decoder request_body;
  struct mg_headers request_trailers;
  struct mg_address client_address;
  struct mg_edit *first_edit, **last_edit;
  struct mg_str new_path, new_query, new_host; /* set by filters; ptr NULL: unchanged */
  struct mg_edit_mark mark;
  struct mg_str traceparent; /* as upstreams get it; ptr NULL: as the client sent it, empty: not at all */
  struct mg_attribute *attributes;
  struct mg_note *notes;
  uint64_t body_bytes_max; /* of the request, set by a filter; 0: none */
  int16_t wanted_member;   /* of the group, for the next try, plus 1; 0: the strategy decides */
  bool has_locals;         /* filters keep values of this exchange in Lua */

  struct mg_acquire acquire;
  struct mg_upconn *up;
  struct mg_inflow up_in;
  struct mg_tried tried;
  struct mg_member *member;
  struct mg_str up_head; /* as written, for a repetition */
  uint64_t up_body_written;
  int up_err; /* how the last try failed */
  unsigned retries_used;
  size_t up_head_tried, up_head_scanned; /* of an answer's head that comes in pieces */

  struct mg_response_head response;
  struct mg_headers response_trailers;
  struct mg_body_decoder response_body;
  struct mg_str answer_body; /* of an answer of ours, or of one that is held */

  /* bodies that filters hold or change */
  struct mg_buf request_held, answer_held;
  bool request_is_held, answer_is_held;
  bool held_sent;               /* the held request body is with the upstream */
  bool last_given;              /* chunk functions have seen the end of the request's body */
  bool piece_waits;             /* a chunk function has yielded */
  bool piece_given;             /* it has given other bytes */
  int piece_ref;                /* whose */
  struct mg_body_piece piece;   /* what a chunk function looks at */
  struct mg_buf given;          /* what it gave instead */
  struct mg_edit_mark try_mark; /* edits of upstream functions are dropped before the next try */
  struct mg_str client_head;    /* as written */
  uint8_t body_out;             /* enum mg_body_out, towards the client */
  uint64_t response_bytes;      /* of the body, as sent to the client */
  char chunk_line[24];

  struct mg_record record; /* what of it is in the journal */

  struct mg_coroutine waiting;      /* a filter that yielded */
  const struct mg_metered *metered; /* that filter */
  struct mg_call *call;             /* a filter's request of its own, in the arena */
  uint64_t call_timeout_ms;
  bool call_runs;
  struct mg_sleep *asleep;     /* that filter, for a time it said */
  struct mg_timer retry;       /* the record could not begin: when to try again */
  struct mg_file *file;        /* opened by a filter */
  uint64_t file_at, file_left; /* of it, still to be sent */
  uint64_t file_near;          /* up to here it is in memory, as far as is known */
  bool sends_file;             /* it is the answer's body */
  struct mg_job *job;          /* that it waits for, or has prepared */
  bool job_started;
  int job_result;
  struct mg_timer limit; /* the time for the whole exchange, or for getting a connection */
  char id_text[27];

  struct mg_arena arena;
  char first[]; /* the arena's first part, up to MG_EXCHANGE_BYTES */
};

/** A new exchange on client (NULL: none), with its own slot and arena. NULL when all slots are taken. */
struct mg_exchange *mg_exchange_new(struct mg_gateway *gateway, struct mg_client *client);

/** Frees an exchange that has not found a whole head. */
void mg_exchange_forget(struct mg_exchange *ex);

/** Runs steps until one waits; the exchange may be freed when this returns. */
void mg_exchange_run(struct mg_exchange *ex);

/** The exchange behind a handle's number, or NULL when it has ended. */
struct mg_exchange *mg_exchange_find(struct mg_gateway *gateway, uint64_t handle);

/** Answers in the gateway's own words: status and sentence of err; response filters run if the exchange is routed.
 * To be called from within a step; sets ex->step. */
enum mg_next mg_exchange_fail(struct mg_exchange *ex, int err);

/** Ends the exchange without (the rest of) an answer: the client sees the connection break. Sets ex->step. */
enum mg_next mg_exchange_break(struct mg_exchange *ex, int err);

/** The time for the exchange, or for a connection, is over. */
void mg_exchange_time_out(struct mg_exchange *ex);

/** Ends the exchange now, whatever it is doing: the gateway is going. */
void mg_exchange_abort(struct mg_exchange *ex);

/** What the client connection tells: it ended (MG_ECLOSED, MG_ERESET), its time ran out, or its queue is gone. */
void mg_exchange_client_ended(struct mg_exchange *ex, int err);
void mg_exchange_client_timeout(struct mg_exchange *ex);
void mg_exchange_client_drained(struct mg_exchange *ex, int err);

/** The exchange's id as text, made when first asked for; 26 characters, lives as long as the exchange. */
struct mg_str mg_exchange_id_text(struct mg_exchange *ex);

/* The steps, by file. */
enum mg_next mg_step_head(struct mg_exchange *ex); /* exchange_request.c */
enum mg_next mg_step_check(struct mg_exchange *ex);
enum mg_next mg_step_open(struct mg_exchange *ex);
enum mg_next mg_step_route(struct mg_exchange *ex);
enum mg_next mg_step_collect(struct mg_exchange *ex);
enum mg_next mg_step_request(struct mg_exchange *ex);
enum mg_next mg_step_record(struct mg_exchange *ex);
enum mg_next mg_step_upstream(struct mg_exchange *ex); /* exchange_upstream.c */
enum mg_next mg_step_response(struct mg_exchange *ex); /* exchange_response.c */
enum mg_next mg_step_relay(struct mg_exchange *ex);
enum mg_next mg_step_close(struct mg_exchange *ex);

/** exchange_send.c: sends what the client has sent of its body; 0 or an error of the client's framing. */
int mg_exchange_send_body(struct mg_exchange *ex);
/** exchange_send.c: the request's headers as filters have edited them, in a new list; 0 or MG_ENOMEM. */
int mg_exchange_edited_headers(struct mg_exchange *ex, struct mg_headers *out);
/** exchange_send.c: frames a piece of a body; bufs has room for 4. Returns how many it used. */
unsigned mg_exchange_frame(struct mg_exchange *ex, const struct mg_body_piece *piece, enum mg_body_out out,
                           const struct mg_headers *trailers, uv_buf_t *bufs);
/** exchange_send.c: decodes what the client has sent of its body; 0 or an error of its framing, its size or its
 * pace. */
int mg_exchange_next_body_piece(struct mg_exchange *ex, struct mg_body_piece *piece);
/** exchange_response.c: the next piece of the upstream's body; 0, MG_EAGAIN_LATER, or an error. */
int mg_exchange_next_answer_piece(struct mg_exchange *ex, struct mg_body_piece *piece);
/** exchange_body.c: reads the whole request body into memory; 0, MG_EAGAIN_LATER, or an error. */
int mg_exchange_collect_request(struct mg_exchange *ex);
/** exchange_body.c: reads the whole answer into memory and leaves the upstream; as above. */
int mg_exchange_collect_answer(struct mg_exchange *ex);
/** exchange_body.c: lets chunk functions change a piece (its bytes live until the next one); 0, MG_EAGAIN_LATER,
 * MG_ESCRIPT. While a call waits, piece is ignored. */
int mg_exchange_transform(struct mg_exchange *ex, int ref, struct mg_body_piece *piece);
/** exchange_request.c: what the edits are now, and back to what they were. */
struct mg_edit_mark mg_exchange_mark(struct mg_exchange *ex);
void mg_exchange_undo_edits(struct mg_exchange *ex, const struct mg_edit_mark *mark);
/** exchange_send.c: writes the head for ex->member into ex->up_head; 0 or MG_ENOMEM. */
int mg_exchange_write_upstream_head(struct mg_exchange *ex);
/** exchange_send.c: milliseconds left until the answer's head must be there; UINT64_MAX without a limit. */
uint64_t mg_exchange_time_left(struct mg_exchange *ex);
/** exchange_upstream.c: gives the upstream connection back, or cuts it. */
void mg_exchange_leave_upstream(struct mg_exchange *ex, bool reusable);
/** exchange_script.c: runs one phase's filters; MG_OK, MG_EAGAIN_LATER, MG_ESCRIPT. */
/** exchange_script.c: decides OPAQUE predicate index: 1, 0, or MG_ESCRIPT. */
int mg_exchange_ask(struct mg_exchange *ex, unsigned index);
int mg_exchange_call(struct mg_exchange *ex, const struct mg_chain *chain, enum mg_phase phase);
/** exchange_script.c: the time of one filter's call ends here, that of another (or NULL) begins. */
void mg_exchange_meter(struct mg_exchange *ex, const struct mg_metered *next);
/** exchange_script.c: the filter that runs, or NULL. */
const struct mg_metered *mg_exchange_filter(const struct mg_exchange *ex);
/** exchange_script.c: counts an error, and a kill if it was one, of the filter that runs. */
void mg_exchange_meter_failure(struct mg_exchange *ex);
/** exchange_script.c: lets go of what filters keep of this exchange in Lua. */
void mg_exchange_drop_locals(struct mg_exchange *ex);
/** exchange_script.c: drops a filter that waits: the exchange goes another way. */
void mg_exchange_stop_waiting(struct mg_exchange *ex);
/** exchange_response.c: counts a finished exchange and runs its log filters. */
void mg_exchange_account(struct mg_exchange *ex);
/** exchange_file.c: sends the answer's head and its file: 0 when all has gone, MG_EAGAIN_LATER, or an error. */
int mg_exchange_relay_file(struct mg_exchange *ex);
/** exchange_file.c: makes a file that is to be sent the answer's body in memory; 0 or MG_ENOMEM. */
int mg_exchange_hold_file(struct mg_exchange *ex);
/** exchange_file.c: closes the file, if there is one. */
void mg_exchange_drop_file(struct mg_exchange *ex);
/** exchange_tunnel.c: the connection has switched protocols; moves bytes both ways until an end. */
enum mg_next mg_tunnel_run(struct mg_exchange *ex);
