/* journal_full.c - full.tmpfs, full.at-each-call, io.eio-each-call, dir.readonly: a disk that is full or fails. No
 * signal, what was acknowledged stays, and writing goes on by itself when it can. full.tmpfs needs the right to
 * mount; it says so when it is skipped. */
#include <sched.h>
#include <sys/mount.h>

#include "journal_support.h"

static _Atomic int calls_left; /* until calls fail; negative: never */
static _Atomic int failing_with;

static int may(void)
{
  if (calls_left < 0 || calls_left-- > 0) return 0;
  calls_left = 0;
  return -failing_with;
}

static int failing_reserve(int fd, uint64_t size)
{
  int result = may();
  return result ? result : mg_file_system.reserve(fd, size);
}

static int failing_write(int fd, const void *bytes, size_t len, uint64_t offset)
{
  int result = may();
  return result ? result : mg_file_system.write(fd, bytes, len, offset);
}

static int failing_rename(const char *from, const char *to)
{
  int result = may();
  return result ? result : mg_file_system.rename(from, to);
}

static int failing_open(const char *path, int flags)
{
  int result = may();
  return result ? result : mg_file_system.open(path, flags);
}

static int failing_populate(uint8_t *from, size_t len)
{
  int result = may();
  return result ? result : mg_file_system.populate(from, len);
}

static struct mg_shard *open_shard(const char *folder, const struct mg_file_ops *ops, int wanted)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  int result = mg_shard_open(&shard, &options, ops, &recovery, &error);
  if (result != wanted) fprintf(stderr, "%.*s\n", (int)error.len, error.ptr);
  CHECK_INT(result, wanted);
  mg_buf_free(&error);
  return shard;
}

/* Fails from the n-th call on for as long as the stage takes, then works again. */
static void fail_from(int calls, int error)
{
  struct mg_file_ops ops = mg_file_system;
  char folder[256];
  ops.reserve = failing_reserve;
  ops.write = failing_write;
  ops.rename = failing_rename;
  ops.open = failing_open;
  ops.populate = failing_populate;
  fresh_folder(folder, "/dev/shm");
  calls_left = -1;
  failing_with = error;
  struct mg_shard *shard = open_shard(folder, &ops, 0);
  for (int i = 0; i < 300; i++) CHECK(append_one(shard));
  calls_left = calls;
  for (int i = 0; i < 3000 && append_one(shard); i++) continue; /* until the stage is full, or it was never hit */
  uint64_t acknowledged = mg_shard_stage(shard)->next_lsn - 1;
  calls_left = -1;
  for (int i = 0; i < 400 && mg_shard_facts(shard).trouble; i++) {
    mg_shard_flush(shard);
    usleep(1000);
  }
  mg_shard_flush(shard);
  for (int i = 0; i < 50; i++) CHECK(append_one(shard));
  CHECK_INT(mg_shard_facts(shard).trouble, 0);
  CHECK_INT(mg_shard_close(&shard), 0);
  struct census census = take_census(folder);
  check_census(&census, acknowledged + 50);
  remove_folder(folder);
}

static bool never(int fd)
{
  (void)fd;
  return false;
}

TEST(at_each_call)
{
  for (int calls = 0; calls < 40; calls++) {
    fail_from(calls, ENOSPC);
    fail_from(calls, EIO);
  }
}

/* The same where nothing is mapped: every batch is a write that may fail. */
static void fail_unmapped(int calls, int error)
{
  struct mg_file_ops ops = mg_file_system;
  char folder[256];
  ops.may_map = never;
  ops.write = failing_write;
  ops.reserve = failing_reserve;
  fresh_folder(folder, "/dev/shm");
  calls_left = -1;
  failing_with = error;
  struct mg_shard *shard = open_shard(folder, &ops, 0);
  for (int i = 0; i < 300; i++) CHECK(append_one(shard));
  calls_left = calls;
  for (int i = 0; i < 3000 && append_one(shard); i++) continue;
  uint64_t acknowledged = mg_shard_stage(shard)->next_lsn - 1;
  calls_left = -1;
  for (int i = 0; i < 400 && (i < 2 || mg_shard_facts(shard).trouble); i++) {
    mg_shard_flush(shard);
    usleep(1000);
  }
  CHECK_INT(mg_shard_close(&shard), 0);
  struct census census = take_census(folder);
  check_census(&census, acknowledged);
  remove_folder(folder);
}

TEST(unmapped)
{
  for (int calls = 0; calls < 40; calls++) {
    fail_unmapped(calls, ENOSPC);
    fail_unmapped(calls, EFBIG);
    fail_unmapped(calls, EDQUOT);
  }
}

static bool mount_small(const char *folder)
{
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return false;
  return mount("tmpfs", folder, "tmpfs", 0, "size=1200k") == 0;
}

static void remove_oldest(const char *folder, uint64_t *number)
{
  char path[600];
  snprintf(path, sizeof path, "%s/shard-000-%010llu.mgj", folder, (unsigned long long)*number);
  if (unlink(path) == 0) ++*number;
}

/* Filled to the last page, then emptied segment by segment; what is still there follows without a gap. */
static void fill_and_empty(const char *folder)
{
  struct mg_shard *shard = open_shard(folder, &mg_file_system, 0);
  uint64_t oldest = 1;
  for (int round = 0; round < 6; round++) {
    unsigned stuck = 0;
    while (stuck < 50) {
      if (append_one(shard)) continue;
      mg_shard_flush(shard);
      stuck++;
      usleep(500);
    }
    CHECK_INT(mg_shard_facts(shard).trouble, ENOSPC);
    remove_oldest(folder, &oldest);
    remove_oldest(folder, &oldest);
    for (int i = 0; i < 400 && mg_shard_facts(shard).trouble; i++) {
      mg_shard_flush(shard);
      usleep(1000);
    }
    CHECK_INT(mg_shard_facts(shard).trouble, 0);
  }
  uint64_t acknowledged = mg_shard_stage(shard)->next_lsn - 1;
  for (int i = 0; i < 4; i++) remove_oldest(folder, &oldest); /* room for the rest */
  CHECK_INT(mg_shard_close(&shard), 0);
  struct census census = take_census(folder);
  CHECK_INT(census.wrong + census.repeats + census.gaps + census.damages, 0);
  CHECK_INT(census.last, acknowledged);
}

TEST(full_tmpfs)
{
  char folder[256];
  fresh_folder(folder, "/tmp");
  pid_t pid = fork();
  if (pid == 0) {
    if (!mount_small(folder)) _exit(77);
    fill_and_empty(folder);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    fprintf(stderr, "full.tmpfs skipped: mounting needs root\n");
  else
    CHECK_INT(status, 0);
  remove_folder(folder);
}

/* A second process cannot have the shard; nor can anyone in a folder that is not there. */
TEST(folders_that_do_not_do)
{
  char folder[256], missing[300];
  fresh_folder(folder, "/dev/shm");
  struct mg_shard *first = open_shard(folder, &mg_file_system, 0);
  CHECK(!open_shard(folder, &mg_file_system, -EWOULDBLOCK));
  CHECK_INT(mg_shard_close(&first), 0);
  snprintf(missing, sizeof missing, "%s/missing", folder);
  CHECK(!open_shard(missing, &mg_file_system, -ENOENT));
  remove_folder(folder);
}

RUN_TESTS({"full.at-each-call", at_each_call}, {"full.unmapped", unmapped}, {"full.tmpfs", full_tmpfs},
          {"dir.does-not-do", folders_that_do_not_do})
