/* tool.c - the journal's commands.
 * Owns: nothing.   May call: reader, assemble, select, print, verify, cli.   Never: change a journal.
 * Thread: the main thread. */
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "print.h"
#include "select.h"
#include "verify.h"

enum { DONE = 0, FAILED = 1, USAGE = 2, FLUSH_BYTES = 65536 };

static const char usage[] =
    "usage: moongate journal COMMAND [OPTIONS] [FOLDER]\n\n"
    "  ls                         segments, what is in them and when; what is still in a stage\n"
    "  show ID                    one exchange, everything that is known of it\n"
    "  find [--status 5xx] [--path P] [--since T] [--route R]\n"
    "                             exchanges that match; P: the path begins so; T: 10m, 2h, or 2026-11-30T21:00:00Z\n"
    "  cat                        every exchange as a line of JSON\n"
    "  show, find, cat --json     the journal's own fields, as cat: shard, epoch, number, header lines in their order\n"
    "  show, find, cat --format NAME [--output FILE|FOLDER]\n"
    "                             in another form: json, combined, har, warc, curl, raw, or an output of your own;\n"
    "                             NAME may have options: json:bodies, warc:compression=gzip,cdxj_index\n"
    "  verify                     proves that nothing is missing or damaged; exit code 1 if something is\n\n"
    "Exchanges come shard by shard (a worker fills one), within a shard in the order of their ends; for all in order,\n"
    "find ... | sort. Requests that no route matched have the route <unrouted>.\n"
    "FOLDER is storage.work_dir of the gateway, \"journals\" unless given. A running gateway's may be read.\n";

struct request {
  const char *command;
  const char *folder;
  struct mg_selection wanted;
  bool json;
  const char *format, *to; /* of --format and --output */
  const struct mg_journal_formats *formats;
  void *sink; /* opened for the format */
  bool failed;
  struct mg_buf out;
  uint64_t found;
};

/* --- options ------------------------------------------------------------------------------------------------------ */

static int fail(const char *what, const char *found)
{
  fprintf(stderr, "moongate journal: %s%s%s\n", what, found ? ": " : "", found ? found : "");
  return USAGE;
}

enum { FORMAT, OUTPUT, JSON, STATUS, SINCE, PATH, ROUTE, OPTIONS };

/* Those that only find knows stand behind the first three. */
static const struct mg_cli_option known_options[OPTIONS] = {
    [FORMAT] = {"--format", false}, [OUTPUT] = {"--output", false}, [JSON] = {"--json", true},
    [STATUS] = {"--status", false}, [SINCE] = {"--since", false},   [PATH] = {"--path", false},
    [ROUTE] = {"--route", false},
};

static const struct command {
  const char *name; /* first, for mg_cli_nearest */
  int known;        /* how many of the options */
} commands[] = {{"ls", 0}, {"show", STATUS}, {"find", OPTIONS}, {"cat", STATUS}, {"verify", 0}};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int set_option(struct request *request, int option, const char *value)
{
  struct mg_selection *wanted = &request->wanted;
  struct mg_str text = value ? mg_str(value, strlen(value)) : MG_STR("");
  switch (option) {
  case FORMAT:
    return request->format = value, DONE;
  case OUTPUT:
    return request->to = value, DONE;
  case JSON:
    return request->json = true, DONE;
  case STATUS:
    return mg_selection_status(wanted, text) ? DONE : fail("--status takes 5xx or 404, not", value);
  case SINCE:
    return mg_selection_since(wanted, text, (uint64_t)time(NULL) * 1000000)
               ? DONE
               : fail("--since takes 10m, 2h, 1d or 2026-11-30T21:00:00Z, not", value);
  case PATH:
    return wanted->path = text, DONE;
  default:
    return wanted->route = text, DONE;
  }
}

