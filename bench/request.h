/* request.h - the request that a workload sends: a text file with places that differ from request to request.
 *
 * The file is a request as HTTP writes it, with LF line ends: request line, header lines, an empty line, the body
 * (without the file's last newline). Host and Content-Length are added where they are missing. Places:
 *   {n}    the request's number, ten digits          {n%M}  7 n modulo M, in the head only, as long as it is
 *   {x}    sixteen hexadecimal digits, different in every place and every request
 * Thread: one per request. */
#pragma once

#include "mem.h"

struct bench_piece {
  uint32_t at, len; /* text before the place */
  char kind;        /* 'n', 'm', 'x', or 0: the end */
  uint64_t modulus;
};

struct bench_request {
  struct mg_buf text; /* the whole template, as it goes out */
  struct bench_piece *pieces;
  unsigned piece_count;
  int method_id; /* enum mg_method */
};

/** Reads the template at path for host ("127.0.0.1:80"). False with a sentence in error. */
bool bench_request_read(struct bench_request *request, const char *path, const char *host, struct mg_buf *error);

/** The bytes of request number n: borrowed from request or from scratch until the next call. */
struct mg_str bench_request_write(const struct bench_request *request, uint64_t n, struct mg_buf *scratch);

void bench_request_free(struct bench_request *request);
