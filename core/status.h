/* status.h - what `moongate status` and /status.json show. Pure but for reading shared memory. Thread: the loop
 * thread. */
#pragma once

#include <time.h>

#include "health.h"
#include "inventory.h"
#include "mem.h"
#include "reload.h"
#include "shm.h"
#include "workers.h"

/* STARTING until every worker has the first generation; STOPPING from the moment a stop was asked for. */
enum mg_state { MG_STATE_STARTING, MG_STATE_SERVING, MG_STATE_STOPPING };

/** A running gateway as its master knows it. All borrowed for the call. */
struct mg_status {
  const char *listening;
  const char *management; /* NULL: none */
  const char *control;
  const char *routes;
  const char *server;  /* the file of settings; NULL: none */
  const char *upgrade; /* what became of one, with its time; NULL: there was none */
  time_t started;
  enum mg_state state;
  struct mg_reload_facts reload;
  const struct mg_workers *workers;
  const struct mg_shm *shm;
  const struct mg_health *health;
  const struct mg_inventory *inventory;
  const struct mg_settings *settings;
};

/** Appends a page for people. */
void mg_status_text(const struct mg_status *status, struct mg_buf *out);
/** Appends one JSON object and a line end. */
void mg_status_json(const struct mg_status *status, struct mg_buf *out);

/** status_filters.c: appends a line per filter and route; `"filters":[...]`. */
void mg_status_filters_text(const struct mg_status *status, struct mg_buf *out);
void mg_status_filters_json(const struct mg_status *status, struct mg_buf *out);

/** status_system.c: appends `"processes":[...],"server":...,"settings":[...]` without braces. */
void mg_status_system_json(const struct mg_status *status, struct mg_buf *out);

/** status_routes.c: appends `"journal":{...},"per_route":[...],"targets":[...],
 * "health_checks":[...],"configuration":{...}` without braces. */
void mg_status_routes_json(const struct mg_status *status, struct mg_buf *out);
