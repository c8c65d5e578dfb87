/* api_pattern.c - Lua patterns with a bound, for lua/patterns.lua.
 * Owns: nothing.   May call: pattern.   Never: call Lua (an FFI call must not come back).   Thread: any. */
#include "api_private.h"

#include "pattern.h"

_Static_assert(sizeof(struct mg_pattern_found) == MG_PATTERN_NUMBERS * sizeof(int32_t), "found, as numbers");

int mg_pattern_plain(const char *pattern, size_t len)
{
  return mg_pattern_is_plain(mg_str(pattern, len));
}

int mg_pattern_match(const char *subject, size_t len, const char *pattern, size_t pattern_len, size_t from,
                     int anchored, int32_t *found)
{
  return mg_pattern_search(mg_str(subject, len), mg_str(pattern, pattern_len), from, anchored != 0,
                           (struct mg_pattern_found *)(void *)found);
}
