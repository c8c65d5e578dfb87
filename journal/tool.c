/* tool.c - the journal's commands.
 * Owns: nothing.   May call: reader, assemble, print, verify.   Never: change a journal.   Thread: the main thread. */
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "print.h"
#include "verify.h"

enum { DONE = 0, FAILED = 1, USAGE = 2, FLUSH_BYTES = 65536 };

static const char usage[] =
    "usage: moongate journal COMMAND [OPTIONS] [FOLDER]\n\n"
    "  ls                         segments, what is in them and when\n"
    "  show ID                    one exchange, everything that is known of it\n"
    "  find [--status 5xx] [--path P] [--since T] [--route R] [--json]\n"
    "                             exchanges that match; P: the path begins so; T: 10m, 2h, or 2026-11-30T21:00:00Z\n"
    "  cat                        every exchange as a line of JSON\n"
    "  verify                     proves that nothing is missing or damaged; exit code 1 if something is\n\n"
    "FOLDER is storage.work_dir of the gateway, \"journals\" unless given. A running gateway's may be read.\n";

struct request {
  const char *command;
  const char *folder;
  const char *id;
  const char *path;
  const char *route;
  unsigned status_first, status_last; /* 0: any */
  uint64_t since_us;
  bool json;
  struct mg_buf out;
  uint64_t found;
};

/* --- options ------------------------------------------------------------------------------------------------------ */

static int fail(const char *what, const char *found)
{
  fprintf(stderr, "moongate journal: %s%s%s\n", what, found ? ": " : "", found ? found : "");
  return USAGE;
}

/* "5xx", "404" */
static bool read_status(struct request *request, const char *text)
{
  if (strlen(text) != 3 || text[0] < '1' || text[0] > '5') return false;
  unsigned class = (unsigned)(text[0] - '0') * 100;
  if ((text[1] == 'x' || text[1] == 'X') && (text[2] == 'x' || text[2] == 'X')) {
    request->status_first = class;
    request->status_last = class + 99;
    return true;
  }
  if (text[1] < '0' || text[1] > '9' || text[2] < '0' || text[2] > '9') return false;
  request->status_first = request->status_last = class + (unsigned)(text[1] - '0') * 10 + (unsigned)(text[2] - '0');
  return true;
}

/* A span back from now, or a moment in UTC. */
static bool read_since(struct request *request, const char *text)
{
  static const struct {
    char unit;
    uint64_t seconds;
  } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  char *end;
  uint64_t number = strtoull(text, &end, 10);
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (end == text || end[0] != units[i].unit || end[1]) continue;
    request->since_us = ((uint64_t)time(NULL) - number * units[i].seconds) * 1000000;
    return true;
  }
  struct tm utc = {0};
  const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
  if (!rest || (*rest && strcmp(rest, "Z") != 0)) return false;
  request->since_us = (uint64_t)timegm(&utc) * 1000000;
  return true;
}

static int read_option(struct request *request, const char *name, const char *value)
{
  if (!value) return fail("this option needs a value", name);
  if (strcmp(name, "--status") == 0)
    return read_status(request, value) ? DONE : fail("--status takes 5xx or 404, not", value);
  if (strcmp(name, "--since") == 0)
    return read_since(request, value) ? DONE : fail("--since takes 10m, 2h, 1d or 2026-11-30T21:00:00Z, not", value);
  if (strcmp(name, "--path") == 0) return request->path = value, DONE;
  if (strcmp(name, "--route") == 0) return request->route = value, DONE;
  return fail("unknown option", name);
}

