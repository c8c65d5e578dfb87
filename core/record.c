/* record.c - the recorder of a worker: its shard, what to do when it is full, and which level an exchange ends at.
 * Owns: the shard, redactor and text memory.   May call: record_entry, record_redact, record_text, the journal.
 * Never: wait; write a byte that was not redacted.   Thread: the loop's. */
#include "record_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "log.h"
#include "processors.h"
#include "segment.h"

enum { PIECE_MAX = 16384, SIDE_REQUEST = 0, SIDE_RESPONSE = 1, REST_MS = 1, REST_BYTES = 4096, REST_TICKS = 3 };

/* --- what a route records ----------------------------------------------------------------------------------------- */

void mg_journal_plan_level(struct mg_journal_plan *plan, unsigned side, unsigned level)
{
  plan->level[side & 1] = (uint8_t)(level & 3);
  plan->any = plan->any || level > MG_LEVEL_NONE;
}

void mg_journal_plan_override(struct mg_journal_plan *plan, unsigned side, unsigned first, unsigned last,
                              unsigned level)
{
  uint8_t **table = &plan->by_status[side & 1];
  if (!*table) {
    *table = mg_alloc(MG_STATUS_COUNT);
    memset(*table, plan->level[side & 1], MG_STATUS_COUNT);
  }
  for (unsigned status = first; status <= last; status++)
    if (status >= MG_STATUS_FIRST && status < MG_STATUS_FIRST + MG_STATUS_COUNT)
      (*table)[status - MG_STATUS_FIRST] = (uint8_t)(level & 3);
  plan->any = plan->any || level > MG_LEVEL_NONE;
  if (side == SIDE_REQUEST && level < MG_LEVEL_HEADERS) plan->headers_may_fall = true;
}

void mg_journal_plan_free(struct mg_journal_plan *plan)
{
  free(plan->by_status[0]);
  free(plan->by_status[1]);
  free((char *)plan->filters.ptr);
  *plan = (struct mg_journal_plan){0};
}

static unsigned level_at(const struct mg_journal_plan *plan, unsigned side, unsigned status)
{
  if (!plan->by_status[side] || status < MG_STATUS_FIRST || status >= MG_STATUS_FIRST + MG_STATUS_COUNT)
    return plan->level[side];
  return plan->by_status[side][status - MG_STATUS_FIRST];
}

/* NULL: nothing of this exchange is wanted. */
static const struct mg_journal_plan *plan_of(const struct mg_exchange *ex)
{
  const struct mg_generation *generation = ex->generation ? ex->generation : ex->gateway->current;
  const struct mg_journal_plan *plan = ex->plans[0] ? &ex->plans[0]->journal
                                       : generation ? &generation->unrouted
                                                    : NULL;
  return plan && plan->any && ex->gateway->recorder ? plan : NULL;
}

