/* core_record_redact.c - what may stand in the journal as it is: safe lists, query values, fingerprints of a known
 * key. */
#include "record_redact.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include "t.h"

/* Made with another HMAC (Python's), over the key below. */
#define FINGERPRINT_OF_SECRET "fp:CtgUloyu_ew"
#define FINGERPRINT_OF_LONG_KEY "fp:JKiuXFMnS6A" /* ... and over that key three times */
#define FINGERPRINT_OF_C "fp:-GIsxB8Q0Qo"
#define FINGERPRINT_OF_NO_HEADER "fp:BzzKaD5biVE"
#define FINGERPRINT_OF_NO_NAME "fp:ATgewjCeB9U"
#define FINGERPRINT_OF_TWO_LINES "fp:HxNPBOKKby4"
#define FINGERPRINT_OF_NO_VERSION "fp:rOqsGO-eH0s"

static struct mg_settings settings;

/* Lists are read when a redactor is opened: add to those of default_settings before. */
static void default_settings(void)
{
  mg_settings_defaults(&settings);
  strcpy(settings.fingerprint_key, "0123456789abcdef0123456789abcdef");
  unsetenv("MOONGATE_FINGERPRINT_KEY");
}

static struct mg_redactor *open_as_set(void)
{
  struct mg_buf error = {0};
  struct mg_redactor *redactor = mg_redactor_open(&settings, "/nowhere", &error);
  CHECK(redactor);
  return redactor;
}

static struct mg_redactor *open_redactor(void)
{
  default_settings();
  return open_as_set();
}

TEST(a_fingerprint_is_the_start_of_the_mac)
{
  struct mg_redactor *redactor = open_redactor();
  char first[MG_FINGERPRINT_LEN], again[MG_FINGERPRINT_LEN], other[MG_FINGERPRINT_LEN];
  mg_fingerprint(redactor, MG_STR("secret"), first);
  mg_fingerprint(redactor, MG_STR("other"), other);
  mg_fingerprint(redactor, MG_STR("secret"), again);
  CHECK_STR(mg_str(first, sizeof first), FINGERPRINT_OF_SECRET);
  CHECK(memcmp(first, again, sizeof first) == 0);
  CHECK(memcmp(first, other, sizeof first) != 0);
  mg_redactor_close(&redactor);
}

/* Values of every length around the ends of blocks, against OpenSSL's own HMAC. */
TEST(fingerprints_of_all_lengths)
{
  struct mg_redactor *redactor = open_redactor();
  char value[260], out[MG_FINGERPRINT_LEN], wanted[64];
  for (size_t len = 1; len <= sizeof value; len++) {
    unsigned char mac[EVP_MAX_MD_SIZE], text[64];
    for (size_t i = 0; i < len; i++) value[i] = (char)(i * 31 + len);
    CHECK(HMAC(EVP_sha256(), settings.fingerprint_key, (int)strlen(settings.fingerprint_key), (unsigned char *)value,
               len, mac, NULL));
    EVP_EncodeBlock(text, mac, 8);
    for (int i = 0; i < 11; i++) text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
    snprintf(wanted, sizeof wanted, "fp:%.11s", (char *)text);
    mg_fingerprint(redactor, mg_str(value, len), out);
    CHECK_STR(mg_str(out, sizeof out), wanted);
  }
  mg_redactor_close(&redactor);
}

/* A key longer than a block of the hash stands for its own hash. */
TEST(a_long_key)
{
  char out[MG_FINGERPRINT_LEN];
  default_settings();
  setenv("MOONGATE_FINGERPRINT_KEY",
         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 1);
  struct mg_redactor *redactor = open_as_set();
  mg_fingerprint(redactor, MG_STR("secret"), out);
  CHECK_STR(mg_str(out, sizeof out), FINGERPRINT_OF_LONG_KEY);
  mg_redactor_close(&redactor);
  unsetenv("MOONGATE_FINGERPRINT_KEY");
}

static void add(const char *list, const char *name)
{
  CHECK(mg_settings_set(&settings, list, strlen(list), name, strlen(name)));
}

static void check_header(struct mg_redactor *redactor, unsigned side, const char *line, const char *wanted)
{
  char out[512];
  size_t len = mg_redact_header(redactor, side, mg_str(line, strlen(line)), out);
  CHECK(len <= strlen(line) + MG_FINGERPRINT_LEN);
  CHECK_STR(mg_str(out, len), wanted);
}

TEST(headers_by_the_lists)
{
  struct mg_redactor *redactor = open_redactor();
  check_header(redactor, 0, "Accept: */*", "Accept: */*");
  check_header(redactor, 0, "ACCEPT-language:en", "ACCEPT-language:en");
  check_header(redactor, 0, "Authorization: secret", "Authorization: " FINGERPRINT_OF_SECRET);
  check_header(redactor, 0, "Cookie:secret", "Cookie: " FINGERPRINT_OF_SECRET);
  check_header(redactor, 0, "X-Empty:", "X-Empty:");
  check_header(redactor, 0, "server: secret", "server: " FINGERPRINT_OF_SECRET); /* safe in an answer only */
  check_header(redactor, 1, "server: secret", "server: secret");
  check_header(redactor, 1, "Set-Cookie: secret", "Set-Cookie: " FINGERPRINT_OF_SECRET);
  check_header(redactor, 1, "accept: secret", "accept: " FINGERPRINT_OF_SECRET);
  check_header(redactor, 0, "no colon at all", FINGERPRINT_OF_NO_HEADER);
  check_header(redactor, 0, "secret name: x", FINGERPRINT_OF_NO_NAME);
  check_header(redactor, 0, "accept: a\rsecret", FINGERPRINT_OF_TWO_LINES);
  mg_redactor_close(&redactor);
}

