/* reap_command.c - deletes what a journal need not keep, once or now and then, and says each deletion.
 * Owns: nothing.   May call: reap.   Never: decide what goes.   Thread: the main thread. */
#include "reap_command.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "reap.h"

enum { TAILERS_MAX = 64 };

static const uint64_t SECOND_US = 1000000, HOUR_US = UINT64_C(3600) * 1000000;

static const char usage[] =
    "usage: moongate reap [FOLDER] [OPTIONS]\n\n"
    "  --ttl 7d             sealed segments older than this go, delivered or not\n"
    "  --tailer FOLDER      a tailer's checkpoint; with one or several, segments that all of them have delivered go\n"
    "  --min-age 1h         ... once they are this old (1h unless given)\n"
    "  --max-size 50gb      the oldest delivered segments go until all together are no larger\n"
    "  --min-free 10gb      ... or until so much is free on the file system\n"
    "  --drop-unread        these two may also delete what was not delivered\n"
    "  --dry-run            only say what would be deleted\n"
    "  --poll 1m            do it again and again\n\n"
    "FOLDER is storage.work_dir of the gateway, \"journals\" unless given. The newest segment of a shard always "
    "stays.\n";

struct command {
  struct mg_reap_options options;
  const char *tailers[TAILERS_MAX];
  uint64_t poll_us;
};

static int wrong(const char *what, const char *found)
{
  fprintf(stderr, "moongate reap: %s%s%s\n", what, found ? ": " : "", found ? found : "");
  return MG_EXIT_USAGE;
}

/* A whole number with one of the units; false when text is none. */
static bool read_amount(const char *text, const char *const units[], const uint64_t factors[], uint64_t *out)
{
  char *end;
  if (*text < '0' || *text > '9') return false;
  unsigned long long number = strtoull(text, &end, 10);
  for (size_t i = 0; units[i]; i++) {
    if (strcasecmp(end, units[i]) != 0 || number > UINT64_MAX / 2 / factors[i]) continue;
    *out = number * factors[i];
    return true;
  }
  return false;
}

static bool read_duration(const char *text, uint64_t *us)
{
  static const char *const units[] = {"ms", "s", "m", "h", "d", NULL};
  static const uint64_t factors[] = {1000, 1000000, 60000000, UINT64_C(3600000000), UINT64_C(86400000000)};
  return read_amount(text, units, factors, us);
}

static bool read_size(const char *text, uint64_t *bytes)
{
  static const char *const units[] = {"", "b", "kb", "mb", "gb", "tb", NULL};
  static const uint64_t factors[] = {1, 1, 1 << 10, 1 << 20, 1 << 30, UINT64_C(1) << 40};
  return read_amount(text, units, factors, bytes);
}

enum { TTL, MIN_AGE, POLL, MAX_SIZE, MIN_FREE, TAILER, DRY_RUN, DROP_UNREAD };

static const struct mg_cli_option known[] = {
    [TTL] = {"--ttl", false},           [MIN_AGE] = {"--min-age", false},        [POLL] = {"--poll", false},
    [MAX_SIZE] = {"--max-size", false}, [MIN_FREE] = {"--min-free", false},      [TAILER] = {"--tailer", false},
    [DRY_RUN] = {"--dry-run", true},    [DROP_UNREAD] = {"--drop-unread", true},
};

static int read_amount_of(struct command *command, int option, const char *value)
{
  struct mg_reap_options *options = &command->options;
  const struct {
    uint64_t *value;
    bool (*read)(const char *text, uint64_t *out);
    const char *accepted;
  } amounts[] = {[TTL] = {&options->ttl_us, read_duration, "a duration such as 7d or 12h"},
                 [MIN_AGE] = {&options->min_age_us, read_duration, "a duration such as 1h"},
                 [POLL] = {&command->poll_us, read_duration, "a duration such as 1m"},
                 [MAX_SIZE] = {&options->bytes_max, read_size, "a size such as 50gb"},
                 [MIN_FREE] = {&options->free_min, read_size, "a size such as 10gb"}};
  bool taken = amounts[option].read(value, amounts[option].value);
  if (taken && (*amounts[option].value || option == MIN_AGE)) return MG_EXIT_DONE;
  fprintf(stderr, "moongate reap: %s takes %s, not %s%s\n", known[option].name, amounts[option].accepted, value,
          taken ? ": more than 0 is needed" : "");
  return MG_EXIT_USAGE;
}