uint64_t mg_record_time_us(const struct mg_exchange *ex, uint64_t ns)
{
  return ex->wall_ms * 1000 + ex->began_ns / 1000 % 1000 + (ns - ex->began_ns) / 1000;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static uint64_t wall_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int make_folder(const char *folder, struct mg_buf *error)
{
  if (mkdir(folder, 0700) == 0 || errno == EEXIST) return 0;
  mg_buf_printf(error, "cannot make the journal's folder %s: %s", folder, strerror(errno));
  return -1;
}

static void log_recovery(const struct mg_recovery *recovery, unsigned slot, double milliseconds)
{
  if (recovery->other_key)
    mg_log(MG_LOG_WARN,
           "journal shard %u: the fingerprint key is not the one of what is there; fingerprints from now on cannot be "
           "compared with those",
           slot);
  if (!recovery->entries && !recovery->segments && !recovery->damages && !recovery->set_aside) return;
  mg_log(recovery->damages || recovery->set_aside ? MG_LOG_ERROR : MG_LOG_INFO,
         "journal shard %u recovered in %.1f ms: %llu entries out of the stage, %u segments left open, %u places that "
         "cannot be "
         "read, %u files set aside",
         slot, milliseconds, (unsigned long long)recovery->entries, recovery->segments, recovery->damages,
         recovery->set_aside);
}

static struct mg_shard_options shard_options(const struct mg_settings *settings, unsigned slot, uint64_t id_base,
                                             uint64_t key_mark)
{
  bool group = strcmp(settings->sync, "group") == 0;
  uint64_t interval = group ? 0 : strtoull(settings->sync, NULL, 10);
  return (struct mg_shard_options){.folder = settings->work_dir,
                                   .number = slot,
                                   .stage_bytes = settings->stage_bytes,
                                   .segment_bytes = settings->shard_bytes,
                                   .compress = strcmp(settings->compression, "zstd") == 0,
                                   .level = atoi(settings->compression_level),
                                   .sync = group      ? MG_SYNC_GROUP
                                           : interval ? MG_SYNC_INTERVAL
                                                      : MG_SYNC_PROCESS,
                                   .interval_ms = interval,
                                   .pre_fault = settings->pre_fault,
                                   .threaded = mg_processors() > 1,
                                   .id_base = id_base,
                                   .key_mark = key_mark,
                                   .now_us = wall_us()};
}

/* A worker fills one shard: its loop is the only one that records there, and more shards would only part what it knows
 * of headers that come again. Said by one of them. */
static void warn_of_shard_count(const struct mg_settings *settings, unsigned slot)
{
  if (slot != 0 || !settings->shard_count || settings->shard_count == settings->workers) return;
  mg_log(MG_LOG_WARN, "storage.shard_count %llu: there is one shard for each worker, so there are %llu",
         (unsigned long long)settings->shard_count, (unsigned long long)settings->workers);
}

/* --- shards that nobody fills ------------------------------------------------------------------------------------- */

enum { SHARDS_MAX = 1000 };

static void note_open(void *context, const char *name)
{
  bool *open = context, sealed;
  unsigned shard;
  uint64_t number;
  if (mg_segment_name(name, &shard, &number, &sealed) && !sealed && shard < SHARDS_MAX) open[shard] = true;
}

/* Whatever was killed while it had more workers than there are now, or as another's successor, left shards that no
 * worker opens: nobody would ever seal them, and what is not sealed is never deleted. One that is still filled is
 * locked, and let be. */
static void seal_left_shards(const struct mg_gateway *gateway, uint64_t key_mark)
{
  const struct mg_settings *settings = gateway->settings;
  bool open[SHARDS_MAX] = {false};
  mg_file_system.list(settings->work_dir, note_open, open);
  for (unsigned i = (unsigned)settings->workers; i < SHARDS_MAX; i++) {
    if (!open[i]) continue;
    const struct mg_shard_options options = shard_options(settings, i, gateway->id_base, key_mark);
    struct mg_shard *shard;
    struct mg_recovery recovery;
    struct mg_buf why = {0};
    uint64_t began_us = wall_us();
    int result = mg_shard_open(&shard, &options, &mg_file_system, &recovery, &why);
    if (result == 0) {
      mg_shard_close(&shard);
      log_recovery(&recovery, i, (double)(wall_us() - began_us) / 1000);
    } else if (result != -EWOULDBLOCK) {
      mg_log(MG_LOG_WARN, "journal shard %u, which no worker fills, stays open: %.*s", i, (int)why.len, why.ptr);
    }
    mg_buf_free(&why);
  }
}

/* --- batches at rest ---------------------------------------------------------------------------------------------- */

static void stop_rest(struct mg_recorder *recorder)
{
  uv_timer_stop(recorder->rest);
  recorder->rest_runs = false;
}

/* A slot is closed by being full while there is much to do, which compresses best. When there is little, whoever
 * follows the journal should not wait for that: REST_MS after its first entry a slot that holds less than REST_BYTES is
 * closed, and one that fills slowly REST_TICKS later at the latest. */
static void on_rest(uv_timer_t *timer)
{
  struct mg_recorder *recorder = timer->data;
  const struct mg_stage *stage = recorder->stage;
  if (!stage->slot || !stage->entries) {
    stop_rest(recorder);
  } else if (recorder->rest_gen != stage->gen) { /* opened since: how long ago is not known */
    recorder->rest_gen = stage->gen;
    recorder->rest_ticks = 0;
  } else if (stage->at < REST_BYTES || ++recorder->rest_ticks == REST_TICKS) {
    stop_rest(recorder);
    mg_shard_flush(recorder->shard);
  }
}

/* To be called when entries were committed. */
static void pushed(struct mg_recorder *recorder)
{
  mg_shard_push(recorder->shard);
  if (recorder->rest_runs) return;
  recorder->rest_runs = true;
  recorder->rest_gen = recorder->stage->gen;
  recorder->rest_ticks = 0;
  uv_timer_start(recorder->rest, on_rest, REST_MS, REST_MS);
}

static void start_rest(struct mg_recorder *recorder, struct mg_gateway *gateway)
{
  recorder->rest = mg_calloc(1, sizeof *recorder->rest);
  recorder->rest->data = recorder;
  uv_timer_init(gateway->net.loop, recorder->rest);
  uv_unref((uv_handle_t *)recorder->rest);
}

/* --- group commit ------------------------------------------------------------------------------------------------- */

static void wait_for_sync(struct mg_recorder *recorder, uint64_t handle)
{
  if (recorder->waiting_count == recorder->waiting_capacity) {
    recorder->waiting_capacity = recorder->waiting_capacity ? recorder->waiting_capacity * 2 : 64;
    recorder->waiting = mg_realloc(recorder->waiting, recorder->waiting_capacity * sizeof *recorder->waiting);
  }
  recorder->waiting[recorder->waiting_count++] = handle;
  if (recorder->waiting_count == 1) mg_shard_ask_sync(recorder->shard);
}

/* Those whose START is on the disk go on; the others, which came while it was written, make the next group. */
static void on_synced(uv_async_t *async)
{
  struct mg_recorder *recorder = async->data;
  unsigned count = recorder->waiting_count;
  uint64_t *handles = recorder->waiting;
  recorder->waiting = NULL;
  recorder->waiting_count = recorder->waiting_capacity = 0;
  for (unsigned i = 0; i < count; i++) {
    struct mg_exchange *ex = mg_exchange_find(recorder->gateway, handles[i]);
    if (ex && ex->step == MG_STEP_RECORD) mg_exchange_run(ex);
  }
  free(handles);
}

static void tell_synced(void *context)
{
  uv_async_send(context);
}

static void on_handle_closed(uv_handle_t *handle)
{
  free(handle);
}

static void start_group(struct mg_recorder *recorder, struct mg_gateway *gateway)
{
  recorder->group = true;
  recorder->synced = mg_calloc(1, sizeof *recorder->synced);
  recorder->synced->data = recorder;
  uv_async_init(gateway->net.loop, recorder->synced, on_synced);
  mg_shard_on_sync(recorder->shard, tell_synced, recorder->synced);
}

int mg_recorder_open(struct mg_recorder **out, struct mg_gateway *gateway, struct mg_buf *error)
{
  const struct mg_settings *settings = gateway->settings;
  unsigned slot = gateway->slot;
  uint64_t id_base = gateway->id_base;
  struct mg_recorder *recorder = mg_calloc(1, sizeof *recorder);
  struct mg_recovery recovery;
  uint64_t began_us = wall_us();
  *out = recorder;
  recorder->id_base = id_base;
  recorder->on_full = strcmp(settings->on_full, "drop") == 0    ? MG_FULL_DROP
                      : strcmp(settings->on_full, "block") == 0 ? MG_FULL_BLOCK
                                                                : MG_FULL_REFUSE;
  warn_of_shard_count(settings, slot);
  int result = make_folder(settings->work_dir, error);
  if (result == 0) recorder->redactor = mg_redactor_open(settings, settings->work_dir, error);
  uint64_t key_mark = recorder->redactor ? mg_redactor_key_mark(recorder->redactor) : 0;
  const struct mg_shard_options options = shard_options(settings, slot, id_base, key_mark);
  if (recorder->redactor) result = mg_shard_open(&recorder->shard, &options, &mg_file_system, &recovery, error);
  if (!recorder->redactor || result != 0) {
    mg_recorder_close(out);
    return -1;
  }
  log_recovery(&recovery, slot, (double)(wall_us() - began_us) / 1000);
  if (slot == 0) seal_left_shards(gateway, key_mark);
  recorder->stage = mg_shard_stage(recorder->shard);
  recorder->reserve = recorder->stage->slots >= 8 ? recorder->stage->slots / 4 : 0;
  recorder->texts = mg_texts_open(recorder->redactor);
  if (options.compress) recorder->sieve = mg_sieve_new(options.level);
  recorder->gateway = gateway;
  start_rest(recorder, gateway);
  if (options.sync == MG_SYNC_GROUP) start_group(recorder, gateway);
  return 0;
}

void mg_recorder_close(struct mg_recorder **pointer)
{
  struct mg_recorder *recorder = *pointer;
  *pointer = NULL;
  if (!recorder) return;
  int result = mg_shard_close(&recorder->shard);
  if (result != 0)
    mg_log(MG_LOG_ERROR, "the journal's last entries stay in its stage until the next start: %s", strerror(-result));
  if (recorder->redactor) mg_redactor_close(&recorder->redactor);
  if (recorder->texts) mg_texts_close(&recorder->texts);
  mg_sieve_free(&recorder->sieve);
  if (recorder->synced) uv_close((uv_handle_t *)recorder->synced, on_handle_closed);
  if (recorder->rest) uv_close((uv_handle_t *)recorder->rest, on_handle_closed);
  free(recorder->waiting);
  free(recorder);
}

/* --- a full stage ------------------------------------------------------------------------------------------------- */

/* Whether a slot can be had, by our own work if need be. */
static bool has_room(struct mg_recorder *recorder, unsigned reserve)
{
  if (mg_stage_room(recorder->stage) > PIECE_MAX || mg_stage_free(recorder->stage) > reserve) return true;
  mg_shard_make_room(recorder->shard, reserve);
  return mg_stage_free(recorder->stage) > reserve;
}

static void put_gap(struct mg_recorder *recorder, uint64_t time_us, uint8_t reason)
{
  struct mg_gap *gap = &recorder->gaps[reason];
  if (gap->count && mg_record_put_gap(recorder, time_us, gap->first, gap->count, reason)) gap->count = 0;
  if (gap->count) recorder->has_gaps = true;
}

static void note_gap(struct mg_recorder *recorder, uint64_t number, uint8_t reason, struct mg_gateway *gateway)
{
  struct mg_gap *gap = &recorder->gaps[reason];
  mg_count(&gateway->cell->count.journal_dropped, 1);
  if (gap->count && number == gap->first + gap->count) {
    gap->count++;
    return;
  }
  put_gap(recorder, recorder->stage->last_time_us, reason); /* two with something between them */
  *gap = (struct mg_gap){.first = number, .count = 1};
  recorder->has_gaps = true;
}

static void say_gaps(struct mg_recorder *recorder, uint64_t time_us)
{
  if (!recorder->has_gaps) return;
  recorder->has_gaps = false;
  for (uint8_t reason = 0; reason < MG_GAP_REASONS; reason++) put_gap(recorder, time_us, reason);
}

void mg_recorder_flush(struct mg_recorder *recorder, struct mg_worker_cell *cell)
{
  say_gaps(recorder, recorder->stage->last_time_us);
  mg_shard_flush(recorder->shard);
  struct mg_shard_facts facts = mg_shard_facts(recorder->shard);
  if (!recorder->counts_on) {
    recorder->bytes_before = atomic_load(&cell->count.journal_bytes);
    recorder->plain_bytes_before = atomic_load(&cell->count.journal_plain_bytes);
    recorder->repairs_before = atomic_load(&cell->count.journal_repairs);
    recorder->counts_on = true;
  }
  atomic_store_explicit(&cell->count.journal_bytes, recorder->bytes_before + facts.placed_bytes, memory_order_relaxed);
  atomic_store_explicit(&cell->count.journal_plain_bytes, recorder->plain_bytes_before + recorder->plain_bytes,
                        memory_order_relaxed);
  atomic_store_explicit(&cell->journal_slots, facts.slots, memory_order_relaxed);
  atomic_store_explicit(&cell->journal_slots_used, facts.slots - facts.free_slots, memory_order_relaxed);
  atomic_store_explicit(&cell->count.journal_repairs, recorder->repairs_before + facts.repairs, memory_order_relaxed);
  atomic_store_explicit(&cell->journal_errno, (uint32_t)facts.trouble, memory_order_relaxed);
}

/* --- the life of an exchange -------------------------------------------------------------------------------------- */

static int begin(struct mg_recorder *recorder, struct mg_exchange *ex, const struct mg_journal_plan *plan)
{
  struct mg_record *record = &ex->record;
  bool room = has_room(recorder, recorder->reserve);
  if (!room && recorder->on_full == MG_FULL_REFUSE) return MG_ENOJOURNAL;
  if (!room && recorder->on_full == MG_FULL_BLOCK) return MG_EAGAIN_LATER;
  if (room) say_gaps(recorder, mg_record_time_us(ex, ex->began_ns)); /* else there is one gap, which grows */
  record->number = ++recorder->number;
  if (room && mg_record_put_start(recorder, ex, plan)) {
    mg_count(&ex->gateway->cell->count.journal_exchanges, 1);
    record->lsn = recorder->group ? recorder->stage->next_lsn - 1 : 0;
    pushed(recorder);
    return 0;
  }
  record->lost = true;
  note_gap(recorder, record->number, MG_GAP_NO_SPACE, ex->gateway);
  return 0;
}

int mg_record_start(struct mg_exchange *ex)
{
  const struct mg_journal_plan *plan = plan_of(ex);
  if (!plan) return 0;
  struct mg_recorder *recorder = ex->gateway->recorder;
  int err = ex->record.number ? 0 : begin(recorder, ex, plan);
  if (err || !ex->record.lsn || ex->step != MG_STEP_RECORD) return err;
  if (mg_shard_durable(recorder->shard, ex->record.lsn)) return ex->record.lsn = 0, 0;
  if (mg_shard_facts(recorder->shard).trouble) return MG_ENOJOURNAL;
  wait_for_sync(recorder, ex->handle);
  return MG_EAGAIN_LATER;
}

/* Pieces of text end before the next is begun, so that the same body is cut the same way again. */
static void put_pieces(struct mg_recorder *recorder, struct mg_exchange *ex, unsigned side, const char *bytes,
                       size_t len)
{
  while (len && !ex->record.lost && !(ex->record.cut >> side & 1)) {
    size_t part = len < PIECE_MAX ? len : PIECE_MAX;
    if (!has_room(recorder, 0) || !mg_record_put_piece(recorder, ex, side, mg_str(bytes, part))) {
      ex->record.cut |= (uint8_t)(1 << side); /* what comes later would pass for what is missing */
      if (recorder->stage->slot) return;      /* said by END: fewer bytes recorded than there were */
      note_gap(recorder, ex->record.number, MG_GAP_BODY_LOST, ex->gateway);
      return;
    }
    ex->record.body_bytes[side] += part;
    bytes += part;
    len -= part;
  }
  pushed(recorder);
}

bool mg_record_wants_body(const struct mg_exchange *ex, unsigned side)
{
  const struct mg_journal_plan *plan = plan_of(ex);
  if (!plan) return false;
  return (side == SIDE_RESPONSE ? level_at(plan, side, ex->response.status) : plan->level[side]) == MG_LEVEL_FULL;
}

void mg_record_body(struct mg_exchange *ex, unsigned side, const char *bytes, size_t len)
{
  if (!len || !mg_record_wants_body(ex, side)) return;
  if (mg_record_start(ex) != 0) return;
  put_pieces(ex->gateway->recorder, ex, side, bytes, len);
}

void mg_record_end(struct mg_exchange *ex)
{
  const struct mg_journal_plan *plan = plan_of(ex);
  if (!plan) return;
  struct mg_recorder *recorder = ex->gateway->recorder;
  unsigned status = ex->head_sent ? ex->response.status : 0;
  unsigned request_level = level_at(plan, SIDE_REQUEST, status), response_level = level_at(plan, SIDE_RESPONSE, status);
  if (!request_level && response_level) request_level = MG_LEVEL_METADATA;
  bool wanted = request_level || response_level;
  if (!ex->record.number && (!wanted || begin(recorder, ex, plan) != 0)) return;
  if (ex->record.lost) return;
  bool kept = has_room(recorder, 0) && (wanted ? mg_record_put_end(recorder, ex, request_level, response_level)
                                               : mg_record_put_drop(recorder, ex));
  if (!kept) note_gap(recorder, ex->record.number, MG_GAP_END_LOST, ex->gateway);
  recorder->plain_bytes += ex->record.bytes;
  if (ex->tally) mg_tally_add(&ex->tally->journal_bytes, ex->record.bytes);
  pushed(recorder);
}
