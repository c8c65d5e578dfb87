/* address.c - IP literals and the walk along X-Forwarded-For.
 * Owns: nothing.   May call: headers, libc.   Never: resolve names, believe a peer that is not trusted.
 * Thread: any. */
#include "address.h"

#include <arpa/inet.h>

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool mg_address_parse(struct mg_str text, struct mg_address *address)
{
  char copy[INET6_ADDRSTRLEN];
  *address = (struct mg_address){0};
  if (!text.len || text.len >= sizeof copy || memchr(text.ptr, '\0', text.len)) return false;
  memcpy(copy, text.ptr, text.len);
  copy[text.len] = '\0';
  if (inet_pton(AF_INET, copy, address->bytes + 12) == 1)
    memcpy(address->bytes, v4_prefix, sizeof v4_prefix);
  else if (inet_pton(AF_INET6, copy, address->bytes) != 1)
    return false;
  address->v4 = memcmp(address->bytes, v4_prefix, sizeof v4_prefix) == 0;
  if (address->v4)
    inet_ntop(AF_INET, address->bytes + 12, address->text, sizeof address->text);
  else
    inet_ntop(AF_INET6, address->bytes, address->text, sizeof address->text);
  address->text_len = (uint8_t)strlen(address->text);
  return true;
}

bool mg_network_parse(struct mg_str text, struct mg_network *network)
{
  struct mg_address address;
  const char *slash = memchr(text.ptr, '/', text.len);
  struct mg_str host = slash ? mg_str(text.ptr, (size_t)(slash - text.ptr)) : text;
  if (!mg_address_parse(host, &address)) return false;
  unsigned bits = address.v4 ? 32 : 128, prefix = bits;
  if (slash) {
    struct mg_str digits = mg_str(slash + 1, text.len - host.len - 1);
    if (!digits.len || digits.len > 3) return false;
    prefix = 0;
    for (size_t i = 0; i < digits.len; i++) {
      if (digits.ptr[i] < '0' || digits.ptr[i] > '9') return false;
      prefix = prefix * 10 + (unsigned)(digits.ptr[i] - '0');
    }
    if (prefix > bits) return false;
  }
  memcpy(network->bytes, address.bytes, sizeof network->bytes);
  network->prefix = (uint8_t)(address.v4 ? prefix + 96 : prefix);
  return true;
}

bool mg_network_has(const struct mg_network *network, const struct mg_address *address)
{
  unsigned whole = network->prefix / 8, rest = network->prefix % 8;
  if (memcmp(network->bytes, address->bytes, whole) != 0) return false;
  if (!rest) return true;
  uint8_t mask = (uint8_t)(0xff << (8 - rest));
  return ((network->bytes[whole] ^ address->bytes[whole]) & mask) == 0;
}

struct walk {
  const struct mg_network *trusted;
  unsigned trusted_count;
  struct mg_address *client;
  bool stopped; /* client is the first untrusted entry from the right */
};

static bool is_trusted(const struct walk *walk, const struct mg_address *address)
{
  for (unsigned i = 0; i < walk->trusted_count; i++)
    if (mg_network_has(&walk->trusted[i], address)) return true;
  return false;
}

/* Reads one X-Forwarded-For line from the right; all entries have to be good, also those left of the client. */
static bool walk_line(struct walk *walk, struct mg_str line)
{
  for (;;) {
    const char *comma = memrchr(line.ptr, ',', line.len);
    size_t skipped = comma ? (size_t)(comma + 1 - line.ptr) : 0;
    struct mg_address entry;
    if (!mg_address_parse(mg_trim(mg_str(line.ptr + skipped, line.len - skipped)), &entry)) return false;
    if (!walk->stopped) {
      *walk->client = entry;
      walk->stopped = !is_trusted(walk, &entry);
    }
    if (!comma) return true;
    line.len = skipped - 1;
  }
}

static enum mg_client_source by_real_ip(const struct mg_headers *headers, struct mg_address *client)
{
  const struct mg_header *line = NULL;
  unsigned count = 0;
  for (unsigned i = 0; i < headers->count; i++) {
    if (headers->items[i].id != MG_H_X_REAL_IP || headers->items[i].flags & MG_HEADER_GONE) continue;
    line = &headers->items[i];
    count++;
  }
  struct mg_address address;
  if (count != 1 || !mg_address_parse(mg_str(line->value, line->value_len), &address)) return MG_CLIENT_SOCKET;
  *client = address;
  return MG_CLIENT_X_REAL_IP;
}

enum mg_client_source mg_client_address(const struct mg_headers *headers, const struct mg_address *peer,
                                        const struct mg_network *trusted, unsigned trusted_count,
                                        struct mg_address *client)
{
  struct mg_address found;
  struct walk walk = {.trusted = trusted, .trusted_count = trusted_count, .client = &found};
  *client = *peer;
  if (!peer->text_len) return MG_CLIENT_UNKNOWN;
  if (!is_trusted(&walk, peer)) return MG_CLIENT_SOCKET;
  bool forwarded = false;
  for (unsigned i = headers->count; i-- > 0;) {
    const struct mg_header *line = &headers->items[i];
    if (line->id != MG_H_X_FORWARDED_FOR || line->flags & MG_HEADER_GONE) continue;
    if (!walk_line(&walk, mg_str(line->value, line->value_len))) return MG_CLIENT_SOCKET;
    forwarded = true;
  }
  if (!forwarded) return by_real_ip(headers, client);
  *client = found;
  return MG_CLIENT_X_FORWARDED_FOR;
}
