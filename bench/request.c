/* request.c - a workload's request from its template.
 * Owns: the template.   May call: mem, http1's parser.   Never: send anything.   Thread: one per request. */
#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "http1.h"

enum { N_DIGITS = 10, X_DIGITS = 16 };

static bool read_file(const char *path, struct mg_buf *out, struct mg_buf *error)
{
  FILE *file = fopen(path, "rb");
  if (!file) {
    mg_buf_printf(error, "cannot read %s: %s", path, strerror(errno));
    return false;
  }
  size_t got;
  while ((got = fread(mg_buf_reserve(out, 65536), 1, 65536, file)) > 0) out->len += got;
  fclose(file);
  if (out->len && out->ptr[out->len - 1] == '\n') out->len--;
  return true;
}

/* The place that begins at `at` and ends before limit: its length in the template, or 0. */
static size_t place_at(const char *at, size_t limit, struct bench_piece *piece)
{
  if (limit >= 3 && at[0] == '{' && (at[1] == 'n' || at[1] == 'x') && at[2] == '}') {
    piece->kind = at[1];
    return 3;
  }
  if (limit < 5 || memcmp(at, "{n%", 3) != 0) return 0;
  size_t i = 3;
  uint64_t modulus = 0;
  while (i < limit && i < 12 && at[i] >= '0' && at[i] <= '9') modulus = modulus * 10 + (uint64_t)(at[i++] - '0');
  if (i == limit || at[i] != '}' || modulus == 0) return 0;
  piece->kind = 'm';
  piece->modulus = modulus;
  return i + 1;
}

/* Finds the places in the template and takes them out of the text. */
static void cut_places(struct bench_request *request)
{
  struct mg_buf *text = &request->text;
  size_t from = 0, to = 0, start = 0;
  unsigned room = 0;
  while (from <= text->len) {
    struct bench_piece piece = {.at = (uint32_t)start};
    size_t taken = from < text->len ? place_at(text->ptr + from, text->len - from, &piece) : 0;
    if (taken || from == text->len) {
      piece.len = (uint32_t)(to - start);
      if (request->piece_count == room)
        request->pieces = mg_realloc(request->pieces, (room = room * 2 + 8) * sizeof piece);
      request->pieces[request->piece_count++] = piece;
      start = to;
      from += taken + !taken;
    } else {
      text->ptr[to++] = text->ptr[from++];
    }
  }
  text->len = to;
}

static size_t rendered_size(const char *body, size_t len)
{
  size_t size = len;
  for (size_t i = 0; i < len; i++) {
    struct bench_piece piece = {0};
    size_t taken = place_at(body + i, len - i, &piece);
    if (taken) size += (piece.kind == 'n' ? N_DIGITS : X_DIGITS) - taken;
  }
  return size;
}

static bool has_line(const char *head, size_t len, const char *name)
{
  size_t name_len = strlen(name);
  for (size_t i = 0; i + name_len < len; i++)
    if (head[i] == '\n' && i + 1 + name_len < len && mg_equal_nocase(head + i + 1, name, name_len)) return true;
  return false;
}

/* The request with CR LF line ends and the lines that every request has. */
static void complete(struct mg_buf *out, const struct mg_buf *raw, const char *host)
{
  const char *blank = memmem(raw->ptr, raw->len, "\n\n", 2);
  size_t head_len = blank ? (size_t)(blank - raw->ptr) : raw->len;
  const char *body = blank ? blank + 2 : raw->ptr + raw->len;
  size_t body_len = (size_t)(raw->ptr + raw->len - body);
  bool named = has_line(raw->ptr, head_len, "host:");
  for (size_t i = 0, line = 0; i <= head_len; i++) {
    if (i < head_len && raw->ptr[i] != '\n') continue;
    mg_buf_append(out, raw->ptr + line, i - line);
    mg_buf_append(out, "\r\n", 2);
    if (line == 0 && !named) mg_buf_printf(out, "Host: %s\r\n", host);
    line = i + 1;
  }
  if (body_len && !has_line(raw->ptr, head_len, "content-length:"))
    mg_buf_printf(out, "Content-Length: %zu\r\n", rendered_size(body, body_len));
  mg_buf_append(out, "\r\n", 2);
  mg_buf_append(out, body, body_len);
}

/* What is sent must be a request: the gateway's own parser reads it once. */
static bool check(struct bench_request *request, const char *path, struct mg_buf *error)
{
  static const struct mg_head_limits limits = {65536, 65536, 1000};
  struct mg_buf scratch = {0};
  struct mg_str text = bench_request_write(request, 1, &scratch);
  struct mg_pool pool;
  mg_pool_init(&pool, 65536, 1);
  struct mg_arena arena;
  mg_arena_init(&arena, NULL, 0, &pool, 1 << 20);
  struct mg_request_head head = {0};
  mg_headers_init(&head.headers, &arena);
  int taken = mg_request_head_parse(&head, text.ptr, text.len, &limits);
  bool ok = taken > 0 && (head.framing == MG_FRAMING_NONE || head.content_length == text.len - (size_t)taken);
  if (!ok)
    mg_buf_printf(error, "%s is no request: %s", path, taken < 0 ? mg_err_sentence(taken) : "its end is missing");
  request->method_id = head.method_id;
  mg_arena_reset(&arena, NULL, 0);
  mg_pool_destroy(&pool);
  mg_buf_free(&scratch);
  return ok;
}

bool bench_request_read(struct bench_request *request, const char *path, const char *host, struct mg_buf *error)
{
  *request = (struct bench_request){0};
  struct mg_buf raw = {0};
  bool ok = read_file(path, &raw, error);
  if (ok) {
    complete(&request->text, &raw, host);
    cut_places(request);
    ok = check(request, path, error);
  }
  mg_buf_free(&raw);
  if (!ok) bench_request_free(request);
  return ok;
}

static uint64_t mixed(uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

struct mg_str bench_request_write(const struct bench_request *request, uint64_t n, struct mg_buf *scratch)
{
  if (request->piece_count == 1) return mg_str(request->text.ptr, request->text.len);
  scratch->len = 0;
  for (unsigned i = 0; i < request->piece_count; i++) {
    const struct bench_piece *piece = &request->pieces[i];
    mg_buf_append(scratch, request->text.ptr + piece->at, piece->len);
    unsigned long long number = n;
    if (piece->kind == 'n') mg_buf_printf(scratch, "%010llu", number % 10000000000ull);
    if (piece->kind == 'm') mg_buf_printf(scratch, "%llu", number * 7 % piece->modulus);
    if (piece->kind == 'x') mg_buf_printf(scratch, "%016llx", (unsigned long long)mixed(n << 10 | i));
  }
  return mg_str(scratch->ptr, scratch->len);
}

void bench_request_free(struct bench_request *request)
{
  mg_buf_free(&request->text);
  free(request->pieces);
  *request = (struct bench_request){0};
}
