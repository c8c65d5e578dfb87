/* verify.c - the proof: accepted = recorded + ended at NONE + incomplete + dropped, by reason.
 * Exchange numbers count without a gap within an epoch, so one that is missing shows.
 * Owns: its counters.   May call: reader.   Never: write to the journal.   Thread: one per call. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>

enum { REASONS = 4, SHARDS_MAX = 1000 };

/* Numbers that were passed over and may still be named by a GAP. */
struct hole {
  uint64_t from, to;
};

struct tally {
  uint64_t entries, first_lsn, last_lsn, staged;
  uint64_t accepted, recorded, dropped_at_none, gaps[REASONS], bodies;
  uint64_t open; /* begun, without an end so far */
  uint64_t unexplained;
  uint64_t first_number; /* exchanges before it began in segments that are gone; 0: none are, UINT64_MAX: all so far */
  uint64_t begun_before; /* of those, ended in what is left */
  uint32_t epoch, epochs;
  uint64_t next_number; /* in this epoch; 0: none seen */
  uint64_t incomplete;
  uint64_t key_mark, key_changes;
  struct mg_buf holes; /* struct hole */
};

struct verification {
  struct tally shards[SHARDS_MAX];
  struct mg_buf *out;
  uint64_t damages, missing, repeated, unreadable, set_aside;
};

/* What an epoch leaves open it can no longer end. */
static void end_epoch(struct tally *tally)
{
  const struct hole *holes = (const struct hole *)(const void *)tally->holes.ptr;
  for (size_t i = 0; i < tally->holes.len / sizeof *holes; i++) tally->unexplained += holes[i].to - holes[i].from + 1;
  tally->holes.len = 0;
  tally->incomplete += tally->open;
  tally->open = 0;
  tally->next_number = 0;
}

static void see_number(struct tally *tally, uint64_t number, uint64_t count, bool from_one)
{
  if (tally->next_number == 0) tally->next_number = from_one ? 1 : number;
  if (number > tally->next_number) {
    const struct hole hole = {tally->next_number, number - 1};
    mg_buf_append(&tally->holes, &hole, sizeof hole);
  }
  if (number + count > tally->next_number) tally->next_number = number + count;
}

/* A GAP names what may have been passed over before. */
static void explain(struct tally *tally, uint64_t from, uint64_t count)
{
  struct hole *holes = (struct hole *)(void *)tally->holes.ptr;
  for (size_t i = 0; i < tally->holes.len / sizeof *holes; i++) {
    if (from < holes[i].from || from + count - 1 > holes[i].to) continue;
    const struct hole behind = {from + count, holes[i].to};
    holes[i].to = from - 1; /* may be empty: from - 1 < holes[i].from counts as none below */
    if (holes[i].to + 1 == holes[i].from) holes[i] = (struct hole){1, 0};
    if (behind.from <= behind.to) mg_buf_append(&tally->holes, &behind, sizeof behind);
    return;
  }
  see_number(tally, from, count, true);
}

/* Whether an exchange ends here whose beginning was deleted with its segment. */
static bool began_before(struct tally *tally, uint64_t number, uint64_t count)
{
  if (number >= tally->first_number) return false;
  tally->begun_before += count;
  return true;
}

static void take_gap(struct tally *tally, const struct mg_entry *entry)
{
  unsigned reason = entry->reason < REASONS ? entry->reason : 0;
  if (reason == MG_GAP_END_LOST && began_before(tally, entry->number, entry->count)) return;
  tally->gaps[reason] += entry->count;
  if (reason == MG_GAP_NO_SPACE) {
    tally->accepted += entry->count;
    explain(tally, entry->number, entry->count);
  } else if (reason == MG_GAP_END_LOST) {
    tally->open -= tally->open < entry->count ? tally->open : entry->count;
  }
}

static bool take_entry(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                       const struct mg_entry *entry)
{
  struct verification *verification = context;
  struct tally *tally = &verification->shards[origin->shard % SHARDS_MAX];
  (void)scope;
  if (!tally->entries) {
    tally->first_lsn = origin->lsn;
    tally->first_number = origin->lsn == 1 ? 0 : UINT64_MAX;
  }
  if (tally->epoch != origin->epoch) {
    end_epoch(tally);
    tally->epoch = origin->epoch;
    if (tally->epochs++) tally->first_number = 0;
  }
  if (origin->key_mark) {
    tally->key_changes += tally->key_mark && tally->key_mark != origin->key_mark;
    tally->key_mark = origin->key_mark;
  }
  tally->entries++;
  tally->last_lsn = origin->lsn;
  tally->staged += origin->staged;
  switch (entry->type) {
  case MG_ENTRY_START:
    if (tally->first_number == UINT64_MAX) tally->first_number = entry->number;
    see_number(tally, entry->number, 1, tally->first_lsn == 1 || tally->epochs > 1);
    tally->accepted++;
    tally->open++;
    break;
  case MG_ENTRY_END:
    if (began_before(tally, entry->number, 1)) break;
    tally->recorded++;
    tally->open -= tally->open > 0;
    break;
  case MG_ENTRY_DROP:
    if (began_before(tally, entry->number, 1)) break;
    tally->dropped_at_none++;
    tally->open -= tally->open > 0;
    break;
  case MG_ENTRY_BODY:
    tally->bodies++;
    break;
  case MG_ENTRY_GAP:
    take_gap(tally, entry);
    break;
  default:
    break;
  }
  return true;
}

