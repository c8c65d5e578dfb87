#pragma once
/* moongate_ffi.h - everything in C that Lua may see. Compiled by core/api.c and read, byte for byte, by ffi.cdef in
 * lua/ffi.lua: no preprocessor lines but the first, constants are enums.
 *
 * Handles (struct mg_request *, mg_response *, mg_exchange *) are numbers dressed as pointers and are never
 * dereferenced: bits 0-15 hold the slot of the exchange, the bits above its generation. Every call checks both.
 * Results below zero are errors of the caller, see MG_LUA_*; where text is returned, *len is that error when it is
 * below zero, and NULL with 0 means that there is none. Text is borrowed as long as the exchange lives. */

enum {
  MG_ABI = 1,

  MG_LUA_OK = 0,
  MG_LUA_BODY = -12,    /* a body that no filter of the route has declared to hold */
  MG_LUA_GONE = -1,     /* the exchange has ended; the handle was kept too long */
  MG_LUA_PHASE = -2,    /* not in this phase */
  MG_LUA_NAME = -3,     /* not a header name */
  MG_LUA_VALUE = -4,    /* a value with control characters */
  MG_LUA_NOMEM = -5,    /* the exchange may not use more memory */
  MG_LUA_ANSWERED = -6, /* respond was called before */
  MG_LUA_STATUS = -7,   /* not a status from 200 to 599 */
  MG_LUA_FRAMING =
      -8,             /* a header that the gateway alone may set (Content-Length, Transfer-Encoding, Connection, ...) */
  MG_LUA_TARGET = -9, /* not a path, query or host that can be sent */
  MG_LUA_REGEX = -10, /* a regular expression took too long */
  MG_LUA_BUSY = -11   /* too much else is on the threads */
};

struct mg_request;
struct mg_response;
struct mg_exchange;

/* request side; reads answer what the client sent, edits are applied when the upstream head is written */
const char *mg_request_header(struct mg_request *request, const char *name, size_t name_len, int *len);
const char *mg_request_header_at(struct mg_request *request, const char *name, size_t name_len, unsigned nth, int *len);
const char *mg_request_upstream_header(struct mg_request *request, const char *name, size_t name_len, int *len);
int mg_request_header_is(struct mg_request *request, const char *name, size_t name_len, const char *value,
                         size_t value_len);
int mg_request_has(struct mg_request *request, const char *name, size_t name_len);
int mg_request_set_header(struct mg_request *request, const char *name, size_t name_len, const char *value,
                          size_t value_len);
int mg_request_add_header(struct mg_request *request, const char *name, size_t name_len, const char *value,
                          size_t value_len);
int mg_request_remove_header(struct mg_request *request, const char *name, size_t name_len);
int mg_request_set_id_header(struct mg_request *request, const char *name, size_t name_len);
const char *mg_request_method(struct mg_request *request, int *len);
const char *mg_request_path(struct mg_request *request, int *len);
const char *mg_request_raw_target(struct mg_request *request, int *len);
int mg_request_set_path(struct mg_request *request, const char *path, size_t len);
const char *mg_request_query(struct mg_request *request, const char *name, size_t name_len, int *len);
const char *mg_request_query_string(struct mg_request *request, int *len);
int mg_request_set_query_string(struct mg_request *request, const char *query, size_t len);
const char *mg_request_cookie(struct mg_request *request, const char *name, size_t name_len, int *len);
const char *mg_request_host(struct mg_request *request, int *len);
const char *mg_request_client_ip(struct mg_request *request, int *len);
const char *mg_request_id(struct mg_request *request, int *len);
int mg_request_respond(struct mg_request *request, int status, const char *body, size_t body_len);
int mg_request_respond_header(struct mg_request *request, const char *name, size_t name_len, const char *value,
                              size_t value_len);
const char *mg_request_body(struct mg_request *request, int *len);
int mg_request_set_body(struct mg_request *request, const char *bytes, size_t len);
const char *mg_response_body(struct mg_response *response, int *len);
int mg_response_set_body(struct mg_response *response, const char *bytes, size_t len);
int mg_call_prepare(unsigned route, const char *method, size_t method_len, const char *path, size_t path_len,
                    double timeout_ms);
int mg_call_header(const char *name, size_t name_len, const char *value, size_t value_len);
int mg_call_body(const char *bytes, size_t len);
int mg_call_status(void);
const char *mg_call_error(int *len);
const char *mg_call_answer(int *len);
const char *mg_call_answer_line(unsigned nth, int *len, const char **value, int *value_len);
const char *mg_piece_bytes(struct mg_exchange *exchange, int *len);
int mg_piece_last(struct mg_exchange *exchange);
int mg_piece_give(struct mg_exchange *exchange, const char *bytes, size_t len);
int mg_request_try(struct mg_request *request);
int mg_request_answered(struct mg_request *request);
const char *mg_request_upstream_path(struct mg_request *request, int *len);
int mg_request_edit_query(struct mg_request *request, int op, const char *name, size_t name_len, const char *value,
                          size_t value_len);
