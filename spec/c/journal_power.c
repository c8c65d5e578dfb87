/* journal_power.c - power.drop-random, power.lsn-not-reused, power.level2: the power goes while a shard records, rotates,
 * syncs or recovers; what is found afterwards is right, is there once, and what is not there is missing by number. Under
 * `sync: group` nothing that was called durable is missing.
 * MOONGATE_TEST_POWER_CUTS: how many (2000). MOONGATE_TEST_SEED: which. */
#include <pthread.h>
#include <time.h>

#include "journal_disk.h"
#include "reader.h"

enum { EPOCHS = 64, ENTRIES = 220, CUTS_PER_LIFE = 6, DEPTH = 3 };

/* What is known of the lives that a folder has had. */
struct history {
  unsigned depth;
  uint32_t epoch;           /* the newest that acknowledged anything */
  uint64_t durable[EPOCHS]; /* by epoch: entries up to here were called durable */
  uint64_t first[EPOCHS];   /* by epoch: its first LSN */
};

static uint64_t random_state;
static unsigned cuts_wanted, cuts_made;
static enum mg_sync syncing;

static uint64_t number_of(uint32_t epoch, uint64_t lsn)
{
  return (uint64_t)epoch << 32 | lsn;
}

/* An entry whose bytes tell its epoch and LSN. */
static bool append(struct mg_shard *shard)
{
  const struct mg_stage *stage = mg_shard_stage(shard);
  return append_content(shard, number_of(stage->header.epoch, stage->next_lsn));
}

struct walk {
  const struct history *history;
  uint32_t epoch;
  uint64_t lsn, entries, durable_seen[EPOCHS];
  uint64_t missing, reported;
};

static bool see_entry(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                      const struct mg_entry *entry)
{
  struct walk *walk = context;
  uint8_t content[SUPPORT_PAYLOAD + 32];
  size_t len = content_of(number_of(origin->epoch, origin->lsn), content);
  (void)scope;
  CHECK(entry->content.len == len && memcmp(entry->content.ptr, content, len) == 0);
  CHECK(origin->lsn > walk->lsn && origin->epoch >= walk->epoch && origin->epoch < EPOCHS);
  if (walk->entries) walk->missing += origin->lsn - walk->lsn - 1;
  walk->lsn = origin->lsn;
  walk->epoch = origin->epoch;
  walk->entries++;
  if (origin->lsn <= walk->history->durable[origin->epoch]) walk->durable_seen[origin->epoch]++;
  return true;
}

static void see_finding(void *context, const struct mg_finding *finding)
{
  struct walk *walk = context;
  CHECK(finding->kind != MG_FOUND_REPEATED);
  if (finding->kind == MG_FOUND_MISSING) walk->reported += finding->count;
}

/* All that a reader gets is right, and it is told exactly what it does not get. */
static void check(const char *folder, const struct history *history)
{
  struct walk walk = {.history = history};
  const struct mg_reader_options options = {.shard = -1};
  const struct mg_reader_events events = {.context = &walk, .entry = see_entry, .finding = see_finding};
  CHECK_INT(mg_reader_walk(&mg_file_system, folder, &options, &events), 0);
  CHECK_INT(walk.reported, walk.missing);
  for (uint32_t epoch = 1; epoch <= history->epoch; epoch++)
    if (history->durable[epoch])
      CHECK_INT(walk.durable_seen[epoch], history->durable[epoch] + 1 - history->first[epoch]);
}

struct cut {
  char folder[256];
  struct history history;
};

/* The life that is being lived. The power goes at labelled steps of its own thread, and between entries. */
static struct {
  struct mg_shard *shard; /* NULL while it recovers */
  struct history history;
  pthread_t thread;
  unsigned chance, count;
  struct cut cuts[CUTS_PER_LIFE];
} life;

/* Asked before the power goes: what becomes durable meanwhile need not be there. */
static uint64_t durable_lsn(const struct mg_shard *shard, uint64_t first, uint64_t next)
{
  while (next > first && !mg_shard_durable(shard, next - 1)) next--;
  return next > first ? next - 1 : 0;
}

static void maybe_cut(void)
{
  if (life.count == CUTS_PER_LIFE || cuts_made == cuts_wanted || disk_random(&random_state) % life.chance != 0) return;
  struct cut *cut = &life.cuts[life.count++];
  cut->history = life.history;
  if (life.shard) {
    const struct mg_stage *stage = mg_shard_stage(life.shard);
    uint32_t epoch = stage->header.epoch;
    if (syncing == MG_SYNC_GROUP)
      cut->history.durable[epoch] = durable_lsn(life.shard, life.history.first[epoch], stage->next_lsn);
  }
  cut->history.depth++;
  disk_crash(cut->folder, (enum disk_loss)(disk_random(&random_state) % DISK_LOSSES), &random_state);
  cuts_made++;
}

