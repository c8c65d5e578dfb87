/* journal_reap.c - nothing is deleted early but what every tailer's checkpoint proves to be delivered. */
#include "reap.h"

#include <time.h>

#include "journal_support.h"

enum { DAY_S = 86400 };

static const uint64_t NOW_US = UINT64_C(1700864000000000); /* ten days after the entries of journal_support.h */

struct reaped {
  unsigned count, troubles;
  uint64_t highest[8]; /* last LSN by reason */
  unsigned by[8];
};

static void note(void *context, const struct mg_reaped *reaped)
{
  struct reaped *all = context;
  all->count++;
  all->by[reaped->why]++;
  if (reaped->last_lsn > all->highest[reaped->why]) all->highest[reaped->why] = reaped->last_lsn;
  CHECK_INT(reaped->error, 0);
}

static void trouble(void *context, const char *sentence)
{
  ((struct reaped *)context)->troubles++;
  CHECK(strlen(sentence) > 10);
}

static void fill(const char *folder, unsigned count)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  CHECK_INT(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error), 0);
  for (unsigned i = 0; i < count; i++)
    while (!append_one(shard)) mg_shard_drain(shard);
  CHECK_INT(mg_shard_close(&shard), 0);
  mg_buf_free(&error);
}

static struct mg_preamble preamble_of(const char *folder, unsigned number, struct mg_seal *seal)
{
  char path[600];
  uint32_t version;
  struct mg_scan *scan = malloc(sizeof *scan);
  snprintf(path, sizeof path, "%s/shard-000-%010u.mgj", folder, number);
  CHECK_INT(mg_scan_open(scan, &mg_file_system, path, &version), 0);
  struct mg_preamble preamble = scan->preamble;
  *seal = scan->seal;
  mg_scan_close(scan);
  free(scan);
  return preamble;
}

static unsigned count_segments(const char *folder)
{
  char path[600];
  unsigned number = 0;
  do snprintf(path, sizeof path, "%s/shard-000-%010u.mgj", folder, ++number);
  while (access(path, F_OK) == 0);
  return number - 1;
}

/* A checkpoint that needs everything from an LSN of an epoch on. */
static void write_mark(const char *folder, const char *journal, uint32_t epoch, uint64_t lsn)
{
  struct mg_seal seal;
  unsigned newest = count_segments(journal);
  struct mg_preamble preamble = preamble_of(journal, newest, &seal);
  struct mg_shard_mark mark = {.needed = {.epoch = epoch, .lsn = lsn, .newest = newest},
                               .next_epoch = preamble.epoch,
                               .next_lsn = seal.last_lsn + 1};
  memcpy(mark.needed.uuid, preamble.uuid, sizeof mark.needed.uuid);
  struct mg_checkpoint checkpoint = {0};
  mg_buf_append(&checkpoint.marks, &mark, sizeof mark);
  CHECK_INT(mg_checkpoint_write(&checkpoint, &mg_file_system, folder), 0);
  mg_checkpoint_free(&checkpoint);
}

static struct reaped reap(const char *journal, struct mg_reap_options options)
{
  struct reaped all = {0};
  struct mg_reap_totals totals;
  const struct mg_reap_events events = {.context = &all, .reaped = note, .trouble = trouble};
  options.folder = journal;
  options.now_us = options.now_us ? options.now_us : NOW_US;
  CHECK_INT(mg_reap(&mg_file_system, &options, &events, &totals), 0);
  CHECK_INT(totals.deleted, all.count);
  return all;
}

TEST(only_what_is_proved)
{
  char journal[256], folders[2][256];
  fresh_folder(journal, "/tmp");
  fresh_folder(folders[0], "/tmp");
  fresh_folder(folders[1], "/tmp");
  fill(journal, 900);
  fill(journal, 900);
  unsigned segments = count_segments(journal);
  CHECK(segments > 6);
  const char *tailers[] = {folders[0], folders[1]};
  srand(1);
  for (int round = 0; round < 300; round++) {
    uint64_t lsns[2];
    uint32_t epochs[2];
    unsigned proved = 0;
    for (int i = 0; i < 2; i++) {
      lsns[i] = 1 + (uint64_t)rand() % 1801;
      epochs[i] = lsns[i] > 900 ? 2 : 1;
      write_mark(folders[i], journal, epochs[i], lsns[i]);
    }
    for (unsigned number = 1; number < segments; number++) { /* the newest always stays */
      struct mg_seal seal;
      struct mg_preamble preamble = preamble_of(journal, number, &seal);
      bool both = true;
      for (int i = 0; i < 2; i++)
        both = both && (preamble.epoch < epochs[i] || (preamble.epoch == epochs[i] && seal.last_lsn < lsns[i]));
      proved += both;
    }
    struct mg_reap_options options = {.tailers = tailers, .tailer_count = 2, .dry_run = true};
    struct reaped all = reap(journal, options);
    CHECK_INT(all.count, proved);
    CHECK_INT(all.by[MG_REAP_DELIVERED], proved);
    options.bytes_max = 1; /* a limit is no reason to take what was not delivered */
    CHECK_INT(reap(journal, options).count, proved);
  }
  CHECK_INT(count_segments(journal), segments);
  for (int i = 0; i < 2; i++) remove_folder(folders[i]);
  remove_folder(journal);
}

