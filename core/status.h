/* status.h - what `moongate status` shows, as text and as JSON. Pure but for reading shared memory. Thread: any. */
#pragma once

#include <time.h>

#include "mem.h"
#include "reload.h"
#include "shm.h"
#include "workers.h"

/** A running gateway as its master knows it. All borrowed for the call. */
struct mg_status {
  const char *listening;
  const char *management; /* NULL: none */
  const char *control;
  const char *routes;
  time_t started;
  struct mg_reload_facts reload;
  const struct mg_workers *workers;
  const struct mg_shm *shm;
};

/** Appends a page for people. */
void mg_status_text(const struct mg_status *status, struct mg_buf *out);
/** Appends one JSON object and a line end. */
void mg_status_json(const struct mg_status *status, struct mg_buf *out);
