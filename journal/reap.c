/* reap.c - deleting what the journal need not keep.
 * Owns: nothing between calls; the only file that deletes segments.   May call: scan, segment (names), checkpoint.
 * Never: touch an open segment, a stage, a lock, or a file that moongate did not make.   Thread: one. */
#include "reap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "segment.h"

enum { SHARDS_MAX = 1000 };

struct candidate {
  char name[96];
  bool aside;    /* set aside by recovery */
  bool readable; /* a segment with its seal record */
  bool unread;
  enum mg_reap_why why;
  uint64_t bytes; /* that deleting it gives back */
  uint64_t time_us;
  unsigned shard;
  uint64_t number;
  uint32_t epoch;
  uint64_t first_lsn, last_lsn;
};

struct state {
  const struct mg_file_ops *ops;
  const struct mg_reap_options *options;
  const struct mg_reap_events *events;
  struct mg_buf candidates;
  uint64_t newest[SHARDS_MAX]; /* number of each shard's newest segment, sealed or not; 0: none */
  struct mg_checkpoint *checkpoints;
  bool blocked; /* a checkpoint cannot be read: nothing counts as delivered */
};

static void trouble(struct state *state, const char *sentence)
{
  if (state->events->trouble) state->events->trouble(state->events->context, sentence);
}

/* Whether "shard-SSS-NNNNNNNNNN" is followed by .mgj and nothing else, or by what recovery calls a file it sets aside. */
static bool is_ours(const char *name, bool *aside)
{
  unsigned shard, count;
  uint64_t number;
  bool sealed;
  char stem[96];
  int end = 0;
  const char *mark = strstr(name, ".damaged-");
  *aside = mark != NULL;
  if (!mark)
    return strlen(name) == sizeof "shard-000-0000000000.mgj" - 1 && mg_segment_name(name, &shard, &number, &sealed) &&
           sealed;
  if (strlen(name) >= sizeof stem || sscanf(mark, ".damaged-%u%n", &count, &end) != 1 || mark[end]) return false;
  snprintf(stem, sizeof stem, "%.*s", (int)(mark - name), name);
  return mg_segment_name(stem, &shard, &number, &sealed) ||
         (sscanf(stem, "shard-%3u.stage%n", &shard, &end) == 1 && !stem[end]);
}

/* Its last entry's time; of what cannot be read the file's. */
static void learn_segment(struct state *state, struct candidate *one, const char *path)
{
  struct mg_scan *scan = mg_alloc(sizeof *scan);
  uint32_t version;
  if (mg_scan_open(scan, state->ops, path, &version) == 0) {
    one->readable = scan->sealed && scan->preamble.shard == one->shard && scan->preamble.number == one->number;
    if (one->readable) {
      one->epoch = scan->preamble.epoch;
      one->first_lsn = scan->seal.first_lsn;
      one->last_lsn = scan->seal.last_lsn;
      one->time_us = scan->seal.t_max_us ? scan->seal.t_max_us : scan->preamble.created_us;
    }
    mg_scan_close(scan);
  }
  free(scan);
}