static void take_finding(void *context, const struct mg_finding *finding)
{
  struct verification *verification = context;
  struct mg_buf *out = verification->out;
  const char *file = finding->file ? finding->file : "the stage";
  switch (finding->kind) {
  case MG_FOUND_DAMAGE:
    verification->damages += finding->count;
    mg_buf_printf(out, "damage: %llu places in %s cannot be read\n", (unsigned long long)finding->count, file);
    break;
  case MG_FOUND_MISSING:
    verification->missing += finding->count;
    mg_buf_printf(out, "missing: LSN %llu to %llu of shard %u, before %s\n", (unsigned long long)finding->from,
                  (unsigned long long)(finding->from + finding->count - 1), finding->shard, file);
    break;
  case MG_FOUND_REPEATED:
    verification->repeated += finding->count;
    mg_buf_printf(out, "repeated: LSN %llu and %llu more in %s\n", (unsigned long long)finding->from,
                  (unsigned long long)finding->count - 1, file);
    break;
  case MG_FOUND_UNREADABLE:
    verification->unreadable++;
    mg_buf_printf(out, "unreadable: %s%s\n", file, finding->from > MG_FORMAT_VERSION ? " is of a later version" : "");
    break;
  case MG_FOUND_SET_ASIDE:
    verification->set_aside++;
    mg_buf_printf(out, "set aside: %s\n", file);
    break;
  case MG_FOUND_DELETED: /* of readers that go on and on */
  case MG_FOUND_REWOUND:
    break;
  }
}

static uint64_t print_shard(struct mg_buf *out, unsigned number, struct tally *tally)
{
  uint64_t still_open = tally->open;
  end_epoch(tally);
  mg_buf_printf(out, "shard %u: %llu entries, LSN %llu to %llu, %u runs%s\n", number,
                (unsigned long long)tally->entries, (unsigned long long)tally->first_lsn,
                (unsigned long long)tally->last_lsn, tally->epochs, tally->staged ? "" : ", nothing in the stage");
  if (tally->staged) mg_buf_printf(out, "  %llu entries are in the stage alone\n", (unsigned long long)tally->staged);
  mg_buf_printf(out, "  %llu exchanges accepted = %llu recorded + %llu ended at NONE + %llu without an end",
                (unsigned long long)tally->accepted, (unsigned long long)tally->recorded,
                (unsigned long long)tally->dropped_at_none, (unsigned long long)tally->incomplete);
  mg_buf_printf(out, " + %llu dropped for want of space + %llu whose end was lost\n",
                (unsigned long long)tally->gaps[MG_GAP_NO_SPACE], (unsigned long long)tally->gaps[MG_GAP_END_LOST]);
  if (tally->begun_before)
    mg_buf_printf(out, "  %llu more ended that had begun in segments that are gone\n",
                  (unsigned long long)tally->begun_before);
  if (still_open)
    mg_buf_printf(out, "  of those without an end, %llu are of the last run and may be under way\n",
                  (unsigned long long)still_open);
  uint64_t known = tally->recorded + tally->dropped_at_none + tally->incomplete + tally->gaps[MG_GAP_NO_SPACE] +
                   tally->gaps[MG_GAP_END_LOST];
  if (tally->unexplained)
    mg_buf_printf(out, "  %llu exchange numbers are neither there nor in a gap\n",
                  (unsigned long long)tally->unexplained);
  if (known != tally->accepted) mg_buf_printf(out, "  these do not add up\n");
  if (tally->key_changes)
    mg_buf_printf(out, "  the fingerprint key changed (%llu): fingerprints before and behind cannot be compared\n",
                  (unsigned long long)tally->key_changes);
  mg_buf_free(&tally->holes);
  return tally->unexplained + (known != tally->accepted);
}

bool mg_verify(const struct mg_file_ops *ops, const char *folder, struct mg_buf *out, int *error)
{
  struct verification *verification = mg_calloc(1, sizeof *verification);
  const struct mg_reader_options options = {.shard = -1};
  const struct mg_reader_events events = {.context = verification, .entry = take_entry, .finding = take_finding};
  uint64_t wrong = 0;
  verification->out = out;
  *error = mg_reader_walk(ops, folder, &options, &events);
  for (unsigned i = 0; i < SHARDS_MAX; i++)
    if (verification->shards[i].entries) wrong += print_shard(out, i, &verification->shards[i]);
  wrong += verification->damages + verification->missing + verification->repeated + verification->unreadable;
  mg_buf_printf(out,
                "%s: %llu places damaged, %llu entries missing, %llu repeated, %llu files unreadable, %llu set aside\n",
                wrong ? "NOT WHOLE" : "whole", (unsigned long long)verification->damages,
                (unsigned long long)verification->missing, (unsigned long long)verification->repeated,
                (unsigned long long)verification->unreadable, (unsigned long long)verification->set_aside);
  free(verification);
  return *error == 0 && wrong == 0;
}
