/* process_facts.c - /proc, read.
 * Owns: nothing.   May call: libc.   Never: keep a file open.   Thread: any. */
#include "process_facts.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Since Linux 6.2 the folder's size is its number of entries, which saves walking through thousands of them. */
static bool count_descriptors(pid_t pid, uint64_t *count)
{
  char path[64];
  struct stat facts;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  if (stat(path, &facts) != 0) return false;
  *count = (uint64_t)facts.st_size;
  if (*count) return true;
  DIR *folder = opendir(path);
  if (!folder) return false;
  while (readdir(folder)) ++*count;
  closedir(folder);
  *count -= *count < 2 ? *count : 2; /* "." and ".." */
  return true;
}

static bool read_stat(pid_t pid, struct mg_process_facts *facts)
{
  char path[64], line[1024];
  unsigned long user, kernel;
  long resident;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t len = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[len] = '\0';
  const char *rest = strrchr(line, ')'); /* the name before it may hold anything */
  if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld",
                      &user, &kernel, &resident) != 3)
    return false;
  facts->cpu_seconds = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
  facts->resident_bytes = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
  return true;
}

bool mg_process_facts(pid_t pid, struct mg_process_facts *facts)
{
  struct rlimit limit;
  if (!count_descriptors(pid, &facts->open_fds) || !read_stat(pid, facts)) return false;
  if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit) != 0) return false;
  facts->max_fds = limit.rlim_cur;
  return true;
}
