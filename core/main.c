/* main.c - the sub-commands by name.
 * Owns: nothing.   May call: every command's main.   Never: do a command's work.   Thread: the main thread. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "builder.h"
#include "cli.h"
#include "command.h"
#include "demo.h"
#include "lookup.h"
#include "master.h"
#include "origin.h"
#include "output_command.h"
#include "reap_command.h"
#include "tail.h"
#include "test_command.h"
#include "worker.h"

struct command {
  const char *name; /* first, for mg_cli_nearest */
  int (*main)(int argc, char **argv);
  const char *module; /* of a command that is written in Lua */
  const char *arguments;
  const char *help; /* NULL: not for people */
  unsigned more;    /* options of a command in Lua beside those of check */
};

static int version_main(int argc, char **argv)
{
  struct mg_options options;
  int code = mg_cli_parse(&options, 0, argc, argv);
  if (code == MG_EXIT_DONE) puts("moongate " MG_VERSION);
  return code;
}

static int help_main(int argc, char **argv);

#define RUN_OPTIONS                                                                                             \
  "[--routes FILE] [--server FILE] [--host H] [--port N] [--management-port N] [--control PATH] [--workers N] " \
  "[--journal FOLDER]"

static const struct command commands[] = {
    {"run", mg_master_main, NULL, RUN_OPTIONS, "start a gateway", 0},
    {"check", NULL, "check", RUN_OPTIONS, "validate and compile the configuration, print the routes", 0},
    {"explain", NULL, "explain", "METHOD URL [-H 'NAME: VALUE']... [--client ADDRESS] [--routes FILE] [--server FILE]",
     "which route such a request takes, and why not the ones before", MG_OPTION_WORDS | MG_OPTION_CLIENT},
    {"filters", NULL, "catalog", "[NAME | --markdown] [--routes FILE]",
     "the filters that are found, where, and what they take", MG_OPTION_WORDS | MG_OPTION_MARKDOWN},
    {"schema", NULL, "json_schema", "[routes | server | tailer | json-line] [--routes FILE]",
     "JSON Schema of the two files, for editors, or of the lines of the output json",
     MG_OPTION_WORDS},
    {"demo", mg_demo_main, NULL, "[--port N]", "a gateway with an origin and a filter to play with", 0},
    {"origin", mg_origin_main, NULL, "--port N [--host H]", "a small origin server for trying things out", 0},
    {"reload", mg_command_main, NULL, "[--port N | --control PATH]", "load the routes and filters again", 0},
    {"status", mg_command_main, NULL, "[--port N | --control PATH] [--json]", "what a running gateway is doing", 0},
    {"stop", mg_command_main, NULL, "[--port N | --control PATH]", "finish what runs and end", 0},
    {"journal", mg_output_journal_main, NULL,
     "ls | show ID | find [--status 5xx] [--path P] [--since T] [--route R] | cat | verify  [--format NAME] [FOLDER]",
     "what was recorded", 0},
    {"tail", mg_tail_main, NULL,
     "[FOLDER | --config tailer.yaml] [--format NAME] [--output PATH] [--follow] [--from start|end|checkpoint] "
     "[--checkpoint FOLDER]",
     "hand the exchanges of a journal over, as they come", 0},
    {"reap", mg_reap_main, NULL,
     "[FOLDER] [--ttl 7d] [--tailer CHECKPOINT]... [--min-age 1h] [--max-size N] [--min-free N] [--dry-run] [--poll 1m]",
     "delete what a journal need not keep", 0},
    {"test", mg_test_main, NULL, "[BUSTED ARGUMENTS]", "run specs of filters, with the kit `moongate.test`", 0},
    {"version", version_main, NULL, "", "print the version", 0},
    {"help", help_main, NULL, "", "print this", 0},
    {"worker", mg_worker_main, NULL, "", NULL, 0},
    {"lookup", mg_lookup_main, NULL, "", NULL, 0},
};
enum { COMMANDS = sizeof commands / sizeof commands[0], HIDDEN = 2 };

static void print_command(FILE *out, const struct command *command)
{
  fprintf(out, "  %-8s %s\n", command->name, command->help);
  if (*command->arguments) fprintf(out, "           %s\n", command->arguments);
}

static void print_usage(FILE *out)
{
  fputs("usage: moongate COMMAND [OPTIONS]\n\n", out);
  for (int i = 0; i < COMMANDS; i++)
    if (commands[i].help) print_command(out, &commands[i]);
  fputs("\nFiles: routes.yaml (or routes.lua) and, if it exists, server.yaml in the working directory, or\n"
        "MOONGATE_ROUTES_CONFIG and MOONGATE_SERVER_CONFIG. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.\n",
        out);
}

static int help_main(int argc, char **argv)
{
  (void)argc;
  (void)argv;
  print_usage(stdout);
  return MG_EXIT_DONE;
}

/* These say more of themselves than their lines here; busted has a help of its own. */
static bool has_help(const struct command *command)
{
  return command->main == mg_output_journal_main || command->main == mg_tail_main || command->main == mg_reap_main ||
         command->main == mg_test_main;
}

/* A demonstration that is killed cannot end its children. */
static void end_with_demonstration(void)
{
  const char *pid = getenv(MG_PARENT_VARIABLE);
  if (!pid) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != (pid_t)strtol(pid, NULL, 10)) _exit(MG_EXIT_FAILED); /* it has gone before we could ask */
  unsetenv(MG_PARENT_VARIABLE);
}

int main(int argc, char **argv)
{
  prctl(PR_SET_NAME, "moongate"); /* children are started from /proc/self/exe and would be called "exe" */
#ifdef __x86_64__
  if (!__builtin_cpu_supports("sse4.2")) {
    fprintf(stderr, "moongate: this build needs a processor with SSE 4.2\n");
    return MG_EXIT_FAILED;
  }
#endif
  end_with_demonstration();
  if (argc < 2) {
    print_usage(stderr);
    return MG_EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
  if (strcmp(name, "--version") == 0) name = "version";
  for (int i = 0; i < COMMANDS; i++) {
    if (strcmp(commands[i].name, name) != 0) continue;
    if (mg_cli_asks_for_help(argc - 1, argv + 1) && commands[i].help && !has_help(&commands[i])) {
      print_command(stdout, &commands[i]);
      return MG_EXIT_DONE;
    }
    if (commands[i].module) return mg_builder_main(commands[i].module, commands[i].more, argc - 1, argv + 1);
    argv[1] = (char *)name;
    return commands[i].main(argc - 1, argv + 1);
  }
  const char *nearest = mg_cli_nearest(name, commands, COMMANDS - HIDDEN, sizeof commands[0]);
  fprintf(stderr, "moongate: unknown command %s%s%s%s\n", name, nearest ? ": did you mean " : "; see moongate help",
          nearest ? nearest : "", nearest ? "?" : "");
  return MG_EXIT_USAGE;
}
