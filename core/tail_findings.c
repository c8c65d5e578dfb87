/* tail_findings.c - what a tailer could not read, in words.
 * Owns: nothing.   May call: tail_status (mg_tail_say).   Never: stop for it.   Thread: the main thread. */
#include "tail_private.h"

enum { SAID_MAX = 100 };

void mg_tail_finding(void *context, const struct mg_finding *finding)
{
  struct mg_tail *tail = context;
  unsigned long long from = finding->from, last = finding->from + finding->count - 1, offset = finding->offset;
  const char *file = finding->file;
  if (finding->kind == MG_FOUND_SET_ASIDE || tail->findings++ > SAID_MAX) return;
  if (tail->findings > SAID_MAX) {
    mg_tail_say(tail, "more than %d places cannot be read; further ones are only counted", SAID_MAX);
    return;
  }
  switch (finding->kind) {
  case MG_FOUND_DAMAGE:
    mg_tail_say(tail, "%s: damaged at offset %llu, passed over; see moongate journal verify", file, offset);
    break;
  case MG_FOUND_MISSING:
    mg_tail_say(tail, "shard %u: entries LSN %llu to %llu are in no file", finding->shard, from, last);
    break;
  case MG_FOUND_UNREADABLE:
    if (finding->from > MG_FORMAT_VERSION)
      mg_tail_say(tail, "%s: written by a newer moongate (format %llu), passed over", file, from);
    else
      mg_tail_say(tail, "%s: not a segment of this place, passed over", file);
    break;
  case MG_FOUND_REPEATED:
    mg_tail_say(tail, "%s: of an earlier epoch than what was read before it, passed over", file);
    break;
  case MG_FOUND_DELETED:
    mg_tail_say(tail, "%s: deleted while it was read, before LSN %llu", file, from);
    break;
  default:
    mg_tail_say(tail, "shard %u: entries LSN %llu to %llu were read and then lost by the machine; others follow",
                finding->shard, from, last);
  }
}
