/* varint.h - numbers of 1 to 10 bytes, seven bits in each, the lowest first; signed ones in zigzag. Pure. Thread:
 * any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mem.h"

enum { MG_VARINT_MAX = 10 };

static inline uint8_t *mg_varint_put(uint8_t *at, uint64_t value)
{
  while (value >= 0x80) {
    *at++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *at++ = (uint8_t)value;
  return at;
}

static inline uint8_t *mg_zigzag_put(uint8_t *at, int64_t value)
{
  return mg_varint_put(at, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

/** Bytes being read; once something did not fit, failed stays set and everything reads as 0. */
struct mg_cursor {
  const uint8_t *at, *end;
  bool failed;
};

static inline uint64_t mg_varint_get(struct mg_cursor *in)
{
  uint64_t value = 0;
  for (unsigned shift = 0; in->at < in->end && shift < 64; shift += 7) {
    uint8_t byte = *in->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  in->failed = true;
  in->at = in->end;
  return 0;
}

static inline int64_t mg_zigzag_get(struct mg_cursor *in)
{
  uint64_t value = mg_varint_get(in);
  return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static inline uint8_t mg_byte_get(struct mg_cursor *in)
{
  if (in->at < in->end) return *in->at++;
  in->failed = true;
  return 0;
}

/** len bytes, borrowed; empty when there are fewer. */
static inline struct mg_str mg_bytes_get(struct mg_cursor *in, uint64_t len)
{
  if (len > (uint64_t)(in->end - in->at)) {
    in->failed = true;
    in->at = in->end;
    return mg_str("", 0);
  }
  struct mg_str bytes = mg_str((const char *)in->at, (size_t)len);
  in->at += len;
  return bytes;
}
