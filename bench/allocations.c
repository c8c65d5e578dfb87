/* allocations.c - preloaded into a gateway, counts its heap allocations: all processes add to one number in a file.
 *
 *   LD_PRELOAD=libmoongate-allocations.so MOONGATE_ALLOCATIONS=FILE moongate run ...
 *
 * FILE holds eight bytes, a little-endian count that grows by one with each malloc, calloc and realloc. Without the
 * variable nothing is counted.
 * Owns: the mapping of that file.   May call: libc.   Never: allocate.   Thread: any. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t nowhere;
static _Atomic uint64_t *counter = &nowhere;

/* What glibc itself exports for those who stand in front of it. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);

__attribute__((constructor)) static void map_counter(void)
{
  const char *path = getenv("MOONGATE_ALLOCATIONS");
  int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (fd < 0) return;
  void *map = ftruncate(fd, sizeof *counter) ? MAP_FAILED
                                             : mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map != MAP_FAILED) counter = map;
}

static void count_one(void)
{
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
  count_one();
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
  count_one();
  return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
  count_one();
  return __libc_realloc(block, size);
}