static int read_option(struct command *command, int option, const char *value)
{
  struct mg_reap_options *options = &command->options;
  if (option == DRY_RUN) return options->dry_run = true, MG_EXIT_DONE;
  if (option == DROP_UNREAD) return options->drop_unread = true, MG_EXIT_DONE;
  if (option != TAILER) return read_amount_of(command, option, value);
  if (options->tailer_count == TAILERS_MAX) return wrong("too many tailers, at", value);
  command->tailers[options->tailer_count++] = value;
  return MG_EXIT_DONE;
}

static int parse(struct command *command, int argc, char **argv)
{
  struct mg_reap_options *options = &command->options;
  *command = (struct command){.options = {.min_age_us = HOUR_US}};
  options->tailers = command->tailers;
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] != '-') {
      if (options->folder) return wrong("one folder at a time, not also", argv[i]);
      options->folder = argv[i];
      continue;
    }
    const char *value;
    int option = mg_cli_take("reap", known, sizeof known / sizeof known[0], argc, argv, &i, &value);
    int code = option < 0 ? MG_EXIT_USAGE : read_option(command, option, value);
    if (code != MG_EXIT_DONE) return code;
  }
  if (!options->folder) options->folder = "journals";
  if (!options->ttl_us && !options->tailer_count && !options->bytes_max && !options->free_min) {
    fputs(usage, stderr);
    return wrong("nothing says what may be deleted; give --ttl, --tailer, --max-size or --min-free", NULL);
  }
  return MG_EXIT_DONE;
}

/* --- what is said ------------------------------------------------------------------------------------------------- */

static void print_age(uint64_t us)
{
  uint64_t minutes = us / SECOND_US / 60;
  if (minutes >= 1440)
    printf("%llud%lluh", (unsigned long long)(minutes / 1440), (unsigned long long)(minutes / 60 % 24));
  else
    printf("%lluh%llum", (unsigned long long)(minutes / 60), (unsigned long long)(minutes % 60));
}

static void print_reaped(void *context, const struct mg_reaped *reaped)
{
  static const char *const why[] = {"", "older than --ttl", "delivered", "--max-size", "--min-free"};
  const struct command *command = context;
  if (reaped->error) {
    fprintf(stderr, "moongate reap: %s cannot be deleted: %s\n", reaped->name, strerror(reaped->error));
    return;
  }
  printf("%s %s, %llu bytes, age ", command->options.dry_run ? "would delete" : "deleted", reaped->name,
         (unsigned long long)reaped->bytes);
  print_age(reaped->age_us);
  if (reaped->last_lsn >= reaped->first_lsn)
    printf(", epoch %u LSN %llu to %llu", reaped->epoch, (unsigned long long)reaped->first_lsn,
           (unsigned long long)reaped->last_lsn);
  printf(": %s%s\n", why[reaped->why],
         command->options.tailer_count && reaped->unread ? ", NOT delivered by every tailer" : "");
}

static void print_trouble(void *context, const char *sentence)
{
  (void)context;
  fprintf(stderr, "moongate reap: %s\n", sentence);
}

/* Whether there is a journal; says so where not: another folder is meant, or nothing was recorded so far. */
static bool is_there(const struct command *command)
{
  bool found;
  if (mg_reader_finds(&mg_file_system, command->options.folder, &found) != 0 || found) return true;
  fprintf(stderr, "moongate reap: there is no journal in %s\n", command->options.folder);
  return false;
}

static int reap_once(struct command *command)
{
  const struct mg_reap_events events = {.context = command, .reaped = print_reaped, .trouble = print_trouble};
  struct mg_reap_totals totals;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  command->options.now_us = (uint64_t)now.tv_sec * SECOND_US + (uint64_t)now.tv_nsec / 1000;
  int result = mg_reap(&mg_file_system, &command->options, &events, &totals);
  fflush(stdout);
  if (result == 0 && !is_there(command)) return MG_EXIT_FAILED;
  if (result == 0) return totals.failed ? MG_EXIT_FAILED : MG_EXIT_DONE;
  fprintf(stderr, "moongate reap: cannot read the journal %s: %s\n", command->options.folder, strerror(-result));
  return MG_EXIT_FAILED;
}

int mg_reap_main(int argc, char **argv)
{
  struct command command;
  sigset_t ends;
  if (mg_cli_asks_for_help(argc, argv)) return fputs(usage, stdout), MG_EXIT_DONE;
  int code = parse(&command, argc, argv);
  if (code != MG_EXIT_DONE) return code;
  code = reap_once(&command);
  if (!command.poll_us) return code;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  const struct timespec pause = {(time_t)(command.poll_us / SECOND_US), (long)(command.poll_us % SECOND_US * 1000)};
  while (sigtimedwait(&ends, NULL, &pause) < 0) reap_once(&command); /* what fails now may work next time */
  return MG_EXIT_DONE;
}
