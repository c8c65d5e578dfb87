/* micro.c - `moongate-micro`: what single operations of the hot path take, in nanoseconds or, under callgrind, in
 * instructions.
 * Owns: what the operations work on.   May call: http, script and journal layers.   Never: touch the network.
 * Thread: one. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <lauxlib.h>
#include <uv.h>

#include "batch.h"
#include "entry.h"
#include "forward.h"
#include "http1.h"
#include "log.h"
#include "micro_record.h"
#include "request.h"
#include "routes.h"
#include "script.h"
#include "target.h"
#include "varint.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#define RUNNING_ON_VALGRIND 0
#endif

enum {
  ARENA_BYTES = 32768,
  OUT_BYTES = 16384,
  WARM_CALLS = 3000,
  COUNTED_CALLS = 200,
  ROUNDS = 7,
  ROUND_NS = 20000000
};

struct bench {
  struct bench_request browser, get;
  struct mg_str browser_text, get_text, answer_text;
  struct mg_buf browser_scratch, get_scratch;
  struct mg_pool pool;
  struct mg_arena arena;
  char first[ARENA_BYTES], out[OUT_BYTES];
  struct mg_address peer;
  struct mg_routes *one, *thousand;
  struct mg_script script;
  int chain_ref;
  struct mg_stage stage;
  struct mg_packer *packer;
  struct mg_unpacker *unpacker;
  struct mg_packed packed;
  uint8_t *packed_copy;
  struct bench_record *records[MG_LEVEL_FULL + 1][2]; /* by level, and whether exchanges differ; made when needed */
  uint64_t turn;
  uint64_t sink; /* results go here, so that none is left out */
};

static const struct mg_head_limits limits = {8192, 32768, 100};

/* ---- HTTP ---- */

static void parse(struct bench *b, struct mg_str text, struct mg_request_head *head)
{
  mg_arena_reset(&b->arena, b->first, ARENA_BYTES);
  mg_headers_init(&head->headers, &b->arena);
  int taken = mg_request_head_parse(head, text.ptr, text.len, &limits);
  MG_ASSERT(taken > 0);
  b->sink += (uint64_t)taken;
}

static void op_head_parse_browser(struct bench *b)
{
  struct mg_request_head head = {0};
  parse(b, b->browser_text, &head);
}

static void op_head_parse_get(struct bench *b)
{
  struct mg_request_head head = {0};
  parse(b, b->get_text, &head);
}

static void op_answer_parse(struct bench *b)
{
  mg_arena_reset(&b->arena, b->first, ARENA_BYTES);
  struct mg_response_head head = {0};
  mg_headers_init(&head.headers, &b->arena);
  int taken = mg_response_head_parse(&head, b->answer_text.ptr, b->answer_text.len, MG_METHOD_GET, &limits);
  MG_ASSERT(taken > 0);
  b->sink += head.content_length;
}

static void write_head(struct bench *b, struct mg_request_head *head)
{
  mg_request_sanitise(head, false);
  struct mg_request_out out = {.method = head->method,
                               .target = head->target,
                               .host = head->host,
                               .headers = &head->headers,
                               .peer = &b->peer,
                               .original_host = head->host};
  long len = mg_request_write(b->out, OUT_BYTES, &out);
  MG_ASSERT(len > 0);
  b->sink += (uint64_t)len;
}

/* Parse, clean, write: what a request costs without filters. The parse alone is measured above. */
static void op_head_pass_browser(struct bench *b)
{
  struct mg_request_head head = {0};
  parse(b, b->browser_text, &head);
  write_head(b, &head);
}

/* The edits of the five header filters on top of op_head_pass_browser. */
static void op_head_edit_browser(struct bench *b)
{
  struct mg_request_head head = {0};
  parse(b, b->browser_text, &head);
  MG_ASSERT(mg_headers_set(&head.headers, MG_STR("X-Correlation-Id"), MG_STR("01JD0000000000000000000000")) == 0);
  MG_ASSERT(mg_headers_set(&head.headers, MG_STR("X-Gateway"), MG_STR("g")) == 0);
  mg_headers_remove(&head.headers, MG_STR("X-Debug"));
  mg_headers_remove(&head.headers, MG_STR("Cookie"));
  write_head(b, &head);
}

