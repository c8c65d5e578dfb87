/* digest.c - hashes and their text.
 * Owns: nothing.   May call: libcrypto.   Never: keep a secret.   Thread: any. */
#include "digest.h"

#include <openssl/evp.h>

#include "log.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void mg_sha256(struct mg_str bytes, unsigned char out[MG_SHA256_SIZE])
{
  int done = EVP_Digest(bytes.len ? bytes.ptr : "", bytes.len, out, NULL, EVP_sha256(), NULL);
  MG_ASSERT(done == 1);
}

void mg_base64(const unsigned char *bytes, size_t len, char *out)
{
  for (size_t i = 0; i < len; i += 3) {
    unsigned left = len - i < 3 ? (unsigned)(len - i) : 3;
    unsigned word =
        (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
    for (unsigned k = 0; k < 4; k++) *out++ = k <= left ? alphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  *out = '\0';
}

bool mg_base64_decode(struct mg_str text, char *out, size_t size, size_t *len)
{
  size_t pad = 0;
  *len = 0;
  if (text.len % 4) return false;
  while (pad < 2 && pad < text.len && text.ptr[text.len - 1 - pad] == '=') pad++;
  if (text.len / 4 * 3 - pad > size) return false;
  unsigned word = 0;
  for (size_t i = 0; i < text.len - pad; i++) {
    const char *at = text.ptr[i] ? strchr(alphabet, text.ptr[i]) : NULL;
    if (!at) return false;
    word = word << 6 | (unsigned)(at - alphabet);
    if (i % 4) out[(*len)++] = (char)(word >> (6 - i % 4 * 2) & 255);
  }
  return true;
}
