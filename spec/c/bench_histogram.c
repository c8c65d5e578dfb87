/* bench_histogram.c - percentiles of the load generator against sorted values, and what a request template becomes. */
#include "histogram.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "request.h"
#include "schedule.h"
#include "t.h"

static int by_value(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Compares every percentile of count values, spread over all magnitudes, with the exact one. */
static void compare_with_sorted(unsigned count, uint64_t seed)
{
  struct bench_histogram *histogram = bench_histogram_new();
  uint64_t *values = mg_calloc(count, sizeof *values);
  for (unsigned i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = (seed >> 24) >> (seed >> 16) % 40;
    bench_histogram_add(histogram, values[i]);
  }
  qsort(values, count, sizeof *values, by_value);
  for (int permille = 1; permille <= 1000; permille++) {
    uint64_t rank = ((uint64_t)permille * count + 999) / 1000;
    double exact = (double)values[rank - 1], seen = (double)bench_histogram_at(histogram, permille / 1000.0);
    CHECK(seen >= exact * 0.999 - 1e-9 && seen <= exact * 1.001 + 1e-9);
  }
  CHECK(histogram->least == values[0]);
  CHECK(histogram->most == values[count - 1]);
  CHECK(bench_histogram_at(histogram, 1) == values[count - 1]);
  free(values);
  bench_histogram_free(&histogram);
  CHECK(histogram == NULL);
}

TEST(percentiles_are_exact_to_a_thousandth)
{
  compare_with_sorted(1000, 1);
  compare_with_sorted(20000, 7);
  compare_with_sorted(1, 3);
}

TEST(an_empty_histogram_has_no_percentiles)
{
  struct bench_histogram *histogram = bench_histogram_new();
  CHECK(bench_histogram_at(histogram, 0.99) == 0);
  CHECK(bench_histogram_mean(histogram) == 0);
  bench_histogram_free(&histogram);
}

TEST(values_beyond_the_last_bucket_are_counted)
{
  struct bench_histogram *histogram = bench_histogram_new();
  bench_histogram_add(histogram, UINT64_MAX / 2);
  bench_histogram_add(histogram, 1);
  CHECK(bench_histogram_at(histogram, 0.5) == 1);
  CHECK(bench_histogram_at(histogram, 0.99) == UINT64_MAX / 2);
  bench_histogram_free(&histogram);
}

static bool read_template(struct bench_request *request, const char *text, struct mg_buf *error)
{
  char path[] = "/tmp/moongate-request.XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
  bool ok = bench_request_read(request, path, "h:1", error);
  unlink(path);
  return ok;
}

static void check_text(struct mg_str seen, const char *wanted)
{
  CHECK(seen.len == strlen(wanted) && memcmp(seen.ptr, wanted, seen.len) == 0);
}

TEST(requests_are_due_at_the_rate)
{
  struct bench_schedule even = {.rate = 4000, .connections = 8, .start_ns = 5};
  for (int i = 0; i < 4000; i++) bench_schedule_next(&even);
  CHECK(bench_schedule_due(&even) / 1000 == 1000000);

  struct bench_schedule poisson = {.arrival = BENCH_POISSON, .rate = 4000, .connections = 8, .random = 1};
  for (int i = 0; i < 40000; i++) bench_schedule_next(&poisson);
  CHECK(poisson.next_ns > 9.8e9 && poisson.next_ns < 10.2e9);

  struct bench_schedule ticks = {.arrival = BENCH_TICKS, .rate = 4000, .connections = 8}; /* five in each tick */
  CHECK(bench_schedule_own(&ticks, 0) == BENCH_TICK_NS && bench_schedule_own(&ticks, 4) == BENCH_TICK_NS);
  CHECK(bench_schedule_own(&ticks, 5) == 2 * BENCH_TICK_NS);
  ticks.rate = 400; /* one every second tick */
  CHECK(bench_schedule_own(&ticks, 0) == 2 * BENCH_TICK_NS && bench_schedule_own(&ticks, 1) == 4 * BENCH_TICK_NS);
}

TEST(a_template_is_completed_and_filled)
{
  struct bench_request request;
  struct mg_buf error = {0}, scratch = {0};
  CHECK(read_template(&request, "POST /r{n%100}?n={n} HTTP/1.1\nX-A: b\n\n{\"n\":{n}}\n", &error));
  check_text(bench_request_write(&request, 30, &scratch), "POST /r10?n=0000000030 HTTP/1.1\r\nHost: h:1\r\nX-A: b\r\n"
                                                          "Content-Length: 16\r\n\r\n{\"n\":0000000030}");
  bench_request_free(&request);
  CHECK(read_template(&request, "GET / HTTP/1.1\nHost: own\n", &error));
  check_text(bench_request_write(&request, 5, &scratch), "GET / HTTP/1.1\r\nHost: own\r\n\r\n");
  bench_request_free(&request);
  mg_buf_free(&scratch);
}

TEST(random_places_differ)
{
  struct bench_request request;
  struct mg_buf error = {0}, scratch = {0};
  CHECK(read_template(&request, "GET /{x}/{x} HTTP/1.1\n", &error));
  char first[33];
  struct mg_str text = bench_request_write(&request, 1, &scratch);
  memcpy(first, text.ptr + 5, sizeof first);
  CHECK(memcmp(first, first + 17, 16) != 0);
  text = bench_request_write(&request, 2, &scratch);
  CHECK(memcmp(first, text.ptr + 5, 16) != 0);
  bench_request_free(&request);
  mg_buf_free(&scratch);
}

TEST(what_is_no_request_is_refused)
{
  struct bench_request request;
  struct mg_buf error = {0};
  CHECK(!read_template(&request, "GET / HTTP/1.1\nBad Header: x\n", &error));
  CHECK(error.len > 0);
  CHECK(!read_template(&request, "", &error));
  mg_buf_free(&error);
}

RUN_TESTS({"percentiles are exact to a thousandth", percentiles_are_exact_to_a_thousandth},
          {"an empty histogram has no percentiles", an_empty_histogram_has_no_percentiles},
          {"values beyond the last bucket are counted", values_beyond_the_last_bucket_are_counted},
          {"requests are due at the rate", requests_are_due_at_the_rate},
          {"a template is completed and filled", a_template_is_completed_and_filled},
          {"random places differ", random_places_differ},
          {"what is no request is refused", what_is_no_request_is_refused})
