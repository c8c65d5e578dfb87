/* record_entry.c - an exchange's entries, field by field as FORMAT.md has them.
 * Owns: nothing of its own.   May call: record_text, the stage.   Never: decide whether something is recorded.
 * Thread: the loop's. */
#include "record_private.h"

#include <stdio.h>

enum { FIXED_MAX = 400, ATTRIBUTE_MAX = 1000, ATTRIBUTES_MAX = 16, HEAD_PIECE_MAX = 16384 };

static const char *const client_sources[] = {"socket", "x-forwarded-for", "x-real-ip", "unknown"};

/* --- parts of heads ----------------------------------------------------------------------------------------------- */

/* A head's first line and its header lines. */
struct head {
  struct mg_str line, headers;
};

static struct mg_str without_empty_lines(struct mg_str raw)
{
  while (raw.len && (raw.ptr[0] == '\r' || raw.ptr[0] == '\n')) raw.ptr++, raw.len--;
  return raw;
}

/* headers: they are wanted too. Where they are not, the rest of the head is not fetched into the cache. */
static struct head split_head(struct mg_str raw, bool headers)
{
  struct head head = {{"", 0}, {"", 0}};
  raw = without_empty_lines(raw);
  if (!mg_texts_next_line(&raw, &head.line) || !headers) return head;
  if (raw.len >= 2 && raw.ptr[0] == '\r') return head; /* no header */
  if (raw.len >= 4 && memcmp(raw.ptr + raw.len - 4, "\r\n\r\n", 4) == 0) raw.len -= 2;
  head.headers = raw;
  return head;
}

/* What was refused was kept as far as it was read: behind the head stands what may be a body. */
static struct head client_head(const struct mg_exchange *ex, bool headers)
{
  struct mg_str raw = ex->request.raw, rest, line;
  if (!ex->request_broken) return split_head(raw, headers);
  raw = without_empty_lines(raw);
  for (rest = raw; mg_texts_next_line(&rest, &line);)
    if (!line.len) raw.len = (size_t)(line.ptr - raw.ptr), rest.len = 0;
  return split_head(raw, headers);
}

/* Commits an entry of an exchange and counts what it takes. */
static void commit(struct mg_stage *stage, struct mg_record *record, size_t len, enum mg_entry_type type, uint8_t info,
                   uint16_t aux)
{
  mg_stage_commit(stage, len, type, info, aux);
  record->bytes += MG_ENTRY_HEADER_BYTES + len;
}

static bool too_big(enum mg_text_kind kind, struct mg_str raw)
{
  return mg_texts_bound(kind, raw) > MG_TEXT_BOUND_MAX;
}

/* One line that is too long for its place, in as many HEAD entries as it takes. */
static bool put_long_line(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned which, enum mg_text_kind kind,
                          struct mg_str raw)
{
  struct mg_stage *stage = recorder->stage;
  char *text = mg_arena_alloc(&ex->arena, mg_texts_bound(kind, raw));
  if (!text) return true; /* the exchange has no memory left: the line is missing, as everything of it is */
  size_t len = mg_texts_redact(recorder->texts, kind, raw, text);
  for (size_t done = 0; done < len || done == 0;) {
    size_t part = len - done < HEAD_PIECE_MAX ? len - done : HEAD_PIECE_MAX;
    uint64_t time_us = mg_record_time_us(ex, ex->began_ns);
    uint8_t *start = mg_stage_begin(stage, part + 32, time_us, ex->record.number);
    if (!start) return false;
    uint8_t *at = mg_prefix_put(stage, start, time_us, ex->record.number);
    *at++ = (uint8_t)which;
    *at++ = done > 0;
    memcpy(at, text + done, part);
    commit(stage, &ex->record, (size_t)(at + part - start), MG_ENTRY_HEAD, 0, 0);
    done += part;
    if (!part) break;
  }
  return true;
}

/* A line is put aside into HEAD entries when it is too long; *raw is then empty. */
static bool set_aside_line(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned which, enum mg_text_kind kind,
                           struct mg_str *raw)
{
  if (!too_big(kind, *raw)) return true;
  struct mg_str line = *raw;
  *raw = mg_str("", 0);
  return put_long_line(recorder, ex, which, kind, line);
}

