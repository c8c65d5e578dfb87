/* assemble.c - exchanges under way, by shard, epoch and number.
 * Owns: their texts.   May call: reader, mem.   Never: a file.   Thread: one per assembler. */
#include <stdlib.h>

#include "assemble_private.h"

enum { CHUNK = 8192, FIRST = 1024, EXCHANGE_BYTES_MAX = 8 << 20 };

struct mg_assembler *
mg_assembler_new(bool bodies, bool (*done)(void *context, const struct mg_found_exchange *exchange), void *context)
{
  struct mg_assembler *assembler = mg_calloc(1, sizeof *assembler);
  mg_pool_init(&assembler->chunks, CHUNK, 64);
  mg_pool_init(&assembler->firsts, sizeof(struct mg_found_exchange) + FIRST, 1024);
  assembler->bodies = bodies;
  assembler->done = done;
  assembler->context = context;
  return assembler;
}

struct mg_found_exchange **mg_assembler_place(struct mg_assembler *assembler, unsigned shard, uint32_t epoch,
                                              uint64_t number)
{
  struct mg_found_exchange **at = &assembler->buckets[(number ^ shard * 2654435761u) % MG_ASSEMBLER_BUCKETS];
  while (*at && ((*at)->number != number || (*at)->epoch != epoch || (*at)->shard != shard)) at = &(*at)->next;
  return at;
}

struct mg_found_exchange *mg_assembler_add(struct mg_assembler *assembler, struct mg_found_exchange **at,
                                           unsigned shard, uint32_t epoch, uint64_t number)
{
  struct mg_found_exchange *exchange = mg_pool_get(&assembler->firsts);
  memset(exchange, 0, sizeof *exchange);
  exchange->shard = shard;
  exchange->epoch = epoch;
  exchange->number = number;
  exchange->held = sizeof *exchange + FIRST;
  mg_arena_init(&exchange->arena, exchange + 1, FIRST, &assembler->chunks, EXCHANGE_BYTES_MAX);
  assembler->held += exchange->held;
  *at = exchange;
  return exchange;
}

void mg_exchange_empty(struct mg_assembler *assembler, struct mg_found_exchange *exchange)
{
  mg_arena_reset(&exchange->arena, exchange + 1, FIRST);
  mg_buf_free(&exchange->body[0]);
  mg_buf_free(&exchange->body[1]);
  assembler->held -= exchange->held;
  exchange->held = 0;
}

void mg_assembler_drop(struct mg_assembler *assembler, struct mg_found_exchange *exchange)
{
  struct mg_found_exchange **at = mg_assembler_place(assembler, exchange->shard, exchange->epoch, exchange->number);
  *at = exchange->next;
  if (exchange->given_up) {
    mg_exchange_list_remove(&assembler->given_up, exchange);
    assembler->given_up_count--;
  } else {
    mg_exchange_list_remove(&assembler->lanes[exchange->shard].open, exchange);
    assembler->open_count--;
  }
  mg_exchange_empty(assembler, exchange);
  mg_pool_put(&assembler->firsts, exchange);
}