static int parse(struct request *request, int argc, char **argv)
{
  static const char *const commands[] = {"ls", "show", "find", "cat", "verify"};
  *request = (struct request){.folder = "journals", .command = argc > 1 ? argv[1] : ""};
  bool known = false, finds = strcmp(request->command, "find") == 0;
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    known = known || strcmp(commands[i], request->command) == 0;
  if (!known) {
    fputs(usage, stderr);
    return USAGE;
  }
  int words = 0;
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0 && (finds || strcmp(request->command, "show") == 0)) {
      request->json = true;
    } else if (argv[i][0] == '-') {
      int result =
          finds ? read_option(request, argv[i], i + 1 < argc ? argv[i + 1] : NULL) : fail("unknown option", argv[i]);
      if (result != DONE) return result;
      i++;
    } else if (strcmp(request->command, "show") == 0 && !request->id) {
      request->id = argv[i];
    } else if (words++ == 0) {
      request->folder = argv[i];
    } else {
      return fail("one folder at a time, not also", argv[i]);
    }
  }
  if (strcmp(request->command, "show") == 0 && (!request->id || strlen(request->id) != 26))
    return fail("show takes an exchange's id, 26 characters", request->id);
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
  mg_buf_printf(out, "%s%s%s\n", facts->sealed ? "" : "  open",
                facts->totals.flags & MG_SEAL_RECOVERED ? "  recovered" : "",
                facts->damages || facts->totals.flags & MG_SEAL_DAMAGED ? "  damaged" : "");
}

/* Whether the path of "METHOD target HTTP/1.1" begins with prefix. */
static bool path_begins(struct mg_str line, const char *prefix)
{
  const char *blank = line.len ? memchr(line.ptr, ' ', line.len) : NULL;
  size_t len = strlen(prefix);
  return blank && (size_t)(line.ptr + line.len - blank - 1) >= len && memcmp(blank + 1, prefix, len) == 0;
}

static bool matches(const struct request *request, const struct mg_found_exchange *exchange)
{
  if (request->id) return memcmp(exchange->id, request->id, 26) == 0;
  if (request->status_first &&
      (!exchange->ended || exchange->status < request->status_first || exchange->status > request->status_last))
    return false;
  if (request->since_us && exchange->start_us < request->since_us) return false;
  if (request->path && !path_begins(exchange->line, request->path)) return false;
  return !request->route || mg_str_equal(exchange->route, mg_str(request->route, strlen(request->route)));
}

static bool print_exchange(void *context, const struct mg_found_exchange *exchange)
{
  struct request *request = context;
  if (!matches(request, exchange)) return true;
  request->found++;
  if (request->id && !request->json)
    mg_print_text(exchange, &request->out);
  else if (request->json || strcmp(request->command, "cat") == 0)
    mg_print_json(exchange, &request->out);
  else
    mg_print_brief(exchange, &request->out);
  if (!request->id || request->json) mg_buf_append(&request->out, "\n", 1);
  if (request->out.len > FLUSH_BYTES) flush(&request->out);
  return !request->id && !ferror(stdout);
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

/* 48 bits of time and 16 of the shard lead an id: enough to know where to look. */
static void narrow(const char *id, struct mg_reader_options *options)
{
  static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  unsigned __int128 value = 0;
  for (int i = 0; i < 26; i++) {
    const char *digit = strchr(digits, id[i]);
    if (!digit) return;
    value = value << 5 | (unsigned)(digit - digits);
  }
  uint64_t high = (uint64_t)(value >> 64);
  options->shard = (int)(high & 0xffff);
  options->since_us = (high >> 16) * 1000;
}

static int print_exchanges(struct request *request)
{
  struct mg_reader_options options = {.shard = -1, .since_us = request->since_us};
  if (request->id) narrow(request->id, &options);
  bool bodies = request->id || strcmp(request->command, "cat") == 0;
  struct mg_assembler *assembler = mg_assembler_new(bodies, print_exchange, request);
  const struct mg_reader_events events = {.context = assembler, .entry = take_entry, .finding = warn};
  int result = mg_reader_walk(&mg_file_system, request->folder, &options, &events);
  mg_assembler_rest(assembler);
  mg_assembler_free(&assembler);
  flush(&request->out);
  if (result != 0) return result;
  if (request->id && !request->found) {
    fprintf(stderr, "moongate journal: no exchange %s in %s\n", request->id, request->folder);
    return FAILED;
  }
  return DONE;
}

int mg_journal_main(int argc, char **argv)
{
  struct request request;
  int code = parse(&request, argc, argv), error = 0;
  if (code != DONE) return code;
  if (strcmp(request.command, "ls") == 0) {
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
