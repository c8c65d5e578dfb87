/* file.h - every system call that the journal makes, behind a table so that specs can break the disk.
 *
 * All return 0 (or a descriptor, or bytes) or -errno. Thread: any; a table is read-only. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Where the journal can be interrupted: named for the specs that kill it at each of them. */
enum mg_point {
  MG_POINT_BATCH_PACKED,
  MG_POINT_TAIL_WRITTEN, /* all of a batch but its first magic */
  MG_POINT_BATCH_PLACED,
  MG_POINT_SLOT_RETIRED,
  MG_POINT_SPARE_RESERVED,
  MG_POINT_SPARE_READY,
  MG_POINT_PREAMBLE_WRITTEN,
  MG_POINT_SEGMENT_NAMED,
  MG_POINT_SEAL_WRITTEN,
  MG_POINT_SEAL_COMMITTED,
  MG_POINT_SEALED_SYNCED,
  MG_POINT_SEALED_NAMED,
  MG_POINT_RECOVERY_SCANNED,
  MG_POINT_RECOVERY_CLEARED,
  MG_POINT_RECOVERY_PLACED,
  MG_POINT_RECOVERY_SEALED,
  MG_POINT_EPOCH_WRITTEN,
  MG_POINT_COUNT
};

struct mg_file_ops {
  int (*open)(const char *path, int flags);
  int (*reserve)(int fd, uint64_t size); /* fallocate: space for all of it, as zeros */
  int (*size)(int fd, uint64_t *size);
  int (*map)(int fd, size_t size, uint8_t **map);
  int (*map_read)(int fd, size_t size, uint8_t **map); /* for reading only */
  void (*unmap)(uint8_t *map, size_t size);
  const _Atomic bool *(*lost)(const uint8_t *map); /* set when a page of it was taken away; until it is unmapped */
  int (*populate)(uint8_t *from, size_t len);      /* pages made present and writable; the fault becomes an error */
  int (*read)(int fd, void *bytes, size_t len, uint64_t offset); /* bytes read, fewer only at the end */
  int (*write)(int fd, const void *bytes, size_t len, uint64_t offset);
  int (*clear)(int fd, uint64_t offset, uint64_t len); /* zeros, without giving up the space */
  int (*truncate)(int fd, uint64_t size);
  int (*sync)(int fd);
  void (*start_writeback)(int fd, uint64_t offset, uint64_t len); /* pacing only */
  void (*forget)(int fd);                                         /* what is on the disk need not be kept in memory */
  int (*rename)(const char *from, const char *to);
  int (*sync_folder)(const char *folder);
  int (*list)(const char *folder, void (*each)(void *context, const char *name), void *context);
  int (*lock)(int fd);     /* -EWOULDBLOCK while another process holds it */
  bool (*may_map)(int fd); /* whether stores into reserved space can never fail on this file system */
  bool (*is_named)(int fd, const char *path); /* whether path leads to the open file; true when that cannot be told */
  void (*close)(int fd);
  void (*point)(enum mg_point point); /* NULL but in specs */
};

extern const struct mg_file_ops mg_file_system;

static inline void mg_file_point(const struct mg_file_ops *ops, enum mg_point point)
{
  if (ops->point) ops->point(point);
}
