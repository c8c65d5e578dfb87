/* core_cli.c - options: forms, limits, refusals, near misses. */
#include "cli.h"

#include <string.h>

#include "t.h"

enum { WORDS_MAX = 8 };

/* Parses a NULL-terminated list of words. */
static int parse(struct mg_options *options, unsigned allowed, const char *const *words)
{
  char *argv[WORDS_MAX + 1] = {0};
  int argc = 0;
  while (words[argc] && argc < WORDS_MAX) {
    argv[argc] = (char *)words[argc];
    argc++;
  }
  return mg_cli_parse(options, allowed, argc, argv);
}

#define PARSE(options, allowed, ...) parse(options, allowed, (const char *const[]){__VA_ARGS__, NULL})

TEST(both_forms_are_read)
{
  struct mg_options options;
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port", "80", "--routes=a.lua", "--workers=3"), MG_EXIT_DONE);
  CHECK_INT(options.port, 80);
  CHECK_INT(options.workers, 3);
  CHECK_INT(options.management_port, MG_UNSET);
  CHECK_INT(strcmp(options.routes, "a.lua"), 0);
  CHECK(options.server == NULL);
}

TEST(a_flag_takes_no_value)
{
  struct mg_options options;
  CHECK_INT(PARSE(&options, MG_OPTION_JSON, "status", "--json"), MG_EXIT_DONE);
  CHECK(options.json);
  CHECK_INT(PARSE(&options, MG_OPTION_JSON, "status", "--json=yes"), MG_EXIT_USAGE);
}

/* What mg_cli_take makes of words: "INDEX VALUE NEXT", NEXT being the word that it stopped at. */
static void check_taken(const char *first, const char *second, int index, const char *value, int next)
{
  static const struct mg_cli_option known[] = {{"--since", false}, {"--follow", true}, {"-f", true}};
  char *argv[] = {"tail", (char *)first, (char *)second, NULL};
  const char *found;
  int i = 1;
  CHECK_INT(mg_cli_take("tail", known, 3, second ? 3 : 2, argv, &i, &found), index);
  if (index < 0) return;
  CHECK_INT(i, next);
  CHECK(value ? found && strcmp(found, value) == 0 : !found);
}

TEST(an_option_is_taken_with_its_value)
{
  check_taken("--since", "1h", 0, "1h", 2);
  check_taken("--since=1h", "x", 0, "1h", 1);
  check_taken("--since=a=b", NULL, 0, "a=b", 1);
  check_taken("--follow", "x", 1, NULL, 1);
  check_taken("-f", NULL, 2, NULL, 1);
}

TEST(an_option_without_its_value_is_refused)
{
  check_taken("--since", NULL, -1, NULL, 0);
  check_taken("--since", "", -1, NULL, 0);
  check_taken("--since=", "1h", -1, NULL, 0);
  check_taken("--follow=", NULL, -1, NULL, 0);
  check_taken("--follow=1", NULL, -1, NULL, 0);
  check_taken("--sinc", "1h", -1, NULL, 0);
  check_taken("--since1", "1h", -1, NULL, 0);
  check_taken("--", NULL, -1, NULL, 0);
  check_taken("-", NULL, -1, NULL, 0);
}

TEST(help_is_asked_for_anywhere)
{
  CHECK(mg_cli_asks_for_help(3, (char *[]){"run", "--port=0", "-h"}));
  CHECK(mg_cli_asks_for_help(2, (char *[]){"run", "--help"}));
  CHECK(!mg_cli_asks_for_help(2, (char *[]){"--help", "-H"}));
}

TEST(numbers_have_limits)
{
  struct mg_options options;
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--workers", "0"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--workers", "257"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port", "65536"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port", "-1"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port", "80x"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port", ""), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port", "99999999999999999999"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port", "0"), MG_EXIT_DONE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--workers", "256"), MG_EXIT_DONE);
}

TEST(what_a_command_does_not_take_is_refused)
{
  struct mg_options options;
  CHECK_INT(PARSE(&options, MG_OPTIONS_CONTROL, "stop", "--workers", "2"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--prot", "80"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "routes.yaml"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--port"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "--routes="), MG_EXIT_USAGE);
}

TEST(the_nearest_word_is_near)
{
  static const char *const words[] = {"run", "reload", "status", "stop"};
  CHECK_INT(strcmp(mg_cli_nearest("relaod", words, 4, sizeof words[0]), "reload"), 0);
  CHECK_INT(strcmp(mg_cli_nearest("statsu", words, 4, sizeof words[0]), "status"), 0);
  CHECK_INT(strcmp(mg_cli_nearest("rn", words, 4, sizeof words[0]), "run"), 0);
  CHECK(mg_cli_nearest("defenestrate", words, 4, sizeof words[0]) == NULL);
  char longer[200];
  memset(longer, 'x', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  CHECK(mg_cli_nearest(longer, words, 4, sizeof words[0]) == NULL);
}

TEST(words_keep_their_order)
{
  enum { WORD_OPTIONS = MG_OPTION_WORDS | MG_OPTION_ROUTES };
  struct mg_options options;
  CHECK_INT(PARSE(&options, WORD_OPTIONS, "explain", "GET", "--routes=a", "/", "-H", "--a: b"), MG_EXIT_DONE);
  CHECK_INT(options.word_count, 4);
  CHECK_INT(strcmp(options.words[1], "/"), 0);
  CHECK_INT(strcmp(options.words[2], "-H"), 0);
  CHECK_INT(strcmp(options.words[3], "--a: b"), 0);
  CHECK_INT(PARSE(&options, WORD_OPTIONS, "explain", "-H"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, WORD_OPTIONS, "explain", "-X", "a"), MG_EXIT_USAGE);
  CHECK_INT(PARSE(&options, MG_OPTIONS_RUN, "run", "-H", "a: b"), MG_EXIT_USAGE);
  char *many[MG_WORDS_MAX + 2] = {"explain"};
  for (int i = 1; i < MG_WORDS_MAX + 2; i++) many[i] = "a";
  CHECK_INT(mg_cli_parse(&options, WORD_OPTIONS, MG_WORDS_MAX + 1, many), MG_EXIT_DONE);
  CHECK_INT(mg_cli_parse(&options, WORD_OPTIONS, MG_WORDS_MAX + 2, many), MG_EXIT_USAGE);
}

RUN_TESTS({"both forms are read", both_forms_are_read}, {"a flag takes no value", a_flag_takes_no_value},
          {"an option is taken with its value", an_option_is_taken_with_its_value},
          {"an option without its value is refused", an_option_without_its_value_is_refused},
          {"help is asked for anywhere", help_is_asked_for_anywhere}, {"numbers have limits", numbers_have_limits},
          {"what a command does not take is refused", what_a_command_does_not_take_is_refused},
          {"words keep their order", words_keep_their_order}, {"the nearest word is near", the_nearest_word_is_near})
