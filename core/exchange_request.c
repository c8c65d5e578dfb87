/* exchange_request.c - the steps from the first byte to the record: head, check, open, route, collect, request, record.
 * Owns: nothing of its own.   May call: http1, target, forward, routes, exchange_script.   Never: touch a socket.
 * Thread: the loop's. */
#include "exchange.h"
#include "exchange_trace.h"

#include "log.h"

enum mg_next mg_step_head(struct mg_exchange *ex)
{
  const struct mg_settings *settings = ex->gateway->settings;
  struct mg_inflow *in = &ex->client->in;
  const struct mg_head_limits limits = {.line_bytes_max = (uint32_t)settings->line_bytes_max,
                                        .head_bytes_max = (uint32_t)settings->head_bytes_max,
                                        .header_count_max = (uint32_t)settings->header_count_max};
  int took = mg_request_head_parse(&ex->request, in->at, in->len, &limits);
  if (took == 0) return MG_WAIT;
  /* A refused head is kept as far as it was read, for whoever logs it. */
  int err = mg_request_head_keep(&ex->request, in->at, took > 0 ? (size_t)took : in->len);
  if (took < 0) err = took;
  if (err) {
    ex->close = true; /* where the next request would begin is anybody's guess */
    ex->request_broken = true;
    return mg_exchange_fail(ex, err);
  }
  mg_inflow_take(in, (size_t)took);
  ex->raw_target = ex->request.target;
  ex->close = !ex->request.keep_alive;
  ex->step = MG_STEP_CHECK;
  return MG_NEXT;
}

static int resolve_client(struct mg_exchange *ex)
{
  const struct mg_settings *settings = ex->gateway->settings;
  const struct mg_client *client = ex->client;
  ex->client_address = client->peer;
  const struct mg_header *te = mg_headers_get(&ex->request.headers, MG_H_TE);
  ex->te_trailers = te && mg_header_list_has(mg_str(te->value, te->value_len), MG_STR("trailers"));
  if (client->peer_trusted)
    ex->record.client_source = (uint8_t)mg_client_address(&ex->request.headers, &client->peer, settings->trusted,
                                                          settings->trusted_count, &ex->client_address);
  mg_request_sanitise(&ex->request, client->peer_trusted);
  return 0;
}

static int check(struct mg_exchange *ex)
{
  const struct mg_settings *settings = ex->gateway->settings;
  struct mg_request_head *request = &ex->request;
  struct mg_str port;
  int err = mg_target_split(&ex->target, request->target, &ex->arena, settings->refuse_encoded_slash);
  if (err) return err;
  /* OPTIONS * is about the server: routed as the root path, it goes on as it is (RFC 9112, 3.2.4). */
  if (mg_str_equal(ex->target.path, MG_STR("*"))) ex->target.path = MG_STR("/");
  if (request->host.len) mg_authority_split(request->host, &ex->request_host, &port);
  mg_headers_init(&ex->request_trailers, &ex->arena);
  err = mg_body_start(&ex->request_body, request->framing, request->content_length, &ex->arena, &ex->request_trailers);
  if (err) return err;
  ex->request_done = ex->request_body.done;
  if (settings->entity_bytes_max && request->content_length > settings->entity_bytes_max) return MG_EBODYLARGE;
  return resolve_client(ex);
}

enum mg_next mg_step_check(struct mg_exchange *ex)
{
  int err = check(ex);
  if (err) {
    ex->close = true;
    return mg_exchange_fail(ex, err);
  }
  ex->step = MG_STEP_OPEN;
  return MG_NEXT;
}

enum mg_next mg_step_open(struct mg_exchange *ex)
{
  ex->generation = ex->gateway->current;
  ex->generation->exchanges++;
  uint64_t time_max = ex->gateway->settings->exchange_time_max_ms;
  if (time_max) mg_timer_set(&ex->gateway->net.wheel, &ex->limit, time_max);
  if (ex->gateway->tracing && mg_exchange_start_trace(ex) != 0) return mg_exchange_fail(ex, MG_ENOMEM);
  ex->step = MG_STEP_ROUTE;
  return MG_NEXT;
}

