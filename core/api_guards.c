/* api_guards.c - limiters and breakers for filters: made while a generation is built, asked for each request.
 * Owns: a generation's guards.   May call: exchange, limiter, breaker, states.   Never: call Lua (an FFI call must not
 * come back).
 * Thread: the builder's helper thread for making, else the loop's. */
#include "api_private.h"

#include <errno.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "guard.h"
#include "log.h"
#include "states.h"

enum { STATE_NAME_BYTES = 64, PROBE_MS_MIN = 60000 };

/* --- making ------------------------------------------------------------------------------------------------------- */

void mg_digest(const char *bytes, size_t len, char out[65])
{
  static const char digits[] = "0123456789abcdef";
  unsigned char hash[EVP_MAX_MD_SIZE];
  MG_ASSERT(EVP_Digest(bytes, len, hash, NULL, EVP_sha256(), NULL) == 1);
  for (int i = 0; i < 32; i++) {
    out[2 * i] = digits[hash[i] >> 4];
    out[2 * i + 1] = digits[hash[i] & 15];
  }
  out[64] = '\0';
}

static bool read_rules(struct mg_limiter_rules *rules, const struct mg_limiter_options *options)
{
  return mg_limiter_rules(rules, options->capacity, options->refill_tokens, options->period_ms, options->ttl_ms,
                          options->buckets);
}

double mg_limiter_size(const struct mg_limiter_options *options)
{
  struct mg_limiter_rules rules;
  return read_rules(&rules, options) ? (double)mg_limiter_bytes(&rules) : 0;
}

double mg_breaker_size(void)
{
  return sizeof(struct mg_breaker_cell);
}

/* The state of that name, or NULL when the master has made none. */
static void *state_of(const char *name, size_t size)
{
  struct mg_gateway *gateway = mg_api_gateway();
  return gateway ? mg_states_find(gateway->upstreams.shm, mg_str(name, STATE_NAME_BYTES), size) : NULL;
}

static void keep(struct mg_generation *generation, struct mg_guard *guard, enum mg_guard_kind kind)
{
  *guard = (struct mg_guard){.next = generation->guards, .kind = kind};
  generation->guards = guard;
}

struct mg_limiter *mg_generation_limiter(struct mg_generation *generation, const char *name,
                                         const struct mg_limiter_options *options)
{
  struct mg_limiter_rules rules;
  void *table = read_rules(&rules, options) ? state_of(name, mg_limiter_bytes(&rules)) : NULL;
  if (!table) return NULL;
  struct mg_limiter *limiter = mg_calloc(1, sizeof *limiter);
  keep(generation, &limiter->guard, MG_GUARD_LIMITER);
  limiter->rules = rules;
  limiter->table = table;
  memcpy(limiter->seed, mg_states_seed(mg_api_gateway()->upstreams.shm), sizeof limiter->seed);
  limiter->capacity = (uint64_t)options->capacity;
  limiter->ipv6_prefix = options->ipv6_prefix;
  return limiter;
}

struct mg_breaker *mg_generation_breaker(struct mg_generation *generation, const char *name,
                                         const struct mg_breaker_options *options)
{
  void *cell = state_of(name, sizeof(struct mg_breaker_cell));
  if (!cell) return NULL;
  struct mg_breaker *breaker = mg_calloc(1, sizeof *breaker);
  keep(generation, &breaker->guard, MG_GUARD_BREAKER);
  uint64_t cooldown_ms = (uint64_t)options->cooldown_ms;
  breaker->rules = (struct mg_breaker_rules){.failures_max = options->failures,
                                             .cooldown_ms = cooldown_ms,
                                             .probe_ms = cooldown_ms > PROBE_MS_MIN ? cooldown_ms : PROBE_MS_MIN};
  breaker->cell = cell;
  return breaker;
}

void mg_guards_free(struct mg_guard **first)
{
  while (*first) {
    struct mg_guard *guard = *first;
    *first = guard->next;
    free(guard);
  }
}

/* What Lua holds is the guard's address, dressed as a pointer to a struct that it cannot look into: no filter can make
 * one, and it lives as long as the lua_State does. */

/* --- notes -------------------------------------------------------------------------------------------------------- */

static struct mg_note *note_of(const struct mg_exchange *ex, const void *owner)
{
  struct mg_note *note = ex->notes;
  while (note && note->owner != owner) note = note->next;
  return note;
}

/* The note of owner on an exchange, made when there is none; NULL when the arena is full. */
static struct mg_note *make_note(struct mg_exchange *ex, const void *owner)
{
  struct mg_note *note = note_of(ex, owner);
  if (note) return note;
  note = mg_arena_alloc(&ex->arena, sizeof *note);
  if (!note) return NULL;
  *note = (struct mg_note){.next = ex->notes, .owner = owner};
  ex->notes = note;
  return note;
}

/* --- limiters ----------------------------------------------------------------------------------------------------- */

