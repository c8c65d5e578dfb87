/* assemble.c - exchanges under way, by shard, epoch and number.
 * Owns: their texts.   May call: reader, mem.   Never: a file.   Thread: one per assembler. */
#include "assemble.h"

#include <stdlib.h>

enum { BUCKETS = 4096, CHUNK = 8192, EXCHANGE_BYTES_MAX = 8 << 20 };

struct mg_assembler {
  struct mg_found_exchange *buckets[BUCKETS];
  struct mg_pool chunks;
  bool bodies;
  bool stopped;
  bool (*done)(void *context, const struct mg_found_exchange *exchange);
  void *context;
};

struct mg_assembler *
mg_assembler_new(bool bodies, bool (*done)(void *context, const struct mg_found_exchange *exchange), void *context)
{
  struct mg_assembler *assembler = mg_calloc(1, sizeof *assembler);
  mg_pool_init(&assembler->chunks, CHUNK, 64);
  assembler->bodies = bodies;
  assembler->done = done;
  assembler->context = context;
  return assembler;
}

static struct mg_found_exchange **place_of(struct mg_assembler *assembler, const struct mg_origin_of *origin,
                                           uint64_t number)
{
  struct mg_found_exchange **at = &assembler->buckets[(number ^ origin->shard * 2654435761u) % BUCKETS];
  while (*at && ((*at)->number != number || (*at)->epoch != origin->epoch || (*at)->shard != origin->shard))
    at = &(*at)->next;
  return at;
}

static void free_exchange(struct mg_found_exchange *exchange)
{
  mg_arena_reset(&exchange->arena, NULL, 0);
  mg_buf_free(&exchange->body[0]);
  mg_buf_free(&exchange->body[1]);
  free(exchange);
}

/* Texts live as long as the exchange; past its limit they are empty. */
static struct mg_str keep(struct mg_found_exchange *exchange, struct mg_str text)
{
  char *copy = text.len ? mg_arena_copy(&exchange->arena, text.ptr, text.len) : NULL;
  return copy ? mg_str(copy, text.len) : mg_str("", 0);
}

