/* output_file.c - files and pipes that outputs write to: a buffer in front of a descriptor.
 * Owns: the descriptor and the buffer.   May call: mem, libc.   Never: lose bytes on a failed write.
 * Thread: one per file. */
#include "output_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT_BYTES = 1 << 20, MODE = 0640, FOLDER_MODE = 0750 };

struct mg_out_file {
  int fd;
  char *path; /* NULL: the standard output */
  uint64_t written;
  struct mg_buf buf;
};

static int lock(int fd)
{
  struct stat facts;
  if (fstat(fd, &facts) != 0) return -errno;
  if (!S_ISREG(facts.st_mode)) return 0; /* a terminal, a pipe, /dev/null */
  return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
}

struct mg_out_file *mg_out_file_open(const char *path, bool fresh, int *error)
{
  int fd = STDOUT_FILENO;
  *error = 0;
  if (path) {
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (fresh ? O_EXCL : 0), MODE);
    if (fd < 0 && errno == ENXIO) fd = open(path, O_WRONLY | O_CLOEXEC);
    *error = fd < 0 ? -errno : lock(fd);
    if (*error != 0) {
      if (fd >= 0) close(fd);
      return NULL;
    }
  }
  struct mg_out_file *file = mg_calloc(1, sizeof *file);
  file->fd = fd;
  file->path = path ? mg_strndup(path, strlen(path)) : NULL;
  off_t end = path ? lseek(fd, 0, SEEK_END) : 0;
  file->written = end > 0 ? (uint64_t)end : 0;
  return file;
}

struct mg_buf *mg_out_file_buffer(struct mg_out_file *file)
{
  return &file->buf;
}

double mg_out_file_size(const struct mg_out_file *file)
{
  return (double)(file->written + file->buf.len);
}

int mg_out_file_push(struct mg_out_file *file)
{
  size_t done = 0;
  int error = 0;
  while (done < file->buf.len && error == 0) {
    ssize_t count = write(file->fd, file->buf.ptr + done, file->buf.len - done);
    if (count > 0)
      done += (size_t)count;
    else if (count < 0 && errno != EINTR)
      error = -errno;
  }
  mg_buf_consume(&file->buf, done);
  file->written += done;
  if (!file->buf.len && file->buf.capacity > KEPT_BYTES) mg_buf_free(&file->buf);
  return error;
}

int mg_out_file_sync(struct mg_out_file *file)
{
  int error = mg_out_file_push(file);
  if (error != 0) return error;
  if (fdatasync(file->fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP) return 0;
  return -errno;
}

int mg_out_file_cut(struct mg_out_file *file, double size)
{
  uint64_t keep = (uint64_t)size;
  if (keep >= file->written) {
    mg_out_shorten(&file->buf, keep - file->written);
    return 0;
  }
  if (ftruncate(file->fd, (off_t)keep) != 0 || lseek(file->fd, (off_t)keep, SEEK_SET) < 0) return -errno;
  file->written = keep;
  file->buf.len = 0;
  return 0;
}

/* A new name is on the disk once its folder is. */
static int sync_folder_of(const char *path)
{
  char *copy = mg_strndup(path, strlen(path));
  int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  free(copy);
  if (fd < 0) return -errno;
  int error = fsync(fd) == 0 || errno == EINVAL ? 0 : -errno;
  close(fd);
  return error;
}

void mg_out_file_drop(struct mg_out_file *file, bool remove)
{
  if (file->path) {
    if (remove) unlink(file->path);
    close(file->fd);
  }
  mg_buf_free(&file->buf);
  free(file->path);
  free(file);
}

int mg_out_file_close(struct mg_out_file *file, const char *name)
{
  int error = mg_out_file_sync(file);
  if (error == 0 && name && rename(file->path, name) != 0) error = -errno;
  if (error == 0 && name) error = sync_folder_of(name);
  if (error == 0) mg_out_file_drop(file, false);
  return error;
}

const char *mg_out_file_map(const struct mg_out_file *file, size_t *len, int *error)
{
  struct stat facts;
  *error = fstat(file->fd, &facts) == 0 ? 0 : -errno;
  *len = *error == 0 ? (size_t)facts.st_size : 0;
  if (!*len) return NULL;
  void *bytes = mmap(NULL, *len, PROT_READ, MAP_PRIVATE, file->fd, 0);
  if (bytes != MAP_FAILED) return bytes;
  *error = -errno;
  return NULL;
}

void mg_out_file_unmap(const char *bytes, size_t len)
{
  munmap((void *)(uintptr_t)bytes, len);
}

int mg_out_folder_make(const char *path)
{
  if (mkdir(path, FOLDER_MODE) != 0 && errno != EEXIST) return -errno;
  return access(path, W_OK | X_OK) == 0 ? 0 : -errno;
}

int mg_out_folder_list(const char *path, struct mg_buf *buf)
{
  DIR *folder = opendir(path);
  if (!folder) return -errno;
  for (const struct dirent *entry; (entry = readdir(folder));)
    mg_buf_append(buf, entry->d_name, strlen(entry->d_name) + 1);
  closedir(folder);
  return 0;
}

const char *mg_out_error(int error)
{
  return strerror(error < 0 ? -error : error);
}
