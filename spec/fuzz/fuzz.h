/* fuzz.h - what the fuzz targets share. A target defines fuzz_one; with -DMG_FUZZ and -fsanitize=fuzzer libFuzzer calls
 * it, otherwise a main replays the files (and the files of the folders) that it is given. */
#pragma once

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http1.h"

/* Holds, or the input is a find. */
#define MUST(condition)                                                             \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      abort();                                                                      \
    }                                                                               \
  } while (0)

static void fuzz_one(const uint8_t *bytes, size_t len);

/* An arena with the lists of one message. */
struct fuzz_arena {
  struct mg_pool pool;
  struct mg_arena arena;
  char first[512];
};

static inline void fuzz_arena_start(struct fuzz_arena *a)
{
  mg_pool_init(&a->pool, 16384, 4);
  mg_arena_init(&a->arena, a->first, sizeof a->first, &a->pool, 1 << 20);
}

static inline void fuzz_arena_end(struct fuzz_arena *a)
{
  mg_arena_reset(&a->arena, a->first, sizeof a->first);
  mg_pool_destroy(&a->pool);
}

/* A copy that ends where the bytes end, so that AddressSanitizer sees a read behind them. The caller frees it. */
static inline char *fuzz_copy(const void *bytes, size_t len)
{
  char *copy = malloc(len ? len : 1);
  if (!copy) abort();
  if (len) memcpy(copy, bytes, len);
  return copy;
}

/* Every line lies inside the bytes it was parsed from, and is one that may go out. */
static inline void fuzz_check_lines(const struct mg_headers *headers, const char *bytes, size_t len)
{
  for (unsigned i = 0; i < headers->count; i++) {
    const struct mg_header *line = &headers->items[i];
    MUST(line->name >= bytes && line->name + line->name_len < bytes + len);
    MUST(line->value >= line->name + line->name_len && line->value + line->value_len <= bytes + len);
    MUST(mg_token_ok(mg_str(line->name, line->name_len)));
    MUST(mg_header_value_ok(mg_str(line->value, line->value_len)));
    MUST(line->id == mg_header_id(line->name, line->name_len));
    if (line->flags & MG_HEADER_RAW)
      MUST(memcmp(line->name + line->name_len, ": ", 2) == 0 && memcmp(line->value + line->value_len, "\r\n", 2) == 0);
  }
}

#ifdef MG_FUZZ

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
  fuzz_one(bytes, len);
  return 0;
}

#else

static inline void replay_file(const char *path)
{
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  static char bytes[1 << 20];
  size_t len = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  char *copy = fuzz_copy(bytes, len);
  fuzz_one((const uint8_t *)copy, len);
  free(copy);
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    if (!folder) {
      replay_file(argv[i]);
      continue;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
      char path[4096];
      if (entry->d_name[0] == '.') continue;
      snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
      replay_file(path);
    }
    closedir(folder);
  }
  return 0;
}

#endif