int mg_request_set_cookie(struct mg_request *request, const char *name, size_t name_len, const char *value,
                          size_t value_len);
int mg_request_remove_cookie(struct mg_request *request, const char *name, size_t name_len);
int mg_request_limit_body(struct mg_request *request, double bytes_max);
const char *mg_request_target(struct mg_request *request, unsigned nth, int *len);
int mg_request_set_target(struct mg_request *request, unsigned nth);
int mg_exchange_keep_locals(struct mg_exchange *exchange, int more);

enum { MG_QUERY_OP_SET, MG_QUERY_OP_ADD, MG_QUERY_OP_REMOVE };

/* regular expressions, see core/regex.h; the *_matches and has_* answer 1 if the name is there and all its values
 * pass */
struct mg_regex;
struct mg_regex *mg_regex_new(const char *pattern, size_t len, int whole, char *error, size_t error_size);
void mg_regex_release(struct mg_regex *regex);
int mg_regex_test(struct mg_regex *regex, const char *text, size_t len, size_t from);
int mg_regex_group_start(const struct mg_regex *regex, unsigned group);
int mg_regex_group_end(const struct mg_regex *regex, unsigned group);
int mg_regex_group_count(const struct mg_regex *regex);
int mg_regex_group_number(const struct mg_regex *regex, const char *name, size_t len);
int mg_regex_replace(struct mg_regex *regex, const char *text, size_t len, const char *replacement,
                     size_t replacement_len, const char **out, size_t *out_len);
int mg_request_header_matches(struct mg_request *request, const char *name, size_t name_len, struct mg_regex *regex);
int mg_request_query_matches(struct mg_request *request, const char *name, size_t name_len, struct mg_regex *regex);
int mg_request_cookie_matches(struct mg_request *request, const char *name, size_t name_len, struct mg_regex *regex);
int mg_request_has_query(struct mg_request *request, const char *name, size_t name_len);
int mg_request_has_cookie(struct mg_request *request, const char *name, size_t name_len);
void mg_script_over_budget(void);
void mg_request_mark(struct mg_request *request);

/* response side; reads and edits work on the answer as it stands */
const char *mg_response_header(struct mg_response *response, const char *name, size_t name_len, int *len);
const char *mg_response_header_at(struct mg_response *response, const char *name, size_t name_len, unsigned nth,
                                  int *len);
int mg_response_header_is(struct mg_response *response, const char *name, size_t name_len, const char *value,
                          size_t value_len);
int mg_response_has(struct mg_response *response, const char *name, size_t name_len);
int mg_response_set_header(struct mg_response *response, const char *name, size_t name_len, const char *value,
                           size_t value_len);
int mg_response_add_header(struct mg_response *response, const char *name, size_t name_len, const char *value,
                           size_t value_len);
int mg_response_remove_header(struct mg_response *response, const char *name, size_t name_len);
int mg_response_set_id_header(struct mg_response *response, const char *name, size_t name_len);
int mg_response_copy_request_header(struct mg_response *response, const char *name, size_t name_len);
int mg_response_status(struct mg_response *response);
int mg_response_set_status(struct mg_response *response, int status);
int mg_response_source(struct mg_response *response);

/* the finished exchange, read-only; also numbers for log filters */
const char *mg_exchange_id(struct mg_exchange *exchange, int *len);
const char *mg_exchange_route(struct mg_exchange *exchange, int *len);
const char *mg_exchange_error(struct mg_exchange *exchange, int *len);
double mg_exchange_number(struct mg_exchange *exchange, int which);
int mg_exchange_set_attribute(struct mg_exchange *exchange, const char *name, size_t name_len, const char *value,
                              size_t value_len);
const char *mg_exchange_attribute_name(struct mg_exchange *exchange, unsigned nth, int *len);
const char *mg_exchange_attribute(struct mg_exchange *exchange, const char *name, size_t name_len, int *len);
double mg_wall_time(void); /* seconds since 1970 */
const char *mg_failure_hint(const char *message); /* what to add to a filter's error message; "" mostly */
void mg_script_log(int level, const char *text, size_t len);
void mg_script_filter_failed(struct mg_exchange *exchange, const char *message, size_t len);
/* Which filter runs. A chain writes this itself between two filters; where the time is taken, and wherever a call more
 * does not matter, it calls mg_filter_next instead. */
struct mg_turn {
  int32_t meter;      /* of the filter that runs; -1: none */
  int32_t ended;      /* the request has its answer */
  uint32_t *position; /* the filter's place in its route, where the master sees it; 0: none */
};
struct mg_turn *mg_filter_turn(void); /* NULL in the builder */
/* the filter before has ended, that of meter begins: 1 if the request has its answer */
int mg_filter_next(const void *handle, unsigned meter);

