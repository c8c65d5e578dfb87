/* tailers.h - how far those are who read the journal: what each `moongate tail` leaves in a file once a second.
 *
 * management.tailers names the files, or the folders with status.json in them (a checkpoint's). Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MG_TAILER_TEXT_SIZE = 160, MG_TAILER_SILENT_S = 15 };

struct mg_tailer_facts {
  bool known;                        /* its file is there and says something */
  double age_s;                      /* since it was written */
  uint64_t lag_entries;              /* that it has not read */
  double lag_seconds;                /* from the newest exchange that it has given on to now; 0: nothing waits */
  uint64_t delivered;                /* exchanges, of all its runs */
  char trouble[MG_TAILER_TEXT_SIZE]; /* in words; empty: none */
};

/** Reads what the tailer at path has written. */
void mg_tailer_read(const char *path, struct mg_tailer_facts *facts);
