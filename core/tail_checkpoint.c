/* tail_checkpoint.c - where a tailer begins, and what it may forget.
 * Owns: the checkpoint's folder while it runs.   May call: checkpoint, follow, assemble.   Never: move past an exchange
 * that was not delivered.   Thread: the main thread. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "cli.h"
#include "tail_private.h"

/* An exchange that was given out before its END is not to be given out again from its START. */
void mg_tail_restore(struct mg_tail *tail)
{
  const struct mg_given_up *given = (const struct mg_given_up *)(const void *)tail->resumed.given_up.ptr;
  for (size_t i = 0; i < tail->resumed.given_up.len / sizeof *given; i++)
    mg_assembler_restore_given_up(tail->assembler, &given[i]);
  const struct mg_shard_mark *marks;
  size_t count = mg_checkpoint_marks(&tail->resumed, &marks);
  for (size_t i = 0; i < count; i++) mg_assembler_resume(tail->assembler, marks[i].needed.shard);
}

int mg_tail_resume(struct mg_tail *tail)
{
  const struct mg_tail_options *options = &tail->options;
  struct mg_buf why = {0};
  if (!*options->checkpoint) return MG_EXIT_DONE;
  if (mkdir(options->checkpoint, 0700) != 0 && errno != EEXIST) {
    mg_tail_say(tail, "the checkpoint's folder %s cannot be made: %s", options->checkpoint, strerror(errno));
    return MG_EXIT_FAILED;
  }
  tail->lock_fd = mg_checkpoint_lock(&mg_file_system, options->checkpoint);
  if (tail->lock_fd == -EWOULDBLOCK)
    mg_tail_say(tail, "another tailer is using the checkpoint in %s", options->checkpoint);
  else if (tail->lock_fd < 0)
    mg_tail_say(tail, "cannot write in %s: %s", options->checkpoint, strerror(-tail->lock_fd));
  if (tail->lock_fd < 0) return MG_EXIT_FAILED;
  if (options->from != MG_FROM_CHECKPOINT) return MG_EXIT_DONE;
  int result = mg_checkpoint_read(&tail->resumed, &mg_file_system, options->checkpoint, &why);
  if (result != 0 && result != -ENOENT)
    mg_tail_say(tail, "%s; move it away, or begin with --from start or --from end", why.ptr);
  mg_buf_free(&why);
  return result == 0 || result == -ENOENT ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

bool mg_tail_had(const struct mg_tail *tail, const struct mg_found_exchange *exchange)
{
  const struct mg_shard_mark *marks;
  size_t count = mg_checkpoint_marks(&tail->resumed, &marks);
  for (size_t i = 0; i < count; i++) {
    if (marks[i].needed.shard != exchange->shard) continue;
    return exchange->epoch < marks[i].next_epoch ||
           (exchange->epoch == marks[i].next_epoch && exchange->last_lsn < marks[i].next_lsn);
  }
  return false;
}

static void mark_shard(struct mg_tail *tail, const struct mg_position *position, struct mg_buf *marks)
{
  struct mg_shard_mark mark = {.needed = *position, .next_epoch = position->epoch, .next_lsn = position->lsn};
  const struct mg_found_exchange *oldest = mg_assembler_oldest(tail->assembler, position->shard);
  if (oldest) {
    mark.needed.epoch = oldest->first.epoch;
    mark.needed.lsn = oldest->first.lsn;
    mark.needed.segment = oldest->first.segment;
    mark.needed.offset = oldest->first.offset;
  }
  mg_buf_append(marks, &mark, sizeof mark);
}

/* What an earlier run knew of shards that are not there now stays known. */
static void keep_absent(struct mg_tail *tail, struct mg_checkpoint *checkpoint)
{
  const struct mg_shard_mark *old, *fresh;
  size_t old_count = mg_checkpoint_marks(&tail->resumed, &old);
  for (size_t i = 0; i < old_count; i++) {
    size_t count = mg_checkpoint_marks(checkpoint, &fresh), k = 0;
    while (k < count && fresh[k].needed.shard != old[i].needed.shard) k++;
    if (k == count) mg_buf_append(&checkpoint->marks, &old[i], sizeof old[i]);
  }
}

static void add_given_up(void *context, const struct mg_given_up *given)
{
  mg_buf_append(context, given, sizeof *given);
}

bool mg_tail_checkpoint(struct mg_tail *tail)
{
  struct mg_checkpoint checkpoint = {.delivered = tail->resumed.delivered + tail->delivered};
  struct mg_position position;
  tail->checkpoint_ms = mg_tail_now_ms();
  tail->moved = false;
  if (!*tail->options.checkpoint) return true;
  for (size_t i = 0; mg_follow_position(tail->follow, i, &position); i++)
    if (position.epoch) mark_shard(tail, &position, &checkpoint.marks);
  keep_absent(tail, &checkpoint);
  mg_assembler_each_given_up(tail->assembler, add_given_up, &checkpoint.given_up);
  int result = mg_checkpoint_write(&checkpoint, &mg_file_system, tail->options.checkpoint);
  mg_checkpoint_free(&checkpoint);
  if (result == 0) return true;
  mg_tail_say(tail,
              "the checkpoint in %s cannot be written: %s; what is delivered from now on comes again after a restart",
              tail->options.checkpoint, strerror(-result));
  return false;
}