/* The same for all lines of a block. */
static bool set_aside_block(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned which,
                            struct mg_text_block *block)
{
  struct mg_str rest = block->raw, line;
  enum mg_text_kind kind = block->kind;
  if (block->fits) return true;
  *block = mg_texts_find_block(recorder->texts, which, mg_str("", 0));
  while (mg_texts_next_line(&rest, &line))
    if (!put_long_line(recorder, ex, which, kind, line)) return false;
  return true;
}

/* --- START -------------------------------------------------------------------------------------------------------- */

static struct mg_str plain(const char *text)
{
  return mg_str(text, strlen(text));
}

static uint8_t *put_context(struct mg_recorder *recorder, struct mg_exchange *ex, uint8_t *at)
{
  struct mg_stage *stage = recorder->stage;
  const struct mg_plan *plan = ex->plans[0];
  const struct mg_generation *generation = ex->generation ? ex->generation : ex->gateway->current;
  const struct mg_address *client = &ex->client_address;
  uint64_t hash = (uint64_t)(uintptr_t)plan / 64 ^ mg_get64(client->bytes + 8) * 0x9e3779b97f4a7c15u >> 40;
  struct mg_context *context = &recorder->contexts[hash % MG_CONTEXTS];
  if (context->plan != plan || context->generation != generation->number ||
      context->client_source != ex->record.client_source ||
      memcmp(context->client.bytes, client->bytes, sizeof client->bytes) != 0 ||
      context->client.text_len != client->text_len)
    *context = (struct mg_context){
        .plan = plan, .generation = generation->number, .client = *client, .client_source = ex->record.client_source};
  if (mg_is_defined(stage, &context->place)) return mg_reference_put(at, &context->place);
  char number[24];
  snprintf(number, sizeof number, "%llu", (unsigned long long)generation->number);
  struct mg_str filters = plan ? plan->journal.filters : mg_str("", 0);
  if (filters.len > 2048) filters.len = 2048;
  const struct mg_str fields[] = {plan ? plan->id : mg_str("", 0), filters, plain(number),
                                  mg_str(client->text, client->text_len),
                                  plain(client_sources[ex->record.client_source & 3])};
  *at++ = 0;
  at = mg_varint_put(at, sizeof fields / sizeof fields[0]);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    at = mg_texts_put(recorder->texts, stage, at, MG_TEXT_PLAIN, fields[i]);
  mg_define(stage, &context->place);
  return at;
}

static size_t context_bound(const struct mg_exchange *ex)
{
  const struct mg_plan *plan = ex->plans[0];
  return FIXED_MAX + (plan ? plan->id.len + (plan->journal.filters.len < 2048 ? plan->journal.filters.len : 2048) : 0);
}

bool mg_record_put_start(struct mg_recorder *recorder, struct mg_exchange *ex, const struct mg_journal_plan *plan)
{
  struct mg_stage *stage = recorder->stage;
  struct mg_record *record = &ex->record;
  unsigned request = plan->level[0], response = plan->level[1];
  if (!request && response) request = MG_LEVEL_METADATA;
  record->has_line = request >= MG_LEVEL_METADATA;
  record->has_headers = request >= MG_LEVEL_HEADERS && !plan->headers_may_fall;
  struct head head = client_head(ex, record->has_headers);
  if (record->has_line && !set_aside_line(recorder, ex, MG_HEAD_CLIENT_LINE, MG_TEXT_REQUEST_LINE, &head.line))
    return false;
  struct mg_text_block block = {0};
  if (record->has_headers) {
    mg_texts_begin(recorder->texts);
    block = mg_texts_find_block(recorder->texts, MG_CLIENT_REQUEST, head.headers);
    if (!set_aside_block(recorder, ex, MG_CLIENT_REQUEST, &block)) return false;
  }
  size_t bound = context_bound(ex);
  if (record->has_line) bound += mg_texts_bound(MG_TEXT_REQUEST_LINE, head.line);
  if (record->has_headers)
    bound += mg_texts_block_room(stage, &block); /* a scope that begins now has room for anything */
  uint64_t time_us = mg_record_time_us(ex, ex->began_ns);
  uint8_t *start = mg_stage_begin(stage, bound, time_us, record->number);
  if (!start) return false;
  uint8_t *at = mg_prefix_put(stage, start, time_us, record->number);
  at = mg_zigzag_put(at, (int64_t)(ex->id_count - recorder->id_base - record->number));
  *at++ = (uint8_t)(request | response << 2 | (record->has_line ? MG_HAS_LINE : 0) |
                    (record->has_headers ? MG_HAS_HEADERS : 0));
  at = put_context(recorder, ex, at);
  if (record->has_line) at = mg_texts_put(recorder->texts, stage, at, MG_TEXT_REQUEST_LINE, head.line);
  if (record->has_headers) at = mg_texts_put_block(recorder->texts, stage, at, &block);
  commit(stage, record, (size_t)(at - start), MG_ENTRY_START, 0, 0);
  return true;
}

