/* cli.c - options as a table, read into struct mg_options.
 * Owns: nothing.   May call: libc.   Never: start anything.   Thread: the main thread. */
#include "cli.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum option_kind { OPTION_TEXT, OPTION_NUMBER, OPTION_FLAG, OPTION_WORD };

struct option_row {
  const char *name; /* first, for mg_cli_nearest */
  unsigned bit;
  enum option_kind kind;
  size_t offset;
  long min, max;
};

#define AT(field) offsetof(struct mg_options, field)
static const struct option_row rows[] = {
    {"--routes", MG_OPTION_ROUTES, OPTION_TEXT, AT(routes), 0, 0},
    {"--server", MG_OPTION_SERVER, OPTION_TEXT, AT(server), 0, 0},
    {"--host", MG_OPTION_HOST, OPTION_TEXT, AT(host), 0, 0},
    {"--port", MG_OPTION_PORT, OPTION_NUMBER, AT(port), 0, 65535},
    {"--management-port", MG_OPTION_MANAGEMENT_PORT, OPTION_NUMBER, AT(management_port), 0, 65535},
    {"--control", MG_OPTION_CONTROL, OPTION_TEXT, AT(control), 0, 0},
    {"--journal", MG_OPTION_JOURNAL, OPTION_TEXT, AT(journal), 0, 0},
    {"--workers", MG_OPTION_WORKERS, OPTION_NUMBER, AT(workers), 1, 256},
    {"--bundle-fd", MG_OPTION_BUNDLE_FD, OPTION_NUMBER, AT(bundle_fd), 3, 1024},
    {"--load-limit", MG_OPTION_LOAD_LIMIT, OPTION_NUMBER, AT(load_limit_ms), 1, 86400000},
    {"--json", MG_OPTION_JSON, OPTION_FLAG, AT(json), 0, 0},
    {"--slot", MG_OPTION_SLOT, OPTION_NUMBER, AT(slot), 0, 255},
    {"--listeners", MG_OPTION_LISTENERS, OPTION_NUMBER, AT(listeners), 1, 1024},
    {"--client", MG_OPTION_CLIENT, OPTION_TEXT, AT(client), 0, 0},
    {"--markdown", MG_OPTION_MARKDOWN, OPTION_FLAG, AT(markdown), 0, 0},
    {"-H", MG_OPTION_WORDS, OPTION_WORD, 0, 0, 0},
};
#undef AT
enum { ROW_COUNT = sizeof rows / sizeof rows[0], WORD_MAX = 64 };

static size_t least(size_t a, size_t b)
{
  return a < b ? a : b;
}

