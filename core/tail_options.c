/* tail_options.c - what a tailer is told.
 * Owns: nothing.   May call: script (for tailer.yaml), output (the form of its configuration), select.   Never: open a
 * journal.   Thread: the main thread, at start. */
#include "tail_options.h"

#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli.h"
#include "output.h"
#include "script.h"

enum { POLL_MS = 1000, OPEN_MAX = 250000, BYTES_MAX = 512 << 20, BODY_MAX = 64 << 20 };

static const uint64_t AGE_US = UINT64_C(300) * 1000000;

static const char usage[] =
    "usage: moongate tail [FOLDER | --config tailer.yaml] [OPTIONS]\n\n"
    "  --format NAME           json (unless given), combined, har, warc, curl, raw, or an output of yours\n"
    "  --output PATH           where to, in place of the standard output\n"
    "  --follow                go on with what comes, until SIGTERM or SIGINT\n"
    "  --from WHERE            start, end, or checkpoint (where there is one: else start)\n"
    "  --checkpoint FOLDER     remember there what was delivered; none: do not\n"
    "  --since T, --status 5xx, --path P, --route R\n"
    "                          only exchanges that match, as `moongate journal find`\n"
    "  --status-file FILE      keep there, as JSON, how far it is (status.json beside the checkpoint unless given)\n\n"
    "FOLDER is storage.work_dir of the gateway, \"journals\" unless given; only read access is needed.\n";

/* What was given on the command line, as it was. */
struct given {
  const char *folder, *config, *format, *output, *from, *checkpoint, *status_file;
};

static int wrong(const char *what, const char *found)
{
  fprintf(stderr, "moongate tail: %s%s%s\n", what, found ? ": " : "", found ? found : "");
  return MG_EXIT_USAGE;
}

enum { FORMAT, OUTPUT, FROM, CHECKPOINT, CONFIG, STATUS_FILE, SINCE, STATUS, PATH, ROUTE, FOLLOW, FOLLOW_SHORT };

static const struct mg_cli_option known[] = {
    [FORMAT] = {"--format", false}, [OUTPUT] = {"--output", false},         [FROM] = {"--from", false},
    [CONFIG] = {"--config", false}, [CHECKPOINT] = {"--checkpoint", false}, [STATUS_FILE] = {"--status-file", false},
    [SINCE] = {"--since", false},   [STATUS] = {"--status", false},         [PATH] = {"--path", false},
    [ROUTE] = {"--route", false},   [FOLLOW] = {"--follow", true},          [FOLLOW_SHORT] = {"-f", true},
};

static int read_selection(struct mg_selection *wanted, int option, const char *value)
{
  struct mg_str text = mg_str(value, strlen(value));
  switch (option) {
  case STATUS:
    return mg_selection_status(wanted, text) ? MG_EXIT_DONE : wrong("--status takes 5xx or 404, not", value);
  case SINCE:
    return mg_selection_since(wanted, text, (uint64_t)time(NULL) * 1000000)
               ? MG_EXIT_DONE
               : wrong("--since takes 10m, 2h, 1d or 2026-11-30T21:00:00Z, not", value);
  case PATH:
    return wanted->path = text, MG_EXIT_DONE;
  default:
    return wanted->route = text, MG_EXIT_DONE;
  }
}

static int read_option(struct given *given, struct mg_tail_options *options, int option, const char *value)
{
  const char **const texts[] = {
      [FORMAT] = &given->format,         [OUTPUT] = &given->output, [FROM] = &given->from,
      [CHECKPOINT] = &given->checkpoint, [CONFIG] = &given->config, [STATUS_FILE] = &given->status_file,
  };
  if (option >= FOLLOW) return options->follow = true, MG_EXIT_DONE;
  if (option >= SINCE) return read_selection(&options->wanted, option, value);
  *texts[option] = value;
  return MG_EXIT_DONE;
}

static int read_words(struct given *given, struct mg_tail_options *options, int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] != '-') {
      if (given->folder) return wrong("one folder at a time, not also", argv[i]);
      given->folder = argv[i];
      continue;
    }
    const char *value;
    int option = mg_cli_take("tail", known, sizeof known / sizeof known[0], argc, argv, &i, &value);
    if (option < 0) return MG_EXIT_USAGE;
    int code = read_option(given, options, option, value);
    if (code != MG_EXIT_DONE) return code;
  }
  if (given->config && (given->format || given->output || given->folder))
    return wrong("--config says what is read and where it goes; it excludes", given->folder   ? given->folder
                                                                              : given->format ? "--format"
                                                                                              : "--output");
  return MG_EXIT_DONE;
}

