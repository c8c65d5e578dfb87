/* journal_follow.c - a journal followed while it is written, rotated, killed, damaged and deleted.
 * Every entry's bytes follow from its LSN (journal_support.h), so one oracle does: each once, in order, whole; what is
 * missing is told, exactly. */
#include "follow.h"

#include "journal_support.h"

struct seen {
  uint64_t next;    /* LSN that is expected */
  uint64_t entries; /* in all */
  uint64_t staged;
  uint64_t missing;         /* LSNs told as missing */
  unsigned damages, others; /* findings */
  uint64_t refuse_at;       /* LSN at which the reader says no; 0: never */
  struct mg_origin_of last;
};

static bool see(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                const struct mg_entry *entry)
{
  (void)scope;
  struct seen *seen = context;
  uint8_t content[SUPPORT_PAYLOAD + 32];
  if (origin->lsn == seen->refuse_at) return false;
  size_t len = content_of(origin->lsn, content);
  CHECK_INT(origin->lsn, seen->next);
  CHECK_INT(entry->number, origin->lsn);
  CHECK_INT(entry->content.len, len);
  CHECK(memcmp(entry->content.ptr, content, len) == 0);
  seen->next++;
  seen->entries++;
  seen->staged += origin->staged;
  seen->last = *origin;
  return true;
}

static void find(void *context, const struct mg_finding *finding)
{
  struct seen *seen = context;
  if (finding->kind == MG_FOUND_MISSING) {
    CHECK_INT(finding->from, seen->next);
    seen->missing += finding->count;
    seen->next += finding->count;
  } else if (finding->kind == MG_FOUND_DAMAGE) {
    CHECK(finding->file);
    seen->damages++;
  } else {
    seen->others++;
  }
}

static struct mg_follow *follow(const char *folder, struct seen *seen, struct mg_reader_events *events,
                                const struct mg_position *from)
{
  struct mg_follow *follower;
  *events = (struct mg_reader_events){.context = seen, .entry = see, .finding = find};
  const struct mg_follow_options options = {.from = from, .from_count = from != NULL};
  CHECK_INT(mg_follow_open(&follower, &mg_file_system, folder, &options, events), 0);
  return follower;
}

static void read_all(struct mg_follow *follower)
{
  int64_t told = 0;
  for (int quiet = 0; quiet < 3; quiet = told ? 0 : quiet + 1) {
    told = mg_follow_read(follower, true);
    CHECK(told >= 0);
  }
}

static struct mg_shard *open_shard(const char *folder)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  CHECK_INT(mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error), 0);
  mg_buf_free(&error);
  return shard;
}

static void append(struct mg_shard *shard, unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    while (!append_one(shard)) mg_shard_drain(shard);
}

static void fill(const char *folder, unsigned count)
{
  struct mg_shard *shard = open_shard(folder);
  append(shard, count);
  CHECK_INT(mg_shard_close(&shard), 0);
}

TEST(each_entry_once_while_it_is_written_and_rotated)
{
  char folder[256];
  struct seen seen = {.next = 1};
  struct mg_reader_events events;
  fresh_folder(folder, "/tmp");
  struct mg_shard *shard = open_shard(folder);
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  for (unsigned i = 0; i < 3000; i++) {
    append(shard, 1);
    if (i % 7 == 0) CHECK(mg_follow_read(follower, i % 3 == 0) >= 0);
    if (i % 501 == 0) mg_shard_flush(shard);
  }
  read_all(follower);
  CHECK_INT(seen.entries, 3000); /* also what is in the stage only */
  CHECK(seen.staged > 0);
  CHECK_INT(mg_shard_close(&shard), 0);
  fill(folder, 500); /* another process, another epoch */
  read_all(follower);
  CHECK_INT(seen.entries, 3500);
  CHECK_INT(seen.missing + seen.damages + seen.others, 0);
  mg_follow_close(&follower);
  remove_folder(folder);
}

TEST(goes_on_from_any_entry_whatever_the_hint)
{
  char folder[256];
  struct mg_reader_events events;
  struct mg_position at;
  fresh_folder(folder, "/tmp");
  fill(folder, 900);
  fill(folder, 900);
  for (uint64_t lsn = 1; lsn <= 1801; lsn += 97) {
    struct seen first = {.next = 1, .refuse_at = lsn}, second = {.next = lsn};
    struct mg_follow *follower = follow(folder, &first, &events, NULL);
    while (mg_follow_read(follower, true) > 0) continue;
    CHECK(mg_follow_position(follower, 0, &at));
    CHECK_INT(at.lsn, lsn);
    mg_follow_close(&follower);
    for (int hint = 0; hint < 4; hint++) {
      struct mg_position from = at;
      if (hint == 1) from.segment = from.offset = 0;
      if (hint == 2) from.offset += 8;
      if (hint == 3) from.offset = 32768 + MG_DATA_START;
      second = (struct seen){.next = lsn};
      follower = follow(folder, &second, &events, &from);
      read_all(follower);
      CHECK_INT(second.entries, 1801 - lsn);
      CHECK_INT(second.missing + second.damages + second.others, 0);
      mg_follow_close(&follower);
    }
  }
  remove_folder(folder);
}

