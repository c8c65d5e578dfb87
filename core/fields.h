/* fields.h - a block of header lines up to its empty line, and what its framing lines say together.
 * Shared by request heads, response heads and trailers; nothing outside the HTTP files includes it. */
#pragma once

#include "headers.h"

/** Parses header lines from the start of bytes to the empty line that ends them; names and values are borrowed.
 * Strict: token names, ':' right behind, no control bytes but TAB, CR LF line ends, no folding.
 * Returns the bytes taken with the empty line, 0 when it is not there yet, or MG_EBADHEADER, MG_EFOLD, MG_ELINEEND,
 * MG_EBADLENGTH, MG_EHEADLARGE (a name beyond 64 KB), MG_EHEADCOUNT, MG_ENOMEM. A fault is found as soon as it can be
 * seen, whole or not. */
long mg_fields_parse(struct mg_headers *headers, const char *bytes, size_t len, uint32_t count_max);

struct mg_fields_summary {
  const struct mg_header *host, *length, *coding, *upgrade; /* the last line of each; NULL where there is none */
  unsigned hosts, lengths, codings, upgrades;               /* how many lines */
  unsigned expects, expects_100;                            /* Expect lines, and those that say 100-continue */
  bool close, keep_alive, connection_upgrade;               /* tokens of any Connection line */
};

void mg_fields_summarise(struct mg_fields_summary *summary, const struct mg_headers *headers);

/** Content-Length as one number below 2^63: digits only, at most 19. */
bool mg_length_parse(struct mg_str text, uint64_t *length);
