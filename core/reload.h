/* reload.h - how one configuration follows another: build, distribute, switch; or refuse and change nothing.
 *
 * One attempt runs at a time; requests that come meanwhile share the next one. Thread: the loop thread. */
#pragma once

#include <time.h>

#include "build.h"
#include "resolve.h"
#include "workers.h"

struct mg_reload;

struct mg_reload_facts {
  uint64_t generation;   /* that every worker runs; 0 before the first */
  time_t at;             /* of the last attempt; 0 when there was none after the start */
  bool refused;          /* the last attempt was */
  struct mg_str text;    /* its outcome in words; borrowed until the next attempt */
  time_t loaded_at;      /* of the last that was not refused; 0: never */
  time_t refused_at;     /* of the last that was; 0: never */
  struct mg_str refusal; /* why; borrowed until the next one */
  uint64_t done;         /* attempts since the start, the first included */
  uint64_t refusals;
};

/* What happens to configurations; context is given to each, bundles are lent. */
struct mg_reload_events {
  void *context;
  void (*candidate)(void *context, struct mg_str bundle); /* before any worker gets it */
  void (*in_force)(void *context, struct mg_str bundle);  /* every worker has built it and is told to switch */
  void (*settled)(void *context, bool ok);                /* after each attempt, the first one included */
};

/** Who waits for the outcome of a reload: answer is called once, at once or later. */
struct mg_reload_asker {
  void (*answer)(void *context, bool ok, struct mg_str text);
  void *context;
};

/** Borrows everything but events, which it copies. */
struct mg_reload *mg_reload_new(uv_loop_t *loop, const struct mg_options *options, const struct mg_settings *settings,
                                struct mg_resolver *resolver, struct mg_workers *workers,
                                const struct mg_reload_events *events);

/** Distributes the first bundle, which the master has built before it knew anything else; takes its bytes. */
void mg_reload_first(struct mg_reload *reload, struct mg_buf *bundle);

/** Asks for a reload; trigger ("SIGHUP") is static text for the log. asker, if any, is answered with the outcome. */
void mg_reload_request(struct mg_reload *reload, const char *trigger, const struct mg_reload_asker *asker);

/** What the workers say, to be passed on from mg_workers_events. */
void mg_reload_on_born(struct mg_reload *reload, unsigned slot);
void mg_reload_on_ready(struct mg_reload *reload, unsigned slot, uint64_t generation, struct mg_str reason);
void mg_reload_on_state(struct mg_reload *reload, unsigned slot);
void mg_reload_on_died(struct mg_reload *reload, unsigned slot);

struct mg_reload_facts mg_reload_facts(const struct mg_reload *reload);

/** No more attempts; the running one is dropped and its clients are told so. */
void mg_reload_stop(struct mg_reload *reload);
/** Stops and frees the reload once the loop has run. */
void mg_reload_close(struct mg_reload **reload);
