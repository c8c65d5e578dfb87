/* status_system.c - the part of the JSON status that is about the processes and what they were started with.
 * Owns: what of the settings is masked.   May call: mem, json, settings, process_facts, workers (their facts).
 * Never: change anything.   Thread: the loop thread. */
#include <stdio.h>
#include <unistd.h>

#include "json.h"
#include "process_facts.h"
#include "status.h"

enum { TEXT_SIZE = 264 };

static bool is_secret(const char *key)
{
  return strcmp(key, "management.token") == 0 || strcmp(key, "storage.journal_security.fingerprint_key") == 0;
}

struct unit {
  uint64_t size;
  const char *name;
};

/* In the largest unit, of several in falling order, that divides the number. */
static void in_units(uint64_t number, const struct unit *unit, char out[TEXT_SIZE])
{
  while (unit->size > 1 && number % unit->size) unit++;
  snprintf(out, TEXT_SIZE, "%llu%s", (unsigned long long)(number / unit->size), unit->name);
  if (!number) snprintf(out, TEXT_SIZE, "none"); /* no limit is set */
}

static void value_text(const struct mg_setting *shown, const struct mg_settings *settings, char out[TEXT_SIZE])
{
  static const struct unit times[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
  static const struct unit sizes[] = {{1 << 30, "gb"}, {1 << 20, "mb"}, {1 << 10, "kb"}, {1, "b"}};
  const void *place = (const char *)settings + shown->offset;
  switch (shown->type) {
  case MG_SETTING_TEXT:
    snprintf(out, TEXT_SIZE, "%s", is_secret(shown->key) && *(const char *)place ? "******" : (const char *)place);
    break;
  case MG_SETTING_FLAG:
    snprintf(out, TEXT_SIZE, "%s", *(const bool *)place ? "true" : "false");
    break;
  case MG_SETTING_NUMBER:
    snprintf(out, TEXT_SIZE, "%llu", (unsigned long long)*(const uint64_t *)place);
    break;
  case MG_SETTING_MS:
    in_units(*(const uint64_t *)place, times, out);
    break;
  case MG_SETTING_BYTES:
    in_units(*(const uint64_t *)place, sizes, out);
    break;
  }
}

static void list_field(struct mg_buf *out, const char *key, const char *text)
{
  mg_json_field(out, "key", key);
  mg_json_field(out, "value", text);
  mg_buf_printf(out, "\"changed\":true},");
}

/* Lists are empty by default, so whatever stands in one was written there. */
static void lists(const struct mg_settings *settings, struct mg_buf *out)
{
  const struct {
    const char *key;
    const struct mg_names *names;
  } names[] = {
      {"storage.journal_security.safe_request_headers", &settings->safe_request_headers},
      {"storage.journal_security.safe_response_headers", &settings->safe_response_headers},
      {"storage.journal_security.additional_safe_request_headers", &settings->more_safe_request_headers},
      {"storage.journal_security.additional_safe_response_headers", &settings->more_safe_response_headers},
      {"storage.journal_security.safe_query_parameters", &settings->safe_query_parameters},
  };
  for (unsigned i = 0; i < settings->allowed_host_count; i++) {
    mg_buf_append(out, "{", 1);
    list_field(out, "management.allowed_hosts", settings->allowed_hosts[i]);
  }
  for (unsigned i = 0; i < settings->tailer_count; i++) {
    mg_buf_append(out, "{", 1);
    list_field(out, "management.tailers", settings->tailers[i]);
  }
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (!*names[i].names->text) continue;
    mg_buf_append(out, "{", 1);
    list_field(out, names[i].key, names[i].names->text);
  }
}

static void settings_fields(const struct mg_settings *settings, struct mg_buf *out)
{
  struct mg_settings defaults;
  mg_settings_defaults(&defaults);
  mg_buf_printf(out, "\"settings\":[");
  size_t count;
  const struct mg_setting *rows = mg_settings_rows(&count);
  for (size_t i = 0; i < count; i++) {
    char value[TEXT_SIZE], usual[TEXT_SIZE];
    value_text(&rows[i], settings, value);
    value_text(&rows[i], &defaults, usual);
    mg_buf_append(out, "{", 1);
    mg_json_field(out, "key", rows[i].key);
    mg_json_field(out, "value", value);
    if (strcmp(value, usual) != 0) {
      mg_json_field(out, "default", usual);
      mg_buf_printf(out, "\"changed\":true,");
    }
    mg_json_close(out, "},");
  }
  lists(settings, out);
  mg_json_close(out, "]");
}

static void process(struct mg_buf *out, pid_t pid, int slot)
{
  struct mg_process_facts facts;
  if (pid <= 0 || !mg_process_facts(pid, &facts)) return;
  mg_buf_append(out, "{", 1);
  if (slot >= 0) mg_json_number(out, "worker", (uint64_t)slot);
  mg_json_number(out, "pid", (uint64_t)pid);
  mg_json_number(out, "resident_bytes", facts.resident_bytes);
  mg_json_number(out, "open_fds", facts.open_fds);
  mg_json_number(out, "max_fds", facts.max_fds);
  mg_json_number(out, "cpu_ms", (uint64_t)(facts.cpu_seconds * 1000));
  mg_json_close(out, "},");
}

void mg_status_system_json(const struct mg_status *status, struct mg_buf *out)
{
  mg_buf_printf(out, "\"processes\":[");
  process(out, getpid(), -1);
  for (unsigned i = 0; i < mg_workers_count(status->workers); i++)
    process(out, mg_workers_facts(status->workers, i).pid, (int)i);
  mg_json_close(out, "],");
  mg_json_field(out, "server", status->server);
  settings_fields(status->settings, out);
}