TEST(lists_of_ones_own)
{
  default_settings();
  add("storage.journal_security.additional_safe_request_headers", "x-tenant");
  struct mg_redactor *redactor = open_as_set();
  check_header(redactor, 0, "X-Tenant: secret", "X-Tenant: secret");
  check_header(redactor, 0, "accept: secret", "accept: secret");
  mg_redactor_close(&redactor);
  add("storage.journal_security.safe_request_headers", "x-only");
  redactor = open_as_set();
  check_header(redactor, 0, "accept: secret", "accept: " FINGERPRINT_OF_SECRET);
  check_header(redactor, 0, "x-only: secret", "x-only: secret");
  mg_redactor_close(&redactor);
}

static void check_line(struct mg_redactor *redactor, const char *line, const char *wanted)
{
  char out[4096];
  struct mg_str text = mg_str(line, strlen(line));
  size_t len = mg_redact_request_line(redactor, text, out);
  CHECK(len <= mg_redact_line_bound(text));
  CHECK_STR(mg_str(out, len), wanted);
}

TEST(query_values)
{
  struct mg_redactor *redactor = open_redactor();
  check_line(redactor, "GET /a/b HTTP/1.1", "GET /a/b HTTP/1.1");
  check_line(redactor, "GET /?a=secret HTTP/1.1", "GET /?a=" FINGERPRINT_OF_SECRET " HTTP/1.1");
  check_line(redactor, "GET /?a=s%65cret&b=&c HTTP/1.1",
             "GET /?a=" FINGERPRINT_OF_SECRET "&b=&" FINGERPRINT_OF_C " HTTP/1.1");
  check_line(redactor, "GET /?secret HTTP/1.1", "GET /?" FINGERPRINT_OF_SECRET " HTTP/1.1");
  check_line(redactor, "GET /?&& HTTP/1.1", "GET /?&& HTTP/1.1");
  check_line(redactor, "GET /?a=b c=secret", "GET /?a=" FINGERPRINT_OF_NO_VERSION); /* all of it is the value */
  add("storage.journal_security.safe_query_parameters", "page no");
  check_line(redactor, "GET /?page+no=7&PAGE%20NO=8&other=secret HTTP/1.1",
             "GET /?page+no=7&PAGE%20NO=8&other=" FINGERPRINT_OF_SECRET " HTTP/1.1");
  settings.safe_query_exact = true;
  check_line(redactor, "GET /?page+no=7&PAGE%20NO=secret HTTP/1.1",
             "GET /?page+no=7&PAGE%20NO=" FINGERPRINT_OF_SECRET " HTTP/1.1");
  mg_redactor_close(&redactor);
}

TEST(the_key_file)
{
  char folder[] = "/tmp/moongate-key.XXXXXX", path[64];
  struct mg_buf error = {0};
  char first[MG_FINGERPRINT_LEN], again[MG_FINGERPRINT_LEN];
  CHECK(mkdtemp(folder));
  mg_settings_defaults(&settings);
  unsetenv("MOONGATE_FINGERPRINT_KEY");
  struct mg_redactor *redactor = mg_redactor_open(&settings, folder, &error);
  CHECK(redactor);
  mg_fingerprint(redactor, MG_STR("secret"), first);
  mg_redactor_close(&redactor);
  redactor = mg_redactor_open(&settings, folder, &error); /* the same key is found again */
  mg_fingerprint(redactor, MG_STR("secret"), again);
  CHECK(memcmp(first, again, sizeof first) == 0);
  mg_redactor_close(&redactor);
  setenv("MOONGATE_FINGERPRINT_KEY", "short", 1);
  CHECK(!mg_redactor_open(&settings, folder, &error));
  CHECK_STR(mg_str(error.ptr, error.len), "the fingerprint key has less than 32 characters");
  mg_buf_free(&error);
  unsetenv("MOONGATE_FINGERPRINT_KEY");
  snprintf(path, sizeof path, "%s/fingerprint.key", folder);
  remove(path);
  remove(folder);
}

/* No line takes more room than is asked for before it is written, however its query is put together. */
TEST(bounds_hold)
{
  static const char alphabet[] = "ab&&&=?%+ 1HTTP/.";
  struct mg_redactor *redactor = open_redactor();
  uint32_t state = 7;
  for (unsigned round = 0; round < 200000; round++) {
    char line[160], *out;
    size_t len = 1 + round % (sizeof line - 1);
    for (size_t i = 0; i < len; i++) {
      state = state * 1664525u + 1013904223u;
      line[i] = i == 0 && round % 3 == 0 ? '?' : alphabet[(state >> 16) % (sizeof alphabet - 1)];
    }
    size_t bound = mg_redact_line_bound(mg_str(line, len));
    CHECK((out = malloc(bound)));
    CHECK(mg_redact_request_line(redactor, mg_str(line, len), out) <= bound);
    free(out);
  }
  mg_redactor_close(&redactor);
}

RUN_TESTS({"a_fingerprint_is_the_start_of_the_mac", a_fingerprint_is_the_start_of_the_mac},
          {"fingerprints_of_all_lengths", fingerprints_of_all_lengths}, {"a_long_key", a_long_key},
          {"headers_by_the_lists", headers_by_the_lists}, {"lists_of_ones_own", lists_of_ones_own},
          {"query_values", query_values}, {"bounds_hold", bounds_hold}, {"the_key_file", the_key_file})
