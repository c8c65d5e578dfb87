/* pattern.h - Lua's pattern language with a bound on the work that one search may do.
 *
 * The stock functions can hold a thread for seconds on a subject of a few hundred bytes, and nothing can interrupt
 * them. Here every comparison is counted. Results are those of LuaJIT's functions for every valid pattern.
 * Thread: any; nothing is shared. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "mem.h"

enum { MG_PATTERN_CAPTURES_MAX = 32, MG_PATTERN_POSITION = -1, MG_PATTERN_UNFINISHED = -2 };

/** Why there is no answer. */
enum {
  MG_PATTERN_BUDGET = -1,   /* too much work */
  MG_PATTERN_COMPLEX = -2,  /* nested too deeply */
  MG_PATTERN_ESCAPE = -3,   /* ends with '%' */
  MG_PATTERN_BRACKET = -4,  /* missing ']' */
  MG_PATTERN_FRONTIER = -5, /* missing '[' after '%f' */
  MG_PATTERN_BALANCE = -6,  /* '%b' without its two characters */
  MG_PATTERN_CAPTURES = -7, /* too many captures */
  MG_PATTERN_CLOSE = -8,    /* ')' without '(' */
  MG_PATTERN_INDEX = -9     /* '%1' of a capture that is not there */
};

/** What a search found; offsets from 0. */
struct mg_pattern_found {
  int32_t start, end; /* of the whole match, end not included */
  int32_t count;
  int32_t from[MG_PATTERN_CAPTURES_MAX];
  int32_t to[MG_PATTERN_CAPTURES_MAX]; /* MG_PATTERN_POSITION for "()", MG_PATTERN_UNFINISHED for "(" alone */
};

/** True if nothing in the pattern is special: find then looks for it as it stands, as LuaJIT's does. */
bool mg_pattern_is_plain(struct mg_str pattern);

/** Searches subject from offset from on; anchored: matches only there. 1 when found, 0 when not, or why there is no
 * answer. A '^' at the pattern's beginning is an ordinary character here. Borrows all. */
int mg_pattern_search(struct mg_str subject, struct mg_str pattern, size_t from, bool anchored,
                      struct mg_pattern_found *found);