TEST(age_and_limits)
{
  char journal[256], folder[256];
  fresh_folder(journal, "/tmp");
  fresh_folder(folder, "/tmp");
  fill(journal, 1500);
  unsigned segments = count_segments(journal);
  const char *tailers[] = {folder};
  uint64_t ten_days = UINT64_C(10) * DAY_S * 1000000;
  CHECK_INT(reap(journal, (struct mg_reap_options){.ttl_us = 2 * ten_days, .dry_run = true}).count, 0);
  struct reaped all = reap(journal, (struct mg_reap_options){.ttl_us = ten_days / 2, .dry_run = true});
  CHECK_INT(all.by[MG_REAP_TTL], segments - 1);
  /* too young, though delivered */
  write_mark(folder, journal, 1, 1501);
  struct mg_reap_options options = {.tailers = tailers, .tailer_count = 1, .min_age_us = 2 * ten_days, .dry_run = true};
  CHECK_INT(reap(journal, options).count, 0);
  options.min_age_us = ten_days / 2;
  CHECK_INT(reap(journal, options).count, segments - 1);
  /* limits without a tailer delete nothing unless told */
  options = (struct mg_reap_options){.bytes_max = 3 * SUPPORT_SEGMENT, .dry_run = true};
  all = reap(journal, options);
  CHECK_INT(all.count, 0);
  CHECK_INT(all.troubles, 1);
  options.drop_unread = true;
  options.dry_run = false;
  all = reap(journal, options);
  CHECK_INT(all.by[MG_REAP_SIZE], all.count);
  CHECK(all.count > 0 && all.count < segments - 1);
  CHECK_INT(reap(journal, options).count, 0); /* the limit holds now */
  struct census census = take_census(journal);
  CHECK_INT(census.last, 1500);
  CHECK_INT(census.gaps + census.damages, 0); /* the oldest went */
  remove_folder(folder);
  remove_folder(journal);
}

TEST(a_checkpoint_that_cannot_be_trusted_blocks)
{
  char journal[256], other[256], folder[256], path[600];
  fresh_folder(journal, "/tmp");
  fresh_folder(other, "/tmp");
  fresh_folder(folder, "/tmp");
  fill(journal, 900);
  fill(other, 900);
  const char *tailers[] = {folder};
  const struct mg_reap_options options = {.tailers = tailers, .tailer_count = 1, .dry_run = true};
  struct reaped all = reap(journal, options); /* there is none yet */
  CHECK_INT(all.count, 0);
  CHECK_INT(all.troubles, 1);
  write_mark(folder, other, 1, 901);
  all = reap(journal, options); /* of another journal */
  CHECK_INT(all.count, 0);
  CHECK_INT(all.troubles, 1);
  write_mark(folder, journal, 1, 901);
  CHECK(reap(journal, options).count > 0);
  snprintf(path, sizeof path, "%s/checkpoint", folder);
  CHECK_INT(truncate(path, 40), 0);
  all = reap(journal, options); /* damaged */
  CHECK_INT(all.count, 0);
  CHECK_INT(all.troubles, 1);
  remove_folder(folder);
  remove_folder(other);
  remove_folder(journal);
}

static void make(const char *folder, const char *name)
{
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  CHECK(file);
  fclose(file);
}

TEST(what_is_not_ours_stays)
{
  static const char *const foreign[] = {"notes.txt",
                                        "shard-000-0000000001.mgj.bak",
                                        "shard-000-0000000001.mgj.damaged-1.gz",
                                        "shard-000-0000000099.open",
                                        "shard-000-1.mgj",
                                        "my-shard-000-0000000001.mgj",
                                        "shard-000.stage",
                                        "shard-000.spare",
                                        "shard-000.lock",
                                        "fingerprint.key",
                                        "x.damaged-3"};
  char journal[256], path[600];
  fresh_folder(journal, "/tmp");
  fill(journal, 600);
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) make(journal, foreign[i]);
  make(journal, "shard-000-0000000077.open.damaged-0");
  make(journal, "shard-000.stage.damaged-12");
  uint64_t later = (uint64_t)time(NULL) * 1000000 + UINT64_C(1000) * DAY_S * 1000000;
  unsigned segments = count_segments(journal);
  const struct mg_reap_options options = {.ttl_us = 1, .drop_unread = true, .bytes_max = 1, .now_us = later};
  CHECK_INT(reap(journal, options).count, segments + 2); /* an .open file is newer */
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", journal, foreign[i]);
    CHECK_INT(access(path, F_OK), 0);
  }
  remove_folder(journal);
}

TEST(a_journal_that_was_reaped_goes_on)
{
  char journal[256];
  fresh_folder(journal, "/tmp");
  for (int i = 0; i < 3; i++) {
    fill(journal, 400);
    struct reaped all = reap(journal, (struct mg_reap_options){.ttl_us = 1});
    CHECK(all.count > 0);
  }
  fill(journal, 10);
  struct census census = take_census(journal);
  CHECK_INT(census.last, 1210); /* not begun anew */
  CHECK_INT(census.wrong + census.gaps + census.repeats + census.damages, 0);
  remove_folder(journal);
}

RUN_TESTS({"only_what_is_proved", only_what_is_proved}, {"age_and_limits", age_and_limits},
          {"a_checkpoint_that_cannot_be_trusted_blocks", a_checkpoint_that_cannot_be_trusted_blocks},
          {"what_is_not_ours_stays", what_is_not_ours_stays},
          {"a_journal_that_was_reaped_goes_on", a_journal_that_was_reaped_goes_on})