/* --- END ---------------------------------------------------------------------------------------------------------- */

/* The four messages, as far as the final levels want them and START does not have them. */
struct messages {
  struct head heads[MG_MESSAGES];
  unsigned flags;
  uint8_t blocks;
  bool line;
  struct mg_text_block found[MG_MESSAGES]; /* where a bit of blocks says so */
};

/* Whether two heads have the first line in common, as is easily seen of most. */
static bool begins_alike(struct mg_str a, struct mg_str b)
{
  const char *end = a.len ? memchr(a.ptr, '\n', a.len) : NULL;
  size_t len = end ? (size_t)(end + 1 - a.ptr) : 0;
  return len > 2 && len <= b.len && memcmp(a.ptr, b.ptr, len) == 0;
}

void mg_record_upstream_head(struct mg_exchange *ex)
{
  if (ex->record.number) ex->record.same_line = begins_alike(ex->request.raw, ex->up_head);
}

static void choose_messages(const struct mg_exchange *ex, unsigned request, unsigned response, struct messages *out)
{
  const struct mg_record *record = &ex->record;
  struct head *heads = out->heads;
  bool same_line = record->same_line || begins_alike(ex->request.raw, ex->up_head);
  bool in_headers = response >= MG_LEVEL_HEADERS;
  if (request >= MG_LEVEL_HEADERS || !same_line || !record->has_line) {
    heads[MG_CLIENT_REQUEST] = client_head(ex, request >= MG_LEVEL_HEADERS);
    heads[MG_UPSTREAM_REQUEST] = split_head(ex->up_head, request >= MG_LEVEL_HEADERS);
  }
  heads[MG_UPSTREAM_RESPONSE] =
      split_head(ex->source == MG_FROM_UPSTREAM ? ex->response.raw : mg_str("", 0), in_headers);
  heads[MG_CLIENT_RESPONSE] = split_head(ex->head_sent ? ex->client_head : mg_str("", 0), in_headers);
  out->line = request >= MG_LEVEL_METADATA && !record->has_line;
  if (request >= MG_LEVEL_HEADERS)
    out->blocks = (uint8_t)(1 << MG_UPSTREAM_REQUEST | (record->has_headers ? 0 : 1 << MG_CLIENT_REQUEST));
  if (response >= MG_LEVEL_HEADERS) out->blocks |= 1 << MG_UPSTREAM_RESPONSE | 1 << MG_CLIENT_RESPONSE;
  for (unsigned i = 0; i < MG_MESSAGES; i++)
    if (!heads[i].headers.len) out->blocks &= (uint8_t) ~(1 << i);
  if (same_line || mg_str_equal(heads[MG_UPSTREAM_REQUEST].line, heads[MG_CLIENT_REQUEST].line))
    out->flags |= MG_END_SAME_LINE;
  if (mg_str_equal(heads[MG_CLIENT_RESPONSE].line, heads[MG_UPSTREAM_RESPONSE].line)) out->flags |= MG_END_SAME_STATUS;
  out->flags |= ex->source & 3u;
  if (ex->head_sent) out->flags |= MG_END_HEAD_SENT;
  if (ex->tunnel) out->flags |= MG_END_TUNNEL;
  if (ex->request_done) out->flags |= MG_END_REQUEST_WHOLE;
  if (ex->response_done) out->flags |= MG_END_RESPONSE_WHOLE;
}

