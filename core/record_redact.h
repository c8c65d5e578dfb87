/* record_redact.h - what may stand in the journal as it is, and what stands for the rest: keyed fingerprints.
 *
 * Header values and query values are verbatim only on the safe lists; else "fp:" and 11 characters, the first 8
 * bytes of
 * HMAC-SHA-256(key, value) in base64url. Thread: one per redactor. */
#pragma once

#include "settings.h"

struct mg_redactor;

enum { MG_FINGERPRINT_LEN = 14 };

/** The key: MOONGATE_FINGERPRINT_KEY, the setting, or folder/fingerprint.key, which is made (0600) if there is none.
 * NULL with a sentence in error. */
struct mg_redactor *mg_redactor_open(const struct mg_settings *settings, const char *folder, struct mg_buf *error);
/** A number that tells its key from others, and nothing about it. Never 0. */
uint64_t mg_redactor_key_mark(const struct mg_redactor *redactor);
void mg_redactor_close(struct mg_redactor **redactor);

/** "fp:..." of value. */
void mg_fingerprint(struct mg_redactor *redactor, struct mg_str value, char out[MG_FINGERPRINT_LEN]);

/** A header line "Name: value" of a request (side 0) or response (1); out has room for len + MG_FINGERPRINT_LEN.
 * Returns its length. */
size_t mg_redact_header(struct mg_redactor *redactor, unsigned side, struct mg_str line, char *out);

/** An upper bound of what mg_redact_request_line writes. */
size_t mg_redact_line_bound(struct mg_str line);
/** "METHOD target HTTP/1.1". Returns its length. */
size_t mg_redact_request_line(struct mg_redactor *redactor, struct mg_str line, char *out);
