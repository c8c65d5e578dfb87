/* core_upgrade_counters.c - what one master has counted, told to the next one. */
#include "upgrade.h"

#include "err.h"
#include "t.h"

enum { WORKERS = 2 };

static struct mg_str text_of(const struct mg_buf *buf)
{
  return mg_str(buf->ptr, buf->len);
}

static void open_shm(struct mg_shm *shm)
{
  CHECK_INT(mg_shm_create(shm), 0);
  CHECK(mg_shm_add_route(shm, MG_STR("api v1"), WORKERS + 1)); /* an id may hold a blank */
  CHECK(mg_shm_add_route(shm, MG_STR("web"), WORKERS + 1));
}

static void count(struct mg_shm *shm)
{
  for (unsigned worker = 0; worker < WORKERS; worker++) {
    struct mg_worker_cell *cell = mg_shm_worker(shm, worker);
    struct mg_tally *tally = mg_shm_tally(shm, MG_STR("api v1"), worker);
    atomic_store(&cell->count.requests, 10 + worker);
    atomic_store(&cell->count.connections_active, 3);
    atomic_store(&cell->refused[mg_err_index(MG_ENOROUTE)], 2);
    mg_tally_code(&tally->requests, 200);
    mg_tally_code(&tally->requests, 404);
    mg_tally_code(&tally->upstream, 502);
    mg_tally_duration(tally, 1500000);
    mg_tally_add(&tally->bytes_in, 7);
    mg_tally_add(&tally->active, 1);
  }
}

TEST(all_that_only_grows_is_handed_on)
{
  struct mg_shm old, heir, third;
  struct mg_str routes[] = {MG_STR("api v1"), MG_STR("web")};
  const struct mg_inventory inventory = {.routes = routes, .route_count = 2};
  struct mg_buf first = {0}, again = {0};
  open_shm(&old);
  open_shm(&heir);
  open_shm(&third);
  count(&old);
  mg_counters_write(&old, WORKERS, &inventory, &first);
  mg_counters_read(&heir, WORKERS, text_of(&first));
  mg_counters_read(&heir, WORKERS, text_of(&first)); /* replaces, adds nothing */
  const struct mg_worker_cell *past = mg_shm_worker(&heir, WORKERS);
  CHECK_INT(atomic_load(&past->count.requests), 21);
  CHECK_INT(atomic_load(&past->count.connections_active), 0); /* those are still there */
  CHECK_INT(atomic_load(&past->refused[mg_err_index(MG_ENOROUTE)]), 4);
  struct mg_tally_sum sum;
  mg_inventory_sum(&heir, WORKERS, routes[0], &sum);
  CHECK_INT(sum.requests[200], 2);
  CHECK_INT(sum.requests[404], 2);
  CHECK_INT(sum.upstream[502], 2);
  CHECK_INT(sum.duration_us, 3000);
  CHECK_INT(sum.answered, 2);
  CHECK_INT(sum.bytes_in, 14);
  CHECK_INT(sum.active, 0);
  count(&heir);
  mg_counters_write(&heir, WORKERS, &inventory, &again);
  mg_counters_read(&third, WORKERS, text_of(&again));
  CHECK_INT(atomic_load(&mg_shm_worker(&third, WORKERS)->count.requests), 42);
  mg_inventory_sum(&third, WORKERS, routes[0], &sum);
  CHECK_INT(sum.requests[200], 4);
  mg_inventory_sum(&third, WORKERS, routes[1], &sum);
  CHECK_INT(sum.answered, 0);
  mg_buf_free(&first);
  mg_buf_free(&again);
  mg_shm_detach(&old);
  mg_shm_detach(&heir);
  mg_shm_detach(&third);
}

TEST(what_is_not_known_is_passed_over)
{
  static const char text[] = "counter from_the_future 7\n"
                             "counter requests 5\n"
                             "counter requests nonsense\n"
                             "refused no_such_word 1\n"
                             "\n"
                             "route gone\nrequest 200 9\n"
                             "route web\nrequest 999999 9\nrequest 200 3\nbucket 4000000000 1\nshape round 1\nbytes";
  struct mg_shm shm;
  struct mg_tally_sum sum;
  open_shm(&shm);
  mg_counters_read(&shm, WORKERS, mg_str(text, sizeof text - 1));
  CHECK_INT(atomic_load(&mg_shm_worker(&shm, WORKERS)->count.requests), 5);
  mg_inventory_sum(&shm, WORKERS, MG_STR("web"), &sum);
  CHECK_INT(sum.requests[200], 3);
  CHECK_INT(sum.answered, 0);
  mg_shm_detach(&shm);
}

RUN_TESTS({"all that only grows is handed on", all_that_only_grows_is_handed_on},
          {"what is not known is passed over", what_is_not_known_is_passed_over})