static bool set_aside_messages(struct mg_recorder *recorder, struct mg_exchange *ex, struct messages *messages)
{
  struct head *heads = messages->heads;
  if (messages->line &&
      !set_aside_line(recorder, ex, MG_HEAD_CLIENT_LINE, MG_TEXT_REQUEST_LINE, &heads[MG_CLIENT_REQUEST].line))
    return false;
  if (!(messages->flags & MG_END_SAME_LINE) &&
      !set_aside_line(recorder, ex, MG_HEAD_UPSTREAM_LINE, MG_TEXT_REQUEST_LINE, &heads[MG_UPSTREAM_REQUEST].line))
    return false;
  mg_texts_begin(recorder->texts);
  for (unsigned i = 0; i < MG_MESSAGES; i++) {
    if (!(messages->blocks >> i & 1)) continue;
    messages->found[i] = mg_texts_find_block(recorder->texts, i, heads[i].headers);
    if (!set_aside_block(recorder, ex, i, &messages->found[i])) return false;
  }
  for (unsigned i = MG_UPSTREAM_RESPONSE; i < MG_MESSAGES; i++)
    if (heads[i].line.len > ATTRIBUTE_MAX) heads[i].line.len = ATTRIBUTE_MAX; /* a reason phrase */
  return true;
}

/* Without a stage: in a scope that begins now, where no block is defined. */
static size_t messages_bound(const struct mg_stage *stage, const struct messages *messages)
{
  const struct head *heads = messages->heads;
  size_t bound = heads[MG_UPSTREAM_RESPONSE].line.len + heads[MG_CLIENT_RESPONSE].line.len + 12;
  for (unsigned i = 0; i < MG_MESSAGES; i++)
    if (messages->blocks >> i & 1)
      bound += stage ? mg_texts_block_room(stage, &messages->found[i]) : messages->found[i].bound;
  /* A request line that is not written here was not set aside either: it may be of any length. */
  if (messages->line) bound += mg_texts_bound(MG_TEXT_REQUEST_LINE, heads[MG_CLIENT_REQUEST].line);
  if (!(messages->flags & MG_END_SAME_LINE))
    bound += mg_texts_bound(MG_TEXT_REQUEST_LINE, heads[MG_UPSTREAM_REQUEST].line);
  return bound;
}

static struct mg_str cut(struct mg_str text)
{
  return text.len > ATTRIBUTE_MAX ? mg_str(text.ptr, ATTRIBUTE_MAX) : text;
}

/* The value of an attribute as it may stand in the journal: who logged in is told by a fingerprint. */
static struct mg_str hidden(struct mg_recorder *recorder, struct mg_exchange *ex, const struct mg_attribute *attribute)
{
  if (!mg_str_equal(attribute->name, MG_STR("gateway.auth.basic.user"))) return attribute->value;
  char *out = mg_arena_alloc(&ex->arena, MG_FINGERPRINT_LEN);
  if (!out) return MG_STR("");
  mg_fingerprint(recorder->redactor, attribute->value, out);
  return mg_str(out, MG_FINGERPRINT_LEN);
}

/* What filters noted, in that order, and what the gateway adds: at most ATTRIBUTES_MAX, long values cut. */
static unsigned gather_attributes(struct mg_recorder *recorder, struct mg_exchange *ex,
                                  struct mg_str out[2 * ATTRIBUTES_MAX])
{
  unsigned count = 0;
  if (ex->depth) {
    out[0] = MG_STR("gateway.fallback.id");
    out[1] = cut(ex->plan ? ex->plan->id : mg_str("", 0));
    count = 1;
  } else if (ex->route < 0) {
    out[0] = MG_STR("gateway.unrouted.reason");
    out[1] = plain(mg_err_word(ex->err));
    count = 1;
  }
  unsigned total = count;
  for (const struct mg_attribute *one = ex->attributes; one; one = one->next) total++;
  unsigned at = total; /* the newest comes first */
  for (const struct mg_attribute *one = ex->attributes; one; one = one->next) {
    if (--at >= ATTRIBUTES_MAX) continue;
    out[2 * at] = cut(one->name);
    out[2 * at + 1] = cut(hidden(recorder, ex, one));
  }
  return total < ATTRIBUTES_MAX ? total : ATTRIBUTES_MAX;
}

static uint64_t since_start_us(const struct mg_exchange *ex, uint64_t ns)
{
  return ns ? (ns - ex->began_ns) / 1000 + 1 : 0;
}

