/* journal_kill.c - kill.random-time, kill.every-step, kill.during-recovery, kill.at-rotation: a process that records
 * is ended with
 * SIGKILL; nothing it acknowledged may be lost, be there twice, or be wrong.
 * MOONGATE_TEST_KILLS: rounds of kill.random-time (200). MOONGATE_JOURNAL_DIR: where (/dev/shm, else /tmp). */
#include <time.h>

#include "journal_support.h"

static struct told *told;
static struct mg_file_ops killing;
static enum mg_point killing_at;
static unsigned killing_after;

static void kill_here(enum mg_point point)
{
  if (point != killing_at || killing_after-- != 0) return;
  atomic_fetch_add(&told->steps, 1);
  kill(getpid(), SIGKILL);
  pause();
}

static const char *base_folder(void)
{
  const char *named = getenv("MOONGATE_JOURNAL_DIR");
  return named ? named : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

/* Records until it is killed, or for as many entries. */
static void record(const char *folder, const struct mg_file_ops *ops, bool threaded, unsigned entries)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  options.threaded = threaded;
  if (mg_shard_open(&shard, &options, ops, &recovery, &error) != 0) {
    fprintf(stderr, "%.*s\n", (int)error.len, error.ptr);
    _exit(3);
  }
  uint64_t found = mg_shard_stage(shard)->next_lsn - 1; /* with what the life before committed and could not say */
  if (found > atomic_load(&told->acknowledged)) atomic_store(&told->acknowledged, found);
  while (entries) {
    if (!append_one(shard)) {
      mg_shard_push(shard);
      continue;
    }
    atomic_store(&told->acknowledged, mg_shard_stage(shard)->next_lsn - 1);
    if (--entries % 97 == 0) mg_shard_flush(shard);
  }
  _exit(mg_shard_close(&shard) == 0 ? 0 : 4);
}

static int run_killed(const char *folder, const struct mg_file_ops *ops, bool threaded, unsigned entries, long kill_us)
{
  pid_t pid = fork();
  int status;
  CHECK(pid >= 0);
  if (pid == 0) record(folder, ops, threaded, entries);
  if (kill_us >= 0) {
    const struct timespec pause_for = {0, kill_us * 1000};
    nanosleep(&pause_for, NULL);
    kill(pid, SIGKILL);
  }
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(!(WIFEXITED(status) && WEXITSTATUS(status) != 0));
  return status;
}

/* Many lives of one journal, each ended at a random moment. */
TEST(kill_random_time)
{
  const char *wanted = getenv("MOONGATE_TEST_KILLS");
  unsigned kills = wanted ? (unsigned)atoi(wanted) : 200;
  char folder[256];
  fresh_folder(folder, base_folder());
  atomic_store(&told->acknowledged, 0);
  unsigned seed = (unsigned)time(NULL);
  fprintf(stderr, "seed %u, %u kills in %s\n", seed, kills, folder);
  for (unsigned i = 0; i < kills; i++) {
    run_killed(folder, &mg_file_system, i % 2, UINT32_MAX, rand_r(&seed) % 6000);
    if (i % 20 != 19) continue;
    recover_folder(folder);
    struct census census = take_census(folder);
    check_census(&census, atomic_load(&told->acknowledged));
    if (census.files < 3000) continue;
    remove_folder(folder);
    fresh_folder(folder, base_folder());
    atomic_store(&told->acknowledged, 0);
  }
  remove_folder(folder);
}

/* At each labelled step in turn, the first time it comes by and some time later. */
static void kill_at(enum mg_point point, unsigned after, bool threaded)
{
  char folder[256];
  fresh_folder(folder, base_folder());
  killing = mg_file_system;
  killing.point = kill_here;
  atomic_store(&told->acknowledged, 0);
  killing_at = MG_POINT_SLOT_RETIRED; /* something to recover, so that recovery's steps come by */
  killing_after = 3; /* the slot behind the one that was retired has been begun */
  run_killed(folder, &killing, threaded, 1500, -1);
  atomic_fetch_sub(&told->steps, 1);
  killing_at = point;
  killing_after = after;
  run_killed(folder, &killing, threaded, 1500, -1);
  recover_folder(folder);
  struct census census = take_census(folder);
  check_census(&census, atomic_load(&told->acknowledged));
  remove_folder(folder);
}

TEST(kill_every_step)
{
  for (int point = 0; point < MG_POINT_COUNT; point++) {
    atomic_store(&told->steps, 0);
    for (unsigned round = 0; round < 6; round++) kill_at((enum mg_point)point, round / 2, round % 2);
    if (!atomic_load(&told->steps)) fprintf(stderr, "step %d was never reached\n", point);
    CHECK(atomic_load(&told->steps) > 0);
  }
}

/* Every attempt to recover is killed at the next step of recovery, then one is let through. */
TEST(kill_during_recovery)
{
  static const enum mg_point steps[] = {MG_POINT_RECOVERY_SCANNED, MG_POINT_RECOVERY_CLEARED, MG_POINT_RECOVERY_PLACED,
                                        MG_POINT_RECOVERY_SEALED,  MG_POINT_SEAL_COMMITTED,   MG_POINT_SEALED_NAMED,
                                        MG_POINT_EPOCH_WRITTEN,    MG_POINT_TAIL_WRITTEN};
  for (unsigned round = 0; round < 16; round++) {
    char folder[256];
    fresh_folder(folder, base_folder());
    atomic_store(&told->acknowledged, 0);
    run_killed(folder, &mg_file_system, round % 2, UINT32_MAX, 3000 + round * 700);
    killing = mg_file_system;
    killing.point = kill_here;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
      killing_at = steps[(i + round) % (sizeof steps / sizeof steps[0])];
      killing_after = i % 3;
      run_killed(folder, &killing, false, 1, -1);
    }
    recover_folder(folder);
    struct census census = take_census(folder);
    check_census(&census, atomic_load(&told->acknowledged));
    remove_folder(folder);
  }
}

/* Segments of two blocks: every batch or two turns over to the next. */
TEST(kill_at_rotation)
{
  static const enum mg_point steps[] = {MG_POINT_SPARE_RESERVED, MG_POINT_SPARE_READY,  MG_POINT_PREAMBLE_WRITTEN,
                                        MG_POINT_SEGMENT_NAMED,  MG_POINT_SEAL_WRITTEN, MG_POINT_SEAL_COMMITTED,
                                        MG_POINT_SEALED_SYNCED,  MG_POINT_SEALED_NAMED};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
    for (unsigned after = 1; after < 6; after++) kill_at(steps[i], after, after % 2);
}

int main(void)
{
  told = shared_page();
  static const struct t_case cases[] = {{"kill.every-step", kill_every_step},
                                        {"kill.during-recovery", kill_during_recovery},
                                        {"kill.at-rotation", kill_at_rotation},
                                        {"kill.random-time", kill_random_time}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fprintf(stderr, "%s\n", cases[i].name);
    cases[i].run();
  }
  return 0;
}