static int decide_opaque(void *context, unsigned index)
{
  struct mg_exchange *ex = context;
  const struct mg_predicate_subject subject = {.path = ex->target.path,
                                               .query = ex->target.query,
                                               .headers = &ex->request.headers,
                                               .client = &ex->client_address,
                                               .arena = &ex->arena};
  int result = mg_predicates_decide(ex->generation->predicates, index, &subject);
  return result == MG_EAGAIN_LATER ? mg_exchange_ask(ex, index) : result;
}

enum mg_next mg_step_route(struct mg_exchange *ex)
{
  const struct mg_route_query query = {.path = ex->target.path,
                                       .host = ex->request_host,
                                       .method = ex->request.method,
                                       .headers = &ex->request.headers,
                                       .opaque = decide_opaque,
                                       .context = ex};
  int route = mg_routes_find(ex->generation->routes, &query);
  if (route < 0) return mg_exchange_fail(ex, route);
  ex->route = route;
  ex->plan = ex->plans[0] = &ex->generation->plans[route];
  ex->tally = ex->plan->tally;
  if (ex->tally) mg_tally_add(&ex->tally->active, 1);
  ex->step = MG_STEP_COLLECT;
  return MG_NEXT;
}

/* Begins the record. MG_EAGAIN_LATER: there is no space, or it is not on the disk yet; the step runs again. */
static int start_record(struct mg_exchange *ex)
{
  int err = mg_record_start(ex);
  if (err == MG_EAGAIN_LATER)
    mg_timer_set(&ex->gateway->net.wheel, &ex->retry, MG_TICK_MS);
  else
    mg_timer_off(&ex->retry);
  return err;
}

enum mg_next mg_step_collect(struct mg_exchange *ex)
{
  if (ex->plan->holds_request && !ex->request_done) {
    int err = mg_record_wants_body(ex, 0) ? start_record(ex) : 0;
    if (!err) err = mg_exchange_collect_request(ex);
    if (err == MG_EAGAIN_LATER) return MG_WAIT;
    if (err) {
      ex->close = true;
      ex->request_broken = true;
      return mg_exchange_fail(ex, err);
    }
  }
  ex->step = MG_STEP_REQUEST;
  return MG_NEXT;
}

enum mg_next mg_step_request(struct mg_exchange *ex)
{
  const struct mg_chain *chain = ex->depth ? &ex->plan->own_request : &ex->plan->request;
  if (chain->plain && !ex->script_done) {
    int err = mg_exchange_call(ex, chain, MG_PHASE_REQUEST);
    if (err == MG_EAGAIN_LATER) return MG_WAIT;
    if (err) return mg_exchange_fail(ex, err);
  }
  ex->script_done = false;
  ex->step = ex->answered ? MG_STEP_RESPONSE : MG_STEP_RECORD;
  return MG_NEXT;
}

struct mg_edit_mark mg_exchange_mark(struct mg_exchange *ex)
{
  return (struct mg_edit_mark){ex->last_edit, ex->new_path, ex->new_query, ex->new_host};
}

void mg_exchange_undo_edits(struct mg_exchange *ex, const struct mg_edit_mark *mark)
{
  ex->last_edit = mark->last_edit ? mark->last_edit : &ex->first_edit;
  *ex->last_edit = NULL;
  ex->new_path = mark->new_path;
  ex->new_query = mark->new_query;
  ex->new_host = mark->new_host;
}

/* Another route stands in: the edits of this one are dropped, its later phases still run. */
static void fall_back(struct mg_exchange *ex)
{
  ex->plan = ex->plans[++ex->depth] = &ex->generation->plans[ex->plan->fallback];
  mg_exchange_undo_edits(ex, &ex->mark);
  ex->wanted_member = 0;
  ex->response_at = (int8_t)ex->depth;
  ex->step = MG_STEP_REQUEST;
}

enum mg_next mg_step_record(struct mg_exchange *ex)
{
  if (ex->plan->fallback >= 0 && ex->depth < MG_FALLBACKS_MAX && mg_group_down(&ex->plan->group)) {
    fall_back(ex);
    return MG_NEXT;
  }
  int err = start_record(ex);
  if (err == MG_EAGAIN_LATER) return MG_WAIT;
  if (err) return mg_exchange_fail(ex, err);
  ex->step = MG_STEP_UPSTREAM;
  return MG_NEXT;
}
