/* core_err.c - the list of outcomes is complete and its words can stand in a metric or a log line. */
#include "err.h"

#include "mem.h"
#include "t.h"

static struct mg_str text(const char *string)
{
  return mg_str(string, strlen(string));
}

TEST(outcomes_that_others_rely_on)
{
  CHECK_INT(mg_err_status(MG_ENOROUTE), 404);
  CHECK_STR(text(mg_err_word(MG_ENOROUTE)), "no_route");
  CHECK_INT(mg_err_status(MG_EHEADLARGE), 431);
  CHECK_INT(mg_err_status(MG_EUPTIMEOUT), 504);
  CHECK_INT(mg_err_status(MG_ECLOSED), 0);
  CHECK_STR(text(mg_err_word(MG_OK)), "ok");
}

TEST(every_outcome_has_a_status_a_word_and_a_sentence)
{
  for (int err = MG_E_BASE + 1; err < MG_E_END; err++) {
    int status = mg_err_status(err);
    const char *word = mg_err_word(err), *sentence = mg_err_sentence(err);
    CHECK(err < 0);
    CHECK(status == 0 || (status >= 400 && status <= 599));
    CHECK(*word && strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(word));
    CHECK(sentence[strlen(sentence) - 1] == '.');
    for (int other = MG_E_BASE + 1; other < err; other++) CHECK(strcmp(word, mg_err_word(other)) != 0);
  }
}

TEST(indexes_are_dense)
{
  CHECK_INT(mg_err_index(MG_E_BASE + 1), 0);
  CHECK_INT(mg_err_index(MG_E_END - 1), MG_ERR_COUNT - 1);
}

TEST(numbers_that_are_no_outcome)
{
  static const int strange[] = {1, -1, MG_E_BASE, MG_E_END, -1000000};
  for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
    CHECK_INT(mg_err_status(strange[i]), 0);
    CHECK_STR(text(mg_err_word(strange[i])), "unknown");
  }
}

RUN_TESTS({"outcomes that others rely on", outcomes_that_others_rely_on},
          {"every outcome has a status, a word and a sentence", every_outcome_has_a_status_a_word_and_a_sentence},
          {"indexes are dense", indexes_are_dense}, {"numbers that are no outcome", numbers_that_are_no_outcome})
