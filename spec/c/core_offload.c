/* core_offload.c - jobs on the pool: so many at once, the others in turn or turned away, an end that loses none. */
#include "offload.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "t.h"

struct counted {
  struct mg_job job;
  int done, err;
};

static uv_loop_t loop;
static struct mg_wheel wheel;
static struct mg_offload *offload;
static _Atomic int running, most;
static _Atomic bool go_on;

static void run_job(struct mg_job *job)
{
  (void)job;
  int now = ++running;
  if (now > most) most = now;
  while (!go_on) usleep(1000);
  running--;
}

static void job_done(struct mg_job *job, int err)
{
  struct counted *counted = (struct counted *)job;
  counted->done++;
  counted->err = err;
}

static void start(struct counted *counted, uint64_t wait_ms)
{
  *counted = (struct counted){.job = {.run = run_job, .done = job_done}};
  mg_offload_start(offload, &counted->job, wait_ms);
  CHECK_INT(counted->done, 0);
}

static void open_with(unsigned at_once)
{
  running = most = 0;
  go_on = false;
  CHECK_INT(uv_loop_init(&loop), 0);
  mg_wheel_open(&wheel, &loop);
  offload = mg_offload_open(&loop, &wheel, at_once);
}

static void on_wheel_closed(uv_handle_t *handle)
{
  (void)handle;
}

static void close_all(void)
{
  if (offload) mg_offload_close(&offload);
  mg_wheel_close(&wheel, on_wheel_closed);
  uv_run(&loop, UV_RUN_DEFAULT);
  CHECK_INT(uv_loop_close(&loop), 0);
}

static void run_until(const int *done)
{
  while (!*done) uv_run(&loop, UV_RUN_ONCE);
}

TEST(no_more_run_at_once_than_allowed)
{
  struct counted jobs[6];
  open_with(2);
  for (int i = 0; i < 6; i++) start(&jobs[i], 60000);
  go_on = true;
  for (int i = 0; i < 6; i++) run_until(&jobs[i].done);
  for (int i = 0; i < 6; i++) CHECK_INT(jobs[i].err, 0);
  CHECK(most <= 2);
  close_all();
}

TEST(who_finds_no_place_in_time_is_turned_away)
{
  struct counted runs, waits, patient;
  open_with(1);
  start(&runs, 1);
  start(&waits, 100);
  start(&patient, 60000);
  uint64_t began = uv_hrtime();
  run_until(&waits.done);
  CHECK_INT(waits.err, MG_EOVERLOAD);
  CHECK(uv_hrtime() - began >= 50000000);
  CHECK_INT(runs.done + patient.done, 0);
  go_on = true;
  run_until(&patient.done);
  CHECK_INT(patient.err, 0);
  CHECK_INT(runs.err, 0);
  CHECK_INT(waits.done, 1);
  close_all();
}

TEST(closing_turns_away_what_waits_and_lets_the_rest_end)
{
  struct counted runs, waits;
  open_with(1);
  start(&runs, 1);
  start(&waits, 60000);
  mg_offload_close(&offload);
  CHECK_INT(waits.done, 1);
  CHECK_INT(waits.err, MG_EOVERLOAD);
  CHECK_INT(runs.done, 0);
  go_on = true;
  run_until(&runs.done);
  CHECK_INT(runs.err, 0);
  close_all();
}

RUN_TESTS({"no_more_run_at_once_than_allowed", no_more_run_at_once_than_allowed},
          {"who_finds_no_place_in_time_is_turned_away", who_finds_no_place_in_time_is_turned_away},
          {"closing_turns_away_what_waits_and_lets_the_rest_end", closing_turns_away_what_waits_and_lets_the_rest_end})
