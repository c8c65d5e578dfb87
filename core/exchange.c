/* exchange.c - the step table, its driver, and the life of an exchange.
 * Owns: exchanges from new to free.   May call: client, http1, upstream, script (through exchange_script).
 * Never: the Lua C API.   Thread: the loop's. */
#include "exchange.h"

#include <stdio.h>

#include "log.h"

#define TO(step) (1u << MG_STEP_##step)

/* Every step and the steps that may follow it. */
static const struct step {
  const char *name;
  enum mg_next (*run)(struct mg_exchange *ex);
  uint32_t next;
} steps[MG_STEP_COUNT] = {
    [MG_STEP_HEAD] = {"head", mg_step_head, TO(CHECK) | TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_CHECK] = {"check", mg_step_check, TO(OPEN) | TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_OPEN] = {"open", mg_step_open, TO(ROUTE)},
    [MG_STEP_ROUTE] = {"route", mg_step_route, TO(COLLECT) | TO(RESPONSE)},
    [MG_STEP_COLLECT] = {"collect", mg_step_collect, TO(REQUEST) | TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_REQUEST] = {"request", mg_step_request, TO(RECORD) | TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_RECORD] = {"record", mg_step_record, TO(REQUEST) | TO(UPSTREAM) | TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_UPSTREAM] = {"upstream", mg_step_upstream, TO(UPSTREAM) | TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_RESPONSE] = {"response", mg_step_response, TO(RELAY) | TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_RELAY] = {"relay", mg_step_relay, TO(RESPONSE) | TO(CLOSE)},
    [MG_STEP_CLOSE] = {"close", mg_step_close, 0},
};

static void on_retry(struct mg_timer *timer)
{
  mg_exchange_run((struct mg_exchange *)((char *)timer - offsetof(struct mg_exchange, retry)));
}

static void on_limit(struct mg_timer *timer)
{
  mg_exchange_time_out((struct mg_exchange *)((char *)timer - offsetof(struct mg_exchange, limit)));
}

static size_t first_size(void)
{
  return MG_EXCHANGE_BYTES - sizeof(struct mg_exchange);
}

struct mg_exchange *mg_exchange_new(struct mg_gateway *gateway, struct mg_client *client)
{
  unsigned slot;
  if (gateway->free_count)
    slot = gateway->free_slots[--gateway->free_count];
  else if (gateway->slots_used < MG_SLOTS)
    slot = gateway->slots_used++;
  else
    return NULL;
  struct mg_exchange *ex = mg_pool_get(&gateway->exchange_pool);
  memset(ex, 0, sizeof *ex);
  gateway->slots[slot] = ex;
  ex->handle = (uint64_t)(++gateway->slot_generations[slot]) << 16 | slot;
  ex->gateway = gateway;
  ex->client = client;
  ex->route = -1;
  ex->last_edit = &ex->first_edit;
  ex->began_ns = uv_hrtime();
  ex->wall_ms = gateway->wall_offset_ms + ex->began_ns / 1000000;
  ex->id_count = gateway->id_count++;
  mg_timer_init(&ex->retry, on_retry);
  mg_timer_init(&ex->limit, on_limit);
  mg_arena_init(&ex->arena, ex->first, first_size(), &gateway->arena_pool, MG_ARENA_BYTES_MAX);
  mg_headers_init(&ex->request.headers, &ex->arena);
  mg_headers_init(&ex->response.headers, &ex->arena);
  mg_count(&gateway->cell->count.exchanges_active, 1);
  return ex;
}

static void free_exchange(struct mg_exchange *ex)
{
  struct mg_gateway *gateway = ex->gateway;
  unsigned slot = ex->handle & (MG_SLOTS - 1);
  MG_ASSERT(gateway->slots[slot] == ex && !ex->up);
  mg_timer_remove(&ex->retry);
  mg_timer_remove(&ex->limit);
  mg_exchange_drop_locals(ex);
  mg_exchange_stop_waiting(ex);
  mg_exchange_drop_file(ex);
  mg_inflow_free(&ex->up_in);
  mg_buf_free(&ex->request_held);
  mg_buf_free(&ex->answer_held);
  mg_buf_free(&ex->given);
  mg_arena_reset(&ex->arena, ex->first, first_size());
  gateway->slots[slot] = NULL;
  gateway->free_slots[gateway->free_count++] = (uint16_t)slot;
  if (ex->generation) mg_gateway_release(gateway, ex->generation);
  if (ex->tally && ex->tunnel) mg_tally_add(&ex->tally->tunnels, (uint64_t)-1);
  mg_pool_put(&gateway->exchange_pool, ex);
  mg_count(&gateway->cell->count.exchanges_active, -1);
}

struct mg_exchange *mg_exchange_find(struct mg_gateway *gateway, uint64_t handle)
{
  struct mg_exchange *ex = gateway->slots[handle & (MG_SLOTS - 1)];
  return ex && ex->handle == handle ? ex : NULL;
}

void mg_exchange_run(struct mg_exchange *ex)
{
  if (ex->running) return; /* a call from inside one of its own steps: that one sees what has changed */
  ex->running = true;
  for (;;) {
    const struct step *step = &steps[ex->step];
    enum mg_next next = step->run(ex);
    if (next == MG_WAIT) break;
    if (next == MG_DONE) {
      struct mg_client *client = ex->client;
      bool keep = !ex->close;
      free_exchange(ex);
      if (client) mg_client_exchange_done(client, keep);
      return;
    }
    if (!(step->next >> ex->step & 1))
      mg_log(MG_LOG_ERROR, "step %s may not be followed by %s", step->name, steps[ex->step].name);
    MG_ASSERT(step->next >> ex->step & 1);
  }
  ex->running = false;
}