static void at_point(enum mg_point point)
{
  (void)point;
  if (pthread_equal(pthread_self(), life.thread)) maybe_cut();
}

static struct mg_shard *open_shard(const char *folder, const struct mg_file_ops *ops)
{
  struct mg_shard_options options = support_options(folder);
  struct mg_shard *shard;
  struct mg_recovery recovery;
  struct mg_buf error = {0};
  options.segment_bytes = 2 * MG_BLOCK_BYTES;
  options.sync = syncing;
  options.interval_ms = 2;
  if (mg_shard_open(&shard, &options, ops, &recovery, &error) != 0) {
    fprintf(stderr, "%.*s\n", (int)error.len, error.ptr);
    CHECK(!"a folder that the power left can be opened");
  }
  return shard;
}

/* Recovers and records in a folder, the disk under which may forget. */
static void record(const char *folder, const struct history *history)
{
  struct mg_file_ops ops = disk_ops();
  ops.point = at_point;
  life.history = *history;
  life.thread = pthread_self();
  life.count = 0;
  life.shard = NULL;
  life.chance = 8;
  struct mg_shard *shard = open_shard(folder, &ops);
  struct mg_stage *stage = mg_shard_stage(shard);
  uint32_t epoch = stage->header.epoch;
  CHECK(epoch > history->epoch && epoch < EPOCHS); /* no number is ever used again */
  life.history.epoch = epoch;
  life.history.first[epoch] = stage->next_lsn;
  life.shard = shard;
  life.chance = 60;
  unsigned ask_every = 1 + (unsigned)(disk_random(&random_state) % 80);
  unsigned flush_every = 5 + (unsigned)(disk_random(&random_state) % 50);
  for (unsigned i = 0; i < ENTRIES; i++) {
    while (!append(shard)) mg_shard_make_room(shard, 0);
    if (i % ask_every == 0) mg_shard_ask_sync(shard);
    if (i % flush_every == 0) mg_shard_flush(shard);
    if (syncing != MG_SYNC_PROCESS && i % 16 == 0) usleep(50); /* the disk has its say too */
    maybe_cut();
  }
  life.shard = NULL;
  CHECK_INT(mg_shard_close(&shard), 0);
}

/* A folder's life, and the lives that begin with what the power left of it. Takes the folder away. */
static void live(const char *folder, const struct history *history)
{
  struct disk *own = disk_start(folder);
  record(folder, history);
  check(folder, &life.history);
  disk_end(own);
  unsigned count = life.count;
  struct cut *cuts = malloc(count * sizeof *cuts + 1);
  memcpy(cuts, life.cuts, count * sizeof *cuts);
  for (unsigned i = 0; i < count; i++) {
    if (cuts[i].history.depth < DEPTH && cuts_made < cuts_wanted) {
      live(cuts[i].folder, &cuts[i].history);
      continue;
    }
    struct mg_shard *shard = open_shard(cuts[i].folder, &mg_file_system);
    CHECK(mg_shard_stage(shard)->header.epoch > cuts[i].history.epoch);
    CHECK_INT(mg_shard_close(&shard), 0);
    check(cuts[i].folder, &cuts[i].history);
    remove_folder(cuts[i].folder);
  }
  free(cuts);
}

static void many_cuts(enum mg_sync sync)
{
  const char *wanted = getenv("MOONGATE_TEST_POWER_CUTS"), *seed = getenv("MOONGATE_TEST_SEED");
  random_state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u | 1;
  cuts_wanted = wanted ? (unsigned)atoi(wanted) / 2 : 1000;
  cuts_made = 0;
  syncing = sync;
  fprintf(stderr, "seed %llu, %u power cuts\n", (unsigned long long)random_state, cuts_wanted);
  while (cuts_made < cuts_wanted) {
    const struct history none = {0};
    char folder[256];
    fresh_folder(folder, "/dev/shm");
    live(folder, &none);
  }
}

TEST(drop_random)
{
  many_cuts(MG_SYNC_PROCESS);
}

TEST(level_two)
{
  many_cuts(MG_SYNC_GROUP);
}

RUN_TESTS({"power.drop-random, power.lsn-not-reused", drop_random}, {"power.level2", level_two})