static void op_target_split(struct bench *b)
{
  mg_arena_reset(&b->arena, b->first, ARENA_BYTES);
  struct mg_target_parts parts;
  MG_ASSERT(mg_target_split(&parts, MG_STR("/api/get/r17/caf%C3%A9/items?page=2"), &b->arena, false) == 0);
  b->sink += parts.path.len;
}

/* ---- routes ---- */

static struct mg_routes *make_routes(unsigned count)
{
  struct mg_routes *routes = mg_routes_new();
  for (unsigned i = 0; i < count; i++) {
    char id[16], prefix[32];
    int id_len = snprintf(id, sizeof id, "r%u", i), prefix_len = snprintf(prefix, sizeof prefix, "/api/get/r%u/", i);
    mg_routes_begin(routes, id, (size_t)id_len);
    mg_routes_literal(routes, MG_PREDICATE_PREFIX, "", 0, prefix, (size_t)prefix_len);
    mg_routes_end(routes);
  }
  MG_ASSERT(mg_routes_seal(routes) == 0);
  return routes;
}

static void find(struct bench *b, const struct mg_routes *routes, struct mg_str path)
{
  struct mg_headers none = {0};
  struct mg_route_query query = {.path = path, .host = MG_STR("localhost"), .method = MG_STR("GET"), .headers = &none};
  int index = mg_routes_find(routes, &query);
  MG_ASSERT(index >= 0);
  b->sink += (uint64_t)index;
}

static void op_route_1(struct bench *b)
{
  find(b, b->one, MG_STR("/api/get/r0/items"));
}

static void op_route_1000(struct bench *b)
{
  find(b, b->thousand, MG_STR("/api/get/r770/items"));
}

/* ---- Lua ---- */

/* A phase as the route compiler makes it: one function that calls its filters. */
static const char chain[] = "local seen = 0\n"
                            "local function one(n) seen = seen + n % 2 end\n"
                            "local function two(n) if n < 0 then seen = 0 end end\n"
                            "return function(n) one(n) two(n) one(n + 1) two(n) end\n";

static void op_script_call(struct bench *b)
{
  struct mg_coroutine waiting = {0};
  struct mg_buf error = {0};
  MG_ASSERT(mg_script_call(&b->script, b->chain_ref, 7, &waiting, &error) == 0);
}

/* ---- journal ---- */

static bool append(struct bench *b)
{
  uint8_t *start = mg_stage_begin(&b->stage, 700, 1000 + b->turn, b->turn + 1);
  if (!start) return false;
  uint8_t *at = mg_zigzag_put(start, 3);
  at = mg_zigzag_put(at, 1);
  memcpy(at, b->get_text.ptr, b->get_text.len);
  at += b->get_text.len;
  mg_stage_commit(&b->stage, (size_t)(at - start), MG_ENTRY_BODY, 0, 0);
  b->turn++;
  return true;
}

static void retire_all(struct bench *b)
{
  uint64_t gen;
  while (mg_stage_oldest(&b->stage, &gen)) mg_stage_retire(&b->stage, gen);
}

/* What METADATA appends for an exchange comes to less. */
static bool append_160(struct bench *b)
{
  uint8_t *start = mg_stage_begin(&b->stage, 160, 1000 + b->turn, b->turn + 1);
  if (!start) return false;
  memcpy(start, b->browser_text.ptr, 160);
  mg_stage_commit(&b->stage, 160, MG_ENTRY_BODY, 0, 0);
  b->turn++;
  return true;
}

static void op_journal_append_160(struct bench *b)
{
  if (append_160(b)) return;
  retire_all(b);
  MG_ASSERT(append_160(b));
}

static void op_journal_append(struct bench *b)
{
  if (append(b)) return;
  retire_all(b);
  MG_ASSERT(append(b));
}

