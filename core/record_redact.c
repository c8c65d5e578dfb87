/* record_redact.c - safe lists, fingerprints and their key.
 * Owns: the key.   May call: settings, OpenSSL.   Never: let a value through that no list names.   Thread:
 * one per redactor. */
/* EVP_MAC takes memory from the heap for each value and several times as long. SHA256_* are what it comes down to. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "record_redact.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "headers.h"
#include "log.h"

enum { KEY_SIZE = 512, KEY_MIN = 32, DECODED_SIZE = 4096, ONE_BLOCK_MAX = SHA256_CBLOCK - 9, SHORT_LINE = 100 };

/* Safe on both sides, on requests, on responses: one space before and behind each name. */
static const char SAFE_ALWAYS[] = " connection keep-alive upgrade te transfer-encoding priority x-request-id "
                                  "x-correlation-id x-b3-traceid x-b3-spanid "
                                  "x-b3-parentspanid x-b3-sampled x-b3-flags b3 traceparent tracestate date ";
static const char SAFE_REQUEST[] =
    " host user-agent accept accept-encoding accept-language accept-charset content-type content-length dnt origin "
    "sec-ch-ua "
    "sec-ch-ua-mobile sec-ch-ua-platform sec-ch-ua-arch sec-ch-ua-bitness sec-ch-ua-full-version "
    "sec-ch-ua-full-version-list "
    "sec-ch-ua-model sec-ch-ua-platform-version sec-ch-ua-wow64 sec-ch-prefers-color-scheme "
    "sec-ch-prefers-reduced-motion "
    "save-data sec-fetch-site sec-fetch-mode sec-fetch-dest sec-fetch-user cache-control pragma if-match if-none-match "
    "if-modified-since if-unmodified-since range expect max-forwards upgrade-insecure-requests early-data "
    "x-requested-with "
    "x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port x-real-ip forwarded via ";
static const char SAFE_RESPONSE[] =
    " server x-powered-by content-type content-length content-encoding content-language content-disposition "
    "content-range "
    "accept-ranges last-modified allow etag vary expires age retry-after access-control-allow-origin "
    "access-control-allow-methods "
    "access-control-allow-headers access-control-expose-headers access-control-max-age "
    "access-control-allow-credentials "
    "x-content-type-options x-ratelimit-remaining x-ratelimit-limit x-frame-options strict-transport-security "
    "referrer-policy "
    "x-xss-protection x-permitted-cross-domain-policies cross-origin-opener-policy cross-origin-embedder-policy "
    "cross-origin-resource-policy ";

/* Names in lower case, found by hash: open addressing, at most half full. */
struct names {
  struct mg_str *table;
  uint32_t mask;
};

struct mg_redactor {
  /* HMAC's two sums behind the block of the key, in one line of the cache: all that a value needs. */
  _Alignas(64) SHA_LONG inner[8];
  SHA_LONG outer[8];
  const char *safe_parameters; /* of queries, one a line */
  const struct mg_settings *settings;
  struct names safe[2]; /* header names, by side */
};

/* --- names -------------------------------------------------------------------------------------------------------- */

/* In any case of its letters: what comes of other bytes is told apart by the comparison. */
static uint32_t hash_name(struct mg_str name)
{
  uint64_t first = 0, last = 0;
  if (name.len >= 8) {
    memcpy(&first, name.ptr, 8);
    memcpy(&last, name.ptr + name.len - 8, 8);
  } else {
    memcpy(&first, name.ptr, name.len);
  }
  first |= 0x2020202020202020u;
  last |= 0x2020202020202020u;
  uint64_t hash = (first ^ name.len) * 0x9e3779b97f4a7c15u ^ last * 0xff51afd7ed558ccdu;
  return (uint32_t)(hash >> 32 ^ hash >> 47);
}

/* Where the name is, or an empty place for it. */
static struct mg_str *place_of(const struct names *names, struct mg_str name)
{
  uint32_t at = hash_name(name) & names->mask;
  while (names->table[at].ptr &&
         !(names->table[at].len == name.len && mg_equal_nocase(names->table[at].ptr, name.ptr, name.len)))
    at = (at + 1) & names->mask;
  return &names->table[at];
}

/* The next of words that are divided by separator; false at the end. */
static bool next_word(const char **text, char separator, struct mg_str *word)
{
  while (**text == separator) ++*text;
  const char *end = strchrnul(*text, separator);
  *word = mg_str(*text, (size_t)(end - *text));
  *text = end;
  return word->len > 0;
}