static uint64_t hash_client(const struct mg_limiter *limiter, const struct mg_address *address)
{
  uint8_t bytes[17] = {0}; /* all zero: unknown, as every client of a unix socket */
  unsigned bits = address->v4 ? 128 : limiter->ipv6_prefix;
  if (address->text_len) {
    memcpy(bytes, address->bytes, 16);
    for (unsigned i = 0; i < 16; i++) {
      unsigned kept = bits > i * 8 ? bits - i * 8 : 0;
      if (kept < 8) bytes[i] &= (uint8_t)(0xff00u >> kept);
    }
    bytes[16] = 1;
  }
  return mg_limiter_hash(limiter->seed, mg_str((const char *)bytes, sizeof bytes));
}

/* The key of a request: what a filter before has set as rate_limit_key, else what the limiter goes by, else the
 * client's address. */
static uint64_t hash_request(const struct mg_limiter *limiter, struct mg_exchange *ex, struct mg_request *request,
                             int source, const char *name, size_t name_len)
{
  static const char *(*const readers[])(struct mg_request *, const char *, size_t, int *) = {
      [MG_KEY_HEADER] = mg_request_header, [MG_KEY_COOKIE] = mg_request_cookie, [MG_KEY_QUERY] = mg_request_query};
  struct mg_exchange *exchange = (struct mg_exchange *)request; /* the same number */
  int len = 0;
  const char *text = mg_exchange_attribute(exchange, "rate_limit_key", 14, &len);
  if (text)
    source = MG_KEY_ATTRIBUTE;
  else if (source == MG_KEY_ATTRIBUTE)
    text = mg_exchange_attribute(exchange, name, name_len, &len);
  else if (source == MG_KEY_HEADER || source == MG_KEY_COOKIE || source == MG_KEY_QUERY)
    text = readers[source](request, name, name_len, &len);
  if (!text) return hash_client(limiter, &ex->client_address);
  const uint64_t seed[2] = {limiter->seed[0] ^ (uint64_t)(source + 1),
                            limiter->seed[1]}; /* equal text of two sources is two keys */
  return mg_limiter_hash(seed, mg_str(text, (size_t)len));
}

double mg_request_take_token(struct mg_request *request, struct mg_limiter *limiter, int source, const char *name,
                             size_t name_len)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST || !limiter || limiter->guard.kind != MG_GUARD_LIMITER) return MG_LUA_PHASE;
  struct mg_note *note = make_note(ex, limiter);
  if (!note) return MG_LUA_NOMEM;
  uint64_t hash = hash_request(limiter, ex, request, source, name, name_len);
  struct mg_limiter_outcome outcome = mg_limiter_take(limiter->table, &limiter->rules, hash, uv_hrtime());
  note->value = outcome.remaining;
  return (double)outcome.wait_ns / 1e9;
}

static int set_number(struct mg_headers *headers, struct mg_str name, uint64_t value)
{
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
  return mg_api_edit_list(headers, NULL, MG_EDIT_SET, name, mg_str(digits, (size_t)len));
}

int mg_response_show_tokens(struct mg_response *response, struct mg_limiter *limiter)
{
  struct mg_exchange *ex = find(response);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_RESPONSE || !limiter || limiter->guard.kind != MG_GUARD_LIMITER) return MG_LUA_PHASE;
  const struct mg_note *note = note_of(ex, limiter);
  if (!note) return MG_LUA_OK; /* it was answered before it came here */
  int err = set_number(&ex->response.headers, MG_STR("x-ratelimit-limit"), limiter->capacity);
  return err ? err : set_number(&ex->response.headers, MG_STR("x-ratelimit-remaining"), note->value);
}

/* --- breakers ----------------------------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
  return uv_hrtime() / 1000000;
}

static bool is_alive(uint32_t pid)
{
  return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

int mg_request_enter(struct mg_request *request, struct mg_breaker *breaker)
{
  struct mg_exchange *ex = find(request);
  if (!ex) return MG_LUA_GONE;
  if (ex->phase != MG_PHASE_REQUEST || !breaker || breaker->guard.kind != MG_GUARD_BREAKER) return MG_LUA_PHASE;
  struct mg_note *note = make_note(ex, breaker);
  if (!note) return MG_LUA_NOMEM;
  struct mg_breaker_pass pass;
  note->open = mg_breaker_enter(breaker->cell, &breaker->rules, now_ms(), (uint32_t)getpid(), is_alive, &pass);
  note->value = pass.probe;
  return note->open;
}

int mg_exchange_report(struct mg_exchange *handle, struct mg_breaker *breaker)
{
  struct mg_exchange *ex = find(handle);
  if (!ex) return MG_LUA_GONE;
  if (!breaker || breaker->guard.kind != MG_GUARD_BREAKER) return MG_LUA_PHASE;
  struct mg_note *note = note_of(ex, breaker);
  if (!note || !note->open) return MG_LUA_OK; /* it never came here, was refused, or has been told of */
  bool answered = ex->phase == MG_PHASE_RESPONSE || ex->head_sent;
  enum mg_breaker_outcome outcome = !answered                    ? MG_BREAKER_UNKNOWN
                                    : ex->response.status >= 500 ? MG_BREAKER_FAILURE
                                                                 : MG_BREAKER_SUCCESS;
  note->open = false;
  mg_breaker_leave(breaker->cell, &breaker->rules, now_ms(), (struct mg_breaker_pass){note->value}, outcome);
  return MG_LUA_OK;
}
