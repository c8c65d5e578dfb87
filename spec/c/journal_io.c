/* journal_io.c - io.sigbus, io.fsync-eio-once, dir.vanished, dir.readonly, limit.fsize: files that are taken away under
 * a running shard, or a disk that does not keep what it was given. No signal, no wrong entry; what could not be saved is
 * missing by number; recording goes on by itself. */
#include <sys/resource.h>

#include "journal_support.h"
#include "reader.h"

struct life {
  char folder[256], path[600];
  struct mg_shard *shard;
  struct mg_shard_options options;
};

static void begin(struct life *life, const struct mg_file_ops *ops, bool threaded, enum mg_sync sync)
{
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  fresh_folder(life->folder, "/dev/shm");
  life->options = support_options(life->folder);
  life->options.threaded = threaded;
  life->options.sync = sync;
  life->options.interval_ms = 20;
  CHECK_INT(mg_shard_open(&life->shard, &life->options, ops, &recovery, &error), 0);
}

static const char *path_in(struct life *life, const char *name)
{
  snprintf(life->path, sizeof life->path, "%s/%s", life->folder, name);
  return life->path;
}

static uint64_t last_lsn(const struct life *life)
{
  return mg_shard_stage(life->shard)->next_lsn - 1;
}

/* As a recorder does it: an entry that finds no room asks for some. */
static void append(struct life *life, unsigned entries)
{
  while (entries) {
    if (mg_stage_free(mg_shard_stage(life->shard)) == 0) mg_shard_make_room(life->shard, 0);
    if (append_one(life->shard)) entries--;
  }
}

/* As the loop does it every now and then, until all is well again. */
static void settle(struct life *life)
{
  for (int i = 0; i < 1000; i++) {
    mg_shard_flush(life->shard);
    usleep(1000);
    if (i > 3 && !mg_shard_facts(life->shard).trouble && mg_stage_free(mg_shard_stage(life->shard)) > 1) return;
  }
  CHECK(!"recovers by itself");
}

struct seen {
  struct census census;
  uint64_t missing;
  unsigned damages;
};

static bool see_entry(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                      const struct mg_entry *entry)
{
  struct seen *seen = context;
  (void)scope;
  count_entry(&seen->census, origin->lsn, entry);
  return true;
}

static void see_finding(void *context, const struct mg_finding *finding)
{
  struct seen *seen = context;
  if (finding->kind == MG_FOUND_MISSING) seen->missing += finding->count;
  if (finding->kind == MG_FOUND_DAMAGE) seen->damages++;
  CHECK(finding->kind != MG_FOUND_REPEATED);
}

/* Everything that can be read is right, and everything else is missing by number. */
static struct seen look(const char *folder, uint64_t last)
{
  struct seen seen = {0};
  const struct mg_reader_options options = {.shard = -1};
  const struct mg_reader_events events = {.context = &seen, .entry = see_entry, .finding = see_finding};
  CHECK_INT(mg_reader_walk(&mg_file_system, folder, &options, &events), 0);
  CHECK_INT(seen.census.wrong + seen.census.repeats, 0);
  CHECK_INT(seen.census.last, last);
  CHECK_INT(seen.census.first - 1 + seen.census.entries + (seen.census.first == 1 ? seen.missing : 0), last);
  return seen;
}

static void end(struct life *life)
{
  uint64_t last = last_lsn(life);
  CHECK_INT(mg_shard_close(&life->shard), 0);
  look(life->folder, last);
  recover_folder(life->folder);
  look(life->folder, last);
  remove_folder(life->folder);
}

/* The stage is cut at every page in turn while entries are in it. */
static void cut_stage(bool threaded)
{
  for (off_t cut = 0; cut < MG_STAGE_HEADER_BYTES + 4 * MG_SLOT_BYTES; cut += 4096 * 3) {
    struct life life;
    begin(&life, &mg_file_system, threaded, MG_SYNC_PROCESS);
    append(&life, 230);
    CHECK_INT(truncate(path_in(&life, "shard-000.stage"), cut), 0);
    append(&life, 300); /* round the whole stage: every page is touched */
    CHECK(mg_shard_facts(life.shard).repairs > 0);
    settle(&life);
    uint64_t whole_from = last_lsn(&life);
    append(&life, 400);
    settle(&life);
    uint64_t last = last_lsn(&life);
    struct seen seen = look(life.folder, last);
    CHECK(seen.missing < 2 * 4 * MG_SLOT_BYTES / 400);
    CHECK(seen.census.last - whole_from == 400);
    end(&life);
  }
}

