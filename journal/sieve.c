/* sieve.c - trials of bodies.
 * Owns: a compressor and what was tried last of each kind.   May call: zstd.   Never: keep a body from being
 * recorded: it only says how.   Thread: one per sieve. */
#include "sieve.h"

#include <stdlib.h>
#include <zstd.h>

enum {
  KINDS = 32,
  BYTES_MIN = 512,   /* less is not worth the question */
  BYTES_MAX = 4096,  /* of a body that is tried */
  KEPT_PERCENT = 45, /* more than this left of it: not worth it. What has no repetition but only few different letters,
                        as numbers and words have, comes to half, and takes longest */
  PERIOD_MIN = 4,
  PERIOD_MAX = 256 /* bodies between two trials, once several have agreed */
};

struct kind {
  uint64_t key;
  unsigned left, period; /* until the next trial, and from one to the next */
  bool apart;
  size_t len;
  char last[BYTES_MAX];
};

struct mg_sieve {
  ZSTD_CCtx *zstd;
  struct kind kinds[KINDS];
  char out[2 * BYTES_MAX];
};

struct mg_sieve *mg_sieve_new(int level)
{
  struct mg_sieve *sieve = mg_calloc(1, sizeof *sieve);
  sieve->zstd = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(sieve->zstd, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(sieve->zstd, ZSTD_c_windowLog, 14); /* small tables: a trial begins with clearing them */
  return sieve;
}

void mg_sieve_free(struct mg_sieve **pointer)
{
  struct mg_sieve *sieve = *pointer;
  *pointer = NULL;
  if (!sieve) return;
  ZSTD_freeCCtx(sieve->zstd);
  free(sieve);
}

static bool try(struct mg_sieve *sieve, struct kind *kind, struct mg_str bytes)
{
  size_t len = bytes.len < BYTES_MAX ? bytes.len : BYTES_MAX;
  ZSTD_CCtx_refPrefix(sieve->zstd, kind->last, kind->len);
  size_t result = ZSTD_compress2(sieve->zstd, sieve->out, sizeof sieve->out, bytes.ptr, len);
  memcpy(kind->last, bytes.ptr, len);
  kind->len = len;
  return ZSTD_isError(result) || result * 100 > len * KEPT_PERCENT;
}

bool mg_sieve_keeps_apart(struct mg_sieve *sieve, uint64_t key, struct mg_str bytes)
{
  struct kind *kind = &sieve->kinds[(key * 0x9e3779b97f4a7c15u) >> 59];
  if (bytes.len < BYTES_MIN) return false;
  if (kind->key != key) {
    kind->key = key;
    kind->left = kind->period = 0;
    kind->len = 0;
  }
  if (kind->left) return kind->left--, kind->apart;
  bool apart = try(sieve, kind, bytes);
  bool agrees = kind->period && apart == kind->apart;
  kind->period = !agrees ? PERIOD_MIN : kind->period < PERIOD_MAX ? 2 * kind->period : PERIOD_MAX;
  kind->left = kind->period;
  return kind->apart = apart;
}
