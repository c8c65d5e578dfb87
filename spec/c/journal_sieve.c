/* journal_sieve.c - which bodies are kept apart: noise, and text in which nothing comes again; not what repeats within
 * itself or from one body to the next. */
#include "sieve.h"

#include <stdio.h>

#include "t.h"

enum { BODY = 2000 };

static uint32_t state = 1;

static uint32_t dice(void)
{
  state = state * 1664525u + 1013904223u;
  return state >> 16;
}

static struct mg_str noise(char out[BODY])
{
  for (int i = 0; i < BODY; i++) out[i] = (char)dice();
  return mg_str(out, BODY);
}

static struct mg_str letters(char out[BODY])
{
  for (int i = 0; i < BODY; i++) out[i] = (char)(i % 9 ? 'a' + dice() % 26 : ' ');
  return mg_str(out, BODY);
}

/* A list of records: half of it is the names of fields. */
static struct mg_str records(char out[BODY])
{
  int len = 0;
  while (len < BODY - 100)
    len += snprintf(out + len, 100, "{\"identifier\":%u,\"available\":true,\"category\":\"garden\",\"price\":%u},",
                    dice(), dice() % 1000);
  return mg_str(out, (size_t)len);
}

/* Nothing in one of them comes twice, nearly everything in the next. */
static struct mg_str form(char out[BODY])
{
  int len = 0;
  for (int i = 0; len < BODY - 40; i++)
    len += snprintf(out + len, 40, "%04x%04x%04x:%03u ", i * 40503 & 0xffff, i * 30011 & 0xffff, i * 9973 & 0xffff,
                    dice() % 1000);
  return mg_str(out, (size_t)len);
}

static int count_apart(struct mg_sieve *sieve, uint64_t kind, struct mg_str (*make)(char out[BODY]), int count)
{
  char body[BODY];
  int apart = 0;
  for (int i = 0; i < count; i++) apart += mg_sieve_keeps_apart(sieve, kind, make(body));
  return apart;
}

TEST(noise_and_letters_are_kept_apart)
{
  struct mg_sieve *sieve = mg_sieve_new(1);
  CHECK_INT(count_apart(sieve, 1, noise, 1000), 1000);
  CHECK_INT(count_apart(sieve, 2, letters, 1000), 1000);
  mg_sieve_free(&sieve);
}

TEST(what_repeats_is_compressed)
{
  struct mg_sieve *sieve = mg_sieve_new(1);
  CHECK_INT(count_apart(sieve, 1, records, 1000), 0);
  int apart = count_apart(sieve, 2, form, 1000);
  CHECK(apart >= 1 && apart < 20); /* the first trial has nothing to compare with */
  mg_sieve_free(&sieve);
}

TEST(kinds_do_not_disturb_each_other_and_verdicts_change)
{
  struct mg_sieve *sieve = mg_sieve_new(1);
  for (int i = 0; i < 100; i++) {
    CHECK_INT(count_apart(sieve, 1, noise, 1), 1);
    CHECK_INT(count_apart(sieve, 3, records, 1), 0);
  }
  CHECK_INT(count_apart(sieve, 1, records, 2000) < 300, 1); /* the next trial sees it */
  mg_sieve_free(&sieve);
}

TEST(small_bodies_are_always_compressed)
{
  struct mg_sieve *sieve = mg_sieve_new(1);
  char body[BODY];
  for (int i = 0; i < 100; i++) CHECK(!mg_sieve_keeps_apart(sieve, 1, mg_str(noise(body).ptr, 511)));
  CHECK(!mg_sieve_keeps_apart(sieve, 1, mg_str(body, 0)));
  mg_sieve_free(&sieve);
}

RUN_TESTS({"sieve.apart", noise_and_letters_are_kept_apart}, {"sieve.compressed", what_repeats_is_compressed},
          {"sieve.kinds", kinds_do_not_disturb_each_other_and_verdicts_change},
          {"sieve.small", small_bodies_are_always_compressed})
