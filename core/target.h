/* target.h - what a request target means: path, query, host; refused where two readers could disagree.
 * Pure. Thread: any. */
#pragma once

#include "err.h"
#include "mem.h"

struct mg_target_parts {
  struct mg_str raw_path; /* as sent, "/" at least; borrowed from the target. "*" for OPTIONS * */
  struct mg_str
      path; /* percent-decoded once, %2F kept as sent; raw_path where nothing was decoded, else in the arena */
  struct mg_str query; /* raw, without '?'; empty if none */
  bool has_query;
};

/** Splits an origin-form target and decodes its path. Refuses a path that two servers could read differently: dot
 * segments, also before ';' and next to a %2F; backslash; control characters; %2e, %2f, %25 and %5c that are still
 * escapes after decoding; overlong UTF-8; and any %2F when refuse_encoded_slash. A malformed escape is kept as it is.
 * 0, MG_EBADPATH or MG_ENOMEM. */
int mg_target_split(struct mg_target_parts *parts, struct mg_str target, struct mg_arena *arena,
                    bool refuse_encoded_slash);

/** Percent-encodes a decoded path for a request line: everything but unreserved, sub-delims, ':', '@' and '/'
 * (RFC 3986, 3.3), keeping a literal "%2F" as it is. The result lives in the arena; ptr is NULL when it is full. */
struct mg_str mg_path_encode(struct mg_str path, struct mg_arena *arena);

/** True if authority is host [":" port] as RFC 9110, 7.2 and RFC 3986, 3.2.2 allow, with neither escapes nor ',' in the
 * host, and IPv6 the only literal; fills host without port (brackets kept) and port as text, which may be empty. */
bool mg_authority_split(struct mg_str authority, struct mg_str *host, struct mg_str *port);
