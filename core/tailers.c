/* tailers.c - a tailer's own words, read.
 * Owns: nothing.   May call: libc.   Never: trust a file: it is bounded and may say anything.   Thread: any. */
#include "tailers.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 65536, PATH_BYTES = 512 };

/* Opened without waiting, so that a pipe in its place holds nobody up. */
static int open_file(const char *path)
{
  char file[PATH_BYTES];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat facts;
  if (fd < 0 || fstat(fd, &facts) != 0 || S_ISREG(facts.st_mode)) return fd;
  close(fd);
  errno = EINVAL;
  if (!S_ISDIR(facts.st_mode)) return -1;
  snprintf(file, sizeof file, "%s/status.json", path);
  fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode))) return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

/* What follows `"name":` in text; the names that are looked for come before anything that others have chosen. */
static const char *value_of(const char *text, const char *name)
{
  char quoted[40];
  int len = snprintf(quoted, sizeof quoted, "\"%s\":", name);
  const char *found = strstr(text, quoted);
  return found ? found + len : NULL;
}

static bool number_of(const char *text, const char *name, double *number)
{
  char *end;
  const char *value = value_of(text, name);
  if (!value) return false;
  *number = strtod(value, &end);
  return end != value && isfinite(*number) && *number >= 0 && *number < 0x1p63;
}

/* Why it stands still: text up to the next quote, or null. */
static void read_stall(const char *text, char out[MG_TAILER_TEXT_SIZE])
{
  const char *value = value_of(text, "stalled");
  if (!value || *value != '"') return;
  size_t len = strcspn(value + 1, "\"\n");
  snprintf(out, MG_TAILER_TEXT_SIZE, "stands still: %.*s", len < 120 ? (int)len : 120, value + 1);
}

static void read_text(const char *text, struct mg_tailer_facts *facts)
{
  double written_us, entries, delivered;
  struct timespec now;
  if (!number_of(text, "time_us", &written_us) || !number_of(text, "lag_entries", &entries) ||
      !number_of(text, "lag_seconds", &facts->lag_seconds) || !number_of(text, "delivered_total", &delivered)) {
    snprintf(facts->trouble, sizeof facts->trouble, "its status file is not one of moongate tail");
    return;
  }
  clock_gettime(CLOCK_REALTIME, &now);
  facts->known = true;
  facts->lag_entries = (uint64_t)entries;
  facts->delivered = (uint64_t)delivered;
  facts->age_s = fmax(0, (double)now.tv_sec + (double)now.tv_nsec / 1e9 - written_us / 1e6);
  if (facts->age_s > MG_TAILER_SILENT_S)
    snprintf(facts->trouble, sizeof facts->trouble, "has said nothing for %.0f seconds", facts->age_s);
  else
    read_stall(text, facts->trouble);
}

void mg_tailer_read(const char *path, struct mg_tailer_facts *facts)
{
  char text[FILE_BYTES_MAX];
  *facts = (struct mg_tailer_facts){0};
  int fd = open_file(path);
  ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (len < 0) snprintf(facts->trouble, sizeof facts->trouble, "its status cannot be read: %s", strerror(errno));
  if (fd >= 0) close(fd);
  if (len < 0) return;
  text[len] = '\0';
  read_text(text, facts);
}
