/* settings.h - server.yaml and the command line as one struct. Validated by Lua (lua/moongate/conf), carried in the
 * bundle as key=value lines, read here. Thread: written once at start, then read-only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forward.h"

/* X(type, field, key, default): TEXT is char[256], NUMBER uint64_t, MS milliseconds, BYTES bytes, FLAG bool. */
#define MG_SETTINGS_MAP(X)                                                                          \
  X(TEXT, host, "server.host", "0.0.0.0")                                                           \
  X(NUMBER, port, "server.port", 8888)                                                              \
  X(NUMBER, workers, "server.workers", 0)                                                           \
  X(NUMBER, connections_max, "server.max_connections", 20000)                                       \
  X(MS, idle_timeout_ms, "server.idle_timeout", 30000)                                              \
  X(NUMBER, backlog, "server.backlog", 1000)                                                        \
  X(MS, drain_timeout_ms, "server.drain_timeout", 30000)                                            \
  X(TEXT, management_host, "management.host", "127.0.0.1")                                          \
  X(NUMBER, management_port, "management.port", 18888)                                              \
  X(MS, management_head_timeout_ms, "management.request_parse_timeout", 2000)                       \
  X(MS, management_idle_timeout_ms, "management.idle_timeout", 30000)                               \
  X(NUMBER, management_connections_max, "management.max_connections", 64)                           \
  X(TEXT, management_token, "management.token", "")                                                 \
  X(FLAG, show_bodies, "management.show_bodies", false)                                             \
  X(TEXT, log_level, "log.level", "info")                                                           \
  X(TEXT, log_format, "log.format", "text")                                                         \
  X(TEXT, access_log_format, "access_log.format", "off")                                            \
  X(TEXT, access_log_file, "access_log.file", "")                                                   \
  X(FLAG, access_log_ids, "access_log.ids", false)                                                  \
  X(TEXT, tracing, "tracing.traceparent", "pass")                                                   \
  X(FLAG, tracing_sampled, "tracing.sampled", true)                                                 \
  X(MS, head_timeout_ms, "http.request_parse_timeout", 2000)                                        \
  X(MS, body_timeout_ms, "http.request_body_timeout", 30000)                                        \
  X(NUMBER, body_rate_min, "http.min_body_rate", 240)                                               \
  X(FLAG, refuse_encoded_slash, "http.encoded_slash_refused", false)                                \
  X(BYTES, line_bytes_max, "limits.max_request_line", 16384)                                        \
  X(BYTES, head_bytes_max, "limits.max_header_size", 32768)                                         \
  X(NUMBER, header_count_max, "limits.max_header_count", 100)                                       \
  X(BYTES, entity_bytes_max, "limits.max_entity_size", 0)                                           \
  X(BYTES, held_body_max, "limits.max_held_body", 1048576)                                          \
  X(NUMBER, target_connections_max, "proxy.max_connections_per_target", 4096)                       \
  X(NUMBER, target_queue_max, "proxy.max_queue_size", 1000)                                         \
  X(MS, request_time_max_ms, "proxy.max_request_time", 60000)                                       \
  X(MS, exchange_time_max_ms, "proxy.max_exchange_time", 0)                                         \
  X(MS, pool_ttl_ms, "proxy.ttl", 30000)                                                            \
  X(MS, resolve_interval_ms, "upstream.resolve_interval", 30000)                                    \
  X(TEXT, work_dir, "storage.work_dir", "journals")                                                 \
  X(BYTES, shard_bytes, "storage.shard_size", 67108864)                                             \
  X(NUMBER, shard_count, "storage.shard_count", 0)                                                  \
  X(BYTES, stage_bytes, "storage.stage_size", 1048576)                                              \
  X(FLAG, pre_fault, "storage.pre_fault", false)                                                    \
  X(TEXT, compression, "storage.compression", "zstd")                                               \
  X(TEXT, compression_level, "storage.compression_level", "1")                                      \
  X(TEXT, on_full, "storage.on_full", "refuse")                                                     \
  X(TEXT, sync, "storage.sync", "process")                                                          \
  X(TEXT, fingerprint_key, "storage.journal_security.fingerprint_key", "")                          \
  X(FLAG, safe_query_exact, "storage.journal_security.safe_query_parameters_case_sensitive", false) \
  X(MS, script_call_max_ms, "scripts.max_call_time", 200)                                           \
  X(MS, script_load_max_ms, "scripts.max_load_time", 5000)                                          \
  X(MS, script_stuck_after_ms, "scripts.stuck_after", 2000)                                         \
  X(NUMBER, generations_max, "scripts.max_generations", 4)                                          \
  X(BYTES, script_memory_max, "scripts.max_memory", 268435456)

enum { MG_TRUSTED_MAX = 64, MG_ALLOWED_HOSTS_MAX = 32, MG_TAILERS_MAX = 16, MG_NAMES_BYTES = 2048 };

/** A list of names, each followed by a line end. */
struct mg_names {
  char text[MG_NAMES_BYTES];
};

struct mg_settings {
#define MG_FIELD_TEXT(name) char name[256];
#define MG_FIELD_NUMBER(name) uint64_t name;
#define MG_FIELD_MS(name) uint64_t name;
#define MG_FIELD_BYTES(name) uint64_t name;
#define MG_FIELD_FLAG(name) bool name;
#define X(type, field, key, value) MG_FIELD_##type(field)
  MG_SETTINGS_MAP(X)
#undef X
  struct mg_network trusted[MG_TRUSTED_MAX]; /* limits.trusted_proxies */
  unsigned trusted_count;
  char allowed_hosts[MG_ALLOWED_HOSTS_MAX][256]; /* management.allowed_hosts */
  unsigned allowed_host_count;
  char tailers[MG_TAILERS_MAX][256]; /* management.tailers */
  unsigned tailer_count;
  /* storage.journal_security: what may be recorded as it is; empty safe lists stand for the built-in ones */
  struct mg_names safe_request_headers, safe_response_headers, more_safe_request_headers, more_safe_response_headers;
  struct mg_names safe_query_parameters;
};

/** A row of MG_SETTINGS_MAP. */
struct mg_setting {
  const char *key;
  size_t offset; /* in struct mg_settings */
  enum { MG_SETTING_TEXT, MG_SETTING_NUMBER, MG_SETTING_MS, MG_SETTING_BYTES, MG_SETTING_FLAG } type;
};

/** All rows, *count of them. */
const struct mg_setting *mg_settings_rows(size_t *count);

void mg_settings_defaults(struct mg_settings *settings);

/** Sets one value from its text as it stands in a bundle ("server.port", "8888"; durations in ms, sizes in bytes;
 * lists such as "limits.trusted_proxies" once per entry). False when the key or the value is not known. */
bool mg_settings_set(struct mg_settings *settings, const char *key, size_t key_len, const char *value,
                     size_t value_len);
