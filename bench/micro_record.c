/* micro_record.c - a recorder without a gateway around it: made-up exchanges go through the real one's entries.
 * Owns: a stage in a file without a name, prepared heads and bodies.   May call: record, http, the journal.
 * Never: touch the network.   Thread: one. */
#include "micro_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <uv.h>

#include "batch.h"
#include "forward.h"
#include "generation.h"
#include "log.h"
#include "record_private.h"
#include "request.h"

enum { HEADS = 1024, BODIES = 512, BODY_BYTES = 2000, ARENA_BYTES = 32768, ANSWERS = 512 };

struct bench_record {
  struct mg_recorder recorder;
  struct mg_stage stage;
  struct mg_settings settings;
  struct mg_gateway gateway;
  struct mg_generation generation;
  struct mg_plan plan;
  struct mg_exchange ex;
  struct mg_member member;
  struct mg_packer *packer;
  struct mg_str heads[HEADS], up_heads[HEADS], answer;
  unsigned head_count, body_count, level;
  char bodies[BODIES][BODY_BYTES];
  uint8_t framed[MG_FRAMED_MAX];
  uint64_t turn, bytes, wall_us;
};

static struct mg_str copied(const char *bytes, size_t len)
{
  char *copy = mg_alloc(len + 1);
  memcpy(copy, bytes, len);
  return mg_str(copy, len);
}

/* The head as the gateway would send it on. */
static struct mg_str sent_on(struct mg_str text)
{
  static const struct mg_head_limits limits = {8192, 32768, 100};
  struct mg_address peer;
  struct mg_pool pool;
  struct mg_arena arena;
  struct mg_request_head head = {0};
  char first[ARENA_BYTES], out[ARENA_BYTES];
  mg_pool_init(&pool, 65536, 4);
  mg_arena_init(&arena, first, sizeof first, &pool, 1 << 20);
  mg_headers_init(&head.headers, &arena);
  MG_ASSERT(mg_address_parse(MG_STR("127.0.0.1"), &peer));
  MG_ASSERT(mg_request_head_parse(&head, text.ptr, text.len, &limits) > 0);
  mg_request_sanitise(&head, false);
  const struct mg_request_out as = {.method = head.method,
                                    .target = head.target,
                                    .host = head.host,
                                    .headers = &head.headers,
                                    .peer = &peer,
                                    .original_host = head.host};
  long len = mg_request_write(out, sizeof out, &as);
  MG_ASSERT(len > 0);
  struct mg_str result = copied(out, (size_t)len);
  mg_arena_reset(&arena, first, sizeof first);
  mg_pool_destroy(&pool);
  return result;
}

static void prepare_heads(struct bench_record *record, bool vary)
{
  struct bench_request request;
  struct mg_buf scratch = {0}, error = {0};
  const char *path = vary ? BENCH_WORKLOADS "/get-vary.http" : BENCH_WORKLOADS "/get.http";
  MG_ASSERT(bench_request_read(&request, path, "127.0.0.1:8888", &error));
  record->head_count = vary ? HEADS : 1;
  for (unsigned i = 0; i < record->head_count; i++) {
    struct mg_str text = bench_request_write(&request, i + 1, &scratch);
    record->heads[i] = copied(text.ptr, text.len);
    record->up_heads[i] = sent_on(record->heads[i]);
  }
  record->answer = MG_STR("HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\n"
                          "Content-Type: application/json\r\nContent-Length: 2000\r\nConnection: keep-alive\r\n\r\n");
  bench_request_free(&request);
  mg_buf_free(&scratch);
}

/* JSON whose names and numbers are another's each time: what there is to gain is in its letters, not in repetition. */
static void prepare_bodies(struct bench_record *record, bool vary)
{
  static const char unit[] = "{\"id\":1,\"name\":\"item number\",\"price\":7},";
  uint32_t state = 1;
  record->body_count = vary ? BODIES : 1;
  for (unsigned i = 0; i < record->body_count; i++)
    for (unsigned at = 0; at < BODY_BYTES; at++) {
      char byte = unit[at % (sizeof unit - 1)];
      bool letter = byte >= 'a' && byte <= 'z', digit = byte >= '0' && byte <= '9';
      state = state * 1664525u + 1013904223u;
      if (i && letter) byte = (char)('a' + (state >> 16) % 20);
      if (i && digit) byte = (char)('0' + (state >> 16) % 10);
      record->bodies[i][at] = byte;
    }
}