enum { MG_SOURCE_UPSTREAM, MG_SOURCE_FILTER, MG_SOURCE_GATEWAY };
enum {
  MG_NUMBER_STATUS,
  MG_NUMBER_DURATION_US,
  MG_NUMBER_UPSTREAM_US,
  MG_NUMBER_REQUEST_BYTES,
  MG_NUMBER_RESPONSE_BYTES,
  MG_NUMBER_TRIES,
  MG_NUMBER_TUNNEL
};

/* work on another thread: the call prepares it, then the filter yields "job" and asks for the result, 1 or 0, or
 * MG_LUA_BUSY. */
const char *mg_request_basic_credentials(struct mg_request *request, int *len); /* user:password of one Basic header */
int mg_request_check_password(struct mg_request *request, const char *password, size_t password_len, const char *hash,
                              size_t hash_len);
int mg_request_job_result(struct mg_request *request);

/* files: open_file says what is there (below zero: MG_LUA_*) and keeps a regular file open for this exchange;
 * send_file answers with a part of it. base and path end with NUL. Names of a directory come one per line, those of
 * directories with a slash. */
enum { MG_FOUND_FILE, MG_FOUND_DIRECTORY, MG_FOUND_NONE, MG_FOUND_REFUSED, MG_FOUND_GONE, MG_FOUND_BUSY };

int mg_directory_exists(const char *path);
int mg_request_open_file(struct mg_request *request, const char *base, const char *path, size_t path_len, int follow);
double mg_request_file_size(struct mg_request *request);
double mg_request_file_mtime(struct mg_request *request);
int mg_request_send_file(struct mg_request *request, int status, double offset, double length);
const char *mg_request_list_directory(struct mg_request *request, const char *base, const char *path, size_t path_len,
                                      int follow, int *len);

/* limiters and breakers: shared by all workers, made for a generation. In the options durations are milliseconds.
 * take_token: the seconds to wait for a token, 0 when one was taken; enter: 1, or 0 while the breaker refuses. */
struct mg_limiter;
struct mg_breaker;
enum { MG_KEY_CLIENT, MG_KEY_HEADER, MG_KEY_COOKIE, MG_KEY_QUERY, MG_KEY_ATTRIBUTE };

double mg_request_take_token(struct mg_request *request, struct mg_limiter *limiter, int source, const char *name,
                             size_t name_len);
int mg_response_show_tokens(struct mg_response *response, struct mg_limiter *limiter);
int mg_request_enter(struct mg_request *request, struct mg_breaker *breaker);
int mg_exchange_report(struct mg_exchange *exchange, struct mg_breaker *breaker);

/* Lua patterns within a budget (core/pattern.h): 1 found, 0 not, below zero why there is no answer */
enum { MG_PATTERN_NUMBERS = 67 };
int mg_pattern_plain(const char *pattern, size_t len);
int mg_pattern_match(const char *subject, size_t len, const char *pattern, size_t pattern_len, size_t from,
                     int anchored, int32_t *found);

/* building a generation; never called while requests run */
struct mg_routes;
struct mg_generation;

enum {
  MG_MATCH_PATH,
  MG_MATCH_PREFIX,
  MG_MATCH_SEGMENTS,
  MG_MATCH_HOST,
  MG_MATCH_METHOD,
  MG_MATCH_HEADER,
  MG_MATCH_HAS_HEADER,
  MG_MATCH_OPAQUE
};
enum { MG_MATCH_AND, MG_MATCH_OR, MG_MATCH_NOT };

/* what an OPAQUE predicate is, see core/predicates.h */
enum {
  MG_DECIDE_FUNCTION,
  MG_DECIDE_PATH_MATCHES,
  MG_DECIDE_HEADER_MATCHES,
  MG_DECIDE_HAS_QUERY,
  MG_DECIDE_QUERY,
  MG_DECIDE_QUERY_MATCHES,
  MG_DECIDE_HAS_COOKIE,
  MG_DECIDE_COOKIE,
  MG_DECIDE_COOKIE_MATCHES,
  MG_DECIDE_CLIENT_IN
};

struct mg_routes *mg_routes_new(void);
void mg_routes_begin(struct mg_routes *routes, const char *id, size_t id_len);
void mg_routes_literal(struct mg_routes *routes, int kind, const char *name, size_t name_len, const char *value,
                       size_t value_len);
void mg_routes_combine(struct mg_routes *routes, int combine, unsigned count);
void mg_routes_end(struct mg_routes *routes);
int mg_routes_seal(struct mg_routes *routes);
void mg_routes_release(struct mg_routes *routes);
void mg_routes_digest(const struct mg_routes *routes, char out[65]);

