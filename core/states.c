/* states.c - what filters share, in the upper half of shared memory.
 * Owns: that half.   May call: err, mem, libc.   Never: know what a state means, store a pointer.
 * Thread: mg_states_want in the master, on one thread; the others any. */
#include "states.h"

#include <fcntl.h>
#include <sys/random.h>

enum { NAME_BYTES = 64, STATES_MAX = 4096, PAGE_BYTES = 4096 };

static const size_t half_bytes = (size_t)1 << 29; /* where it begins, and how long it is */

/* Where a state lies. One that was given back keeps its room for the next that fits. */
struct entry {
  _Atomic uint32_t used; /* stored with release once the rest is written */
  uint32_t pages;        /* 0: never used */
  uint64_t offset;       /* in this half */
  char name[NAME_BYTES];
};

/* The half's beginning. Zero bytes are the valid empty form. */
struct directory {
  uint64_t seed[2];
  uint64_t end; /* offset behind the last state's room */
  struct entry entries[STATES_MAX];
};

struct wanted {
  struct mg_str current, next;
};

static struct directory *directory_of(const struct mg_shm *shm)
{
  return (struct directory *)(void *)(shm->base + half_bytes);
}

const uint64_t *mg_states_seed(const struct mg_shm *shm)
{
  return directory_of(shm)->seed;
}

void *mg_states_find(const struct mg_shm *shm, struct mg_str name, size_t size)
{
  struct directory *directory = directory_of(shm);
  if (name.len != NAME_BYTES) return NULL;
  for (const struct entry *entry = directory->entries; entry < directory->entries + STATES_MAX; entry++) {
    if (!atomic_load_explicit(&entry->used, memory_order_acquire)) continue;
    if (memcmp(entry->name, name.ptr, NAME_BYTES) != 0) continue;
    return size <= (size_t)entry->pages * PAGE_BYTES ? (uint8_t *)directory + entry->offset : NULL;
  }
  return NULL;
}

/* The seed and the first room are there from the first state on. */
static bool open_directory(struct directory *directory)
{
  if (directory->end) return true;
  if (getrandom(directory->seed, sizeof directory->seed, 0) != sizeof directory->seed) return false;
  directory->end = (sizeof *directory + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  return true;
}

/* A free entry with room for that many pages: one given back that is not much larger, else one with new room. */
static struct entry *take_entry(struct directory *directory, uint64_t pages)
{
  struct entry *fresh = NULL;
  for (struct entry *entry = directory->entries; entry < directory->entries + STATES_MAX; entry++) {
    if (atomic_load_explicit(&entry->used, memory_order_relaxed)) continue;
    if (entry->pages >= pages && entry->pages <= 2 * pages) return entry;
    if (!entry->pages && !fresh) fresh = entry;
  }
  if (!fresh || pages > (half_bytes - directory->end) / PAGE_BYTES) return NULL;
  fresh->pages = (uint32_t)pages;
  fresh->offset = directory->end;
  directory->end += pages * PAGE_BYTES;
  return fresh;
}

static bool make_state(struct mg_shm *shm, struct mg_str name, size_t size)
{
  struct directory *directory = directory_of(shm);
  if (mg_states_find(shm, name, size)) return true;
  if (!size || size > half_bytes || !open_directory(directory)) return false;
  struct entry *entry = take_entry(directory, (size + PAGE_BYTES - 1) / PAGE_BYTES);
  if (!entry) return false;
  memcpy(entry->name, name.ptr, NAME_BYTES);
  atomic_store_explicit(&entry->used, 1, memory_order_release);
  return true;
}

/* --- the bundle's lines ------------------------------------------------------------------------------------------- */

/* The next line's parts; false at the end and where a line is malformed. */
static bool next_line(struct mg_str *lines, struct mg_str *name, size_t *size)
{
  const char *end = lines->len > NAME_BYTES + 1 ? memchr(lines->ptr, '\n', lines->len) : NULL;
  if (!end || end - lines->ptr < NAME_BYTES + 2 || lines->ptr[NAME_BYTES] != ' ') return false;
  *name = mg_str(lines->ptr, NAME_BYTES);
  *size = 0;
  for (const char *digit = lines->ptr + NAME_BYTES + 1; digit < end; digit++) {
    unsigned value = (unsigned)(*digit - '0');
    if (value > 9 || __builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, value, size))
      return false;
  }
  *lines = mg_str(end + 1, lines->len - (size_t)(end + 1 - lines->ptr));
  return true;
}

static bool has_name(struct mg_str lines, struct mg_str wanted)
{
  struct mg_str name;
  size_t size;
  while (next_line(&lines, &name, &size))
    if (mg_str_equal(name, wanted)) return true;
  return false;
}

static void give_back(struct mg_shm *shm, const struct entry *entry)
{
  size_t at = half_bytes + entry->offset, size = (size_t)entry->pages * PAGE_BYTES;
  if (fallocate(shm->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)size) < 0)
    memset(shm->base + at, 0, size);
}

static void drop_unwanted(struct mg_shm *shm, const struct wanted *wanted)
{
  struct directory *directory = directory_of(shm);
  for (struct entry *entry = directory->entries; entry < directory->entries + STATES_MAX; entry++) {
    struct mg_str name = mg_str(entry->name, NAME_BYTES);
    if (!atomic_load_explicit(&entry->used, memory_order_relaxed)) continue;
    if (has_name(wanted->current, name) || has_name(wanted->next, name)) continue;
    give_back(shm, entry);
    atomic_store_explicit(&entry->used, 0, memory_order_release);
  }
}

int mg_states_want(struct mg_shm *shm, struct mg_str current, struct mg_str next, bool alone, struct mg_buf *error)
{
  struct wanted wanted = {current, next};
  struct mg_str name;
  size_t size;
  if (alone) drop_unwanted(shm, &wanted);
  while (next_line(&next, &name, &size)) {
    if (make_state(shm, name, size)) continue;
    mg_buf_printf(error, "shared memory has no room for a limiter or breaker of this configuration (%zu bytes)\n",
                  size);
    return MG_EINTERNAL;
  }
  if (!next.len) return 0;
  mg_buf_printf(error, "the bundle's list of shared states is malformed\n");
  return MG_EINTERNAL;
}