static int read_option(struct request *request, int known, int argc, char **argv, int *i)
{
  const char *value;
  int option = mg_cli_take("journal", known_options, OPTIONS, argc, argv, i, &value);
  if (option < 0) return USAGE;
  if (option >= known) return fail("this command does not take", known_options[option].name);
  return set_option(request, option, value);
}

/* The command by its name; NULL after a message, where it is none. */
static const struct command *find_command(const char *name)
{
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  const char *nearest = mg_cli_nearest(name, commands, COMMANDS, sizeof commands[0]);
  if (*name)
    fprintf(stderr, "moongate journal: unknown command %s%s%s%s\n", name, nearest ? ": did you mean " : "",
            nearest ? nearest : "", nearest ? "?" : "");
  if (!*name || !nearest) fputs(usage, stderr);
  return NULL;
}

static int parse(struct request *request, int argc, char **argv)
{
  *request = (struct request){.folder = "journals", .command = argc > 1 ? argv[1] : ""};
  const struct command *command = find_command(request->command);
  if (!command) return USAGE;
  bool shows = strcmp(request->command, "show") == 0;
  int words = 0;
  for (int i = 2; i < argc; i++) {
    if (argv[i][0] == '-') {
      int result = read_option(request, command->known, argc, argv, &i);
      if (result != DONE) return result;
    } else if (shows && !request->wanted.id.len) {
      request->wanted.id = mg_str(argv[i], strlen(argv[i]));
    } else if (words++ == 0) {
      request->folder = argv[i];
    } else {
      return fail("one folder at a time, not also", argv[i]);
    }
  }
  if (request->to && !request->format) return fail("--output needs --format", NULL);
  if (request->json && request->format) return fail("--json and --format exclude each other", NULL);
  if (shows && request->wanted.id.len != MG_EXCHANGE_ID_LEN)
    return fail("show takes an exchange's id, 26 characters", request->wanted.id.ptr);
  return DONE;
}

/* --- the commands ------------------------------------------------------------------------------------------------- */

static void flush(struct mg_buf *out)
{
  if (out->len) fwrite(out->ptr, 1, out->len, stdout);
  out->len = 0;
}

static void print_segment(void *context, const struct mg_segment_facts *facts)
{
  struct mg_buf *out = context;
  if (!facts->readable) {
    mg_buf_printf(out, "%-30s unreadable\n", facts->name);
    return;
  }
  mg_buf_printf(out, "%-30s %10llu bytes  epoch %-4u %8llu exchanges  LSN %llu to %llu  ", facts->name,
                (unsigned long long)facts->bytes, facts->preamble.epoch, (unsigned long long)facts->totals.starts,
                (unsigned long long)facts->totals.first_lsn, (unsigned long long)facts->totals.last_lsn);
  if (facts->totals.batches) {
    mg_print_time(facts->totals.t_min_us, out);
    mg_buf_printf(out, " to ");
    mg_print_time(facts->totals.t_max_us, out);
  }
  mg_buf_printf(out, "%s%s%s\n",
                facts->staged   ? "  in no segment yet"
                : facts->sealed ? ""
                                : "  open",
                facts->totals.flags & MG_SEAL_RECOVERED ? "  recovered" : "",
                facts->damages || facts->totals.flags & MG_SEAL_DAMAGED ? "  damaged" : "");
}

static void complain(struct request *request, struct mg_buf *why)
{
  if (why->len) fprintf(stderr, "moongate journal: %.*s\n", (int)why->len, why->ptr);
  request->failed = request->failed || why->len;
  mg_buf_free(why);
}

static bool give_to_format(struct request *request, const struct mg_found_exchange *exchange)
{
  struct mg_buf why = {0};
  bool taken = request->formats->write(request->sink, exchange, &why);
  complain(request, &why);
  return taken && !request->wanted.id.len;
}

