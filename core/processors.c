/* processors.c - affinity and cgroup quota as a number of processors.
 * Owns: nothing.   May call: libc.   Never: fail; what cannot be read does not limit.   Thread: any. */
#include "processors.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 256, PATH_SIZE = 4096 };

static bool read_text(const char *path, char out[TEXT_SIZE])
{
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool read = fgets(out, TEXT_SIZE, file) != NULL;
  fclose(file);
  return read;
}

/* Processors that quota per period stands for, at least 1; 0 for no limit. */
static unsigned whole_processors(long long quota, long long period)
{
  if (quota <= 0 || period <= 0) return 0;
  long long count = quota / period;
  return count < 1 ? 1 : count > INT_MAX ? INT_MAX : (unsigned)count;
}

static unsigned quota_v2(const char *folder)
{
  char path[PATH_SIZE], text[TEXT_SIZE];
  long long quota, period;
  if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path || !read_text(path, text)) return 0;
  return sscanf(text, "%lld %lld", &quota, &period) == 2 ? whole_processors(quota, period) : 0; /* "max" is no limit */
}

static unsigned quota_v1(const char *folder)
{
  char path[PATH_SIZE], quota[TEXT_SIZE], period[TEXT_SIZE];
  if (snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder) >= (int)sizeof path || !read_text(path, quota))
    return 0;
  if (snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder) >= (int)sizeof path || !read_text(path, period))
    return 0;
  return whole_processors(atoll(quota), atoll(period));
}

static unsigned smaller(unsigned a, unsigned b)
{
  return a == 0 ? b : b == 0 || a < b ? a : b;
}

/* The smallest quota from root/path up to root. A path that is not visible here (another namespace's) does
 * not limit. */
static unsigned quota_along(const char *root, const char *path, unsigned (*quota)(const char *folder))
{
  char folder[PATH_SIZE];
  size_t root_len = strlen(root);
  if (snprintf(folder, sizeof folder, "%s%s", root, path) >= (int)sizeof folder) return 0;
  unsigned least = 0;
  for (;;) {
    least = smaller(least, quota(folder));
    char *slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < root_len) return least;
    *slash = '\0';
  }
}

/* True if the comma-separated list holds "cpu". */
static bool lists_cpu(const char *controllers)
{
  for (const char *at = controllers; (at = strstr(at, "cpu")); at += 3)
    if ((at == controllers || at[-1] == ',') && (at[3] == ',' || at[3] == '\0')) return true;
  return false;
}

unsigned mg_processors_quota(const char *membership, const char *root)
{
  FILE *file = fopen(membership, "re");
  if (!file) return 0;
  unsigned least = 0;
  char line[PATH_SIZE], hierarchy[PATH_SIZE];
  while (fgets(line, sizeof line, file)) { /* "<id>:<controllers>:<path>\n"; version 2 has no controllers */
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    controllers++;
    if (*controllers == '\0')
      least = smaller(least, quota_along(root, path, quota_v2));
    else if (lists_cpu(controllers) &&
             snprintf(hierarchy, sizeof hierarchy, "%s/%s", root, controllers) < (int)sizeof hierarchy)
      least = smaller(least, quota_along(hierarchy, path, quota_v1));
  }
  fclose(file);
  return least;
}

unsigned mg_processors(void)
{
  cpu_set_t set;
  long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  unsigned allowed = count < 1 ? 1 : (unsigned)count;
  return smaller(allowed, mg_processors_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
}
