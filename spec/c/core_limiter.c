/* core_limiter.c - token buckets: what they give and when, keys that come and go, many threads on one table. */
#include "limiter.h"

#include <pthread.h>
#include <stdatomic.h>

#include "t.h"

static const uint64_t second = 1000000000u;
static const uint64_t seed[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

static struct mg_limiter_table *table_for(const struct mg_limiter_rules *rules)
{
  struct mg_limiter_table *table = aligned_alloc(64, mg_limiter_bytes(rules));
  memset(table, 0, mg_limiter_bytes(rules));
  return table;
}

TEST(hash_is_siphash)
{
  char input[16];
  for (int i = 0; i < 16; i++) input[i] = (char)i;
  CHECK(mg_limiter_hash(seed, mg_str(input, 0)) == 0x726fdb47dd0e0e31u); /* the vectors of SipHash's paper */
  CHECK(mg_limiter_hash(seed, mg_str(input, 8)) == 0x93f5f5799a932462u);
  CHECK(mg_limiter_hash(seed, mg_str(input, 15)) == 0xa129ca6149be45e5u);
}

TEST(a_bucket_gives_its_capacity_and_then_one_token_at_a_time)
{
  struct mg_limiter_rules rules;
  CHECK(mg_limiter_rules(&rules, 3, 2, 1000, 30000, 100));
  struct mg_limiter_table *table = table_for(&rules);
  uint64_t now = 1000 * second;
  for (unsigned left = 3; left-- > 0;) {
    struct mg_limiter_outcome outcome = mg_limiter_take(table, &rules, 7, now);
    CHECK(outcome.passed);
    CHECK_INT(outcome.remaining, left);
  }
  struct mg_limiter_outcome outcome = mg_limiter_take(table, &rules, 7, now);
  CHECK(!outcome.passed);
  CHECK_INT(outcome.wait_ns, second / 2);
  CHECK(!mg_limiter_take(table, &rules, 7, now + second / 2 - 1).passed);
  CHECK(mg_limiter_take(table, &rules, 7, now + second / 2).passed);
  CHECK(!mg_limiter_take(table, &rules, 7, now + second / 2).passed);
  CHECK(mg_limiter_take(table, &rules, 8, now).passed); /* another key, another bucket */
  CHECK_INT(mg_limiter_take(table, &rules, 7, now + 100 * second).remaining, 2);
  CHECK_INT(mg_limiter_facts(table, &rules, now).tracked, 2);
  CHECK_INT(mg_limiter_facts(table, &rules, now).rejected, 3);
  CHECK_INT(mg_limiter_facts(table, &rules, now + 1000 * second).tracked, 0);
  free(table);
}

TEST(an_unseen_key_begins_anew_after_its_time)
{
  struct mg_limiter_rules rules;
  CHECK(mg_limiter_rules(&rules, 2, 1, 3600 * 1000, 5000, 4));
  struct mg_limiter_table *table = table_for(&rules);
  uint64_t now = 50 * second;
  CHECK(mg_limiter_take(table, &rules, 7, now).passed && mg_limiter_take(table, &rules, 7, now).passed);
  for (int i = 1; i <= 20; i++) CHECK(!mg_limiter_take(table, &rules, 7, now + (uint64_t)i * 4 * second).passed);
  CHECK_INT(mg_limiter_take(table, &rules, 7, now + 87 * second).remaining, 1);
  free(table);
}

TEST(a_full_table_forgets_what_is_nearest_to_full)
{
  struct mg_limiter_rules rules;
  CHECK(mg_limiter_rules(&rules, 10, 1, 1000, 60000, 2));
  struct mg_limiter_table *table = table_for(&rules);
  uint64_t now = 50 * second;
  for (int i = 0; i < 10; i++) mg_limiter_take(table, &rules, 1, now);
  mg_limiter_take(table, &rules, 2, now);
  mg_limiter_take(table, &rules, 3, now); /* takes the place of 2 */
  CHECK(!mg_limiter_take(table, &rules, 1, now).passed);
  CHECK_INT(mg_limiter_take(table, &rules, 3, now).remaining, 8);
  CHECK_INT(mg_limiter_take(table, &rules, 2, now).remaining, 9);
  CHECK_INT(mg_limiter_facts(table, &rules, now).tracked, 2);
  free(table);
}

TEST(as_many_keys_as_promised_keep_their_buckets)
{
  struct mg_limiter_rules rules;
  CHECK(mg_limiter_rules(&rules, 1, 1, 3600 * 1000, 3600 * 1000, 1000));
  struct mg_limiter_table *table = table_for(&rules);
  unsigned forgotten = 0;
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 0; i < 1000; i++) {
      uint64_t hash = mg_limiter_hash(seed, mg_str((const char *)&i, sizeof i));
      if (mg_limiter_take(table, &rules, hash, 50 * second).passed && round == 1) forgotten++;
    }
  CHECK(forgotten < 50); /* of those, the few that met eight others */
  free(table);
}

