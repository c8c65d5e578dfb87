/* journal_race.c - race.live-reader: one process records at full speed while another reads the folder again and again.
 * Every walk must see all that was acknowledged before it began, in order, once, with the right bytes, and find
 * nothing wrong. */
#include "journal_support.h"
#include "reader.h"

enum { ENTRIES = 40000 };

static struct told *told;

struct view {
  struct census census;
  unsigned findings;
  unsigned staged;
};

static bool see(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                const struct mg_entry *entry)
{
  struct view *view = context;
  (void)scope;
  count_entry(&view->census, origin->lsn, entry);
  view->staged += origin->staged;
  return true;
}

static void find(void *context, const struct mg_finding *finding)
{
  struct view *view = context;
  fprintf(stderr, "found %d in %s: %llu, %llu\n", finding->kind, finding->file ? finding->file : "the stage",
          (unsigned long long)finding->from, (unsigned long long)finding->count);
  view->findings++;
}

static void record(const char *folder, bool threaded)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  options.threaded = threaded;
  options.segment_bytes = 8 * SUPPORT_SEGMENT;
  if (mg_shard_open(&shard, &options, &mg_file_system, &recovery, &error) != 0) _exit(1);
  for (unsigned i = 0; i < ENTRIES;) {
    if (!append_one(shard)) {
      mg_shard_push(shard);
      continue;
    }
    atomic_store_explicit(&told->acknowledged, ++i, memory_order_release);
    if (i % 512 == 0) usleep(500);
    if (i % 8192 == 0) usleep(20000); /* a slow reader, under sanitizers, has to find something in the stage too */
  }
  for (int i = 0; i < 1000 && !atomic_load(&told->steps); i++) usleep(10000); /* until a walk found some in the stage */
  _exit(mg_shard_close(&shard) == 0 ? 0 : 2);
}

static void race(bool threaded)
{
  char folder[256];
  const struct mg_reader_options options = {.shard = -1};
  unsigned walks = 0, staged = 0;
  int status;
  fresh_folder(folder, "/dev/shm");
  atomic_store(&told->acknowledged, 0);
  atomic_store(&told->steps, 0);
  pid_t pid = fork();
  if (pid == 0) record(folder, threaded);
  for (bool running = true; running; walks++) {
    struct view view = {0};
    const struct mg_reader_events events = {.context = &view, .entry = see, .finding = find};
    running = waitpid(pid, &status, WNOHANG) == 0;
    uint64_t before = atomic_load_explicit(&told->acknowledged, memory_order_acquire);
    CHECK_INT(mg_reader_walk(&mg_file_system, folder, &options, &events), 0);
    CHECK_INT(view.findings, 0);
    CHECK_INT(view.census.wrong + view.census.gaps + view.census.repeats, 0);
    CHECK(view.census.last >= before);
    CHECK(view.census.entries == view.census.last);
    staged += view.staged > 0;
    atomic_store(&told->steps, staged > 0 && walks > 3);
  }
  CHECK_INT(status, 0);
  fprintf(stderr, "%u walks, %u with entries out of the stage\n", walks, staged);
  CHECK(walks > 3 && staged > 0);
  remove_folder(folder);
}

TEST(live_reader)
{
  race(false);
}

TEST(live_reader_beside_a_thread)
{
  race(true);
}

int main(void)
{
  told = shared_page();
  fprintf(stderr, "race.live-reader\n");
  live_reader();
  fprintf(stderr, "race.live-reader with a writer thread\n");
  live_reader_beside_a_thread();
  return 0;
}
