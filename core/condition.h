/* condition.h - how well the gateway is, and what is wrong: the one judgement behind /health, /ready, metrics and the
 * dashboard.
 *
 * Thread: the loop thread. */
#pragma once

#include "mem.h"
#include "status.h"

enum mg_level { MG_LEVEL_OK, MG_LEVEL_WARN, MG_LEVEL_ERROR };

enum { MG_PROBLEMS_MAX = 64, MG_PROBLEM_SIZE = 320 };

struct mg_problem {
  enum mg_level level;
  const char *
      component; /* "configuration", "workers", "upstream", "journal", "tailer", static; or a filter's name, borrowed */
  unsigned position;   /* of a filter in its route's chain, from 1; else 0 */
  struct mg_str route; /* borrowed from the inventory; empty: it concerns all */
  char detail[MG_PROBLEM_SIZE];
};

struct mg_condition {
  enum mg_level level; /* the worst of all problems, those beyond MG_PROBLEMS_MAX included */
  unsigned count;
  unsigned left_out;
  struct mg_problem problems[MG_PROBLEMS_MAX];
};

/** "OK", "WARN" or "ERROR". */
const char *mg_level_text(enum mg_level level);

/** Judges what status says. */
void mg_condition_find(struct mg_condition *condition, const struct mg_status *status);

/** Appends "health":"WARN","problems":[...] without braces. */
void mg_condition_json(const struct mg_condition *condition, struct mg_buf *out);

/** One route's checked targets. */
struct mg_upstream_run {
  unsigned route;
  unsigned total, down;
  enum mg_level level;         /* WARN when some are down, ERROR when all are */
  struct mg_health_view worst; /* the first that is down */
};

/** Walks through the routes that have checked targets, in file order; *at is 0 at first. */
bool mg_condition_next_upstream(const struct mg_status *status, unsigned *at, struct mg_upstream_run *run);
