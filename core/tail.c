/* tail.c - `moongate tail`: follows a journal, puts exchanges together, hands them to outputs, remembers how far.
 * Owns: the follower, the assembler, the outputs, for the life of the process.   May call: follow, assemble,
 * checkpoint, output.   Never: write to the journal; move the checkpoint past what an output has not taken.
 * Thread: the main thread; signals only set a flag. */
#include "tail.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "tail_private.h"

enum {
  CHECKPOINT_MS_MIN = 50,
  CHECKPOINT_MS_MAX = 1000,
  CHECKPOINT_SHARE = 20,
  RETRY_FIRST_MS = 50,
  RETRY_LAST_MS = 5000,
  SAY_AGAIN_MS = 60000,
  WAIT_MS_MAX = 1000
};

static volatile sig_atomic_t stop_asked;

static void on_stop(int number)
{
  (void)number;
  stop_asked = 1;
}

static bool is_over(const struct mg_tail *tail)
{
  return stop_asked || tail->failed || mg_outputs_ended(tail->outputs);
}

/* --- handing over ------------------------------------------------------------------------------------------------- */

/* What goes on while something is tried again. */
struct retry {
  unsigned wait_ms;
  int64_t since_ms, said_ms;
};

/* After a refusal: says why, now and then, and waits. False when it is not to be tried again. */
static bool wait_for_retry(struct mg_tail *tail, struct retry *retry, const char *what, const struct mg_buf *why)
{
  int64_t now = mg_tail_now_ms();
  if (mg_outputs_ended(tail->outputs)) return false;
  tail->refusals++;
  if (!retry->since_ms) retry->since_ms = now;
  if (!tail->stalled || now - retry->said_ms >= SAY_AGAIN_MS) {
    mg_tail_say(tail, "%s: %.*s%s", what, (int)why->len, why->ptr,
                tail->options.follow ? "; tried again until it works, nothing is passed over" : "");
    retry->said_ms = now;
  }
  tail->stalled = what;
  if (!tail->options.follow) tail->failed = true; /* a run that is to end must not wait for ever */
  if (is_over(tail)) return false;
  mg_tail_status(tail, false);
  retry->wait_ms = retry->wait_ms ? retry->wait_ms * 2 : RETRY_FIRST_MS;
  if (retry->wait_ms > RETRY_LAST_MS) retry->wait_ms = RETRY_LAST_MS;
  poll(NULL, 0, (int)retry->wait_ms);
  return !is_over(tail);
}

static void end_retry(struct mg_tail *tail, const struct retry *retry)
{
  if (!tail->stalled) return;
  tail->stalled = NULL;
  if (retry->since_ms) mg_tail_say(tail, "goes on after %.1f s", (double)(mg_tail_now_ms() - retry->since_ms) / 1000);
}

/* An exchange from the assembler; false keeps it there and ends the reading. */
static bool deliver(void *context, const struct mg_found_exchange *exchange)
{
  struct mg_tail *tail = context;
  struct retry retry = {0};
  struct mg_buf why = {0};
  if (exchange->ended && mg_tail_had(tail, exchange)) return true;
  if (tail->options.from == MG_FROM_END && exchange->end_us < tail->started_us) return true;
  if (!mg_selection_takes(&tail->options.wanted, exchange)) return true;
  bool taken;
  while (!(taken = mg_outputs_write(tail->outputs, exchange, exchange->incomplete, &why)) &&
         wait_for_retry(tail, &retry, "an exchange is not taken", &why))
    why.len = 0;
  mg_buf_free(&why);
  if (!taken) return false;
  end_retry(tail, &retry);
  tail->delivered++;
  tail->incomplete += exchange->incomplete != MG_COMPLETE || !exchange->ended;
  tail->last_us = exchange->end_us;
  tail->dirty = true;
  return true;
}

static bool flush(struct mg_tail *tail, bool durable)
{
  struct retry retry = {0};
  struct mg_buf why = {0};
  bool done;
  while (!(done = mg_outputs_flush(tail->outputs, durable, &why)) &&
         wait_for_retry(tail, &retry, "what was written is not delivered", &why))
    why.len = 0;
  mg_buf_free(&why);
  if (!done) return false;
  end_retry(tail, &retry);
  tail->dirty = false;
  return true;
}

