/* chunked.c - chunked bodies: the same outcome and the same bytes however the reads fall. */
#include "fuzz.h"

struct outcome {
  int err;
  bool last;
  size_t body_len;
  size_t consumed;
  size_t trailers;
  char *body;
};

/* Decodes in reads of at most step bytes. */
static struct outcome decode(const uint8_t *bytes, size_t len, size_t step)
{
  struct fuzz_arena a;
  struct mg_headers trailers;
  struct mg_body_decoder decoder;
  struct outcome outcome = {.body = fuzz_copy(bytes, len)};
  fuzz_arena_start(&a);
  mg_headers_init(&trailers, &a.arena);
  MUST(mg_body_start(&decoder, MG_FRAMING_CHUNKED, 0, &a.arena, &trailers) == 0);
  for (size_t at = 0; at < len && !outcome.err && !outcome.last;) {
    size_t size = len - at < step ? len - at : step;
    char *copy = fuzz_copy(bytes + at, size);
    struct mg_body_piece piece;
    outcome.err = mg_body_decode(&decoder, copy, size, &piece);
    MUST(piece.data == copy && piece.len <= piece.consumed && piece.consumed <= size);
    MUST(outcome.err || piece.last || piece.consumed == size);
    memcpy(outcome.body + outcome.body_len, piece.data, piece.len);
    outcome.body_len += piece.len;
    outcome.consumed += piece.consumed;
    outcome.last = piece.last;
    at += size;
    free(copy);
  }
  MUST(decoder.done == outcome.last);
  MUST((mg_body_end(&decoder) == 0) == outcome.last);
  MUST(decoder.body_size == outcome.body_len);
  outcome.trailers = trailers.count;
  fuzz_arena_end(&a);
  return outcome;
}

static void fuzz_one(const uint8_t *bytes, size_t len)
{
  struct outcome whole = decode(bytes, len, len ? len : 1);
  MUST(whole.err == 0 || whole.err == MG_EBADCHUNK || whole.err == MG_EBADTRAILER);
  for (size_t step = 1; step <= 7; step += 3) {
    struct outcome torn = decode(bytes, len, step);
    MUST(torn.err == whole.err && torn.last == whole.last && torn.trailers == whole.trailers);
    MUST(torn.body_len == whole.body_len && memcmp(torn.body, whole.body, whole.body_len) == 0);
    MUST(torn.consumed == whole.consumed);
    free(torn.body);
  }
  free(whole.body);
}
