/* cli.h - the command line: options of all sub-commands in one table, faults named with the nearest known word.
 * Thread: the main thread, at start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum mg_exit { MG_EXIT_DONE = 0, MG_EXIT_FAILED = 1, MG_EXIT_USAGE = 2 };

/* Options as bits, so that each sub-command says which it takes. */
enum mg_option {
  MG_OPTION_ROUTES = 1 << 0,
  MG_OPTION_SERVER = 1 << 1,
  MG_OPTION_HOST = 1 << 2,
  MG_OPTION_PORT = 1 << 3,
  MG_OPTION_MANAGEMENT_PORT = 1 << 4,
  MG_OPTION_CONTROL = 1 << 5,
  MG_OPTION_WORKERS = 1 << 6,
  MG_OPTION_BUNDLE_FD = 1 << 7,
  MG_OPTION_LOAD_LIMIT = 1 << 8,
  MG_OPTION_JSON = 1 << 9,
  MG_OPTION_SLOT = 1 << 10,
  MG_OPTION_WORDS = 1 << 11, /* words that are no options, and -H with its value */
  MG_OPTION_CLIENT = 1 << 12,
  MG_OPTION_MARKDOWN = 1 << 13,
  MG_OPTION_LISTENERS = 1 << 25,
  MG_OPTION_JOURNAL = 1 << 24,

  MG_OPTIONS_RUN = MG_OPTION_JOURNAL | MG_OPTION_ROUTES | MG_OPTION_SERVER | MG_OPTION_HOST | MG_OPTION_PORT |
                   MG_OPTION_MANAGEMENT_PORT | MG_OPTION_CONTROL | MG_OPTION_WORKERS,
  MG_OPTIONS_CHECK = MG_OPTIONS_RUN | MG_OPTION_BUNDLE_FD | MG_OPTION_LOAD_LIMIT,
  MG_OPTIONS_CONTROL = MG_OPTION_PORT | MG_OPTION_CONTROL
};

enum { MG_UNSET = -1, MG_WORDS_MAX = 64 };

/* Texts are borrowed from argv and the environment; numbers that were not given are MG_UNSET. */
struct mg_options {
  const char *routes;
  const char *server; /* NULL: none was named and there is no server.yaml */
  const char *host;
  const char *control;
  const char *client;
  const char *journal;
  long port;
  long management_port;
  long workers;
  long bundle_fd;
  long load_limit_ms;
  long slot;
  long listeners;
  bool json;
  bool markdown;
  unsigned word_count;
  const char *words[MG_WORDS_MAX]; /* in order; -H is a word before its value */
};

/** Reads argv[1..] (argv[0] is the sub-command). allowed is a set of enum mg_option. MG_EXIT_DONE, or MG_EXIT_USAGE
 * after one message on stderr. */
int mg_cli_parse(struct mg_options *options, unsigned allowed, int argc, char **argv);

/** Fills routes and server where they were not given: from MOONGATE_ROUTES_CONFIG and MOONGATE_SERVER_CONFIG, then
 * routes.yaml (else routes.lua) and, if it exists, server.yaml in the working directory. A server file that was named
 * must exist. MG_EXIT_DONE, or MG_EXIT_FAILED after one message on stderr. */
int mg_cli_files(struct mg_options *options);

/** Of count words (one every stride bytes, each a const char * at the start), the one nearest to word; NULL when none
 * is near. */
const char *mg_cli_nearest(const char *word, const void *words, size_t count, size_t stride);

/* An option of a command that reads its words itself. */
struct mg_cli_option {
  const char *name; /* first, for mg_cli_nearest */
  bool flag;        /* it takes no value */
};

/** Which of count options (the ones known) argv[*i] is: its index, with its value in *value (borrowed), which stands
 * behind a `=` or is the next word, *i then. -1 after one message on stderr: it is unknown, or has a value too many or
 * too few. */
int mg_cli_take(const char *command, const struct mg_cli_option *known, size_t count, int argc, char **argv, int *i,
                const char **value);

/** Whether --help or -h is among the words behind the command. */
bool mg_cli_asks_for_help(int argc, char **argv);
