/* core_tally.c - buckets meet without gap, statuses are told apart until there is no room, sums are exact. */
#include "tally.h"

#include "t.h"

TEST(buckets_follow_each_other_and_hold_their_ends)
{
  uint64_t before = 0;
  for (unsigned i = 0; i < MG_TALLY_BUCKETS - 1; i++) {
    uint64_t end = mg_tally_bucket_end(i);
    CHECK(end > before);
    struct mg_tally tally = {0};
    mg_tally_duration(&tally, (before + 1) * 1000);
    mg_tally_duration(&tally, end * 1000);
    mg_tally_duration(&tally, end * 1000 - 999); /* part of a microsecond counts as one */
    CHECK_INT(tally.durations[i], 3);
    CHECK_INT(tally.duration_us, before + 1 + 2 * end);
    before = end;
  }
  CHECK_INT(before, 1 << MG_TALLY_LAST_BITS);
  CHECK(mg_tally_bucket_end(MG_TALLY_BUCKETS - 1) == UINT64_MAX);
  struct mg_tally tally = {0};
  mg_tally_duration(&tally, 0);
  mg_tally_duration(&tally, (before + 1) * 1000);
  CHECK_INT(tally.durations[0], 1);
  CHECK_INT(tally.durations[MG_TALLY_BUCKETS - 1], 1);
}

TEST(every_power_of_two_from_256_us_is_the_end_of_a_bucket)
{
  for (unsigned bits = 8; bits <= MG_TALLY_LAST_BITS; bits++) {
    unsigned found = 0;
    for (unsigned i = 0; i < MG_TALLY_BUCKETS; i++) found += mg_tally_bucket_end(i) == 1ull << bits;
    CHECK_INT(found, 1);
  }
}

TEST(statuses_are_told_apart)
{
  struct mg_tally tally = {0};
  struct mg_tally_sum sum = {0};
  for (int i = 0; i < 1000; i++) mg_tally_code(&tally.requests, i % 2 ? 200 : 232); /* one place in the table */
  mg_tally_code(&tally.upstream, 503);
  mg_tally_sum(&sum, &tally);
  mg_tally_sum(&sum, &tally);
  CHECK_INT(sum.requests[200], 1000);
  CHECK_INT(sum.requests[232], 1000);
  CHECK_INT(sum.upstream[503], 2);
  CHECK_INT(sum.upstream[200], 0);
}

TEST(what_finds_no_room_is_counted_as_status_0)
{
  struct mg_tally tally = {0};
  struct mg_tally_sum sum = {0};
  for (unsigned status = 200; status < 200 + MG_TALLY_CODES + 8; status++) mg_tally_code(&tally.requests, status);
  mg_tally_code(&tally.requests, 200);
  mg_tally_sum(&sum, &tally);
  CHECK_INT(sum.requests[200], 2);
  CHECK_INT(sum.requests[200 + MG_TALLY_CODES - 1], 1);
  CHECK_INT(sum.requests[0], 8);
}

RUN_TESTS({"buckets follow each other and hold their ends", buckets_follow_each_other_and_hold_their_ends},
          {"every power of two from 256 us is the end of a bucket",
           every_power_of_two_from_256_us_is_the_end_of_a_bucket},
          {"statuses are told apart", statuses_are_told_apart},
          {"what finds no room is counted as status 0", what_finds_no_room_is_counted_as_status_0})
