/* file.h - files that are sent as bodies: opened below a directory without leaving it, shared by who reads them.
 *
 * Every call is of the kind that the page cache or the directory cache answers. Thread: the loop's, but for
 * mg_file_fetch. */
#pragma once

#include "err.h"
#include "mem.h"

/** An open regular file. */
struct mg_file {
  int fd;
  unsigned refs;
  uint64_t size;    /* when it was opened */
  int64_t mtime_ms; /* since 1970 */
};

enum mg_file_found {
  MG_FILE_REGULAR,
  MG_FILE_DIRECTORY,
  MG_FILE_NONE,    /* or of a kind that is never sent, or behind a link that is not followed */
  MG_FILE_REFUSED, /* by its permissions */
  MG_FILE_GONE,    /* the directory that all are below of has been unlinked under a mount */
  MG_FILE_BUSY     /* no descriptor left, or the disk failed */
};

/** Opens path, relative and without "." or ".." segments, below the directory base, which may itself be a link. Other
 * links are followed only with follow, and then may lead anywhere. *file is set for MG_FILE_REGULAR alone. */
enum mg_file_found mg_file_open(const char *base, const char *path, bool follow, struct mg_file **file);

/** Appends the names in a directory to names, one per line, those of directories with a "/" behind; what mg_file_open
 * would not find is left out. Result as of mg_file_open. */
enum mg_file_found mg_file_list(const char *base, const char *path, bool follow, struct mg_buf *names);

/** Lets go of a file; it is closed with its last reference. */
void mg_file_release(struct mg_file **file);

/** True if the bytes can be had without waiting for a disk, as far as a look at both ends tells. */
bool mg_file_is_near(const struct mg_file *file, uint64_t offset, size_t count);

/** Reads the bytes so that they are near. Any thread. */
void mg_file_fetch(int fd, uint64_t offset, size_t count);
