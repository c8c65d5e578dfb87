/* core_digest.c - known answers of SHA-256 and base64, and what is no base64. */
#include "digest.h"

#include "t.h"

TEST(sha256_of_known_texts)
{
  unsigned char hash[MG_SHA256_SIZE];
  char text[MG_BASE64_SIZE(MG_SHA256_SIZE)];
  mg_sha256(MG_STR(""), hash);
  mg_base64(hash, sizeof hash, text);
  CHECK_STR(mg_str(text, strlen(text)), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  mg_sha256(MG_STR("abc"), hash);
  mg_base64(hash, sizeof hash, text);
  CHECK_STR(mg_str(text, strlen(text)), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

TEST(base64_of_rfc_4648)
{
  static const char *const pairs[][2] = {{"", ""},
                                         {"f", "Zg=="},
                                         {"fo", "Zm8="},
                                         {"foo", "Zm9v"},
                                         {"foob", "Zm9vYg=="},
                                         {"fooba", "Zm9vYmE="},
                                         {"foobar", "Zm9vYmFy"}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    char text[MG_BASE64_SIZE(6)], back[6];
    size_t len;
    mg_base64((const unsigned char *)pairs[i][0], strlen(pairs[i][0]), text);
    CHECK_STR(mg_str(text, strlen(text)), pairs[i][1]);
    CHECK(mg_base64_decode(mg_str(pairs[i][1], strlen(pairs[i][1])), back, sizeof back, &len));
    CHECK_STR(mg_str(back, len), pairs[i][0]);
  }
}

TEST(what_is_no_base64)
{
  char back[3];
  size_t len;
  CHECK(!mg_base64_decode(MG_STR("Zg="), back, sizeof back, &len));
  CHECK(!mg_base64_decode(MG_STR("Z==="), back, sizeof back, &len));
  CHECK(!mg_base64_decode(MG_STR("Zm9\0"), back, sizeof back, &len));
  CHECK(!mg_base64_decode(MG_STR("Zm-v"), back, sizeof back, &len));
  CHECK(!mg_base64_decode(MG_STR("Zm9vYg=="), back, sizeof back, &len)); /* no room */
}

RUN_TESTS({"sha256 of known texts", sha256_of_known_texts}, {"base64 of RFC 4648", base64_of_rfc_4648},
          {"what is no base64", what_is_no_base64})
