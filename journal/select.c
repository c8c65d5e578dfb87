/* select.c - what is asked for, read from words, and compared.
 * Owns: nothing.   May call: assemble (its struct).   Never: a file.   Thread: any. */
#include "select.h"

#include <time.h>

/* --- what is asked for -------------------------------------------------------------------------------------------- */

bool mg_selection_status(struct mg_selection *selection, struct mg_str text)
{
  if (text.len != 3 || text.ptr[0] < '1' || text.ptr[0] > '5') return false;
  unsigned class = (unsigned)(text.ptr[0] - '0') * 100;
  if ((text.ptr[1] | 0x20) == 'x' && (text.ptr[2] | 0x20) == 'x') {
    selection->status_first = class;
    selection->status_last = class + 99;
    return true;
  }
  unsigned tens = (unsigned)(text.ptr[1] - '0'), ones = (unsigned)(text.ptr[2] - '0');
  if (tens > 9 || ones > 9) return false;
  selection->status_first = selection->status_last = class + tens * 10 + ones;
  return true;
}

static bool read_span(struct mg_str text, uint64_t *seconds)
{
  static const struct {
    char unit;
    uint64_t seconds;
  } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  uint64_t number = 0;
  if (text.len < 2 || text.len > 10) return false;
  for (size_t i = 0; i + 1 < text.len; i++) {
    if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
    number = number * 10 + (unsigned)(text.ptr[i] - '0');
  }
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (text.ptr[text.len - 1] != units[i].unit) continue;
    *seconds = number * units[i].seconds;
    return true;
  }
  return false;
}

bool mg_selection_since(struct mg_selection *selection, struct mg_str text, uint64_t now_us)
{
  char moment[32];
  struct tm utc = {0};
  uint64_t seconds;
  if (read_span(text, &seconds)) {
    selection->since_us = now_us / 1000000 > seconds ? now_us - seconds * 1000000 : 0;
    return true;
  }
  if (text.len >= sizeof moment) return false;
  memcpy(moment, text.ptr, text.len);
  moment[text.len] = '\0';
  const char *rest = strptime(moment, "%Y-%m-%dT%H:%M:%S", &utc);
  if (!rest || (*rest && strcmp(rest, "Z") != 0)) return false;
  time_t at = timegm(&utc);
  selection->since_us = at > 0 ? (uint64_t)at * 1000000 : 0;
  return true;
}

/* --- whether it is that ------------------------------------------------------------------------------------------- */

/* Whether the target of "METHOD target HTTP/1.1" begins with prefix. */
static bool target_begins(struct mg_str line, struct mg_str prefix)
{
  const char *blank = line.len ? memchr(line.ptr, ' ', line.len) : NULL;
  if (!blank) return false;
  size_t left = (size_t)(line.ptr + line.len - blank - 1);
  return left >= prefix.len && memcmp(blank + 1, prefix.ptr, prefix.len) == 0;
}

bool mg_selection_takes(const struct mg_selection *selection, const struct mg_found_exchange *exchange)
{
  if (selection->id.len && !mg_str_equal(selection->id, mg_str(exchange->id, MG_EXCHANGE_ID_LEN))) return false;
  if (selection->status_first &&
      (!exchange->ended || exchange->status < selection->status_first || exchange->status > selection->status_last))
    return false;
  if (exchange->start_us < selection->since_us) return false;
  if (selection->path.len && !target_begins(exchange->line, selection->path)) return false;
  return !selection->route.len || mg_str_equal(exchange->route, selection->route);
}

bool mg_exchange_id_read(struct mg_exchange_id *id, struct mg_str text)
{
  static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  unsigned __int128 value = 0;
  if (text.len != MG_EXCHANGE_ID_LEN || text.ptr[0] > '7') return false; /* 130 bits would not be 128 */
  for (size_t i = 0; i < text.len; i++) {
    const char *digit = memchr(digits, text.ptr[i], sizeof digits - 1);
    if (!digit) return false;
    value = value << 5 | (unsigned)(digit - digits);
  }
  uint64_t high = (uint64_t)(value >> 64);
  *id = (struct mg_exchange_id){.start_ms = high >> 16, .shard = (unsigned)(high & 0xffff), .low = (uint64_t)value};
  return true;
}