static void add(struct mg_found_exchange *exchange, struct mg_text_list *list, struct mg_str text)
{
  if (list->count == list->capacity) {
    uint32_t capacity = list->capacity ? list->capacity * 2 : 16;
    struct mg_str *items = mg_arena_alloc(&exchange->arena, capacity * sizeof *items);
    if (!items) return;
    if (list->count) memcpy(items, list->items, list->count * sizeof *items);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = text;
}

static void take_lines(struct mg_found_exchange *exchange, struct mg_text_list *list, const struct mg_scope *scope,
                       struct mg_lines lines)
{
  for (uint32_t i = 0; i < lines.count; i++) add(exchange, list, keep(exchange, mg_scope_line(scope, lines, i)));
}

static void take_blocks(struct mg_found_exchange *exchange, const struct mg_scope *scope, const struct mg_entry *entry)
{
  for (int i = 0; i < MG_MESSAGES; i++)
    if (entry->blocks >> i & 1) take_lines(exchange, &exchange->headers[i], scope, entry->block[i]);
}

/* 48 bits of milliseconds, 16 of the shard, 64 that count, in Crockford's base 32. */
static void write_id(struct mg_found_exchange *exchange, uint64_t low)
{
  static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  uint64_t high = exchange->start_us / 1000 << 16 | exchange->shard;
  for (int i = 25; i >= 0; i--) {
    exchange->id[i] = digits[low & 31];
    low = low >> 5 | (high & 31) << 59;
    high >>= 5;
  }
  exchange->id[26] = '\0';
}

static void take_start(struct mg_found_exchange *exchange, const struct mg_origin_of *origin,
                       const struct mg_scope *scope, const struct mg_entry *entry)
{
  exchange->started = true;
  exchange->start_us = exchange->end_us = entry->time_us;
  exchange->request_level = entry->request_level;
  exchange->response_level = entry->response_level;
  exchange->route = keep(exchange, entry->route);
  exchange->filters = keep(exchange, entry->filters);
  exchange->generation = keep(exchange, entry->generation);
  exchange->client = keep(exchange, entry->client);
  exchange->client_source = keep(exchange, entry->client_source);
  if (entry->line.len) exchange->line = keep(exchange, entry->line);
  take_blocks(exchange, scope, entry);
  write_id(exchange, origin->id_base + entry->id);
}

static void check_body(struct mg_found_exchange *exchange, int side)
{
  const struct mg_buf *body = &exchange->body[side];
  if (!(exchange->crcs >> side & 1) || body->len != exchange->body_recorded[side]) return;
  exchange->body_damaged[side] = mg_crc32c(0, body->ptr, body->len) != exchange->crc[side];
}

static void take_end(struct mg_assembler *assembler, struct mg_found_exchange *exchange, const struct mg_scope *scope,
                     const struct mg_entry *entry)
{
  exchange->ended = true;
  exchange->end_us = entry->time_us;
  exchange->request_level = entry->request_level;
  exchange->response_level = entry->response_level;
  exchange->status = entry->status;
  exchange->flags = entry->flags;
  exchange->sent_us = entry->sent_us;
  exchange->first_byte_us = entry->first_byte_us;
  exchange->tries = entry->tries;
  memcpy(exchange->head_bytes, entry->head_bytes, sizeof exchange->head_bytes);
  memcpy(exchange->body_bytes, entry->body_bytes, sizeof exchange->body_bytes);
  exchange->error = keep(exchange, entry->error);
  exchange->target = keep(exchange, entry->target);
  exchange->upstream_status = keep(exchange, entry->upstream_status);
  if (entry->line.len) exchange->line = keep(exchange, entry->line);
  if (entry->flags & MG_END_SAME_LINE)
    exchange->upstream_line = exchange->line;
  else if (entry->upstream_line.len)
    exchange->upstream_line = keep(exchange, entry->upstream_line);
  exchange->client_status =
      entry->flags & MG_END_SAME_STATUS ? exchange->upstream_status : keep(exchange, entry->client_status);
  take_blocks(exchange, scope, entry);
  take_lines(exchange, &exchange->attributes, scope, entry->attributes);
  exchange->crcs = entry->crcs;
  memcpy(exchange->crc, entry->crc, sizeof exchange->crc);
  if (assembler->bodies) check_body(exchange, 0), check_body(exchange, 1);
}

static struct mg_str joined(struct mg_found_exchange *exchange, struct mg_str first, struct mg_str second)
{
  char *both = mg_arena_alloc(&exchange->arena, first.len + second.len + 1);
  if (!both) return first;
  memcpy(both, first.ptr, first.len);
  memcpy(both + first.len, second.ptr, second.len);
  return mg_str(both, first.len + second.len);
}

static void take_head(struct mg_found_exchange *exchange, const struct mg_entry *entry)
{
  if (entry->which >= MG_MESSAGES) {
    struct mg_str *line = entry->which == MG_HEAD_CLIENT_LINE ? &exchange->line : &exchange->upstream_line;
    *line = entry->continues ? joined(exchange, *line, entry->content) : keep(exchange, entry->content);
    return;
  }
  struct mg_text_list *list = &exchange->headers[entry->which];
  if (entry->continues && list->count)
    list->items[list->count - 1] = joined(exchange, list->items[list->count - 1], entry->content);
  else
    add(exchange, list, keep(exchange, entry->content));
}

static void give_out(struct mg_assembler *assembler, struct mg_found_exchange **at, bool shown)
{
  struct mg_found_exchange *exchange = *at;
  *at = exchange->next;
  if (shown && exchange->started && !assembler->stopped)
    assembler->stopped = !assembler->done(assembler->context, exchange);
  free_exchange(exchange);
}

bool mg_assembler_take(struct mg_assembler *assembler, const struct mg_origin_of *origin, const struct mg_scope *scope,
                       const struct mg_entry *entry)
{
  if (entry->type == MG_ENTRY_GAP) return true;
  struct mg_found_exchange **at = place_of(assembler, origin, entry->number);
  if (!*at) {
    *at = mg_calloc(1, sizeof **at);
    (*at)->shard = origin->shard;
    (*at)->epoch = origin->epoch;
    (*at)->number = entry->number;
    mg_arena_init(&(*at)->arena, NULL, 0, &assembler->chunks, EXCHANGE_BYTES_MAX);
  }
  struct mg_found_exchange *exchange = *at;
  switch (entry->type) {
  case MG_ENTRY_START:
    take_start(exchange, origin, scope, entry);
    break;
  case MG_ENTRY_BODY:
    exchange->body_recorded[entry->direction] += entry->content.len;
    if (assembler->bodies) mg_buf_append(&exchange->body[entry->direction], entry->content.ptr, entry->content.len);
    break;
  case MG_ENTRY_HEAD:
    take_head(exchange, entry);
    break;
  case MG_ENTRY_END:
    take_end(assembler, exchange, scope, entry);
    give_out(assembler, at, true);
    break;
  default:
    give_out(assembler, at, false);
  }
  return !assembler->stopped;
}

static int by_start(const void *a, const void *b)
{
  const struct mg_found_exchange *x = *(struct mg_found_exchange *const *)a, *y = *(struct mg_found_exchange *const *)b;
  return x->start_us < y->start_us ? -1 : x->start_us > y->start_us;
}

void mg_assembler_rest(struct mg_assembler *assembler)
{
  struct mg_buf rest = {0};
  for (unsigned i = 0; i < BUCKETS; i++) {
    for (struct mg_found_exchange *one = assembler->buckets[i]; one; one = one->next)
      mg_buf_append(&rest, &one, sizeof one);
    assembler->buckets[i] = NULL;
  }
  size_t count = rest.len / sizeof(struct mg_found_exchange *);
  struct mg_found_exchange **all = (struct mg_found_exchange **)(void *)rest.ptr;
  if (count) qsort(all, count, sizeof *all, by_start);
  for (size_t i = 0; i < count; i++) {
    struct mg_found_exchange *next = NULL, *one = all[i];
    one->next = next;
    give_out(assembler, &one, true);
  }
  mg_buf_free(&rest);
}

void mg_assembler_free(struct mg_assembler **pointer)
{
  struct mg_assembler *assembler = *pointer;
  *pointer = NULL;
  for (unsigned i = 0; i < BUCKETS; i++)
    while (assembler->buckets[i]) give_out(assembler, &assembler->buckets[i], false);
  mg_pool_destroy(&assembler->chunks);
  free(assembler);
}