/* Edits (insert, remove, replace) between two short words; SIZE_MAX where one is not short. */
static size_t distance(const char *a, const char *b)
{
  size_t a_len = strlen(a), b_len = strlen(b);
  size_t row[WORD_MAX + 1];
  if (a_len > WORD_MAX || b_len > WORD_MAX) return SIZE_MAX;
  for (size_t j = 0; j <= b_len; j++) row[j] = j;
  for (size_t i = 1; i <= a_len; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_len; j++) {
      size_t above = row[j];
      row[j] = least(least(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
      diagonal = above;
    }
  }
  return row[b_len];
}

const char *mg_cli_nearest(const char *word, const void *words, size_t count, size_t stride)
{
  const char *best = NULL;
  size_t best_distance = strlen(word) / 3 + 2; /* further away it would be a guess */
  for (size_t i = 0; i < count; i++) {
    const char *candidate;
    memcpy(&candidate, (const char *)words + i * stride, sizeof candidate);
    size_t edits = distance(word, candidate);
    if (edits < best_distance) {
      best_distance = edits;
      best = candidate;
    }
  }
  return best;
}

/* Names what is near to a word among count known ones, each at the start of stride bytes. */
static int refuse_unknown(const char *command, const char *word, size_t word_len, const void *known, size_t count,
                          size_t stride)
{
  char name[WORD_MAX + 1];
  snprintf(name, sizeof name, "%.*s", (int)word_len, word);
  const char *nearest = mg_cli_nearest(name, known, count, stride);
  fprintf(stderr, "moongate %s: unknown option %s%s%s%s\n", command, name, nearest ? ": did you mean " : "",
          nearest ? nearest : "", nearest ? "?" : "");
  return MG_EXIT_USAGE;
}

static int refuse_row(const char *command, const char *word, size_t word_len, unsigned allowed)
{
  const char *known[ROW_COUNT];
  size_t count = 0;
  for (size_t i = 0; i < ROW_COUNT; i++)
    if (rows[i].bit & allowed) known[count++] = rows[i].name;
  return refuse_unknown(command, word, word_len, known, count, sizeof known[0]);
}

static int refuse_value(const char *command, const char *name, bool flag)
{
  fprintf(stderr, "moongate %s: %s %s\n", command, name, flag ? "takes no value" : "needs a value");
  return MG_EXIT_USAGE;
}

int mg_cli_take(const char *command, const struct mg_cli_option *known, size_t count, int argc, char **argv, int *i,
                const char **value)
{
  const char *word = argv[*i];
  size_t len = strcspn(word, "="), at = 0;
  while (at < count && (strncmp(known[at].name, word, len) != 0 || known[at].name[len])) at++;
  *value = word[len] ? word + len + 1 : NULL;
  if (at == count) {
    refuse_unknown(command, word, len, known, count, sizeof known[0]);
    return -1;
  }
  if (!known[at].flag && !*value && *i + 1 < argc) *value = argv[++*i];
  if (known[at].flag ? !*value : *value && **value) return (int)at;
  refuse_value(command, known[at].name, known[at].flag);
  return -1;
}

static const struct option_row *find_row(const char *name, size_t len, unsigned allowed)
{
  for (size_t i = 0; i < ROW_COUNT; i++)
    if ((rows[i].bit & allowed) && strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0) return &rows[i];
  return NULL;
}

static int add_word(struct mg_options *options, const char *command, const char *word)
{
  if (options->word_count == MG_WORDS_MAX) {
    fprintf(stderr, "moongate %s: more than %d words\n", command, MG_WORDS_MAX);
    return MG_EXIT_USAGE;
  }
  options->words[options->word_count++] = word;
  return MG_EXIT_DONE;
}

static int store(struct mg_options *options, const struct option_row *row, const char *command, const char *value)
{
  if (row->kind == OPTION_WORD) {
    int code = add_word(options, command, row->name);
    return code == MG_EXIT_DONE ? add_word(options, command, value) : code;
  }
  char *field = (char *)options + row->offset;
  if (row->kind == OPTION_TEXT) {
    if (*value == '\0') return refuse_value(command, row->name, false);
    memcpy(field, &value, sizeof value);
    return MG_EXIT_DONE;
  }
  char *end;
  errno = 0;
  long number = strtol(value, &end, 10);
  if (errno || end == value || *end || number < row->min || number > row->max) {
    fprintf(stderr, "moongate %s: %s takes a number from %ld to %ld, not \"%s\"\n", command, row->name, row->min,
            row->max, value);
    return MG_EXIT_USAGE;
  }
  memcpy(field, &number, sizeof number);
  return MG_EXIT_DONE;
}

int mg_cli_parse(struct mg_options *options, unsigned allowed, int argc, char **argv)
{
  *options = (struct mg_options){.port = MG_UNSET,
                                 .management_port = MG_UNSET,
                                 .workers = MG_UNSET,
                                 .bundle_fd = MG_UNSET,
                                 .load_limit_ms = MG_UNSET,
                                 .slot = MG_UNSET,
                                 .listeners = MG_UNSET};
  const char *command = argv[0];
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    if (word[0] != '-' && (allowed & MG_OPTION_WORDS)) {
      if (add_word(options, command, word) != MG_EXIT_DONE) return MG_EXIT_USAGE;
      continue;
    }
    if (word[0] != '-') {
      fprintf(stderr, "moongate %s: \"%s\" is not an option; see moongate help\n", command, word);
      return MG_EXIT_USAGE;
    }
    size_t len = strcspn(word, "=");
    const struct option_row *row = find_row(word, len, allowed);
    if (!row) return refuse_row(command, word, len, allowed);
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    if (row->kind == OPTION_FLAG) {
      if (value) return refuse_value(command, row->name, true);
      *((bool *)((char *)options + row->offset)) = true;
      continue;
    }
    if (!value && i + 1 < argc) value = argv[++i];
    if (!value) return refuse_value(command, row->name, false);
    int result = store(options, row, command, value);
    if (result != MG_EXIT_DONE) return result;
  }
  return MG_EXIT_DONE;
}

bool mg_cli_asks_for_help(int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
  return false;
}

static const char *environment(const char *name)
{
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

int mg_cli_files(struct mg_options *options)
{
  if (!options->routes) options->routes = environment("MOONGATE_ROUTES_CONFIG");
  if (!options->routes)
    options->routes =
        access("routes.yaml", F_OK) != 0 && access("routes.lua", F_OK) == 0 ? "routes.lua" : "routes.yaml";
  if (!options->server) options->server = environment("MOONGATE_SERVER_CONFIG");
  if (options->server) {
    if (access(options->server, F_OK) == 0) return MG_EXIT_DONE;
    fprintf(stderr, "moongate: cannot read %s: %s\n", options->server, strerror(errno));
    return MG_EXIT_FAILED;
  }
  if (access("server.yaml", F_OK) == 0) options->server = "server.yaml";
  return MG_EXIT_DONE;
}
