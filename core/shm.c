/* shm.c - the shared memory of shm.h: a header, one cell per worker slot, a table of targets.
 * Owns: the mapping and its descriptor.   May call: err, mem, libc.   Never: lock, free a cell, store a pointer.
 * Thread: any; mg_shm_target and mg_target_publish only in the master, on one thread. */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

enum {
  SHM_BYTES = 1 << 30, /* sparse: only what is touched takes memory */
  TARGETS_MAX = 1 << 15,
  TARGET_SLOTS = 1 << 16, /* a power of two, at least twice TARGETS_MAX, so that probing is short and ends */
  READ_TRIES_MAX = 10000
};

static const uint64_t layout_magic = 0x316d68732d676d01; /* "\1mg-shm1", changed with the layout */

/* The whole layout. Zero bytes, which a fresh memfd holds, are its valid empty state. */
struct layout {
  uint64_t magic;
  uint64_t size; /* of this struct: two builds that disagree do not share */
  uint32_t target_count;
  _Atomic uint32_t
      slots[TARGET_SLOTS]; /* target number + 1, 0 for empty; stored with release once the key is written */
  struct mg_worker_cell workers[MG_WORKERS_MAX];
  struct mg_target_cell targets[TARGETS_MAX];
};

_Static_assert(sizeof(struct layout) <= SHM_BYTES, "the layout fits the mapping");
_Static_assert(sizeof(struct sockaddr_storage) % sizeof(uint64_t) == 0, "addresses are copied by words");

static struct layout *layout_of(const struct mg_shm *shm)
{
  return (struct layout *)(void *)shm->base;
}

static int map(struct mg_shm *shm, int fd)
{
  void *base = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return MG_EINTERNAL;
  *shm = (struct mg_shm){.base = base, .fd = fd};
  return 0;
}

int mg_shm_create(struct mg_shm *shm)
{
  int fd = memfd_create("moongate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return MG_EINTERNAL;
  /* Sealed in size: a worker that went wrong cannot shrink it under the others' feet. */
  if (ftruncate(fd, SHM_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
      map(shm, fd) < 0) {
    int why = errno;
    close(fd);
    errno = why;
    return MG_EINTERNAL;
  }
  struct layout *layout = layout_of(shm);
  layout->magic = layout_magic;
  layout->size = sizeof *layout;
  return 0;
}

int mg_shm_attach(struct mg_shm *shm, int fd)
{
  struct stat facts;
  if (fstat(fd, &facts) < 0) return MG_EINTERNAL;
  if (facts.st_size != SHM_BYTES) {
    errno = EINVAL;
    return MG_EINTERNAL;
  }
  if (map(shm, fd) < 0) return MG_EINTERNAL;
  const struct layout *layout = layout_of(shm);
  if (layout->magic == layout_magic && layout->size == sizeof *layout) return 0;
  munmap(shm->base, SHM_BYTES);
  *shm = (struct mg_shm){.fd = -1};
  errno = EINVAL;
  return MG_EINTERNAL;
}

void mg_shm_detach(struct mg_shm *shm)
{
  if (!shm->base) return;
  munmap(shm->base, SHM_BYTES);
  close(shm->fd);
  *shm = (struct mg_shm){.fd = -1};
}

struct mg_worker_cell *mg_shm_worker(const struct mg_shm *shm, unsigned slot)
{
  MG_ASSERT(slot < MG_WORKERS_MAX);
  return &layout_of(shm)->workers[slot];
}

static uint32_t key_hash(struct mg_str key)
{
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < key.len; i++) hash = (hash ^ (uint8_t)key.ptr[i]) * 16777619u;
  return hash;
}

/* Walks the key's probe sequence to its cell, or to the empty slot where it belongs (*slot). */
static struct mg_target_cell *probe(const struct mg_shm *shm, struct mg_str key, uint32_t *slot)
{
  struct layout *layout = layout_of(shm);
  for (*slot = key_hash(key) % TARGET_SLOTS;; *slot = (*slot + 1) % TARGET_SLOTS) {
    uint32_t number = atomic_load_explicit(&layout->slots[*slot], memory_order_acquire);
    if (!number) return NULL;
    MG_ASSERT(number <= TARGETS_MAX);
    struct mg_target_cell *cell = &layout->targets[number - 1];
    if (strlen(cell->key) == key.len && memcmp(cell->key, key.ptr, key.len) == 0) return cell;
  }
}

struct mg_target_cell *mg_shm_find_target(const struct mg_shm *shm, struct mg_str key)
{
  uint32_t slot;
  return probe(shm, key, &slot);
}

struct mg_target_cell *mg_shm_target(struct mg_shm *shm, struct mg_str key)
{
  struct layout *layout = layout_of(shm);
  uint32_t slot;
  struct mg_target_cell *cell = probe(shm, key, &slot);
  if (cell) return cell;
  if (layout->target_count == TARGETS_MAX || key.len >= sizeof cell->key) return NULL;
  cell = &layout->targets[layout->target_count++];
  memcpy(cell->key, key.ptr, key.len);
  atomic_store_explicit(&layout->slots[slot], layout->target_count, memory_order_release);
  return cell;
}

/* The words of an address list, as both sides of the seqlock copy them: release and acquire on each keep them between
 * the two looks at the version without a fence. */
typedef uint64_t __attribute__((may_alias)) word;

void mg_target_publish(struct mg_target_cell *cell, const struct sockaddr_storage *addresses, unsigned count)
{
  if (count > MG_TARGET_ADDRESSES_MAX) count = MG_TARGET_ADDRESSES_MAX;
  uint32_t version =
      atomic_load_explicit(&cell->version, memory_order_relaxed) | 1; /* a writer that died left it odd */
  atomic_store_explicit(&cell->version, version, memory_order_relaxed);
  __atomic_store_n(&cell->address_count, count, __ATOMIC_RELEASE);
  const word *from = (const word *)(const void *)addresses;
  word *to = (word *)(void *)cell->addresses;
  for (size_t i = 0; i < count * sizeof *addresses / sizeof(word); i++)
    __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
  atomic_store_explicit(&cell->version, version + 1, memory_order_release);
}

unsigned mg_target_addresses(const struct mg_target_cell *cell, struct sockaddr_storage out[MG_TARGET_ADDRESSES_MAX])
{
  const word *from = (const word *)(const void *)cell->addresses;
  word *to = (word *)(void *)out;
  for (int tries = 0; tries < READ_TRIES_MAX; tries++) {
    uint32_t version = atomic_load_explicit(&cell->version, memory_order_acquire);
    unsigned count = __atomic_load_n(&cell->address_count, __ATOMIC_ACQUIRE);
    if (version % 2 == 0 && count <= MG_TARGET_ADDRESSES_MAX) {
      for (size_t i = 0; i < count * sizeof *out / sizeof(word); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
      if (atomic_load_explicit(&cell->version, memory_order_relaxed) == version) return count;
    }
    sched_yield(); /* the master was interrupted while writing */
  }
  return 0; /* it died while writing; so will this worker, soon */
}
