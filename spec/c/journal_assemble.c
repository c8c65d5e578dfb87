/* journal_assemble.c - exchanges under way: how many, how old, how large, and whose process has died. */
#include "assemble.h"

#include "t.h"

enum { GIVEN_MAX = 64 };

struct given {
  unsigned count;
  struct {
    uint64_t number;
    enum mg_incomplete why;
    bool ended;
    char id[27];
    size_t body;
  } all[GIVEN_MAX];
  uint64_t refuse; /* number of an exchange that is not taken */
};

static bool give(void *context, const struct mg_found_exchange *exchange)
{
  struct given *given = context;
  if (exchange->number == given->refuse) return false;
  CHECK(given->count < GIVEN_MAX);
  given->all[given->count].number = exchange->number;
  given->all[given->count].why = exchange->incomplete;
  given->all[given->count].ended = exchange->ended;
  given->all[given->count].body = exchange->body[0].len;
  memcpy(given->all[given->count++].id, exchange->id, 27);
  return true;
}

static const struct mg_assembler_bounds bounds = {
    .age_us = 1000000, .open_max = 8, .bytes_max = 1 << 20, .body_max = 1000};

static struct mg_assembler *assembler_of(struct given *given)
{
  struct mg_assembler *assembler = mg_assembler_new(true, give, given);
  mg_assembler_bound(assembler, &bounds);
  return assembler;
}

static bool take_at(struct mg_assembler *assembler, uint32_t epoch, uint64_t lsn, enum mg_entry_type type,
                    uint64_t number, uint64_t time_us)
{
  static const char body[600];
  struct mg_scope scope = {0};
  const struct mg_origin_of origin = {.epoch = epoch, .lsn = lsn, .id_base = 1000, .segment = lsn / 10, .offset = lsn};
  const struct mg_entry entry = {.type = (uint8_t)type,
                                 .number = number,
                                 .time_us = time_us,
                                 .id = number,
                                 .status = 200,
                                 .content = mg_str(body, type == MG_ENTRY_BODY ? sizeof body : 0)};
  return mg_assembler_take(assembler, &origin, &scope, &entry);
}

static bool take(struct mg_assembler *assembler, uint64_t lsn, enum mg_entry_type type, uint64_t number)
{
  return take_at(assembler, 1, lsn, type, number, lsn * 1000);
}

TEST(the_oldest_is_what_is_needed)
{
  struct given given = {0};
  struct mg_assembler *assembler = assembler_of(&given);
  CHECK(!mg_assembler_oldest(assembler, 0));
  take(assembler, 1, MG_ENTRY_START, 1);
  take(assembler, 2, MG_ENTRY_START, 2);
  take(assembler, 3, MG_ENTRY_START, 3);
  take(assembler, 4, MG_ENTRY_END, 1);
  take(assembler, 5, MG_ENTRY_DROP, 2);
  CHECK_INT(mg_assembler_oldest(assembler, 0)->first.lsn, 3);
  CHECK_INT(given.count, 1);
  CHECK_INT(given.all[0].why, MG_COMPLETE);
  take(assembler, 6, MG_ENTRY_END, 3);
  CHECK(!mg_assembler_oldest(assembler, 0));
  CHECK_INT(mg_assembler_open(assembler), 0);
  mg_assembler_free(&assembler);
}

TEST(too_many_give_up_the_oldest)
{
  struct given given = {0};
  struct mg_assembler *assembler = assembler_of(&given);
  for (uint64_t i = 1; i <= 12; i++) take(assembler, i, MG_ENTRY_START, i);
  CHECK_INT(given.count, 4);
  for (unsigned i = 0; i < 4; i++) {
    CHECK_INT(given.all[i].number, i + 1);
    CHECK_INT(given.all[i].why, MG_CAPACITY_EVICTED);
  }
  CHECK_INT(mg_assembler_open(assembler), 8);
  mg_assembler_free(&assembler);
}

TEST(what_is_too_old_is_given_up_and_its_end_has_its_id)
{
  struct given given = {0};
  struct mg_assembler *assembler = assembler_of(&given);
  take_at(assembler, 1, 1, MG_ENTRY_START, 1, 1000000);
  take_at(assembler, 1, 2, MG_ENTRY_START, 2, 1900000);
  CHECK(mg_assembler_expire(assembler, 0));
  CHECK_INT(given.count, 0);
  take_at(assembler, 1, 3, MG_ENTRY_BODY, 2, 2000000);
  CHECK(mg_assembler_expire(assembler, 0)); /* by the journal's clock, not ours */
  CHECK_INT(given.count, 1);
  CHECK_INT(given.all[0].why, MG_TIMED_OUT);
  take_at(assembler, 1, 4, MG_ENTRY_BODY, 1, 2100000);
  take_at(assembler, 1, 5, MG_ENTRY_END, 1, 2200000);
  CHECK_INT(given.count, 2);
  CHECK_INT(given.all[1].why, MG_NO_START);
  CHECK(given.all[1].ended);
  CHECK(strcmp(given.all[0].id, given.all[1].id) == 0);
  CHECK(mg_assembler_expire(assembler, 3000000));
  CHECK_INT(given.count, 3);
  CHECK_INT(given.all[2].number, 2);
  mg_assembler_free(&assembler);
}

