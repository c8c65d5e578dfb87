/* core_breaker.c - a breaker's word: counting, opening, one probe, probes that are lost. */
#include "breaker.h"

#include <pthread.h>

#include "t.h"

static const struct mg_breaker_rules rules = {.failures_max = 3, .cooldown_ms = 1000, .probe_ms = 60000};

static bool runs(uint32_t pid)
{
  return pid != 666;
}

static bool enter(struct mg_breaker_cell *cell, uint64_t now_ms, struct mg_breaker_pass *pass)
{
  return mg_breaker_enter(cell, &rules, now_ms, 42, runs, pass);
}

static void tell(struct mg_breaker_cell *cell, uint64_t now_ms, struct mg_breaker_pass pass,
                 enum mg_breaker_outcome outcome)
{
  mg_breaker_leave(cell, &rules, now_ms, pass, outcome);
}

static enum mg_breaker_state state(const struct mg_breaker_cell *cell)
{
  uint32_t failures;
  return mg_breaker_state(cell, &failures);
}

static void fail_times(struct mg_breaker_cell *cell, uint64_t now_ms, int times)
{
  struct mg_breaker_pass pass;
  while (times--) {
    CHECK(enter(cell, now_ms, &pass));
    tell(cell, now_ms, pass, MG_BREAKER_FAILURE);
  }
}

TEST(only_failures_in_a_row_open_it)
{
  struct mg_breaker_cell cell = {0};
  struct mg_breaker_pass pass;
  uint32_t failures;
  fail_times(&cell, 5000, 2);
  CHECK_INT(mg_breaker_state(&cell, &failures), MG_BREAKER_CLOSED);
  CHECK_INT(failures, 2);
  CHECK(enter(&cell, 5000, &pass));
  tell(&cell, 5000, pass, MG_BREAKER_UNKNOWN); /* counts for nothing */
  mg_breaker_state(&cell, &failures);
  CHECK_INT(failures, 2);
  tell(&cell, 5000, pass, MG_BREAKER_SUCCESS);
  fail_times(&cell, 5000, 2);
  CHECK_INT(state(&cell), MG_BREAKER_CLOSED);
  fail_times(&cell, 5000, 1);
  CHECK_INT(state(&cell), MG_BREAKER_OPEN);
  CHECK(!enter(&cell, 5999, &pass));
  CHECK_INT(cell.rejected, 1);
}

TEST(one_probe_decides)
{
  struct mg_breaker_cell cell = {0};
  struct mg_breaker_pass probe, other;
  fail_times(&cell, 5000, 3);
  CHECK(enter(&cell, 6000, &probe) && probe.probe != 0);
  CHECK_INT(state(&cell), MG_BREAKER_HALF_OPEN);
  CHECK(!enter(&cell, 6001, &other));
  tell(&cell, 6002, probe, MG_BREAKER_FAILURE);
  CHECK(!enter(&cell, 7001, &other));
  CHECK(enter(&cell, 7002, &probe));
  tell(&cell, 7003, probe, MG_BREAKER_SUCCESS);
  CHECK_INT(state(&cell), MG_BREAKER_CLOSED);
  CHECK(enter(&cell, 7004, &other));
}

TEST(a_late_answer_of_before_changes_nothing)
{
  struct mg_breaker_cell cell = {0};
  struct mg_breaker_pass early, probe;
  CHECK(enter(&cell, 5000, &early));
  fail_times(&cell, 5000, 3);
  tell(&cell, 5001, early, MG_BREAKER_SUCCESS);
  CHECK_INT(state(&cell), MG_BREAKER_OPEN);
  CHECK(enter(&cell, 6000, &probe));
  tell(&cell, 6001, early, MG_BREAKER_FAILURE);
  tell(&cell, 6001, early, MG_BREAKER_SUCCESS);
  CHECK_INT(state(&cell), MG_BREAKER_HALF_OPEN);
}

TEST(a_probe_that_goes_away_leaves_its_place_to_the_next)
{
  struct mg_breaker_cell cell = {0};
  struct mg_breaker_pass probe, next;
  fail_times(&cell, 5000, 3);
  CHECK(enter(&cell, 6000, &probe));
  tell(&cell, 6001, probe, MG_BREAKER_UNKNOWN);
  CHECK(enter(&cell, 6001, &next) && next.probe != 0);
  CHECK(!enter(&cell, 65999, &probe)); /* it takes its time */
  CHECK(enter(&cell, 66001, &probe));  /* too long: another one */
  tell(&cell, 66002, next, MG_BREAKER_SUCCESS);
  CHECK_INT(state(&cell), MG_BREAKER_HALF_OPEN); /* the late one does not speak for its successor */
  tell(&cell, 66003, probe, MG_BREAKER_SUCCESS);
  CHECK_INT(state(&cell), MG_BREAKER_CLOSED);
}

TEST(a_probe_whose_process_died_is_replaced_at_once)
{
  struct mg_breaker_cell cell = {0};
  struct mg_breaker_pass probe;
  fail_times(&cell, 5000, 3);
  CHECK(mg_breaker_enter(&cell, &rules, 6000, 666, runs, &probe));
  CHECK(enter(&cell, 6001, &probe));
  CHECK(!enter(&cell, 6002, &probe));
}

static struct mg_breaker_cell shared;
static _Atomic unsigned probes;

static void *try_to_probe(void *unused)
{
  struct mg_breaker_pass pass;
  for (int i = 0; i < 10000; i++)
    if (enter(&shared, 6000, &pass)) probes++;
  return unused;
}

TEST(many_threads_send_one_probe)
{
  pthread_t threads[4];
  fail_times(&shared, 5000, 3);
  for (int i = 0; i < 4; i++) CHECK_INT(pthread_create(&threads[i], NULL, try_to_probe, NULL), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  CHECK_INT(probes, 1);
  CHECK_INT(shared.rejected, 39999);
}

RUN_TESTS({"only_failures_in_a_row_open_it", only_failures_in_a_row_open_it}, {"one_probe_decides", one_probe_decides},
          {"a_late_answer_of_before_changes_nothing", a_late_answer_of_before_changes_nothing},
          {"a_probe_that_goes_away_leaves_its_place_to_the_next", a_probe_that_goes_away_leaves_its_place_to_the_next},
          {"a_probe_whose_process_died_is_replaced_at_once", a_probe_whose_process_died_is_replaced_at_once},
          {"many_threads_send_one_probe", many_threads_send_one_probe})
