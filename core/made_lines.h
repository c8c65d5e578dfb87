/* made_lines.h - header lines that filters set again and again: checked and laid out once.
 *
 * A filter's constants come from Lua with the same addresses each time, which say where to look; the bytes decide. A line
 * is kept when it is seen a second time, so that values of one request only do not fill the memory, and stays as long
 * as the memory does: it may be borrowed. Bounded; when it is full, what is new is not kept.
 * Thread: one per memory. */
#pragma once

#include "headers.h"

struct mg_made_lines;

struct mg_made_lines *mg_made_lines_new(void);
void mg_made_lines_free(struct mg_made_lines **lines);

/** The line `name: value` as mg_header_make lays it out, with its id; NULL when it is not kept (yet). */
const struct mg_header *mg_made_lines_find(struct mg_made_lines *lines, struct mg_str name, struct mg_str value);

/** Told of a line that was not found, is well formed and may be set by filters; id is its name's. */
void mg_made_lines_note(struct mg_made_lines *lines, struct mg_str name, struct mg_str value, enum mg_header_id id);
