/* t.h - the C unit tests' few words. A test file defines TEST(name) { ... } and ends with RUN_TESTS(...).
 * A failed check prints both values and ends the process, so that a sanitizer or leak report cannot hide it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name) static void name(void)

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

#define CHECK_INT(got, wanted)                                                                      \
  do {                                                                                              \
    long long got_ = (long long)(got), wanted_ = (long long)(wanted);                               \
    if (got_ != wanted_) {                                                                          \
      fprintf(stderr, "%s:%d: %s is %lld, wanted %lld\n", __FILE__, __LINE__, #got, got_, wanted_); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

/* Compares a struct mg_str with a C string. */
#define CHECK_STR(got, wanted)                                                                                     \
  do {                                                                                                             \
    struct mg_str got_ = (got);                                                                                    \
    const char *wanted_ = (wanted);                                                                                \
    if (got_.len != strlen(wanted_) || memcmp(got_.ptr, wanted_, got_.len) != 0) {                                 \
      fprintf(stderr, "%s:%d: %s is \"%.*s\", wanted \"%s\"\n", __FILE__, __LINE__, #got, (int)got_.len, got_.ptr, \
              wanted_);                                                                                            \
      exit(1);                                                                                                     \
    }                                                                                                              \
  } while (0)

struct t_case {
  const char *name;
  void (*run)(void);
};

/* RUN_TESTS({"name", function}, ...) as the last line of a test file. */
#define RUN_TESTS(...)                                            \
  int main(void)                                                  \
  {                                                               \
    static const struct t_case cases[] = {__VA_ARGS__};           \
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) { \
      fprintf(stderr, "%s\n", cases[i].name);                     \
      cases[i].run();                                             \
    }                                                             \
    return 0;                                                     \
  }