static const uint8_t *full_slot(struct bench *b)
{
  uint64_t gen;
  while (!mg_stage_oldest(&b->stage, &gen)) op_journal_append(b);
  return mg_stage_oldest(&b->stage, &gen);
}

/* A slot of 32 KB, about fifty heads that are alike: compressed, or read again. */
static void op_journal_compress(struct bench *b)
{
  struct mg_packed packed;
  mg_pack(b->packer, full_slot(b), false, 0, &packed);
  b->sink += packed.len;
}

static void op_journal_read(struct bench *b)
{
  struct mg_batch header;
  struct mg_plain_entry entry;
  MG_ASSERT(mg_unpack(b->unpacker, b->packed_copy, b->packed.len, &header));
  while (mg_unpack_next(b->unpacker, &entry) == 1) b->sink += entry.payload.len;
}

/* ---- an exchange in the journal, everything that both threads do for it ---- */

static void record_one(struct bench *b, unsigned level, bool vary)
{
  if (!b->records[level][vary]) b->records[level][vary] = bench_record_new(level, vary);
  bench_record_one(b->records[level][vary]);
}

static void op_record_metadata(struct bench *b)
{
  record_one(b, MG_LEVEL_METADATA, false);
}

static void op_record_headers(struct bench *b)
{
  record_one(b, MG_LEVEL_HEADERS, false);
}

static void op_record_full(struct bench *b)
{
  record_one(b, MG_LEVEL_FULL, false);
}

static void op_record_metadata_vary(struct bench *b)
{
  record_one(b, MG_LEVEL_METADATA, true);
}

static void op_record_headers_vary(struct bench *b)
{
  record_one(b, MG_LEVEL_HEADERS, true);
}

static void op_record_full_vary(struct bench *b)
{
  record_one(b, MG_LEVEL_FULL, true);
}

/* ---- all of them ---- */