TEST(a_refused_entry_is_told_again)
{
  char folder[256];
  struct seen seen = {.next = 1, .refuse_at = 400};
  struct mg_reader_events events;
  fresh_folder(folder, "/tmp");
  fill(folder, 800);
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  int64_t told;
  while ((told = mg_follow_read(follower, false)) > 0) continue;
  CHECK_INT(told, -ECANCELED);
  CHECK_INT(seen.entries, 399);
  mg_follow_close(&follower);
  remove_folder(folder);
}

/* Writes until it is killed; the number of the last acknowledged entry is told through the page. */
static pid_t start_writer(const char *folder, struct told *told)
{
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid > 0) return pid;
  struct mg_shard *shard = open_shard(folder);
  for (;;) {
    while (!append_one(shard)) mg_shard_drain(shard);
    told->acknowledged = mg_shard_stage(shard)->next_lsn - 1;
    if (told->acknowledged % 64 == 0) usleep(200);
  }
}

TEST(writers_are_killed_under_it)
{
  char folder[256];
  struct seen seen = {.next = 1};
  struct mg_reader_events events;
  struct told *told = shared_page();
  struct mg_follow *follower = NULL;
  fresh_folder(folder, "/dev/shm");
  for (unsigned round = 0; round < 40; round++) {
    uint64_t before = told->acknowledged;
    pid_t pid = start_writer(folder, told);
    while (told->acknowledged == before) usleep(100);
    if (!follower) follower = follow(folder, &seen, &events, NULL);
    for (unsigned i = 0; i < round * 5; i++) {
      CHECK(mg_follow_read(follower, i % 4 == 0) >= 0);
      mg_follow_wait(follower, 1);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    read_all(follower); /* the stage of a dead process */
    CHECK(seen.next > told->acknowledged);
  }
  recover_folder(folder);
  read_all(follower);
  CHECK_INT(seen.missing + seen.damages + seen.others, 0);
  mg_follow_close(&follower);
  remove_folder(folder);
}

static void write_at(const char *folder, const char *name, long offset, const void *bytes, size_t len)
{
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int fd = open(path, O_WRONLY);
  CHECK(fd >= 0 && pwrite(fd, bytes, len, offset) == (ssize_t)len);
  close(fd);
}

TEST(damage_is_told_once_and_passed)
{
  char folder[256];
  struct seen seen = {.next = 1};
  struct mg_reader_events events;
  fresh_folder(folder, "/tmp");
  fill(folder, 1500);
  uint64_t all = take_census(folder).entries;
  write_at(folder, "shard-000-0000000002.mgj", 40000, "rot", 3);
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  read_all(follower);
  CHECK_INT(seen.entries + seen.missing, all);
  CHECK(seen.missing > 0 && seen.missing < 200);
  CHECK_INT(seen.damages, 1);
  CHECK_INT(seen.others, 0);
  mg_follow_close(&follower);
  remove_folder(folder);
}

TEST(damage_in_the_open_segment_does_not_hold_it_up)
{
  char folder[256];
  uint8_t zeros[4096] = {0};
  struct seen seen = {.next = 1};
  struct mg_reader_events events;
  fresh_folder(folder, "/tmp");
  struct mg_shard *shard = open_shard(folder);
  append(shard, 180);
  mg_shard_flush(shard);
  write_at(folder, "shard-000-0000000001.open", MG_DATA_START, zeros, sizeof zeros); /* the first batch's beginning */
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  read_all(follower);
  CHECK(seen.damages > 0);
  CHECK(seen.missing > 0);
  CHECK_INT(seen.next, 181);
  mg_follow_close(&follower);
  mg_shard_close(&shard);
  remove_folder(folder);
}

TEST(deleted_segments_are_a_gap_of_known_size)
{
  char folder[256], path[600];
  struct seen seen = {.next = 1, .refuse_at = 10};
  struct mg_reader_events events;
  struct mg_position at;
  fresh_folder(folder, "/tmp");
  fill(folder, 1500);
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  while (mg_follow_read(follower, false) > 0) continue;
  CHECK(mg_follow_position(follower, 0, &at));
  mg_follow_close(&follower);
  for (int i = 1; i <= 2; i++) {
    snprintf(path, sizeof path, "%s/shard-000-000000000%d.mgj", folder, i);
    CHECK_INT(unlink(path), 0);
  }
  struct census left = take_census(folder);
  struct seen rest = {.next = 10};
  follower = follow(folder, &rest, &events, &at);
  read_all(follower);
  CHECK_INT(rest.missing, left.first - 10);
  CHECK_INT(rest.entries, left.entries);
  mg_follow_close(&follower);
  remove_folder(folder);
}

TEST(an_open_segment_deleted_under_it_is_told)
{
  char folder[256], path[600];
  struct seen seen = {.next = 1};
  struct mg_reader_events events;
  fresh_folder(folder, "/tmp");
  struct mg_shard *shard = open_shard(folder);
  append(shard, 50);
  mg_shard_flush(shard);
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  read_all(follower);
  snprintf(path, sizeof path, "%s/shard-000-0000000001.open", folder);
  CHECK_INT(unlink(path), 0);
  read_all(follower);
  CHECK_INT(seen.entries, 50);
  CHECK_INT(seen.others, 1);
  mg_follow_close(&follower);
  mg_shard_close(&shard);
  remove_folder(folder);
}

static void copy_file(const char *folder, const char *from, const char *to)
{
  char path[600];
  uint8_t *bytes = malloc(SUPPORT_SEGMENT);
  snprintf(path, sizeof path, "%s/%s", folder, from);
  int fd = open(path, O_RDONLY);
  ssize_t len = read(fd, bytes, SUPPORT_SEGMENT);
  close(fd);
  snprintf(path, sizeof path, "%s/%s", folder, to);
  fd = open(path, O_WRONLY | O_CREAT, 0600);
  CHECK(len > 0 && write(fd, bytes, (size_t)len) == len);
  close(fd);
  free(bytes);
}

TEST(foreign_files_are_told_and_passed)
{
  char folder[256], path[600];
  struct seen seen = {.next = 1};
  struct mg_reader_events events;
  fresh_folder(folder, "/tmp");
  fill(folder, 700);
  uint64_t all = take_census(folder).entries;
  copy_file(folder, "shard-000-0000000001.mgj", "shard-000-0000000040.mgj"); /* under another's name */
  snprintf(path, sizeof path, "%s/shard-000-0000000041.mgj", folder);
  FILE *file = fopen(path, "w");
  fputs("no segment at all", file);
  fclose(file);
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  read_all(follower);
  CHECK_INT(seen.entries, all);
  CHECK_INT(seen.others, 2);
  CHECK_INT(seen.missing + seen.damages, 0);
  mg_follow_close(&follower);
  remove_folder(folder);
}

TEST(a_position_of_another_journal_is_refused)
{
  char folder[256], other[256];
  struct seen seen = {.next = 1};
  struct mg_reader_events events;
  struct mg_position at;
  fresh_folder(folder, "/tmp");
  fresh_folder(other, "/tmp");
  fill(folder, 300);
  fill(other, 900);
  struct mg_follow *follower = follow(folder, &seen, &events, NULL);
  read_all(follower);
  CHECK(mg_follow_position(follower, 0, &at));
  mg_follow_close(&follower);
  const struct mg_follow_options options = {.from = &at, .from_count = 1};
  CHECK_INT(mg_follow_open(&follower, &mg_file_system, other, &options, &events), -ESTALE);
  CHECK(!follower);
  CHECK_INT(mg_follow_open(&follower, &mg_file_system, "/nowhere/at/all", &options, &events), -ENOENT);
  remove_folder(folder);
  remove_folder(other);
}

TEST(a_journal_that_takes_the_place_of_another_is_told)
{
  for (int older = 0; older < 2; older++) {
    char folder[256];
    struct seen seen = {.next = 1};
    struct mg_reader_events events;
    fresh_folder(folder, "/tmp");
    struct mg_shard *shard = open_shard(folder);
    append(shard, older ? 700 : 50);
    mg_shard_flush(shard);
    struct mg_follow *follower = follow(folder, &seen, &events, NULL);
    read_all(follower);
    mg_shard_close(&shard);
    remove_folder(folder);
    CHECK_INT(mg_follow_read(follower, true), -ENOENT);
    CHECK_INT(mkdir(folder, 0700), 0);
    shard = open_shard(folder);
    append(shard, 20);
    mg_shard_flush(shard);
    int64_t told = 0;
    for (int i = 0; i < 3 && told >= 0; i++) told = mg_follow_read(follower, true);
    CHECK_INT(told, -ESTALE);
    mg_follow_close(&follower);
    mg_shard_close(&shard);
    remove_folder(folder);
  }
}

RUN_TESTS({"each_entry_once_while_it_is_written_and_rotated", each_entry_once_while_it_is_written_and_rotated},
          {"goes_on_from_any_entry_whatever_the_hint", goes_on_from_any_entry_whatever_the_hint},
          {"a_refused_entry_is_told_again", a_refused_entry_is_told_again},
          {"writers_are_killed_under_it", writers_are_killed_under_it},
          {"damage_is_told_once_and_passed", damage_is_told_once_and_passed},
          {"damage_in_the_open_segment_does_not_hold_it_up", damage_in_the_open_segment_does_not_hold_it_up},
          {"deleted_segments_are_a_gap_of_known_size", deleted_segments_are_a_gap_of_known_size},
          {"an_open_segment_deleted_under_it_is_told", an_open_segment_deleted_under_it_is_told},
          {"foreign_files_are_told_and_passed", foreign_files_are_told_and_passed},
          {"a_position_of_another_journal_is_refused", a_position_of_another_journal_is_refused},
          {"a_journal_that_takes_the_place_of_another_is_told", a_journal_that_takes_the_place_of_another_is_told})