/* a request that nobody sent, for `moongate explain` (core/api_sample.c). Results below zero are outcomes of
 * core/err.h, in words by mg_fault_text, but where MG_LUA_* is said. */
struct mg_sample;
struct mg_sample_limits {
  uint32_t line_bytes_max;
  uint32_t head_bytes_max;
  uint32_t header_count_max;
  int refuse_encoded_slash;
  double entity_bytes_max; /* 0: none */
};
enum { MG_SAMPLE_METHOD, MG_SAMPLE_PATH, MG_SAMPLE_QUERY, MG_SAMPLE_HOST, MG_SAMPLE_CLIENT };
enum { MG_SAMPLE_UNDECIDED = 2 }; /* a function has to be asked */

struct mg_sample *mg_sample_new(const char *head, size_t len); /* copies */
void mg_sample_free(struct mg_sample *sample);
int mg_sample_peer(struct mg_sample *sample, const char *address, size_t len);  /* MG_LUA_VALUE: not an address */
int mg_sample_trust(struct mg_sample *sample, const char *network, size_t len); /* MG_LUA_VALUE: not a network */
int mg_sample_predicate(struct mg_sample *sample, int test, const char *name, size_t name_len, const char *value,
                        size_t value_len);                                           /* as mg_generation_predicate */
int mg_sample_read(struct mg_sample *sample, const struct mg_sample_limits *limits); /* once, before what follows */
const char *mg_sample_text(const struct mg_sample *sample, int which, int *len);
int mg_sample_find(struct mg_sample *sample, const struct mg_routes *routes); /* as mg_routes_find */
int mg_sample_test(struct mg_sample *sample, const struct mg_routes *routes,
                   unsigned index); /* 1, 0, MG_SAMPLE_UNDECIDED */
const char *mg_fault_text(int err, int *status, const char **word);

struct mg_limiter_options {
  double capacity;
  double refill_tokens;
  double period_ms;
  double ttl_ms;
  unsigned buckets;
  unsigned ipv6_prefix;
};

struct mg_breaker_options {
  double cooldown_ms;
  unsigned failures;
};

void mg_digest(const char *bytes, size_t len, char out[65]); /* SHA-256, hexadecimal */
double
mg_limiter_size(const struct mg_limiter_options *options); /* in shared memory; 0: nobody can count so fast or so far */
double mg_breaker_size(void);
/* The one of that name (64 digits), or NULL when the master has made none. */
struct mg_limiter *mg_generation_limiter(struct mg_generation *generation, const char *name,
                                         const struct mg_limiter_options *options);
struct mg_breaker *mg_generation_breaker(struct mg_generation *generation, const char *name,
                                         const struct mg_breaker_options *options);

struct mg_upstream_options {
  int strategy; /* 0 ROUND_ROBIN, 1 LEAST_REQUESTS, 2 CONSISTENT_HASH */
  int host;     /* 0 client, 1 target */
  double connect_ms;
  double read_ms;
  int retries;
  int failures;       /* passive health: so many in a row ... */
  double failures_ms; /* ... within this time ... */
  double down_for_ms; /* ... and the target rests this long */
  double slow_start_ms;
  int connections_max; /* per target, of the whole gateway; 0: as server.yaml says */
  int queue_max;       /* as above; -1: as server.yaml says */
  int hash_on;         /* MG_HASH_* */
};

enum { MG_HASH_CLIENT, MG_HASH_HEADER, MG_HASH_COOKIE, MG_HASH_QUERY };

void mg_generation_routes(struct mg_generation *generation, struct mg_routes *routes);
int mg_generation_upstream(struct mg_generation *generation, unsigned route, const struct mg_upstream_options *options,
                           const char *hash_name, size_t hash_name_len);
int mg_generation_predicate(struct mg_generation *generation, int test, const char *name, size_t name_len,
                            const char *value, size_t value_len);
int mg_generation_bodies(struct mg_generation *generation, unsigned route, int holds_request, int holds_answer,
                         int reads_answer);
int mg_generation_fallback(struct mg_generation *generation, unsigned route, unsigned fallback);
int mg_generation_meter(struct mg_generation *generation, unsigned route, unsigned position, const char *name,
                        size_t name_len);
int32_t *mg_generation_counts(struct mg_generation *generation, unsigned first, unsigned count); /* calls, by meter */
int mg_generation_journal(struct mg_generation *generation, int route, int request, int response, const char *filters,
                          size_t filters_len); /* route -1: what reaches none; levels from 0 NONE to 3 FULL */
int mg_generation_journal_status(struct mg_generation *generation, int route, int side, int first, int last, int level);
int mg_generation_target(struct mg_generation *generation, unsigned route, const char *key, size_t key_len,
                         const char *authority, size_t authority_len, const char *path_prefix, size_t path_prefix_len,
                         unsigned weight);
