/* api_sample.c - a request that nobody sent, read and routed as one of the network would be, for `moongate explain`.
 * Owns: struct mg_sample.   May call: http1, target, forward, address, routes, predicates.   Never: open a socket,
 * call Lua.
 * Thread: the builder's. */
#include "api_private.h"

#include <stdlib.h>
#include <string.h>

#include "forward.h"
#include "predicates.h"
#include "target.h"

enum { ARENA_SIZE = 64 * 1024, CHUNK_SIZE = 64 * 1024, TAKEN_MAX = 8 * 1024 * 1024 };

struct mg_sample {
  struct mg_arena arena;
  struct mg_request_head head;
  struct mg_target_parts target;
  struct mg_str host;
  struct mg_address peer, client;
  struct mg_network trusted[MG_TRUSTED_MAX];
  unsigned trusted_count;
  struct mg_predicates *predicates;
  struct mg_pool pool;
  char *bytes; /* the head as it would arrive; texts point into it */
  size_t len;
  char first[ARENA_SIZE];
};

struct mg_sample *mg_sample_new(const char *head, size_t len)
{
  struct mg_sample *sample = mg_calloc(1, sizeof *sample);
  mg_pool_init(&sample->pool, CHUNK_SIZE, 0);
  mg_arena_init(&sample->arena, sample->first, sizeof sample->first, &sample->pool, TAKEN_MAX);
  mg_headers_init(&sample->head.headers, &sample->arena);
  sample->bytes = mg_alloc(len + 1);
  memcpy(sample->bytes, head, len);
  sample->len = len;
  sample->predicates = mg_predicates_new();
  return sample;
}

void mg_sample_free(struct mg_sample *sample)
{
  mg_predicates_free(&sample->predicates);
  mg_arena_reset(&sample->arena, sample->first, sizeof sample->first);
  mg_pool_destroy(&sample->pool);
  free(sample->bytes);
  free(sample);
}

int mg_sample_peer(struct mg_sample *sample, const char *address, size_t len)
{
  return mg_address_parse(mg_str(address, len), &sample->peer) ? MG_LUA_OK : MG_LUA_VALUE;
}

int mg_sample_trust(struct mg_sample *sample, const char *network, size_t len)
{
  if (sample->trusted_count == MG_TRUSTED_MAX) return MG_LUA_VALUE;
  if (!mg_network_parse(mg_str(network, len), &sample->trusted[sample->trusted_count])) return MG_LUA_VALUE;
  sample->trusted_count++;
  return MG_LUA_OK;
}

int mg_sample_predicate(struct mg_sample *sample, int test, const char *name, size_t name_len, const char *value,
                        size_t value_len)
{
  return mg_predicates_add(sample->predicates, test, mg_str(name, name_len), mg_str(value, value_len));
}

static bool is_trusted(const struct mg_sample *sample)
{
  for (unsigned i = 0; i < sample->trusted_count; i++)
    if (mg_network_has(&sample->trusted[i], &sample->peer)) return true;
  return false;
}

/* The steps head and check of an exchange. */
int mg_sample_read(struct mg_sample *sample, const struct mg_sample_limits *limits)
{
  const struct mg_head_limits head_limits = {.line_bytes_max = limits->line_bytes_max,
                                             .head_bytes_max = limits->head_bytes_max,
                                             .header_count_max = limits->header_count_max};
  struct mg_request_head *head = &sample->head;
  struct mg_str port;
  int took = mg_request_head_parse(head, sample->bytes, sample->len, &head_limits);
  if (took < 0) return took;
  if ((size_t)took != sample->len) return MG_EBADHEADER; /* an empty line within what should be one head */
  int err = mg_target_split(&sample->target, head->target, &sample->arena, limits->refuse_encoded_slash != 0);
  if (err) return err;
  if (head->host.len) mg_authority_split(head->host, &sample->host, &port);
  if (limits->entity_bytes_max > 0 && (double)head->content_length > limits->entity_bytes_max) return MG_EBODYLARGE;
  bool trusted = is_trusted(sample);
  sample->client = sample->peer;
  if (trusted)
    mg_client_address(&head->headers, &sample->peer, sample->trusted, sample->trusted_count, &sample->client);
  mg_request_sanitise(head, trusted);
  return 0;
}

const char *mg_sample_text(const struct mg_sample *sample, int which, int *len)
{
  switch (which) {
  case MG_SAMPLE_METHOD:
    return give(sample->head.method, len);
  case MG_SAMPLE_PATH:
    return give(sample->target.path, len);
  case MG_SAMPLE_QUERY:
    return give(sample->target.query, len);
  case MG_SAMPLE_HOST:
    return give(sample->host, len);
  default:
    return give(mg_str(sample->client.text, sample->client.text_len), len);
  }
}

static int decide(void *context, unsigned index)
{
  struct mg_sample *sample = context;
  const struct mg_predicate_subject subject = {.path = sample->target.path,
                                               .query = sample->target.query,
                                               .headers = &sample->head.headers,
                                               .client = &sample->client,
                                               .arena = &sample->arena};
  return mg_predicates_decide(sample->predicates, index, &subject);
}

static struct mg_route_query query_of(struct mg_sample *sample)
{
  return (struct mg_route_query){.path = sample->target.path,
                                 .host = sample->host,
                                 .method = sample->head.method,
                                 .headers = &sample->head.headers,
                                 .opaque = decide,
                                 .context = sample};
}

int mg_sample_find(struct mg_sample *sample, const struct mg_routes *routes)
{
  const struct mg_route_query query = query_of(sample);
  return mg_routes_find(routes, &query);
}

int mg_sample_test(struct mg_sample *sample, const struct mg_routes *routes, unsigned index)
{
  const struct mg_route_query query = query_of(sample);
  int result = mg_routes_test(routes, index, &query);
  return result == MG_EAGAIN_LATER ? MG_SAMPLE_UNDECIDED : result;
}

const char *mg_fault_text(int err, int *status, const char **word)
{
  *status = mg_err_status(err);
  *word = mg_err_word(err);
  return mg_err_sentence(err);
}
