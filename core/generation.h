/* generation.h - one loaded configuration: its lua_State, its route table, what each route runs and where it goes.
 *
 * Built on any thread (gateway.h: mg_generation_build), then owned by the loop. Lives until the last exchange that
 * began on it has ended. */
#pragma once

#include "made_lines.h"
#include "predicates.h"
#include "record.h"
#include "routes.h"
#include "script.h"
#include "upstream.h"

struct mg_guard;

/** The functions that run one phase of a route's filters, as registry references; 0 where there are none. Two, since a
 * function that could do either would make garbage. */
struct mg_chain {
  int plain;
  int timed; /* asks C between two filters */
};

/** What a route does. */
struct mg_plan {
  struct mg_str id;       /* the route's; lives as long as the generation */
  struct mg_tally *tally; /* what this worker counts of it; NULL: not counted */
  struct mg_group group;  /* count 0: no upstream */
  struct mg_journal_plan journal;
  int fallback; /* route index, -1 for none */
  struct mg_chain request;
  struct mg_chain response;
  struct mg_chain log;
  struct mg_chain upstream; /* before each try */
  int chunk_request_ref;    /* for each piece of the body */
  int chunk_response_ref;
  bool holds_request; /* filters want the whole body */
  bool holds_answer;
  bool reads_answer; /* filters look at the answer's body in any way */
  uint16_t timed;    /* calls into its filters whose time was taken because they were the first */
  /* the same without the global filters, for a route that stands in for another */
  struct mg_chain own_request;
  struct mg_chain own_response;
  struct mg_chain own_log;
};

/** A filter in a route's chain. */
struct mg_metered {
  struct mg_meter *meter; /* NULL until the generation runs */
  char *name;             /* the filter's */
  unsigned route;
  uint32_t position; /* in the chain, from 1 */
};

/** Calls of a route's filters that their meters do not have yet: a chain counts here, where all it counts is together. */
struct mg_counts {
  struct mg_counts *next;
  unsigned first, count; /* meters */
  int32_t calls[];
};

struct mg_generation {
  uint64_t number;
  struct mg_script script;
  struct mg_routes *routes;
  struct mg_plan *plans; /* by route index */
  struct mg_buf ids;     /* of the plans, as lines */
  unsigned plan_count;
  struct mg_journal_plan unrouted;  /* what reaches no route */
  struct mg_predicates *predicates; /* the OPAQUE ones, by index */
  int opaque_ref;                   /* decides those of them that are functions; 0 for none */
  int release_ref;                  /* lets go of what filters keep of an exchange */
  int stop_ref;
  struct mg_metered *metered; /* every filter of every route */
  unsigned metered_count;
  struct mg_made_lines *made_lines; /* header lines that its filters set */
  struct mg_counts *counts;         /* by route, the last first */
  struct mg_guard *guards;          /* limiters and breakers of its filters */
  unsigned exchanges;               /* that run on it */
  struct mg_generation *next;       /* the gateway's older ones */
};

/** Builds a generation in a state that it does not own: the function at index build gets it as light userdata and
 * returns what compile.load does. For the test kit. NULL with a message in error. */
struct mg_generation *mg_generation_borrow(lua_State *L, int build, struct mg_str bundle, uint64_t number,
                                           struct mg_buf *error);

/** Adds what has been counted to the meters. */
void mg_generation_meter_calls(struct mg_generation *generation);

/** Puts its calls under watch and turns its JIT compiler on, that of the one before off: from the loop's thread. */
void mg_generation_start(struct mg_generation *generation, struct mg_watchdog *watchdog);
/** Runs the filters' stop functions. */
void mg_generation_stop(struct mg_generation *generation);
