/* entry.c - payloads back into fields.
 * Owns: the tables of a scope.   May call: mem.   Never: trust a length.   Thread: one per scope. */
#include "entry.h"

#include <stdlib.h>

enum { DEFINITIONS_MAX = MG_SLOT_BYTES };

void mg_scope_start(struct mg_scope *scope, const struct mg_batch *header)
{
  scope->count = scope->line_count = 0;
  scope->time_us = header->base_time_us;
  scope->number = header->base_number;
}

void mg_scope_free(struct mg_scope *scope)
{
  free(scope->texts);
  free(scope->firsts);
  free(scope->lines);
  *scope = (struct mg_scope){0};
}

struct mg_str mg_scope_line(const struct mg_scope *scope, struct mg_lines lines, uint32_t i)
{
  return scope->texts[scope->lines[lines.first + i]];
}

static bool define(struct mg_scope *scope, struct mg_str text, uint32_t first)
{
  if (scope->count == DEFINITIONS_MAX) return false;
  if (scope->count == scope->capacity) {
    scope->capacity = scope->capacity ? scope->capacity * 2 : 64;
    scope->texts = mg_realloc(scope->texts, scope->capacity * sizeof *scope->texts);
    scope->firsts = mg_realloc(scope->firsts, scope->capacity * sizeof *scope->firsts);
  }
  scope->texts[scope->count] = text;
  scope->firsts[scope->count++] = first;
  return true;
}

/* The number of a text that is referred to or defined here. */
static uint32_t text_number(struct mg_scope *scope, struct mg_cursor *in)
{
  uint64_t reference = mg_varint_get(in);
  if (reference == 0 && !in->failed) {
    struct mg_str text = mg_bytes_get(in, mg_varint_get(in));
    if (!in->failed && define(scope, text, 0)) return scope->count - 1;
  } else if (reference && reference <= scope->count && scope->texts[reference - 1].ptr) {
    return (uint32_t)reference - 1;
  }
  in->failed = true;
  return 0;
}

static struct mg_str get_text(struct mg_scope *scope, struct mg_cursor *in)
{
  uint32_t number = text_number(scope, in);
  return in->failed ? mg_str("", 0) : scope->texts[number];
}

static bool add_line(struct mg_scope *scope, uint32_t at, uint32_t number)
{
  if (at == scope->line_capacity) {
    scope->line_capacity = scope->line_capacity ? scope->line_capacity * 2 : 256;
    scope->lines = mg_realloc(scope->lines, scope->line_capacity * sizeof *scope->lines);
  }
  scope->lines[at] = number;
  return true;
}

static struct mg_lines get_lines(struct mg_scope *scope, struct mg_cursor *in, uint64_t count)
{
  struct mg_lines lines = {scope->line_count, 0};
  for (; count && !in->failed; count--) {
    uint32_t number = text_number(scope, in);
    if (in->failed || scope->line_count >= DEFINITIONS_MAX * 4) break;
    add_line(scope, scope->line_count++, number);
    lines.count++;
  }
  if (count) in->failed = true;
  return lines;
}

static struct mg_lines get_block(struct mg_scope *scope, struct mg_cursor *in)
{
  uint64_t reference = mg_varint_get(in);
  if (reference == 0 && !in->failed) {
    struct mg_lines lines = get_lines(scope, in, mg_varint_get(in));
    if (!in->failed && define(scope, mg_str(NULL, lines.count), lines.first)) return lines;
  } else if (reference && reference <= scope->count && !in->failed && !scope->texts[reference - 1].ptr) {
    return (struct mg_lines){scope->firsts[reference - 1], (uint32_t)scope->texts[reference - 1].len};
  }
  in->failed = true;
  return (struct mg_lines){0, 0};
}

static void decode_levels(struct mg_cursor *in, struct mg_entry *entry)
{
  uint8_t byte = mg_byte_get(in);
  entry->request_level = byte & 3;
  entry->response_level = byte >> 2 & 3;
  entry->has = byte & 0xf0;
}

static void decode_start(struct mg_scope *scope, struct mg_cursor *in, struct mg_entry *entry)
{
  entry->id = entry->number + (uint64_t)mg_zigzag_get(in);
  decode_levels(in, entry);
  struct mg_lines context = get_block(scope, in);
  struct mg_str *fields[] = {&entry->route, &entry->filters, &entry->generation, &entry->client, &entry->client_source};
  if (context.count != sizeof fields / sizeof fields[0]) in->failed = true;
  for (uint32_t i = 0; i < context.count && !in->failed; i++) *fields[i] = mg_scope_line(scope, context, i);
  if (entry->has & MG_HAS_LINE) entry->line = get_text(scope, in);
  if (!(entry->has & MG_HAS_HEADERS)) return;
  entry->blocks = 1 << MG_CLIENT_REQUEST;
  entry->block[MG_CLIENT_REQUEST] = get_block(scope, in);
}

