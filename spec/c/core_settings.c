/* core_settings.c - settings by key: every type, every refusal. */
#include "settings.h"

#include "t.h"

static bool set(struct mg_settings *settings, const char *key, const char *value)
{
  return mg_settings_set(settings, key, strlen(key), value, strlen(value));
}

TEST(defaults)
{
  struct mg_settings settings;
  mg_settings_defaults(&settings);
  CHECK_INT(strcmp(settings.host, "0.0.0.0"), 0);
  CHECK_INT(settings.port, 8888);
  CHECK_INT(settings.head_bytes_max, 32768);
  CHECK_INT(settings.entity_bytes_max, 0);
  CHECK_INT(settings.refuse_encoded_slash, false);
  CHECK_INT(settings.trusted_count, 0);
}

TEST(every_type_is_read)
{
  struct mg_settings settings;
  mg_settings_defaults(&settings);
  CHECK(set(&settings, "server.host", "::1"));
  CHECK(set(&settings, "server.port", "0"));
  CHECK(set(&settings, "server.idle_timeout", "1500"));
  CHECK(set(&settings, "limits.max_entity_size", "18446744073709551615"));
  CHECK(set(&settings, "http.encoded_slash_refused", "true"));
  CHECK_INT(strcmp(settings.host, "::1"), 0);
  CHECK_INT(settings.port, 0);
  CHECK_INT(settings.idle_timeout_ms, 1500);
  CHECK(settings.entity_bytes_max == UINT64_MAX);
  CHECK_INT(settings.refuse_encoded_slash, true);
  CHECK(set(&settings, "http.encoded_slash_refused", "false"));
  CHECK_INT(settings.refuse_encoded_slash, false);
}

TEST(every_key_of_the_table_is_known)
{
  struct mg_settings settings;
  mg_settings_defaults(&settings);
#define VALUE_TEXT "x"
#define VALUE_NUMBER "7"
#define VALUE_MS "7"
#define VALUE_BYTES "7"
#define VALUE_FLAG "true"
#define X(type, field, key, value) CHECK(set(&settings, key, VALUE_##type));
  MG_SETTINGS_MAP(X)
#undef X
  CHECK_INT(settings.script_memory_max, 7);
  CHECK_INT(settings.generations_max, 7);
  CHECK_INT(strcmp(settings.management_host, "x"), 0);
}

TEST(what_is_not_a_value_is_refused)
{
  struct mg_settings settings;
  char long_text[257];
  memset(long_text, 'a', 256);
  long_text[256] = '\0';
  mg_settings_defaults(&settings);
  CHECK(!set(&settings, "server.port", ""));
  CHECK(!set(&settings, "server.port", "-1"));
  CHECK(!set(&settings, "server.port", "80x"));
  CHECK(!set(&settings, "server.port", "18446744073709551616"));
  CHECK(!set(&settings, "http.encoded_slash_refused", "yes"));
  CHECK(!set(&settings, "server.host", long_text));
  CHECK(set(&settings, "server.host", long_text + 1));
  CHECK(!mg_settings_set(&settings, "server.host", strlen("server.host"), "a\0b", 3));
  CHECK(!set(&settings, "server", "1"));
  CHECK(!set(&settings, "server.ports", "1"));
  CHECK_INT(settings.port, 8888);
}

TEST(trusted_proxies_add_up_to_their_limit)
{
  struct mg_settings settings;
  struct mg_address inside, outside;
  mg_settings_defaults(&settings);
  CHECK(set(&settings, "limits.trusted_proxies", "10.0.0.0/8"));
  CHECK(set(&settings, "limits.trusted_proxies", "fd00::/16"));
  CHECK(!set(&settings, "limits.trusted_proxies", "10.0.0.0/99"));
  CHECK_INT(settings.trusted_count, 2);
  CHECK(mg_address_parse(mg_str("10.1.2.3", 8), &inside));
  CHECK(mg_address_parse(mg_str("11.1.2.3", 8), &outside));
  CHECK(mg_network_has(&settings.trusted[0], &inside));
  CHECK(!mg_network_has(&settings.trusted[0], &outside));
  while (settings.trusted_count < MG_TRUSTED_MAX) CHECK(set(&settings, "limits.trusted_proxies", "127.0.0.1"));
  CHECK(!set(&settings, "limits.trusted_proxies", "127.0.0.1"));
}

RUN_TESTS({"defaults", defaults}, {"every type is read", every_type_is_read},
          {"every key of the table is known", every_key_of_the_table_is_known},
          {"what is not a value is refused", what_is_not_a_value_is_refused},
          {"trusted proxies add up to their limit", trusted_proxies_add_up_to_their_limit})
