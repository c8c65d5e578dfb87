/* settings.c - one struct of settings, filled by key from the table in settings.h.
 * Owns: nothing.   May call: mem, forward (network parsing), libc.   Never: read files, guess a unit.
 * Thread: any; one per struct. */
#include "settings.h"

#include <string.h>

#include "mem.h"

static const struct mg_setting fields[] = {
#define X(type, field, key, value) {key, offsetof(struct mg_settings, field), MG_SETTING_##type},
    MG_SETTINGS_MAP(X)
#undef X
};

const struct mg_setting *mg_settings_rows(size_t *count)
{
  *count = sizeof fields / sizeof fields[0];
  return fields;
}

void mg_settings_defaults(struct mg_settings *settings)
{
  *settings = (struct mg_settings){
#define X(type, field, key, value) .field = value,
      MG_SETTINGS_MAP(X)
#undef X
  };
}

static bool read_number(struct mg_str text, uint64_t *number)
{
  uint64_t sum = 0;
  if (!text.len) return false;
  for (size_t i = 0; i < text.len; i++) {
    unsigned digit = (unsigned)(text.ptr[i] - '0');
    if (digit > 9 || __builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, digit, &sum)) return false;
  }
  *number = sum;
  return true;
}

static bool read_flag(struct mg_str text, bool *flag)
{
  *flag = mg_str_equal(text, MG_STR("true"));
  return *flag || mg_str_equal(text, MG_STR("false"));
}

static bool read_text(struct mg_str text, char out[256])
{
  if (text.len > 255 || memchr(text.ptr, '\0', text.len)) return false;
  memcpy(out, text.ptr, text.len);
  out[text.len] = '\0';
  return true;
}

static bool add_trusted(struct mg_settings *settings, struct mg_str text)
{
  if (settings->trusted_count == MG_TRUSTED_MAX) return false;
  if (!mg_network_parse(text, &settings->trusted[settings->trusted_count])) return false;
  settings->trusted_count++;
  return true;
}

static bool add_allowed_host(struct mg_settings *settings, struct mg_str text)
{
  if (settings->allowed_host_count == MG_ALLOWED_HOSTS_MAX) return false;
  return read_text(text, settings->allowed_hosts[settings->allowed_host_count++]);
}

static bool add_tailer(struct mg_settings *settings, struct mg_str text)
{
  if (settings->tailer_count == MG_TAILERS_MAX) return false;
  return read_text(text, settings->tailers[settings->tailer_count++]);
}

static const struct list {
  const char *key;
  size_t offset;
} lists[] = {
#define AT(field) offsetof(struct mg_settings, field)
    {"storage.journal_security.safe_request_headers", AT(safe_request_headers)},
    {"storage.journal_security.safe_response_headers", AT(safe_response_headers)},
    {"storage.journal_security.additional_safe_request_headers", AT(more_safe_request_headers)},
    {"storage.journal_security.additional_safe_response_headers", AT(more_safe_response_headers)},
    {"storage.journal_security.safe_query_parameters", AT(safe_query_parameters)},
#undef AT
};

static bool add_name(struct mg_names *names, struct mg_str text)
{
  size_t used = strlen(names->text);
  if (used + text.len + 2 > sizeof names->text || memchr(text.ptr, '\n', text.len)) return false;
  memcpy(names->text + used, text.ptr, text.len);
  memcpy(names->text + used + text.len, "\n", 2);
  return true;
}

bool mg_settings_set(struct mg_settings *settings, const char *key, size_t key_len, const char *value, size_t value_len)
{
  struct mg_str name = mg_str(key, key_len), text = mg_str(value, value_len);
  if (mg_str_equal(name, MG_STR("limits.trusted_proxies"))) return add_trusted(settings, text);
  if (mg_str_equal(name, MG_STR("management.allowed_hosts"))) return add_allowed_host(settings, text);
  if (mg_str_equal(name, MG_STR("management.tailers"))) return add_tailer(settings, text);
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
    if (mg_str_equal(name, mg_str(lists[i].key, strlen(lists[i].key))))
      return add_name((struct mg_names *)(void *)((char *)settings + lists[i].offset), text);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    const struct mg_setting *field = &fields[i];
    if (!mg_str_equal(name, mg_str(field->key, strlen(field->key)))) continue;
    void *place = (char *)settings + field->offset;
    switch (field->type) {
    case MG_SETTING_TEXT:
      return read_text(text, place);
    case MG_SETTING_FLAG:
      return read_flag(text, place);
    case MG_SETTING_NUMBER:
    case MG_SETTING_MS:
    case MG_SETTING_BYTES:
      return read_number(text, place);
    }
  }
  return false;
}
