/* core_shm.c - shared memory: two mappings of one file, targets by key, address lists that never tear. */
#include "shm.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t.h"

static struct mg_str text(const char *string)
{
  return mg_str(string, strlen(string));
}

TEST(both_mappings_see_one_memory)
{
  struct mg_shm master, worker;
  CHECK_INT(mg_shm_create(&master), 0);
  CHECK_INT(mg_shm_attach(&worker, dup(master.fd)), 0);
  CHECK(mg_shm_worker(&master, 3) != mg_shm_worker(&worker, 3));
  atomic_store(&mg_shm_worker(&worker, 3)->count.requests, 42);
  atomic_store(&mg_shm_worker(&worker, MG_WORKERS_MAX - 1)->refused[MG_ERR_COUNT - 1], 7);
  CHECK_INT(atomic_load(&mg_shm_worker(&master, 3)->count.requests), 42);
  CHECK_INT(atomic_load(&mg_shm_worker(&master, 2)->count.requests), 0);
  CHECK_INT(atomic_load(&mg_shm_worker(&master, MG_WORKERS_MAX - 1)->refused[MG_ERR_COUNT - 1]), 7);
  CHECK_INT((uintptr_t)mg_shm_worker(&master, 1) % MG_CACHE_LINE, 0);
  CHECK(ftruncate(worker.fd, 4096) < 0); /* sealed */
  mg_shm_detach(&worker);
  mg_shm_detach(&master);
  mg_shm_detach(&master);
}

TEST(foreign_files_are_refused)
{
  struct mg_shm shm;
  int small = memfd_create("small", 0), zero = memfd_create("zero", 0);
  CHECK_INT(mg_shm_attach(&shm, small), MG_EINTERNAL);
  CHECK_INT(errno, EINVAL);
  CHECK_INT(ftruncate(zero, 1 << 30), 0);
  CHECK_INT(mg_shm_attach(&shm, zero), MG_EINTERNAL);
  CHECK_INT(errno, EINVAL);
  CHECK_INT(mg_shm_attach(&shm, -1), MG_EINTERNAL);
  CHECK_INT(errno, EBADF);
  close(small);
  close(zero);
}

TEST(targets_are_found_by_key)
{
  struct mg_shm master, worker;
  char key[300];
  CHECK_INT(mg_shm_create(&master), 0);
  CHECK_INT(mg_shm_attach(&worker, dup(master.fd)), 0);
  CHECK(mg_shm_find_target(&worker, text("127.0.0.1:9000")) == NULL);
  struct mg_target_cell *cell = mg_shm_target(&master, text("127.0.0.1:9000"));
  CHECK(cell != NULL && mg_shm_target(&master, text("127.0.0.1:9000")) == cell);
  CHECK(mg_shm_target(&master, text("unix:/run/x.sock")) != cell);
  atomic_store(&cell->down, 1);
  CHECK_INT(atomic_load(&mg_shm_find_target(&worker, text("127.0.0.1:9000"))->down), 1);
  CHECK(mg_shm_find_target(&worker, text("127.0.0.1:900")) == NULL);
  memset(key, 'k', sizeof key);
  CHECK(mg_shm_target(&master, mg_str(key, 256)) == NULL);
  CHECK(mg_shm_target(&master, mg_str(key, 255)) != NULL);
  mg_shm_detach(&worker);
  mg_shm_detach(&master);
}

TEST(targets_end_at_a_limit)
{
  struct mg_shm shm;
  char key[32];
  CHECK_INT(mg_shm_create(&shm), 0);
  unsigned made = 0;
  while (snprintf(key, sizeof key, "10.0.0.1:%u", made), mg_shm_target(&shm, text(key))) made++;
  CHECK_INT(made, 32768);
  CHECK(mg_shm_find_target(&shm, text("10.0.0.1:32767")) != NULL);
  CHECK(mg_shm_find_target(&shm, text("10.0.0.1:32768")) == NULL);
  CHECK(mg_shm_target(&shm, text("10.0.0.1:5")) != NULL); /* what is known stays known */
  mg_shm_detach(&shm);
}

static void fill(struct sockaddr_storage *addresses, unsigned count, uint16_t port)
{
  for (unsigned i = 0; i < count; i++) {
    struct sockaddr_in *address = (struct sockaddr_in *)&addresses[i];
    memset(&addresses[i], 0, sizeof addresses[i]);
    address->sin_family = AF_INET;
    address->sin_port = port;
    address->sin_addr.s_addr = port * 65537u;
  }
}

struct race {
  struct mg_target_cell *cell;
  _Atomic int stop;
};