static bool flush_and_checkpoint(struct mg_tail *tail)
{
  int64_t began = mg_tail_now_ms();
  if (!flush(tail, true)) return false;
  mg_tail_checkpoint(tail);
  tail->checkpoint_cost_ms = mg_tail_now_ms() - began;
  return true;
}

/* Milliseconds until the next checkpoint. Syncing takes a twentieth of the time at most, however slow the disk. */
static int64_t until_checkpoint(const struct mg_tail *tail)
{
  int64_t pause = tail->checkpoint_cost_ms * CHECKPOINT_SHARE;
  if (pause < CHECKPOINT_MS_MIN) pause = CHECKPOINT_MS_MIN;
  if (pause > CHECKPOINT_MS_MAX) pause = CHECKPOINT_MS_MAX;
  int64_t left = tail->checkpoint_ms + pause - mg_tail_now_ms();
  return left > 0 ? left : 0;
}

static bool take_entry(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                       const struct mg_entry *entry)
{
  struct mg_tail *tail = context;
  return mg_assembler_take(tail->assembler, origin, scope, entry);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The reader of a pipe that has gone is noticed while nothing is written, too. */
static bool is_read(const struct mg_tail *tail)
{
  struct pollfd output = {.fd = STDOUT_FILENO};
  return !tail->options.to_stdout || poll(&output, 1, 0) <= 0 || !(output.revents & POLLERR);
}

/* A journal that cannot be read. False when there is no use in trying again. */
static bool wait_for_journal(struct mg_tail *tail, struct retry *retry, int error)
{
  struct mg_buf why = {0};
  bool gone = error == -ENOENT || error == -ENOTDIR || error == -ESTALE;
  mg_buf_printf(&why, "%s: %s", tail->options.folder, strerror(-error));
  if (gone) {
    mg_tail_say(tail, "the journal %s is gone%s; what was read of it is delivered", tail->options.folder,
                error == -ESTALE ? " and another has taken its place" : "");
    tail->failed = true;
  }
  bool again = !gone && wait_for_retry(tail, retry, "the journal cannot be read", &why);
  mg_buf_free(&why);
  return again;
}

/* Everything that was there has been read. False: it is time to end. */
static bool rest(struct mg_tail *tail, bool *look)
{
  bool looked = *look;
  if (tail->dirty && !flush(tail, false)) return false;
  mg_tail_status(tail, false);
  *look = true;
  if (!tail->options.follow) return !looked;
  if (tail->moved && !until_checkpoint(tail) && !flush_and_checkpoint(tail)) return false;
  if (looked && !is_read(tail)) return false;
  int64_t wait = tail->moved ? until_checkpoint(tail) : (int64_t)tail->options.poll_ms;
  if (wait > (int64_t)tail->options.poll_ms) wait = (int64_t)tail->options.poll_ms;
  if (wait > WAIT_MS_MAX) wait = WAIT_MS_MAX;
  *look = false;
  if (!mg_follow_wait(tail->follow, (unsigned)wait)) return true;
  *look = tail->woken && tail->caught_up; /* woken twice and nothing found: there is a shard that we do not know */
  tail->woken = true;
  return true;
}

static void run(struct mg_tail *tail)
{
  struct retry retry = {0};
  bool look = false;
  while (!is_over(tail)) {
    int64_t now = mg_tail_now_ms();
    if (now - tail->look_ms >= (int64_t)tail->options.poll_ms) look = true; /* also when there is always something */
    if (look) tail->look_ms = now;
    int64_t told = mg_follow_read(tail->follow, look);
    if (told == -ECANCELED) return;
    if (told < 0) {
      if (!wait_for_journal(tail, &retry, (int)told)) return;
      look = true;
      continue;
    }
    if (retry.since_ms) end_retry(tail, &retry);
    retry = (struct retry){0};
    tail->caught_up = told == 0;
    if (told > 0) tail->moved = true, tail->woken = false;
    if (!mg_assembler_expire(tail->assembler, told == 0 && look ? mg_tail_wall_us() : 0)) return;
    if (told == 0) {
      if (!rest(tail, &look)) return;
      continue;
    }
    look = false;
    if (!until_checkpoint(tail) && !flush_and_checkpoint(tail)) return;
    mg_tail_status(tail, false);
  }
}

/* --- beginning and ending ----------------------------------------------------------------------------------------- */

/* A folder without a journal is one that is named by mistake, or one in which nothing was recorded so far: that can be
 * waited for. */
static bool is_there(struct mg_tail *tail)
{
  bool found;
  if (mg_reader_finds(&mg_file_system, tail->options.folder, &found) != 0 || found) return true;
  mg_tail_say(tail, "there is no journal in %s%s", tail->options.folder, tail->options.follow ? " yet" : "");
  return tail->options.follow;
}

static int open_journal(struct mg_tail *tail, const struct mg_reader_events *events)
{
  const struct mg_tail_options *options = &tail->options;
  const struct mg_shard_mark *marks;
  size_t count = mg_checkpoint_marks(&tail->resumed, &marks);
  struct mg_position *from = mg_calloc(count + 1, sizeof *from);
  for (size_t i = 0; i < count; i++) from[i] = marks[i].needed;
  const struct mg_follow_options following = {
      .from = from, .from_count = count, .newest = options->from == MG_FROM_END, .since_us = options->wanted.since_us};
  int result = mg_follow_open(&tail->follow, &mg_file_system, options->folder, &following, events);
  free(from);
  if (result == -ESTALE)
    mg_tail_say(tail,
                "the checkpoint in %s is of another journal than %s; move it away, or begin with --from start or "
                "--from end",
                options->checkpoint, options->folder);
  else if (result != 0)
    mg_tail_say(tail, "cannot read the journal %s: %s", options->folder, strerror(-result));
  return result == 0 && is_there(tail) ? MG_EXIT_DONE : MG_EXIT_FAILED;
}

static void catch_signals(void)
{
  struct sigaction action = {.sa_handler = on_stop};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
}

/* What is to be said and kept at the end; exchanges under way are the next run's, where there is a checkpoint. */
static int finish(struct mg_tail *tail)
{
  struct mg_buf why = {0};
  bool ended = mg_outputs_ended(tail->outputs);
  if (!ended && !tail->options.follow && !*tail->options.checkpoint) mg_assembler_rest(tail->assembler);
  if (!ended && mg_outputs_flush(tail->outputs, true, &why)) mg_tail_checkpoint(tail);
  mg_tail_status(tail, true);
  if (tail->progress_shown) fputc('\n', stderr);
  tail->progress_shown = false;
  why.len = 0;
  if (!mg_outputs_close(&tail->outputs, &why) && why.len) {
    mg_tail_say(tail, "not everything is delivered: %.*s", (int)why.len, why.ptr);
    tail->failed = true;
  }
  mg_buf_free(&why);
  return tail->failed ? MG_EXIT_FAILED : MG_EXIT_DONE;
}

/* The checkpoint is taken first: outputs make whole what an earlier run left open, which nobody else may be writing. */
static int open_all(struct mg_tail *tail, const struct mg_reader_events *events)
{
  struct mg_buf why = {0};
  int code = mg_tail_resume(tail);
  if (code == MG_EXIT_DONE) code = open_journal(tail, events);
  if (code != MG_EXIT_DONE) return code;
  tail->outputs = mg_outputs_open(tail->options.outputs.ptr, NULL, MG_OUTPUTS_BIT_BY_BIT, &why);
  if (!tail->outputs) mg_tail_say(tail, "%.*s", (int)why.len, why.ptr);
  mg_buf_free(&why);
  if (!tail->outputs) return MG_EXIT_FAILED;
  tail->assembler = mg_assembler_new(mg_outputs_want_bodies(tail->outputs), deliver, tail);
  mg_assembler_bound(tail->assembler, &tail->options.bounds);
  mg_tail_restore(tail);
  return MG_EXIT_DONE;
}

int mg_tail_main(int argc, char **argv)
{
  struct mg_tail tail = {.lock_fd = -1, .started_us = mg_tail_wall_us(), .terminal = isatty(STDERR_FILENO) == 1};
  const struct mg_reader_events events = {.context = &tail, .entry = take_entry, .finding = mg_tail_finding};
  if (mg_cli_asks_for_help(argc, argv)) return mg_tail_usage(), MG_EXIT_DONE;
  int code = mg_tail_parse(&tail.options, argc, argv);
  if (code != MG_EXIT_DONE) return code;
  catch_signals();
  code = open_all(&tail, &events);
  if (code == MG_EXIT_DONE) {
    run(&tail);
    code = finish(&tail);
  }
  mg_follow_close(&tail.follow);
  mg_assembler_free(&tail.assembler);
  mg_checkpoint_free(&tail.resumed);
  mg_buf_free(&tail.options.outputs);
  if (tail.lock_fd >= 0) close(tail.lock_fd);
  return code;
}