static size_t count_words(const char *text, char separator)
{
  struct mg_str word;
  size_t count = 0;
  while (next_word(&text, separator, &word)) count++;
  return count;
}

/* The lists are those of the settings and the program: they outlive the table. */
static void make_names(struct names *names, const char *const lists[3], const char separators[3])
{
  size_t count = 0, size = 16;
  struct mg_str word;
  for (int i = 0; i < 3; i++) count += count_words(lists[i], separators[i]);
  while (size < 2 * count) size *= 2;
  names->table = mg_calloc(size, sizeof *names->table);
  names->mask = (uint32_t)size - 1;
  for (int i = 0; i < 3; i++)
    for (const char *text = lists[i]; next_word(&text, separators[i], &word);) *place_of(names, word) = word;
}

/* --- the key ------------------------------------------------------------------------------------------------------ */

static long read_key(const char *path, char key[KEY_SIZE])
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  ssize_t len = read(fd, key, KEY_SIZE);
  close(fd);
  while (len > 0 && (key[len - 1] == '\n' || key[len - 1] == '\r' || key[len - 1] == ' ')) len--;
  return len;
}

/* Written under a name of its own and linked: whoever comes first decides, and nobody reads half a key. */
static int make_key(const char *path)
{
  char fresh[4300];
  uint8_t random[32];
  snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
  if (getrandom(random, sizeof random, 0) != sizeof random) return -EIO;
  int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  char text[2 * sizeof random + 2];
  for (size_t i = 0; i < sizeof random; i++) snprintf(text + 2 * i, 3, "%02x", random[i]);
  text[2 * sizeof random] = '\n';
  int result = write(fd, text, 2 * sizeof random + 1) == 2 * sizeof random + 1 && fsync(fd) == 0 ? 0 : -EIO;
  close(fd);
  if (result == 0 && link(fresh, path) == 0)
    mg_log(MG_LOG_INFO, "made %s: fingerprints in the journal can be compared as long as it stays", path);
  else if (result == 0 && errno != EEXIST)
    result = -errno;
  unlink(fresh);
  return result;
}

static long find_key(const struct mg_settings *settings, const char *folder, char key[KEY_SIZE], struct mg_buf *error)
{
  char path[4200];
  const char *given = getenv("MOONGATE_FINGERPRINT_KEY");
  if (!given || !*given) given = settings->fingerprint_key;
  if (*given) {
    snprintf(key, KEY_SIZE, "%s", given);
    return (long)strlen(key);
  }
  snprintf(path, sizeof path, "%s/fingerprint.key", folder);
  long len = read_key(path, key);
  if (len == -ENOENT) {
    len = make_key(path);
    if (len == 0) len = read_key(path, key);
  }
  if (len < 0) mg_buf_printf(error, "cannot read or make %s: %s", path, strerror((int)-len));
  return len;
}

static void sum_key_block(SHA_LONG out[8], const unsigned char block[SHA256_CBLOCK])
{
  SHA256_CTX sum;
  SHA256_Init(&sum);
  SHA256_Transform(&sum, block);
  memcpy(out, sum.h, sizeof sum.h);
}

/* RFC 2104: what comes of the key is the same for every value, and is worked out once. */
static void set_key(struct mg_redactor *redactor, const unsigned char *key, size_t len)
{
  unsigned char block[SHA256_CBLOCK] = {0};
  if (len > sizeof block)
    SHA256(key, len, block);
  else
    memcpy(block, key, len);
  for (size_t i = 0; i < sizeof block; i++) block[i] ^= 0x36;
  sum_key_block(redactor->inner, block);
  for (size_t i = 0; i < sizeof block; i++) block[i] ^= 0x36 ^ 0x5c;
  sum_key_block(redactor->outer, block);
}

static void set_names(struct mg_redactor *redactor, const struct mg_settings *settings)
{
  const char *replaced[2] = {settings->safe_request_headers.text, settings->safe_response_headers.text};
  const char *added[2] = {settings->more_safe_request_headers.text, settings->more_safe_response_headers.text};
  for (int side = 0; side < 2; side++) {
    const char *own[3] = {SAFE_ALWAYS, side ? SAFE_RESPONSE : SAFE_REQUEST, added[side]};
    const char *given[3] = {replaced[side], "", ""};
    make_names(&redactor->safe[side], *replaced[side] ? given : own, *replaced[side] ? "\n\n\n" : "  \n");
  }
}