static uint8_t *put_numbers(const struct mg_exchange *ex, uint8_t *at, unsigned status, unsigned flags)
{
  at = mg_varint_put(at, status);
  at = mg_varint_put(at, flags);
  at = mg_varint_put(at, since_start_us(ex, ex->sent_ns));
  at = mg_varint_put(at, since_start_us(ex, ex->first_byte_ns));
  at = mg_varint_put(at, ex->tries);
  at = mg_varint_put(at, ex->request.raw.len);
  at = mg_varint_put(at, ex->request_body.body_size);
  at = mg_varint_put(at, ex->head_sent ? ex->client_head.len : 0);
  return mg_varint_put(at, ex->response_bytes);
}

static uint8_t *put_crcs(const struct mg_record *record, uint8_t *at)
{
  *at++ = record->crcs;
  for (int i = 0; i < 2; i++) {
    if (!(record->crcs >> i & 1)) continue;
    mg_put32(at, record->crc[i]);
    at += 4;
  }
  return at;
}

static uint8_t *put_messages(struct mg_recorder *recorder, const struct messages *messages, uint8_t *at)
{
  *at++ = messages->blocks;
  for (unsigned i = 0; i < MG_MESSAGES; i++)
    if (messages->blocks >> i & 1) at = mg_texts_put_block(recorder->texts, recorder->stage, at, &messages->found[i]);
  return at;
}

static uint8_t bits_of(uint64_t value)
{
  return value ? (uint8_t)(64 - __builtin_clzll(value)) : 0;
}

bool mg_record_put_end(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned request, unsigned response)
{
  struct mg_stage *stage = recorder->stage;
  struct mg_texts *texts = recorder->texts;
  struct messages messages;
  memset(&messages, 0, offsetof(struct messages, found));
  struct mg_str attributes[2 * ATTRIBUTES_MAX], error = ex->err ? plain(mg_err_word(ex->err)) : mg_str("", 0);
  struct mg_str target = ex->member ? plain(ex->member->key) : mg_str("", 0);
  unsigned status = ex->head_sent ? ex->response.status : 0,
           attribute_count = gather_attributes(recorder, ex, attributes);
  choose_messages(ex, request, response, &messages);
  if (!set_aside_messages(recorder, ex, &messages)) return false;
  size_t bound = FIXED_MAX + target.len, most = bound + messages_bound(NULL, &messages);
  bound += messages_bound(stage, &messages);
  unsigned wanted = attribute_count;
  for (attribute_count = 0; attribute_count < wanted; attribute_count++) { /* as many as fit, whatever scope it is */
    size_t size = attributes[2 * attribute_count].len + attributes[2 * attribute_count + 1].len + 12;
    if (most + size > MG_ENTRY_BYTES_MAX) break;
    most += size;
    bound += size;
  }
  uint64_t time_us = mg_record_time_us(ex, ex->ended_ns);
  uint8_t *start = mg_stage_begin(stage, bound, time_us, ex->record.number);
  if (!start) return false;
  uint8_t *at = mg_prefix_put(stage, start, time_us, ex->record.number);
  *at++ =
      (uint8_t)(request | response << 2 | (messages.line ? MG_HAS_LINE : 0) | (messages.blocks ? MG_HAS_HEADERS : 0) |
                (ex->record.crcs ? MG_HAS_CRC : 0) | (attribute_count ? MG_HAS_ATTRIBUTES : 0));
  at = put_numbers(ex, at, status, messages.flags);
  at = mg_texts_put(texts, stage, at, MG_TEXT_PLAIN, error);
  at = mg_texts_put_usual(texts, stage, at, MG_USUAL_TARGET, target);
  at = mg_texts_put_usual(texts, stage, at, MG_USUAL_UPSTREAM_STATUS, messages.heads[MG_UPSTREAM_RESPONSE].line);
  if (messages.line) at = mg_texts_put(texts, stage, at, MG_TEXT_REQUEST_LINE, messages.heads[MG_CLIENT_REQUEST].line);
  if (!(messages.flags & MG_END_SAME_LINE))
    at = mg_texts_put(texts, stage, at, MG_TEXT_REQUEST_LINE, messages.heads[MG_UPSTREAM_REQUEST].line);
  if (!(messages.flags & MG_END_SAME_STATUS))
    at = mg_texts_put_usual(texts, stage, at, MG_USUAL_CLIENT_STATUS, messages.heads[MG_CLIENT_RESPONSE].line);
  if (messages.blocks) at = put_messages(recorder, &messages, at);
  if (ex->record.crcs) at = put_crcs(&ex->record, at);
  if (attribute_count) at = mg_varint_put(at, attribute_count);
  for (unsigned i = 0; i < 2 * attribute_count; i++) at = mg_texts_put(texts, stage, at, MG_TEXT_PLAIN, attributes[i]);
  commit(stage, &ex->record, (size_t)(at - start), MG_ENTRY_END, bits_of((ex->ended_ns - ex->began_ns) / 1000),
         (uint16_t)status);
  return true;
}

