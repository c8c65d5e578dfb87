/* mem.c - buffers, pools and arenas of mem.h.
 * Owns: nothing of its own.   May call: libc.   Never: fail silently; allocation failures outside arenas end the
 * process.
 * Thread: any, one per object. */
#include "mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

struct mg_arena_chunk {
  struct mg_arena_chunk *next;
  size_t size; /* of the whole chunk; the pool's block size where it came from there */
};

static void *or_die(void *ptr, size_t size)
{
  if (!ptr && size) {
    fprintf(stderr, "moongate: out of memory (%zu bytes)\n", size);
    abort();
  }
  return ptr;
}

void *mg_alloc(size_t size)
{
  return or_die(malloc(size), size);
}

void *mg_calloc(size_t count, size_t size)
{
  return or_die(calloc(count, size), count * size);
}

/* Before the block stands where the heap's begins: aligned_alloc would leave zeroing to us, page by page. */
void *mg_calloc_lines(size_t size)
{
  char *base = mg_calloc(1, size + MG_CACHE_LINE + sizeof base);
  char *ptr = base + sizeof base;
  ptr += -(uintptr_t)ptr & (MG_CACHE_LINE - 1);
  memcpy(ptr - sizeof base, &base, sizeof base);
  return ptr;
}

void mg_free_lines(void *ptr)
{
  void *base = NULL;
  if (ptr) memcpy(&base, (char *)ptr - sizeof base, sizeof base);
  free(base);
}

void *mg_realloc(void *ptr, size_t size)
{
  return or_die(realloc(ptr, size), size);
}

char *mg_strndup(const char *ptr, size_t len)
{
  char *copy = mg_alloc(len + 1);
  memcpy(copy, ptr, len);
  copy[len] = '\0';
  return copy;
}

bool mg_equal_nocase(const char *a, const char *b, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (mg_lower(a[i]) != mg_lower(b[i])) return false;
  return true;
}

char *mg_buf_reserve(struct mg_buf *buf, size_t len)
{
  if (buf->capacity - buf->len < len) {
    size_t capacity = buf->capacity ? buf->capacity : 256;
    while (capacity - buf->len < len) capacity *= 2;
    buf->ptr = mg_realloc(buf->ptr, capacity);
    buf->capacity = capacity;
  }
  return buf->ptr + buf->len;
}

void mg_buf_append(struct mg_buf *buf, const void *bytes, size_t len)
{
  if (!len) return;
  memcpy(mg_buf_reserve(buf, len), bytes, len);
  buf->len += len;
}

void mg_buf_printf(struct mg_buf *buf, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (len < 0) return;
  char *at = mg_buf_reserve(buf, (size_t)len + 1);
  va_start(args, format);
  vsnprintf(at, (size_t)len + 1, format, args);
  va_end(args);
  buf->len += (size_t)len;
}

void mg_buf_consume(struct mg_buf *buf, size_t len)
{
  MG_ASSERT(len <= buf->len);
  buf->len -= len;
  if (buf->len) memmove(buf->ptr, buf->ptr + len, buf->len);
}

void mg_buf_free(struct mg_buf *buf)
{
  free(buf->ptr);
  *buf = (struct mg_buf){0};
}

void mg_pool_init(struct mg_pool *pool, size_t block_size, unsigned kept_max)
{
  MG_ASSERT(block_size >= sizeof(void *));
  *pool = (struct mg_pool){.block_size = block_size, .kept_max = kept_max};
}

void *mg_pool_get(struct mg_pool *pool)
{
  void *block = pool->free;
  if (!block) return mg_alloc(pool->block_size);
  memcpy(&pool->free, block, sizeof(void *));
  pool->kept--;
  return block;
}

void mg_pool_put(struct mg_pool *pool, void *block)
{
  if (pool->kept >= pool->kept_max) {
    free(block);
    return;
  }
  memcpy(block, &pool->free, sizeof(void *));
  pool->free = block;
  pool->kept++;
}

void mg_pool_destroy(struct mg_pool *pool)
{
  while (pool->free) {
    void *block = pool->free;
    memcpy(&pool->free, block, sizeof(void *));
    free(block);
  }
  pool->kept = 0;
}

void mg_arena_init(struct mg_arena *arena, void *first, size_t first_size, struct mg_pool *pool, size_t taken_max)
{
  *arena = (struct mg_arena){.next = first, .end = (char *)first + first_size, .pool = pool, .taken_max = taken_max};
}

void *mg_arena_grow(struct mg_arena *arena, size_t size)
{
  size_t pooled = arena->pool->block_size - sizeof(struct mg_arena_chunk);
  size_t chunk_size = size <= pooled ? arena->pool->block_size : size + sizeof(struct mg_arena_chunk);
  if (size > arena->taken_max || arena->taken + chunk_size > arena->taken_max) return NULL;
  struct mg_arena_chunk *chunk = size <= pooled ? mg_pool_get(arena->pool) : mg_alloc(chunk_size);
  *chunk = (struct mg_arena_chunk){.next = arena->chunks, .size = chunk_size};
  arena->chunks = chunk;
  arena->taken += chunk_size;
  char *block = (char *)(chunk + 1);
  if (size <= pooled) { /* a large block stands alone; the current chunk keeps what room it has */
    arena->next = block + size;
    arena->end = (char *)chunk + chunk_size;
  }
  return block;
}

void mg_arena_reset(struct mg_arena *arena, void *first, size_t first_size)
{
  while (arena->chunks) {
    struct mg_arena_chunk *chunk = arena->chunks;
    arena->chunks = chunk->next;
    if (chunk->size == arena->pool->block_size)
      mg_pool_put(arena->pool, chunk);
    else
      free(chunk);
  }
  arena->taken = 0;
  arena->next = first;
  arena->end = (char *)first + first_size;
}