static void open_stage(struct bench_record *record)
{
  char folder[] = "/tmp/moongate-micro.XXXXXX", path[64];
  static const struct mg_stage_header header = {.epoch = 1, .id_base = 1};
  MG_ASSERT(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/stage", folder);
  MG_ASSERT(mg_stage_open(&record->stage, &mg_file_system, folder, path, mg_stage_bytes(1 << 20), &header, 1) == 0);
  unlink(path);
  rmdir(folder);
}

struct bench_record *bench_record_new(unsigned level, bool vary)
{
  struct bench_record *record = mg_calloc(1, sizeof *record);
  struct mg_buf error = {0};
  mg_settings_defaults(&record->settings);
  snprintf(record->settings.fingerprint_key, sizeof record->settings.fingerprint_key,
           "0123456789abcdef0123456789abcdef");
  prepare_heads(record, vary);
  prepare_bodies(record, vary);
  open_stage(record);
  record->packer = mg_packer_new(true, 1);
  record->recorder.stage = &record->stage;
  record->recorder.redactor = mg_redactor_open(&record->settings, "/tmp", &error);
  MG_ASSERT(record->recorder.redactor);
  record->recorder.texts = mg_texts_open(record->recorder.redactor);
  record->recorder.sieve = mg_sieve_new(1);
  record->generation.number = 1;
  record->gateway.current = &record->generation;
  record->level = level;
  mg_journal_plan_level(&record->plan.journal, 0, level);
  mg_journal_plan_level(&record->plan.journal, 1, level);
  record->plan.id = MG_STR("get");
  record->plan.journal.filters = MG_STR("");
  record->member.key = "127.0.0.1:9000";
  record->wall_us = 1700000000000000u;
  return record;
}

void bench_record_free(struct bench_record **pointer)
{
  struct bench_record *record = *pointer;
  *pointer = NULL;
  for (unsigned i = 0; i < record->head_count; i++) {
    free((char *)record->heads[i].ptr);
    free((char *)record->up_heads[i].ptr);
  }
  mg_texts_close(&record->recorder.texts);
  mg_sieve_free(&record->recorder.sieve);
  mg_redactor_close(&record->recorder.redactor);
  mg_packer_free(&record->packer);
  mg_stage_close_file(&record->stage);
  free(record);
}

/* An exchange as it stands when it has ended; about 11 microseconds between one and the next, 300 to 555 from start to
 * end. */
static void fill(struct bench_record *record, struct mg_exchange *ex)
{
  uint64_t now_ns = uv_hrtime(), jitter = (record->turn * 0x9e3779b97f4a7c15u) >> 56;
  memset(ex, 0, offsetof(struct mg_exchange, waiting));
  record->wall_us += 4 + jitter % 16;
  ex->gateway = &record->gateway;
  ex->generation = &record->generation;
  ex->plan = ex->plans[0] = &record->plan;
  ex->began_ns = now_ns - 300000 - jitter * 1000;
  ex->wall_ms = record->wall_us / 1000;
  ex->sent_ns = ex->began_ns + 20000 + jitter * 100;
  ex->first_byte_ns = ex->began_ns + 250000 + jitter * 900;
  ex->ended_ns = now_ns;
  ex->id_count = record->turn;
  ex->tries = 1;
  ex->request_done = ex->response_done = ex->head_sent = true;
  ex->response.status = 200;
  ex->request.raw = record->heads[record->turn % record->head_count];
  ex->up_head = record->up_heads[record->turn % record->head_count];
  ex->response.raw = ex->client_head = record->answer;
  ex->response_bytes = BODY_BYTES;
  ex->member = &record->member;
  ex->source = MG_FROM_UPSTREAM;
  ex->record.number = record->turn + 1;
}

static void place_full(struct bench_record *record)
{
  uint64_t gen;
  const uint8_t *slot;
  struct mg_packed packed;
  while ((slot = mg_stage_oldest(&record->stage, &gen))) {
    size_t first;
    mg_pack(record->packer, slot, false, 0, &packed);
    record->bytes += mg_frame(MG_DATA_START, 1, packed.parts, packed.len, record->framed, &first);
    mg_stage_retire(&record->stage, gen);
  }
}

void bench_record_one(struct bench_record *record)
{
  struct mg_exchange *ex = &record->ex;
  fill(record, ex);
  MG_ASSERT(mg_record_put_start(&record->recorder, ex, &record->plan.journal));
  mg_record_upstream_head(ex);
  if (record->level == MG_LEVEL_FULL) {
    struct mg_str body = mg_str(record->bodies[record->turn % record->body_count], BODY_BYTES);
    MG_ASSERT(mg_record_put_piece(&record->recorder, ex, 1, body));
  }
  MG_ASSERT(mg_record_put_end(&record->recorder, ex, record->level, record->level));
  record->turn++;
  place_full(record);
}

double bench_record_bytes(const struct bench_record *record)
{
  return record->turn ? (double)record->bytes / (double)record->turn : 0;
}