TEST(sigbus_stage)
{
  cut_stage(false);
}

TEST(sigbus_stage_beside_a_thread)
{
  cut_stage(true);
}

/* A body that is kept apart, so that it is read out of the slot when its batch is laid out. */
static bool append_body(struct mg_shard *shard)
{
  struct mg_stage *stage = mg_shard_stage(shard);
  uint64_t lsn = stage->next_lsn;
  uint8_t content[SUPPORT_PAYLOAD + 32];
  size_t len = content_of(lsn, content);
  uint8_t *start = mg_stage_begin(stage, len + 64, 1700000000000000u, lsn);
  if (!start) return false;
  uint8_t *at = mg_prefix_put(stage, start, 1700000000000000u, lsn);
  *at++ = 1, *at++ = 0, *at++ = 0;
  memcpy(at, content, len);
  mg_stage_commit(stage, (size_t)(at + len - start), MG_ENTRY_BODY, 0, (uint16_t)len);
  mg_shard_push(shard);
  return true;
}

static struct cutter {
  char path[600];
  off_t at;
  unsigned cuts;
} cutter;

static void cut_at_point(enum mg_point point)
{
  if (point != MG_POINT_BATCH_PACKED || !cutter.path[0]) return;
  CHECK_INT(truncate(cutter.path, cutter.at), 0);
  cutter.path[0] = '\0';
  cutter.cuts++;
}

/* The stage is cut between the moment when a slot's batch is packed and the one when its bodies are taken out of it. */
TEST(sigbus_stage_while_a_batch_is_placed)
{
  struct mg_file_ops ops = mg_file_system;
  ops.point = cut_at_point;
  for (off_t page = 0; page < 2 * MG_SLOT_BYTES; page += 4096) {
    struct life life;
    begin(&life, &ops, false, MG_SYNC_PROCESS);
    snprintf(cutter.path, sizeof cutter.path, "%s", path_in(&life, "shard-000.stage"));
    cutter.at = MG_STAGE_HEADER_BYTES + page;
    cutter.cuts = 0;
    while (!cutter.cuts) append_body(life.shard);
    settle(&life);
    uint64_t whole_from = last_lsn(&life);
    for (unsigned i = 0; i < 200;) {
      if (mg_stage_free(mg_shard_stage(life.shard)) == 0) mg_shard_make_room(life.shard, 0);
      i += append_body(life.shard);
    }
    settle(&life);
    struct seen seen = look(life.folder, last_lsn(&life));
    CHECK(seen.census.last - whole_from == 200);
    end(&life);
  }
}

