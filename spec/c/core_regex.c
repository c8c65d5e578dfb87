/* core_regex.c - whole and found, groups, replacements, patterns that are none, and patterns that would never end. */
#include "regex.h"

#include <time.h>

#include "err.h"
#include "mem.h"
#include "t.h"

static struct mg_regex *regex_of(const char *pattern, bool whole)
{
  char error[256] = "";
  struct mg_regex *regex = mg_regex_new(pattern, strlen(pattern), whole, error, sizeof error);
  if (!regex) fprintf(stderr, "%s: %s\n", pattern, error);
  CHECK(regex != NULL);
  return regex;
}

/* Tests a copy that ends where the text ends, so that a read past it is seen. */
static int test(struct mg_regex *regex, const char *text, size_t len, size_t from)
{
  char *copy = malloc(len ? len : 1);
  memcpy(copy, text, len);
  int result = mg_regex_test(regex, copy, len, from);
  free(copy);
  return result;
}

TEST(whole_texts)
{
  static const struct {
    const char *pattern, *text;
    int matches;
  } rows[] = {{"a|ab", "ab", 1},
              {"a|ab", "abc", 0},
              {"/v\\d+/.*", "/v12/x", 1},
              {"/v\\d+/.*", "/x/v12/x", 0},
              {"", "", 1},
              {"", "a", 0},
              {"(?i)abc", "aBC", 1},
              {"abc", "aBC", 0},
              {"^abc$", "abc", 1},
              {"^abc$", "abc\n", 0},
              {".*", "a\nb", 0},
              {"(?s).*", "a\nb", 1},
              {"\xc3\xa9+", "\xc3\xa9\xc3\xa9", 1},
              {".", "\xc3\xa9", 1},
              {"[^a]", "\xff", 0},
              {"a.b",
               "a\xff"
               "b",
               0},
              {"\\w", "\xc3\xa9", 0},
              {"(?<=a{1})b", "b", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct mg_regex *regex = regex_of(rows[i].pattern, true);
    int got = test(regex, rows[i].text, strlen(rows[i].text), 0);
    if (got != rows[i].matches) fprintf(stderr, "row %zu: %s\n", i, rows[i].pattern);
    CHECK_INT(got, rows[i].matches);
    mg_regex_release(regex);
  }
}

TEST(found_in_a_text)
{
  struct mg_regex *regex = regex_of("(b)(x)?(?<tail>c)", false);
  CHECK_INT(mg_regex_group_count(regex), 3);
  CHECK_INT(mg_regex_group_number(regex, "tail", 4), 3);
  CHECK_INT(mg_regex_group_number(regex, "tai", 3), -1);
  CHECK_INT(test(regex, "abcabc", 6, 0), 1);
  CHECK_INT(mg_regex_group_start(regex, 0), 1);
  CHECK_INT(mg_regex_group_end(regex, 0), 3);
  CHECK_INT(mg_regex_group_start(regex, 2), -1);
  CHECK_INT(mg_regex_group_end(regex, 3), 3);
  CHECK_INT(mg_regex_group_start(regex, 4), -1);
  CHECK_INT(test(regex, "abcabc", 6, 3), 1);
  CHECK_INT(mg_regex_group_start(regex, 0), 4);
  CHECK_INT(test(regex, "abcabc", 6, 5), 0);
  CHECK_INT(test(regex, "abcabc", 6, 7), 0);
  CHECK_INT(mg_regex_test(NULL, "a", 1, 0), 0);
  mg_regex_release(regex);
}

TEST(replacements)
{
  static const struct {
    const char *pattern, *text, *replacement;
    int count;
    const char *result;
  } rows[] = {{"a", "banana", "o", 3, "bonono"},
              {"/v(\\d)", "/v1/v2", "/w${1}", 2, "/w1/w2"},
              {"(x)?y", "yxy", "<${1}>", 2, "<><x>"},
              {"a", "a", "$$1", 1, "$1"},
              {"", "ab", "-", 3, "-a-b-"},
              {"q", "abc", "x", 0, NULL},
              {"a", "a", "${9}", MG_EINTERNAL, NULL},
              {"a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0123456789", 40,
               "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
               "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
               "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
               "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct mg_regex *regex = regex_of(rows[i].pattern, false);
    const char *out = NULL;
    size_t len = 0;
    int count = mg_regex_replace(regex, rows[i].text, strlen(rows[i].text), rows[i].replacement,
                                 strlen(rows[i].replacement), &out, &len);
    CHECK_INT(count, rows[i].count);
    if (rows[i].result) CHECK_STR(mg_str(out, len), rows[i].result);
    mg_regex_release(regex);
  }
}

TEST(what_is_no_pattern)
{
  static const struct {
    const char *pattern, *error;
  } rows[] = {{"a(b", "missing closing parenthesis at character 4"},
              {"[a", "missing terminating ] for character class at character 3"},
              {"*", "quantifier does not follow a repeatable item at character 1"},
              {"\\C", "using \\C is disabled by the application at character 3"},
              {"\xff", "UTF-8 error: illegal byte (0xfe or 0xff) at character 1"}};
  char error[256];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    CHECK(mg_regex_new(rows[i].pattern, strlen(rows[i].pattern), true, error, sizeof error) == NULL);
    CHECK_STR(mg_str(error, strlen(error)), rows[i].error);
  }
  char *longer = malloc(MG_REGEX_PATTERN_BYTES_MAX + 1);
  memset(longer, 'a', MG_REGEX_PATTERN_BYTES_MAX + 1);
  CHECK(mg_regex_new(longer, MG_REGEX_PATTERN_BYTES_MAX + 1, true, error, sizeof error) == NULL);
  free(longer);
}

static double seconds_of(struct mg_regex *regex, const char *text, size_t len, int wanted)
{
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  CHECK_INT(test(regex, text, len, 0), wanted);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

TEST(patterns_that_would_never_end)
{
  static const char *const patterns[] = {"(a+)+b", "(a|aa)+$", "(.*a){12}", "(?:a?){40}a{40}", "(x+x+)+y|(a*)*c"};
  char text[41];
  memset(text, 'a', 40);
  text[40] = '!';
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    struct mg_regex *regex = regex_of(patterns[i], true);
    clock_t began = clock();
    int result = test(regex, text, sizeof text, 0);
    CHECK(result == 0 || result == MG_EREGEX);
    CHECK((double)(clock() - began) / CLOCKS_PER_SEC < 1);
    mg_regex_release(regex);
  }
  struct mg_regex *regex = regex_of("(a+)+[bc]", true);
  CHECK(seconds_of(regex, text, sizeof text, MG_EREGEX) < 1);
  CHECK_INT(test(regex, "aaab", 4, 0), 1); /* and it is as good as before */
  const char *out;
  size_t out_len;
  CHECK_INT(mg_regex_replace(regex, text, sizeof text, "x", 1, &out, &out_len), MG_EREGEX);
  mg_regex_release(regex);
}

TEST(replacements_have_a_largest_result)
{
  enum { TEXT = 100 * 1000, MORE = 1000 };
  char *text = malloc(TEXT), *more = malloc(MORE);
  memset(text, 'a', TEXT);
  memset(more, 'b', MORE);
  struct mg_regex *regex = regex_of("a", false);
  const char *out;
  size_t len;
  CHECK_INT(mg_regex_replace(regex, text, TEXT, more, MORE, &out, &len), MG_EREGEX);
  CHECK_INT(mg_regex_replace(regex, text, TEXT, more, 100, &out, &len), TEXT);
  CHECK_INT((int)len, TEXT * 100);
  CHECK_INT(mg_regex_replace(regex, "aa", 2, "b", 1, &out, &len), 2);
  CHECK(len == 2 && memcmp(out, "bb", 2) == 0);
  mg_regex_release(regex);
  free(text);
  free(more);
}

TEST(deep_patterns_get_a_deeper_stack)
{
  enum { LONG = 4000 };
  char *text = malloc(LONG);
  memset(text, 'a', LONG);
  struct mg_regex *regex = regex_of("(?:(a)|b)*", true);
  CHECK_INT(test(regex, text, LONG, 0), 1);
  CHECK_INT(test(regex, text, LONG, 0), 1);
  mg_regex_release(regex);
  free(text);
}

RUN_TESTS({"whole texts", whole_texts}, {"found in a text", found_in_a_text}, {"replacements", replacements},
          {"largest result", replacements_have_a_largest_result}, {"what is no pattern", what_is_no_pattern},
          {"patterns that would never end", patterns_that_would_never_end},
          {"deep patterns get a deeper stack", deep_patterns_get_a_deeper_stack})