static void decode_crcs(struct mg_cursor *in, struct mg_entry *entry)
{
  entry->crcs = mg_byte_get(in);
  for (int i = 0; i < 2; i++) {
    if (!(entry->crcs >> i & 1)) continue;
    struct mg_str bytes = mg_bytes_get(in, 4);
    if (bytes.len == 4)
      entry->crc[i] = (uint32_t)(uint8_t)bytes.ptr[0] | (uint32_t)(uint8_t)bytes.ptr[1] << 8 |
                      (uint32_t)(uint8_t)bytes.ptr[2] << 16 | (uint32_t)(uint8_t)bytes.ptr[3] << 24;
  }
}

static void decode_end(struct mg_scope *scope, struct mg_cursor *in, struct mg_entry *entry)
{
  decode_levels(in, entry);
  entry->status = (unsigned)mg_varint_get(in);
  entry->flags = (unsigned)mg_varint_get(in);
  entry->sent_us = mg_varint_get(in);
  entry->first_byte_us = mg_varint_get(in);
  entry->tries = mg_varint_get(in);
  for (int i = 0; i < 2; i++) {
    entry->head_bytes[i] = mg_varint_get(in);
    entry->body_bytes[i] = mg_varint_get(in);
  }
  entry->error = get_text(scope, in);
  entry->target = get_text(scope, in);
  entry->upstream_status = get_text(scope, in);
  if (entry->has & MG_HAS_LINE) entry->line = get_text(scope, in);
  if (!(entry->flags & MG_END_SAME_LINE)) entry->upstream_line = get_text(scope, in);
  if (!(entry->flags & MG_END_SAME_STATUS)) entry->client_status = get_text(scope, in);
  if (entry->has & MG_HAS_HEADERS) {
    entry->blocks = mg_byte_get(in);
    for (int i = 0; i < MG_MESSAGES; i++)
      if (entry->blocks >> i & 1) entry->block[i] = get_block(scope, in);
  }
  if (entry->has & MG_HAS_CRC) decode_crcs(in, entry);
  if (entry->has & MG_HAS_ATTRIBUTES) {
    uint64_t count = mg_varint_get(in);
    if (count > DEFINITIONS_MAX) in->failed = true;
    entry->attributes = get_lines(scope, in, in->failed ? 0 : count * 2);
  }
}

static void decode_body(struct mg_scope *scope, struct mg_cursor *in, struct mg_entry *entry, struct mg_str raw)
{
  entry->direction = mg_byte_get(in) & 1;
  entry->offset = mg_varint_get(in);
  uint64_t reference = mg_varint_get(in);
  if (reference == 0 && !in->failed) {
    entry->content = raw.len ? raw : mg_bytes_get(in, (uint64_t)(in->end - in->at));
    if (!define(scope, entry->content, 0)) in->failed = true;
  } else if (reference && reference <= scope->count && scope->texts[reference - 1].ptr) {
    entry->content = scope->texts[reference - 1];
  } else {
    in->failed = true;
  }
}

bool mg_entry_decode(struct mg_scope *scope, const struct mg_plain_entry *plain, struct mg_entry *entry)
{
  struct mg_cursor in = {(const uint8_t *)plain->payload.ptr, (const uint8_t *)plain->payload.ptr + plain->payload.len,
                         false};
  memset(entry, 0, sizeof *entry);
  entry->type = plain->type;
  entry->time_us = scope->time_us += (uint64_t)mg_zigzag_get(&in);
  entry->number = scope->number += (uint64_t)mg_zigzag_get(&in);
  switch (plain->type) {
  case MG_ENTRY_START:
    decode_start(scope, &in, entry);
    break;
  case MG_ENTRY_END:
    decode_end(scope, &in, entry);
    break;
  case MG_ENTRY_BODY:
    decode_body(scope, &in, entry, plain->raw);
    return !in.failed;
  case MG_ENTRY_DROP:
    break;
  case MG_ENTRY_GAP:
    entry->reason = mg_byte_get(&in);
    entry->count = mg_varint_get(&in);
    break;
  case MG_ENTRY_HEAD:
    entry->which = mg_byte_get(&in);
    entry->continues = mg_byte_get(&in) == 1;
    entry->content = mg_bytes_get(&in, (uint64_t)(in.end - in.at));
    if (entry->which >= MG_HEADS) in.failed = true;
    break;
  default:
    in.failed = true;
  }
  return !in.failed && in.at == in.end;
}