static int read_from(struct mg_tail_options *options, const char *from)
{
  static const char *const words[] = {"checkpoint", "start", "end"};
  for (int i = 0; i < 3; i++)
    if (strcmp(from, words[i]) == 0) return options->from = (enum mg_tail_from)i, MG_EXIT_DONE;
  return wrong("--from takes start, end or checkpoint, not", from);
}

/* One "name value" of what lua/tailer_conf.lua tells. */
static void take_setting(struct mg_tail_options *options, const char *name, const char *value)
{
  uint64_t number = strtoull(value, NULL, 10);
  if (strcmp(name, "journal_dir") == 0) snprintf(options->folder, sizeof options->folder, "%s", value);
  if (strcmp(name, "checkpoint_dir") == 0) snprintf(options->checkpoint, sizeof options->checkpoint, "%s", value);
  if (strcmp(name, "poll_interval") == 0) options->poll_ms = number;
  if (strcmp(name, "max_age") == 0) options->bounds.age_us = number * 1000;
  if (strcmp(name, "max_open") == 0) options->bounds.open_max = number;
  if (strcmp(name, "max_memory") == 0) options->bounds.bytes_max = number;
  if (strcmp(name, "max_body") == 0) options->bounds.body_max = number;
  if (strcmp(name, "outputs") == 0) mg_buf_append(&options->outputs, value, strlen(value) + 1);
}

static int read_config(struct mg_tail_options *options, const char *path)
{
  struct mg_buf told = {0}, error = {0};
  int code = MG_EXIT_FAILED;
  char *arguments[] = {(char *)path};
  lua_State *L = mg_script_open();
  if (!L) {
    fprintf(stderr, "moongate tail: cannot start Lua\n");
    return MG_EXIT_FAILED;
  }
  if (mg_script_run_command(L, "tailer_conf", 1, arguments, &code, &told, &error) != 0) {
    fprintf(stderr, "moongate tail: %.*s\n", (int)error.len, error.ptr);
    code = MG_EXIT_FAILED;
  }
  lua_close(L);
  mg_buf_append(&told, "", 1);
  for (char *line = told.ptr, *end; code == MG_EXIT_DONE && (end = strchr(line, '\n')); line = end + 1) {
    *end = '\0';
    char *value = strchr(line, ' ');
    if (!value) continue;
    *value = '\0';
    take_setting(options, line, value + 1);
  }
  mg_buf_free(&told);
  mg_buf_free(&error);
  return code;
}

void mg_tail_usage(void)
{
  fputs(usage, stdout);
}

int mg_tail_parse(struct mg_tail_options *options, int argc, char **argv)
{
  struct given given = {0};
  *options = (struct mg_tail_options){
      .folder = "journals",
      .poll_ms = POLL_MS,
      .bounds = {.age_us = AGE_US, .open_max = OPEN_MAX, .bytes_max = BYTES_MAX, .body_max = BODY_MAX}};
  int code = read_words(&given, options, argc, argv);
  if (code == MG_EXIT_DONE && given.from) code = read_from(options, given.from);
  if (code == MG_EXIT_DONE && given.config) code = read_config(options, given.config);
  if (code != MG_EXIT_DONE) return code;
  if (given.folder) snprintf(options->folder, sizeof options->folder, "%s", given.folder);
  if (given.checkpoint)
    snprintf(options->checkpoint, sizeof options->checkpoint, "%s",
             strcmp(given.checkpoint, "none") == 0 ? "" : given.checkpoint);
  if (!*options->checkpoint && given.from && options->from == MG_FROM_CHECKPOINT)
    return wrong("--from checkpoint needs --checkpoint FOLDER", NULL);
  if (given.status_file)
    snprintf(options->status, sizeof options->status, "%s", given.status_file);
  else if (*options->checkpoint)
    snprintf(options->status, sizeof options->status, "%.4000s/status.json", options->checkpoint);
  options->to_stdout = !given.config && !given.output;
  if (!given.config) mg_outputs_config(given.format ? given.format : "json", given.output, &options->outputs);
  return MG_EXIT_DONE;
}