static void keep(void *context, const struct mg_given_up *given)
{
  *(struct mg_given_up *)context = *given;
}

TEST(what_was_given_up_is_known_after_a_restart)
{
  struct given given = {0}, after = {0};
  struct mg_given_up kept = {0};
  struct mg_assembler *assembler = assembler_of(&given);
  take(assembler, 1, MG_ENTRY_START, 1);
  CHECK(mg_assembler_expire(assembler, 9000000));
  mg_assembler_each_given_up(assembler, keep, &kept);
  mg_assembler_free(&assembler);
  CHECK_INT(kept.number, 1);
  assembler = assembler_of(&after);
  mg_assembler_restore_given_up(assembler, &kept);
  take(assembler, 1, MG_ENTRY_START, 1); /* read again */
  CHECK(!mg_assembler_oldest(assembler, 0));
  take(assembler, 2, MG_ENTRY_END, 1);
  CHECK_INT(after.count, 1);
  CHECK_INT(after.all[0].why, MG_NO_START);
  CHECK(strcmp(after.all[0].id, given.all[0].id) == 0);
  mg_assembler_free(&assembler);
}

TEST(a_dead_process_leaves_no_exchange_open)
{
  struct given given = {0};
  struct mg_assembler *assembler = assembler_of(&given);
  take_at(assembler, 1, 1, MG_ENTRY_START, 1, 1000);
  take_at(assembler, 1, 2, MG_ENTRY_START, 2, 1000);
  take_at(assembler, 2, 3, MG_ENTRY_START, 1, 2000);
  CHECK_INT(given.count, 2);
  CHECK_INT(given.all[0].why, MG_NO_END);
  CHECK_INT(given.all[1].why, MG_NO_END);
  CHECK_INT(mg_assembler_oldest(assembler, 0)->epoch, 2);
  mg_assembler_free(&assembler);
}

TEST(an_end_without_a_start_counts_unless_it_began_before_us)
{
  struct given given = {0};
  struct mg_assembler *assembler = assembler_of(&given);
  take(assembler, 100, MG_ENTRY_END, 4);
  take(assembler, 101, MG_ENTRY_START, 10);
  take(assembler, 102, MG_ENTRY_END, 5);
  CHECK_INT(given.count, 0);
  take(assembler, 103, MG_ENTRY_END, 11); /* its START is damaged */
  CHECK_INT(given.count, 1);
  CHECK_INT(given.all[0].why, MG_NO_START);
  CHECK_INT(strlen(given.all[0].id), 26);
  mg_assembler_free(&assembler);
  given.count = 0;
  assembler = assembler_of(&given);
  mg_assembler_resume(assembler, 0);
  take(assembler, 100, MG_ENTRY_END, 4);
  CHECK_INT(given.count, 1);
  mg_assembler_free(&assembler);
}

TEST(bodies_are_kept_up_to_a_bound)
{
  struct given given = {0};
  struct mg_assembler *assembler = assembler_of(&given);
  take(assembler, 1, MG_ENTRY_START, 1);
  for (uint64_t i = 2; i < 10; i++) take(assembler, i, MG_ENTRY_BODY, 1);
  take(assembler, 10, MG_ENTRY_END, 1);
  CHECK_INT(given.all[0].body, 1000);
  mg_assembler_free(&assembler);
}

TEST(what_is_refused_stays_needed)
{
  struct given given = {.refuse = 1};
  struct mg_assembler *assembler = assembler_of(&given);
  take(assembler, 1, MG_ENTRY_START, 1);
  take(assembler, 2, MG_ENTRY_START, 2);
  CHECK(!take(assembler, 3, MG_ENTRY_END, 1));
  CHECK_INT(mg_assembler_oldest(assembler, 0)->first.lsn, 1);
  CHECK(!take(assembler, 4, MG_ENTRY_END, 2)); /* nothing is taken from then on */
  CHECK_INT(given.count, 0);
  mg_assembler_free(&assembler);
}

RUN_TESTS({"the_oldest_is_what_is_needed", the_oldest_is_what_is_needed},
          {"too_many_give_up_the_oldest", too_many_give_up_the_oldest},
          {"what_is_too_old_is_given_up_and_its_end_has_its_id", what_is_too_old_is_given_up_and_its_end_has_its_id},
          {"what_was_given_up_is_known_after_a_restart", what_was_given_up_is_known_after_a_restart},
          {"a_dead_process_leaves_no_exchange_open", a_dead_process_leaves_no_exchange_open},
          {"an_end_without_a_start_counts_unless_it_began_before_us",
           an_end_without_a_start_counts_unless_it_began_before_us},
          {"bodies_are_kept_up_to_a_bound", bodies_are_kept_up_to_a_bound},
          {"what_is_refused_stays_needed", what_is_refused_stays_needed})