struct mg_redactor *mg_redactor_open(const struct mg_settings *settings, const char *folder, struct mg_buf *error)
{
  char key[KEY_SIZE];
  long len = find_key(settings, folder, key, error);
  if (len < 0) return NULL;
  if (len < KEY_MIN) {
    mg_buf_printf(error, "the fingerprint key has less than %d characters", KEY_MIN);
    return NULL;
  }
  struct mg_redactor *redactor = mg_calloc_lines(sizeof *redactor);
  redactor->safe_parameters = settings->safe_query_parameters.text;
  redactor->settings = settings;
  set_key(redactor, (const unsigned char *)key, (size_t)len);
  set_names(redactor, settings);
  return redactor;
}

void mg_redactor_close(struct mg_redactor **pointer)
{
  struct mg_redactor *redactor = *pointer;
  *pointer = NULL;
  if (!redactor) return;
  for (int side = 0; side < 2; side++) free(redactor->safe[side].table);
  mg_free_lines(redactor);
}

/* The last block of a message, behind that of the key; message is what of it stands in this block. SHA256_Transform
 * looks at nothing of sum but sum->h. */
static void sum_last_block(SHA256_CTX *sum, const SHA_LONG key_block[8], const void *message, size_t len)
{
  unsigned char block[SHA256_CBLOCK] = {0};
  uint64_t bits = htobe64((uint64_t)(SHA256_CBLOCK + len) * 8);
  memcpy(sum->h, key_block, sizeof sum->h);
  memcpy(block, message, len);
  block[len] = 0x80;
  memcpy(block + sizeof block - sizeof bits, &bits, sizeof bits);
  SHA256_Transform(sum, block);
}

/* The inner sum of a value of several blocks. */
static void sum_long_value(const struct mg_redactor *redactor, struct mg_str value,
                           unsigned char mac[SHA256_DIGEST_LENGTH])
{
  SHA256_CTX sum;
  SHA256_Init(&sum);
  memcpy(sum.h, redactor->inner, sizeof sum.h);
  sum.Nl = SHA256_CBLOCK * 8;
  SHA256_Update(&sum, value.ptr, value.len);
  SHA256_Final(mac, &sum);
}

/* The first eight bytes of HMAC-SHA-256. Both sums go on behind a block of the key, and nearly every value ends in the
 * next: SHA256_Update and _Final would take longer to come to that than the sums take. */
static uint64_t mac_of(const struct mg_redactor *redactor, struct mg_str value)
{
  SHA256_CTX sum;
  unsigned char mac[SHA256_DIGEST_LENGTH];
  if (value.len <= ONE_BLOCK_MAX) {
    sum_last_block(&sum, redactor->inner, value.ptr, value.len);
    for (int i = 0; i < 8; i++) sum.h[i] = htobe32(sum.h[i]);
    memcpy(mac, sum.h, sizeof mac);
  } else {
    sum_long_value(redactor, value, mac);
  }
  sum_last_block(&sum, redactor->outer, mac, sizeof mac);
  return (uint64_t)sum.h[0] << 32 | sum.h[1];
}

uint64_t mg_redactor_key_mark(const struct mg_redactor *redactor)
{
  uint64_t mark = mac_of(redactor, MG_STR("which key is this"));
  return mark ? mark : 1;
}

void mg_fingerprint(struct mg_redactor *redactor, struct mg_str value, char out[MG_FINGERPRINT_LEN])
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  uint64_t bits = mac_of(redactor, value);
  memcpy(out, "fp:", 3);
  for (int i = 0; i < 10; i++) out[3 + i] = digits[bits >> (58 - 6 * i) & 63];
  out[13] = digits[(bits & 15) << 2];
}

/* --- headers ------------------------------------------------------------------------------------------------------ */

/* One name a line, as settings hold lists. */
static bool in_lines(const char *lines, struct mg_str name, bool exact)
{
  while (*lines) {
    size_t len = strcspn(lines, "\n");
    if (len == name.len && (exact ? memcmp(lines, name.ptr, len) == 0 : mg_equal_nocase(lines, name.ptr, len)))
      return true;
    lines += len + (lines[len] == '\n');
  }
  return false;
}

