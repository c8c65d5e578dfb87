/* space.c - statvfs, asked.
 * Owns: nothing.   May call: libc.   Never: make a folder.   Thread: any. */
#include "space.h"

#include <sys/statvfs.h>

bool mg_space_left(const char *folder, uint64_t *bytes)
{
  struct statvfs facts;
  if (statvfs(folder, &facts) != 0) return false;
  *bytes = (uint64_t)facts.f_bavail * facts.f_frsize;
  return true;
}
