/* bundle.h - what the builder emits and workers build from: one byte string with named sections.
 *
 *   "moongate-bundle 1\n"  then per section  "<name> <length>\n" <length bytes> "\n"  and at the end  "end 0\n\n"
 *
 * Sections, in this order: `settings` (key=value lines), `targets` (one "key" per line: host:port or unix:/path),
 * `states` (what filters share, see states.h),
 * `routes` (one id per line, in match order), `health` (the active checks, see health.h), `overview` (JSON for people,
 * secrets masked), `digest` (64 hexadecimal digits: the route table's), `config` (canonical configuration, JSON), then any number of
 * `source <path>` sections (the word, a blank, the path; the bytes of each Lua file that was read).
 * Pure. Thread: any. */
#pragma once

#include <stdbool.h>

#include "mem.h"

struct mg_bundle_cursor {
  const char *at;
  const char *end;
};

/** Starts reading; false when bytes is not a bundle of this version. */
bool mg_bundle_open(struct mg_bundle_cursor *cursor, struct mg_str bytes);
/** The next section; both texts are borrowed from the bundle. False at the end, and where the bundle is cut short or
 * malformed; *whole is set by every call and tells the two apart. */
bool mg_bundle_next(struct mg_bundle_cursor *cursor, struct mg_str *name, struct mg_str *bytes, bool *whole);
/** The first section of that name; empty with ptr NULL when there is none. */
struct mg_str mg_bundle_section(struct mg_str bundle, struct mg_str name);
