/* doorbell.c - the doorbell: a futex in a mapped file.
 * Owns: the mapping.   May call: format, file.   Never: be relied on: whatever it says, the segments decide.
 * Thread: any. */
#include "doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char MAGIC[8] = {'M', 'G', 'J', 'B', 'E', 'L', '\r', '\n'};

static int open_page(const struct mg_file_ops *ops, const char *folder, int flags)
{
  char path[4096];
  if (snprintf(path, sizeof path, "%s/journal.doorbell", folder) >= (int)sizeof path) return -ENAMETOOLONG;
  return ops->open(path, flags);
}

/* Several workers may be at it at once: each writes the same bytes, and none takes back what another has counted. */
static int make(const struct mg_file_ops *ops, int fd)
{
  uint8_t header[16] = {0};
  uint64_t size = 0;
  memcpy(header, MAGIC, sizeof MAGIC);
  mg_put32(header + 8, MG_FORMAT_VERSION);
  int result = ops->size(fd, &size);
  if (result == 0 && size < MG_DOORBELL_BYTES) result = ops->reserve(fd, MG_DOORBELL_BYTES);
  return result == 0 ? ops->write(fd, header, sizeof header, 0) : result;
}

int mg_doorbell_open(struct mg_doorbell *doorbell, const struct mg_file_ops *ops, const char *folder)
{
  *doorbell = (struct mg_doorbell){.ops = ops};
  int fd = open_page(ops, folder, O_RDWR | O_CREAT);
  if (fd < 0) return fd;
  int result = make(ops, fd);
  if (result == 0) result = ops->map(fd, MG_DOORBELL_BYTES, &doorbell->map);
  if (result == 0) result = ops->populate(doorbell->map, MG_DOORBELL_BYTES);
  ops->close(fd);
  if (result != 0) mg_doorbell_close(doorbell);
  return result;
}

int mg_doorbell_watch(struct mg_doorbell *doorbell, const struct mg_file_ops *ops, const char *folder)
{
  uint64_t size = 0;
  *doorbell = (struct mg_doorbell){.ops = ops};
  int fd = open_page(ops, folder, O_RDONLY);
  if (fd < 0) return fd;
  int result = ops->size(fd, &size);
  if (result == 0 && size < MG_DOORBELL_BYTES) result = -EBADMSG;
  if (result == 0) result = ops->map_read(fd, MG_DOORBELL_BYTES, &doorbell->map);
  ops->close(fd);
  if (result == 0 && (memcmp(doorbell->map, MAGIC, 8) != 0 || mg_get32(doorbell->map + 8) != MG_FORMAT_VERSION))
    result = -EBADMSG;
  if (result != 0) mg_doorbell_close(doorbell);
  return result;
}

void mg_doorbell_close(struct mg_doorbell *doorbell)
{
  if (doorbell->map) doorbell->ops->unmap(doorbell->map, MG_DOORBELL_BYTES);
  doorbell->map = NULL;
}

static _Atomic uint32_t *count_of(const struct mg_doorbell *doorbell)
{
  return (_Atomic uint32_t *)(doorbell->map + MG_DOORBELL_COUNT_AT);
}

void mg_doorbell_tell(struct mg_doorbell *doorbell, unsigned shard, const struct mg_doorbell_line *line)
{
  if (!doorbell->map || shard >= MG_DOORBELL_SHARDS) return;
  uint8_t *at = doorbell->map + MG_DOORBELL_LINES_AT + (size_t)shard * MG_DOORBELL_LINE_BYTES;
  atomic_store_explicit((_Atomic uint32_t *)at, line->epoch, memory_order_relaxed);
  atomic_store_explicit((_Atomic uint64_t *)(at + 8), line->segment, memory_order_relaxed);
  atomic_store_explicit((_Atomic uint64_t *)(at + 16), line->last_lsn, memory_order_relaxed);
  atomic_fetch_add_explicit(count_of(doorbell), 1, memory_order_release);
  syscall(SYS_futex, count_of(doorbell), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t mg_doorbell_count(const struct mg_doorbell *doorbell)
{
  return doorbell->map ? atomic_load_explicit(count_of(doorbell), memory_order_acquire) : 0;
}

struct mg_doorbell_line mg_doorbell_line(const struct mg_doorbell *doorbell, unsigned shard)
{
  if (!doorbell->map || shard >= MG_DOORBELL_SHARDS) return (struct mg_doorbell_line){0};
  const uint8_t *at = doorbell->map + MG_DOORBELL_LINES_AT + (size_t)shard * MG_DOORBELL_LINE_BYTES;
  return (struct mg_doorbell_line){
      .epoch = atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_relaxed),
      .segment = atomic_load_explicit((const _Atomic uint64_t *)(at + 8), memory_order_relaxed),
      .last_lsn = atomic_load_explicit((const _Atomic uint64_t *)(at + 16), memory_order_relaxed)};
}

void mg_doorbell_wait(const struct mg_doorbell *doorbell, uint32_t seen, unsigned milliseconds)
{
  struct timespec limit = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  if (doorbell->map)
    syscall(SYS_futex, count_of(doorbell), FUTEX_WAIT, seen, &limit, NULL, 0);
  else
    nanosleep(&limit, NULL);
}