void mg_exchange_forget(struct mg_exchange *ex)
{
  MG_ASSERT(ex->step == MG_STEP_HEAD);
  free_exchange(ex);
}

enum mg_next mg_exchange_fail(struct mg_exchange *ex, int err)
{
  MG_ASSERT(!ex->head_sent);
  int status = mg_err_status(err);
  if (!status) return mg_exchange_break(ex, err);
  ex->err = err;
  mg_exchange_stop_waiting(ex);
  mg_exchange_drop_file(ex);
  mg_exchange_leave_upstream(ex, false);
  ex->source = MG_FROM_GATEWAY;
  ex->answered = true;
  ex->answer_is_held = false;
  ex->script_done = false;
  ex->response_at = (int8_t)ex->depth;
  ex->skip_filters = ex->skip_filters || ex->route < 0 || err == MG_ESCRIPT;
  mg_headers_init(&ex->response.headers, &ex->arena);
  ex->response.status = (uint16_t)status;
  ex->response.reason = MG_STR("");
  ex->arena.taken_max = MG_ARENA_BYTES_MAX + 2 * MG_ARENA_CHUNK_BYTES; /* whoever filled it up is told so */
  char *body = mg_arena_alloc(&ex->arena, 256);
  if (!body) return mg_exchange_break(ex, err);
  int len = snprintf(body, 256, "%s (%s)\n", mg_err_sentence(err), mg_err_word(err));
  ex->answer_body = mg_str(body, (size_t)len);
  if (mg_headers_push(&ex->response.headers, MG_STR("content-type"), MG_STR("text/plain; charset=utf-8"),
                      MG_H_CONTENT_TYPE))
    return mg_exchange_break(ex, err);
  if (status == 503 && mg_headers_push(&ex->response.headers, MG_STR("retry-after"), MG_STR("1"), MG_H_OTHER))
    return mg_exchange_break(ex, err);
  ex->step = MG_STEP_RESPONSE;
  return MG_NEXT;
}

enum mg_next mg_exchange_break(struct mg_exchange *ex, int err)
{
  ex->err = err;
  ex->close = true;
  mg_exchange_stop_waiting(ex);
  mg_exchange_leave_upstream(ex, false);
  if (ex->client) {
    if (ex->head_sent && ex->body_out == MG_OUT_CLOSE && !ex->response_done)
      mg_conn_reset(&ex->client->conn); /* an orderly end would pass for the end of the body */
    else
      mg_conn_close(&ex->client->conn);
  }
  ex->step = MG_STEP_CLOSE;
  return MG_NEXT;
}

struct mg_str mg_exchange_id_text(struct mg_exchange *ex)
{
  static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* Crockford's base 32, as in ULID */
  if (!ex->id_text[0]) {
    uint64_t high = ex->wall_ms << 16 | ex->gateway->slot, low = ex->id_count;
    for (int i = 25; i >= 0; i--) {
      ex->id_text[i] = digits[low & 31];
      low = low >> 5 | (high & 31) << 59;
      high >>= 5;
    }
  }
  return mg_str(ex->id_text, 26);
}

/* --- what the client connection tells ----------------------------------------------------------------------------- */

static void apply(struct mg_exchange *ex, enum mg_next (*end)(struct mg_exchange *, int), int err)
{
  MG_ASSERT(!ex->running);
  end(ex, err);
  mg_exchange_run(ex);
}

void mg_exchange_time_out(struct mg_exchange *ex)
{
  if (ex->step == MG_STEP_CLOSE) {
    mg_exchange_abort(ex);
    return;
  }
  if (!ex->request_done) ex->request_broken = ex->close = true;
  apply(ex, ex->head_sent ? mg_exchange_break : mg_exchange_fail, MG_EUPTIMEOUT);
}

void mg_exchange_abort(struct mg_exchange *ex)
{
  if (ex->step == MG_STEP_CLOSE) {
    mg_conn_close(&ex->client->conn);
    mg_exchange_run(ex);
  } else {
    apply(ex, mg_exchange_break, MG_EDRAINING);
  }
}

void mg_exchange_client_ended(struct mg_exchange *ex, int err)
{
  if (ex->tunnel && err != MG_ECLOSED) ex->tunnel_reset = true;
  if (ex->tunnel || (err == MG_ECLOSED && ex->request_done)) {
    mg_exchange_run(ex); /* it has asked all it wanted and may still read the answer */
    return;
  }
  if (!ex->request_done) ex->request_broken = true;
  if (ex->step == MG_STEP_CLOSE) {
    mg_conn_close(&ex->client->conn);
    mg_exchange_run(ex);
  } else if (err == MG_ECLOSED && !ex->head_sent) {
    ex->close = true;
    apply(ex, mg_exchange_fail, MG_EBODYSHORT);
  } else {
    apply(ex, mg_exchange_break, err == MG_ECLOSED ? MG_ETRUNCATED : err);
  }
}

void mg_exchange_client_timeout(struct mg_exchange *ex)
{
  if (ex->step == MG_STEP_CLOSE) {
    mg_conn_close(&ex->client->conn); /* it does not read the rest of the answer */
    mg_exchange_run(ex);
  } else if (!ex->head_sent && !ex->request_done) {
    ex->request_broken = true;
    apply(ex, mg_exchange_fail, MG_EBODYSLOW);
  } else {
    apply(ex, mg_exchange_break, MG_EIDLE);
  }
}

void mg_exchange_client_drained(struct mg_exchange *ex, int err)
{
  if (err && ex->step != MG_STEP_CLOSE) {
    apply(ex, mg_exchange_break, err);
    return;
  }
  if (err) mg_conn_close(&ex->client->conn);
  if (ex->up && !ex->up_ended) mg_conn_read(&ex->up->conn);
  mg_client_arm(ex->client);
  mg_exchange_run(ex);
}