static void *publish_again_and_again(void *context)
{
  struct race *race = context;
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  for (uint16_t port = 1; !atomic_load(&race->stop); port = (uint16_t)(port % 60000 + 1)) {
    unsigned count = 1 + port % MG_TARGET_ADDRESSES_MAX;
    fill(addresses, count, port);
    mg_target_publish(race->cell, addresses, count);
    if (port % 8 == 0) usleep(1); /* a reader gets a chance between bursts */
  }
  return NULL;
}

TEST(addresses_are_read_whole)
{
  struct mg_shm shm;
  struct sockaddr_storage seen[MG_TARGET_ADDRESSES_MAX], first[MG_TARGET_ADDRESSES_MAX + 1];
  CHECK_INT(mg_shm_create(&shm), 0);
  struct race race = {.cell = mg_shm_target(&shm, text("a:1"))};
  CHECK_INT(mg_target_addresses(race.cell, seen), 0);
  fill(first, MG_TARGET_ADDRESSES_MAX + 1, 9);
  mg_target_publish(race.cell, first, MG_TARGET_ADDRESSES_MAX + 1);
  CHECK_INT(mg_target_addresses(race.cell, seen), MG_TARGET_ADDRESSES_MAX);
  CHECK_INT(memcmp(seen, first, sizeof seen), 0);
  pthread_t writer;
  CHECK_INT(pthread_create(&writer, NULL, publish_again_and_again, &race), 0);
  for (int i = 0; i < 20000; i++) {
    unsigned count = mg_target_addresses(race.cell, seen);
    CHECK(count > 0);
    uint16_t port = ((struct sockaddr_in *)&seen[0])->sin_port;
    if (port != 9) CHECK_INT(count, 1 + port % MG_TARGET_ADDRESSES_MAX);
    fill(first, count, port);
    CHECK_INT(memcmp(seen, first, count * sizeof *seen), 0);
  }
  atomic_store(&race.stop, 1);
  pthread_join(writer, NULL);
  mg_shm_detach(&shm);
}

TEST(a_writer_that_died_halfway)
{
  struct mg_shm shm;
  struct sockaddr_storage addresses[MG_TARGET_ADDRESSES_MAX];
  CHECK_INT(mg_shm_create(&shm), 0);
  struct mg_target_cell *cell = mg_shm_target(&shm, text("a:1"));
  fill(addresses, 1, 80);
  mg_target_publish(cell, addresses, 1);
  atomic_store(&cell->version, atomic_load(&cell->version) + 1);
  CHECK_INT(mg_target_addresses(cell, addresses), 0); /* ends, and trusts nothing */
  fill(addresses, 1, 81);
  mg_target_publish(cell, addresses, 1);
  CHECK_INT(mg_target_addresses(cell, addresses), 1);
  mg_shm_detach(&shm);
}

TEST(routes_have_a_tally_for_each_worker)
{
  struct mg_shm master, worker;
  char id[300];
  CHECK_INT(mg_shm_create(&master), 0);
  CHECK_INT(mg_shm_attach(&worker, dup(master.fd)), 0);
  CHECK(mg_shm_tally(&worker, text("api"), 0) == NULL);
  CHECK(mg_shm_add_route(&master, text("api"), 2));
  CHECK(mg_shm_add_route(&master, text("web"), 2));
  mg_tally_add(&mg_shm_tally(&worker, text("api"), 1)->active, 3);
  mg_tally_add(&mg_shm_tally(&worker, text("web"), 1)->bytes_in, 5);
  CHECK(mg_shm_add_route(&master, text("api"), 2)); /* a reload finds it again */
  CHECK_INT(mg_shm_tally(&master, text("api"), 1)->active, 3);
  CHECK_INT(mg_shm_tally(&master, text("api"), 0)->active, 0);
  CHECK(mg_shm_tally(&master, text("api"), 2) == NULL);
  mg_shm_reset_gauges(&master, 1);
  CHECK_INT(mg_shm_tally(&worker, text("api"), 1)->active, 0);
  CHECK_INT(mg_shm_tally(&worker, text("web"), 1)->bytes_in, 5);
  memset(id, 'r', sizeof id);
  CHECK(!mg_shm_add_route(&master, mg_str(id, 256), 2));
  CHECK(mg_shm_add_route(&master, mg_str(id, 255), 2));
  mg_shm_detach(&worker);
  mg_shm_detach(&master);
}

RUN_TESTS({"both mappings see one memory", both_mappings_see_one_memory},
          {"foreign files are refused", foreign_files_are_refused},
          {"targets are found by key", targets_are_found_by_key}, {"targets end at a limit", targets_end_at_a_limit},
          {"routes have a tally for each worker", routes_have_a_tally_for_each_worker},
          {"addresses are read whole", addresses_are_read_whole},
          {"a writer that died halfway", a_writer_that_died_halfway})
