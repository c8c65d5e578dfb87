/* embedded.c - the table of files that the build makes.
 * Owns: nothing.   May call: mem.   Never: read the disk.   Thread: any. */
#include "embedded.h"

/* Ended by a NULL name. */
struct embedded {
  const char *name;
  const char *bytes;
  uint64_t size;
};
extern const struct embedded mg_embedded_files[];

struct mg_str mg_embedded(const char *name)
{
  for (const struct embedded *file = mg_embedded_files; file->name; file++)
    if (strcmp(file->name, name) == 0) return mg_str(file->bytes, file->size);
  return (struct mg_str){0};
}
