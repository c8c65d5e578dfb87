/* headers.h - an ordered list of header lines, as parsed or as edited.
 *
 * Names and values are borrowed from the message they were parsed from or from the arena they were copied into;
 * the list itself grows in an arena. Nothing here allocates from the heap.
 * Thread: one per list. */
#pragma once

#include <stdint.h>

#include "mem.h"

/** Names the gateway itself looks at. A line's id is found once, when it is parsed or added. */
#define MG_HEADER_MAP(X)                        \
  X(HOST, "host")                               \
  X(CONNECTION, "connection")                   \
  X(KEEP_ALIVE, "keep-alive")                   \
  X(PROXY_CONNECTION, "proxy-connection")       \
  X(PROXY_AUTHORIZATION, "proxy-authorization") \
  X(UPGRADE, "upgrade")                         \
  X(TE, "te")                                   \
  X(TRAILER, "trailer")                         \
  X(TRANSFER_ENCODING, "transfer-encoding")     \
  X(CONTENT_LENGTH, "content-length")           \
  X(EXPECT, "expect")                           \
  X(FORWARDED, "forwarded")                     \
  X(X_FORWARDED, "x-forwarded-*")               \
  X(X_FORWARDED_FOR, "x-forwarded-for")         \
  X(X_FORWARDED_PROTO, "x-forwarded-proto")     \
  X(X_FORWARDED_HOST, "x-forwarded-host")       \
  X(X_FORWARDED_PORT, "x-forwarded-port")       \
  X(X_FORWARDED_SERVER, "x-forwarded-server")   \
  X(X_REAL_IP, "x-real-ip")                     \
  X(CLAIM, "x-client-ip and its like")          \
  X(CONTENT_TYPE, "content-type")               \
  X(DATE, "date")                               \
  X(SERVER, "server")                           \
  X(LOOKALIKE, "content_length and transfer_encoding")

enum mg_header_id {
  MG_H_OTHER,
#define X(id, name) MG_H_##id,
  MG_HEADER_MAP(X)
#undef X
      MG_H_COUNT
};

enum {
  MG_HEADER_GONE = 1, /* removed; kept in place so that indexes and raw runs stay valid */
  MG_HEADER_RAW = 2,  /* name and value lie in memory as the line goes out: name ": " value CR LF */
  MG_HEADER_OURS = 4  /* put there by mg_headers_add or mg_headers_set, not by the peer */
};

struct mg_header {
  const char *name;
  const char *value;
  uint32_t value_len;
  uint16_t name_len;
  uint8_t id;    /* enum mg_header_id */
  uint8_t flags; /* MG_HEADER_GONE and its neighbours */
};

struct mg_headers {
  struct mg_header *items; /* in the arena */
  struct mg_arena *arena;  /* borrowed */
  uint32_t present;        /* bit MG_H_x is set when a line with that id was ever added; a hint, never cleared */
  uint64_t names;          /* a bit for each name's length and first letter; as much of a hint */
  uint16_t count;
  uint16_t capacity;
};

/** The id of a name (a token) in any case; MG_H_OTHER for names the gateway has no interest in.
 * X-Forwarded-*, also with '_' for either '-', maps to MG_H_X_FORWARDED unless it is one of the exact names;
 * X-Client-IP, True-Client-IP, X-Cluster-Client-IP, X-Original-URL, X-Rewrite-URL (and with '_', as is X_Real_IP) to
 * MG_H_CLAIM. Content_Length and Transfer_Encoding, which CGI-like servers read as the real ones, to MG_H_LOOKALIKE. */
enum mg_header_id mg_header_id(const char *name, size_t len);

/** An empty list that grows in arena (borrowed for the list's life). */
void mg_headers_init(struct mg_headers *list, struct mg_arena *arena);

/** Appends a line; borrows name and value. 0, or MG_ENOMEM when the arena is full. */
int mg_headers_push(struct mg_headers *list, struct mg_str name, struct mg_str value, enum mg_header_id id);

/** The list's text has been copied from `from` (len bytes) to `to`: lines point there now. */
void mg_headers_move(struct mg_headers *list, const char *from, size_t len, const char *to);

/** The first line of that name at or after index *from that is not gone; NULL if none. *from moves behind it. */
const struct mg_header *mg_headers_next(const struct mg_headers *list, struct mg_str name, unsigned *from);

/** The first line with a known id, or NULL. */
const struct mg_header *mg_headers_get(const struct mg_headers *list, enum mg_header_id id);

/** Appends a line, copying name and value into the arena. 0 or MG_ENOMEM. */
int mg_headers_add(struct mg_headers *list, struct mg_str name, struct mg_str value);

/** Replaces all lines of that name by one, in the place of the first (or at the end); copies. 0 or MG_ENOMEM. */
int mg_headers_set(struct mg_headers *list, struct mg_str name, struct mg_str value);

/** Marks all lines of that name as gone. Returns how many there were. */
unsigned mg_headers_remove(struct mg_headers *list, struct mg_str name);

/** The same for a caller that knows the name's id. */
int mg_headers_add_as(struct mg_headers *list, struct mg_str name, struct mg_str value, enum mg_header_id id);
int mg_headers_set_as(struct mg_headers *list, struct mg_str name, struct mg_str value, enum mg_header_id id);
unsigned mg_headers_remove_as(struct mg_headers *list, struct mg_str name, enum mg_header_id id);

enum { MG_HEADER_FRAME = 4 }; /* ": " and CR LF */

/** Lays a line out in name.len + value.len + MG_HEADER_FRAME bytes at text, which are borrowed. The name has at most
 * 65,535 bytes, the value less than 4 GB. */
void mg_header_lay_out(struct mg_header *line, char *text, struct mg_str name, struct mg_str value,
                       enum mg_header_id id);

/** Makes a line for a list that is edited later: name and value are copied into arena as they go out. 0 or MG_ENOMEM. */
int mg_header_make(struct mg_header *line, struct mg_arena *arena, struct mg_str name, struct mg_str value,
                   enum mg_header_id id);

/** Appends a line that was made, or replaces all lines of its name by it. Its text is borrowed. 0 or MG_ENOMEM. */
int mg_headers_add_made(struct mg_headers *list, const struct mg_header *line);
int mg_headers_set_made(struct mg_headers *list, const struct mg_header *line);

/** True if name is an HTTP token (RFC 9110, 5.6.2) of 1 to 256 bytes. */
bool mg_header_name_ok(struct mg_str name);

/** True if value holds no C0 control but TAB, no DEL (RFC 9110, 5.5). */
bool mg_header_value_ok(struct mg_str value);

/** How many bytes are C0 controls but TAB, or DEL. */
size_t mg_count_controls(const char *bytes, size_t len);

/** True if the comma list in value holds token (compared without case, RFC 9110, 5.6.1). */
bool mg_header_list_has(struct mg_str value, struct mg_str token);

/** tchar of RFC 9110, 5.6.2, indexed by byte. */
extern const bool mg_token_bytes[256];

/** True if text is a token of any length above 0. */
bool mg_token_ok(struct mg_str text);

/** Takes the next member, without the blanks around it, off a comma list (RFC 9110, 5.6.1); members may be empty.
 * Start with *rest as the whole value; false when nothing is left. */
bool mg_list_next(struct mg_str *rest, struct mg_str *member);

/** text without SP and HTAB at its ends. */
static inline struct mg_str mg_trim(struct mg_str text)
{
  while (text.len && (text.ptr[0] == ' ' || text.ptr[0] == '\t')) text.ptr++, text.len--;
  while (text.len && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t')) text.len--;
  return text;
}
