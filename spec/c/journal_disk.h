/* journal_disk.h - a disk that forgets: real files in a folder, and beside each what a power cut would leave of it.
 *
 * What was synced is there. Of everything else, each page of 4 KB that was stored into since its file's last sync is
 * there or not, and so is a file's size; of the names that were given since the folder's last sync, the first few are
 * there. A crash makes a folder that is one of the states which may be found afterwards. Files that lost their name
 * are kept until then, for their name may come back. */
#pragma once

#include <pthread.h>

#include "journal_support.h"

enum { DISK_FILES = 256, DISK_NAMES = 64, DISK_TABLES = 512, DISK_PAGE = 4096, DISK_SECTOR = 512 };

struct disk_file {
  ino_t inode;
  int fd;          /* keeps it when it has no name */
  uint8_t *synced; /* its bytes as of the last sync */
  size_t synced_len;
};

struct disk_table {
  unsigned count;
  struct {
    char name[64];
    unsigned file;
  } names[DISK_NAMES];
};

struct disk {
  char folder[256];
  pthread_mutex_t mutex;
  struct disk_file files[DISK_FILES];
  unsigned file_count;
  struct disk_table tables[DISK_TABLES]; /* the folder after each change of names */
  unsigned table_count, durable_table;
};

/* Which of what was not synced a power cut keeps. */
enum disk_loss {
  LOSE_PAGES,     /* each page by chance */
  LOSE_SECTORS,   /* each 512 bytes by chance */
  LOSE_THE_END,   /* the pages behind some point of each file */
  LOSE_THE_START, /* ... before it */
  LOSE_THE_STAGE, /* all that the stage got */
  LOSE_THE_REST,  /* all but that */
  LOSE_EVERYTHING,
  LOSE_NAMES, /* only names */
  DISK_LOSSES
};

static struct disk *disk; /* the one that the table works on */

static inline struct disk_file *disk_file_of(int fd)
{
  struct stat status;
  CHECK_INT(fstat(fd, &status), 0);
  for (unsigned i = 0; i < disk->file_count; i++)
    if (disk->files[i].inode == status.st_ino) return &disk->files[i];
  CHECK(disk->file_count < DISK_FILES);
  struct disk_file *file = &disk->files[disk->file_count++];
  *file = (struct disk_file){.inode = status.st_ino, .fd = dup(fd)};
  return file;
}

static inline uint8_t *disk_bytes(int fd, size_t *len)
{
  struct stat status;
  CHECK_INT(fstat(fd, &status), 0);
  *len = (size_t)status.st_size;
  uint8_t *bytes = malloc(*len + 1);
  CHECK_INT(pread(fd, bytes, *len, 0), *len);
  return bytes;
}

static inline const char *disk_name(const char *path)
{
  return strrchr(path, '/') + 1;
}

/* A further state of the folder, in which name leads to file; from (or NULL) leads nowhere any more. */
static inline void disk_rename(const char *from, const char *name, unsigned file)
{
  CHECK(disk->table_count < DISK_TABLES);
  struct disk_table *next = &disk->tables[disk->table_count];
  *next = disk->tables[disk->table_count - 1];
  disk->table_count++;
  for (unsigned i = 0; i < next->count;)
    if ((from && strcmp(next->names[i].name, from) == 0) || strcmp(next->names[i].name, name) == 0)
      next->names[i] = next->names[--next->count];
    else
      i++;
  CHECK(next->count < DISK_NAMES);
  snprintf(next->names[next->count].name, 64, "%s", name);
  next->names[next->count++].file = file;
}

static inline int disk_open(const char *path, int flags)
{
  pthread_mutex_lock(&disk->mutex);
  bool new = access(path, F_OK) != 0;
  int fd = mg_file_system.open(path, flags);
  if (fd >= 0 && (flags & O_CREAT)) {
    unsigned file = (unsigned)(disk_file_of(fd) - disk->files);
    if (new) disk_rename(NULL, disk_name(path), file);
  }
  pthread_mutex_unlock(&disk->mutex);
  return fd;
}

static inline int disk_sync(int fd)
{
  pthread_mutex_lock(&disk->mutex);
  struct disk_file *file = disk_file_of(fd);
  free(file->synced);
  file->synced = disk_bytes(fd, &file->synced_len);
  pthread_mutex_unlock(&disk->mutex);
  return 0;
}

