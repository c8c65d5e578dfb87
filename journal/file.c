/* file.c - the operating system's files.
 * Owns: nothing.   May call: libc, mapping.   Never: interpret a byte.   Thread: any. */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "mapping.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

static int file_open(const char *path, int flags)
{
  int fd = open(path, flags | O_CLOEXEC, 0600);
  return fd < 0 ? -errno : fd;
}

static int file_reserve(int fd, uint64_t size)
{
  /* Not posix_fallocate: glibc's emulation writes every block, which proves nothing where the call is not supported. */
  while (fallocate(fd, 0, 0, (off_t)size) != 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP) return -errno;
    return ftruncate(fd, (off_t)size) == 0 ? 0 : -errno;
  }
  return 0;
}

static int file_size(int fd, uint64_t *size)
{
  struct stat status;
  if (fstat(fd, &status) != 0) return -errno;
  *size = (uint64_t)status.st_size;
  return 0;
}

static int file_map(int fd, size_t size, uint8_t **map)
{
  return mg_mapping_make(fd, size, PROT_READ | PROT_WRITE, map);
}

static int file_map_read(int fd, size_t size, uint8_t **map)
{
  return mg_mapping_make(fd, size, PROT_READ, map);
}

static void file_unmap(uint8_t *map, size_t size)
{
  mg_mapping_end(map, size);
}

static const _Atomic bool *file_lost(const uint8_t *map)
{
  return mg_mapping_lost(map);
}

static int file_populate(uint8_t *from, size_t len)
{
  while (madvise(from, len, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR) continue;
    return errno == EINVAL ? 0 : -errno; /* EINVAL: before Linux 5.14; the pages come when they are touched */
  }
  return 0;
}

static int file_read(int fd, void *bytes, size_t len, uint64_t offset)
{
  size_t done = 0;
  while (done < len) {
    ssize_t count = pread(fd, (char *)bytes + done, len - done, (off_t)(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -errno;
    if (count == 0) break;
    done += (size_t)count;
  }
  return (int)done;
}

static int file_write(int fd, const void *bytes, size_t len, uint64_t offset)
{
  size_t done = 0;
  while (done < len) {
    ssize_t count = pwrite(fd, (const char *)bytes + done, len - done, (off_t)(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -errno;
    done += (size_t)count;
  }
  return 0;
}

static int file_clear(int fd, uint64_t offset, uint64_t len)
{
  static const uint8_t zeros[65536];
  if (fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)len) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != EINTR) return -errno;
  for (uint64_t at = 0; at < len; at += sizeof zeros) {
    int result = file_write(fd, zeros, len - at < sizeof zeros ? (size_t)(len - at) : sizeof zeros, offset + at);
    if (result != 0) return result;
  }
  return 0;
}

static int file_truncate(int fd, uint64_t size)
{
  return ftruncate(fd, (off_t)size) == 0 ? 0 : -errno;
}

static int file_sync(int fd)
{
  return fdatasync(fd) == 0 ? 0 : -errno;
}

static void file_start_writeback(int fd, uint64_t offset, uint64_t len)
{
  sync_file_range(fd, (off_t)offset, (off_t)len, SYNC_FILE_RANGE_WRITE);
}

static void file_forget(int fd)
{
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int file_rename(const char *from, const char *to)
{
  return rename(from, to) == 0 ? 0 : -errno;
}

static int file_sync_folder(const char *folder)
{
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  int result = fsync(fd) == 0 ? 0 : -errno;
  close(fd);
  return result;
}

static int file_list(const char *folder, void (*each)(void *context, const char *name), void *context)
{
  DIR *entries = opendir(folder);
  if (!entries) return -errno;
  for (struct dirent *entry; (entry = readdir(entries));) each(context, entry->d_name);
  closedir(entries);
  return 0;
}

static int file_lock(int fd)
{
  return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
}

static bool file_may_map(int fd)
{
  struct statfs status;
  if (fstatfs(fd, &status) != 0) return false;
  switch ((unsigned long)status.f_type) {
  case EXT4_SUPER_MAGIC:
  case XFS_SUPER_MAGIC:
  case TMPFS_MAGIC:
    return true;
  default:
    return false; /* copy on write and the unknown: a store may still need a block that there is not */
  }
}

static bool file_is_named(int fd, const char *path)
{
  struct stat open_file, named;
  if (fstat(fd, &open_file) != 0) return true;
  if (stat(path, &named) != 0) return errno != ENOENT && errno != ENOTDIR;
  return open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

static void file_close(int fd)
{
  close(fd);
}

const struct mg_file_ops mg_file_system = {.open = file_open,
                                           .reserve = file_reserve,
                                           .size = file_size,
                                           .map = file_map,
                                           .map_read = file_map_read,
                                           .unmap = file_unmap,
                                           .lost = file_lost,
                                           .populate = file_populate,
                                           .read = file_read,
                                           .write = file_write,
                                           .clear = file_clear,
                                           .truncate = file_truncate,
                                           .sync = file_sync,
                                           .start_writeback = file_start_writeback,
                                           .forget = file_forget,
                                           .rename = file_rename,
                                           .sync_folder = file_sync_folder,
                                           .list = file_list,
                                           .lock = file_lock,
                                           .may_map = file_may_map,
                                           .is_named = file_is_named,
                                           .close = file_close};
