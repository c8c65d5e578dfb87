/* lookup.c - finds the newest exchanges that are asked for, or one of them.
 * Owns: the process.   May call: the journal's reader, assemble, select and print; query, mem, json.
 * Never: change a journal; run for long.   Thread: the main thread. */
#include "lookup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "print.h"
#include "query.h"
#include "search.h"
#include "select.h"

enum {
  LIMIT_DEFAULT = 50,
  LIMIT_MAX = 500,
  LOOKING_MS = 4000, /* then what was found so far is the answer */
  CPU_SECONDS_MAX = 20,
  MEMORY_MAX = 512 << 20,
  NICE = 10,
  FIRST_SPAN_US = 10000000, /* that is looked at first, and how much longer each further one is */
  LONGER = 30,
  ARENA_BYTES = 16384,
  BODY_BYTES_MAX = 1 << 20 /* shown of an exchange's bodies together */
};

static uint64_t clock_us(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static bool is_late(uint64_t deadline_us, bool *late)
{
  if (!*late) *late = clock_us(CLOCK_MONOTONIC) > deadline_us;
  return *late;
}

/* Whatever a file makes us do, it has an end. */
static void set_limits(void)
{
  const struct rlimit cpu = {CPU_SECONDS_MAX, CPU_SECONDS_MAX}, core = {0, 0};
  setrlimit(RLIMIT_CPU, &cpu);
  setrlimit(RLIMIT_CORE, &core);
#ifndef __SANITIZE_ADDRESS__
  const struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
  setrlimit(RLIMIT_DATA, &memory);
#endif
  if (nice(NICE) == -1) errno = 0; /* it is polite, not necessary */
}

static int say(enum mg_search_result result, const char *format, const char *name)
{
  printf(format, name);
  return result;
}

static int cannot_read(const char *folder, int error)
{
  printf("The journal in %s cannot be read: %s.", folder, strerror(-error));
  return MG_SEARCH_FAILED;
}

/* --- find --------------------------------------------------------------------------------------------------------- */

/* A span of time that is looked at as a whole: what began in it. Each is followed by a longer one before it, so that
 * the newest exchanges of a large journal are found without reading all of it. */
struct round {
  uint64_t from_us, until_us;
};

struct row {
  uint64_t start_us;
  struct mg_buf json;
};

struct find {
  struct mg_selection wanted;
  struct round round;
  struct mg_assembler *assembler;
  uint64_t deadline_us;
  bool late;
  unsigned entries; /* the clock is read now and then */
  unsigned limit, count, oldest;
  struct row rows[LIMIT_MAX];
};

static bool read_limit(struct mg_str text, unsigned *limit)
{
  unsigned number = 0;
  if (!text.len || text.len > 4) return false;
  for (size_t i = 0; i < text.len; i++) {
    if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
    number = number * 10 + (unsigned)(text.ptr[i] - '0');
  }
  *limit = number;
  return number >= 1 && number <= LIMIT_MAX;
}

/* NULL, or what is accepted in the place of value. */
static const char *read_parameter(struct find *find, struct mg_str name, struct mg_str value)
{
  struct mg_exchange_id id;
  struct mg_selection *wanted = &find->wanted;
  if (mg_str_equal(name, MG_STR("limit")))
    return read_limit(value, &find->limit) ? NULL : "limit takes a number from 1 to 500";
  if (!value.len) return NULL; /* an empty field of a form asks for nothing */
  if (mg_str_equal(name, MG_STR("path"))) return wanted->path = value, NULL;
  if (mg_str_equal(name, MG_STR("route"))) return wanted->route = value, NULL;
  if (mg_str_equal(name, MG_STR("status")))
    return mg_selection_status(wanted, value) ? NULL : "status takes 404 or 5xx";
  if (mg_str_equal(name, MG_STR("since")))
    return mg_selection_since(wanted, value, clock_us(CLOCK_REALTIME))
               ? NULL
               : "since takes 10m, 2h, 1d or a moment such as 2026-11-30T21:00:00Z";
  if (!mg_str_equal(name, MG_STR("id"))) return "there are id, path, status, route, since and limit";
  wanted->id = value;
  return mg_exchange_id_read(&id, value) ? NULL : "id takes an exchange's id, 26 digits and letters";
}

static const char *read_question(struct find *find, struct mg_str query, struct mg_arena *arena)
{
  struct mg_query_pair pair;
  while (mg_query_next(&query, &pair)) {
    struct mg_str name = mg_query_decode(pair.name, arena), value = mg_query_decode(pair.value, arena);
    if (!name.ptr || (pair.value.len && !value.ptr)) return "the question is too long";
    const char *fault = read_parameter(find, name, value);
    if (fault) return fault;
  }
  return NULL;
}

static void find_oldest(struct find *find)
{
  find->oldest = 0;
  for (unsigned i = 1; i < find->count; i++)
    if (find->rows[i].start_us < find->rows[find->oldest].start_us) find->oldest = i;
}

/* Keeps the newest. */
static bool keep(void *context, const struct mg_found_exchange *exchange)
{
  struct find *find = context;
  struct row *row;
  if (exchange->start_us < find->round.from_us || exchange->start_us >= find->round.until_us) return true;
  if (!mg_selection_takes(&find->wanted, exchange)) return true;
  if (find->count < find->limit) {
    row = &find->rows[find->count++];
  } else {
    row = &find->rows[find->oldest];
    if (exchange->start_us <= row->start_us) return true;
  }
  row->start_us = exchange->start_us;
  row->json.len = 0;
  mg_print_json_brief(exchange, &row->json);
  if (find->count == find->limit) find_oldest(find);
  return true;
}

static bool take_in_time(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                         const struct mg_entry *entry)
{
  struct find *find = context;
  if (++find->entries % 256 == 0 && is_late(find->deadline_us, &find->late)) return false;
  return mg_assembler_take(find->assembler, origin, scope, entry);
}

static int look(struct find *find, const char *folder, const struct round *round)
{
  struct mg_reader_options options = {.shard = -1, .since_us = round->from_us};
  struct mg_exchange_id id;
  if (find->wanted.id.len && mg_exchange_id_read(&id, find->wanted.id)) {
    options.shard = (int)id.shard;
    options.since_us = id.start_ms * 1000;
  }
  find->round = *round;
  find->assembler = mg_assembler_new(false, keep, find);
  const struct mg_reader_events events = {.context = find, .entry = take_in_time};
  int result = mg_reader_walk(&mg_file_system, folder, &options, &events);
  if (!find->late) mg_assembler_rest(find->assembler); /* else they may only seem to have no end */
  mg_assembler_free(&find->assembler);
  return result;
}

static int look_back(struct find *find, const char *folder)
{
  uint64_t now_us = clock_us(CLOCK_REALTIME), span_us = FIRST_SPAN_US;
  struct round round = {.until_us = UINT64_MAX};
  int result = 0;
  for (; result == 0 && !find->late && find->count < find->limit && round.until_us; span_us *= LONGER) {
    bool whole = find->wanted.id.len || span_us > 86400ull * 400 * 1000000 || span_us >= now_us;
    round.from_us = whole ? 0 : now_us - span_us;
    if (round.from_us <= find->wanted.since_us) round.from_us = find->wanted.since_us;
    result = look(find, folder, &round);
    if (!find->late) round.until_us = round.from_us == find->wanted.since_us ? 0 : round.from_us;
  }
  find->round = round;
  return result;
}

static int newest_first(const void *a, const void *b)
{
  const struct row *x = a, *y = b;
  return x->start_us > y->start_us ? -1 : x->start_us < y->start_us;
}

static void print_rows(struct find *find)
{
  struct mg_buf out = {0};
  qsort(find->rows, find->count, sizeof find->rows[0], newest_first);
  mg_buf_printf(&out, "{\"complete\":%s,\"exchanges\":[", find->late ? "false" : "true");
  for (unsigned i = 0; i < find->count; i++) {
    mg_buf_append(&out, find->rows[i].json.ptr, find->rows[i].json.len);
    mg_buf_append(&out, ",", 1);
    mg_buf_free(&find->rows[i].json);
  }
  mg_json_close(&out, "]}\n");
  fwrite(out.ptr, 1, out.len, stdout);
  mg_buf_free(&out);
}

static int find_main(const char *folder, const char *query)
{
  static struct find find; /* too large for a stack */
  static char first[ARENA_BYTES];
  struct mg_pool no_pool;
  struct mg_arena arena;
  mg_pool_init(&no_pool, ARENA_BYTES, 0);
  mg_arena_init(&arena, first, sizeof first, &no_pool, 0);
  find.limit = LIMIT_DEFAULT;
  find.deadline_us = clock_us(CLOCK_MONOTONIC) + LOOKING_MS * 1000;
  const char *fault = read_question(&find, mg_str(query, strlen(query)), &arena);
  if (fault) return say(MG_SEARCH_WRONG, "This cannot be looked for: %s.", fault);
  int result = look_back(&find, folder);
  if (result == -ENOENT) {
    fputs("{\"complete\":true,\"recording\":false,\"exchanges\":[]}\n", stdout);
    return MG_SEARCH_DONE;
  }
  if (result != 0) return cannot_read(folder, result);
  print_rows(&find);
  return MG_SEARCH_DONE;
}

/* --- show --------------------------------------------------------------------------------------------------------- */

struct show {
  struct mg_exchange_id id;
  struct mg_assembler *assembler;
  bool known; /* its START was there: epoch and number hold */
  uint32_t epoch;
  uint64_t number;
  size_t body_left; /* bytes that may still be shown */
  bool cut;
  uint64_t deadline_us;
  bool late;
  unsigned entries;
  struct mg_buf json;
};

static bool print_one(void *context, const struct mg_found_exchange *exchange)
{
  struct show *show = context;
  if (!show->json.len) mg_print_json(exchange, &show->json);
  return false;
}

/* Lets the entries of that one exchange through. Of a long body only the beginning: its checksum is not compared,
 * then. */
static bool take_if_its(void *context, const struct mg_origin_of *origin, const struct mg_scope *scope,
                        const struct mg_entry *entry)
{
  struct show *show = context;
  struct mg_entry own = *entry;
  if (++show->entries % 256 == 0 && is_late(show->deadline_us, &show->late)) return false;
  if (entry->type == MG_ENTRY_START && origin->id_base + entry->id == show->id.low) {
    show->known = true;
    show->epoch = origin->epoch;
    show->number = entry->number;
  }
  if (!show->known || entry->number != show->number || origin->epoch != show->epoch) return true;
  if (entry->type == MG_ENTRY_BODY && own.content.len > show->body_left) {
    own.content.len = show->body_left;
    show->cut = true;
  }
  if (entry->type == MG_ENTRY_BODY) show->body_left -= own.content.len;
  if (show->cut) own.crcs = 0;
  return mg_assembler_take(show->assembler, origin, scope, &own);
}

static int show_main(const char *folder, const char *text, bool bodies)
{
  struct show show = {.body_left = BODY_BYTES_MAX, .deadline_us = clock_us(CLOCK_MONOTONIC) + LOOKING_MS * 1000};
  if (!mg_exchange_id_read(&show.id, mg_str(text, strlen(text))))
    return say(MG_SEARCH_NONE, "%s", "An exchange's id has 26 digits and letters.");
  const struct mg_reader_options options = {.shard = (int)show.id.shard, .since_us = show.id.start_ms * 1000};
  const struct mg_reader_events events = {.context = &show, .entry = take_if_its};
  show.assembler = mg_assembler_new(bodies, print_one, &show);
  int result = mg_reader_walk(&mg_file_system, folder, &options, &events);
  mg_assembler_rest(show.assembler);
  mg_assembler_free(&show.assembler);
  if (result != 0 && result != -ENOENT) return cannot_read(folder, result);
  if (!show.json.len && show.late) return say(MG_SEARCH_FAILED, "%s", "There was no time to find it.");
  if (!show.json.len) return say(MG_SEARCH_NONE, "There is no exchange %s in the journal.", text);
  printf("{\"bodies\":\"%s\",\"exchange\":%.*s}\n",
         !bodies    ? "hidden"
         : show.cut ? "cut"
                    : "whole",
         (int)show.json.len, show.json.ptr);
  mg_buf_free(&show.json);
  return MG_SEARCH_DONE;
}

int mg_lookup_main(int argc, char **argv)
{
  bool shows = argc > 1 && strcmp(argv[1], "show") == 0;
  bool bodies = argc == 5 && shows && strcmp(argv[4], "bodies") == 0;
  if (argc < 4 || (!shows && strcmp(argv[1], "find") != 0) || (argc > 4 && !bodies)) {
    fputs("moongate lookup is started by moongate run\n", stderr);
    return MG_SEARCH_WRONG;
  }
  set_limits();
  return shows ? show_main(argv[2], argv[3], bodies) : find_main(argv[2], argv[3]);
}