static const struct operation {
  const char *name;
  void (*run)(struct bench *b);
} operations[] = {
    {"head_parse_browser", op_head_parse_browser},
    {"head_parse_get", op_head_parse_get},
    {"answer_parse", op_answer_parse},
    {"head_pass_browser", op_head_pass_browser},
    {"head_edit_browser", op_head_edit_browser},
    {"target_split", op_target_split},
    {"route_1", op_route_1},
    {"route_1000", op_route_1000},
    {"script_call", op_script_call},
    {"journal_append_160", op_journal_append_160},
    {"journal_append", op_journal_append},
    {"journal_compress", op_journal_compress},
    {"journal_read", op_journal_read},
    {"record_metadata", op_record_metadata},
    {"record_headers", op_record_headers},
    {"record_full", op_record_full},
    {"record_metadata_vary", op_record_metadata_vary},
    {"record_headers_vary", op_record_headers_vary},
    {"record_full_vary", op_record_full_vary},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static struct mg_str read_workload(struct bench_request *request, const char *path, struct mg_buf *scratch)
{
  struct mg_buf error = {0};
  if (!bench_request_read(request, path, "127.0.0.1:8888", &error)) {
    fprintf(stderr, "moongate-micro: %.*s\n", (int)error.len, error.ptr);
    exit(1);
  }
  return bench_request_write(request, 1, scratch);
}

static void prepare_journal(struct bench *b)
{
  char folder[] = "/tmp/moongate-micro.XXXXXX", path[64];
  MG_ASSERT(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/stage", folder);
  static const struct mg_stage_header header = {.epoch = 1, .id_base = 1};
  MG_ASSERT(mg_stage_open(&b->stage, &mg_file_system, folder, path, mg_stage_bytes(1 << 20), &header, 1) == 0);
  unlink(path);
  rmdir(folder);
  b->packer = mg_packer_new(true, 1);
  b->unpacker = mg_unpacker_new();
  mg_pack(b->packer, full_slot(b), true, 0, &b->packed); /* in one part */
  b->packed_copy = mg_alloc(b->packed.len);
  memcpy(b->packed_copy, b->packed.parts->ptr, b->packed.len);
}

static void prepare(struct bench *b)
{
  b->browser_text = read_workload(&b->browser, BENCH_WORKLOADS "/browser.http", &b->browser_scratch);
  b->get_text = read_workload(&b->get, BENCH_WORKLOADS "/get.http", &b->get_scratch);
  b->answer_text = MG_STR("HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\n"
                          "Content-Type: application/json\r\nContent-Length: 2000\r\nConnection: keep-alive\r\n\r\n");
  mg_pool_init(&b->pool, 65536, 4);
  mg_arena_init(&b->arena, b->first, ARENA_BYTES, &b->pool, 1 << 20);
  MG_ASSERT(mg_address_parse(MG_STR("127.0.0.1"), &b->peer));
  b->one = make_routes(1);
  b->thousand = make_routes(1000);
  b->script.L = mg_script_open();
  MG_ASSERT(luaL_dostring(b->script.L, chain) == 0);
  b->chain_ref = luaL_ref(b->script.L, LUA_REGISTRYINDEX);
  prepare_journal(b);
}

static void release(struct bench *b)
{
  mg_script_close(&b->script);
  mg_routes_free(&b->one);
  mg_routes_free(&b->thousand);
  mg_packer_free(&b->packer);
  mg_unpacker_free(&b->unpacker);
  mg_stage_close_file(&b->stage);
  for (unsigned level = 0; level <= MG_LEVEL_FULL; level++)
    for (unsigned vary = 0; vary < 2; vary++)
      if (b->records[level][vary]) bench_record_free(&b->records[level][vary]);
  free(b->packed_copy);
  bench_request_free(&b->browser);
  bench_request_free(&b->get);
  mg_buf_free(&b->browser_scratch);
  mg_buf_free(&b->get_scratch);
  mg_arena_reset(&b->arena, b->first, ARENA_BYTES);
  mg_pool_destroy(&b->pool);
}

/* The shortest of some rounds: what nothing came between. */
static double nanoseconds(const struct operation *operation, struct bench *b)
{
  for (unsigned i = 0; i < WARM_CALLS; i++) operation->run(b);
  double best = 1e18;
  for (unsigned round = 0; round < ROUNDS; round++) {
    uint64_t calls = 0, start = uv_hrtime(), now = start;
    while (now - start < ROUND_NS) {
      for (unsigned i = 0; i < 64; i++) operation->run(b);
      calls += 64;
      now = uv_hrtime();
    }
    double each = (double)(now - start) / (double)calls;
    if (each < best) best = each;
  }
  return best;
}

/* callgrind writes one profile per operation, named after it; bench/micro reads the totals. */
static void count_instructions(const struct operation *operation, struct bench *b)
{
  for (unsigned i = 0; i < WARM_CALLS / 10; i++) operation->run(b);
  CALLGRIND_ZERO_STATS;
  for (unsigned i = 0; i < COUNTED_CALLS; i++) operation->run(b);
  CALLGRIND_DUMP_STATS_AT(operation->name);
}

static void print_bytes(const struct bench *b)
{
  static const char *const names[] = {"NONE", "METADATA", "HEADERS", "FULL"};
  for (unsigned level = 0; level <= MG_LEVEL_FULL; level++)
    for (unsigned vary = 0; vary < 2; vary++)
      if (b->records[level][vary])
        printf("%-8s %10.1f bytes per exchange%s\n", names[level], bench_record_bytes(b->records[level][vary]),
               vary ? ", all different" : "");
}

/* argv[1]: the one operation to run, for a profiler. */
int main(int argc, char **argv)
{
  struct bench *b = mg_calloc(1, sizeof *b);
  prepare(b);
  bool counting = RUNNING_ON_VALGRIND;
  if (counting) printf("calls\t%d\n", COUNTED_CALLS);
  for (unsigned i = 0; i < OPERATIONS; i++) {
    if (argc > 1 && strcmp(operations[i].name, argv[1]) != 0) continue;
    if (counting)
      count_instructions(&operations[i], b);
    else
      printf("%-20s %10.1f ns\n", operations[i].name, nanoseconds(&operations[i], b));
  }
  if (!counting) print_bytes(b);
  release(b);
  free(b);
  return 0;
}