/* --- the short ones ----------------------------------------------------------------------------------------------- */

bool mg_record_put_drop(struct mg_recorder *recorder, struct mg_exchange *ex)
{
  struct mg_stage *stage = recorder->stage;
  uint64_t time_us = mg_record_time_us(ex, ex->ended_ns);
  uint8_t *start = mg_stage_begin(stage, 32, time_us, ex->record.number);
  if (!start) return false;
  uint8_t *at = mg_prefix_put(stage, start, time_us, ex->record.number);
  commit(stage, &ex->record, (size_t)(at - start), MG_ENTRY_DROP, 0, 0);
  return true;
}

bool mg_record_put_gap(struct mg_recorder *recorder, uint64_t time_us, uint64_t first, uint64_t count, uint8_t reason)
{
  struct mg_stage *stage = recorder->stage;
  uint8_t *start = mg_stage_begin(stage, 48, time_us, first);
  if (!start) return false;
  uint8_t *at = mg_prefix_put(stage, start, time_us, first);
  *at++ = reason;
  at = mg_varint_put(at, count);
  mg_stage_commit(stage, (size_t)(at - start), MG_ENTRY_GAP, 0, 0);
  return true;
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

/* Bodies of a route that begin alike are of a kind. */
static bool keeps_apart(struct mg_recorder *recorder, const struct mg_exchange *ex, unsigned side, struct mg_str bytes)
{
  if (!recorder->sieve || bytes.len < 2) return false;
  uint64_t kind = (uint64_t)(uintptr_t)ex->plans[0] << 17 ^ (uint64_t)side << 16 ^ (uint8_t)bytes.ptr[0] << 8 ^
                  (uint8_t)bytes.ptr[1];
  return mg_sieve_keeps_apart(recorder->sieve, kind, bytes);
}

bool mg_record_put_piece(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned side, struct mg_str bytes)
{
  struct mg_stage *stage = recorder->stage;
  struct mg_record *record = &ex->record;
  uint64_t offset = record->body_bytes[side],
           time_us = mg_record_time_us(ex, ex->first_byte_ns ? ex->first_byte_ns : ex->began_ns);
  uint32_t crc = 0;
  const struct mg_place *known = offset ? NULL : mg_texts_find_piece(recorder->texts, stage, bytes, &crc);
  uint8_t *start = mg_stage_begin(stage, known ? 48 : bytes.len + 48, time_us, record->number);
  if (!start) return false;
  known = known && mg_is_defined(stage, known) ? known : NULL; /* a scope that has just begun: its slot is empty */
  if (offset == 0 && !known) record->raw[side] = keeps_apart(recorder, ex, side, bytes);
  uint8_t *at = mg_prefix_put(stage, start, time_us, record->number);
  *at++ = (uint8_t)side;
  at = mg_varint_put(at, offset);
  record->crcs |= (uint8_t)(1 << side);
  if (known) {
    at = mg_reference_put(at, known);
    record->crc[side] = crc;
    commit(stage, record, (size_t)(at - start), MG_ENTRY_BODY, 0, 0);
    return true;
  }
  *at++ = 0;
  memcpy(at, bytes.ptr, bytes.len);
  record->crc[side] = mg_crc32c(record->crc[side], bytes.ptr, bytes.len);
  mg_texts_note_piece(recorder->texts, stage, at, bytes.len, record->crc[side], offset == 0);
  commit(stage, record, (size_t)(at + bytes.len - start), MG_ENTRY_BODY, 0,
         record->raw[side] ? (uint16_t)bytes.len : 0);
  return true;
}
