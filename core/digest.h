/* digest.h - SHA-256 and base64.   Pure. Thread: any. */
#pragma once

#include "mem.h"

enum { MG_SHA256_SIZE = 32 };

void mg_sha256(struct mg_str bytes, unsigned char out[MG_SHA256_SIZE]);

/** The bound for len bytes, the NUL included. */
#define MG_BASE64_SIZE(len) (((len) + 2) / 3 * 4 + 1)
/** Writes base64 with padding (RFC 4648, 4) and a NUL. */
void mg_base64(const unsigned char *bytes, size_t len, char *out);
/** Decodes base64 with padding; false when text is none or does not fit size bytes. */
bool mg_base64_decode(struct mg_str text, char *out, size_t size, size_t *len);