static inline int disk_move(const char *from, const char *to)
{
  pthread_mutex_lock(&disk->mutex);
  const struct disk_table *now = &disk->tables[disk->table_count - 1];
  int result = mg_file_system.rename(from, to);
  for (unsigned i = 0; result == 0 && i < now->count; i++)
    if (strcmp(now->names[i].name, disk_name(from)) == 0) {
      disk_rename(disk_name(from), disk_name(to), now->names[i].file);
      break;
    }
  pthread_mutex_unlock(&disk->mutex);
  return result;
}

static inline int disk_sync_folder(const char *folder)
{
  (void)folder;
  pthread_mutex_lock(&disk->mutex);
  disk->durable_table = disk->table_count - 1;
  pthread_mutex_unlock(&disk->mutex);
  return 0;
}

static inline struct mg_file_ops disk_ops(void)
{
  struct mg_file_ops ops = mg_file_system;
  ops.open = disk_open;
  ops.sync = disk_sync;
  ops.rename = disk_move;
  ops.sync_folder = disk_sync_folder;
  return ops;
}

/* Takes a folder, all of which is on the disk, and is the disk from now on. */
static inline struct disk *disk_start(const char *folder)
{
  disk = calloc(1, sizeof *disk);
  snprintf(disk->folder, sizeof disk->folder, "%s", folder);
  pthread_mutex_init(&disk->mutex, NULL);
  disk->table_count = 1;
  DIR *entries = opendir(folder);
  for (struct dirent *entry; (entry = readdir(entries));) {
    char path[600];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct disk_file *file = disk_file_of(fd);
    file->synced = disk_bytes(fd, &file->synced_len);
    disk_rename(NULL, entry->d_name, (unsigned)(file - disk->files));
    disk->tables[0] = disk->tables[1];
    disk->table_count = 1;
    close(fd);
  }
  closedir(entries);
  return disk;
}

static inline void disk_end(struct disk *old)
{
  for (unsigned i = 0; i < old->file_count; i++) {
    close(old->files[i].fd);
    free(old->files[i].synced);
  }
  pthread_mutex_destroy(&old->mutex);
  remove_folder(old->folder);
  free(old);
  if (disk == old) disk = NULL;
}

static inline uint64_t disk_random(uint64_t *state)
{
  *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
  return *state;
}

/* What is left of one file, as a file at path. */
static inline void disk_leave(struct disk_file *file, const char *path, enum disk_loss loss, bool is_stage,
                              uint64_t *random)
{
  size_t len, unit = loss == LOSE_SECTORS ? DISK_SECTOR : DISK_PAGE;
  uint8_t *bytes = disk_bytes(file->fd, &len);
  bool keeps_all = loss == LOSE_NAMES || (loss == LOSE_THE_STAGE && !is_stage) || (loss == LOSE_THE_REST && is_stage);
  bool loses_all =
      loss == LOSE_EVERYTHING || (loss == LOSE_THE_STAGE && is_stage) || (loss == LOSE_THE_REST && !is_stage);
  size_t border = len ? (size_t)(disk_random(random) % len) : 0;
  for (size_t at = 0; at < len && !keeps_all; at += unit) {
    size_t part = len - at < unit ? len - at : unit;
    bool keep = loss == LOSE_THE_END     ? at < border
                : loss == LOSE_THE_START ? at >= border
                                         : disk_random(random) >> 40 & 1;
    if (keep && !loses_all) continue;
    size_t there = at >= file->synced_len ? 0 : file->synced_len - at < part ? file->synced_len - at : part;
    memset(bytes + at, 0, part);
    if (there) memcpy(bytes + at, file->synced + at, there);
  }
  if (!keeps_all && file->synced_len != len && (loses_all || disk_random(random) >> 40 & 1)) {
    size_t before = file->synced_len;
    bytes = realloc(bytes, before + 1);
    if (before > len) memcpy(bytes + len, file->synced + len, before - len);
    len = before;
  }
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK_INT(write(fd, bytes, len), len);
  close(fd);
  free(bytes);
}

/* The power goes: folder gets one of the states that may be left. Nothing may be stored meanwhile. */
static inline void disk_crash(char folder[256], enum disk_loss loss, uint64_t *random)
{
  pthread_mutex_lock(&disk->mutex);
  unsigned names = disk->table_count - disk->durable_table;
  const struct disk_table *table = &disk->tables[disk->durable_table + disk_random(random) % names];
  if (loss == LOSE_EVERYTHING) table = &disk->tables[disk->durable_table];
  fresh_folder(folder, "/dev/shm");
  for (unsigned i = 0; i < table->count; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, table->names[i].name);
    disk_leave(&disk->files[table->names[i].file], path, loss, strstr(path, ".stage") != NULL, random);
  }
  pthread_mutex_unlock(&disk->mutex);
}