static bool print_exchange(void *context, const struct mg_found_exchange *exchange)
{
  struct request *request = context;
  if (!mg_selection_takes(&request->wanted, exchange)) return true;
  bool one = request->wanted.id.len != 0;
  request->found++;
  if (request->sink) return give_to_format(request, exchange);
  if (one && !request->json)
    mg_print_text(exchange, &request->out);
  else if (request->json || strcmp(request->command, "cat") == 0)
    mg_print_json(exchange, &request->out);
  else
    mg_print_brief(exchange, &request->out);
  if (!one || request->json) mg_buf_append(&request->out, "\n", 1);
  if (request->out.len > FLUSH_BYTES) flush(&request->out);
  return !one && !ferror(stdout);
}

static bool take_entry(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                       const struct mg_entry *entry)
{
  return mg_assembler_take(context, origin, scope, entry);
}

static void warn(void *context, const struct mg_finding *finding)
{
  (void)context;
  if (finding->kind != MG_FOUND_SET_ASIDE)
    fprintf(stderr, "moongate journal: %s is damaged or incomplete; see moongate journal verify\n",
            finding->file ? finding->file : "the stage");
}

/* Opens what --format names; true where nothing is to be opened. */
static bool open_format(struct request *request)
{
  struct mg_buf why = {0};
  if (!request->format) return true;
  request->sink = request->formats->open(request->format, request->to, &why);
  if (!request->sink) complain(request, &why);
  return request->sink != NULL;
}

static void close_format(struct request *request)
{
  struct mg_buf why = {0};
  if (!request->sink) return;
  request->formats->close(request->sink, &why);
  request->sink = NULL;
  complain(request, &why);
}

static int print_exchanges(struct request *request)
{
  struct mg_reader_options options = {.shard = -1, .since_us = request->wanted.since_us};
  struct mg_exchange_id id;
  bool one = request->wanted.id.len != 0;
  if (one && mg_exchange_id_read(&id, request->wanted.id)) { /* enough to know where to look */
    options.shard = (int)id.shard;
    options.since_us = id.start_ms * 1000;
  }
  bool bodies = one || strcmp(request->command, "cat") == 0;
  if (!open_format(request)) return FAILED;
  if (request->sink) bodies = request->formats->want_bodies(request->sink);
  struct mg_assembler *assembler = mg_assembler_new(bodies, print_exchange, request);
  const struct mg_reader_events events = {.context = assembler, .entry = take_entry, .finding = warn};
  int result = mg_reader_walk(&mg_file_system, request->folder, &options, &events);
  mg_assembler_rest(assembler);
  mg_assembler_free(&assembler);
  flush(&request->out);
  close_format(request);
  if (result != 0) return result;
  if (request->failed) return FAILED;
  if (one && !request->found) {
    fprintf(stderr, "moongate journal: no exchange %s in %s\n", request->wanted.id.ptr, request->folder);
    return FAILED;
  }
  return DONE;
}

int mg_journal_main(int argc, char **argv, const struct mg_journal_formats *formats)
{
  struct request request;
  if (mg_cli_asks_for_help(argc, argv)) return fputs(usage, stdout), DONE;
  int code = parse(&request, argc, argv);
  if (code != DONE) return code;
  request.formats = formats;
  bool found;
  int error = mg_reader_finds(&mg_file_system, request.folder, &found);
  if (error == 0 && !found) {
    fprintf(stderr, "moongate journal: there is no journal in %s\n", request.folder);
    return FAILED;
  }
  if (error != 0) {
    code = FAILED; /* said below */
  } else if (strcmp(request.command, "ls") == 0) {
    error = mg_reader_list(&mg_file_system, request.folder, print_segment, &request.out);
  } else if (strcmp(request.command, "verify") == 0) {
    code = mg_verify(&mg_file_system, request.folder, &request.out, &error) ? DONE : FAILED;
  } else {
    code = print_exchanges(&request);
    if (code < 0) error = code;
  }
  if (error != 0) {
    fprintf(stderr, "moongate journal: cannot read %s: %s\n", request.folder, strerror(-error));
    code = FAILED;
  } else {
    flush(&request.out);
  }
  mg_buf_free(&request.out);
  return code;
}
