/* mem.h - bytes and who owns them: borrowed text, owned buffers, arenas, recycled blocks.
 *
 * Three words are used for ownership everywhere: a function *borrows* what it only reads during the call,
 * *copies* what it keeps, *takes* what it frees from then on.
 * Thread: every object belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Borrowed bytes, not NUL-terminated. Whoever hands one out says how long it lives. */
struct mg_str {
  const char *ptr;
  size_t len;
};

#define MG_STR(literal) ((struct mg_str){(literal), sizeof(literal) - 1})

static inline struct mg_str mg_str(const char *ptr, size_t len)
{
  return (struct mg_str){ptr, len};
}

/** Where text that pointed into len bytes at `from` is in their copy at `to`; text from elsewhere stays. */
static inline const char *mg_moved(const char *text, const char *from, size_t len, const char *to)
{
  return (uintptr_t)text - (uintptr_t)from <= len ? to + (text - from) : text;
}

static inline bool mg_str_equal(struct mg_str a, struct mg_str b)
{
  return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/** ASCII case-insensitive comparison of two byte ranges of the same length. */
bool mg_equal_nocase(const char *a, const char *b, size_t len);

static inline bool mg_str_equal_nocase(struct mg_str a, struct mg_str b)
{
  return a.len == b.len && mg_equal_nocase(a.ptr, b.ptr, a.len);
}

static inline char mg_lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/** malloc or die: running out of memory outside an arena ends the process with a message. */
void *mg_alloc(size_t size);
void *mg_calloc(size_t count, size_t size);
void *mg_realloc(void *ptr, size_t size);

enum { MG_CACHE_LINE = 64 };
/** size bytes of zeroes that begin a line of the cache; of a large block only what is used takes memory. */
void *mg_calloc_lines(size_t size);
/** Frees what mg_calloc_lines gave; NULL is allowed. */
void mg_free_lines(void *ptr);

/** Copies len bytes and a NUL; the caller frees it. */
char *mg_strndup(const char *ptr, size_t len);

/** A growing buffer that owns its bytes; zero-initialised is empty. */
struct mg_buf {
  char *ptr;
  size_t len;
  size_t capacity;
};

/** Makes room for len more bytes and returns where they go; the caller adds to buf->len itself. */
char *mg_buf_reserve(struct mg_buf *buf, size_t len);
void mg_buf_append(struct mg_buf *buf, const void *bytes, size_t len);
__attribute__((format(printf, 2, 3))) void mg_buf_printf(struct mg_buf *buf, const char *format, ...);
/** Drops the first len bytes. */
void mg_buf_consume(struct mg_buf *buf, size_t len);
void mg_buf_free(struct mg_buf *buf);

/** Recycled blocks of one size. At most kept_max free ones are kept, the rest go back to malloc. */
struct mg_pool {
  void *free;
  size_t block_size;
  unsigned kept;
  unsigned kept_max;
};

void mg_pool_init(struct mg_pool *pool, size_t block_size, unsigned kept_max);
/** A block of pool->block_size bytes, not cleared. Never NULL. */
void *mg_pool_get(struct mg_pool *pool);
void mg_pool_put(struct mg_pool *pool, void *block);
void mg_pool_destroy(struct mg_pool *pool);

/** A bump allocator for one exchange. Its first bytes are lent by the owner; further chunks come from a pool.
 * Nothing is freed singly; mg_arena_reset gives everything back. */
struct mg_arena {
  char *next;
  char *end;
  struct mg_arena_chunk *chunks;
  struct mg_pool *pool;
  size_t taken;     /* bytes in chunks beyond the first */
  size_t taken_max; /* a request beyond it fails */
};

void mg_arena_init(struct mg_arena *arena, void *first, size_t first_size, struct mg_pool *pool, size_t taken_max);
void *mg_arena_grow(struct mg_arena *arena, size_t size); /* internal: the slow path of mg_arena_alloc */

/** size bytes, aligned to 8, or NULL once the arena's limit is reached. Lives until mg_arena_reset. */
static inline void *mg_arena_alloc(struct mg_arena *arena, size_t size)
{
  size = (size + 7) & ~(size_t)7;
  if ((size_t)(arena->end - arena->next) < size) return mg_arena_grow(arena, size);
  void *block = arena->next;
  arena->next += size;
  return block;
}

/** Copies bytes into the arena; NULL when it is full. */
static inline char *mg_arena_copy(struct mg_arena *arena, const char *bytes, size_t len)
{
  char *copy = mg_arena_alloc(arena, len + (len == 0));
  if (copy) memcpy(copy, bytes, len);
  return copy;
}

/** Gives all chunks back; the first bytes are used again from their start. */
void mg_arena_reset(struct mg_arena *arena, void *first, size_t first_size);
