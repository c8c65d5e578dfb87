/* file.c - files below a directory.
 * Owns: descriptors, through struct mg_file.   May call: err, mem, libc.   Never: know HTTP, touch libuv.
 * Thread: the loop's, but for mg_file_fetch. */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FETCH_BYTES = 65536 };

static enum mg_file_found why_not(int error)
{
  switch (error) {
  case EACCES:
  case EPERM:
    return MG_FILE_REFUSED;
  case EMFILE:
  case ENFILE:
  case ENOMEM:
  case EIO:
    return MG_FILE_BUSY;
  default:
    return MG_FILE_NONE;
  }
}

/* Segments that mean another place than they say are nobody's file names. */
static bool is_plain(const char *path)
{
  if (path[0] == '/') return false;
  for (const char *at = path;; at++) {
    size_t len = strcspn(at, "/");
    if ((len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.')) return false;
    at += len;
    if (!*at) return true;
    if (at[1] == '/') return false;
  }
}

/* Without openat2 (an old kernel, a container that forbids it): segment by segment, none of them a link. */
static int walk(int base, const char *path, int flags)
{
  int at = base;
  for (;;) {
    const char *slash = strchr(path, '/');
    char name[NAME_MAX + 1];
    size_t len = slash ? (size_t)(slash - path) : strlen(path);
    bool last = !slash || !slash[1];
    int next = -1, error = ENAMETOOLONG;
    if (len <= NAME_MAX) {
      memcpy(name, path, len);
      name[len] = '\0';
      next = openat(at, name, last ? flags | O_NOFOLLOW : O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
      error = errno;
    }
    if (at != base) close(at);
    errno = error;
    if (next < 0 || last) return next;
    at = next;
    path = slash + 1;
  }
}

static int open_below(int base, const char *path, bool follow)
{
  /* Not blocking: a FIFO would wait for who writes to it, and is found out afterwards. */
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  if (!*path) path = ".";
  if (follow) return openat(base, path, flags);
  struct open_how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  long fd = syscall(SYS_openat2, base, path, &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return walk(base, path, flags);
  return (int)fd;
}

/* Opens base and what is below it. The descriptor, or -1 with *found set. */
static int open_path(const char *base, const char *path, bool follow, struct stat *facts, enum mg_file_found *found)
{
  *found = MG_FILE_NONE;
  if (!is_plain(path)) return -1;
  int root = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return *found = why_not(errno), -1;
  if (fstat(root, facts) == 0 && facts->st_nlink == 0) {
    close(root);
    return *found = MG_FILE_GONE, -1;
  }
  int fd = open_below(root, path, follow);
  int error = errno;
  close(root);
  if (fd < 0) return *found = why_not(error), -1;
  if (fstat(fd, facts) < 0) {
    close(fd);
    return *found = MG_FILE_BUSY, -1;
  }
  *found = S_ISREG(facts->st_mode) ? MG_FILE_REGULAR : S_ISDIR(facts->st_mode) ? MG_FILE_DIRECTORY : MG_FILE_NONE;
  return fd;
}

enum mg_file_found mg_file_open(const char *base, const char *path, bool follow, struct mg_file **file)
{
  struct stat facts;
  enum mg_file_found found;
  int fd = open_path(base, path, follow, &facts, &found);
  if (fd < 0) return found;
  size_t len = strlen(path);
  if (found == MG_FILE_REGULAR && len && path[len - 1] == '/') found = MG_FILE_NONE;
  if (found != MG_FILE_REGULAR) {
    close(fd);
    return found;
  }
  *file = mg_alloc(sizeof **file);
  **file = (struct mg_file){.fd = fd,
                            .refs = 1,
                            .size = (uint64_t)facts.st_size,
                            .mtime_ms = (int64_t)facts.st_mtim.tv_sec * 1000 + facts.st_mtim.tv_nsec / 1000000};
  return found;
}

static void add_name(int directory, const struct dirent *entry, bool follow, struct mg_buf *names)
{
  struct stat facts;
  if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strchr(entry->d_name, '\n')) return;
  if (fstatat(directory, entry->d_name, &facts, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0) return;
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return;
  mg_buf_printf(names, "%s%s\n", entry->d_name, S_ISDIR(facts.st_mode) ? "/" : "");
}

enum mg_file_found mg_file_list(const char *base, const char *path, bool follow, struct mg_buf *names)
{
  struct stat facts;
  enum mg_file_found found;
  int fd = open_path(base, path, follow, &facts, &found);
  if (fd < 0) return found;
  DIR *directory = found == MG_FILE_DIRECTORY ? fdopendir(fd) : NULL;
  if (!directory) {
    close(fd);
    return found == MG_FILE_DIRECTORY ? MG_FILE_BUSY : found;
  }
  const struct dirent *entry;
  while ((entry = readdir(directory))) add_name(fd, entry, follow, names);
  closedir(directory);
  return MG_FILE_DIRECTORY;
}

void mg_file_release(struct mg_file **pointer)
{
  struct mg_file *file = *pointer;
  *pointer = NULL;
  if (!file || --file->refs) return;
  close(file->fd);
  free(file);
}

static bool is_byte_near(const struct mg_file *file, uint64_t offset)
{
  char byte;
  struct iovec to = {&byte, 1};
  return preadv2(file->fd, &to, 1, (off_t)offset, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

bool mg_file_is_near(const struct mg_file *file, uint64_t offset, size_t count)
{
  return !count || (is_byte_near(file, offset) && is_byte_near(file, offset + count - 1));
}

void mg_file_fetch(int fd, uint64_t offset, size_t count)
{
  char *bytes = mg_alloc(FETCH_BYTES);
  while (count) {
    ssize_t got = pread(fd, bytes, count < FETCH_BYTES ? count : FETCH_BYTES, (off_t)offset);
    if (got <= 0) break;
    offset += (uint64_t)got;
    count -= (size_t)got;
  }
  free(bytes);
}