bool mg_assembler_give(struct mg_assembler *assembler, struct mg_found_exchange *exchange, enum mg_incomplete why)
{
  if (assembler->stopped) return false;
  exchange->incomplete = why;
  assembler->stopped = !assembler->done(assembler->context, exchange);
  return !assembler->stopped;
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
  exchange->route = keep(exchange, entry->route.len ? entry->route : MG_STR("<unrouted>")); /* a reserved id */
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

/* An exchange whose START is not to be had, under an id of its own that is the same each time it is read. */
static void name_orphan(struct mg_found_exchange *exchange)
{
  exchange->start_us = exchange->end_us;
  write_id(exchange, (uint64_t)exchange->epoch << 40 ^ exchange->number);
}

/* Whether an exchange without a START began before the first entry that was taken of its shard. */
static bool began_before(const struct mg_lane *lane, const struct mg_found_exchange *exchange)
{
  if (lane->resumed) return false;
  return !lane->first_number || exchange->epoch < lane->first_epoch ||
         (exchange->epoch == lane->first_epoch && exchange->number < lane->first_number);
}

/* At its END. False when done has stopped; the exchange is kept then. */
static bool give_out(struct mg_assembler *assembler, struct mg_found_exchange *exchange)
{
  const struct mg_lane *lane = &assembler->lanes[exchange->shard];
  bool orphan = !exchange->started;
  if (orphan && !exchange->given_up && (!assembler->bounded || began_before(lane, exchange))) return true;
  if (orphan && !exchange->given_up) name_orphan(exchange);
  return mg_assembler_give(assembler, exchange, orphan ? MG_NO_START : MG_COMPLETE);
}

static void take_body(struct mg_assembler *assembler, struct mg_found_exchange *exchange, const struct mg_entry *entry)
{
  struct mg_buf *body = &exchange->body[entry->direction];
  size_t len = entry->content.len;
  exchange->body_recorded[entry->direction] += len;
  if (!assembler->bodies) return;
  if (assembler->bounded && body->len + len > assembler->bounds.body_max)
    len = assembler->bounds.body_max > body->len ? assembler->bounds.body_max - body->len : 0;
  mg_buf_append(body, entry->content.ptr, len);
}

static void count_held(struct mg_assembler *assembler, struct mg_found_exchange *exchange)
{
  size_t held =
      sizeof *exchange + FIRST + exchange->arena.taken + exchange->body[0].capacity + exchange->body[1].capacity;
  assembler->held += held - exchange->held;
  exchange->held = held;
}

/* The exchange of an entry, which is a new one when there is none. NULL once done has stopped. */
static struct mg_found_exchange *find(struct mg_assembler *assembler, const struct mg_origin_of *origin,
                                      const struct mg_entry *entry)
{
  struct mg_lane *lane = &assembler->lanes[origin->shard];
  struct mg_found_exchange **at = mg_assembler_place(assembler, origin->shard, origin->epoch, entry->number);
  struct mg_found_exchange *exchange = *at;
  if (exchange) return exchange;
  if (!mg_assembler_make_room(assembler, lane, origin->epoch)) return NULL;
  at = mg_assembler_place(assembler, origin->shard, origin->epoch, entry->number);
  exchange = mg_assembler_add(assembler, at, origin->shard, origin->epoch, entry->number);
  exchange->first = (struct mg_first_entry){origin->epoch, origin->lsn, origin->segment, origin->offset};
  exchange->start_us = entry->time_us;
  mg_exchange_list_add(&lane->open, exchange);
  assembler->open_count++;
  if (entry->type == MG_ENTRY_START && !lane->first_number) {
    lane->first_epoch = origin->epoch;
    lane->first_number = entry->number;
  }
  return exchange;
}

bool mg_assembler_take(struct mg_assembler *assembler, const struct mg_origin_of *origin, const struct mg_scope *scope,
                       const struct mg_entry *entry)
{
  if (entry->type == MG_ENTRY_GAP || origin->shard >= MG_ASSEMBLER_SHARDS) return true;
  struct mg_found_exchange *exchange = find(assembler, origin, entry);
  if (!exchange) return false;
  assembler->lanes[origin->shard].time_us = entry->time_us;
  exchange->last_lsn = origin->lsn;
  if (exchange->given_up && entry->type != MG_ENTRY_END && entry->type != MG_ENTRY_DROP) return true;
  switch (entry->type) {
  case MG_ENTRY_START:
    take_start(exchange, origin, scope, entry);
    break;
  case MG_ENTRY_BODY:
    take_body(assembler, exchange, entry);
    break;
  case MG_ENTRY_HEAD:
    take_head(exchange, entry);
    break;
  case MG_ENTRY_END:
    take_end(assembler, exchange, scope, entry);
    if (!give_out(assembler, exchange)) return false;
    mg_assembler_drop(assembler, exchange);
    return true;
  default:
    mg_assembler_drop(assembler, exchange);
    return true;
  }
  count_held(assembler, exchange);
  return true;
}

static int by_start(const void *a, const void *b)
{
  const struct mg_found_exchange *x = *(struct mg_found_exchange *const *)a, *y = *(struct mg_found_exchange *const *)b;
  return x->start_us < y->start_us ? -1 : x->start_us > y->start_us;
}

void mg_assembler_rest(struct mg_assembler *assembler)
{
  struct mg_buf rest = {0};
  for (unsigned i = 0; i < MG_ASSEMBLER_SHARDS; i++)
    for (struct mg_found_exchange *one = assembler->lanes[i].open.oldest; one; one = one->newer)
      mg_buf_append(&rest, &one, sizeof one);
  size_t count = rest.len / sizeof(struct mg_found_exchange *);
  struct mg_found_exchange **all = (struct mg_found_exchange **)(void *)rest.ptr;
  if (count) qsort(all, count, sizeof *all, by_start);
  for (size_t i = 0; i < count; i++) {
    if (all[i]->started && !mg_assembler_give(assembler, all[i], MG_NO_END)) break;
    mg_assembler_drop(assembler, all[i]);
  }
  mg_buf_free(&rest);
}

void mg_assembler_free(struct mg_assembler **pointer)
{
  struct mg_assembler *assembler = *pointer;
  *pointer = NULL;
  if (!assembler) return;
  for (unsigned i = 0; i < MG_ASSEMBLER_BUCKETS; i++)
    while (assembler->buckets[i]) mg_assembler_drop(assembler, assembler->buckets[i]);
  mg_pool_destroy(&assembler->chunks);
  mg_pool_destroy(&assembler->firsts);
  free(assembler);
}