size_t mg_redact_header(struct mg_redactor *redactor, unsigned side, struct mg_str line, char *out)
{
  const char *colon = memchr(line.ptr, ':', line.len);
  struct mg_str name = mg_str(line.ptr, colon ? (size_t)(colon - line.ptr) : 0);
  if (!mg_token_ok(name) || memchr(colon, '\r', line.len - name.len)) { /* no header: of a head that was refused */
    mg_fingerprint(redactor, line, out);
    return MG_FINGERPRINT_LEN;
  }
  struct mg_str value = mg_str(colon + 1, line.len - name.len - 1);
  while (value.len && (*value.ptr == ' ' || *value.ptr == '\t')) value.ptr++, value.len--;
  if (!value.len || place_of(&redactor->safe[side], name)->ptr) {
    memcpy(out, line.ptr, line.len);
    return line.len;
  }
  memcpy(out, name.ptr, name.len);
  memcpy(out + name.len, ": ", 2);
  mg_fingerprint(redactor, value, out + name.len + 2);
  return name.len + 2 + MG_FINGERPRINT_LEN;
}

/* --- request lines ------------------------------------------------------------------------------------------------ */

static int hex_digit(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  c = mg_lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_encoded(struct mg_str word)
{
  return memchr(word.ptr, '%', word.len) || memchr(word.ptr, '+', word.len);
}

/* Decoded into out of DECODED_SIZE; what does not fit is left encoded as it is, whole. */
static struct mg_str decoded(struct mg_str word, char *out)
{
  size_t len = 0;
  if (word.len > DECODED_SIZE || !is_encoded(word)) return word;
  for (size_t i = 0; i < word.len; i++) {
    int high = word.ptr[i] == '%' && i + 2 < word.len ? hex_digit(word.ptr[i + 1]) : -1;
    int low = high >= 0 ? hex_digit(word.ptr[i + 2]) : -1;
    if (low >= 0) {
      out[len++] = (char)(high << 4 | low);
      i += 2;
    } else {
      out[len++] = word.ptr[i] == '+' ? ' ' : word.ptr[i];
    }
  }
  return mg_str(out, len);
}

/* Whether a parameter's name, as it came, is among those that are safe. */
static bool is_safe_parameter(const struct mg_redactor *redactor, struct mg_str name, char *scratch)
{
  return *redactor->safe_parameters &&
         in_lines(redactor->safe_parameters, decoded(name, scratch), redactor->settings->safe_query_exact);
}

static char *redact_pair(struct mg_redactor *redactor, struct mg_str pair, char *out)
{
  char scratch[DECODED_SIZE];
  const char *equals = memchr(pair.ptr, '=', pair.len);
  struct mg_str name = equals ? mg_str(pair.ptr, (size_t)(equals - pair.ptr)) : mg_str("", 0);
  size_t kept = equals ? name.len + 1 : 0;
  struct mg_str value = mg_str(pair.ptr + kept, pair.len - kept);
  if (!value.len || (equals && is_safe_parameter(redactor, name, scratch))) {
    memcpy(out, pair.ptr, pair.len);
    return out + pair.len;
  }
  memcpy(out, pair.ptr, kept);
  mg_fingerprint(redactor, decoded(value, scratch), out + kept);
  return out + kept + MG_FINGERPRINT_LEN;
}

size_t mg_redact_line_bound(struct mg_str line)
{
  /* A value has a byte at least, and one stands between it and the next. */
  if (line.len <= SHORT_LINE) return line.len + (line.len + 1) / 2 * (MG_FINGERPRINT_LEN - 1) + 1;
  size_t bound = line.len + MG_FINGERPRINT_LEN + 1;
  const char *query = memchr(line.ptr, '?', line.len);
  for (const char *at = query; at && at < line.ptr + line.len; at++)
    if (*at == '&') bound += MG_FINGERPRINT_LEN;
  return bound;
}

size_t mg_redact_request_line(struct mg_redactor *redactor, struct mg_str line, char *out)
{
  const char *end = line.ptr + line.len, *query = memchr(line.ptr, '?', line.len);
  if (!query) {
    memcpy(out, line.ptr, line.len);
    return line.len;
  }
  const char *behind = memrchr(query, ' ', (size_t)(end - query));
  if (!behind || end - behind < 6 || memcmp(behind, " HTTP/", 6) != 0) behind = end; /* a line that was refused */
  char *at = out + (query + 1 - line.ptr);
  memcpy(out, line.ptr, (size_t)(query + 1 - line.ptr));
  for (const char *from = query + 1; from < behind;) {
    const char *to = memchr(from, '&', (size_t)(behind - from));
    if (!to) to = behind;
    at = redact_pair(redactor, mg_str(from, (size_t)(to - from)), at);
    if (to < behind) *at++ = '&', to++;
    from = to;
  }
  memcpy(at, behind, (size_t)(end - behind));
  return (size_t)(at + (end - behind) - out);
}