TEST(rules_that_time_cannot_hold_are_refused)
{
  struct mg_limiter_rules rules;
  CHECK(mg_limiter_rules(&rules, 1, 1e6, 1, 30000, 10)); /* one token each nanosecond */
  CHECK(!mg_limiter_rules(&rules, 1, 1e6 + 1, 1, 30000, 10));
  CHECK(!mg_limiter_rules(&rules, 1e14, 1, 1e9, 30000, 10));
  CHECK(!mg_limiter_rules(&rules, 1, 1, 1, 30000, 0));
  CHECK(!mg_limiter_rules(&rules, 1, 1, 1, 30000, MG_LIMITER_BUCKETS_MAX + 1));
}

enum { THREADS = 4, TAKES = 20000, KEYS = 16, CAPACITY = 3000 };

struct crowd {
  struct mg_limiter_rules rules;
  struct mg_limiter_table *table;
  _Atomic unsigned passed[KEYS];
};

static void *take_many(void *context)
{
  struct crowd *crowd = context;
  for (uint64_t i = 0; i < TAKES; i++) {
    uint32_t key = (uint32_t)(i % KEYS);
    uint64_t hash = mg_limiter_hash(seed, mg_str((const char *)&key, sizeof key));
    if (mg_limiter_take(crowd->table, &crowd->rules, hash, 50 * second).passed) crowd->passed[key]++;
  }
  return NULL;
}

TEST(many_threads_are_given_exactly_the_capacity)
{
  static struct crowd crowd;
  pthread_t threads[THREADS];
  CHECK(mg_limiter_rules(&crowd.rules, CAPACITY, 1, 3600 * 1000, 3600 * 1000, 64));
  crowd.table = table_for(&crowd.rules);
  for (int i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, take_many, &crowd), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < KEYS; i++) CHECK_INT(crowd.passed[i], CAPACITY);
  CHECK_INT(mg_limiter_facts(crowd.table, &crowd.rules, 50 * second).rejected, THREADS * TAKES - KEYS * CAPACITY);
  free(crowd.table);
}

RUN_TESTS({"hash_is_siphash", hash_is_siphash},
          {"a_bucket_gives_its_capacity_and_then_one_token_at_a_time",
           a_bucket_gives_its_capacity_and_then_one_token_at_a_time},
          {"an_unseen_key_begins_anew_after_its_time", an_unseen_key_begins_anew_after_its_time},
          {"a_full_table_forgets_what_is_nearest_to_full", a_full_table_forgets_what_is_nearest_to_full},
          {"as_many_keys_as_promised_keep_their_buckets", as_many_keys_as_promised_keep_their_buckets},
          {"rules_that_time_cannot_hold_are_refused", rules_that_time_cannot_hold_are_refused},
          {"many_threads_are_given_exactly_the_capacity", many_threads_are_given_exactly_the_capacity})