/* What is recorded after the stage was replaced survives a kill again. */
TEST(sigbus_then_kill)
{
  struct told *told = shared_page();
  char folder[256];
  fresh_folder(folder, "/dev/shm");
  pid_t pid = fork();
  if (pid == 0) {
    struct life life = {.options = support_options(folder)};
    struct mg_recovery recovery;
    struct mg_buf error = {0};
    if (mg_shard_open(&life.shard, &life.options, &mg_file_system, &recovery, &error) != 0) _exit(1);
    snprintf(life.folder, sizeof life.folder, "%s", folder);
    append(&life, 100);
    if (truncate(path_in(&life, "shard-000.stage"), 0) != 0) _exit(2);
    append(&life, 300);
    settle(&life);
    append(&life, 50);
    atomic_store(&told->acknowledged, last_lsn(&life));
    kill(getpid(), SIGKILL);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  recover_folder(folder);
  look(folder, atomic_load(&told->acknowledged));
  remove_folder(folder);
}

/* The open segment is cut: what is behind the cut is gone, and not one entry more. */
static void cut_segment(const struct mg_file_ops *ops, bool threaded)
{
  for (off_t cut = 0; cut < SUPPORT_SEGMENT; cut += 4096 * 5) {
    struct life life;
    begin(&life, ops, threaded, MG_SYNC_PROCESS);
    append(&life, 150);
    settle(&life);
    CHECK_INT(truncate(path_in(&life, "shard-000-0000000001.open"), cut), 0);
    uint64_t before = last_lsn(&life);
    append(&life, 600);
    settle(&life);
    struct seen seen = look(life.folder, last_lsn(&life));
    CHECK(seen.missing <= before); /* what comes after the cut goes elsewhere */
    end(&life);
  }
}

TEST(sigbus_segment)
{
  cut_segment(&mg_file_system, false);
}

TEST(sigbus_segment_beside_a_thread)
{
  cut_segment(&mg_file_system, true);
}

static bool never(int fd)
{
  (void)fd;
  return false;
}

TEST(cut_segment_that_is_not_mapped)
{
  struct mg_file_ops ops = mg_file_system;
  ops.may_map = never;
  cut_segment(&ops, false);
}

/* A reader that is in a file which gets shorter finds damage, not a signal. */
static char cut_here[600];

static int cutting_read(int fd, void *bytes, size_t len, uint64_t offset)
{
  static unsigned reads;
  if (++reads % 5 == 0 && cut_here[0]) {
    struct stat status;
    CHECK_INT(stat(cut_here, &status), 0);
    CHECK_INT(truncate(cut_here, status.st_size / 2), 0);
  }
  return mg_file_system.read(fd, bytes, len, offset);
}

TEST(sigbus_reader)
{
  struct life life;
  struct mg_file_ops ops = mg_file_system;
  struct seen seen = {0};
  const struct mg_reader_options options = {.shard = -1};
  const struct mg_reader_events events = {.context = &seen, .entry = see_entry, .finding = see_finding};
  ops.read = cutting_read;
  begin(&life, &mg_file_system, false, MG_SYNC_PROCESS);
  append(&life, 600);
  uint64_t last = last_lsn(&life);
  CHECK_INT(mg_shard_close(&life.shard), 0);
  snprintf(cut_here, sizeof cut_here, "%s", path_in(&life, "shard-000-0000000002.mgj"));
  CHECK_INT(mg_reader_walk(&ops, life.folder, &options, &events), 0);
  cut_here[0] = '\0';
  CHECK_INT(seen.census.wrong + seen.census.repeats, 0);
  CHECK(seen.damages > 0 && seen.missing > 0);
  CHECK_INT(seen.census.entries + seen.missing, last);
  remove_folder(life.folder);
}

/* Somebody else's mapping is none of the journal's business: the process ends as it would have. */
TEST(sigbus_elsewhere)
{
  struct life life;
  begin(&life, &mg_file_system, false, MG_SYNC_PROCESS);
  append(&life, 10);
  pid_t pid = fork();
  if (pid == 0) {
    uint8_t *ours;
    int fd = open(path_in(&life, "ours"), O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, 8192) != 0 || mg_file_system.map(fd, 8192, &ours) != 0) _exit(41);
    volatile uint8_t *other = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0) != 0) _exit(42);
    other[4096] = 1;
    _exit(43);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS
                            : WEXITSTATUS(status) / 10 != 4); /* or as a sanitizer has it */
  unlink(path_in(&life, "ours"));
  end(&life);
}

/* --- syncs that fail ---------------------------------------------------------------------------------------------- */

static _Atomic int failing_sync; /* the how many-th sync from now fails, once */

static int sync_that_fails_once(int fd)
{
  return atomic_fetch_sub(&failing_sync, 1) == 1 ? -EIO : mg_file_system.sync(fd);
}

static bool wait_durable(struct life *life, uint64_t lsn, unsigned milliseconds)
{
  for (unsigned i = 0; i < milliseconds && !mg_shard_durable(life->shard, lsn); i++) usleep(1000);
  return mg_shard_durable(life->shard, lsn);
}

/* The kernel reports a failed write-back once and then counts the pages as clean: the sync that comes next succeeds and
 * means nothing. Only files made after the failure may make entries durable. */