static void note_file(void *context, const char *name)
{
  struct state *state = context;
  struct candidate one = {.first_lsn = 1};
  struct stat status;
  char path[4300];
  bool sealed;
  if (mg_segment_name(name, &one.shard, &one.number, &sealed) && one.shard < SHARDS_MAX &&
      one.number > state->newest[one.shard])
    state->newest[one.shard] = one.number;
  if (!is_ours(name, &one.aside)) return;
  snprintf(path, sizeof path, "%s/%s", state->options->folder, name);
  if (lstat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
  snprintf(one.name, sizeof one.name, "%s", name);
  one.bytes = (uint64_t)status.st_blocks * 512;
  one.time_us = (uint64_t)status.st_mtim.tv_sec * 1000000 + (uint64_t)status.st_mtim.tv_nsec / 1000;
  if (!one.aside) {
    learn_segment(state, &one, path);
  }
  mg_buf_append(&state->candidates, &one, sizeof one);
}

/* --- what tailers have -------------------------------------------------------------------------------------------- */

/* The segment that the tailer read last, if it is still here, must be the one it read. */
static bool is_of_this_journal(const struct state *state, const struct mg_position *mark)
{
  struct mg_scan *scan = mg_alloc(sizeof *scan);
  bool same = true;
  char path[4096];
  uint32_t version;
  for (int i = 0; i < 2; i++) {
    if (!mg_segment_path(path, state->options->folder, mark->shard, mark->newest, i ? ".open" : ".mgj")) continue;
    if (mg_scan_open(scan, state->ops, path, &version) != 0) continue;
    same = memcmp(scan->preamble.uuid, mark->uuid, sizeof mark->uuid) == 0;
    mg_scan_close(scan);
  }
  free(scan);
  return same;
}

static bool are_of_this_journal(const struct state *state, const struct mg_checkpoint *checkpoint)
{
  const struct mg_shard_mark *marks;
  size_t count = mg_checkpoint_marks(checkpoint, &marks);
  for (size_t i = 0; i < count; i++)
    if (!is_of_this_journal(state, &marks[i].needed)) return false;
  return true;
}

static void read_checkpoints(struct state *state)
{
  struct mg_buf why = {0};
  size_t count = state->options->tailer_count;
  state->checkpoints = mg_calloc(count + 1, sizeof *state->checkpoints);
  for (size_t i = 0; i < count; i++) {
    why.len = 0;
    if (mg_checkpoint_read(&state->checkpoints[i], state->ops, state->options->tailers[i], &why) == 0) {
      if (are_of_this_journal(state, &state->checkpoints[i])) continue;
      mg_buf_printf(&why, "the checkpoint in %s is of another journal", state->options->tailers[i]);
    }
    state->blocked = true;
    mg_buf_printf(&why, "; until it can be read nothing counts as delivered");
    trouble(state, why.ptr);
  }
  mg_buf_free(&why);
}

static bool has_delivered(const struct mg_checkpoint *checkpoint, const struct candidate *one)
{
  const struct mg_shard_mark *marks;
  size_t count = mg_checkpoint_marks(checkpoint, &marks);
  for (size_t i = 0; i < count; i++) {
    const struct mg_position *needed = &marks[i].needed;
    if (needed->shard != one->shard) continue;
    if (one->number > needed->newest) return false; /* not of this tailer's journal, or not read yet */
    return one->epoch < needed->epoch || (one->epoch == needed->epoch && one->last_lsn < needed->lsn);
  }
  return false;
}

static bool is_delivered(const struct state *state, const struct candidate *one)
{
  if (!one->readable || state->blocked || !state->options->tailer_count) return false;
  for (size_t i = 0; i < state->options->tailer_count; i++)
    if (!has_delivered(&state->checkpoints[i], one)) return false;
  return true;
}

/* --- the rules ---------------------------------------------------------------------------------------------------- */

static uint64_t age_of(const struct state *state, const struct candidate *one)
{
  return state->options->now_us > one->time_us ? state->options->now_us - one->time_us : 0;
}

static int oldest_first(const void *a, const void *b)
{
  const struct candidate *x = a, *y = b;
  if (x->time_us != y->time_us) return x->time_us < y->time_us ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* The newest segment of a shard tells the next process where LSNs and numbers go on: it stays, whatever its age. */
static bool is_newest(const struct state *state, const struct candidate *one)
{
  return !one->aside && (one->shard >= SHARDS_MAX || one->number >= state->newest[one->shard]);
}

static void judge(const struct state *state, struct candidate *one)
{
  const struct mg_reap_options *options = state->options;
  uint64_t age = age_of(state, one);
  one->unread = !is_delivered(state, one);
  if (is_newest(state, one)) return;
  if (options->ttl_us && age > options->ttl_us)
    one->why = MG_REAP_TTL;
  else if (!one->aside && !one->unread && age >= options->min_age_us)
    one->why = MG_REAP_DELIVERED;
}

/* Whether a limit may take it, which age and delivery did not. */
static bool may_go_early(const struct state *state, const struct candidate *one)
{
  if (one->aside || one->why != MG_REAP_KEPT || is_newest(state, one)) return false;
  return state->options->drop_unread || (!one->unread && age_of(state, one) >= state->options->min_age_us);
}

/* The oldest of what may go early, until the limits hold. */
static void judge_limits(struct state *state, struct candidate *all, size_t count)
{
  const struct mg_reap_options *options = state->options;
  struct statvfs disk;
  uint64_t total = 0, going = 0;
  uint64_t free_bytes = statvfs(options->folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
  for (size_t i = 0; i < count; i++) *(all[i].why == MG_REAP_KEPT ? &total : &going) += all[i].bytes;
  bool stuck = false;
  for (size_t i = 0; i < count; i++) {
    bool large = options->bytes_max && total > options->bytes_max;
    bool tight = options->free_min && free_bytes != UINT64_MAX && free_bytes + going < options->free_min;
    if (!large && !tight) return;
    if (!may_go_early(state, &all[i])) {
      stuck = stuck || all[i].why == MG_REAP_KEPT;
      continue;
    }
    all[i].why = large ? MG_REAP_SIZE : MG_REAP_FREE;
    total -= all[i].bytes;
    going += all[i].bytes;
  }
  if (!stuck) return;
  if (options->bytes_max && total > options->bytes_max)
    trouble(state, "the segments are larger than --max-size, and what is left was not delivered or is too young");
  if (options->free_min && free_bytes != UINT64_MAX && free_bytes + going < options->free_min)
    trouble(state, "less is free than --min-free, and what is left was not delivered or is too young");
}

static void reap_one(struct state *state, const struct candidate *one, struct mg_reap_totals *totals)
{
  char path[4300];
  struct mg_reaped reaped = {.name = one->name,
                             .why = one->why,
                             .bytes = one->bytes,
                             .age_us = age_of(state, one),
                             .shard = one->shard,
                             .epoch = one->epoch,
                             .first_lsn = one->first_lsn,
                             .last_lsn = one->last_lsn,
                             .unread = one->unread};
  snprintf(path, sizeof path, "%s/%s", state->options->folder, one->name);
  if (!state->options->dry_run && unlink(path) != 0 && errno != ENOENT) reaped.error = errno;
  if (reaped.error) {
    totals->failed++;
    totals->left_bytes += one->bytes;
  } else {
    totals->deleted++;
    totals->bytes += one->bytes;
  }
  state->events->reaped(state->events->context, &reaped);
}

int mg_reap(const struct mg_file_ops *ops, const struct mg_reap_options *options, const struct mg_reap_events *events,
            struct mg_reap_totals *totals)
{
  struct state state = {.ops = ops, .options = options, .events = events};
  *totals = (struct mg_reap_totals){0};
  int result = ops->list(options->folder, note_file, &state);
  if (result == 0) read_checkpoints(&state);
  struct candidate *all = (struct candidate *)(void *)state.candidates.ptr;
  size_t count = state.candidates.len / sizeof *all;
  if (count) qsort(all, count, sizeof *all, oldest_first);
  for (size_t i = 0; i < count && result == 0; i++) judge(&state, &all[i]);
  if (result == 0) judge_limits(&state, all, count);
  for (size_t i = 0; i < count && result == 0; i++) {
    if (all[i].why == MG_REAP_KEPT)
      totals->left_bytes += all[i].bytes;
    else
      reap_one(&state, &all[i], totals);
  }
  for (size_t i = 0; state.checkpoints && i < options->tailer_count; i++) mg_checkpoint_free(&state.checkpoints[i]);
  free(state.checkpoints);
  mg_buf_free(&state.candidates);
  return result;
}
