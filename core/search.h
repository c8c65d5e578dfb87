/* search.h - the journal searched on behalf of the management port, in a child process of its own (lookup.h): whatever the files
 * are like, the master neither waits nor falls.
 *
 * One child at a time, bounded in time, memory and what it may answer; those who ask the same meanwhile share its
 * answer, others wait for their turn. Thread: the loop thread. */
#pragma once

#include <uv.h>

#include "mem.h"

enum mg_search_kind { MG_SEARCH_FIND, MG_SEARCH_SHOW };

/* NONE: there is no such exchange. WRONG: the question is. They are the child's exit codes. */
enum mg_search_result { MG_SEARCH_DONE, MG_SEARCH_FAILED, MG_SEARCH_WRONG, MG_SEARCH_NONE };

struct mg_search;

/* Called once, not from within mg_search_ask; text is borrowed for the call: JSON when DONE, else a sentence. */
struct mg_search_asker {
  void (*done)(void *context, enum mg_search_result result, struct mg_str text);
  void *context;
};

/** Searches folder (borrowed), which need not be there; bodies: show may show them. */
struct mg_search *mg_search_open(uv_loop_t *loop, const char *folder, bool bodies);

/** Asks for the exchanges that a raw query string describes (MG_SEARCH_FIND) or for one by its id (MG_SEARCH_SHOW).
 * False when too many wait already, or what is too long. */
bool mg_search_ask(struct mg_search *search, enum mg_search_kind kind, struct mg_str what,
                   const struct mg_search_asker *asker);

/** Ends the child and tells everyone who waits; frees itself once the loop has run. */
void mg_search_close(struct mg_search **search);
