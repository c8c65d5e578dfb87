/* target.c - request targets: where the path ends, what it means, and which paths two servers could read differently.
 * Owns: nothing.   May call: mem, libc.   Never: normalise; a path goes on as it came or not at all.
 * Thread: any. */
#include "target.h"

#include <arpa/inet.h>

static int hex_of(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  c = mg_lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that the escape at text[at] stands for, or -1 if there is none. */
static int escaped_byte(struct mg_str text, size_t at)
{
  if (text.ptr[at] != '%' || at + 3 > text.len) return -1;
  int high = hex_of(text.ptr[at + 1]), low = hex_of(text.ptr[at + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool is_dot_segment(struct mg_str segment)
{
  const char *params = memchr(segment.ptr, ';', segment.len);
  size_t len = params ? (size_t)(params - segment.ptr) : segment.len;
  return (len == 1 || len == 2) && segment.ptr[0] == '.' && segment.ptr[len - 1] == '.';
}

/* An escape that a second decoder would turn into a separator, a dot or a further escape. */
static bool is_residual(struct mg_str text, size_t at)
{
  int byte = escaped_byte(text, at);
  return byte == '.' || byte == '/' || byte == '%' || byte == '\\';
}

/* The first bytes of UTF-8 sequences that are too long for what they say: "/" written as C0 AF, and its like. */
static bool is_overlong(struct mg_str text, size_t at)
{
  unsigned char lead = (unsigned char)text.ptr[at];
  unsigned char next = at + 1 < text.len ? (unsigned char)text.ptr[at + 1] : 0;
  if (lead == 0xc0 || lead == 0xc1) return true;
  return (lead == 0xe0 && next >= 0x80 && next < 0xa0) || (lead == 0xf0 && next >= 0x80 && next < 0x90);
}

/* Checks a decoded path. kept marks with 1 each '%' of a %2F that was kept; NULL when nothing was decoded. An encoded
 * slash ends a segment here: servers that decode it see "..%2F" as a way up. */
static int check_path(struct mg_str path, const char *kept)
{
  size_t start = 0;
  for (size_t at = 0; at <= path.len; at++) {
    bool slash = at == path.len || path.ptr[at] == '/', encoded = !slash && kept && kept[at];
    if (slash || encoded) {
      if (is_dot_segment(mg_str(path.ptr + start, at - start))) return MG_EBADPATH;
      if (encoded) at += 2;
      start = at + 1;
      continue;
    }
    unsigned char c = (unsigned char)path.ptr[at];
    if (c < 0x20 || c == 0x7f || c == '\\') return MG_EBADPATH;
    if (c == '%' && is_residual(path, at)) return MG_EBADPATH;
    if (c >= 0xc0 && is_overlong(path, at)) return MG_EBADPATH;
  }
  return 0;
}

/* Decodes raw into out, which is as long; marks in kept where a %2F stands. Returns the decoded length. */
static size_t decode_path(struct mg_str raw, char *out, char *kept)
{
  size_t len = 0;
  for (size_t at = 0; at < raw.len; at++) {
    int byte = escaped_byte(raw, at);
    kept[len] = byte == '/';
    if (byte == '/') {
      memcpy(out + len, raw.ptr + at, 3);
      kept[len + 1] = kept[len + 2] = 0;
      len += 3;
    } else {
      out[len++] = byte < 0 ? raw.ptr[at] : (char)byte;
    }
    if (byte >= 0) at += 2;
  }
  return len;
}

static bool has_encoded_slash(const char *kept, size_t len)
{
  return memchr(kept, 1, len) != NULL;
}

int mg_target_split(struct mg_target_parts *parts, struct mg_str target, struct mg_arena *arena,
                    bool refuse_encoded_slash)
{
  const char *mark = memchr(target.ptr, '?', target.len);
  *parts = (struct mg_target_parts){.raw_path = target, .query = MG_STR(""), .has_query = mark != NULL};
  if (mark) {
    parts->raw_path.len = (size_t)(mark - target.ptr);
    parts->query = mg_str(mark + 1, target.len - parts->raw_path.len - 1);
  }
  parts->path = parts->raw_path;
  if (!parts->raw_path.len) return MG_EBADPATH;
  if (!memchr(parts->raw_path.ptr, '%', parts->raw_path.len)) return check_path(parts->path, NULL);

  size_t len = parts->raw_path.len;
  char *out = mg_arena_alloc(arena, len), *kept = mg_arena_alloc(arena, len);
  if (!out || !kept) return MG_ENOMEM;
  parts->path = mg_str(out, decode_path(parts->raw_path, out, kept));
  if (refuse_encoded_slash && has_encoded_slash(kept, parts->path.len)) return MG_EBADPATH;
  return check_path(parts->path, kept);
}

/* pchar of RFC 3986, 3.3, and '/' */
static const bool path_bytes[256] = {
    ['a' ... 'z'] = 1, ['A' ... 'Z'] = 1, ['0' ... '9'] = 1, ['-'] = 1,  ['.'] = 1, ['_'] = 1, ['~'] = 1,
    ['!'] = 1,         ['$'] = 1,         ['&'] = 1,         ['\''] = 1, ['('] = 1, [')'] = 1, ['*'] = 1,
    ['+'] = 1,         [','] = 1,         [';'] = 1,         ['='] = 1,  [':'] = 1, ['@'] = 1, ['/'] = 1,
};

struct mg_str mg_path_encode(struct mg_str path, struct mg_arena *arena)
{
  size_t escapes = 0;
  for (size_t i = 0; i < path.len; i++) escapes += !path_bytes[(unsigned char)path.ptr[i]];
  char *out = mg_arena_alloc(arena, path.len + 2 * escapes + 1);
  if (!out) return mg_str(NULL, 0);
  size_t len = 0;
  for (size_t i = 0; i < path.len; i++) {
    unsigned char c = (unsigned char)path.ptr[i];
    if (path_bytes[c] || escaped_byte(path, i) == '/') {
      out[len++] = (char)c;
    } else {
      out[len++] = '%';
      out[len++] = "0123456789ABCDEF"[c >> 4];
      out[len++] = "0123456789ABCDEF"[c & 15];
    }
  }
  return mg_str(out, len);
}

/* reg-name of RFC 3986, 3.2.2, but neither escapes, which servers do and do not decode, nor ',', which joins two. */
static bool is_name(struct mg_str host)
{
  static const bool bytes[256] = {
      ['a' ... 'z'] = 1, ['A' ... 'Z'] = 1, ['0' ... '9'] = 1, ['-'] = 1, ['.'] = 1,  ['_'] = 1,
      ['~'] = 1,         ['!'] = 1,         ['$'] = 1,         ['&'] = 1, ['\''] = 1, ['('] = 1,
      [')'] = 1,         ['*'] = 1,         ['+'] = 1,         [';'] = 1, ['='] = 1,
  };
  bool ok = host.len > 0;
  for (size_t i = 0; i < host.len; i++) ok &= bytes[(unsigned char)host.ptr[i]];
  return ok;
}

static bool is_ipv6_literal(struct mg_str host)
{
  char text[INET6_ADDRSTRLEN];
  struct in6_addr address;
  size_t len = host.len - 2;
  if (host.ptr[host.len - 1] != ']' || host.len < 4 || len >= sizeof text) return false;
  memcpy(text, host.ptr + 1, len);
  text[len] = '\0';
  return strlen(text) == len && inet_pton(AF_INET6, text, &address) == 1;
}

static bool is_port(struct mg_str port)
{
  unsigned number = 0;
  for (size_t i = 0; i < port.len; i++) {
    if (port.ptr[i] < '0' || port.ptr[i] > '9' || i == 5) return false;
    number = number * 10 + (unsigned)(port.ptr[i] - '0');
  }
  return number <= UINT16_MAX;
}

bool mg_authority_split(struct mg_str authority, struct mg_str *host, struct mg_str *port)
{
  if (!authority.len) return false;
  bool literal = authority.ptr[0] == '[';
  const char *from = literal ? memchr(authority.ptr, ']', authority.len) : authority.ptr;
  if (!from) return false;
  size_t skipped = (size_t)(from - authority.ptr);
  const char *colon = memchr(from, ':', authority.len - skipped);
  *host = colon ? mg_str(authority.ptr, (size_t)(colon - authority.ptr)) : authority;
  *port = colon ? mg_str(colon + 1, authority.len - host->len - 1) : mg_str(authority.ptr + authority.len, 0);
  return (literal ? is_ipv6_literal(*host) : is_name(*host)) && is_port(*port);
}