TEST(fsync_eio_once)
{
  struct mg_file_ops ops = mg_file_system;
  ops.sync = sync_that_fails_once;
  for (int which = 1; which <= 2; which++) { /* the stage's, the segment's */
    struct life life;
    begin(&life, &ops, false, MG_SYNC_GROUP);
    append(&life, 200);
    mg_shard_ask_sync(life.shard);
    CHECK(wait_durable(&life, last_lsn(&life), 2000));
    append(&life, 20);
    atomic_store(&failing_sync, which);
    mg_shard_ask_sync(life.shard);
    for (int i = 0; i < 2000 && !mg_shard_facts(life.shard).trouble; i++) usleep(1000);
    CHECK_INT(mg_shard_facts(life.shard).trouble, EIO);
    uint64_t before = last_lsn(&life);
    mg_shard_ask_sync(life.shard);
    CHECK(!wait_durable(&life, before, 100)); /* syncs succeed again, of the same files */
    settle(&life);
    CHECK(mg_shard_facts(life.shard).repairs > 0);
    mg_shard_ask_sync(life.shard);
    CHECK(wait_durable(&life, before, 2000));
    struct seen seen = look(life.folder, before);
    CHECK_INT(seen.missing, 0);
    end(&life);
  }
}

/* --- folders ------------------------------------------------------------------------------------------------------ */

TEST(folder_vanishes)
{
  struct life life;
  begin(&life, &mg_file_system, false, MG_SYNC_PROCESS);
  append(&life, 200);
  remove_folder(life.folder);
  CHECK(access(life.folder, F_OK) != 0);
  for (int i = 0; i < 5000 && !mg_shard_facts(life.shard).trouble; i++) {
    append_one(life.shard);
    mg_shard_flush(life.shard);
    usleep(1000);
  }
  CHECK_INT(mg_shard_facts(life.shard).trouble, ENOENT);
  CHECK_INT(mg_stage_free(mg_shard_stage(life.shard)), 0); /* nothing is acknowledged where it cannot be kept */
  CHECK_INT(mkdir(life.folder, 0700), 0);
  settle(&life);
  append(&life, 100);
  uint64_t last = last_lsn(&life);
  settle(&life);
  struct seen seen = look(life.folder, last);
  CHECK(seen.census.entries >= 100);
  struct mg_shard *second; /* the lock is there again, too */
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  CHECK_INT(mg_shard_open(&second, &life.options, &mg_file_system, &recovery, &error), -EWOULDBLOCK);
  mg_buf_free(&error);
  end(&life);
}

static int refused_open(const char *path, int flags)
{
  return flags & O_CREAT ? -EROFS : mg_file_system.open(path, flags);
}

/* Root writes into any folder, so the refusal comes from the table. */
TEST(folder_is_readonly)
{
  struct life life;
  struct mg_file_ops ops = mg_file_system;
  begin(&life, &mg_file_system, false, MG_SYNC_PROCESS);
  append(&life, 100);
  end(&life);
  fresh_folder(life.folder, "/dev/shm");
  ops.open = refused_open;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  CHECK_INT(mg_shard_open(&life.shard, &life.options, &ops, &recovery, &error), -EROFS);
  mg_buf_append(&error, "", 1);
  CHECK(strstr(error.ptr, "Read-only file system"));
  mg_buf_free(&error);
  remove_folder(life.folder);
}

/* A limit on the size of files, with its signal ignored as a gateway does. */
TEST(file_size_limit)
{
  struct rlimit before, small = {.rlim_cur = SUPPORT_SEGMENT / 2};
  struct life life;
  signal(SIGXFSZ, SIG_IGN);
  begin(&life, &mg_file_system, false, MG_SYNC_PROCESS);
  append(&life, 100);
  CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int i = 0; i < 5000 && !mg_shard_facts(life.shard).trouble; i++) append_one(life.shard);
  CHECK_INT(mg_shard_facts(life.shard).trouble, EFBIG);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
  settle(&life);
  struct seen seen = look(life.folder, last_lsn(&life));
  CHECK_INT(seen.missing, 0);
  end(&life);
}

RUN_TESTS({"io.sigbus stage", sigbus_stage}, {"io.sigbus stage, beside a thread", sigbus_stage_beside_a_thread},
          {"io.sigbus stage while a batch is placed", sigbus_stage_while_a_batch_is_placed},
          {"io.sigbus then kill", sigbus_then_kill}, {"io.sigbus segment", sigbus_segment},
          {"io.sigbus segment, beside a thread", sigbus_segment_beside_a_thread},
          {"io.cut segment that is not mapped", cut_segment_that_is_not_mapped}, {"io.sigbus reader", sigbus_reader},
          {"io.sigbus elsewhere", sigbus_elsewhere}, {"io.fsync-eio-once", fsync_eio_once},
          {"dir.vanished", folder_vanishes}, {"dir.readonly", folder_is_readonly}, {"limit.fsize", file_size_limit})
